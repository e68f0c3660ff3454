package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/countersign/countersign/internal/hook"
)

// Scope is how far an authority change reaches (RG-210).
type Scope string

// The three scopes, broadest first.
const (
	ScopeInstallation Scope = "installation"
	ScopeRepository   Scope = "repository"
	ScopeBase         Scope = "base"
)

// MaxBaseRefs is how many base refs of one repository may wait by themselves; the next one makes it repository work (RG-216).
const MaxBaseRefs = 100

// AuthorityWork is a change of who may approve, or of what is asked: team, membership, label, policy, base branch.
type AuthorityWork struct {
	Installation InstallationID
	AccountLogin string
	Scope        Scope
	Repository   RepositoryID // 0 at installation scope
	FullName     string
	BaseRef      string // base scope only
	Before       SHA    // base scope only: the commits a push says it moved the branch from and to
	After        SHA
	Reason       string
}

// AcceptAuthority stores an authority webhook. It first takes the publication guard of the scope exclusively, waiting at the
// most guardWait, so that no final Check Run write of that scope interleaves (RG-160…163); at installation scope it advances
// the epoch (RG-166). Idempotent by delivery id. Errors: ErrGuardTimeout (nothing was stored, a redelivery is new, RG-161),
// ErrDeliveryConflict, or the database's (nothing was stored).
func (s *Store) AcceptAuthority(ctx context.Context, d Delivery, w AuthorityWork, guardWait time.Duration) (Acceptance, error) {
	var accepted Acceptance
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		accepted = Acceptance{}
		known, err := replayedAuthority(ctx, tx, d, w)
		if err != nil || known {
			return err
		}
		if err := lockScope(ctx, tx, w, guardWait); err != nil {
			return err
		}
		epoch, err := scopeEpoch(ctx, tx, w)
		if err != nil {
			return err
		}
		if err := enqueueAuthority(ctx, tx, w, epoch, d); err != nil {
			return err
		}
		accepted.New = true
		return insertAuthorityDelivery(ctx, tx, d, w)
	})
	if err != nil {
		return Acceptance{}, fmt.Errorf("accept delivery %s: %w", d.ID, err)
	}
	return accepted, nil
}

func replayedAuthority(ctx context.Context, tx pgx.Tx, d Delivery, w AuthorityWork) (bool, error) {
	var same bool
	err := tx.QueryRow(ctx, `
		-- name: ReplayedAuthority
		SELECT event = $2 AND action = $3 AND installation_id = $4 AND repository_id = $5 AND scope = $6 AND base_ref = $7
		FROM delivery WHERE delivery_id = $1`,
		d.ID, d.Event, d.Action, w.Installation, w.Repository, w.Scope, w.BaseRef).Scan(&same)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err == nil && !same {
		err = ErrDeliveryConflict
	}
	return err == nil, err
}

// lockScope takes the guard's key exclusively for the rest of the transaction. The lock wait replaces the statement timeout (RG-441).
func lockScope(ctx context.Context, tx pgx.Tx, w AuthorityWork, wait time.Duration) error {
	if hook.Removed(hook.Guard) {
		return nil
	}
	key := installationGuardKey(w.Installation)
	if w.Scope != ScopeInstallation {
		key = repositoryGuardKey(w.Installation, w.Repository)
	}
	_, err := tx.Exec(ctx, "SELECT set_config('lock_timeout', $1, true), set_config('statement_timeout', '0', true)", fmt.Sprintf("%dms", max(wait.Milliseconds(), 1)))
	if err != nil {
		return err
	}
	if _, err = tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", key); err != nil {
		if pgCode(err) == codeLockNotAvailable {
			return ErrGuardTimeout
		}
		return err
	}
	_, err = tx.Exec(ctx, "SELECT set_config('lock_timeout', '0', true), set_config('statement_timeout', $1, true)", fmt.Sprintf("%dms", max(wait.Milliseconds(), 3000)))
	return err
}

// scopeEpoch makes the installation known and returns its epoch, advanced when the change is installation-wide: also that of
// an installation that was not known, whose epoch everybody took for 1.
func scopeEpoch(ctx context.Context, tx pgx.Tx, w AuthorityWork) (Epoch, error) {
	advance := 0
	if w.Scope == ScopeInstallation {
		advance = 1
	}
	var epoch Epoch
	var gone bool
	err := tx.QueryRow(ctx, `
		-- name: WasGone
		SELECT EXISTS (SELECT FROM installation WHERE installation_id = $1 AND gone_at IS NOT NULL)`, w.Installation).Scan(&gone)
	if err != nil {
		return 0, err
	}
	err = tx.QueryRow(ctx, `
		-- name: AdvanceEpoch
		INSERT INTO installation AS i (installation_id, account_login, authority_epoch) VALUES ($1, $2, 1 + $3::bigint)
		ON CONFLICT (installation_id) DO UPDATE SET
			authority_epoch = i.authority_epoch + $3,
			account_login = CASE WHEN excluded.account_login <> '' THEN excluded.account_login ELSE i.account_login END,
			gone_at = NULL
		RETURNING authority_epoch`, w.Installation, w.AccountLogin, advance).Scan(&epoch)
	if err == nil && gone {
		err = wakeInstallation(ctx, tx, w.Installation) // it spoke, so it is back (P14)
	}
	if err != nil || w.Repository == 0 || w.FullName == "" {
		return epoch, err
	}
	_, err = tx.Exec(ctx, `
		-- name: KeepRepository
		INSERT INTO repository (installation_id, repository_id, full_name) VALUES ($1, $2, $3)
		ON CONFLICT (installation_id, repository_id) DO UPDATE SET full_name = excluded.full_name, updated_at = now()
		WHERE repository.full_name <> excluded.full_name`, w.Installation, w.Repository, w.FullName)
	return epoch, err
}

// enqueueAuthority coalesces the change into its row. The scope's guard is held exclusively, so counting is safe beside other
// webhooks, and the queue's lock is shared, so it is safe beside a split (RG-215).
func enqueueAuthority(ctx context.Context, tx pgx.Tx, w AuthorityWork, epoch Epoch, d Delivery) error {
	if w.Scope != ScopeInstallation {
		if err := lockAuthorityQueue(ctx, tx, w.Installation, "pg_advisory_xact_lock_shared"); err != nil {
			return err
		}
	}
	if w.Scope == ScopeBase {
		scope, err := baseOrRepository(ctx, tx, w)
		if err != nil {
			return err
		}
		w.Scope = scope
	}
	if w.Scope == ScopeRepository {
		w.BaseRef = ""
		if _, err := tx.Exec(ctx, `
			-- name: DropCoveredBases
			DELETE FROM authority WHERE installation_id = $1 AND scope = 'base' AND repository_id = $2`, w.Installation, w.Repository); err != nil {
			return err // RG-215
		}
	}
	return upsertAuthority(ctx, tx, w, epoch, d)
}

// baseOrRepository decides where a base push goes: into a waiting repository-wide row (RG-218), into its own row (RG-217),
// or, when MaxBaseRefs other refs wait, into a new repository-wide row (RG-216).
func baseOrRepository(ctx context.Context, tx pgx.Tx, w AuthorityWork) (Scope, error) {
	var wide bool
	err := tx.QueryRow(ctx, `
		-- name: BaseOrRepository
		SELECT coalesce(bool_or(scope = 'repository'), false)
			OR (count(*) FILTER (WHERE scope = 'base') >= $4 AND NOT coalesce(bool_or(base_ref = $3), false))
		FROM authority WHERE installation_id = $1 AND repository_id = $2`,
		w.Installation, w.Repository, w.BaseRef, MaxBaseRefs).Scan(&wide)
	if wide {
		return ScopeRepository, err
	}
	return ScopeBase, err
}

// upsertAuthority raises the generation and clears the lease (RG-229); a pass that has begun keeps its cursor (P8).
func upsertAuthority(ctx context.Context, q pgx.Tx, w AuthorityWork, epoch Epoch, d Delivery) error {
	_, err := q.Exec(ctx, `
		-- name: UpsertAuthority
		INSERT INTO authority AS a (installation_id, scope, repository_id, base_ref, epoch, delivery_id, reason, traceparent, before_sha, after_sha)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`+raiseAuthority,
		w.Installation, w.Scope, w.Repository, w.BaseRef, epoch, d.ID, w.Reason, d.Traceparent, w.Before, w.After)
	return err
}

func insertAuthorityDelivery(ctx context.Context, tx pgx.Tx, d Delivery, w AuthorityWork) error {
	_, err := tx.Exec(ctx, `
		-- name: InsertAuthorityDelivery
		INSERT INTO delivery (delivery_id, event, action, installation_id, repository_id, scope, base_ref, traceparent)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
		d.ID, d.Event, d.Action, w.Installation, w.Repository, w.Scope, w.BaseRef, d.Traceparent)
	return err
}
