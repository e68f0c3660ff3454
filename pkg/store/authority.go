package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/countersign/countersign/internal/hook"
)

// Authority is a claimed fan-out: one scope, one generation, one pass over its pages.
type Authority struct {
	Installation   InstallationID
	AccountLogin   string
	Scope          Scope
	Repository     RepositoryID
	FullName       string
	BaseRef        string
	Generation     Generation
	PassGeneration Generation // the generation this pass answers; a newer one starts a new pass when this one is finished (P8)
	Epoch          Epoch
	Page           int // where the pass goes on: 1, or the next of the last AdvancePage
	Token          Token
	Lane           Lane // LaneInteractive: an event asked for it; LaneFanout: a split made it
	Attempts       int
	DeliveryID     DeliveryID
	Reason         string
	Traceparent    string
	RequestedAt    time.Time
	// Tip is the commit that the pushes of a base row left the branch at, "" where that is not known. A payload said so: it is
	// a lower bound for a read, never evidence (P5).
	Tip SHA
}

// String is for errors and logs.
func (a Authority) String() string {
	return fmt.Sprintf("authority installation %d %s repository %d base %q", a.Installation, a.Scope, a.Repository, a.BaseRef)
}

// ClaimAuthority leases a due fan-out: what an event asked for before what a split made, installations in turn (see Draw), and of
// one installation the broadest, then oldest (RG-211). One conditional statement: of two claimants one wins. A pass that has
// recorded something goes on at its cursor (P8); otherwise one begins for the newest generation. Errors: ErrNoWork.
func (s *Store) ClaimAuthority(ctx context.Context, holder string, ttl time.Duration) (Authority, error) {
	d := s.draw(ctx, queueAuthority, authorityLanes)
	var a Authority
	err := s.queryOne(ctx, claimAuthoritySQL(), d.args(holder, ttl), &a.Installation, &a.AccountLogin, &a.Scope, &a.Repository, &a.FullName, &a.BaseRef,
		&a.Generation, &a.PassGeneration, &a.Epoch, &a.Page, &a.Token, &a.Attempts, &a.DeliveryID, &a.Reason, &a.Traceparent, &a.RequestedAt, &a.Tip, &a.Lane)
	if err != nil {
		return a, rowError(err, ErrNoWork, "claim authority")
	}
	s.turns.served(queueAuthority, a.Lane, a.Installation)
	return a, nil
}

func claimAuthoritySQL() string {
	return `
	-- name: ClaimAuthority
	WITH candidate AS (` + inTurn("authority q WHERE", `
		SELECT c.* FROM (VALUES ('installation'), ('repository'), ('base')) AS s(scope) CROSS JOIN LATERAL (
			SELECT a.installation_id, a.scope, a.repository_id, a.base_ref FROM authority a
			WHERE a.lane = l.lane AND a.installation_id = t.installation_id AND a.scope = s.scope
				AND a.available_at <= now() AND (a.expires_at IS NULL OR a.expires_at < now())
			ORDER BY a.available_at, a.repository_id, a.base_ref
			LIMIT 1 FOR UPDATE OF a SKIP LOCKED
		) c LIMIT 1`) + `
	)
	UPDATE authority a SET token = nextval('lease_token_seq'), holder = $1, expires_at = now() + make_interval(secs => $2),
		pass_generation = ` + passGeneration() + `
	FROM candidate c
	WHERE (a.installation_id, a.scope, a.repository_id, a.base_ref) = (c.installation_id, c.scope, c.repository_id, c.base_ref)
	RETURNING a.installation_id, coalesce((SELECT account_login FROM installation WHERE installation_id = a.installation_id), ''),
		a.scope, a.repository_id,
		coalesce((SELECT full_name FROM repository WHERE installation_id = a.installation_id AND repository_id = a.repository_id), ''),
		a.base_ref, a.generation, a.pass_generation, a.epoch, a.cursor_page, a.token, a.attempts, a.delivery_id, a.reason, a.traceparent,
		a.requested_at, a.after_sha, a.lane`
}

// authorityHeld is the condition every later write of a fan-out repeats.
func authorityHeld() string {
	lease := "token = $5 AND expires_at >= now()"
	if hook.Removed(hook.PageFence) {
		lease = "$5::bigint IS NOT NULL"
	}
	return "installation_id = $1 AND scope = $2 AND repository_id = $3 AND base_ref = $4 AND " + lease
}

// passGeneration is the generation that a claimed pass answers: that of the pass which recorded something already, else the newest (P8).
func passGeneration() string {
	if hook.Removed(hook.Cursor) {
		return "a.generation"
	}
	return "CASE WHEN a.pass_generation = 0 OR a.cursor_page = 1 THEN a.generation ELSE a.pass_generation END"
}

func (a Authority) key() []any {
	return []any{a.Installation, a.Scope, a.Repository, a.BaseRef, a.Token}
}

// RenewAuthority extends the lease. Errors: ErrLeaseLost. May run twice.
func (s *Store) RenewAuthority(ctx context.Context, a Authority, ttl time.Duration) error {
	var ok bool
	err := s.queryOne(ctx, `
		-- name: RenewAuthority
		UPDATE authority SET expires_at = now() + make_interval(secs => $6) WHERE `+authorityHeld()+` RETURNING true`,
		append(a.key(), seconds(ttl)), &ok)
	return rowError(err, ErrLeaseLost, "renew %s", a)
}

func lockAuthority(ctx context.Context, tx pgx.Tx, a Authority) error {
	var ok bool
	err := tx.QueryRow(ctx, `
		-- name: LockAuthority
		SELECT true FROM authority WHERE `+authorityHeld()+` FOR UPDATE`, a.key()...).Scan(&ok)
	return rowError(err, ErrLeaseLost, "lock")
}

// finishPass deletes the row when the pass answered its newest generation, else frees it for a new pass from page 1.
func finishPass(ctx context.Context, tx pgx.Tx, a Authority) error {
	if err := wakeAwaiting(ctx, tx, a); err != nil {
		return err
	}
	tag, err := tx.Exec(ctx, `
		-- name: FinishPass
		DELETE FROM authority WHERE `+authorityHeld()+` AND generation = pass_generation`, a.key()...)
	if err != nil || tag.RowsAffected() == 1 {
		return err
	}
	_, err = tx.Exec(ctx, `
		-- name: RestartPass
		UPDATE authority SET pass_generation = 0, cursor_page = 1, holder = '', expires_at = NULL, available_at = now(),
			attempts = 0, last_error = '', parked_at = NULL
		WHERE `+authorityHeld(), a.key()...)
	return err
}

// wakeAwaiting makes due what was put off because of fan-outs that this pass may have been the last of. Waking too much costs one
// look each. The rows are locked in one order: two passes over one repository may end together.
func wakeAwaiting(ctx context.Context, tx pgx.Tx, a Authority) error {
	_, err := tx.Exec(ctx, `
		-- name: WakeAwaiting
		WITH waiting AS (
			SELECT installation_id, repository_id, number FROM evaluation
			WHERE awaits_authority AND installation_id = $1 AND ($2::bigint = 0 OR repository_id = $2)
			ORDER BY repository_id, number FOR UPDATE
		)
		UPDATE evaluation e SET available_at = least(e.available_at, now()), awaits_authority = false
		FROM waiting w WHERE (e.installation_id, e.repository_id, e.number) = (w.installation_id, w.repository_id, w.number)`, a.Installation, a.Repository)
	if err != nil {
		return fmt.Errorf("wake what waited for the fan-out: %w", err)
	}
	return nil
}

// PullFact is a pull request as a listing or a fresh read of GitHub reported it.
type PullFact struct {
	Number      int
	Head        SHA
	BaseRef     string
	State       string
	Merged      bool
	Title       string
	AuthorLogin string
	UpdatedAt   time.Time
}

// AdvancePage records one page of a repository's or base's pull requests: each pull's head generation advances and its
// evaluation is queued at the current epoch (RG-219), and the cursor moves, in one transaction: a crash between two pages
// resumes at the cursor, and no page counts twice. next 0 finishes the pass. Errors: ErrLeaseLost.
func (s *Store) AdvancePage(ctx context.Context, a Authority, fullName string, pulls []PullFact, next int) error {
	return s.advancePage(ctx, a, fullName, next, func(context.Context, pgx.Tx) ([]PullFact, error) { return pulls, nil })
}

// advancePage queues what pick picks once the row is locked.
func (s *Store) advancePage(ctx context.Context, a Authority, fullName string, next int, pick func(context.Context, pgx.Tx) ([]PullFact, error)) error {
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		if err := lockAuthority(ctx, tx, a); err != nil {
			return err
		}
		pulls, err := pick(ctx, tx)
		if err != nil {
			return err
		}
		w := queueing{
			Installation: a.Installation, Repository: a.Repository, FullName: fullName, Lane: LaneFanout,
			DeliveryID: a.DeliveryID, Reason: a.Reason, Traceparent: a.Traceparent,
		}
		if err := queuePulls(ctx, tx, w, pulls); err != nil {
			return err
		}
		if next == 0 {
			return finishPass(ctx, tx, a)
		}
		_, err = tx.Exec(ctx, `
			-- name: MoveCursor
			UPDATE authority SET cursor_page = $6, attempts = 0, last_error = '', parked_at = NULL WHERE `+authorityHeld(), append(a.key(), next)...)
		return err
	})
	if err != nil {
		return fmt.Errorf("advance %s page %d: %w", a, a.Page, err)
	}
	return nil
}

// DeferAuthority frees the lease and makes the row due again after delay; spend says whether it counts as an attempt
// (a rate limit does not, RG-197). Errors: ErrLeaseLost (a newer event already freed it, which is as good).
func (s *Store) DeferAuthority(ctx context.Context, a Authority, delay time.Duration, cause string, spend bool) error {
	var ok bool
	err := s.queryOne(ctx, `
		-- name: DeferAuthority
		UPDATE authority SET available_at = now() + make_interval(secs => $6), last_error = left($7, 1000),
			attempts = attempts + CASE WHEN $8 THEN 1 ELSE 0 END, parked_at = NULL, holder = '', expires_at = NULL
		WHERE `+authorityHeld()+` RETURNING true`, append(a.key(), seconds(delay), cause, spend), &ok)
	return rowError(err, ErrLeaseLost, "defer %s", a)
}
