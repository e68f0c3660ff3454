package evaluator

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"time"

	"github.com/countersign/countersign/pkg/policy"
	"github.com/countersign/countersign/pkg/store"
)

// recheck compares a fresh verdict with the published one, a little after a success or when time alone may have changed it
// (P5). The same verdict ends it; another one sends the head back to the invalidator, so that the old result is revoked
// before a new one is published.
func (w *Worker) recheck(ctx context.Context, ev store.Evaluation, e evidence, verdict policy.Verdict) (outcome, error) {
	published, err := w.Store.PublishedDecision(ctx, ev.Head)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return outcome{did: didNotReach}, err
	}
	if err == nil && published.HeadGeneration == ev.Generation && sameDecision(published, e.snapshot, verdict) {
		var later []store.FollowUp
		if verdict.NextDue != nil {
			later = []store.FollowUp{{
				Number: ev.Trigger().Number, After: max(verdict.NextDue.Sub(e.snapshot.Now), 0) + time.Second, Reason: "verdict.expires",
			}}
		}
		if e.refusal != nil {
			later = []store.FollowUp{w.lookAgain(ev)}
		}
		return w.complete(ctx, ev, outcome{did: didRecheck}, later)
	}
	if e.refusal != nil { // evidence was read before: that it cannot be read now says nothing about it
		return outcome{did: didNotReach}, e.refusal
	}
	return outcome{did: didRequeue}, w.requeue(ctx, ev, "recheck.changed")
}

// sameDecision reports whether a fresh verdict says what was published. The commit that a base branch is at is not compared where
// it has the same rules: a base branch moves all day, and a new publication would say the same (P15). Where it has not, the
// verdict is another one though it may read alike.
func sameDecision(published store.StoredDecision, now policy.Snapshot, verdict policy.Verdict) bool {
	if published.Verdict == string(verdict.MarshalCanonical()) {
		return true
	}
	then, err := policy.DecodeSnapshot([]byte(published.Evidence))
	if err != nil {
		return false
	}
	if now, err = policy.DecodeSnapshot(now.MarshalCanonical()); err != nil { // in the form that what was stored comes back in
		return false
	}
	verdict.Pulls = slices.Clone(verdict.Pulls)
	for i, p := range verdict.Pulls {
		was := slices.IndexFunc(then.Pulls, func(q policy.PullRequest) bool { return q.Number == p.Number })
		if was < 0 || !sameRules(then.Bases[then.Pulls[was].BaseSHA], now.Bases[p.BaseSHA]) {
			return false
		}
		verdict.Pulls[i].BaseSHA = then.Pulls[was].BaseSHA
	}
	return published.Verdict == string(verdict.MarshalCanonical())
}

func sameRules(a, b policy.Base) bool { return reflect.DeepEqual(a, b) }
