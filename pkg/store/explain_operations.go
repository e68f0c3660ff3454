package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// LeaseLine is a lease that is held now, or a named one with what it remembers.
type LeaseLine struct {
	What   string // invalidation, evaluation, authority, or a named lease's name
	Target string // a commit, a repository, "" of a named lease
	Holder string
	Ends   time.Time // zero: nobody holds it
	Token  Token
	LeaseStatus
}

// ListLeases lists the named leases and those that workers hold now, at most limit of the latter.
func (s *Store) ListLeases(ctx context.Context, limit int) ([]LeaseLine, error) {
	list, err := queryAll(ctx, s, `
		-- name: ListLeases
		(SELECT name, '', holder, expires_at, token, last_attempt_at, last_success_at, last_result FROM lease ORDER BY name LIMIT 100)
		UNION ALL (SELECT * FROM (
			SELECT 'invalidation', head_sha, invalidation_holder, invalidation_expires_at, invalidation_token, NULL::timestamptz, NULL::timestamptz, '' FROM head
				WHERE invalidated_generation < generation AND invalidation_expires_at IS NOT NULL
			UNION ALL SELECT DISTINCT 'evaluation', h.head_sha, h.evaluation_holder, h.evaluation_expires_at, h.evaluation_token, NULL::timestamptz, NULL::timestamptz, ''
				FROM evaluation e JOIN head h USING (installation_id, repository_id, head_sha) WHERE h.evaluation_expires_at IS NOT NULL
			UNION ALL SELECT 'authority', CASE scope WHEN 'installation' THEN 'installation ' || installation_id ELSE 'repository ' || repository_id END,
				holder, expires_at, token, NULL::timestamptz, NULL::timestamptz, '' FROM authority WHERE expires_at IS NOT NULL
		) AS held ORDER BY 4, 1, 2 LIMIT $1)`, []any{boundedLimit(limit)}, func(row pgx.CollectableRow) (LeaseLine, error) {
		var l LeaseLine
		var ends, attempt, success *time.Time
		err := row.Scan(&l.What, &l.Target, &l.Holder, &ends, &l.Token, &attempt, &success, &l.LastResult)
		l.Ends, l.LastAttempt, l.LastSuccess = timeOf(ends), timeOf(attempt), timeOf(success)
		return l, err
	})
	if err != nil {
		return nil, fmt.Errorf("list leases: %w", err)
	}
	return list, nil
}

// InstallationLine is one installation with what keeps its work, if anything.
type InstallationLine struct {
	Pause
	Epoch        Epoch
	Repositories int
	Open         int // pull requests
}

// ListInstallations lists installations, those whose work something keeps first.
func (s *Store) ListInstallations(ctx context.Context, limit int) ([]InstallationLine, error) {
	list, err := s.installations(ctx, 0, limit)
	if err != nil {
		return nil, fmt.Errorf("list installations: %w", err)
	}
	return list, nil
}

// ReadInstallation is one line of them. Errors: ErrNotFound.
func (s *Store) ReadInstallation(ctx context.Context, i InstallationID) (InstallationLine, error) {
	list, err := s.installations(ctx, i, 1)
	if err == nil && len(list) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return InstallationLine{}, fmt.Errorf("read installation %d: %w", i, err)
	}
	return list[0], nil
}

func (s *Store) installations(ctx context.Context, one InstallationID, limit int) ([]InstallationLine, error) {
	return queryAll(ctx, s, `
		-- name: ListInstallations
		SELECT i.installation_id, i.account_login, CASE WHEN i.paused_until > now() THEN i.paused_until END,
			CASE WHEN i.paused_until > now() THEN i.pause_reason ELSE '' END, i.held_at, i.held_by, i.held_reason, i.gone_at, i.authority_epoch,
			(SELECT count(*) FROM repository r WHERE r.installation_id = i.installation_id AND r.gone_at IS NULL)::integer,
			(SELECT count(*) FROM pull p WHERE p.installation_id = i.installation_id AND p.state = 'open')::integer
		FROM installation i WHERE $2 = 0 OR i.installation_id = $2
		ORDER BY i.held_at IS NULL, coalesce(i.paused_until, '-infinity') <= now(), i.gone_at IS NULL, i.installation_id LIMIT $1`,
		[]any{boundedLimit(limit), one}, func(row pgx.CollectableRow) (InstallationLine, error) {
			var l InstallationLine
			var until, held, gone *time.Time
			err := row.Scan(&l.Installation, &l.Account, &until, &l.Reason, &held, &l.HeldBy, &l.HeldReason, &gone, &l.Epoch, &l.Repositories, &l.Open)
			l.Until, l.HeldAt, l.GoneAt = timeOf(until), timeOf(held), timeOf(gone)
			return l, err
		})
}

// DatabaseNow reads the database's clock, for ages of what it stamped.
func (s *Store) DatabaseNow(ctx context.Context) (time.Time, error) {
	var now time.Time
	if err := s.queryOne(ctx, "SELECT now()", nil, &now); err != nil {
		return time.Time{}, fmt.Errorf("read the database's clock: %w", err)
	}
	return now, nil
}
