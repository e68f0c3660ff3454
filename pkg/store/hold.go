package store

import "context"

// HoldInstallation pauses an installation by an operator's order (decision 0171): nothing of it is evaluated until
// ReleaseInstallation; deliveries are accepted and revoked all the same. A second hold keeps the first one's time and takes the new
// reason. It waits for no publication that is under way. Errors: ErrNotFound.
func (s *Store) HoldInstallation(ctx context.Context, i InstallationID, by, reason string) error {
	var ok bool
	err := s.queryOne(ctx, `
		-- name: HoldInstallation
		UPDATE installation SET held_at = coalesce(held_at, now()), held_by = left($2, 200), held_reason = left($3, 1000)
		WHERE installation_id = $1 RETURNING true`, []any{i, by, reason}, &ok)
	return rowError(err, ErrNotFound, "hold installation %d", i)
}

// ReleaseInstallation ends an operator's hold; was says whether there was one. It does not end a rate-limit pause. May run twice.
// Errors: ErrNotFound.
func (s *Store) ReleaseInstallation(ctx context.Context, i InstallationID) (was bool, err error) {
	err = s.queryOne(ctx, `
		-- name: ReleaseInstallation
		WITH before AS (SELECT installation_id, held_at FROM installation WHERE installation_id = $1 FOR UPDATE)
		UPDATE installation n SET held_at = NULL, held_by = '', held_reason = '' FROM before b
		WHERE n.installation_id = b.installation_id RETURNING b.held_at IS NOT NULL`, []any{i}, &was)
	return was, rowError(err, ErrNotFound, "release installation %d", i)
}

// FindInstallation finds an installation by its account's login, the one that is not gone first. Errors: ErrNotFound.
func (s *Store) FindInstallation(ctx context.Context, account string) (InstallationID, error) {
	var i InstallationID
	err := s.queryOne(ctx, `
		-- name: FindInstallation
		SELECT installation_id FROM installation WHERE lower(account_login) = lower($1) AND account_login <> ''
		ORDER BY gone_at IS NOT NULL, installation_id DESC LIMIT 1`, []any{account}, &i)
	if err = rowError(err, ErrNotFound, "find the installation of %s", account); err != nil {
		return 0, err
	}
	return i, nil
}
