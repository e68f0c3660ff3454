// Package storetest gives each test a migrated database of its own, under the roles that production uses, and the oracle
// that ends every database test.
//
// A missing Postgres fails the test; it never skips it. The migrated template is made once a server, by whichever test
// process comes first; a test's database is a clone of it and is dropped when the test ends.
package storetest

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/store/localpg"
)

// Role is a database role of deploy/postgres/roles.sql.
type Role string

// The roles.
const (
	Owner       Role = "" // who migrates; tests that play an operator use it
	Ingress     Role = "countersign_ingress"
	Invalidator Role = "countersign_invalidator"
	Fanout      Role = "countersign_fanout"
	Evaluator   Role = "countersign_evaluator"
	Reconciler  Role = "countersign_reconciler"
	Reader      Role = "countersign_reader"
	Console     Role = "countersign_console"
)

// DB is one test's database.
type DB struct {
	Name string
	tb   testing.TB
	url  *url.URL
}

// New clones the migrated template. The database is dropped when the test ends.
func New(tb testing.TB) *DB {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	admin, template := template(tb)
	var suffix [6]byte
	if _, err := rand.Read(suffix[:]); err != nil {
		tb.Fatalf("name a test database: %v", err)
	}
	name := "t_" + hex.EncodeToString(suffix[:])
	conn := connect(ctx, tb, admin)
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, fmt.Sprintf("CREATE DATABASE %s TEMPLATE %s", name, template)); err != nil {
		tb.Fatalf("create test database: %v", err)
	}
	tb.Cleanup(func() { drop(tb, admin, name) })
	u, err := url.Parse(admin)
	if err != nil {
		tb.Fatalf("parse the server's URL: %v", err)
	}
	u.Path = "/" + name
	return &DB{Name: name, tb: tb, url: u}
}

func drop(tb testing.TB, admin, name string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, admin)
	if err != nil {
		tb.Errorf("drop test database %s: %v", name, err)
		return
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, fmt.Sprintf("DROP DATABASE IF EXISTS %s WITH (FORCE)", name)); err != nil {
		tb.Errorf("drop test database %s: %v", name, err)
	}
}

// URL is the connection URL of a role.
func (db *DB) URL(role Role) string {
	u := *db.url
	if role != Owner {
		u.User = url.User(string(role))
	}
	return u.String()
}

// Config is a store configuration of a role, with test-sized pools.
func (db *DB) Config(role Role) store.Config {
	return store.Config{
		URL: db.URL(role), MaxConns: 4, GuardConns: 4, ConnectTimeout: 10 * time.Second,
		PoolTimeout: 20 * time.Second, StatementLimit: 20 * time.Second,
	}
}

// Store opens the database as a role; it is closed when the test ends, before the database is dropped.
func (db *DB) Store(role Role) *store.Store {
	db.tb.Helper()
	s, err := store.Open(context.Background(), db.Config(role))
	if err != nil {
		db.tb.Fatalf("open test database as %q: %v", role, err)
	}
	db.tb.Cleanup(s.Close)
	return s
}

// Exec runs SQL as the owner: for arranging what a service could not, such as an expired lease or a hand-changed row.
func (db *DB) Exec(sql string, args ...any) {
	db.tb.Helper()
	conn := connect(context.Background(), db.tb, db.URL(Owner))
	defer conn.Close(context.Background())
	if _, err := conn.Exec(context.Background(), sql, args...); err != nil {
		db.tb.Fatalf("exec %q: %v", sql, err)
	}
}

// QueryInt reads one number as the owner.
func (db *DB) QueryInt(sql string, args ...any) int64 {
	db.tb.Helper()
	conn := connect(context.Background(), db.tb, db.URL(Owner))
	defer conn.Close(context.Background())
	var n int64
	if err := conn.QueryRow(context.Background(), sql, args...).Scan(&n); err != nil {
		db.tb.Fatalf("query %q: %v", sql, err)
	}
	return n
}

// QueryText reads one text as the owner.
func (db *DB) QueryText(sql string, args ...any) string {
	db.tb.Helper()
	conn := connect(context.Background(), db.tb, db.URL(Owner))
	defer conn.Close(context.Background())
	var s string
	if err := conn.QueryRow(context.Background(), sql, args...).Scan(&s); err != nil {
		db.tb.Fatalf("query %q: %v", sql, err)
	}
	return s
}

// CheckInvariants is the end of every database test: the oracle finds nothing.
func CheckInvariants(tb testing.TB, db *DB) {
	tb.Helper()
	s, err := store.Open(context.Background(), db.Config(Owner))
	if err != nil {
		tb.Fatalf("open for the oracle: %v", err)
	}
	defer s.Close()
	violations, err := store.CheckInvariants(context.Background(), s)
	if err != nil {
		tb.Fatalf("oracle: %v", err)
	}
	for _, v := range violations {
		tb.Errorf("oracle: %s", v)
	}
}

func connect(ctx context.Context, tb testing.TB, dsn string) *pgx.Conn {
	tb.Helper()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		tb.Fatalf("connect to the test server: %v", err)
	}
	return conn
}

var once struct {
	sync.Mutex
	admin, template string
}

// template makes the migrated template once; its name is the digest of what went into it, so that a changed migration
// makes a new one on a server that outlives this process.
func template(tb testing.TB) (admin, name string) {
	tb.Helper()
	once.Lock()
	defer once.Unlock()
	if once.template != "" {
		return once.admin, once.template
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	admin, err := localpg.Shared(ctx)
	if err != nil {
		tb.Fatalf("this test needs PostgreSQL: %v", err)
	}
	roles := RolesSQL(tb)
	name = "countersign_template_" + digest(tb, roles)
	conn := connect(ctx, tb, admin)
	defer conn.Close(ctx)
	const templateLock = 0x74656d706c617465
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1)", int64(templateLock)); err != nil {
		tb.Fatalf("lock the template: %v", err)
	}
	var ready bool
	if err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", name).Scan(&ready); err != nil {
		tb.Fatalf("look for the template: %v", err)
	}
	if !ready {
		build(ctx, tb, conn, admin, name, roles)
	}
	once.admin, once.template = admin, name
	return admin, name
}

func build(ctx context.Context, tb testing.TB, conn *pgx.Conn, admin, name, roles string) {
	tb.Helper()
	draft := name + "_draft"
	for _, sql := range []string{"DROP DATABASE IF EXISTS " + draft + " WITH (FORCE)", "CREATE DATABASE " + draft} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			tb.Fatalf("make the template: %v", err)
		}
	}
	u, err := url.Parse(admin)
	if err != nil {
		tb.Fatalf("parse the server's URL: %v", err)
	}
	u.Path = "/" + draft
	if err := store.Migrate(ctx, u.String(), roles, time.Minute); err != nil {
		tb.Fatalf("migrate the template: %v", err)
	}
	if err := store.InstallGrantAudit(ctx, u.String()); err != nil {
		tb.Fatalf("audit the template: %v", err)
	}
	if _, err := conn.Exec(ctx, fmt.Sprintf("ALTER DATABASE %s RENAME TO %s", draft, name)); err != nil {
		tb.Fatalf("finish the template: %v", err)
	}
}

// RolesSQL reads deploy/postgres/roles.sql, the grants that production uses.
func RolesSQL(tb testing.TB) string {
	tb.Helper()
	_, file, _, ok := runtime.Caller(0)
	if !ok {
		tb.Fatal("find the repository: no caller information")
	}
	path := filepath.Join(filepath.Dir(file), "..", "..", "..", "deploy", "postgres", "roles.sql")
	text, err := os.ReadFile(path)
	if err != nil {
		tb.Fatalf("read the roles: %v", err)
	}
	return string(text)
}

func digest(tb testing.TB, roles string) string {
	tb.Helper()
	h := sha256.New()
	h.Write([]byte(roles))
	h.Write([]byte(store.GrantAuditSQL))
	err := fs.WalkDir(store.Migrations(), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(store.Migrations(), path)
		h.Write(text)
		return err
	})
	if err != nil {
		tb.Fatalf("read the migrations: %v", err)
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}
