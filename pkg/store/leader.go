package store

import (
	"context"
	"time"
)

// Term is one elected holder's hold on a named lease.
type Term struct {
	Name  string
	Token Token
	// LastSuccess is when the last complete run ended (RG-416); zero: never.
	LastSuccess time.Time
}

// Elect takes a named lease when it is free or expired (RG-400). One conditional statement. Errors: ErrNoWork when somebody holds it.
func (s *Store) Elect(ctx context.Context, name, holder string, ttl time.Duration) (Term, error) {
	const q = `
		-- name: Elect
		INSERT INTO lease AS l (name, token, holder, expires_at)
		VALUES ($1, nextval('lease_token_seq'), $2, now() + make_interval(secs => $3))
		ON CONFLICT (name) DO UPDATE SET token = excluded.token, holder = excluded.holder, expires_at = excluded.expires_at
		WHERE l.expires_at IS NULL OR l.expires_at < now()
		RETURNING token, last_success_at`
	term := Term{Name: name}
	var success *time.Time
	err := s.queryOne(ctx, q, []any{name, holder, seconds(ttl)}, &term.Token, &success)
	term.LastSuccess = timeOf(success)
	return term, rowError(err, ErrNoWork, "elect %s", name)
}

// RenewTerm extends the lease (RG-408). Errors: ErrLeaseLost. May run twice.
func (s *Store) RenewTerm(ctx context.Context, t Term, ttl time.Duration) error {
	var ok bool
	err := s.queryOne(ctx, `
		-- name: RenewTerm
		UPDATE lease SET expires_at = now() + make_interval(secs => $3)
		WHERE name = $1 AND token = $2 AND expires_at >= now() RETURNING true`, []any{t.Name, t.Token, seconds(ttl)}, &ok)
	return rowError(err, ErrLeaseLost, "renew term %s", t.Name)
}

// ResignTerm frees the lease. result complete|partial|failure is recorded as an attempt; "" records none (RG-418); only
// complete advances the last success (RG-416). Errors: ErrLeaseLost.
func (s *Store) ResignTerm(ctx context.Context, t Term, result string) error {
	var ok bool
	err := s.queryOne(ctx, `
		-- name: ResignTerm
		UPDATE lease SET holder = '', expires_at = NULL,
			last_attempt_at = CASE WHEN $3 <> '' THEN now() ELSE last_attempt_at END,
			last_result = CASE WHEN $3 <> '' THEN $3 ELSE last_result END,
			last_success_at = CASE WHEN $3 = 'complete' THEN now() ELSE last_success_at END
		WHERE name = $1 AND token = $2 AND expires_at >= now() RETURNING true`, []any{t.Name, t.Token, result}, &ok)
	return rowError(err, ErrLeaseLost, "resign term %s", t.Name)
}
