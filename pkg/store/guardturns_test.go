package store_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/store/storetest"
)

func TestGuardTurns(t *testing.T) {
	t.Parallel()
	key := func(i store.InstallationID, n int) store.HeadKey {
		return store.HeadKey{Installation: i, Repository: 10, SHA: store.SHA(fmt.Sprintf("%040x", n))}
	}
	t.Run("P10 many that wait for one head leave the connections to other installations", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.guard(t, key(1, 1))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		const waiters = 20 // the pool has four connections
		for range waiters {
			go func() {
				if g, err := b.evaluator.AcquireGuard(ctx, key(1, 1), 20*time.Second); err == nil {
					g.Release()
				}
				done <- struct{}{}
			}()
		}
		b.others(t, key(2, 1))
		cancel()
		for range waiters {
			<-done
		}
	})
	t.Run("P10 many heads of one installation that wait for its authority event leave connections to another", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		conn, err := pgx.Connect(t.Context(), b.db.URL(storetest.Owner))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.Background())
		if _, err := conn.Exec(t.Context(), "SELECT pg_advisory_lock(hashtextextended('countersign guard installation 1', 0))"); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		const waiters = 20
		for n := range waiters {
			go func() {
				if g, err := b.evaluator.AcquireGuard(ctx, key(1, n), 20*time.Second); err == nil {
					g.Release()
				}
				done <- struct{}{}
			}()
		}
		b.others(t, key(2, 1))
		cancel()
		for range waiters {
			<-done
		}
	})
	t.Run("P10 a waiter for a head holds up no authority event: the event comes before it", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		first := b.guard(t, key(1, 1))
		waited := make(chan *store.Guard, 1)
		go func() {
			g, _ := b.invalidator.AcquireGuard(context.Background(), key(1, 1), 20*time.Second)
			waited <- g // and then holds it
		}()
		blocked := func(n int64) bool {
			return b.db.QueryInt("SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database WHERE locktype = 'advisory' AND NOT granted AND datname = current_database()") == n
		}
		poll(t, "the second writer waits", func() bool { return blocked(1) })
		accepted := make(chan error, 1)
		go func() {
			_, err := b.ingress.AcceptAuthority(context.Background(), store.Delivery{ID: "d1", Event: "team"}, store.AuthorityWork{Installation: 1, Scope: store.ScopeInstallation, Reason: "team.edited"}, 20*time.Second)
			accepted <- err
		}()
		poll(t, "the event waits", func() bool { return blocked(2) })
		first.Release()
		select {
		case err := <-accepted:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(10 * time.Second):
			t.Error("the event waits for the second writer too")
		}
		if g := <-waited; g != nil {
			g.Release()
		}
	})
	t.Run("a turn is waited for as long as the guard is, and given back", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		g := b.guard(t, key(1, 1))
		_, err := b.evaluator.AcquireGuard(t.Context(), key(1, 1), 50*time.Millisecond)
		wantErr(t, err, store.ErrGuardTimeout)
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = b.evaluator.AcquireGuard(cancelled, key(1, 1), time.Second)
		wantErr(t, err, context.Canceled)
		g.Release()
		b.guard(t, key(1, 1))
	})
}

// others proves that a guard of another installation is free at once, for longer than the waiters need to pile up.
func (b *bundle) others(t *testing.T, key store.HeadKey) {
	t.Helper()
	for range 20 {
		g, err := b.evaluator.AcquireGuard(t.Context(), key, 5*time.Second)
		if err != nil {
			t.Errorf("another installation's publication waited: %v", err)
			return
		}
		g.Release()
	}
}

func poll(t *testing.T, what string, reached func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if reached() {
			return
		}
	}
	t.Fatalf("waited in vain until %s", what)
}

func TestSeenPulls(t *testing.T) {
	t.Parallel()
	t.Run("both halves are found by an index, however many pull requests the repository has", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.db.Exec("INSERT INTO pull (installation_id, repository_id, number, head_sha) SELECT 1, 10, i, lpad(to_hex(i), 40, '0') FROM generate_series(1, 20000) AS i")
		b.db.Exec("ANALYZE pull")
		b.db.Exec("ANALYZE evaluation")
		pool, err := pgxpool.New(t.Context(), b.db.URL(storetest.Owner))
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		rows, err := pool.Query(t.Context(), "EXPLAIN "+store.SeenPullsSQL, 1, 10, fmt.Sprintf("%040x", 7), 1000)
		if err != nil {
			t.Fatal(err)
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		plan := strings.Join(lines, "\n")
		if strings.Contains(plan, "Seq Scan on pull") || !strings.Contains(plan, "pull_by_head") {
			t.Errorf("plan\n%s", plan)
		}
	})
	t.Run("a claim whose pull requests cannot be listed gives the head back", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.accept(t, "d1", direct(7, headA))
		b.db.Exec("REVOKE SELECT ON pull FROM countersign_invalidator")
		if _, err := b.invalidator.ClaimInvalidation(t.Context(), "invalidator-1", ttl); err == nil {
			t.Fatal("claimed")
		}
		b.db.Exec("GRANT SELECT ON pull TO countersign_invalidator")
		if n := b.db.QueryInt("SELECT count(*) FROM head WHERE invalidation_expires_at IS NULL AND invalidation_attempts = 0 AND invalidation_available_at < now() + interval '2 seconds'"); n != 1 {
			t.Error("the lease is kept")
		}
	})
}

func TestHeadGrants(t *testing.T) {
	t.Parallel()
	for _, role := range []storetest.Role{storetest.Ingress, storetest.Fanout, storetest.Reconciler} {
		t.Run(string(role)+" can neither call a head invalidated nor touch its run, an intent or what is published", func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.accept(t, "d1", direct(7, headA))
			conn, err := pgx.Connect(t.Context(), b.db.URL(role))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close(context.Background())
			for _, column := range []string{"invalidated_generation", "run_id", "run_generation", "posted_generation", "intent_decision_id", "published_decision_id", "published_generation"} {
				if _, err := conn.Exec(t.Context(), "UPDATE head SET "+column+" = "+column); err == nil {
					t.Errorf("may update %s", column)
				}
			}
		})
	}
}
