package store_test

import (
	"errors"
	"testing"

	"github.com/countersign/countersign/pkg/store"
)

func TestRevocationComesFirst(t *testing.T) {
	t.Parallel()
	t.Run("RG-181 a head is revoked before it is evaluated, and no authority work, held or retrying, stands before it", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.authority(t, "a1", store.AuthorityWork{Installation: 1, Scope: store.ScopeRepository, Repository: 10, FullName: "acme/api", Reason: "label.created"})
		held := b.claimAuthority(t)
		b.accept(t, "d1", direct(7, headA))
		if _, err := b.evaluator.ClaimEvaluation(t.Context(), "evaluator-1", ttl); !errors.Is(err, store.ErrNoWork) {
			t.Fatalf("evaluated before its revocation: %v", err)
		}
		inv, err := b.invalidator.ClaimInvalidation(t.Context(), "invalidator-1", ttl)
		if err != nil {
			t.Fatalf("authority work that is held keeps a revocation waiting: %v", err)
		}
		if _, err := b.evaluator.ClaimEvaluation(t.Context(), "evaluator-1", ttl); !errors.Is(err, store.ErrNoWork) {
			t.Fatalf("evaluated while its revocation is under way: %v", err)
		}
		if _, err := b.invalidator.CompleteInvalidation(t.Context(), inv, nil); err != nil {
			t.Fatal(err)
		}
		if ev := b.claim(t); ev.Head.SHA != headA {
			t.Errorf("claimed %v", ev.Head)
		}
		// The other way round: revocations that cannot be done keep no authority waiting ([L]: separate lanes).
		b.accept(t, "d2", direct(8, headB))
		stuck, err := b.invalidator.ClaimInvalidation(t.Context(), "invalidator-1", ttl)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.fanout.ParkAuthority(t.Context(), held, ttl, ttl, "not found"); err != nil {
			t.Fatal(err)
		}
		b.authority(t, "a2", store.AuthorityWork{Installation: 1, Scope: store.ScopeRepository, Repository: 10, FullName: "acme/api", Reason: "label.created"})
		if again := b.claimAuthority(t); again.Repository != 10 || stuck.Head.SHA != headB {
			t.Errorf("claimed %+v", again)
		}
	})
	t.Run("RG-181 the lane of a person's event is revoked before a storm's, whichever waited longer", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.accept(t, "d1", direct(7, headA))
		b.db.Exec("UPDATE head SET lane = $1, invalidation_available_at = now() - interval '1 hour'", store.LaneFanout)
		b.accept(t, "d2", direct(8, headB))
		if inv := b.invalidate(t); inv.Head.SHA != headB {
			t.Errorf("claimed %v first", inv.Head)
		}
	})
}
