package store_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/store/storetest"
)

func (b *bundle) authority(t *testing.T, id store.DeliveryID, w store.AuthorityWork) {
	t.Helper()
	w.Installation, w.AccountLogin = 1, "acme"
	if w.Reason == "" {
		w.Reason = "push"
	}
	if _, err := b.ingress.AcceptAuthority(t.Context(), store.Delivery{ID: id, Event: "push"}, w, time.Second); err != nil {
		t.Fatalf("accept authority: %v", err)
	}
}

func (b *bundle) claimAuthority(t *testing.T) store.Authority {
	t.Helper()
	a, err := b.fanout.ClaimAuthority(t.Context(), "fanout-1", ttl)
	if err != nil {
		t.Fatalf("claim authority: %v", err)
	}
	return a
}

func TestSplitInstallationRows(t *testing.T) {
	t.Parallel()
	t.Run("RG-212 RG-214 RG-221 under the fan-out's own role one row a repository replaces the installation's at once", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.authority(t, "a1", store.AuthorityWork{Scope: store.ScopeInstallation, Reason: "team.edited"})
		b.authority(t, "a2", store.AuthorityWork{Scope: store.ScopeInstallation, Reason: "team.edited"})
		a := b.claimAuthority(t)
		if err := b.fanout.SplitInstallation(t.Context(), a, []store.RepositoryRef{{ID: 11, FullName: "acme/web"}, {ID: 10, FullName: "acme/api"}}); err != nil {
			t.Fatal(err)
		}
		if n := b.db.QueryInt("SELECT count(*) FROM authority WHERE scope = 'repository' AND epoch = 3 AND delivery_id = 'a2' AND reason = 'team.edited'"); n != 2 {
			t.Errorf("%d repository rows of epoch 3, want 2", n)
		}
		if n := b.db.QueryInt("SELECT count(*) FROM authority WHERE scope = 'installation'"); n != 0 {
			t.Errorf("the installation row stayed")
		}
		if got := b.db.QueryText("SELECT string_agg(full_name, ' ' ORDER BY repository_id) FROM repository"); got != "acme/api acme/web" {
			t.Errorf("routes %q", got)
		}
	})
	t.Run("RG-212 two splits fence a repository with a higher generation and keep a pass that has begun", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.authority(t, "a1", store.AuthorityWork{Scope: store.ScopeRepository, Repository: 10, FullName: "acme/api"})
		repo := b.claimAuthority(t)
		if err := b.fanout.AdvancePage(t.Context(), repo, "acme/api", nil, 5); err != nil {
			t.Fatal(err)
		}
		b.authority(t, "a2", store.AuthorityWork{Scope: store.ScopeInstallation})
		if err := b.fanout.SplitInstallation(t.Context(), b.claimAuthority(t), []store.RepositoryRef{{ID: 10, FullName: "acme/renamed"}}); err != nil {
			t.Fatal(err)
		}
		next := b.claimAuthority(t)
		if next.Page != 5 || next.Generation != 2 || next.PassGeneration != 1 || next.Epoch != 2 || next.FullName != "acme/renamed" {
			t.Errorf("the pass goes on as %+v", next)
		}
	})
	t.Run("RG-166 RG-223 an installation-wide change advances the epoch also where the installation was not known", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.authority(t, "a1", store.AuthorityWork{Scope: store.ScopeInstallation})
		if n := b.db.QueryInt("SELECT authority_epoch FROM installation"); n != 2 {
			t.Errorf("epoch %d, want 2: work of an unknown installation was queued at 1", n)
		}
	})
	t.Run("RG-215 a base push that is being accepted is seen by the split", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.authority(t, "a1", store.AuthorityWork{Scope: store.ScopeInstallation})
		a := b.claimAuthority(t)
		// The acceptance of a base push, stopped before its commit.
		conn, err := pgx.Connect(t.Context(), b.db.URL(storetest.Owner))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.Background())
		tx, err := conn.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, q := range []string{
			"SELECT pg_advisory_xact_lock_shared(hashtextextended('countersign authority queue of installation 1', 0))",
			"INSERT INTO authority (installation_id, scope, repository_id, base_ref, epoch, reason) VALUES (1, 'base', 10, 'main', 1, 'push')",
		} {
			if _, err := tx.Exec(t.Context(), q); err != nil {
				t.Fatal(err)
			}
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := b.fanout.SplitInstallation(t.Context(), a, []store.RepositoryRef{{ID: 10, FullName: "acme/api"}}); err != nil {
				t.Errorf("split: %v", err)
			}
		})
		for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
			if b.db.QueryInt("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())") == 1 {
				break
			}
			if time.Now().After(deadline) {
				t.Fatal("the split does not wait for the acceptance")
			}
		}
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		if got := b.db.QueryText("SELECT string_agg(scope, ' ') FROM authority"); got != "repository" {
			t.Errorf("rows %q, want the repository's alone", got)
		}
	})
}

func TestParkAuthority(t *testing.T) {
	t.Parallel()
	t.Run("RG-228 P14 parking doubles from its own start to its own bound, is counted, and a matching event wakes it", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.authority(t, "a1", store.AuthorityWork{Scope: store.ScopeRepository, Repository: 10, FullName: "acme/api"})
		for range 9 { // ordinary failures before it must not make the first wait a long one
			if err := b.fanout.DeferAuthority(t.Context(), b.claimAuthority(t), 0, "boom", true); err != nil {
				t.Fatal(err)
			}
		}
		for _, want := range []time.Duration{300, 600, 1200, 1500, 1500} {
			got, err := b.fanout.ParkAuthority(t.Context(), b.claimAuthority(t), 300*time.Second, 1500*time.Second, "not found")
			if err != nil || got.Round(time.Second) != want*time.Second {
				t.Fatalf("parked for %s, %v; want %ds", got, err, want)
			}
			b.db.Exec("UPDATE authority SET available_at = now() - interval '1 second'")
		}
		b.db.Exec("UPDATE authority SET available_at = now() + interval '1 hour'")
		if got, err := b.fanout.ReadAuthorityBacklog(t.Context()); err != nil || got != (store.AuthorityBacklog{Parked: 1}) {
			t.Errorf("backlog %+v, %v", got, err)
		}
		b.authority(t, "a2", store.AuthorityWork{Scope: store.ScopeRepository, Repository: 10, FullName: "acme/api"})
		woken, err := b.fanout.ReadAuthorityBacklog(t.Context())
		if err != nil || woken.Due != 1 || woken.Parked != 0 || woken.OldestAge <= 0 {
			t.Errorf("after the event: backlog %+v, %v", woken, err)
		}
		if a := b.claimAuthority(t); a.Attempts != 0 {
			t.Errorf("woken with %d attempts", a.Attempts)
		}
	})
	t.Run("RG-229 a finished pass queues nothing, and a stale claimant can neither finish nor park", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.authority(t, "a1", store.AuthorityWork{Scope: store.ScopeRepository, Repository: 10, FullName: "acme/api"})
		a := b.claimAuthority(t)
		b.authority(t, "a2", store.AuthorityWork{Scope: store.ScopeRepository, Repository: 10, FullName: "acme/api"})
		_, err := b.fanout.ParkAuthority(t.Context(), a, time.Second, time.Second, "x")
		wantErr(t, err, store.ErrLeaseLost)
		wantErr(t, b.fanout.FinishAuthority(t.Context(), a), store.ErrLeaseLost)
		if err := b.fanout.FinishAuthority(t.Context(), b.claimAuthority(t)); err != nil {
			t.Fatal(err)
		}
		if n := b.db.QueryInt("SELECT (SELECT count(*) FROM authority) + (SELECT count(*) FROM evaluation)"); n != 0 {
			t.Errorf("%d rows left", n)
		}
	})
}

func TestWakeParked(t *testing.T) {
	t.Parallel()
	t.Run("P14 what a listing shows again is due at once, and nothing else is", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		for id, name := range map[store.RepositoryID]string{10: "acme/api", 11: "acme/web", 12: "acme/docs"} {
			b.authority(t, store.DeliveryID(name), store.AuthorityWork{Scope: store.ScopeRepository, Repository: id, FullName: name})
		}
		for range 2 {
			if _, err := b.fanout.ParkAuthority(t.Context(), b.claimAuthority(t), time.Hour, time.Hour, "not found"); err != nil {
				t.Fatal(err)
			}
		}
		b.db.Exec("UPDATE authority SET available_at = now() + interval '1 hour'")
		woken, err := b.reconciler.WakeParked(t.Context(), 1, []store.RepositoryID{10, 12})
		parked := b.db.QueryInt("SELECT count(*) FROM authority WHERE parked_at IS NOT NULL AND repository_id IN (10, 12)")
		if err != nil || int64(woken) != parked {
			t.Errorf("woke %d, %v; %d of the listed were parked", woken, err, parked)
		}
		if n := b.db.QueryInt("SELECT count(*) FROM authority WHERE available_at <= now() AND (parked_at IS NULL OR repository_id = 11)"); n != 0 {
			t.Errorf("%d others were woken", n)
		}
	})
}

func TestElectDue(t *testing.T) {
	t.Parallel()
	t.Run("RG-400 replicas share one rhythm, and a look that was asked for is due at once", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		term, err := b.reconciler.ElectDue(t.Context(), "reconciler", "one", ttl, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		_, err = b.reconciler.ElectDue(t.Context(), "reconciler", "two", ttl, 0)
		wantErr(t, err, store.ErrNoWork)
		if err := b.reconciler.ResignTerm(t.Context(), term, "partial"); err != nil {
			t.Fatal(err)
		}
		_, err = b.reconciler.ElectDue(t.Context(), "reconciler", "two", ttl, time.Hour)
		wantErr(t, err, store.ErrNoWork)
		status, err := b.reconciler.ReadLease(t.Context(), "reconciler")
		if err != nil || status.LastResult != "partial" || status.LastAttempt.IsZero() || !status.LastSuccess.IsZero() {
			t.Errorf("status %+v, %v", status, err)
		}
		if _, err = b.reconciler.ElectDue(t.Context(), "reconciler", "two", ttl, 0); err != nil {
			t.Errorf("asked for now: %v", err)
		}
	})
	t.Run("a lease nobody took is the zero status", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		if got, err := b.reconciler.ReadLease(t.Context(), "reconciler"); err != nil || got != (store.LeaseStatus{}) {
			t.Errorf("status %+v, %v", got, err)
		}
	})
	t.Run("RG-145 an installation only a listing named can be paused", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		wantErr(t, b.reconciler.Pause(t.Context(), 1, time.Minute, "primary"), store.ErrNotFound)
		for range 2 {
			if err := b.reconciler.KeepInstallation(t.Context(), 1, "acme"); err != nil {
				t.Fatal(err)
			}
		}
		if until, err := b.reconciler.PausedUntil(t.Context(), 1); err != nil || !until.IsZero() {
			t.Errorf("paused until %s, %v", until, err)
		}
		if got := b.db.QueryText("SELECT account_login FROM installation"); got != "acme" {
			t.Errorf("login %q", got)
		}
	})
}

func TestEnqueueIdleRace(t *testing.T) {
	t.Parallel()
	t.Run("RG-402 a webhook that is being stored for an unknown pull request wins: its row and generation stay", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.db.Exec("INSERT INTO repository (installation_id, repository_id, full_name) VALUES (1, 10, 'acme/api')")
		conn, err := pgx.Connect(t.Context(), b.db.URL(storetest.Owner))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.Background())
		tx, err := conn.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		// What an acceptance writes, stopped before its commit.
		for _, q := range []string{
			"INSERT INTO pull (installation_id, repository_id, number, generation, head_sha) VALUES (1, 10, 7, 1, '" + string(headA) + "')",
			"INSERT INTO head (installation_id, repository_id, head_sha) VALUES (1, 10, '" + string(headA) + "')",
			"INSERT INTO evaluation (installation_id, repository_id, number, generation, head_sha, head_generation, authority_epoch, reason, delivery_id) VALUES (1, 10, 7, 1, '" + string(headA) + "', 1, 1, 'pull_request.opened', 'd1')",
		} {
			if _, err := tx.Exec(t.Context(), q); err != nil {
				t.Fatal(err)
			}
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			queued, err := b.reconciler.EnqueueIdle(t.Context(), store.PullKey{Installation: 1, Repository: 10, Number: 7}, "acme/api",
				store.PullFact{Number: 7, Head: headA, BaseRef: "main", State: "open", UpdatedAt: time.Now()}, time.Hour)
			if err != nil || queued {
				t.Errorf("queued %v, %v", queued, err)
			}
		})
		for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
			if b.db.QueryInt("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") == 1 {
				break
			}
			if time.Now().After(deadline) {
				t.Fatal("the reconciler does not wait for the acceptance")
			}
		}
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		if got := b.db.QueryText("SELECT format('%s %s %s %s', p.generation, h.generation, e.generation, e.reason) FROM pull p, head h, evaluation e"); got != "1 1 1 pull_request.opened" {
			t.Errorf("rows %q", got)
		}
	})
}
