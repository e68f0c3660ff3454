package store_test

import (
	"slices"
	"testing"

	"github.com/countersign/countersign/pkg/store"
)

func TestShares(t *testing.T) {
	t.Parallel()
	t.Run("fairness: a storm in which every request hangs leaves workers for fresh events and for another installation", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		shares := store.NewShares(8)
		backlog(b.db, 1, 1, 20)
		storm := []*store.Share{}
		claim := func() (store.InstallationID, store.Lane) {
			ctx, share := shares.Begin(t.Context())
			ev, err := b.evaluator.ClaimEvaluation(ctx, "evaluator-1", ttl)
			if err != nil {
				share.End()
				return 0, 0
			}
			share.Took(ev.Head.Installation, ev.Rows[0].Lane)
			storm = append(storm, share)
			return ev.Head.Installation, ev.Rows[0].Lane
		}
		took := 0
		for range 8 {
			if i, _ := claim(); i == 1 {
				took++
			}
		}
		if took != 6 {
			t.Errorf("the storm took %d of 8 workers, want 6", took)
		}
		backlog(b.db, 1, 0, 5)
		if i, lane := claim(); i != 1 || lane != store.LaneInteractive {
			t.Errorf("a fresh event of the storm's installation: claimed of %d in lane %d", i, lane)
		}
		if i, _ := claim(); i != 0 {
			t.Errorf("installation %d took the last worker, and it had seven", i)
		}
		backlog(b.db, 2, 0, 1)
		if i, _ := claim(); i != 2 {
			t.Errorf("another installation's fresh event: claimed of %d", i)
		}
		for _, share := range slices.Backward(storm) {
			share.End()
		}
		if i, _ := claim(); i != 1 {
			t.Error("the workers did not come back")
		}
	})
	t.Run("one worker takes everything", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		backlog(b.db, 1, 1, 1)
		ctx, share := store.NewShares(1).Begin(t.Context())
		defer share.End()
		if _, err := b.evaluator.ClaimEvaluation(ctx, "evaluator-1", ttl); err != nil {
			t.Error(err)
		}
	})
}
