package store

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// migrationLock is the advisory lock that lets one migrator in at a time (RG-446).
const migrationLock = int64(0x636f756e74657273) // "counters"

// Migrate brings the database to the packaged schema and then applies rolesSQL (deploy/postgres/roles.sql; "" skips it).
// url is the owner's, not a service's. wait bounds the wait for another migrator. Each migration is one transaction, so an
// interrupted run rolls back to the last whole one; running it again is safe and does nothing when all is done.
// There is no way down: restore a backup instead (RG-447). Errors: ErrMigrationLocked, or the database's.
func Migrate(ctx context.Context, url, rolesSQL string, wait time.Duration) error {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return errors.New("migrate: database URL cannot be parsed")
	}
	lock, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return fmt.Errorf("migrate: connect: %w", err)
	}
	defer lock.Close(context.WithoutCancel(ctx))
	if err := lockMigrations(ctx, lock, wait); err != nil {
		return err
	}
	if err := applyMigrations(ctx, cfg); err != nil {
		return err
	}
	if rolesSQL != "" {
		if _, err := lock.Exec(ctx, rolesSQL); err != nil {
			return fmt.Errorf("migrate: apply roles: %w", err)
		}
	}
	return writeFingerprint(ctx, lock)
}

func lockMigrations(ctx context.Context, conn *pgx.Conn, wait time.Duration) error {
	if _, err := conn.Exec(ctx, "SELECT set_config('lock_timeout', $1, false)", fmt.Sprintf("%dms", max(wait.Milliseconds(), 1))); err != nil {
		return fmt.Errorf("migrate: set lock timeout: %w", err)
	}
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1)", migrationLock); err != nil {
		if pgCode(err) == codeLockNotAvailable {
			return fmt.Errorf("migrate: waited %s: %w", wait, ErrMigrationLocked)
		}
		return fmt.Errorf("migrate: lock: %w", err)
	}
	return nil
}

func applyMigrations(ctx context.Context, cfg *pgx.ConnConfig) error {
	provider, closeDB, err := gooseProvider(cfg)
	if err != nil {
		return err
	}
	defer closeDB()
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return nil
}

func gooseProvider(cfg *pgx.ConnConfig) (*goose.Provider, func(), error) {
	files, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		return nil, nil, fmt.Errorf("migrate: packaged migrations: %w", err)
	}
	db := stdlib.OpenDB(*cfg)
	provider, err := goose.NewProvider(goose.DialectPostgres, db, files)
	if err != nil {
		_ = db.Close()
		return nil, nil, fmt.Errorf("migrate: packaged migrations: %w", err)
	}
	return provider, func() { _ = db.Close() }, nil
}

// PackagedVersion is the schema version this binary was built for.
func PackagedVersion() int64 {
	entries, _ := migrationFiles.ReadDir("migrations")
	var newest int64
	for _, e := range entries {
		if v, err := goose.NumericComponent(e.Name()); err == nil && v > newest {
			newest = v
		}
	}
	return newest
}

// CheckSchema compares version and fingerprint of the database with the packaged ones; it changes nothing.
// Errors: ErrSchemaMissing (run `countersign database migrate`, or this binary is older than the schema), ErrSchemaDrifted.
func (s *Store) CheckSchema(ctx context.Context) error {
	conn, err := s.acquire(ctx, s.pool)
	if err != nil {
		return err
	}
	defer conn.Release()
	return checkSchema(ctx, conn)
}

// CheckDatabase is CheckSchema for a URL, without keeping a Store (`countersign database check`).
func CheckDatabase(ctx context.Context, cfg Config) error {
	s, err := openUnchecked(ctx, cfg)
	if err != nil {
		return err
	}
	defer s.Close()
	return s.CheckSchema(ctx)
}

func checkSchema(ctx context.Context, conn *pgxpool.Conn) error {
	if err := checkVersion(ctx, conn.Conn()); err != nil {
		return err
	}
	var now, then string
	if err := conn.QueryRow(ctx, fingerprintSQL).Scan(&now); err != nil {
		return fmt.Errorf("read schema fingerprint: %w", err)
	}
	if err := conn.QueryRow(ctx, "SELECT fingerprint FROM schema_fingerprint").Scan(&then); err != nil {
		return rowError(err, ErrSchemaDrifted, "read recorded schema fingerprint")
	}
	if now != then {
		return fmt.Errorf("tables, columns, constraints or indexes were changed by hand since the last migration (fingerprint %.12s, recorded %.12s): undo the change, or restore: %w", now, then, ErrSchemaDrifted)
	}
	return nil
}

func checkVersion(ctx context.Context, q querier) error {
	var version int64
	err := q.QueryRow(ctx, "SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied").Scan(&version)
	if pgCode(err) == codeUndefinedTable || pgCode(err) == codeInsufficientPriv {
		return fmt.Errorf("no migration was ever applied: run `countersign database migrate`: %w", ErrSchemaMissing)
	}
	if err != nil {
		return fmt.Errorf("read schema version: %w", err)
	}
	if want := PackagedVersion(); version != want {
		return fmt.Errorf("database is at schema version %d, this binary needs %d: run `countersign database migrate` of the matching release: %w", version, want, ErrSchemaMissing)
	}
	return nil
}

func writeFingerprint(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, `
		INSERT INTO schema_fingerprint (fingerprint) SELECT f FROM (`+fingerprintSQL+`) AS now(f)
		ON CONFLICT (singleton) DO UPDATE SET fingerprint = excluded.fingerprint, written_at = now()`)
	if err != nil {
		return fmt.Errorf("migrate: record schema fingerprint: %w", err)
	}
	return nil
}

// fingerprintSQL digests every column, constraint and index of our tables. It is read through the catalogs, which every role may read.
const fingerprintSQL = `
	SELECT md5(string_agg(line, E'\n' ORDER BY line)) FROM (
		SELECT format('column %s.%s %s %s', c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull) AS line
		FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
		WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped
			AND c.relname NOT IN ('goose_db_version', 'lease_grant')
		UNION ALL
		SELECT format('constraint %s %s', conname, pg_get_constraintdef(k.oid))
		FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid
		WHERE k.connamespace = 'public'::regnamespace AND c.relname NOT IN ('goose_db_version', 'lease_grant')
		UNION ALL
		SELECT format('index %s', indexdef) FROM pg_indexes
		WHERE schemaname = 'public' AND tablename NOT IN ('goose_db_version', 'lease_grant')
	) AS lines`
