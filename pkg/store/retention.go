package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Cut is what retention may remove, or has removed, of one chain.
type Cut struct {
	Installation InstallationID
	Through      int64 // the last sequence that goes
	Removed      int
	Bytes        int64 // of evidence, verdict and texts
	// Kept says what stops it before the age would, "" when nothing does.
	Kept string
}

// cutEnd is where a chain may be cut: before the first decision that is young enough to stay, that a head shows or is writing, or
// that a pull request's basis or standing rests on.
const cutEnd = `
	SELECT min(d.sequence) FROM decision d WHERE d.installation_id = $1 AND (d.decided_at >= $2 OR d.outcome = 'intended'
		OR EXISTS (SELECT FROM head h WHERE h.installation_id = d.installation_id AND h.repository_id = d.repository_id AND h.head_sha = d.head_sha
			AND (h.published_decision_id = d.decision_id OR h.intent_decision_id = d.decision_id)))`

// PlanCut says what CutChain would remove of decisions made before a moment. It reads only.
func (s *Store) PlanCut(ctx context.Context, i InstallationID, before time.Time) (Cut, error) {
	c := Cut{Installation: i}
	var shown bool
	err := s.queryOne(ctx, `
		-- name: PlanCut
		WITH stop(sequence) AS (`+cutEnd+`)
		SELECT coalesce(max(d.sequence), 0), count(*)::integer, coalesce(sum(length(d.evidence) + length(d.verdict) + length(d.explanation) + length(d.summary)), 0)::bigint,
			EXISTS (SELECT FROM decision k, stop WHERE k.installation_id = $1 AND k.sequence = stop.sequence AND k.decided_at < $2)
		FROM decision d, stop
		WHERE d.installation_id = $1 AND d.decided_at < $2 AND (stop.sequence IS NULL OR d.sequence < stop.sequence)`, []any{i, before}, &c.Through, &c.Removed, &c.Bytes, &shown)
	if err != nil {
		return Cut{}, fmt.Errorf("plan what to remove of installation %d: %w", i, err)
	}
	if shown {
		c.Kept = "an old decision is still what a check shows; it and everything after it stays"
	}
	return c, nil
}

// CutChain removes decisions made before a moment from the beginning of a chain, and records the checkpoint at which verification
// begins from then on, in one transaction (decision 0172). The owner's role runs it. It may run again; the second removes nothing.
func (s *Store) CutChain(ctx context.Context, i InstallationID, before time.Time) (Cut, error) {
	c := Cut{Installation: i}
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		c = Cut{Installation: i}
		// The chain's tip first, as every append takes it: no decision is added meanwhile.
		var tip int64
		if err := tx.QueryRow(ctx, `
			-- name: LockChain
			SELECT sequence FROM decision_chain WHERE installation_id = $1 FOR UPDATE`, i).Scan(&tip); err != nil {
			return rowError(err, ErrNotFound, "lock the chain")
		}
		err := tx.QueryRow(ctx, `
			-- name: CutChain
			WITH stop(sequence) AS (`+cutEnd+`), gone AS (
				DELETE FROM decision d USING stop AS s
				WHERE d.installation_id = $1 AND d.decided_at < $2 AND (s.sequence IS NULL OR d.sequence < s.sequence)
				RETURNING d.sequence, d.hash, length(d.evidence) + length(d.verdict) + length(d.explanation) + length(d.summary) AS size
			), last AS (SELECT sequence, hash FROM gone ORDER BY sequence DESC LIMIT 1), mark AS (
				INSERT INTO decision_checkpoint (installation_id, sequence, hash, removed, older_than)
				SELECT $1, last.sequence, last.hash, (SELECT count(*) FROM gone), $2 FROM last
			)
			SELECT coalesce((SELECT sequence FROM last), 0), (SELECT count(*) FROM gone)::integer, (SELECT coalesce(sum(size), 0) FROM gone)::bigint`,
			i, before).Scan(&c.Through, &c.Removed, &c.Bytes)
		return err
	})
	if err != nil {
		return Cut{}, fmt.Errorf("remove old decisions of installation %d: %w", i, err)
	}
	return c, nil
}

// Keeping is what one kind of record amounts to.
type Keeping struct {
	What   string
	Rows   int64 // an estimate where it is large
	Bytes  int64 // on disk, indexes and all
	Oldest time.Time
}

// ReadKeeping says how much is kept of what ages.
func (s *Store) ReadKeeping(ctx context.Context) ([]Keeping, error) {
	list, err := queryAll(ctx, s, `
		-- name: ReadKeeping
		SELECT k.what, greatest(c.reltuples, 0)::bigint, pg_total_relation_size(c.oid), k.oldest
		FROM (VALUES
			(1, 'decision', (SELECT min(decided_at) FROM decision)),
			(2, 'delivery', (SELECT min(received_at) FROM delivery)),
			(3, 'delivery_gap', (SELECT min(found_at) FROM delivery_gap)),
			(4, 'head', NULL), (5, 'pull', NULL)
		) AS k(n, what, oldest) JOIN pg_class c ON c.oid = to_regclass('public.' || k.what) ORDER BY k.n`, nil, func(row pgx.CollectableRow) (Keeping, error) {
		var k Keeping
		var oldest *time.Time
		err := row.Scan(&k.What, &k.Rows, &k.Bytes, &oldest)
		k.Oldest = timeOf(oldest)
		return k, err
	})
	if err != nil {
		return nil, fmt.Errorf("read what is kept: %w", err)
	}
	return list, nil
}
