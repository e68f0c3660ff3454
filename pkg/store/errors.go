package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// The errors a caller may branch on. Every other error of this package is the database's, wrapped with the
// operation and the object; it means "not known to have happened" and is retried.
var (
	// ErrNoWork: nothing is due; wait for a nudge or the next poll.
	ErrNoWork = errors.New("no work is due")
	// ErrNotFound: the row does not exist.
	ErrNotFound = errors.New("row not found")
	// ErrLeaseLost: the lease expired or was granted to somebody else; whatever was under way must not be written.
	ErrLeaseLost = errors.New("lease lost")
	// ErrSuperseded: a newer generation exists; the older work is void (I5).
	ErrSuperseded = errors.New("superseded by a newer generation")
	// ErrGuardTimeout: the publication guard was not free within the given wait (RG-161).
	ErrGuardTimeout = errors.New("publication guard not obtained in time")
	// ErrDeliveryConflict: a delivery id came back with another event or another target (RG-105, RG-106).
	ErrDeliveryConflict = errors.New("delivery id was already used for something else")
	// ErrSchemaMissing: the database was never migrated, or not to the packaged version (RG-442, RG-448).
	ErrSchemaMissing = errors.New("database schema is not the packaged one")
	// ErrSchemaDrifted: the version is right but tables, columns or constraints are not (RG-442).
	ErrSchemaDrifted = errors.New("database schema has drifted")
	// ErrMigrationLocked: another migrator held the lock for longer than the given wait (RG-446).
	ErrMigrationLocked = errors.New("another migration is running")
)

// FenceError says which fence refused a publication; it is errors.Is ErrSuperseded, except for the lease, which is ErrLeaseLost.
type FenceError struct{ Fence Fence }

// Error names the fence.
func (e *FenceError) Error() string { return "fence refused: " + string(e.Fence) }

// Is maps the fence to the sentinel a caller branches on.
func (e *FenceError) Is(target error) bool {
	if e.Fence == FenceLease {
		return target == ErrLeaseLost
	}
	return target == ErrSuperseded
}

// Fence names one of the fences of the architecture page; the set is closed and is used as a metric label.
type Fence string

// The fences that live in Postgres (fences 2, 3 and 4; fence 1 is the evaluator's final read, fence 5 the guard itself).
const (
	FenceLease            Fence = "lease"
	FencePullGeneration   Fence = "pull_generation"
	FenceHeadGeneration   Fence = "head_generation"
	FenceNotInvalidated   Fence = "not_invalidated"
	FenceRunBinding       Fence = "run_binding"
	FenceIntent           Fence = "unconfirmed_intent"
	FenceEpoch            Fence = "authority_epoch"
	FenceAuthorityPending Fence = "authority_pending"
	FenceMergeGroup       Fence = "merge_group"
)

// Fences are all of them.
var Fences = []Fence{
	FenceLease, FencePullGeneration, FenceHeadGeneration, FenceNotInvalidated, FenceRunBinding, FenceIntent, FenceEpoch, FenceAuthorityPending, FenceMergeGroup,
}

// Postgres error codes this package branches on.
const (
	codeUniqueViolation   = "23505"
	codeQueryCanceled     = "57014"
	codeForeignKey        = "23503"
	codeLockNotAvailable  = "55P03"
	codeDeadlock          = "40P01"
	codeSerialization     = "40001"
	codeUndefinedTable    = "42P01"
	codeInsufficientPriv  = "42501"
	maxTransactionRetries = 5
)

func pgCode(err error) string {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		return pgErr.Code
	}
	return ""
}

// retryable reports whether a whole statement or transaction may simply be run again: it left nothing behind.
func retryable(err error) bool {
	switch pgCode(err) {
	case codeDeadlock, codeSerialization, codeUniqueViolation, codeForeignKey:
		return true
	}
	return false
}

// rowError turns "no row" into the named error of the transition.
func rowError(err, none error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, pgx.ErrNoRows) {
		err = none
	}
	return fmt.Errorf(format+": %w", append(args, err)...)
}

// withRetry runs a statement that leaves nothing behind when it fails, again after a deadlock or a lost race on a key.
func withRetry(ctx context.Context, run func() error) error {
	var err error
	for range maxTransactionRetries {
		if err = run(); err == nil || !retryable(err) || ctx.Err() != nil {
			return err
		}
	}
	return err
}

// isLost: somebody else has the row, or a newer generation replaced it.
func isLost(err error) bool { return errors.Is(err, ErrLeaseLost) || errors.Is(err, ErrSuperseded) }
