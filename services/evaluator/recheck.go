package evaluator

import (
	"context"
	"errors"
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
	if err == nil && published.HeadGeneration == ev.Generation && published.Verdict == string(verdict.MarshalCanonical()) {
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
