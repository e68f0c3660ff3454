package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// RepositoryRef is one repository an installation reaches.
type RepositoryRef struct {
	ID       RepositoryID
	FullName string // lower-cased route (RG-035)
}

// SplitInstallation turns an installation-wide change into one repository-wide row each (RG-212) and finishes the installation
// row, in one transaction: the installation row blocks publication until every repository row exists (RG-214).
// When a newer change arrived during the pass, the row stays and starts again (P8). Errors: ErrLeaseLost. It may run twice.
//
// It writes neither the epoch nor the installation's row: the event that is being split advanced them when it was accepted.
func (s *Store) SplitInstallation(ctx context.Context, a Authority, repos []RepositoryRef) error {
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		if err := lockAuthority(ctx, tx, a); err != nil {
			return err
		}
		if err := lockAuthorityQueue(ctx, tx, a.Installation, "pg_advisory_xact_lock"); err != nil {
			return err
		}
		if err := fenceRepositories(ctx, tx, a, repos); err != nil {
			return err
		}
		return finishPass(ctx, tx, a)
	})
	if err != nil {
		return fmt.Errorf("split %s into %d repositories: %w", a, len(repos), err)
	}
	return nil
}

// lockAuthorityQueue orders a split and the acceptance of narrower changes of one installation: without it a base push that
// is being accepted would not see the repository-wide row that a split is writing, and both would stay (RG-215). Acceptances
// share it; a split has it alone. It is taken after any guard and before any row of the queue.
func lockAuthorityQueue(ctx context.Context, tx pgx.Tx, i InstallationID, lock string) error {
	_, err := tx.Exec(ctx, "SELECT "+lock+"(hashtextextended($1, 0))", fmt.Sprintf("countersign authority queue of installation %d", i))
	return err
}

// fenceRepositories writes every repository-wide row at once: an installation may reach thousands of repositories.
func fenceRepositories(ctx context.Context, tx pgx.Tx, a Authority, repos []RepositoryRef) error {
	ids, names := make([]int64, len(repos)), make([]string, len(repos))
	for i, r := range repos {
		ids[i], names[i] = int64(r.ID), r.FullName
	}
	args := pgx.NamedArgs{
		"installation": a.Installation, "ids": ids, "names": names, "epoch": a.Epoch,
		"delivery": a.DeliveryID, "reason": a.Reason, "traceparent": a.Traceparent,
	}
	for _, q := range []string{`
		-- name: KeepRepositories
		INSERT INTO repository (installation_id, repository_id, full_name)
		SELECT @installation::bigint, id, full_name FROM unnest(@ids::bigint[], @names::text[]) AS r(id, full_name) ORDER BY id
		ON CONFLICT (installation_id, repository_id) DO UPDATE SET full_name = excluded.full_name, updated_at = now()
		WHERE repository.full_name <> excluded.full_name`, `
		-- name: DropCoveredBasesOfInstallation
		DELETE FROM authority WHERE installation_id = @installation AND scope = 'base' AND repository_id = ANY (@ids::bigint[])`, `
		-- name: FenceRepositories
		INSERT INTO authority AS a (installation_id, scope, repository_id, base_ref, lane, epoch, delivery_id, reason, traceparent)
		SELECT @installation::bigint, 'repository', id, '', 1, @epoch::bigint, @delivery::text, @reason::text, @traceparent::text
		FROM unnest(@ids::bigint[]) AS r(id) ORDER BY id` + raiseAuthority,
	} {
		if _, err := tx.Exec(ctx, q, args); err != nil {
			return err // RG-215: the wide row replaces the narrow ones
		}
	}
	return nil
}

// raiseAuthority merges a change into the row that is there: a higher generation, and nobody's lease (RG-229). A parked row is
// woken (RG-228); a pass that has begun keeps its cursor (P8). Pushes merge into the span they cover, whichever of two that
// touch was delivered first; where they do not touch, their order is not known and the span is given up.
const raiseAuthority = `
		ON CONFLICT (installation_id, scope, repository_id, base_ref) DO UPDATE SET
			generation = a.generation + 1, epoch = greatest(a.epoch, excluded.epoch), lane = least(a.lane, excluded.lane),
			before_sha = CASE WHEN a.after_sha = excluded.before_sha THEN a.before_sha WHEN excluded.after_sha = a.before_sha THEN excluded.before_sha ELSE '' END,
			after_sha = CASE WHEN a.after_sha = '' THEN '' WHEN a.after_sha = excluded.before_sha THEN excluded.after_sha WHEN excluded.after_sha = a.before_sha THEN a.after_sha ELSE '' END,
			holder = '', expires_at = NULL, available_at = now(), attempts = 0, last_error = '', parked_at = NULL,
			delivery_id = excluded.delivery_id, reason = excluded.reason, traceparent = excluded.traceparent`
