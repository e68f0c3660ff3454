package store

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Config is how a process reaches Postgres.
type Config struct {
	URL            string        `env:"COUNTERSIGN_DATABASE_URL" secret:"true" desc:"Postgres connection URL of this service's own role"`
	MaxConns       int32         `env:"COUNTERSIGN_DATABASE_MAX_CONNS" envDefault:"8" desc:"connections for statements; past about eight a process gains nothing"`
	GuardConns     int32         `env:"COUNTERSIGN_DATABASE_GUARD_CONNS" envDefault:"20" desc:"connections for publication guards, one for each check run being written or waited for; at least the workers and the fast path together"`
	AllowPlaintext bool          `env:"COUNTERSIGN_DATABASE_ALLOW_PLAINTEXT" envDefault:"false" desc:"allow a remote Postgres without TLS, for a private network that encrypts by itself (RG-451)"`
	ConnectTimeout time.Duration `env:"COUNTERSIGN_DATABASE_CONNECT_TIMEOUT" envDefault:"3s" desc:"bound on opening one connection (RG-441)"`
	PoolTimeout    time.Duration `env:"COUNTERSIGN_DATABASE_POOL_TIMEOUT" envDefault:"2s" desc:"bound on waiting for a free connection (RG-441)"`
	StatementLimit time.Duration `env:"COUNTERSIGN_DATABASE_STATEMENT_TIMEOUT" envDefault:"3s" desc:"bound on one statement (RG-441); waiting for a guard has its own bound"`
}

// Validate refuses what would be unsafe before anything is opened.
func (c Config) Validate() error {
	if c.URL == "" {
		return errors.New("COUNTERSIGN_DATABASE_URL is not set: give the Postgres URL of this service's role, by value or by COUNTERSIGN_DATABASE_URL_FILE")
	}
	parsed, err := pgxpool.ParseConfig(c.URL)
	if err != nil {
		// pgx's text may repeat the URL with its password.
		return errors.New("COUNTERSIGN_DATABASE_URL cannot be parsed: use postgres://user:password@host:port/database")
	}
	if c.AllowPlaintext || localHost(parsed.ConnConfig.Host) {
		return nil
	}
	if parsed.ConnConfig.TLSConfig == nil {
		return fmt.Errorf("COUNTERSIGN_DATABASE_URL reaches %s without TLS: add sslmode=require or stronger, or set COUNTERSIGN_DATABASE_ALLOW_PLAINTEXT=true for a private network", parsed.ConnConfig.Host)
	}
	for _, fallback := range parsed.ConnConfig.Fallbacks {
		if fallback.TLSConfig == nil {
			return fmt.Errorf("COUNTERSIGN_DATABASE_URL may fall back to plain text for %s: use sslmode=require or stronger, not prefer or allow", fallback.Host)
		}
	}
	return nil
}

func localHost(host string) bool {
	if strings.HasPrefix(host, "/") || host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// Store is one process's access to the truth. Safe for concurrent use. Close it once.
type Store struct {
	cfg        Config
	pool       *pgxpool.Pool // statements and short transactions
	guards     *pgxpool.Pool // one connection for each held guard; its own pool, so that a holder never waits for a statement's connection and the reverse (P10)
	turns      turns         // which installation this process served last, of each queue
	guardTurns *guardTurns
}

// Open connects and proves that the schema is exactly the packaged one; it never changes it (RG-442).
// Errors: ErrSchemaMissing, ErrSchemaDrifted, or the connection's. May run twice; each Store is independent.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	s, err := openUnchecked(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if err := s.CheckSchema(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func openUnchecked(ctx context.Context, cfg Config) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	pool, err := newPool(ctx, cfg, cfg.MaxConns, nil)
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	guards, err := newPool(ctx, cfg, cfg.GuardConns, map[string]string{
		// A holder that was stopped (SIGSTOP, a partition) must not keep the guard: the server ends its idle session.
		"idle_session_timeout": "60000",
	})
	if err != nil {
		pool.Close()
		return nil, fmt.Errorf("open guard connections: %w", err)
	}
	return &Store{cfg: cfg, pool: pool, guards: guards, guardTurns: newGuardTurns(cfg.GuardConns)}, nil
}

func newPool(ctx context.Context, cfg Config, conns int32, params map[string]string) (*pgxpool.Pool, error) {
	pc, err := pgxpool.ParseConfig(cfg.URL)
	if err != nil {
		return nil, errors.New("database URL cannot be parsed")
	}
	pc.MaxConns = max(conns, 1)
	pc.MinConns = 0
	pc.MaxConnIdleTime = 45 * time.Second // below idle_session_timeout: the pool closes an idle guard connection first
	pc.HealthCheckPeriod = 15 * time.Second
	pc.ConnConfig.ConnectTimeout = cfg.ConnectTimeout
	pc.ConnConfig.RuntimeParams["statement_timeout"] = fmt.Sprint(cfg.StatementLimit.Milliseconds())
	pc.ConnConfig.RuntimeParams["timezone"] = "UTC"
	if pc.ConnConfig.RuntimeParams["application_name"] == "" {
		pc.ConnConfig.RuntimeParams["application_name"] = "countersign"
	}
	for k, v := range params {
		pc.ConnConfig.RuntimeParams[k] = v
	}
	return pgxpool.NewWithConfig(ctx, pc)
}

// Close returns every connection. A guard still held is released by it.
func (s *Store) Close() {
	s.guards.Close()
	s.pool.Close()
}

// Ping proves that Postgres answers and that the schema still is the packaged one (readiness, RG-448).
func (s *Store) Ping(ctx context.Context) error {
	conn, err := s.acquire(ctx, s.pool)
	if err != nil {
		return err
	}
	defer conn.Release()
	return checkVersion(ctx, conn.Conn())
}

// PoolStats feeds the connection gauges.
func (s *Store) PoolStats() (statements, guards *pgxpool.Stat) { return s.pool.Stat(), s.guards.Stat() }

// acquire waits for a connection no longer than RG-441 allows.
func (s *Store) acquire(ctx context.Context, pool *pgxpool.Pool) (*pgxpool.Conn, error) {
	bounded, cancel := context.WithTimeout(ctx, s.cfg.PoolTimeout+s.cfg.ConnectTimeout)
	defer cancel()
	conn, err := pool.Acquire(bounded)
	if err != nil {
		return nil, fmt.Errorf("acquire a database connection: %w", err)
	}
	return conn, nil
}

// querier is what a statement needs: a pooled connection, a guard's connection or a transaction.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// inTx runs fn in one READ COMMITTED transaction; after a deadlock or a lost race it runs fn again, so fn must
// touch nothing but the transaction.
func (s *Store) inTx(ctx context.Context, fn func(tx pgx.Tx) error) error {
	return withRetry(ctx, func() error {
		conn, err := s.acquire(ctx, s.pool)
		if err != nil {
			return err
		}
		defer conn.Release()
		return pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, fn)
	})
}

// queryOne runs one statement that returns one row at the most, again after a deadlock.
func (s *Store) queryOne(ctx context.Context, sql string, args []any, dest ...any) error {
	return withRetry(ctx, func() error {
		conn, err := s.acquire(ctx, s.pool)
		if err != nil {
			return err
		}
		defer conn.Release()
		return conn.QueryRow(ctx, sql, args...).Scan(dest...)
	})
}

// queryAll collects a bounded list; SQL carries the ORDER BY and the LIMIT.
func queryAll[T any](ctx context.Context, s *Store, sql string, args []any, scan func(pgx.CollectableRow) (T, error)) ([]T, error) {
	conn, err := s.acquire(ctx, s.pool)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	rows, err := conn.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scan)
}

func seconds(d time.Duration) float64 { return d.Seconds() }
