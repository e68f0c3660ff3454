package store_test

import (
	"errors"
	"testing"
	"time"

	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/store/storetest"
)

// chained is a chain of five decisions.
func chained(t *testing.T) (*bundle, *store.Store) {
	t.Helper()
	b := setup(t)
	for n := range 5 {
		b.decided(t, n+1, sha(n), store.StateMissing, "@acme/core")
	}
	return b, b.db.Store(storetest.Owner)
}

func TestWalkChain(t *testing.T) {
	t.Parallel()
	t.Run("I9 a chain that nobody touched holds", func(t *testing.T) {
		t.Parallel()
		_, s := chained(t)
		if n, faults, err := s.WalkChain(t.Context(), 1, 20, nil); n != 5 || len(faults) != 0 || err != nil {
			t.Errorf("%d, %v, %v", n, faults, err)
		}
		if n, faults, err := s.WalkChain(t.Context(), 9, 20, nil); n != 0 || len(faults) != 0 || err != nil {
			t.Errorf("of nobody: %d, %v, %v", n, faults, err)
		}
	})
	rows := map[string]struct {
		sql      string
		kind     store.ChainFaultKind
		sequence int64
	}{
		"changed":             {"UPDATE decision SET conclusion = 'success' WHERE sequence = 3", store.ChainChanged, 3},
		"changed with a hash": {"UPDATE decision SET conclusion = 'success', hash = repeat('0', 64) WHERE sequence = 3", store.ChainChanged, 3},
		"removed":             {"DELETE FROM decision WHERE sequence = 3", store.ChainRemoved, 3},
		"removed, and the rest moved up": {`DO $$ BEGIN DELETE FROM decision WHERE sequence = 3;
			UPDATE decision SET sequence = 3 WHERE sequence = 4; UPDATE decision SET sequence = 4 WHERE sequence = 5; END $$`, store.ChainRemoved, 3},
		"reordered": {`DO $$ BEGIN UPDATE decision SET sequence = 99 WHERE sequence = 2; UPDATE decision SET sequence = 2 WHERE sequence = 4;
			UPDATE decision SET sequence = 4 WHERE sequence = 99; END $$`, store.ChainReordered, 2},
		"the first removed": {"DELETE FROM decision WHERE sequence = 1", store.ChainRemoved, 1},
		"the last removed":  {"DELETE FROM decision WHERE sequence = 5", store.ChainTail, 5},
		"the tip changed":   {"UPDATE decision_chain SET hash = 'x'", store.ChainTail, 5},
		"the tip removed":   {"DELETE FROM decision_chain", store.ChainTail, 5},
	}
	for name, r := range rows {
		t.Run("I9 a row that was tampered with is found: "+name, func(t *testing.T) {
			t.Parallel()
			db := storetest.New(t)
			b := &bundle{db: db, ingress: db.Store(storetest.Ingress), invalidator: db.Store(storetest.Invalidator), evaluator: db.Store(storetest.Evaluator)}
			for n := range 5 {
				b.decided(t, n+1, sha(n), store.StateMissing)
			}
			db.Exec(r.sql)
			s := db.Store(storetest.Owner)
			_, faults, err := s.WalkChain(t.Context(), 1, 20, nil)
			if err != nil || len(faults) == 0 || faults[0].Kind != r.kind || faults[0].Sequence != r.sequence {
				t.Errorf("%+v, %v", faults, err)
			}
			if _, err := s.VerifyChain(t.Context(), 1); !errors.Is(err, store.ErrChainBroken) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestCutChain(t *testing.T) {
	t.Parallel()
	t.Run("D8 old decisions go from the beginning, and the chain holds from its checkpoint", func(t *testing.T) {
		t.Parallel()
		b, s := chained(t)
		b.db.Exec("UPDATE head SET published_decision_id = NULL, published_generation = 0 WHERE head_sha <> $1", sha(4))
		cutoff := time.Now().Add(time.Hour)
		plan, err := s.PlanCut(t.Context(), 1, cutoff)
		if err != nil || plan.Removed != 4 || plan.Through != 4 || plan.Kept == "" {
			t.Fatalf("%+v, %v", plan, err)
		}
		if n, err := s.VerifyChain(t.Context(), 1); n != 5 || err != nil {
			t.Errorf("a plan changed something: %d, %v", n, err)
		}
		cut, err := s.CutChain(t.Context(), 1, cutoff)
		if err != nil || cut.Removed != 4 || cut.Through != 4 || cut.Bytes == 0 {
			t.Fatalf("%+v, %v", cut, err)
		}
		if n, err := s.VerifyChain(t.Context(), 1); n != 1 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		if again, err := s.CutChain(t.Context(), 1, cutoff); err != nil || again.Removed != 0 {
			t.Errorf("%+v, %v", again, err)
		}
		if n := b.db.QueryInt("SELECT count(*) FROM decision_checkpoint"); n != 1 {
			t.Errorf("%d checkpoints", n)
		}
		b.decided(t, 70, sha(9), store.StateMissing)
		if n, err := s.VerifyChain(t.Context(), 1); n != 2 || err != nil {
			t.Errorf("the chain does not go on: %d, %v", n, err)
		}
		if keeping, err := s.ReadKeeping(t.Context()); err != nil || len(keeping) != 5 || keeping[0].Oldest.IsZero() {
			t.Errorf("%+v, %v", keeping, err)
		}
	})
	t.Run("D8 a decision that a check shows stays, and what is behind it", func(t *testing.T) {
		t.Parallel()
		_, s := chained(t)
		if cut, err := s.CutChain(t.Context(), 1, time.Now().Add(time.Hour)); err != nil || cut.Removed != 0 {
			t.Errorf("%+v, %v", cut, err)
		}
	})
	t.Run("D8 no service may cut", func(t *testing.T) {
		t.Parallel()
		b, _ := chained(t)
		b.db.Exec("UPDATE head SET published_decision_id = NULL, published_generation = 0")
		for _, role := range []storetest.Role{storetest.Evaluator, storetest.Reconciler, storetest.Ingress} {
			if _, err := b.db.Store(role).CutChain(t.Context(), 1, time.Now().Add(time.Hour)); err == nil {
				t.Errorf("%s may", role)
			}
		}
	})
}

func TestHoldInstallation(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := b.db.Store(storetest.Owner)
	if err := s.HoldInstallation(t.Context(), 1, "octo", "release"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("%v", err)
	}
	b.accept(t, "d1", direct(7, headA))
	if err := s.HoldInstallation(t.Context(), 1, "octo", "release"); err != nil {
		t.Fatal(err)
	}
	t.Run("I4 revocation goes on while an operator holds the installation", func(t *testing.T) { b.invalidate(t) })
	if _, err := b.evaluator.ClaimEvaluation(t.Context(), "e", ttl); !errors.Is(err, store.ErrNoWork) {
		t.Errorf("an evaluation of a held installation was claimed: %v", err)
	}
	if _, err := b.ingress.AcceptMergeGroup(t.Context(), store.Delivery{ID: "g1", Event: "merge_group"}, store.GroupWork{
		Installation: 1, Repository: 10, FullName: "acme/api", Head: headB, HeadRef: "refs/heads/gh-readonly-queue/main/pr-7-x", BaseRef: "main", BaseSHA: headA, Reason: "merge_group.checks_requested",
	}); err != nil {
		t.Fatal(err)
	}
	b.invalidate(t)
	if _, err := b.evaluator.ClaimMergeGroup(t.Context(), "e", ttl); !errors.Is(err, store.ErrNoWork) {
		t.Errorf("a group of a held installation was claimed: %v", err)
	}
	if was, err := s.ReleaseInstallation(t.Context(), 1); !was || err != nil {
		t.Errorf("%v, %v", was, err)
	}
	if was, err := s.ReleaseInstallation(t.Context(), 1); was || err != nil {
		t.Errorf("%v, %v", was, err)
	}
	b.claim(t)
	if i, err := s.FindInstallation(t.Context(), "ACME"); i != 1 || err != nil {
		t.Errorf("%v, %v", i, err)
	}
}
