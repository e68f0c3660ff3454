package evaluator

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

// patience is how long the evaluators of this file wait for GitHub.
const patience = 700 * time.Millisecond

// impatient is a bench whose evaluator gives up on GitHub soon.
func impatient(t *testing.T) *bench {
	b := setup(t, func(c *Config) { c.Check.WriteTimeout, c.Check.GuardWait = patience, 3*time.Second })
	b.w.Checks = checkrun.New(b.w.Config.Check, b.Logger(), nil)
	b.Impatient(patience)
	return b
}

// TestEveryStepGoesWrong puts every way of going wrong into every request of an evaluation. Whatever happens, the rows are such
// as the oracle accepts, and the work ends in one decision and one success once GitHub is well again.
func TestEveryStepGoesWrong(t *testing.T) {
	t.Parallel()
	clean := impatient(t)
	key := clean.ready(clean.approved())
	clean.Sim.ResetRequests()
	clean.step(t)
	steps := clean.Steps()
	if len(steps) < 10 || clean.Successes(key.SHA) != 1 {
		t.Fatalf("the stage is not set: %v\n%s", steps, clean.Log)
	}
	for _, s := range steps {
		t.Run(fmt.Sprintf("%s %s, the %d. time", s.Method, s.Route, s.Nth+1), func(t *testing.T) {
			t.Parallel()
			b := impatient(t)
			for _, o := range rig.Outcomes(s.Method, s.Route, 3*patience) {
				t.Run(o.Name, func(t *testing.T) {
					b.Refresh()
					key := b.ready(b.approved())
					seen := make(chan struct{})
					o.Fault.Skip, o.Fault.Seen = s.Nth, seen
					b.Sim.ResetRequests()
					b.Sim.Inject(o.Fault)
					b.until(t, seen)
					b.Sim.ClearFaults()
					if o.Fault.Late && s.Method == "POST" && s.Route == rig.RouteRuns {
						b.arrived(t) // later than the backoff, it would be a second run, for the comparison of P12 to find
					}
					b.heal(t, key)
					storetest.CheckInvariants(t, b.DB)
				})
			}
		})
	}
}

// until works until the fault has struck: where the machine is slow, an earlier request may have timed out.
func (b *bench) until(t *testing.T, seen <-chan struct{}) {
	t.Helper()
	for range 5 {
		b.due()
		b.step(t)
		select {
		case <-seen:
			return
		default:
		}
	}
	t.Fatalf("the fault never struck\n%s", b.Log)
}

// due makes work due that is not a recheck, as time would.
func (b *bench) due() {
	b.DB.Exec("UPDATE head SET evaluation_expires_at = NULL, evaluation_holder = '' WHERE evaluation_expires_at IS NOT NULL")
	b.DB.Exec("UPDATE head SET invalidation_available_at = now() WHERE invalidation_available_at > now()")
	b.DB.Exec("UPDATE evaluation SET available_at = now() WHERE NOT recheck AND available_at > now()")
}

// arrived waits until GitHub has made the run that nobody waited for.
func (b *bench) arrived(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		for _, q := range b.Sim.Requests() {
			if q.Method == "POST" && q.Route == rig.RouteRuns && q.Status == 201 {
				return
			}
		}
		if time.Now().After(deadline) {
			t.Fatal("the late request never arrived")
		}
	}
}

// heal works until nothing but a recheck is left, as time would, and holds the end against what must be true.
func (b *bench) heal(t *testing.T, key store.HeadKey) {
	t.Helper()
	for range 20 {
		b.due()
		if b.DB.QueryInt("SELECT count(*) FROM evaluation WHERE NOT recheck") == 0 {
			break
		}
		b.Invalidate()
		if _, err := b.w.Step(t.Context(), nudge.ViaPoll); err != nil {
			t.Fatal(err)
		}
	}
	shown := b.Check(key.SHA)
	if shown.Conclusion != "success" || shown.ID != b.Head(key).RunID {
		t.Errorf("the run that counts is %d, GitHub shows %+v\n%s", b.Head(key).RunID, shown, b.Log)
	}
	if got := b.DB.QueryInt("SELECT count(*) FROM decision WHERE outcome = 'confirmed' AND head_sha = $1", key.SHA); got != 1 {
		t.Errorf("%d confirmed decisions\n%s", got, b.Log)
	}
}
