package store_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/store/storetest"
)

const groupSHA = store.SHA("dddddddddddddddddddddddddddddddddddddddd")

func groupKey() store.HeadKey { return store.HeadKey{Installation: 1, Repository: 10, SHA: groupSHA} }

func (b *bundle) acceptGroup(t *testing.T, id store.DeliveryID, ended string) store.Acceptance {
	t.Helper()
	action := "checks_requested"
	if ended != "" {
		action = "destroyed"
	}
	a, err := b.ingress.AcceptMergeGroup(t.Context(), store.Delivery{ID: id, Event: "merge_group", Action: action}, store.GroupWork{
		Installation: 1, AccountLogin: "acme", Repository: 10, FullName: "acme/api", Head: groupSHA, HeadRef: "refs/heads/gh-readonly-queue/main/pr-7-x",
		BaseRef: "main", BaseSHA: headB, Ended: ended != "", EndedReason: ended, Reason: "merge_group." + action,
	})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// grouped stages one member, whose own work is done, and a group of it that is claimed for evaluation.
func grouped(t *testing.T) (*bundle, store.Evaluation) {
	t.Helper()
	b := setup(t)
	b.accept(t, "d1", direct(7, headA))
	b.invalidate(t)
	if _, err := b.evaluator.CompleteEvaluation(t.Context(), b.claim(t), nil); err != nil {
		t.Fatal(err)
	}
	b.acceptGroup(t, "g1", "")
	b.invalidate(t)
	return b, b.claimGroup(t)
}

func (b *bundle) claimGroup(t *testing.T) store.Evaluation {
	t.Helper()
	ev, err := b.evaluator.ClaimMergeGroup(t.Context(), "evaluator-1", ttl)
	if err != nil || ev.Group == nil {
		t.Fatalf("claim %+v, %v", ev.Group, err)
	}
	return ev
}

var member = []store.GroupMember{{Number: 7, Head: headA}}

func (b *bundle) record(t *testing.T, ev store.Evaluation) {
	t.Helper()
	if err := b.evaluator.RecordMembers(t.Context(), ev, member); err != nil {
		t.Fatal(err)
	}
}

func (b *bundle) fences(t *testing.T, ev store.Evaluation) error {
	t.Helper()
	guard, err := b.evaluator.AcquireGuard(t.Context(), ev.Head, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer guard.Release()
	if err := guard.BindRun(t.Context(), ev.Generation, 900, false); err != nil && !errors.Is(err, store.ErrSuperseded) {
		t.Fatal(err)
	}
	return guard.Fences(t.Context(), ev, 900, []string{"main"}, 0)
}

func TestMergeGroup(t *testing.T) {
	t.Parallel()
	t.Run("D6 P13 whatever raises a member's head raises the group, and nothing of it is published", func(t *testing.T) {
		t.Parallel()
		b, ev := grouped(t)
		b.record(t, ev)
		if err := b.fences(t, ev); err != nil {
			t.Fatalf("the stage is not set: %v", err)
		}
		b.accept(t, "d2", direct(7, headA))
		var fence *store.FenceError
		if err := b.fences(t, ev); !errors.As(err, &fence) || fence.Fence != store.FenceHeadGeneration {
			t.Errorf("fences: %v", err)
		}
		if _, err := b.evaluator.CompleteEvaluation(t.Context(), ev, nil); !errors.Is(err, store.ErrSuperseded) {
			t.Errorf("the older claim completes: %v", err)
		}
		if got := b.db.QueryInt("SELECT count(*) FROM merge_group WHERE waiting AND generation = 2"); got != 1 {
			t.Error("the group does not wait for its evaluation")
		}
	})
	t.Run("P13 P7 a push away from the member's head raises the group", func(t *testing.T) {
		t.Parallel()
		b, ev := grouped(t)
		b.record(t, ev)
		w := direct(7, headB)
		w.Before = headA
		b.accept(t, "d2", w)
		if got := b.db.QueryInt("SELECT generation FROM head WHERE head_sha = $1", groupSHA); got != 2 {
			t.Errorf("generation %d", got)
		}
	})
	for name, row := range map[string]struct {
		change string
		fence  store.Fence
	}{
		"another generation": {"UPDATE merge_group SET generation = generation + 1", store.FenceMergeGroup},
		"an end":             {"UPDATE merge_group SET state = 'ended', ended_reason = 'dequeued', waiting = false", store.FenceMergeGroup},
		"another epoch":      {"UPDATE merge_group SET authority_epoch = 0", store.FenceMergeGroup},
	} {
		t.Run("P13 I3 the fence of the group refuses "+name, func(t *testing.T) {
			t.Parallel()
			b, ev := grouped(t)
			b.db.Exec(row.change)
			var fence *store.FenceError
			if err := b.fences(t, ev); !errors.As(err, &fence) || fence.Fence != row.fence {
				t.Errorf("fences: %v", err)
			}
			b.db.Exec("UPDATE merge_group SET authority_epoch = 1")
		})
	}
	t.Run("P13 I3 a claim that knows of no group publishes nothing on a group's head", func(t *testing.T) {
		t.Parallel()
		b, ev := grouped(t)
		ev.Group = nil
		var fence *store.FenceError
		if err := b.fences(t, ev); !errors.As(err, &fence) || fence.Fence != store.FenceMergeGroup {
			t.Errorf("fences: %v", err)
		}
	})
	t.Run("P4 P13 a pull request on the group's head is claimed together with the group", func(t *testing.T) {
		t.Parallel()
		b, ev := grouped(t)
		if _, err := b.evaluator.CompleteEvaluation(t.Context(), ev, nil); err != nil {
			t.Fatal(err)
		}
		b.accept(t, "d2", direct(8, groupSHA))
		b.invalidate(t)
		if ev := b.claim(t); ev.Group == nil || len(ev.Rows) != 1 || ev.Rows[0].Number != 8 {
			t.Errorf("claim %+v", ev)
		}
	})
	t.Run("D6 a destroyed group waits for nothing and its head is revoked", func(t *testing.T) {
		t.Parallel()
		b, ev := grouped(t)
		b.record(t, ev)
		b.acceptGroup(t, "g2", "dequeued")
		inv, err := b.invalidator.ClaimInvalidation(t.Context(), "invalidator-1", ttl)
		if err != nil || inv.Group == nil || inv.Group.State != store.GroupEnded || inv.Group.EndedReason != "dequeued" {
			t.Fatalf("invalidation %+v, %v", inv.Group, err)
		}
		if _, err := b.invalidator.CompleteInvalidation(t.Context(), inv, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := b.evaluator.ClaimMergeGroup(t.Context(), "evaluator-1", ttl); !errors.Is(err, store.ErrNoWork) {
			t.Errorf("there is work: %v", err)
		}
		b.accept(t, "d2", direct(7, headA)) // a member's change raises it no more
		if got := b.db.QueryInt("SELECT generation FROM head WHERE head_sha = $1", groupSHA); got != 2 {
			t.Errorf("generation %d", got)
		}
	})
	t.Run("D6 D13 I2 a group that is said to be merged keeps its lease and its success, and is looked at again", func(t *testing.T) {
		t.Parallel()
		b, ev := grouped(t)
		b.record(t, ev)
		b.acceptGroup(t, "g2", "merged")
		if err := b.fences(t, ev); err != nil {
			t.Errorf("its own publication is refused: %v", err)
		}
		if _, err := b.evaluator.CompleteEvaluation(t.Context(), ev, nil); err != nil {
			t.Fatal(err)
		}
		b.acceptGroup(t, "g3", "merged")
		b.db.Exec("UPDATE merge_group SET available_at = now()")
		ev = b.claimGroup(t)
		if !ev.Group.Recheck || ev.Generation != 1 {
			t.Errorf("claim %+v of generation %d", ev.Group, ev.Generation)
		}
		if err := b.evaluator.EndMergeGroup(t.Context(), ev, "merged"); err != nil {
			t.Fatal(err)
		}
		b.acceptGroup(t, "g4", "merged")
		if got := b.db.QueryText("SELECT state || ' ' || ended_reason || ' ' || waiting FROM merge_group"); got != "ended merged false" {
			t.Errorf("the group is %s", got)
		}
	})
	t.Run("D6 RG-103 RG-105 a group's delivery is stored once, and its id means nothing else", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		first := b.acceptGroup(t, "g1", "")
		if again := b.acceptGroup(t, "g1", ""); again.New || again.HeadGeneration != first.HeadGeneration || !again.Pending {
			t.Errorf("again %+v after %+v", again, first)
		}
		if _, err := b.ingress.AcceptMergeGroup(t.Context(), store.Delivery{ID: "g1", Event: "merge_group", Action: "destroyed"}, store.GroupWork{
			Installation: 1, Repository: 10, FullName: "acme/api", Head: groupSHA, HeadRef: "r", BaseRef: "main", BaseSHA: headB, Ended: true, EndedReason: "merged", Reason: "x",
		}); !errors.Is(err, store.ErrDeliveryConflict) {
			t.Errorf("conflict: %v", err)
		}
	})
	t.Run("RG-274 a reclaimed group has a new generation, and I5 the older claim ends nothing", func(t *testing.T) {
		t.Parallel()
		b, first := grouped(t)
		b.db.Exec("UPDATE head SET evaluation_expires_at = now() - interval '1 second' WHERE evaluation_expires_at IS NOT NULL")
		second := b.claimGroup(t)
		if second.Token <= first.Token || second.Group.Generation != first.Group.Generation+1 {
			t.Errorf("token %d after %d, generation %d after %d", second.Token, first.Token, second.Group.Generation, first.Group.Generation)
		}
		if _, err := b.evaluator.CompleteEvaluation(t.Context(), first, nil); !errors.Is(err, store.ErrLeaseLost) {
			t.Errorf("the former owner completes: %v", err)
		}
		if err := b.evaluator.RecordMembers(t.Context(), first, member); !errors.Is(err, store.ErrLeaseLost) {
			t.Errorf("the former owner records members: %v", err)
		}
		if err := b.evaluator.DeferEvaluation(t.Context(), second, time.Hour, "x", true); err != nil {
			t.Fatal(err)
		}
		if _, err := b.evaluator.ClaimMergeGroup(t.Context(), "evaluator-1", ttl); !errors.Is(err, store.ErrNoWork) {
			t.Errorf("deferred work is claimed: %v", err)
		}
	})
	t.Run("P8 P5 a group is requeued at the current epoch, and kept for a recheck", func(t *testing.T) {
		t.Parallel()
		b, ev := grouped(t)
		b.db.Exec("UPDATE installation SET authority_epoch = authority_epoch + 1")
		if err := b.evaluator.RequeueEvaluation(t.Context(), ev, "authority.epoch"); err != nil {
			t.Fatal(err)
		}
		b.invalidate(t)
		ev = b.claimGroup(t)
		if ev.StaleEpoch() || ev.Group.Generation != 2 || ev.Generation != 2 {
			t.Errorf("claim %+v", ev.Group)
		}
		if _, err := b.evaluator.CompleteEvaluation(t.Context(), ev, []store.FollowUp{{After: 0, Reason: "recheck.success"}}); err != nil {
			t.Fatal(err)
		}
		if ev = b.claimGroup(t); !ev.Group.Recheck || ev.Trigger().Lane != store.LaneRecheck {
			t.Errorf("claim %+v", ev.Group)
		}
	})
	t.Run("RG-406 ended groups go before their heads", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.acceptGroup(t, "g1", "dequeued")
		b.invalidate(t)
		b.db.Exec("DELETE FROM delivery")
		b.db.Exec("UPDATE merge_group SET updated_at = now() - interval '2 hours'")
		b.db.Exec("UPDATE head SET updated_at = now() - interval '2 hours'")
		if n, err := b.reconciler.PruneHeads(t.Context(), time.Hour, 10); err != nil || n != 1 {
			t.Errorf("%d heads, %v", n, err)
		}
		if got := b.db.QueryInt("SELECT count(*) FROM merge_group"); got != 0 {
			t.Errorf("%d groups are left", got)
		}
	})
}

func TestMergeGroupRaces(t *testing.T) {
	t.Parallel()
	// waiting polls until one connection waits for another's row.
	waiting := func(t *testing.T, b *bundle) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
			if b.db.QueryInt("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") > 0 {
				return
			}
			if time.Now().After(deadline) {
				t.Fatal("nobody waits")
			}
		}
	}
	begin := func(t *testing.T, b *bundle, role storetest.Role) (*pgx.Conn, pgx.Tx) {
		t.Helper()
		conn, err := pgx.Connect(t.Context(), b.db.URL(role))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close(context.Background()) })
		tx, err := conn.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return conn, tx
	}
	t.Run("P13 a trigger that is being accepted while members are recorded is seen as the member's own work", func(t *testing.T) {
		t.Parallel()
		b, ev := grouped(t)
		_, tx := begin(t, b, storetest.Ingress)
		if _, err := tx.Exec(t.Context(), "UPDATE head SET generation = generation + 1 WHERE head_sha = $1", headA); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := b.evaluator.RecordMembers(t.Context(), ev, member); err != nil {
				t.Errorf("record: %v", err)
			}
		})
		waiting(t, b)
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		if pending, err := b.evaluator.MembersPending(t.Context(), ev); err != nil || !pending {
			t.Errorf("pending %v, %v: the trigger raised no group and nobody waits for it", pending, err)
		}
	})
	t.Run("P13 a trigger that comes while members are being recorded raises the group", func(t *testing.T) {
		t.Parallel()
		b, ev := grouped(t)
		_, tx := begin(t, b, storetest.Evaluator)
		for _, q := range []string{
			"SELECT FROM head WHERE head_sha = '" + string(headA) + "' FOR SHARE",
			"INSERT INTO merge_group_member VALUES (1, 10, '" + string(groupSHA) + "', 7, '" + string(headA) + "')",
		} {
			if _, err := tx.Exec(t.Context(), q); err != nil {
				t.Fatal(err)
			}
		}
		var wg sync.WaitGroup
		wg.Go(func() { b.accept(t, "d2", direct(7, headA)) })
		waiting(t, b)
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		if h, err := b.evaluator.GetHead(t.Context(), groupKey()); err != nil || h.Generation != ev.Generation+1 {
			t.Errorf("head %+v, %v", h, err)
		}
	})
	t.Run("P13 RG-182 of two claimants one has the group, and none while its head is not revoked", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.acceptGroup(t, "g1", "")
		if _, err := b.evaluator.ClaimMergeGroup(t.Context(), "evaluator-1", ttl); !errors.Is(err, store.ErrNoWork) {
			t.Fatalf("claimed before its revocation: %v", err)
		}
		b.invalidate(t)
		other := b.db.Store(storetest.Evaluator)
		var mu sync.Mutex
		won := 0
		var wg sync.WaitGroup
		for _, s := range []*store.Store{b.evaluator, other} {
			wg.Go(func() {
				_, err := s.ClaimMergeGroup(t.Context(), "evaluator", ttl)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					won++
				} else if !errors.Is(err, store.ErrNoWork) {
					t.Errorf("claim: %v", err)
				}
			})
		}
		wg.Wait()
		if won != 1 {
			t.Errorf("%d claimants won", won)
		}
	})
	t.Run("P13 many triggers of many members raise their groups without losing one", func(t *testing.T) {
		t.Parallel()
		b, ev := grouped(t)
		b.accept(t, "d8", direct(8, headB))
		b.invalidate(t)
		if err := b.evaluator.RecordMembers(t.Context(), ev, append([]store.GroupMember{{Number: 8, Head: headB}}, member...)); err != nil {
			t.Fatal(err)
		}
		before := b.db.QueryInt("SELECT generation FROM head WHERE head_sha = $1", groupSHA)
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() { b.accept(t, store.DeliveryID("a"+string(rune('0'+i))), direct(7, headA)) })
			wg.Go(func() { b.accept(t, store.DeliveryID("b"+string(rune('0'+i))), direct(8, headB)) })
		}
		wg.Wait()
		if got := b.db.QueryInt("SELECT generation FROM head WHERE head_sha = $1", groupSHA); got != before+16 {
			t.Errorf("%d generations, want 16", got-before)
		}
	})
}
