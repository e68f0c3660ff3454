package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/countersign/countersign/internal/hook"
)

// ErrSpoiled: the database refused some row of a batch, or did not give a row's lock in time. Nothing of the batch was stored;
// each delivery accepted by itself has an outcome of its own.
var ErrSpoiled = errors.New("a row of the batch was refused")

// batchLockWait is how long a batch waits for a row that somebody else holds. The others in it must not wait for that one.
const batchLockWait = 500 * time.Millisecond

// DirectBatch is a set of deliveries that AcceptBatch may store with one commit. Its zero value is an empty one. Not safe for
// concurrent use.
type DirectBatch struct {
	items []batched
	ids   map[DeliveryID]struct{}
	pulls map[PullKey]int // how many deliveries name it
	heads map[HeadKey]struct{}
}

// batched is one delivery of a batch. A statement can touch a row once, so the second delivery of a pull request is stored by a
// second statement of the same transaction.
type batched struct {
	Delivery
	DirectWork
	round int
}

func (w DirectWork) pull() PullKey { return PullKey{w.Installation, w.Repository, w.Number} }

// named are the heads that a delivery revokes whatever is known of its pull request.
func (w DirectWork) named() []HeadKey {
	keys := []HeadKey{{w.Installation, w.Repository, w.Head}}
	if w.Before != "" && w.Before != w.Head {
		keys = append(keys, HeadKey{w.Installation, w.Repository, w.Before})
	}
	return keys
}

// Add takes a delivery into the batch, or reports false: it must wait for a later one. That is so for a second delivery of one
// id, and for a further delivery of a pull request that names a head which nothing in the batch names: its rows would be locked
// after others' heads, and all who lock take the pull requests first (see lockPulls).
func (b *DirectBatch) Add(d Delivery, w DirectWork) bool {
	if b.ids == nil {
		b.ids, b.pulls, b.heads = map[DeliveryID]struct{}{}, map[PullKey]int{}, map[HeadKey]struct{}{}
	}
	if _, twice := b.ids[d.ID]; twice {
		return false
	}
	round := b.pulls[w.pull()]
	for _, key := range w.named() {
		if _, locked := b.heads[key]; round > 0 && !locked {
			return false
		}
	}
	b.ids[d.ID] = struct{}{}
	b.pulls[w.pull()]++
	for _, key := range w.named() {
		b.heads[key] = struct{}{}
	}
	b.items = append(b.items, batched{d, w, round})
	return true
}

// Len is how many deliveries are in the batch.
func (b *DirectBatch) Len() int { return len(b.items) }

// All gives the deliveries in the order in which they were added.
func (b *DirectBatch) All() iter.Seq2[Delivery, DirectWork] {
	return func(yield func(Delivery, DirectWork) bool) {
		for _, it := range b.items {
			if !yield(it.Delivery, it.DirectWork) {
				return
			}
		}
	}
}

// Touches reports whether a delivery has a pull request or a head in common with the batch: stored at the same time over two
// connections, one would wait for the other's commit.
func (b *DirectBatch) Touches(w DirectWork) bool {
	if b.pulls[w.pull()] > 0 {
		return true
	}
	for _, key := range w.named() {
		if _, ok := b.heads[key]; ok {
			return true
		}
	}
	return false
}

// DirectOutcome is what became of one delivery of a batch.
type DirectOutcome struct {
	Acceptance
	Err error // ErrDeliveryConflict, or the database's when a replay could not be read
}

// AcceptBatch stores the deliveries of a batch with one commit (RG-100 for all of them at once): what is left is what AcceptDirect
// would have left, called for one after the other in the order of their keys. Outcomes are in the order in which the deliveries
// were added. Idempotent by delivery id: it may run again after an error whose commit is not known.
// Errors, for the batch as a whole: ErrSpoiled when it had more than one delivery and might do without one of them; any other
// means that nothing is known to be stored, and that each by itself would have fared the same.
func (s *Store) AcceptBatch(ctx context.Context, b *DirectBatch) ([]DirectOutcome, error) {
	outcomes := make([]DirectOutcome, len(b.items))
	if len(outcomes) == 0 {
		return nil, nil
	}
	fresh, err := s.writeBatch(ctx, b)
	if err != nil {
		if len(b.items) == 1 {
			return nil, fmt.Errorf("accept delivery %s: %w", b.items[0].ID, err)
		}
		if spoils(err) {
			err = fmt.Errorf("%w: %w", ErrSpoiled, err)
		}
		return nil, fmt.Errorf("accept %d deliveries: %w", len(b.items), err)
	}
	for i, it := range b.items {
		if generation, ok := fresh[it.ID]; ok {
			key := HeadKey{it.Installation, it.Repository, it.Head}
			outcomes[i].Acceptance = Acceptance{New: true, Head: key, HeadGeneration: generation, Pending: true}
			continue
		}
		outcomes[i].Acceptance, outcomes[i].Err = s.replayedDirect(ctx, it.Delivery, it.DirectWork)
	}
	return outcomes, nil
}

// spoils: one row may be the reason. A database that is full, shutting down or gone refuses every row.
func spoils(err error) bool {
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) {
		return false
	}
	switch pgErr.Code[:2] {
	case "08", "53", "58", "XX":
		return false
	case "57":
		return pgErr.Code == codeQueryCanceled // the statement's bound: it waited for something
	}
	return true
}

// writeBatch runs one statement a round in one transaction of one round trip, and returns the tokens of the deliveries that
// were new. It leaves nothing behind when it fails, and runs again after a deadlock or a lost race on a key.
func (s *Store) writeBatch(ctx context.Context, b *DirectBatch) (map[DeliveryID]Generation, error) {
	rounds := b.rounds()
	lockWait := "0"
	if len(b.items) > 1 {
		lockWait = fmt.Sprintf("%dms", batchLockWait.Milliseconds())
	}
	var fresh map[DeliveryID]Generation
	err := withRetry(ctx, func() error {
		fresh = make(map[DeliveryID]Generation, len(b.items))
		conn, err := s.acquire(ctx, s.pool)
		if err != nil {
			return err
		}
		defer conn.Release()
		// Statements that are sent together without BEGIN are one transaction, committed before the answer to the last.
		var pipeline pgx.Batch
		pipeline.Queue("SELECT set_config('plan_cache_mode', 'force_generic_plan', true), set_config('lock_timeout', $1, true)", lockWait)
		for _, round := range rounds {
			pipeline.Queue(batchSQL(), directColumns(round)...).Query(func(rows pgx.Rows) error {
				var id DeliveryID
				var generation Generation
				_, err := pgx.ForEachRow(rows, []any{&id, &generation}, func() error {
					fresh[id] = generation
					return nil
				})
				return err
			})
		}
		return conn.SendBatch(ctx, &pipeline).Close()
	})
	return fresh, err
}

// rounds are the statements' deliveries, each sorted by key: everybody locks in that order.
func (b *DirectBatch) rounds() [][]batched {
	var all [][]batched
	for _, it := range b.items {
		if it.round == len(all) {
			all = append(all, nil)
		}
		all[it.round] = append(all[it.round], it)
	}
	for _, round := range all {
		slices.SortStableFunc(round, func(x, y batched) int {
			return cmp.Or(cmp.Compare(x.Installation, y.Installation), cmp.Compare(x.Repository, y.Repository), cmp.Compare(x.Number, y.Number))
		})
	}
	return all
}

// batchSQL is acceptBatchSQL.
func batchSQL() string {
	if hook.Removed(hook.Leaving) {
		return strings.NewReplacer("WHERE before <> ''", "WHERE false", "WHERE w.head_sha <> ''", "WHERE false").Replace(acceptBatchSQL)
	}
	return acceptBatchSQL
}

// directColumns turns deliveries into the arrays that acceptBatchSQL unnests.
func directColumns(round []batched) []any {
	return []any{
		column(round, func(it batched) string { return string(it.ID) }),
		column(round, func(it batched) string { return it.Event }),
		column(round, func(it batched) string { return it.Action }),
		column(round, func(it batched) string { return it.Traceparent }),
		column(round, func(it batched) int64 { return int64(it.Installation) }),
		column(round, func(it batched) string { return it.AccountLogin }),
		column(round, func(it batched) int64 { return int64(it.Repository) }),
		column(round, func(it batched) string { return it.FullName }),
		column(round, func(it batched) int64 { return int64(it.Number) }),
		column(round, func(it batched) string { return string(it.Head) }),
		column(round, func(it batched) string { return string(it.Before) }),
		column(round, func(it batched) string { return it.BaseRef }),
		column(round, func(it batched) string { return it.State }),
		column(round, func(it batched) bool { return it.Merged }),
		column(round, func(it batched) string { return it.Title }),
		column(round, func(it batched) string { return it.AuthorLogin }),
		column(round, func(it batched) *time.Time {
			if it.Watermark.UpdatedAt.IsZero() {
				return nil
			}
			return &it.Watermark.UpdatedAt
		}),
		column(round, func(it batched) int64 { return it.Watermark.ReviewID }),
		column(round, func(it batched) string { return it.Watermark.ReviewState }),
		column(round, func(it batched) string { return it.Reason }),
		int16(LaneInteractive),
	}
}

func column[T any](round []batched, of func(batched) T) []T {
	values := make([]T, len(round))
	for i, it := range round {
		values[i] = of(it)
	}
	return values
}
