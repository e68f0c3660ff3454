package store_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/countersign/countersign/deploy/postgres"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/store/storetest"
)

func TestSchema(t *testing.T) {
	t.Parallel()
	empty := func(t *testing.T) *storetest.DB {
		t.Helper()
		db := storetest.New(t)
		db.Exec("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
		return db
	}
	t.Run("RG-442 a start never changes the schema: an empty database is refused and stays empty", func(t *testing.T) {
		t.Parallel()
		db := empty(t)
		_, err := store.Open(t.Context(), db.Config(storetest.Owner))
		wantErr(t, err, store.ErrSchemaMissing)
		if !strings.Contains(err.Error(), "countersign database migrate") {
			t.Errorf("the error names no mend: %v", err)
		}
		if n := db.QueryInt("SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace"); n != 0 {
			t.Errorf("%d relations were created by a start", n)
		}
	})
	t.Run("RG-442 a drifted schema is refused", func(t *testing.T) {
		t.Parallel()
		for _, drift := range []string{"ALTER TABLE head ADD COLUMN extra text", "ALTER TABLE head DROP CONSTRAINT head_invalidated_bounds", "DROP INDEX decision_confirmed_once"} {
			db := storetest.New(t)
			db.Exec(drift)
			_, err := store.Open(t.Context(), db.Config(storetest.Ingress))
			if !errors.Is(err, store.ErrSchemaDrifted) {
				t.Errorf("%s: %v", drift, err)
			}
		}
	})
	t.Run("RG-448 readiness fails when the database is at another version than the binary", func(t *testing.T) {
		t.Parallel()
		db := storetest.New(t)
		s := db.Store(storetest.Reader)
		if err := s.Ping(t.Context()); err != nil {
			t.Fatalf("ready: %v", err)
		}
		db.Exec("INSERT INTO goose_db_version (version_id, is_applied) VALUES (999, true)")
		wantErr(t, s.Ping(t.Context()), store.ErrSchemaMissing)
	})
	t.Run("RG-446 migrators beside each other take turns; one that waits too long says so", func(t *testing.T) {
		t.Parallel()
		db := empty(t)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				if err := store.Migrate(context.Background(), db.URL(storetest.Owner), postgres.RolesSQL, time.Minute); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if _, err := store.Open(t.Context(), db.Config(storetest.Owner)); err != nil {
			t.Errorf("after four migrators: %v", err)
		}
		conn, err := pgx.Connect(t.Context(), db.URL(storetest.Owner))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.Background())
		if _, err := conn.Exec(t.Context(), "SELECT pg_advisory_lock(x'636f756e74657273'::bigint)"); err != nil {
			t.Fatal(err)
		}
		wantErr(t, store.Migrate(t.Context(), db.URL(storetest.Owner), "", 50*time.Millisecond), store.ErrMigrationLocked)
	})
	t.Run("RG-446 an interrupted migration rolls back", func(t *testing.T) {
		t.Parallel()
		db := empty(t)
		db.Exec("CREATE TABLE schema_fingerprint (unexpected int)") // the migration's last statement fails on it
		if err := store.Migrate(t.Context(), db.URL(storetest.Owner), "", time.Minute); err == nil {
			t.Fatal("migrated over a foreign table")
		}
		if n := db.QueryInt("SELECT count(*) FROM pg_class WHERE relname IN ('head', 'delivery', 'decision')"); n != 0 {
			t.Errorf("%d tables of an interrupted migration remain", n)
		}
	})
}

func TestConfig(t *testing.T) {
	t.Parallel()
	t.Run("RG-451 a remote Postgres needs TLS", func(t *testing.T) {
		t.Parallel()
		for url, ok := range map[string]bool{
			"postgres://u@db.example:5432/x?sslmode=disable": false, "postgres://u@db.example:5432/x?sslmode=prefer": false,
			"postgres://u@db.example:5432/x?sslmode=allow": false, "postgres://u@db.example:5432/x?sslmode=require": true,
			"postgres://u@127.0.0.1:5432/x?sslmode=disable": true, "postgres:///x?host=/run/postgresql": true,
		} {
			if err := (store.Config{URL: url}).Validate(); (err == nil) != ok {
				t.Errorf("%s: %v", url, err)
			}
		}
		if err := (store.Config{URL: "postgres://u@db.example/x?sslmode=disable", AllowPlaintext: true}).Validate(); err != nil {
			t.Errorf("explicitly allowed: %v", err)
		}
	})
	t.Run("RG-452 an unreadable URL is not echoed", func(t *testing.T) {
		t.Parallel()
		err := (store.Config{URL: "postgres://u:hunter2secret@db.example:port/x"}).Validate()
		if err == nil || strings.Contains(err.Error(), "hunter2secret") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("RG-441 statements are bounded", func(t *testing.T) {
		t.Parallel()
		db := storetest.New(t)
		cfg := db.Config(storetest.Ingress)
		cfg.StatementLimit = time.Second
		s, err := store.Open(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		conn, err := pgx.Connect(t.Context(), db.URL(storetest.Owner))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.Background())
		tx, err := conn.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback(context.Background())
		if _, err := tx.Exec(t.Context(), "LOCK TABLE delivery"); err != nil {
			t.Fatal(err)
		}
		_, err = s.AcceptDirect(t.Context(), store.Delivery{ID: "d1", Event: "pull_request", Action: "opened"}, direct(7, headA))
		if err == nil || !strings.Contains(err.Error(), "statement timeout") {
			t.Errorf("a blocked statement ended with %v", err)
		}
	})
	t.Run("RG-441 waiting for a guard has its own bound, above the statement's", func(t *testing.T) {
		t.Parallel()
		db := storetest.New(t)
		cfg := db.Config(storetest.Evaluator)
		cfg.StatementLimit = time.Second
		s, err := store.Open(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		key := store.HeadKey{Installation: 1, Repository: 10, SHA: headA}
		first, err := s.AcquireGuard(t.Context(), key, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		released := time.AfterFunc(1500*time.Millisecond, first.Release)
		defer released.Stop()
		second, err := s.AcquireGuard(t.Context(), key, 20*time.Second)
		if err != nil {
			t.Fatalf("the wait was cut by the statement's bound: %v", err)
		}
		second.Release()
	})
}

func TestGuard(t *testing.T) {
	t.Parallel()
	t.Run("RG-164 two heads of one installation publish side by side; one head never", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		a := b.guard(t, store.HeadKey{Installation: 1, Repository: 10, SHA: headA})
		other := b.guard(t, store.HeadKey{Installation: 1, Repository: 10, SHA: headB})
		_, err := b.invalidator.AcquireGuard(t.Context(), store.HeadKey{Installation: 1, Repository: 10, SHA: headA}, 50*time.Millisecond)
		wantErr(t, err, store.ErrGuardTimeout)
		a.Release()
		other.Release()
	})
	t.Run("RG-165 the guard is free when its holder's connection dies", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		key := store.HeadKey{Installation: 1, Repository: 10, SHA: headA}
		b.guard(t, key)
		b.db.Exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'countersign_evaluator' AND datname = current_database()")
		g, err := b.invalidator.AcquireGuard(t.Context(), key, 10*time.Second)
		if err != nil {
			t.Fatalf("stuck: %v", err)
		}
		g.Release()
	})
	t.Run("P10 a waiting authority event of one installation never blocks another's publication", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.guard(t, store.HeadKey{Installation: 1, Repository: 10, SHA: headA})
		waiting := make(chan error, 1)
		go func() {
			_, err := b.ingress.AcceptAuthority(context.Background(), store.Delivery{ID: "d1", Event: "team"}, store.AuthorityWork{Installation: 1, Scope: store.ScopeInstallation, Reason: "team.edited"}, 2*time.Second)
			waiting <- err
		}()
		g, err := b.evaluator.AcquireGuard(t.Context(), store.HeadKey{Installation: 2, Repository: 20, SHA: headA}, time.Second)
		if err != nil {
			t.Fatalf("another installation's publication waited: %v", err)
		}
		g.Release()
		wantErr(t, <-waiting, store.ErrGuardTimeout)
	})
}
