package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/countersign/countersign/internal/hook"
)

// A publication guard is a set of session advisory locks on one connection: shared on the installation, shared on the
// repository, exclusive on (installation, head) — fence 5. Publishers of one installation run side by side (RG-164); an
// authority event takes its scope exclusively and so never interleaves with a final write (RG-163); when the holder's
// process or connection dies, Postgres frees the locks (RG-165).
func installationGuardKey(i InstallationID) string {
	return fmt.Sprintf("countersign guard installation %d", i)
}

func repositoryGuardKey(i InstallationID, r RepositoryID) string {
	return fmt.Sprintf("countersign guard installation %d repository %d", i, r)
}

func headGuardKey(k HeadKey) string {
	return fmt.Sprintf("countersign guard installation %d repository %d head %s", k.Installation, k.Repository, k.SHA)
}

// Guard is held around every write of one head's check run. Its reads and writes use its own connection, so that they
// cannot wait for a connection somebody else needs the guard for (P10). Not safe for concurrent use. Release it once.
type Guard struct {
	store *Store
	conn  *pgxpool.Conn
	key   HeadKey
	leave func() // gives this process's turn back
}

func (s *Store) takeTurn(ctx context.Context, key HeadKey, wait time.Duration) (leave func(), err error) {
	bounded, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	leave, err = s.guardTurns.take(bounded, key)
	if err != nil && ctx.Err() == nil {
		err = ErrGuardTimeout
	}
	return leave, err
}

// AcquireGuard waits at the most wait for the guard of a head. Errors: ErrGuardTimeout, or the database's.
// The order of the locks is the same for everybody: head, repository, installation. The head comes first, so that whoever waits for
// another writer of the same head does not hold up authority events meanwhile (P10); those take one lock and no head's.
func (s *Store) AcquireGuard(ctx context.Context, key HeadKey, wait time.Duration) (*Guard, error) {
	began := time.Now()
	leave, err := s.takeTurn(ctx, key, wait)
	if err != nil {
		return nil, fmt.Errorf("acquire guard of %s: %w", key, err)
	}
	wait = max(wait-time.Since(began), 0)
	bounded, cancel := context.WithTimeout(ctx, wait+s.cfg.ConnectTimeout)
	defer cancel()
	conn, err := s.guards.Acquire(bounded)
	if err != nil {
		leave()
		if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
			err = ErrGuardTimeout // every guard connection is in use
		}
		return nil, fmt.Errorf("acquire guard of %s: %w", key, err)
	}
	g := &Guard{store: s, conn: conn, key: key, leave: leave}
	if err := g.lock(bounded, wait); err != nil {
		g.Release()
		if pgCode(err) == codeLockNotAvailable || (ctx.Err() == nil && bounded.Err() != nil) {
			err = ErrGuardTimeout
		}
		return nil, fmt.Errorf("acquire guard of %s: %w", key, err)
	}
	return g, nil
}

func (g *Guard) lock(ctx context.Context, wait time.Duration) error {
	// The lock wait replaces the statement timeout (RG-441).
	if _, err := g.conn.Exec(ctx, "SELECT set_config('lock_timeout', $1, false), set_config('statement_timeout', '0', false)",
		fmt.Sprintf("%dms", max(wait.Milliseconds(), 1))); err != nil {
		return err
	}
	for _, lock := range []struct{ function, key string }{
		{"pg_advisory_lock", headGuardKey(g.key)},
		{"pg_advisory_lock_shared", repositoryGuardKey(g.key.Installation, g.key.Repository)},
		{"pg_advisory_lock_shared", installationGuardKey(g.key.Installation)},
	} {
		if hook.Removed(hook.Guard) {
			continue
		}
		if _, err := g.conn.Exec(ctx, "SELECT "+lock.function+"(hashtextextended($1, 0))", lock.key); err != nil {
			return err
		}
	}
	_, err := g.conn.Exec(ctx, "SELECT set_config('lock_timeout', '0', false), set_config('statement_timeout', $1, false)",
		fmt.Sprintf("%dms", g.store.cfg.StatementLimit.Milliseconds()))
	return err
}

// Release frees the guard; when that cannot be proved the connection is closed, which frees it too. It ignores the
// caller's cancellation: a guard is never left behind.
func (g *Guard) Release() {
	if g.conn == nil {
		return
	}
	conn := g.conn
	g.conn = nil
	defer g.leave()
	ctx, cancel := context.WithTimeout(context.Background(), g.store.cfg.StatementLimit)
	defer cancel()
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_unlock_all()"); err != nil {
		_ = conn.Hijack().Close(ctx)
		return
	}
	conn.Release()
}

// Head reads the guarded head's row as it is now. Errors: ErrNotFound, or the database's (the guard may be gone with it).
func (g *Guard) Head(ctx context.Context) (HeadState, error) {
	var h HeadState
	err := g.conn.QueryRow(ctx, `
		-- name: GuardedHead
		SELECT `+headStateColumns+` FROM head h WHERE installation_id = $1 AND repository_id = $2 AND head_sha = $3`,
		g.key.Installation, g.key.Repository, g.key.SHA).Scan(h.dest()...)
	return h, rowError(err, ErrNotFound, "read %s", g.key)
}

// HoldsInvalidation proves, inside the guard, that the claim's lease, expiry and generation still stand (RG-183…185).
// Errors: ErrLeaseLost, ErrSuperseded.
func (g *Guard) HoldsInvalidation(ctx context.Context, inv Invalidation) error {
	var lease, generation bool
	err := g.conn.QueryRow(ctx, `
		-- name: HoldsInvalidation
		SELECT coalesce(invalidation_token = $4 AND invalidation_expires_at >= now(), false), generation = $5
		FROM head WHERE installation_id = $1 AND repository_id = $2 AND head_sha = $3`, inv.key()...).Scan(&lease, &generation)
	switch {
	case err != nil:
		return rowError(err, ErrSuperseded, "verify invalidation of %s", g.key)
	case !generation:
		return fmt.Errorf("verify invalidation of %s generation %d: %w", g.key, inv.Generation, ErrSuperseded)
	case !lease:
		return fmt.Errorf("verify invalidation of %s generation %d: %w", g.key, inv.Generation, ErrLeaseLost)
	}
	return nil
}

// BindRun records, inside the guard, that runID is the managed run of the head's generation and was proved unfinished for
// it (P1, P2). posted says that it was newly created, which may happen once a generation. A bound, proved run carries no
// publication: neither intent nor confirmation. Errors: ErrSuperseded when the generation has moved on. May run twice.
func (g *Guard) BindRun(ctx context.Context, generation Generation, runID int64, posted bool) error {
	var ok bool
	err := g.conn.QueryRow(ctx, `
		-- name: BindRun
		UPDATE head SET run_id = $5, run_generation = $4, intent_decision_id = NULL, published_decision_id = NULL,
			posted_generation = CASE WHEN $6 THEN $4 ELSE posted_generation END, updated_at = now()
		WHERE installation_id = $1 AND repository_id = $2 AND head_sha = $3 AND generation = $4 RETURNING true`,
		g.key.Installation, g.key.Repository, g.key.SHA, generation, runID, posted).Scan(&ok)
	return rowError(err, ErrSuperseded, "bind run %d to %s generation %d", runID, g.key, generation)
}

// AdoptRun records, inside the guard, a managed run found on GitHub that this database did not know, or knew another in the place
// of, before anything is proved of it. Errors: ErrSuperseded. May run twice.
func (g *Guard) AdoptRun(ctx context.Context, generation Generation, runID int64) error {
	var ok bool
	err := g.conn.QueryRow(ctx, `
		-- name: AdoptRun
		UPDATE head SET run_id = $5, run_generation = 0, published_decision_id = NULL, updated_at = now()
		WHERE installation_id = $1 AND repository_id = $2 AND head_sha = $3 AND generation = $4 RETURNING true`,
		g.key.Installation, g.key.Repository, g.key.SHA, generation, runID).Scan(&ok)
	return rowError(err, ErrSuperseded, "adopt run %d for %s", runID, g.key)
}

// Posted records, inside the guard and before anything is proved, that a new run exists: a crash right after it finds the run
// by its id instead of posting another (P2). A generation that has moved on meanwhile gets the run too, unproved: GitHub has
// it, and from now on it is the newest. It may run twice. Errors: ErrSuperseded, of a generation that has moved on.
func (g *Guard) Posted(ctx context.Context, generation Generation, runID int64) error {
	var current bool
	err := g.conn.QueryRow(ctx, `
		-- name: Posted
		UPDATE head SET run_id = $5, run_generation = 0, posted_generation = $4, intent_decision_id = NULL,
			published_decision_id = NULL, updated_at = now()
		WHERE installation_id = $1 AND repository_id = $2 AND head_sha = $3 AND (generation = $4 OR coalesce(run_id, 0) < $5)
		RETURNING generation = $4`,
		g.key.Installation, g.key.Repository, g.key.SHA, generation, runID).Scan(&current)
	if err == nil && !current {
		err = pgx.ErrNoRows
	}
	return rowError(err, ErrSuperseded, "record posted run %d of %s", runID, g.key)
}

// inTx runs fn in a transaction of the guard's own connection.
func (g *Guard) inTx(ctx context.Context, fn func(pgx.Tx) error) error {
	return pgx.BeginTxFunc(ctx, g.conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, fn)
}

// HoldsEvaluation proves, inside the guard, that an evaluation's lease, expiry and head generation still stand (RG-255).
// Errors: ErrLeaseLost, ErrSuperseded.
func (g *Guard) HoldsEvaluation(ctx context.Context, ev Evaluation) error {
	var lease, generation bool
	err := g.conn.QueryRow(ctx, `
		-- name: HoldsEvaluation
		SELECT coalesce(evaluation_token = $4 AND evaluation_expires_at >= now(), false), generation = $5
		FROM head WHERE installation_id = $1 AND repository_id = $2 AND head_sha = $3`, ev.key()...).Scan(&lease, &generation)
	switch {
	case err != nil:
		return rowError(err, ErrSuperseded, "verify evaluation of %s", g.key)
	case !generation:
		return fmt.Errorf("verify evaluation of %s generation %d: %w", g.key, ev.Generation, ErrSuperseded)
	case !lease:
		return fmt.Errorf("verify evaluation of %s generation %d: %w", g.key, ev.Generation, ErrLeaseLost)
	}
	return nil
}
