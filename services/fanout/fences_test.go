package fanout

import (
	"errors"
	"testing"
	"time"

	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/store/storetest"
)

// publisher plays the services that follow: it revokes and evaluates pull request 1 of repository 10, base main.
type publisher struct {
	*bundle
	invalidator, evaluator *store.Store
	head                   store.HeadKey
}

func newPublisher(t *testing.T) *publisher {
	t.Helper()
	b := setup(t)
	p := &publisher{
		bundle: b, invalidator: b.db.Store(storetest.Invalidator), evaluator: b.db.Store(storetest.Evaluator),
		head: store.HeadKey{Installation: 1, Repository: 10, SHA: store.SHA(sha(10001))},
	}
	_, err := b.ingress.AcceptDirect(t.Context(), store.Delivery{ID: "pr", Event: "pull_request", Action: "opened"}, store.DirectWork{
		Installation: 1, AccountLogin: "acme", Repository: 10, FullName: "acme/api", Number: 1, Head: p.head.SHA, BaseRef: "main", State: "open",
		Reason: "pull_request.opened", Watermark: store.Watermark{Head: p.head.SHA, UpdatedAt: time.Unix(1, 0)},
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// claim revokes whatever waits and claims the evaluation.
func (p *publisher) claim() store.Evaluation {
	p.t.Helper()
	for {
		inv, err := p.invalidator.ClaimInvalidation(p.t.Context(), "invalidator-1", time.Minute)
		if errors.Is(err, store.ErrNoWork) {
			break
		}
		if err != nil {
			p.t.Fatal(err)
		}
		if _, err := p.invalidator.CompleteInvalidation(p.t.Context(), inv, nil); err != nil {
			p.t.Fatal(err)
		}
	}
	ev, err := p.evaluator.ClaimEvaluation(p.t.Context(), "evaluator-1", time.Minute)
	if err != nil {
		p.t.Fatal(err)
	}
	return ev
}

// fence asks, with everything else in order, whether ev may publish; it is the fence that refused, "" when none did.
func (p *publisher) fence(ev store.Evaluation) store.Fence {
	p.t.Helper()
	g, err := p.evaluator.AcquireGuard(p.t.Context(), ev.Head, time.Second)
	if err != nil {
		p.t.Fatal(err)
	}
	defer g.Release()
	if err := g.BindRun(p.t.Context(), ev.Generation, 500, false); err != nil {
		p.t.Fatal(err)
	}
	err = g.Fences(p.t.Context(), ev, 500, []string{"main"}, 0)
	var refused *store.FenceError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &refused):
		return refused.Fence
	}
	p.t.Fatal(err)
	return ""
}

func TestAuthorityFences(t *testing.T) {
	t.Parallel()
	t.Run("RG-225 pending, leased and retrying authority work of the installation, the repository or the base blocks publication until it is done", func(t *testing.T) {
		t.Parallel()
		for _, w := range []store.AuthorityWork{repositoryWide(10), basePush(10, "main")} {
			p := newPublisher(t)
			ev := p.claim()
			if got := p.fence(ev); got != "" {
				t.Fatalf("without authority work %q refused", got)
			}
			p.github.repos[0].Archived = true // the pass itself shall queue nothing here
			p.accept("1", w)
			if got := p.fence(ev); got != store.FenceAuthorityPending {
				t.Errorf("%s pending: %q", w.Scope, got)
			}
			a, err := p.bundle.fanout.ClaimAuthority(t.Context(), "x", time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			if got := p.fence(ev); got != store.FenceAuthorityPending {
				t.Errorf("%s leased: %q", w.Scope, got)
			}
			if err := p.bundle.fanout.DeferAuthority(t.Context(), a, time.Hour, "boom", true); err != nil {
				t.Fatal(err)
			}
			if got := p.fence(ev); got != store.FenceAuthorityPending {
				t.Errorf("%s retrying: %q", w.Scope, got)
			}
			p.db.Exec("UPDATE authority SET available_at = now()")
			p.drain(p.service)
			if got := p.fence(ev); got != "" {
				t.Errorf("%s done: %q still refuses", w.Scope, got)
			}
		}
	})
	t.Run("RG-214 RG-225 an installation's change blocks through its split: first its own row, then the repository's", func(t *testing.T) {
		t.Parallel()
		p := newPublisher(t)
		ev := p.claim()
		pending := func() bool {
			blocked, err := p.evaluator.AuthorityPending(t.Context(), ev.Head, []string{"main"})
			if err != nil {
				t.Fatal(err)
			}
			return blocked
		}
		p.github.open(10, "main", 1)
		p.accept("1", installationWide())
		for range 2 { // the split, then the repository's pass
			if !pending() {
				t.Error("not blocked")
			}
			p.step(p.service)
		}
		if pending() {
			t.Error("still blocked when all of it is done")
		}
	})
	t.Run("RG-226 authority work of another repository or another base does not block", func(t *testing.T) {
		t.Parallel()
		p := newPublisher(t)
		ev := p.claim()
		p.accept("1", store.AuthorityWork{Scope: store.ScopeRepository, Repository: 11, FullName: "acme/web"})
		p.accept("2", basePush(10, "release"))
		p.accept("3", store.AuthorityWork{Scope: store.ScopeBase, Repository: 12, FullName: "acme/docs", BaseRef: "main"})
		if got := p.fence(ev); got != "" {
			t.Errorf("%q refused", got)
		}
	})
	t.Run("RG-221 RG-223 what was queued under an earlier epoch never publishes, also when the fan-out is done and it is first claimed afterwards", func(t *testing.T) {
		t.Parallel()
		p := newPublisher(t)
		p.wantText("1", "SELECT string_agg(authority_epoch::text, ' ') FROM evaluation")
		p.github.repos = nil // the fan-out does not reach the pull request: its row keeps the earlier epoch
		p.accept("1", installationWide())
		p.drain(p.service)
		p.wantInt(0, "SELECT count(*) FROM authority")
		ev := p.claim()
		if !ev.StaleEpoch() {
			t.Error("the claim does not show the earlier epoch")
		}
		if got := p.fence(ev); got != store.FencePullGeneration && got != store.FenceEpoch {
			t.Errorf("refused by %q", got)
		}
	})
	t.Run("RG-223 a claim made before the change loses its fence, and what the fan-out queued carries the new epoch", func(t *testing.T) {
		t.Parallel()
		p := newPublisher(t)
		ev := p.claim()
		p.github.open(10, "main", 1)
		p.accept("1", installationWide())
		g, err := p.evaluator.AcquireGuard(t.Context(), ev.Head, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if err := g.Fences(t.Context(), ev, 500, []string{"main"}, 0); !errors.Is(err, store.ErrSuperseded) {
			t.Errorf("the earlier claim: %v", err)
		}
		g.Release()
		p.drain(p.service)
		if fresh := p.claim(); fresh.StaleEpoch() || p.fence(fresh) != "" {
			t.Errorf("the new claim %+v cannot publish", fresh.Rows)
		}
	})
}
