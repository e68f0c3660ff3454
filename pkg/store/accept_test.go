package store_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/store/storetest"
)

func TestAcceptDirect(t *testing.T) {
	t.Parallel()
	t.Run("RG-100 RG-102 RG-108 delivery, pull request, head revocation and evaluation in one step", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		a := b.accept(t, "d1", direct(7, headA))
		if !a.New || a.HeadGeneration != 1 || !a.Pending {
			t.Fatalf("acceptance %+v", a)
		}
		for _, q := range []string{
			"SELECT count(*) FROM delivery WHERE head_generation = 1", "SELECT count(*) FROM pull WHERE number = 7 AND generation = 1",
			"SELECT count(*) FROM head WHERE generation = 1 AND invalidated_generation = 0", "SELECT count(*) FROM evaluation WHERE head_generation = 1 AND reason = 'pull_request.opened'",
		} {
			if n := b.db.QueryInt(q); n != 1 {
				t.Errorf("%s = %d, want 1", q, n)
			}
		}
	})
	t.Run("RG-100 RG-115 a failure in any row leaves none", func(t *testing.T) {
		t.Parallel()
		for _, table := range []string{"delivery", "pull", "head", "evaluation"} {
			b := setup(t)
			b.db.Exec("CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'refused'; END $$")
			b.db.Exec(fmt.Sprintf("CREATE TRIGGER refuse BEFORE INSERT ON %s FOR EACH ROW EXECUTE FUNCTION refuse()", table))
			if _, err := b.ingress.AcceptDirect(t.Context(), store.Delivery{ID: "d1", Event: "pull_request", Action: "opened"}, direct(7, headA)); err == nil {
				t.Fatalf("refused %s: accepted", table)
			}
			b.db.Exec(fmt.Sprintf("DROP TRIGGER refuse ON %s", table))
			n := b.db.QueryInt("SELECT (SELECT count(*) FROM delivery) + (SELECT count(*) FROM pull) + (SELECT count(*) FROM head) + (SELECT count(*) FROM evaluation)")
			if n != 0 {
				t.Errorf("refused %s: %d rows left behind", table, n)
			}
		}
	})
	t.Run("RG-101 RG-103 RG-104 a redelivery returns the first token and advances nothing", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		first := b.accept(t, "d1", direct(7, headA))
		b.accept(t, "d2", direct(7, headA))
		again := b.accept(t, "d1", direct(7, headA))
		if again.New || again.HeadGeneration != first.HeadGeneration {
			t.Errorf("redelivery %+v, first %+v", again, first)
		}
		if g := b.db.QueryInt("SELECT generation FROM head"); g != 2 {
			t.Errorf("head generation %d, want 2", g)
		}
		if g := b.db.QueryInt("SELECT generation FROM pull"); g != 2 {
			t.Errorf("pull generation %d, want 2", g)
		}
	})
	t.Run("RG-105 RG-106 one delivery id for two things is refused", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.accept(t, "d1", direct(7, headA))
		other := []struct {
			name string
			d    store.Delivery
			w    func(*store.DirectWork)
		}{
			{"event", store.Delivery{ID: "d1", Event: "pull_request_review", Action: "opened"}, func(*store.DirectWork) {}},
			{"installation", store.Delivery{ID: "d1", Event: "pull_request", Action: "opened"}, func(w *store.DirectWork) { w.Installation = 2 }},
			{"repository", store.Delivery{ID: "d1", Event: "pull_request", Action: "opened"}, func(w *store.DirectWork) { w.Repository = 11 }},
			{"pull request", store.Delivery{ID: "d1", Event: "pull_request", Action: "opened"}, func(w *store.DirectWork) { w.Number = 8 }},
			{"head", store.Delivery{ID: "d1", Event: "pull_request", Action: "opened"}, func(w *store.DirectWork) { w.Head = headB }},
		}
		for _, o := range other {
			w := direct(7, headA)
			o.w(&w)
			if _, err := b.ingress.AcceptDirect(t.Context(), o.d, w); err == nil {
				t.Errorf("another %s was accepted", o.name)
			} else {
				wantErr(t, err, store.ErrDeliveryConflict)
			}
		}
	})
	t.Run("RG-107 RG-111 triggers coalesce to one row that starts afresh", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.accept(t, "d1", direct(7, headA))
		b.invalidate(t)
		ev := b.claim(t)
		if err := b.evaluator.DeferEvaluation(t.Context(), ev, time.Hour, "boom", true); err != nil {
			t.Fatal(err)
		}
		w := direct(7, headA)
		w.Reason = "pull_request.edited"
		b.accept(t, "d2", w)
		if n := b.db.QueryInt("SELECT count(*) FROM evaluation WHERE attempts = 0 AND last_error = '' AND available_at <= now() AND generation = 2 AND reason = 'pull_request.edited'"); n != 1 {
			t.Error("the row was not reset by the new trigger")
		}
		if n := b.db.QueryInt("SELECT count(*) FROM head WHERE evaluation_expires_at IS NULL"); n != 1 {
			t.Error("the lease was not cleared")
		}
	})
	t.Run("RG-112 two deliveries racing for one pull request are both kept", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		const racers = 12
		var wg sync.WaitGroup
		errs := make([]error, racers)
		for i := range racers {
			wg.Go(func() {
				_, errs[i] = b.ingress.AcceptDirect(context.Background(), store.Delivery{ID: store.DeliveryID(fmt.Sprintf("d%d", i)), Event: "pull_request", Action: "opened"}, direct(7, headA))
			})
		}
		wg.Wait()
		for _, err := range errs {
			if err != nil {
				t.Error(err)
			}
		}
		if n := b.db.QueryInt("SELECT count(*) FROM delivery"); n != racers {
			t.Errorf("%d deliveries, want %d", n, racers)
		}
		if g := b.db.QueryInt("SELECT generation FROM head"); g != racers {
			t.Errorf("head generation %d, want %d", g, racers)
		}
	})
	t.Run("RG-101 one delivery twice at once counts once", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		var wg sync.WaitGroup
		fresh := make([]bool, 8)
		for i := range fresh {
			wg.Go(func() {
				a, err := b.ingress.AcceptDirect(context.Background(), store.Delivery{ID: "d1", Event: "pull_request", Action: "opened"}, direct(7, headA))
				if err != nil {
					t.Error(err)
				}
				fresh[i] = a.New
			})
		}
		wg.Wait()
		n := 0
		for _, f := range fresh {
			if f {
				n++
			}
		}
		if n != 1 || b.db.QueryInt("SELECT generation FROM head") != 1 {
			t.Errorf("%d racers were told the delivery was new", n)
		}
	})
	t.Run("RG-113 a SHA-256 head is a key of its own", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.accept(t, "d1", direct(7, headA))
		b.accept(t, "d2", direct(7, store.SHA(strings.Repeat("a", 64))))
		if n := b.db.QueryInt("SELECT count(*) FROM head"); n != 2 {
			t.Errorf("%d heads, want 2", n)
		}
	})
	t.Run("RG-114 returning to a former head advances its generation", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.accept(t, "d1", direct(7, headA))
		b.accept(t, "d2", direct(7, headB))
		left := store.Generation(b.db.QueryInt("SELECT generation FROM head WHERE head_sha = $1", headA))
		if a := b.accept(t, "d3", direct(7, headA)); a.HeadGeneration != left+1 {
			t.Errorf("generation %d, want %d", a.HeadGeneration, left+1)
		}
	})
	t.Run("P7 leaving a head revokes it", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.accept(t, "d1", direct(7, headA))
		b.invalidate(t)
		w := direct(7, headB)
		w.Before = headA
		b.accept(t, "d2", w)
		if n := b.db.QueryInt("SELECT generation - invalidated_generation FROM head WHERE head_sha = $1", headA); n != 1 {
			t.Errorf("the head that was left has %d generations to revoke, want 1", n)
		}
	})
	t.Run("P5 an older payload revokes its head but does not move the pull request back", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		now := time.Now()
		newer := direct(7, headB)
		newer.Watermark = store.Watermark{Head: headB, UpdatedAt: now}
		b.accept(t, "d1", newer)
		older := direct(7, headA)
		older.Watermark = store.Watermark{Head: headA, UpdatedAt: now.Add(-time.Minute)}
		b.accept(t, "d2", older)
		if sha := b.db.QueryText("SELECT head_sha FROM pull"); sha != string(headB) {
			t.Errorf("pull request moved back to %s", sha)
		}
		if sha := b.db.QueryText("SELECT head_sha FROM evaluation"); sha != string(headB) {
			t.Errorf("evaluation moved back to %s", sha)
		}
		if n := b.db.QueryInt("SELECT count(*) FROM head WHERE invalidated_generation < generation"); n != 2 {
			t.Errorf("%d heads wait for revocation, want both", n)
		}
	})
	t.Run("ingress's role cannot call a head invalidated, nor touch what is bound to it", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		for _, column := range []string{"invalidated_generation", "run_id", "run_generation", "posted_generation", "intent_decision_id", "published_decision_id", "published_generation", "invalidation_token", "evaluation_token"} {
			if n := b.db.QueryInt("SELECT has_column_privilege($1, 'head', $2, 'UPDATE')::int", storetest.Ingress, column); n != 0 {
				t.Errorf("it may write head.%s", column)
			}
		}
	})
	t.Run("ingress's role cannot decide", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		for _, role := range []storetest.Role{storetest.Ingress, storetest.Invalidator, storetest.Fanout, storetest.Reconciler} {
			if n := b.db.QueryInt("SELECT (has_table_privilege($1, 'decision', 'INSERT') OR has_any_column_privilege($1, 'decision', 'UPDATE') OR has_table_privilege($1, 'decision', 'DELETE'))::int", role); n != 0 {
				t.Errorf("%s may write decisions", role)
			}
		}
	})
}

func TestAcceptAuthority(t *testing.T) {
	t.Parallel()
	team := store.AuthorityWork{Installation: 1, AccountLogin: "acme", Scope: store.ScopeInstallation, Reason: "team.edited"}
	push := func(ref string) store.AuthorityWork {
		return store.AuthorityWork{Installation: 1, Scope: store.ScopeBase, Repository: 10, FullName: "acme/api", BaseRef: ref, Reason: "push."}
	}
	accept := func(t *testing.T, b *bundle, id string, w store.AuthorityWork) store.Acceptance {
		t.Helper()
		a, err := b.ingress.AcceptAuthority(t.Context(), store.Delivery{ID: store.DeliveryID(id), Event: "team"}, w, time.Second)
		if err != nil {
			t.Fatalf("accept %s: %v", id, err)
		}
		return a
	}
	t.Run("RG-166 RG-210 installation events advance the epoch, narrower ones do not", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		accept(t, b, "d1", team)
		accept(t, b, "d2", push("main"))
		accept(t, b, "d3", store.AuthorityWork{Installation: 1, Scope: store.ScopeRepository, Repository: 11, FullName: "acme/web", Reason: "label.edited"})
		if e := b.db.QueryInt("SELECT authority_epoch FROM installation"); e != 2 {
			t.Errorf("epoch %d after the first installation-wide event made it known, want 2: work of an unknown installation is queued at 1", e)
		}
		accept(t, b, "d4", team)
		if e := b.db.QueryInt("SELECT authority_epoch FROM installation"); e != 3 {
			t.Errorf("epoch %d, want 3", e)
		}
		if n := b.db.QueryInt("SELECT count(*) FROM authority"); n != 3 {
			t.Errorf("%d authority rows, want 3", n)
		}
	})
	t.Run("RG-161 RG-160 RG-163 a held guard refuses the event, which is new when it comes again", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.accept(t, "d0", direct(7, headA))
		g := b.guard(t, store.HeadKey{Installation: 1, Repository: 10, SHA: headA})
		for _, w := range []store.AuthorityWork{team, push("main")} {
			_, err := b.ingress.AcceptAuthority(t.Context(), store.Delivery{ID: "d1", Event: "team"}, w, 50*time.Millisecond)
			wantErr(t, err, store.ErrGuardTimeout)
		}
		if n := b.db.QueryInt("SELECT count(*) FROM delivery WHERE delivery_id = 'd1'"); n != 0 {
			t.Error("a refused event was recorded")
		}
		g.Release()
		if a := accept(t, b, "d1", team); !a.New {
			t.Error("the redelivery of a refused event was not new")
		}
	})
	t.Run("RG-103 RG-105 an authority redelivery changes nothing, another target is refused", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		accept(t, b, "d1", team)
		if a := accept(t, b, "d1", team); a.New {
			t.Error("a redelivery was new")
		}
		_, err := b.ingress.AcceptAuthority(t.Context(), store.Delivery{ID: "d1", Event: "team"}, push("main"), time.Second)
		wantErr(t, err, store.ErrDeliveryConflict)
	})
	t.Run("RG-216 RG-217 the 101st base ref collapses into the repository", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		for i := range store.MaxBaseRefs {
			accept(t, b, fmt.Sprintf("d%d", i), push(fmt.Sprintf("release-%d", i)))
		}
		accept(t, b, "again", push("release-5"))
		if n := b.db.QueryInt("SELECT count(*) FROM authority WHERE scope = 'base'"); n != store.MaxBaseRefs {
			t.Fatalf("%d base rows, want %d: a known ref is not a new one", n, store.MaxBaseRefs)
		}
		accept(t, b, "one too many", push("release-new"))
		if n := b.db.QueryInt("SELECT count(*) FROM authority WHERE scope = 'base'"); n != 0 {
			t.Errorf("%d base rows beside the repository-wide one", n)
		}
		if n := b.db.QueryInt("SELECT count(*) FROM authority WHERE scope = 'repository'"); n != 1 {
			t.Errorf("%d repository rows, want 1", n)
		}
	})
	t.Run("RG-215 RG-218 a repository-wide row swallows base rows, before and after", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		accept(t, b, "d1", push("main"))
		accept(t, b, "d2", store.AuthorityWork{Installation: 1, Scope: store.ScopeRepository, Repository: 10, FullName: "acme/api", Reason: "label.edited"})
		accept(t, b, "d3", push("main"))
		if n := b.db.QueryInt("SELECT count(*) FROM authority"); n != 1 {
			t.Errorf("%d rows, want the repository-wide one alone", n)
		}
		if g := b.db.QueryInt("SELECT generation FROM authority"); g != 2 {
			t.Errorf("generation %d, want 2: the later push merged into it", g)
		}
	})
}
