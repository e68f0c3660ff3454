package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// PausedUntil is when an installation's rate-limit pause ends by the database's clock, the zero time when there is none
// (RG-144). It answers in this process's clock, as now plus what remains, so that a skewed clock does not matter.
func (s *Store) PausedUntil(ctx context.Context, installation int64) (time.Time, error) {
	var remains float64
	err := s.queryOne(ctx, `
		-- name: PausedUntil
		SELECT greatest(extract(epoch FROM paused_until - now()), 0)::float8 FROM installation
		WHERE installation_id = $1 AND paused_until > now()`, []any{installation}, &remains)
	if errors.Is(err, pgx.ErrNoRows) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("read pause of installation %d: %w", installation, err)
	}
	return time.Now().Add(time.Duration(remains * float64(time.Second))), nil
}

// Pause makes every replica leave an installation alone for d (RG-145). A longer pause is never shortened. May run twice.
// Errors: ErrNotFound when the installation is not known, which is harmless: nothing is queued for it.
func (s *Store) Pause(ctx context.Context, installation int64, d time.Duration, reason string) error {
	var ok bool
	err := s.queryOne(ctx, `
		-- name: Pause
		UPDATE installation SET paused_until = greatest(paused_until, now() + make_interval(secs => $2)), pause_reason = left($3, 200)
		WHERE installation_id = $1 RETURNING true`, []any{installation, seconds(d), reason}, &ok)
	return rowError(err, ErrNotFound, "pause installation %d", installation)
}
