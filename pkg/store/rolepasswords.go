package store

import (
	"context"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// scramIterations is Postgres's own default; the secrets here are random and long, which counts for more.
const scramIterations = 4096

// minRolePassword keeps a placeholder out of a database. `openssl rand -hex 32` makes 64.
const minRolePassword = 16

// SetRolePasswords gives each login role its password, as the owner behind url. Postgres is sent a SCRAM-SHA-256 verifier
// (RFC 5803) and never the password, which therefore stands in no server log. Sessions that are open stay; a role that is not
// named keeps what it had. It runs under the migration lock for at most wait, in one transaction, and may run again: the same
// password then has another salt. Errors name the role and nothing of its password; ErrMigrationLocked.
func SetRolePasswords(ctx context.Context, url string, passwords map[string]string, wait time.Duration) error {
	statements := make([]string, 0, len(passwords))
	for _, role := range slices.Sorted(maps.Keys(passwords)) {
		verifier, err := scramVerifier(passwords[role])
		if err != nil {
			return fmt.Errorf("set the password of role %s: %w", role, err)
		}
		// A verifier has no quote: base64, digits, '$' and ':'.
		statements = append(statements, fmt.Sprintf("ALTER ROLE %s PASSWORD '%s'", pgx.Identifier{role}.Sanitize(), verifier))
	}
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return fmt.Errorf("set role passwords: connect: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if err := lockMigrations(ctx, conn, wait); err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		for i, role := range slices.Sorted(maps.Keys(passwords)) {
			if _, err := tx.Exec(ctx, statements[i]); err != nil {
				return fmt.Errorf("set the password of role %s: %w", role, err)
			}
		}
		return nil
	})
}

// scramVerifier is what Postgres keeps of a password. Only printable ASCII is taken: for it SASLprep (RFC 4013) changes
// nothing, so that client and server agree.
func scramVerifier(password string) (string, error) {
	if len(password) < minRolePassword {
		return "", fmt.Errorf("%d bytes are too few; use at least %d random ones, for example openssl rand -hex 32", len(password), minRolePassword)
	}
	for i := range len(password) {
		if c := password[i]; c <= ' ' || c > '~' {
			return "", errors.New("it holds a space, a control character or a letter outside ASCII; use for example openssl rand -hex 32")
		}
	}
	salt := make([]byte, 16)
	if _, err := rand.Read(salt); err != nil {
		return "", err
	}
	return scramOf(password, salt)
}

func scramOf(password string, salt []byte) (string, error) {
	salted, err := pbkdf2.Key(sha256.New, password, salt, scramIterations, sha256.Size)
	if err != nil {
		return "", err
	}
	stored := sha256.Sum256(hmacSHA256(salted, "Client Key"))
	b64 := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("SCRAM-SHA-256$%d:%s$%s:%s", scramIterations, b64(salt), b64(stored[:]), b64(hmacSHA256(salted, "Server Key"))), nil
}

func hmacSHA256(key []byte, text string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}
