package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// DecidedHead is a recent decision that was confirmed, with the head it is about.
type DecidedHead struct {
	Head       HeadKey
	FullName   string
	Generation Generation
	Decision   DecisionID
	RunID      int64
	Conclusion string
	SettledAt  time.Time
	// Current: it still is what the head shows, an open pull request is on the head, and its installation may be asked.
	Current bool
}

// NextDecided returns the next so many confirmed decisions, the oldest first, that were confirmed less than window and more than
// rest ago: GitHub needs a moment to show everywhere what was written. It goes on where KeepDriftCursor left off.
func (s *Store) NextDecided(ctx context.Context, window, rest time.Duration, limit int) ([]DecidedHead, error) {
	list, err := queryAll(ctx, s, `
		-- name: NextDecided
		WITH page AS (
			SELECT d.installation_id, d.repository_id, d.head_sha, d.head_generation, d.decision_id, d.check_run_id, d.conclusion, d.settled_at
			FROM decision d WHERE d.outcome = 'confirmed' AND d.settled_at > now() - make_interval(secs => $1) AND d.settled_at < now() - make_interval(secs => $2)
				AND (d.settled_at, d.decision_id) > (coalesce((SELECT settled_at FROM drift_cursor), '-infinity'), coalesce((SELECT decision_id FROM drift_cursor), 0))
			ORDER BY d.settled_at, d.decision_id LIMIT $3
		)
		SELECT p.installation_id, p.repository_id, p.head_sha, coalesce(r.full_name, ''), p.head_generation, p.decision_id, p.check_run_id, p.conclusion, p.settled_at,
			coalesce(h.published_decision_id = p.decision_id AND h.generation = p.head_generation AND h.invalidated_generation = h.generation
				AND h.intent_decision_id IS NULL AND i.gone_at IS NULL AND (i.paused_until IS NULL OR i.paused_until <= now()), false)
			AND EXISTS (SELECT FROM pull WHERE (pull.installation_id, pull.repository_id, pull.head_sha) = (p.installation_id, p.repository_id, p.head_sha) AND state = 'open')
		FROM page p LEFT JOIN head h USING (installation_id, repository_id, head_sha)
			LEFT JOIN repository r USING (installation_id, repository_id) LEFT JOIN installation i USING (installation_id)
		ORDER BY p.settled_at, p.decision_id`, []any{seconds(window), seconds(rest), limit}, func(row pgx.CollectableRow) (DecidedHead, error) {
		var d DecidedHead
		err := row.Scan(&d.Head.Installation, &d.Head.Repository, &d.Head.SHA, &d.FullName, &d.Generation, &d.Decision, &d.RunID, &d.Conclusion, &d.SettledAt, &d.Current)
		return d, err
	})
	if err != nil {
		return nil, fmt.Errorf("list decided heads: %w", err)
	}
	return list, nil
}

// KeepDriftCursor says that everything up to d was compared; the zero DecidedHead begins anew. May run twice.
func (s *Store) KeepDriftCursor(ctx context.Context, d DecidedHead) error {
	var ok bool
	err := s.queryOne(ctx, `
		-- name: KeepDriftCursor
		INSERT INTO drift_cursor (settled_at, decision_id) VALUES (coalesce($1, '-infinity'::timestamptz), $2)
		ON CONFLICT (singleton) DO UPDATE SET settled_at = excluded.settled_at, decision_id = excluded.decision_id RETURNING true`,
		[]any{nullTime(d.SettledAt), d.Decision}, &ok)
	if err != nil {
		return fmt.Errorf("keep the cursor of decided heads: %w", err)
	}
	return nil
}

// RevokeDrift revokes a head on which GitHub shows something else than its decision (P12): every open pull request on it is queued
// at a new head generation, and whoever resets the check looks for other runs of its name. Where the head has moved on meanwhile
// nothing changes. It reports whether it revoked. May run twice.
func (s *Store) RevokeDrift(ctx context.Context, d DecidedHead) (bool, error) {
	revoked := false
	key := []any{d.Head.Installation, d.Head.Repository, d.Head.SHA}
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		revoked = false
		rows, err := tx.Query(ctx, `
			-- name: PullsOfDrifted
			SELECT number, head_sha, base_ref, state, merged, title, author_login, coalesce(github_updated_at, '0001-01-01 00:00:00+00'::timestamptz)
			FROM pull WHERE installation_id = $1 AND repository_id = $2 AND head_sha = $3 AND state = 'open' ORDER BY number LIMIT $4 FOR NO KEY UPDATE`,
			append(key, MaxPullsOnHead)...)
		if err != nil {
			return err
		}
		facts, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (PullFact, error) {
			var f PullFact
			err := row.Scan(&f.Number, &f.Head, &f.BaseRef, &f.State, &f.Merged, &f.Title, &f.AuthorLogin, &f.UpdatedAt)
			return f, err
		})
		if err != nil || len(facts) == 0 {
			return err
		}
		var still bool
		err = tx.QueryRow(ctx, `
			-- name: StillDecided
			SELECT true FROM head WHERE installation_id = $1 AND repository_id = $2 AND head_sha = $3
				AND generation = $4 AND invalidated_generation = $4 AND published_decision_id = $5 AND intent_decision_id IS NULL FOR UPDATE`,
			append(key, d.Generation, d.Decision)...).Scan(&still)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		w := queueing{Installation: d.Head.Installation, Repository: d.Head.Repository, FullName: d.FullName, Lane: LaneInteractive, Reason: "reconcile.drift"}
		if err := queuePulls(ctx, tx, w, facts); err != nil {
			return err
		}
		revoked = true
		_, err = tx.Exec(ctx, `
			-- name: MarkDrifted
			UPDATE head SET drifted_generation = generation WHERE installation_id = $1 AND repository_id = $2 AND head_sha = $3`, key...)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("revoke drifted %s: %w", d.Head, err)
	}
	return revoked, nil
}
