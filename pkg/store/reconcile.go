package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// errRowExists rolls a tentative queueing back (RG-402).
var errRowExists = errors.New("an evaluation row exists")

// EnqueueIdle queues a pull request that nothing is waiting for: its head's generation, the pending revocation and the
// evaluation, in one transaction (RG-401). Where an evaluation row exists neither row nor generation changes (RG-402).
// olderThan is the recheck age: a pull request seen at the same head and evaluated since is left alone (RG-404).
// It reports whether it queued. May run twice.
func (s *Store) EnqueueIdle(ctx context.Context, key PullKey, fullName string, fact PullFact, olderThan time.Duration) (bool, error) {
	queued := false
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		queued = false
		var busy, fresh bool
		err := tx.QueryRow(ctx, `
			-- name: IdlePull
			SELECT EXISTS (SELECT FROM evaluation WHERE installation_id = $1 AND repository_id = $2 AND number = $3 AND NOT recheck),
				EXISTS (SELECT FROM pull WHERE installation_id = $1 AND repository_id = $2 AND number = $3
					AND head_sha = $4 AND state = 'open' AND evaluated_at > now() - make_interval(secs => $5))`,
			key.Installation, key.Repository, key.Number, fact.Head, seconds(olderThan)).Scan(&busy, &fresh)
		if err != nil || busy || fresh {
			return err
		}
		w := queueing{Installation: key.Installation, Repository: key.Repository, FullName: fullName, Lane: LaneReconcile, Reason: "reconcile.scan"}
		before, err := rowGeneration(ctx, tx, key)
		if err != nil {
			return err
		}
		if before != 0 {
			return errRowExists
		}
		if err := queuePulls(ctx, tx, w, []PullFact{fact}); err != nil {
			return err
		}
		queued = true
		return nil
	})
	if errors.Is(err, errRowExists) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("enqueue idle %s: %w", key, err)
	}
	return queued, nil
}

// rowGeneration locks the pull request, also one that is not known yet, so that no other transaction can queue it meanwhile,
// and reads its pending evaluation's generation; 0 means none, or only a recheck. Two statements: the second sees what
// whoever held the lock has committed.
func rowGeneration(ctx context.Context, tx pgx.Tx, key PullKey) (Generation, error) {
	var g Generation
	_, err := tx.Exec(ctx, `
		-- name: ClaimPullRow
		INSERT INTO pull AS p (installation_id, repository_id, number) VALUES ($1, $2, $3)
		ON CONFLICT (installation_id, repository_id, number) DO UPDATE SET generation = p.generation`,
		key.Installation, key.Repository, key.Number)
	if err != nil {
		return 0, err
	}
	err = tx.QueryRow(ctx, `
		-- name: PendingGeneration
		SELECT generation FROM evaluation WHERE installation_id = $1 AND repository_id = $2 AND number = $3 AND NOT recheck`,
		key.Installation, key.Repository, key.Number).Scan(&g)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, nil
	}
	return g, err
}

// PruneDeliveries removes retained deliveries older than age, at most limit at a time; it returns how many. May run twice (RG-405, RG-428).
func (s *Store) PruneDeliveries(ctx context.Context, age time.Duration, limit int) (int, error) {
	return s.prune(ctx, `
		-- name: PruneDeliveries
		WITH old AS (SELECT delivery_id FROM delivery WHERE received_at < now() - make_interval(secs => $1) ORDER BY received_at, delivery_id LIMIT $2),
		gone AS (DELETE FROM delivery d USING old WHERE d.delivery_id = old.delivery_id RETURNING 1)
		SELECT count(*) FROM gone`, age, limit, "deliveries")
}

// PruneHeads removes heads untouched for age whose newest generation is invalidated, that no evaluation and no open pull
// request refers to and nobody holds (RG-406). A pruned head that returns starts at generation 1 with no run bound, and finds
// its run on GitHub again. Merge groups that ended as long ago go before their heads. A head that was ever decided stays as long as its decisions: they name its generations, which must
// not be counted a second time (RG-114). May run twice.
func (s *Store) PruneHeads(ctx context.Context, age time.Duration, limit int) (int, error) {
	if _, err := s.PruneMergeGroups(ctx, age, limit); err != nil {
		return 0, err
	}
	return s.prune(ctx, `
		-- name: PruneHeads
		WITH old AS (
			SELECT h.installation_id, h.repository_id, h.head_sha FROM head h
			WHERE h.updated_at < now() - make_interval(secs => $1) AND h.generation = h.invalidated_generation
				AND h.invalidation_expires_at IS NULL AND h.evaluation_expires_at IS NULL AND h.intent_decision_id IS NULL
				AND NOT EXISTS (SELECT FROM evaluation e WHERE (e.installation_id, e.repository_id, e.head_sha) = (h.installation_id, h.repository_id, h.head_sha))
				AND NOT EXISTS (SELECT FROM pull p WHERE (p.installation_id, p.repository_id, p.head_sha) = (h.installation_id, h.repository_id, h.head_sha) AND p.state = 'open')
				AND NOT EXISTS (SELECT FROM merge_group g WHERE (g.installation_id, g.repository_id, g.head_sha) = (h.installation_id, h.repository_id, h.head_sha))
				AND NOT EXISTS (SELECT FROM delivery d WHERE (d.installation_id, d.repository_id, d.head_sha) = (h.installation_id, h.repository_id, h.head_sha))
				AND NOT EXISTS (SELECT FROM decision d WHERE (d.installation_id, d.repository_id, d.head_sha) = (h.installation_id, h.repository_id, h.head_sha))
			ORDER BY h.updated_at, h.installation_id, h.repository_id, h.head_sha LIMIT $2 FOR UPDATE SKIP LOCKED),
		gone AS (DELETE FROM head h USING old WHERE (h.installation_id, h.repository_id, h.head_sha) = (old.installation_id, old.repository_id, old.head_sha) RETURNING 1)
		SELECT count(*) FROM gone`, age, limit, "heads")
}

func (s *Store) prune(ctx context.Context, sql string, age time.Duration, limit int, what string) (int, error) {
	var n int
	if err := s.queryOne(ctx, sql, []any{seconds(age), limit}, &n); err != nil {
		return 0, fmt.Errorf("prune %s: %w", what, err)
	}
	return n, nil
}
