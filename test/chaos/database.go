package chaos

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/countersign/countersign/internal/system"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/store/localpg"
)

// Cluster is a PostgreSQL of our own, with a migrated template.
type Cluster struct {
	server *localpg.Server
	mu     sync.Mutex // creating a database reads the template, and two at once refuse each other
	next   atomic.Int64
}

const template = "chaos_template"

// StartCluster starts one.
func StartCluster(ctx context.Context) (*Cluster, error) {
	opts := localpg.TestOptions(func(string, ...any) {})
	opts.MaxConnections = 800
	server, err := localpg.Start(ctx, opts)
	if err != nil {
		return nil, err
	}
	c := &Cluster{server: server}
	// Databases live for seconds: there is nothing to vacuum, and a plan is never worth compiling.
	for _, sql := range []string{"ALTER SYSTEM SET autovacuum = off", "ALTER SYSTEM SET jit = off", "SELECT pg_reload_conf()", "CREATE DATABASE " + template} {
		if err == nil {
			err = c.exec(ctx, "postgres", sql)
		}
	}
	if err == nil {
		err = system.Prepare(ctx, server.URL(template), true)
	}
	if err != nil {
		_ = server.Stop(ctx)
		return nil, fmt.Errorf("prepare the database: %w", err)
	}
	return c, nil
}

// Stop ends it and removes its files.
func (c *Cluster) Stop(ctx context.Context) error { return c.server.Stop(ctx) }

func (c *Cluster) exec(ctx context.Context, database, sql string) error {
	conn, err := pgx.Connect(ctx, c.server.URL(database))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, sql)
	return err
}

// database is one schedule's.
type database struct {
	cluster *Cluster
	name    string

	mu   sync.Mutex
	conn *pgx.Conn // for looking; dialled again when it was lost
}

func (c *Cluster) create(ctx context.Context) (*database, error) {
	d := &database{cluster: c, name: fmt.Sprintf("chaos_%d", c.next.Add(1))}
	c.mu.Lock()
	defer c.mu.Unlock()
	// A private server does not wait for its log; one that is killed must have written what it acknowledged.
	return d, errors.Join(
		c.exec(ctx, "postgres", fmt.Sprintf("CREATE DATABASE %s TEMPLATE %s", d.name, template)),
		c.exec(ctx, "postgres", fmt.Sprintf("ALTER DATABASE %s SET synchronous_commit = on", d.name)),
	)
}

func (d *database) drop(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.conn != nil {
		_ = d.conn.Close(ctx)
	}
	return d.cluster.exec(ctx, "postgres", fmt.Sprintf("DROP DATABASE IF EXISTS %s WITH (FORCE)", d.name))
}

// disconnect ends every session of the database, as a failover would.
func (d *database) disconnect(ctx context.Context) error {
	return d.cluster.exec(ctx, "postgres", fmt.Sprintf("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '%s'", d.name))
}

// url is the database's as a role, through the sockets in directory; "" is the server's own.
func (d *database) url(role, sockets string) string {
	u, err := url.Parse(d.cluster.server.URL(d.name))
	if err != nil {
		panic(err)
	}
	if role != "" {
		u.User = url.User(role)
	}
	if sockets != "" {
		q := u.Query()
		q.Set("host", sockets)
		u.RawQuery = q.Encode()
	}
	return u.String()
}

// socket is the path of the server's Unix socket, and its name in any directory.
func (d *database) socket() (path, name string) {
	u, err := url.Parse(d.cluster.server.URL(d.name))
	if err != nil {
		panic(err)
	}
	name = ".s.PGSQL." + u.Query().Get("port")
	return strings.TrimSuffix(u.Query().Get("host"), "/") + "/" + name, name
}

func (d *database) open(ctx context.Context) (*store.Store, error) {
	return store.Open(ctx, store.Config{
		URL: d.url("", ""), MaxConns: 2, GuardConns: 1, ConnectTimeout: 10 * time.Second, PoolTimeout: 20 * time.Second, StatementLimit: 30 * time.Second,
	})
}

// read reads one row.
func (d *database) read(ctx context.Context, sql string, args []any, into ...any) (err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.conn == nil || d.conn.IsClosed() {
		if d.conn, err = pgx.Connect(ctx, d.url("", "")); err != nil {
			d.conn = nil
			return err
		}
	}
	return d.conn.QueryRow(ctx, sql, args...).Scan(into...)
}

// socketDirectory is short: the path of a Unix socket has little room.
func socketDirectory() (string, error) { return os.MkdirTemp("", "cs-") }
