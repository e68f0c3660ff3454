package invalidator

import (
	"fmt"
	"testing"
	"time"

	"github.com/countersign/countersign/internal/rig"
	"github.com/countersign/countersign/pkg/checkrun"
	"github.com/countersign/countersign/pkg/nudge"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/store/storetest"
)

// patience is how long the invalidators of this file wait for GitHub.
const patience = 700 * time.Millisecond

// TestEveryStepGoesWrong puts every way of going wrong into every request of a revocation. Whatever happens, the rows are such as
// the oracle accepts, and it ends in a head that is proved unfinished, no success in any reading, and the evaluation queued.
func TestEveryStepGoesWrong(t *testing.T) {
	t.Parallel()
	clean := setup(t)
	n := clean.Open(nil)
	clean.published(t, n)
	clean.Trigger(n)
	clean.Sim.ResetRequests()
	clean.step(t)
	steps := clean.Steps()
	if len(steps) < 4 {
		t.Fatalf("the stage is not set: %v", steps)
	}
	for _, s := range steps {
		t.Run(fmt.Sprintf("RG-196 %s %s, the %d. time", s.Method, s.Route, s.Nth+1), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			for _, o := range rig.Outcomes(s.Method, s.Route, 3*patience) {
				t.Run(o.Name, func(t *testing.T) {
					b.w = b.worker("invalidator-1", func(g GitHub) GitHub { return g }) // of a new process
					b.Impatient(20 * time.Second)
					n := b.Open(nil)
					key := b.published(t, n)
					_, a := b.Trigger(n)
					b.Impatient(patience)
					b.w.Checks = checkrun.New(checkrun.Config{Name: rig.CheckName, WriteTimeout: patience, GuardWait: 3 * time.Second}, b.Logger(), nil)
					seen := make(chan struct{})
					o.Fault.Skip, o.Fault.Seen = s.Nth, seen
					b.Sim.Inject(o.Fault)
					b.heal(t, key, a.HeadGeneration)
					select {
					case <-seen:
					default:
						t.Error("the fault never struck")
					}
					b.Sim.ClearFaults()
					if got := b.DB.QueryInt("SELECT count(*) FROM evaluation WHERE number = $1 AND head_generation = $2", n, a.HeadGeneration); got != 1 {
						t.Error("the evaluation was lost")
					}
					b.DB.Exec("DELETE FROM evaluation")
					storetest.CheckInvariants(t, b.DB)
				})
			}
		})
	}
}

// heal works until the head is revoked, as time would, and holds the end against what must be true.
func (b *bench) heal(t *testing.T, key store.HeadKey, want store.Generation) {
	t.Helper()
	for range 10 {
		if _, err := b.w.Step(t.Context(), nudge.ViaPoll); err != nil {
			t.Fatal(err)
		}
		if b.Head(key).InvalidatedGeneration == want {
			break
		}
		b.Now()
	}
	if h := b.Head(key); h.InvalidatedGeneration != want || !h.RunProved() {
		t.Errorf("never settled: %+v\n%s", h, b.Log)
	}
	if b.Successes(key.SHA) != 0 || b.Check(key.SHA).ID != b.Head(key).RunID {
		t.Errorf("%d successes stand, GitHub shows %+v", b.Successes(key.SHA), b.Check(key.SHA))
	}
}
