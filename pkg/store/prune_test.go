package store_test

import (
	"testing"
	"time"

	"github.com/countersign/countersign/pkg/store"
)

// publish invalidates the next due head, decides it and confirms, as an evaluator would.
func (b *bundle) publish(t *testing.T, runID int64) {
	t.Helper()
	b.publishDecision(t, decision(runID))
}

func (b *bundle) publishDecision(t *testing.T, d store.Decision) store.DecisionID {
	t.Helper()
	runID := d.RunID
	inv, err := b.invalidator.ClaimInvalidation(t.Context(), "invalidator-1", ttl)
	if err != nil {
		t.Fatalf("claim invalidation: %v", err)
	}
	g := b.guard(t, inv.Head)
	if err := g.BindRun(t.Context(), inv.Generation, runID, false); err != nil {
		t.Fatalf("bind: %v", err)
	}
	if _, err := b.invalidator.CompleteInvalidation(t.Context(), inv, nil); err != nil {
		t.Fatalf("complete invalidation: %v", err)
	}
	ev := b.claim(t)
	d.Generation = ev.Rows[0].Generation
	id, err := g.RecordIntent(t.Context(), ev, d, []string{"main"})
	if err != nil {
		t.Fatalf("intend: %v", err)
	}
	if err := g.ConfirmPublication(t.Context(), ev, id, runID, []string{"main"}); err != nil {
		t.Fatalf("confirm: %v", err)
	}
	g.Release()
	if _, err := b.evaluator.CompleteEvaluation(t.Context(), ev, nil); err != nil {
		t.Fatalf("complete: %v", err)
	}
	return id
}

func TestPruneHeads(t *testing.T) {
	t.Parallel()
	closed := func() store.DirectWork {
		w := direct(7, headA)
		w.State = "closed"
		return w
	}
	// longAgo makes everything as old as retention asks for, and retention run.
	longAgo := func(t *testing.T, b *bundle) int {
		t.Helper()
		b.db.Exec("UPDATE delivery SET received_at = now() - interval '60 days'")
		b.db.Exec("UPDATE head SET updated_at = now() - interval '60 days'")
		if _, err := b.reconciler.PruneDeliveries(t.Context(), 30*24*time.Hour, 1000); err != nil {
			t.Fatal(err)
		}
		n, err := b.reconciler.PruneHeads(t.Context(), 30*24*time.Hour, 1000)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	t.Run("RG-406 a head nobody refers to is removed", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.accept(t, "d1", closed())
		b.invalidate(t)
		if _, err := b.evaluator.CompleteEvaluation(t.Context(), b.claim(t), nil); err != nil {
			t.Fatal(err)
		}
		if n := longAgo(t, b); n != 1 {
			t.Errorf("%d heads removed, want 1", n)
		}
	})
	t.Run("RG-114 a pull request reopened after retention is decided again at a generation of its own", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.accept(t, "d1", direct(7, headA))
		b.publish(t, 100)
		b.accept(t, "d2", closed())
		b.invalidate(t)
		if _, err := b.evaluator.CompleteEvaluation(t.Context(), b.claim(t), nil); err != nil {
			t.Fatal(err)
		}
		longAgo(t, b)
		b.accept(t, "d3", direct(7, headA))
		b.publish(t, 100)
		if n := b.db.QueryInt("SELECT count(DISTINCT head_generation) FROM decision WHERE outcome = 'confirmed'"); n != 2 {
			t.Errorf("%d generations were decided, want 2", n)
		}
	})
}
