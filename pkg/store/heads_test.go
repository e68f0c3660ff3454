package store_test

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/store/storetest"
)

func TestHeadGenerations(t *testing.T) {
	t.Parallel()
	t.Run("RG-109 an older generation cannot delete newer work", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.accept(t, "d1", direct(7, headA))
		b.invalidate(t)
		ev := b.claim(t)
		b.accept(t, "d2", direct(7, headA))
		if _, err := b.evaluator.CompleteEvaluation(t.Context(), ev, nil); !errors.Is(err, store.ErrSuperseded) {
			t.Errorf("completion ended with %v", err)
		}
		if n := b.db.QueryInt("SELECT count(*) FROM evaluation WHERE generation = 2"); n != 1 {
			t.Error("the newer work is gone")
		}
	})
	t.Run("RG-110 stale evidence cannot overwrite another pull request's revocation on the same commit", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.accept(t, "d1", direct(7, headA))
		b.invalidate(t)
		ev := b.claim(t)
		b.accept(t, "d2", direct(8, headA)) // another pull request on the commit is revoked
		guard := b.guard(t, ev.Head)
		err := guard.Fences(t.Context(), ev, 1, []string{"main"}, 0)
		var fence *store.FenceError
		if !errors.As(err, &fence) || fence.Fence != store.FenceHeadGeneration {
			t.Errorf("the fences say %v", err)
		}
		if _, err := guard.RecordIntent(t.Context(), ev, decision(1), []string{"main"}); !errors.Is(err, store.ErrSuperseded) {
			t.Errorf("the intent ended with %v", err)
		}
	})
	t.Run("RG-180 the gap between the generations is the pending work, and the database bounds them", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.accept(t, "d1", direct(7, headA))
		if n := b.db.QueryInt("SELECT generation - invalidated_generation FROM head"); n != 1 {
			t.Errorf("the gap is %d, want 1", n)
		}
		b.invalidate(t)
		if _, err := b.invalidator.ClaimInvalidation(t.Context(), "invalidator-1", ttl); !errors.Is(err, store.ErrNoWork) {
			t.Errorf("without a gap the claim ended with %v", err)
		}
		conn, err := pgx.Connect(t.Context(), b.db.URL(storetest.Owner))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(t.Context())
		for _, bad := range []string{"invalidated_generation = generation + 1", "invalidated_generation = -1", "generation = 0, invalidated_generation = 0"} {
			_, err := conn.Exec(t.Context(), "UPDATE head SET "+bad)
			var refused *pgconn.PgError
			if !errors.As(err, &refused) || refused.Code != "23514" {
				t.Errorf("%s: %v, want a check violation", bad, err)
			}
		}
	})
}
