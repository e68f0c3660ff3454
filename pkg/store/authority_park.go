package store

import (
	"context"
	"fmt"
	"time"
)

// ParkAuthority frees the lease of work whose target cannot be reached (gone, removed from the installation, suspended) and
// makes it due after a delay of its own: first, doubled each time in a row, at the most most (RG-228, P14). Failures of
// another kind before it do not count. The row stays, blocks and is counted; a matching event wakes it at once. It returns the
// delay. Errors: ErrLeaseLost.
func (s *Store) ParkAuthority(ctx context.Context, a Authority, first, most time.Duration, cause string) (time.Duration, error) {
	var secs float64
	err := s.queryOne(ctx, `
		-- name: ParkAuthority
		UPDATE authority SET
			available_at = now() + make_interval(secs => least($7::float8, $6::float8 * power(2, CASE WHEN parked_at IS NULL THEN 0 ELSE least(attempts, 30) END))),
			attempts = CASE WHEN parked_at IS NULL THEN 1 ELSE attempts + 1 END, parked_at = coalesce(parked_at, now()),
			last_error = left($8, 1000), holder = '', expires_at = NULL
		WHERE `+authorityHeld()+` RETURNING extract(epoch FROM available_at - now())::float8`,
		append(a.key(), seconds(first), seconds(most), cause), &secs)
	return time.Duration(secs * float64(time.Second)), rowError(err, ErrLeaseLost, "park %s", a)
}

// WakeParked makes parked work due now whose target a listing has just shown to be there again: the installation's own, and that
// of the given repositories (P14). It returns how many rows it woke. It may run twice.
func (s *Store) WakeParked(ctx context.Context, i InstallationID, repositories []RepositoryID) (int, error) {
	ids := make([]int64, len(repositories))
	for n, r := range repositories {
		ids[n] = int64(r)
	}
	var woken int
	err := s.queryOne(ctx, `
		-- name: WakeParked
		WITH woken AS (
			UPDATE authority SET available_at = now()
			WHERE installation_id = $1 AND parked_at IS NOT NULL AND available_at > now()
				AND (scope = 'installation' OR repository_id = ANY ($2::bigint[]))
			RETURNING 1
		)
		SELECT count(*) FROM woken`, []any{i, ids}, &woken)
	if err != nil {
		return 0, fmt.Errorf("wake parked work of installation %d: %w", i, err)
	}
	return woken, nil
}

// FinishAuthority ends a pass that has nothing to queue (an archived repository, the organization's policy repository).
// A newer change that arrived during the pass starts its own. Errors: ErrLeaseLost. It may run twice.
func (s *Store) FinishAuthority(ctx context.Context, a Authority) error {
	err := s.AdvancePage(ctx, a, "", nil, 0)
	if err != nil {
		return fmt.Errorf("finish: %w", err)
	}
	return nil
}

// AuthorityBacklog is what waits for the fan-out, over all installations.
type AuthorityBacklog struct {
	Due     int // nobody holds it and it may be claimed, but for a rate-limit pause of its installation
	Leased  int
	Waiting int // to be retried later
	Parked  int // its target cannot be reached (P14)
	// OldestAge is how long the oldest change that is not parked has waited.
	OldestAge time.Duration
}

// ReadAuthorityBacklog counts it in one statement, for gauges.
func (s *Store) ReadAuthorityBacklog(ctx context.Context) (AuthorityBacklog, error) {
	var b AuthorityBacklog
	var oldest float64
	err := s.queryOne(ctx, `
		-- name: ReadAuthorityBacklog
		SELECT count(*) FILTER (WHERE state = 'due'), count(*) FILTER (WHERE state = 'leased'),
			count(*) FILTER (WHERE state = 'waiting'), count(*) FILTER (WHERE state = 'parked'),
			coalesce(extract(epoch FROM now() - min(requested_at) FILTER (WHERE state <> 'parked')), 0)::float8
		FROM (SELECT requested_at, CASE WHEN expires_at >= now() THEN 'leased' WHEN parked_at IS NOT NULL OR available_at = 'infinity' THEN 'parked'
			WHEN available_at > now() THEN 'waiting' ELSE 'due' END AS state FROM authority) AS a`, nil,
		&b.Due, &b.Leased, &b.Waiting, &b.Parked, &oldest)
	if err != nil {
		return AuthorityBacklog{}, fmt.Errorf("read authority backlog: %w", err)
	}
	b.OldestAge = time.Duration(oldest * float64(time.Second))
	return b, nil
}
