package store

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ElectDue is Elect for work that one of several replicas does now and then: it also refuses while the last attempt, whoever
// made it, ended less than every ago. Replicas that ask at their own times then share one rhythm (RG-400). every 0 is Elect.
// One conditional statement by the database's clock. Errors: ErrNoWork when somebody holds it or it is not due.
func (s *Store) ElectDue(ctx context.Context, name, holder string, ttl, every time.Duration) (Term, error) {
	const q = `
		-- name: ElectDue
		INSERT INTO lease AS l (name, token, holder, expires_at)
		VALUES ($1, nextval('lease_token_seq'), $2, now() + make_interval(secs => $3))
		ON CONFLICT (name) DO UPDATE SET token = excluded.token, holder = excluded.holder, expires_at = excluded.expires_at
		WHERE (l.expires_at IS NULL OR l.expires_at < now())
			AND (l.last_attempt_at IS NULL OR l.last_attempt_at <= now() - make_interval(secs => $4))
		RETURNING token, last_success_at`
	term := Term{Name: name}
	var success *time.Time
	err := s.queryOne(ctx, q, []any{name, holder, seconds(ttl), seconds(every)}, &term.Token, &success)
	term.LastSuccess = timeOf(success)
	return term, rowError(err, ErrNoWork, "elect %s", name)
}

// LeaseStatus is what a named lease remembers of its holders' work.
type LeaseStatus struct {
	LastAttempt time.Time // zero: never
	LastSuccess time.Time // zero: never
	LastResult  string    // complete, partial, failure, or "" before the first attempt
}

// ReadLease reads it, for gauges and the console; a lease nobody ever took is the zero LeaseStatus.
func (s *Store) ReadLease(ctx context.Context, name string) (LeaseStatus, error) {
	var attempt, success *time.Time
	var l LeaseStatus
	err := s.queryOne(ctx, `
		-- name: ReadLease
		SELECT last_attempt_at, last_success_at, last_result FROM lease WHERE name = $1`, []any{name}, &attempt, &success, &l.LastResult)
	if err = rowError(err, ErrNotFound, "read lease %s", name); errors.Is(err, ErrNotFound) {
		return LeaseStatus{}, nil
	}
	l.LastAttempt, l.LastSuccess = timeOf(attempt), timeOf(success)
	return l, err
}

// KeepInstallation makes an installation that a listing reported known, so that its rate-limit pause can be kept (RG-145). It
// changes nothing of one that is known but for its login. It may run twice.
func (s *Store) KeepInstallation(ctx context.Context, i InstallationID, accountLogin string) error {
	var ok bool
	err := s.queryOne(ctx, `
		-- name: KeepInstallation
		WITH kept AS (
			INSERT INTO installation AS i (installation_id, account_login) VALUES ($1, $2)
			ON CONFLICT (installation_id) DO UPDATE SET account_login = excluded.account_login
			WHERE excluded.account_login <> '' AND i.account_login <> excluded.account_login
		)
		SELECT true`, []any{i, accountLogin}, &ok)
	if err != nil {
		return fmt.Errorf("keep installation %d: %w", i, err)
	}
	return nil
}
