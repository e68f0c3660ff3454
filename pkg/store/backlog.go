package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// LaneBacklog is what waits in one lane of one queue.
type LaneBacklog struct {
	Lane Lane
	// Due could be claimed now, Leased is being worked, Waiting is due later (backoff, or a recheck).
	Due, Leased, Waiting int
	// Parked has a target that is gone (P14).
	Parked int
	// OldestAge is the age of the oldest trigger that is still unanswered; rechecks do not count.
	OldestAge time.Duration
}

// ReadInvalidationBacklog counts heads whose newest generation is not invalidated yet, by lane.
func (s *Store) ReadInvalidationBacklog(ctx context.Context) ([]LaneBacklog, error) {
	return s.backlog(ctx, `
		-- name: ReadInvalidationBacklog
		SELECT lane, count(*) FILTER (WHERE invalidation_expires_at IS NULL AND invalidation_available_at <= now()),
			count(*) FILTER (WHERE invalidation_expires_at IS NOT NULL),
			count(*) FILTER (WHERE invalidation_expires_at IS NULL AND invalidation_available_at > now() AND invalidation_available_at <> 'infinity'),
			count(*) FILTER (WHERE invalidation_expires_at IS NULL AND invalidation_available_at = 'infinity'),
			coalesce(extract(epoch FROM now() - min(requested_at) FILTER (WHERE invalidation_available_at <> 'infinity')), 0)::float8
		FROM head WHERE invalidated_generation < generation GROUP BY lane ORDER BY lane`)
}

// ReadEvaluationBacklog counts pending evaluations, by lane.
func (s *Store) ReadEvaluationBacklog(ctx context.Context) ([]LaneBacklog, error) {
	return s.backlog(ctx, `
		-- name: ReadEvaluationBacklog
		SELECT e.lane, count(*) FILTER (WHERE h.evaluation_expires_at IS NULL AND e.available_at <= now()),
			count(*) FILTER (WHERE h.evaluation_expires_at IS NOT NULL),
			count(*) FILTER (WHERE h.evaluation_expires_at IS NULL AND e.available_at > now() AND e.available_at <> 'infinity'),
			count(*) FILTER (WHERE h.evaluation_expires_at IS NULL AND e.available_at = 'infinity'),
			coalesce(extract(epoch FROM now() - min(e.requested_at) FILTER (WHERE NOT e.recheck AND e.available_at <> 'infinity')), 0)::float8
		FROM (SELECT installation_id, repository_id, head_sha, lane, available_at, requested_at, recheck FROM evaluation
			UNION ALL
			SELECT installation_id, repository_id, head_sha, CASE WHEN recheck THEN 3 ELSE 0 END::smallint, available_at, requested_at, recheck FROM merge_group WHERE waiting
		) e JOIN head h USING (installation_id, repository_id, head_sha) GROUP BY e.lane ORDER BY e.lane`)
}

func (s *Store) backlog(ctx context.Context, sql string) ([]LaneBacklog, error) {
	list, err := queryAll(ctx, s, sql, nil, scanBacklog)
	if err != nil {
		return nil, fmt.Errorf("read backlog: %w", err)
	}
	return list, nil
}

func scanBacklog(row pgx.CollectableRow) (LaneBacklog, error) {
	var b LaneBacklog
	var age float64
	err := row.Scan(&b.Lane, &b.Due, &b.Leased, &b.Waiting, &b.Parked, &age)
	b.OldestAge = time.Duration(age * float64(time.Second))
	return b, err
}
