package store_test

import (
	"testing"
	"time"

	"github.com/countersign/countersign/pkg/store"
)

// A pull request that is found at another head has left the one it was known to be at, whoever finds it and whether or not
// the event that told of the move was delivered.
func TestLeavingAHead(t *testing.T) {
	t.Parallel()
	start := time.Now().Add(-time.Hour)
	moved := store.PullFact{Number: 7, Head: headB, BaseRef: "main", State: "open", UpdatedAt: start.Add(time.Minute)}
	ways := map[string]func(t *testing.T, b *bundle){
		"a later webhook that says nothing of the move": func(t *testing.T, b *bundle) {
			w := direct(7, headB)
			w.Watermark = store.Watermark{Head: headB, UpdatedAt: moved.UpdatedAt}
			b.accept(t, "d2", w)
		},
		"a fan-out's listing": func(t *testing.T, b *bundle) {
			push := store.AuthorityWork{Installation: 1, Scope: store.ScopeBase, Repository: 10, FullName: "acme/api", BaseRef: "main", Reason: "push"}
			if _, err := b.ingress.AcceptAuthority(t.Context(), store.Delivery{ID: "p1", Event: "push"}, push, time.Second); err != nil {
				t.Fatal(err)
			}
			a, err := b.fanout.ClaimAuthority(t.Context(), "fanout-1", ttl)
			if err != nil {
				t.Fatal(err)
			}
			if err := b.fanout.AdvancePage(t.Context(), a, "acme/api", []store.PullFact{moved}, 0); err != nil {
				t.Fatal(err)
			}
		},
		"a scan": func(t *testing.T, b *bundle) {
			b.db.Exec("DELETE FROM evaluation")
			if queued, err := b.reconciler.EnqueueIdle(t.Context(), store.PullKey{Installation: 1, Repository: 10, Number: 7}, "acme/api", moved, 0); err != nil || !queued {
				t.Fatalf("queued %v, %v", queued, err)
			}
		},
		"an evaluation": func(t *testing.T, b *bundle) {
			if err := b.evaluator.AdvanceEvaluation(t.Context(), b.claim(t), []store.PullFact{moved}); err != nil {
				t.Fatal(err)
			}
		},
		"the revocation of the head it went to": func(t *testing.T, b *bundle) {
			w := direct(8, headB)
			w.Watermark = store.Watermark{Head: headB, UpdatedAt: start}
			b.accept(t, "d2", w)
			b.invalidate(t, moved)
		},
	}
	for name, find := range ways {
		t.Run("P7 leaving a head revokes it: "+name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			w := direct(7, headA)
			w.Watermark = store.Watermark{Head: headA, UpdatedAt: start}
			b.accept(t, "d1", w)
			b.invalidate(t)
			find(t, b)
			if got := b.db.QueryText("SELECT head_sha FROM pull WHERE number = 7"); got != string(headB) {
				t.Fatalf("the pull request is at %s", got)
			}
			if n := b.db.QueryInt("SELECT generation - invalidated_generation FROM head WHERE head_sha = $1", headA); n < 1 {
				t.Error("the head that was left keeps its result")
			}
		})
	}
	t.Run("P5 a listing older than what was seen leaves no head", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		w := direct(7, headA)
		w.Watermark = store.Watermark{Head: headA, UpdatedAt: start.Add(2 * time.Minute)}
		b.accept(t, "d1", w)
		b.invalidate(t)
		b.accept(t, "d2", func() store.DirectWork { w := direct(8, headB); w.Watermark.UpdatedAt = start; return w }())
		b.invalidate(t, moved)
		if n := b.db.QueryInt("SELECT generation - invalidated_generation FROM head WHERE head_sha = $1", headA); n != 0 {
			t.Errorf("%d generations wait although nothing was left", n)
		}
	})
}
