package chaos

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/countersign/countersign/pkg/githubsim"
	"github.com/countersign/countersign/pkg/policy"
	"github.com/countersign/countersign/pkg/store"
)

// verify looks at everything that a schedule left.
func (s *stage) verify(ctx context.Context, res *Result) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	o := s.observer
	crashed := s.fleet.crashed()
	stopErr := s.fleet.stop(ctx, "")
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, c := range crashed {
		o.flag(FlagCrash, "%s", c)
	}
	if stopErr != nil {
		o.flag(FlagCrash, "%v", stopErr)
	}
	db, err := s.db.open(ctx)
	if err != nil {
		o.flag(FlagOracle, "open the database: %v", err)
	} else {
		defer db.Close()
		s.verifyDatabase(ctx, db, res)
		s.verifyDeliveries(ctx, db)
	}
	s.world.sim.Look(func(githubsim.View) {
		for _, h := range o.heads {
			o.endWindow(h)
			if h.truth != free {
				res.Settled++
			}
		}
	})
	res.Writes = len(o.writes)
	res.Violations, res.Windows = o.violation, o.windows
}

func (s *stage) verifyDatabase(ctx context.Context, db *store.Store, res *Result) {
	o := s.observer
	found, err := store.CheckInvariants(ctx, db)
	if err != nil {
		o.flag(FlagOracle, "%v", err)
	}
	for _, f := range found {
		o.flag(FlagOracle, "%s", f)
	}
	// A killed holder's lease ends by itself; everybody else gave theirs back.
	for {
		held, err := db.HeldLeases(ctx)
		if err == nil && len(held) == 0 {
			break
		}
		if !sleep(ctx, 50*time.Millisecond) {
			o.flag(FlagOracle, "leases are left: %v %v", held, err)
			break
		}
	}
	decisions := map[int64]store.StoredDecision{}
	for before := store.DecisionID(0); ; {
		list, err := db.ListDecisions(ctx, store.PullKey{}, before, 500)
		if err != nil {
			o.flag(FlagOracle, "%v", err)
			return
		}
		for _, d := range list {
			decisions[int64(d.ID)] = d
			before = d.ID
		}
		if len(list) < 500 {
			break
		}
	}
	res.Decisions = len(decisions)
	var commits, sessions int64
	if err := s.db.read(ctx, "SELECT xact_commit, sessions FROM pg_stat_database WHERE datname = current_database()", nil, &commits, &sessions); err == nil {
		s.log.Printf("database: %d transactions, %d sessions; stand-in: %d requests", commits, sessions, len(s.world.sim.Requests()))
	}
	for _, id := range slices.Sorted(maps.Keys(decisions)) {
		if why := replay(decisions[id]); why != "" {
			o.flag(FlagReplay, "decision %d: %s", id, why)
		}
	}
	s.verifyWrites(decisions)
}

// replay decides once more by what was recorded (I9).
func replay(d store.StoredDecision) string {
	snapshot, err := policy.DecodeSnapshot([]byte(d.Evidence))
	if err != nil {
		return err.Error()
	}
	if got := string(policy.Evaluate(snapshot).MarshalCanonical()); got != d.Verdict {
		return "the recorded evidence gives another verdict"
	}
	return ""
}

// verifyWrites finds a success of an older generation that took effect after a newer one had been revoked, and two
// publications of one decision.
func (s *stage) verifyWrites(decisions map[int64]store.StoredDecision) {
	o := s.observer
	type reset struct{ generation, moment int64 }
	newest := map[key]reset{}
	published := map[int64]int{}
	confirmed := map[string]int64{}
	for _, w := range o.writes {
		if g, ok := generationOf(w.external); ok && w.status != "completed" {
			if r := newest[w.key]; g > r.generation {
				newest[w.key] = reset{g, w.moment}
			}
		}
		id, ok := decisionOf(w.external)
		if !ok || w.status != "completed" || w.conclusion == "" || w.external == w.before && w.conclusion == "failure" {
			continue
		}
		d, known := decisions[id]
		if !known {
			o.flag(FlagTwice, "%s: run %d carries decision %d, which nobody recorded", w.key, w.run, id)
			continue
		}
		if published[id]++; published[id] == 2 {
			o.flag(FlagTwice, "%s: decision %d was published twice, the second time on run %d", w.key, id, w.run)
		}
		r := newest[w.key]
		if w.conclusion == "success" && w.counts && int64(d.HeadGeneration) < r.generation && w.arrived > r.moment {
			o.flag(FlagReturned, "%s: decision %d of generation %d became a success on run %d after generation %d was reset (moment %d, request arrived %d)",
				w.key, id, d.HeadGeneration, w.run, r.generation, r.moment, w.arrived)
		}
	}
	for id, d := range decisions {
		if d.Outcome != "confirmed" {
			continue
		}
		k := fmt.Sprintf("%v generation %d", d.Head, d.HeadGeneration)
		if other, twice := confirmed[k]; twice {
			o.flag(FlagTwice, "decisions %d and %d are both confirmed for %s", other, id, k)
		}
		confirmed[k] = id
	}
}

// verifyDeliveries: what was acknowledged as queued is on record (I1), and what it asked for was done.
func (s *stage) verifyDeliveries(ctx context.Context, db *store.Store) {
	o := s.observer
	for guid := range o.accepted {
		kept, err := db.GetDelivery(ctx, store.DeliveryID(guid))
		if err != nil {
			o.flag(FlagLost, "webhook %s was answered 2xx with work queued and is not on record: %v", guid, err)
			continue
		}
		if kept.Head.SHA == "" {
			continue
		}
		h, err := db.GetHead(ctx, kept.Head)
		if err != nil || h.InvalidatedGeneration < kept.HeadGeneration {
			o.flag(FlagLost, "webhook %s asked for generation %d of %s, and %d was reached: %v", guid, kept.HeadGeneration, kept.Head, h.InvalidatedGeneration, err)
		}
	}
	for guid := range o.failed {
		if !s.plan.Scanning {
			o.flag(FlagLost, "webhook %s was never accepted", guid)
		}
	}
}
