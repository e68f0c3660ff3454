package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// QueueLiveHead records durable work for a head that a fresh read showed a pull request to be at, where neither the pull
// request's row nor its evaluation knows it yet (RG-134). A read older than what we saw is a lagging replica and queues
// nothing (P5); so does a head already queued (P9). It reports whether it queued. May run twice.
func (s *Store) QueueLiveHead(ctx context.Context, key PullKey, fullName string, fact PullFact, d Delivery, reason string) (bool, error) {
	queued := false
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		queued = false
		var known SHA
		var updated *time.Time
		var waiting bool
		err := tx.QueryRow(ctx, `
			-- name: LockLivePull
			SELECT head_sha, github_updated_at, EXISTS (SELECT FROM evaluation e
				WHERE (e.installation_id, e.repository_id, e.number) = (p.installation_id, p.repository_id, p.number) AND e.head_sha = $4)
			FROM pull p WHERE installation_id = $1 AND repository_id = $2 AND number = $3 FOR UPDATE`,
			key.Installation, key.Repository, key.Number, fact.Head).Scan(&known, &updated, &waiting)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		if waiting || known == fact.Head || fact.UpdatedAt.Before(timeOf(updated)) {
			return nil
		}
		queued = true
		return queuePulls(ctx, tx, queueing{
			Installation: key.Installation, Repository: key.Repository, FullName: fullName, Lane: LaneInteractive,
			DeliveryID: d.ID, Reason: reason, Traceparent: d.Traceparent,
		}, []PullFact{fact})
	})
	if err != nil {
		return false, fmt.Errorf("queue live head of %s: %w", key, err)
	}
	return queued, nil
}

// SetRoute records the full name GitHub now reports for a repository id (D2: the id is the identity, the name a route). May run twice.
func (s *Store) SetRoute(ctx context.Context, installation InstallationID, repository RepositoryID, fullName string) error {
	var ok bool
	err := s.queryOne(ctx, `
		-- name: SetRoute
		INSERT INTO repository (installation_id, repository_id, full_name) VALUES ($1, $2, lower($3))
		ON CONFLICT (installation_id, repository_id) DO UPDATE SET full_name = excluded.full_name, updated_at = now()
		RETURNING true`, []any{installation, repository, fullName}, &ok)
	if err != nil {
		return fmt.Errorf("set route of repository %d: %w", repository, err)
	}
	return nil
}
