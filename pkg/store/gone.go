package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// ErrNotGone: only what GitHub no longer lists may be purged.
var ErrNotGone = errors.New("the installation is not gone")

// Parked work is never due: its time is infinity, which keeps it out of every claim's way (P14).

// Presence is what a listing changed.
type Presence struct {
	Gone     int // newly found gone
	Returned int
	Parked   int // rows
	Woken    int // rows
}

// MarkInstallations compares a whole, valid list of installations with what is known (P14): one that is not listed, or that is
// suspended, is gone and its work is parked; one that is back has its work woken. One that was first seen in the last ten
// minutes is left alone: a listing lags. It may run twice.
func (s *Store) MarkInstallations(ctx context.Context, present, suspended []InstallationID) (Presence, error) {
	var p Presence
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		p = Presence{}
		err := tx.QueryRow(ctx, `
			-- name: MarkInstallations
			WITH gone AS (
				UPDATE installation SET gone_at = now() WHERE gone_at IS NULL
					AND (installation_id = ANY ($2::bigint[]) OR (NOT installation_id = ANY ($1::bigint[]) AND created_at < now() - interval '10 minutes')) RETURNING 1
			), returned AS (
				UPDATE installation SET gone_at = NULL WHERE gone_at IS NOT NULL
					AND installation_id = ANY ($1::bigint[]) AND NOT installation_id = ANY ($2::bigint[]) RETURNING 1
			)
			SELECT (SELECT count(*) FROM gone), (SELECT count(*) FROM returned)`, numbersOf(present), numbersOf(suspended)).Scan(&p.Gone, &p.Returned)
		if err != nil {
			return err
		}
		return settlePresence(ctx, tx, 0, &p)
	})
	if err != nil {
		return Presence{}, fmt.Errorf("mark installations: %w", err)
	}
	return p, nil
}

// MarkRepositories is MarkInstallations for the repositories of one installation.
func (s *Store) MarkRepositories(ctx context.Context, i InstallationID, present []RepositoryID) (Presence, error) {
	var p Presence
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		p = Presence{}
		err := tx.QueryRow(ctx, `
			-- name: MarkRepositories
			WITH gone AS (
				UPDATE repository SET gone_at = now() WHERE installation_id = $1 AND gone_at IS NULL
					AND NOT repository_id = ANY ($2::bigint[]) AND updated_at < now() - interval '10 minutes' RETURNING 1
			), returned AS (
				UPDATE repository SET gone_at = NULL WHERE installation_id = $1 AND gone_at IS NOT NULL AND repository_id = ANY ($2::bigint[]) RETURNING 1
			)
			SELECT (SELECT count(*) FROM gone), (SELECT count(*) FROM returned)`, i, numbersOf(present)).Scan(&p.Gone, &p.Returned)
		if err != nil {
			return err
		}
		return settlePresence(ctx, tx, i, &p)
	})
	if err != nil {
		return Presence{}, fmt.Errorf("mark repositories of installation %d: %w", i, err)
	}
	return p, nil
}

func numbersOf[T ~int64](ids []T) []int64 {
	numbers := make([]int64, len(ids))
	for n, id := range ids {
		numbers[n] = int64(id)
	}
	return numbers
}

// parkable are the queues: the table, when a row of it is due, and which of its rows are work.
var parkable = []struct{ table, due, work string }{
	{"evaluation", "available_at", "true"},
	{"head", "invalidation_available_at", "invalidated_generation < generation"},
	{"authority", "available_at", "true"},
}

// goneRow: the target of a row w is gone.
const goneRow = `(EXISTS (SELECT FROM installation i WHERE i.installation_id = w.installation_id AND i.gone_at IS NOT NULL)
	OR EXISTS (SELECT FROM repository r WHERE r.installation_id = w.installation_id AND r.repository_id = w.repository_id AND r.gone_at IS NOT NULL))`

// settlePresence parks what belongs to the gone and wakes what is parked and does not, of one installation or (0) of all.
func settlePresence(ctx context.Context, tx pgx.Tx, of InstallationID, p *Presence) error {
	for _, q := range parkable {
		parked, err := tx.Exec(ctx, fmt.Sprintf(`
			-- name: ParkGone
			UPDATE %[1]s w SET %[2]s = 'infinity' WHERE %[3]s AND %[2]s <> 'infinity' AND ($1::bigint = 0 OR w.installation_id = $1::bigint) AND (
				w.installation_id IN (SELECT installation_id FROM installation WHERE gone_at IS NOT NULL)
				OR (w.installation_id, w.repository_id) IN (SELECT installation_id, repository_id FROM repository WHERE gone_at IS NOT NULL))`, q.table, q.due, q.work), of)
		if err != nil {
			return fmt.Errorf("park %s: %w", q.table, err)
		}
		woken, err := tx.Exec(ctx, fmt.Sprintf(`
			-- name: WakeReturned
			UPDATE %[1]s w SET %[2]s = now() WHERE %[2]s = 'infinity' AND ($1::bigint = 0 OR w.installation_id = $1::bigint) AND NOT %[3]s`, q.table, q.due, goneRow), of)
		if err != nil {
			return fmt.Errorf("wake %s: %w", q.table, err)
		}
		p.Parked += int(parked.RowsAffected())
		p.Woken += int(woken.RowsAffected())
	}
	return nil
}

// wakeInstallation wakes the parked work of an installation that an event has just shown to be back.
func wakeInstallation(ctx context.Context, tx pgx.Tx, i InstallationID) error {
	for _, q := range parkable {
		if _, err := tx.Exec(ctx, fmt.Sprintf(`
			-- name: WakeInstallation
			UPDATE %[1]s w SET %[2]s = now() WHERE installation_id = $1 AND %[2]s = 'infinity' AND NOT %[3]s`, q.table, q.due, goneRow), i); err != nil {
			return fmt.Errorf("wake %s: %w", q.table, err)
		}
	}
	return nil
}

// purgeBatch is how many rows one statement of a purge removes.
const purgeBatch = 5000

// PurgeInstallation removes everything but the decisions of an installation that is gone (P14): they are an append-only record
// and age by their own retention. It returns how many rows it removed, and may run again where it was interrupted. The owner's
// role runs it. Errors: ErrNotFound, ErrNotGone.
func (s *Store) PurgeInstallation(ctx context.Context, i InstallationID) (removed int, err error) {
	var gone bool
	err = s.queryOne(ctx, `
		-- name: IsGone
		SELECT gone_at IS NOT NULL FROM installation WHERE installation_id = $1`, []any{i}, &gone)
	if err = rowError(err, ErrNotFound, "purge installation %d", i); err != nil {
		return 0, err
	}
	if !gone {
		return 0, fmt.Errorf("purge installation %d: %w", i, ErrNotGone)
	}
	for _, table := range []string{"evaluation", "authority", "delivery", "delivery_gap", "basis", "pull", "merge_group", "head", "repository", "installation"} {
		for {
			var n int
			err := s.queryOne(ctx, fmt.Sprintf(`
				-- name: PurgeInstallation
				WITH old AS (SELECT ctid FROM %[1]s WHERE installation_id = $1
					AND EXISTS (SELECT FROM installation WHERE installation_id = $1 AND gone_at IS NOT NULL) LIMIT $2),
				removed AS (DELETE FROM %[1]s USING old WHERE %[1]s.ctid = old.ctid RETURNING 1)
				SELECT count(*) FROM removed`, table), []any{i, purgeBatch}, &n)
			if err != nil {
				return removed, fmt.Errorf("purge %s of installation %d: %w", table, i, err)
			}
			removed += n
			if n < purgeBatch {
				break
			}
		}
	}
	return removed, nil
}
