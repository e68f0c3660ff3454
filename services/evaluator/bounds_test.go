package evaluator

import (
	"strings"
	"testing"
	"time"

	"github.com/countersign/countersign/pkg/store/storetest"
)

func TestBounds(t *testing.T) {
	t.Parallel()
	t.Run("RG-254 without the publication guard nothing completed is written", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.approved()
		key := b.ready(n)
		b.step(t) // the first run exists, and a success
		b.ready(n)
		b.w = b.worker(func(g GitHub) GitHub { return g })
		b.w.Checks = b.ChecksWith(100 * time.Millisecond)
		held, err := b.Store(storetest.Invalidator).AcquireGuard(t.Context(), key, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		b.step(t)
		if b.Successes(key.SHA) != 0 {
			t.Error("published while somebody else held the guard")
		}
		held.Release()
		b.Now()
		b.step(t)
		if b.Successes(key.SHA) != 1 {
			t.Errorf("not published when the guard was free\n%s", b.Log)
		}
	})
	t.Run("RG-357 a policy file above 1,000,000 bytes: the check stays in progress and the work is tried again", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.approved()
		b.withPolicy(t, "# "+strings.Repeat("x", 1_000_001)+"\n")
		key := b.ready(n)
		b.step(t)
		if c := b.Check(key.SHA); c.Status != "in_progress" || !strings.Contains(c.Title, ".github/countersign.toml") || !strings.Contains(c.Title, "bytes") {
			t.Errorf("check %s %s: %s", c.Status, c.Conclusion, c.Title)
		}
		if got := b.DB.QueryInt("SELECT count(*) FROM evaluation WHERE reason = 'recheck.unreadable' AND available_at < now() + interval '2 minutes'"); got != 1 {
			t.Errorf("nobody looks again\n%s", b.Log)
		}
		b.withPolicy(t, "")
		b.ready(n)
		b.settle(t)
		if b.Successes(key.SHA) != 1 {
			t.Error("not decided once the file was mended")
		}
	})
	t.Run("RG-443 D8 every publication appends a row with delivery and reason; none is overwritten", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.Open(nil)
		b.ready(n)
		b.step(t)
		first := b.decision(t)
		b.Approve(n, "alice", "carol")
		b.ready(n)
		b.step(t)
		second := b.decision(t)
		if second.ID == first.ID || second.DeliveryID == "" || second.DeliveryID == first.DeliveryID || second.Reason == "" {
			t.Errorf("second decision %+v", second)
		}
		again, err := b.Store(storetest.Reader).GetDecision(t.Context(), first.ID)
		if err != nil || again.StoredSum != first.StoredSum || again.Conclusion != "failure" {
			t.Errorf("the first decision is now %+v, %v", again, err)
		}
	})
}
