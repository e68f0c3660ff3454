package store_test

import (
	"errors"
	"testing"
	"time"

	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/store/storetest"
)

const (
	headA = store.SHA("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")
	headB = store.SHA("bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb")
	ttl   = time.Minute
)

// bundle is one test's database, opened as each service.
type bundle struct {
	db                                                  *storetest.DB
	ingress, invalidator, fanout, evaluator, reconciler *store.Store
}

func setup(t *testing.T) *bundle {
	t.Helper()
	db := storetest.New(t)
	b := &bundle{
		db: db, ingress: db.Store(storetest.Ingress), invalidator: db.Store(storetest.Invalidator), fanout: db.Store(storetest.Fanout),
		evaluator: db.Store(storetest.Evaluator), reconciler: db.Store(storetest.Reconciler),
	}
	t.Cleanup(func() { storetest.CheckInvariants(t, db) })
	return b
}

func direct(number int, head store.SHA) store.DirectWork {
	return store.DirectWork{
		Installation: 1, AccountLogin: "acme", Repository: 10, FullName: "acme/api", Number: number, Head: head,
		BaseRef: "main", State: "open", Title: "change", AuthorLogin: "octo", Reason: "pull_request.opened",
	}
}

func (b *bundle) accept(t *testing.T, id store.DeliveryID, w store.DirectWork) store.Acceptance {
	t.Helper()
	a, err := b.ingress.AcceptDirect(t.Context(), store.Delivery{ID: id, Event: "pull_request", Action: "opened"}, w)
	if err != nil {
		t.Fatalf("accept: %v", err)
	}
	return a
}

// invalidate plays the durable pass of the next due head, with the trigger still open on it.
func (b *bundle) invalidate(t *testing.T, candidates ...store.PullFact) store.Invalidation {
	t.Helper()
	inv, err := b.invalidator.ClaimInvalidation(t.Context(), "invalidator-1", ttl)
	if err != nil {
		t.Fatalf("claim invalidation: %v", err)
	}
	if _, err := b.invalidator.CompleteInvalidation(t.Context(), inv, candidates); err != nil {
		t.Fatalf("complete invalidation: %v", err)
	}
	return inv
}

func (b *bundle) claim(t *testing.T) store.Evaluation {
	t.Helper()
	ev, err := b.evaluator.ClaimEvaluation(t.Context(), "evaluator-1", ttl)
	if err != nil {
		t.Fatalf("claim evaluation: %v", err)
	}
	return ev
}

func (b *bundle) guard(t *testing.T, key store.HeadKey) *store.Guard {
	t.Helper()
	g, err := b.evaluator.AcquireGuard(t.Context(), key, time.Second)
	if err != nil {
		t.Fatalf("guard: %v", err)
	}
	t.Cleanup(g.Release)
	return g
}

func wantErr(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got error %v, want %v", err, want)
	}
}

func decision(runID int64) store.Decision {
	return store.Decision{
		Number: 7, FullName: "acme/api", Generation: 1, DeliveryID: "d1", Reason: "pull_request.opened", EvidenceDigest: "e",
		Evidence: "{}", Verdict: "{}", Conclusion: "success", Title: "t", Summary: "s", Explanation: "x", RunID: runID, RequestedAt: time.Now(),
	}
}
