package invalidator

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/countersign/countersign/internal/rig"
	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/githubsim"
	"github.com/countersign/countersign/pkg/nudge"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/store/storetest"
)

func (b *bench) request(id store.DeliveryID, a store.Acceptance, number int) nudge.InvalidateRequest {
	return nudge.InvalidateRequest{
		DeliveryID: string(id), InstallationID: int64(a.Head.Installation), RepositoryID: int64(a.Head.Repository), PullNumber: number,
		HeadSHA: string(a.Head.SHA), HeadGeneration: int64(a.HeadGeneration),
	}
}

func (b *bench) fast(t *testing.T, q nudge.InvalidateRequest) nudge.InvalidateReply {
	t.Helper()
	reply, err := b.w.Fast(t.Context(), q)
	if err != nil {
		t.Fatalf("fast: %v", err)
	}
	return reply
}

func TestFastPath(t *testing.T) {
	t.Parallel()
	t.Run("RG-131 RG-146 the accepted head is reset, its delivery marked, its row left pending", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.Open(nil)
		key := b.published(t, n)
		id, a := b.Trigger(n)
		b.Sim.ResetRequests()
		if r := b.fast(t, b.request(id, a, n)); r.Outcome != nudge.OutcomeReset {
			t.Fatalf("reply %+v", r)
		}
		first := b.Sim.Requests()[0]
		if first.Method != "GET" || first.Route != rig.RoutePull {
			t.Errorf("the first request was %s %s, want the pull request", first.Method, first.Route)
		}
		if c := b.Check(key.SHA); c.Status != "in_progress" {
			t.Errorf("check %+v", c)
		}
		if h := b.Head(key); h.InvalidatedGeneration == h.Generation {
			t.Error("the fast path completed the durable pass's work")
		}
		if got := b.DB.QueryInt("SELECT count(*) FROM delivery WHERE delivery_id = $1 AND invalidated_at IS NOT NULL", id); got != 1 {
			t.Error("the delivery is not marked")
		}
		b.Sim.ResetRequests()
		if r := b.fast(t, b.request(id, a, n)); r.Outcome != nudge.OutcomeSuperseded || len(b.Sim.Requests()) != 0 {
			t.Errorf("RG-146: a replay of a marked delivery: %+v, %d requests", r, len(b.Sim.Requests()))
		}
		b.step(t)
		if b.Writes() != 0 {
			t.Error("P3: the durable pass reset what was proved already")
		}
	})
	t.Run("RG-132 a superseded or invalidated generation gets no write", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.Open(nil)
		b.published(t, n)
		id, a := b.Trigger(n)
		b.Trigger(n)
		b.Sim.ResetRequests()
		if r := b.fast(t, b.request(id, a, n)); r.Outcome != nudge.OutcomeSuperseded || b.Writes() != 0 {
			t.Errorf("superseded: %+v, %d writes", r, b.Writes())
		}
		id, a = b.Trigger(n)
		b.drain(t)
		b.Sim.ResetRequests()
		if r := b.fast(t, b.request(id, a, n)); r.Outcome != nudge.OutcomeSuperseded || b.Writes() != 0 {
			t.Errorf("invalidated: %+v, %d writes", r, b.Writes())
		}
	})
	t.Run("RG-133 the token is read again after the lookup, before the write", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.Open(nil)
		b.published(t, n)
		id, a := b.Trigger(n)
		b.Sim.ResetRequests()
		b.w = b.worker("invalidator-1", func(g GitHub) GitHub { return &between{GitHub: g, hook: func() { b.Trigger(n) }} })
		if r := b.fast(t, b.request(id, a, n)); r.Outcome != nudge.OutcomeSuperseded || b.Writes() != 0 {
			t.Errorf("reply %+v, %d writes", r, b.Writes())
		}
	})
	t.Run("RG-134 RG-117 a pull request that has moved: durable work for its live head, and the accepted head revoked", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.Open(nil)
		key := b.published(t, n)
		id, a := b.Trigger(n)
		live, err := b.Sim.Push(b.World.Repository, n, "dave", map[string]string{"go.sum": "v2\n"})
		if err != nil {
			t.Fatal(err)
		}
		r := b.fast(t, b.request(id, a, n))
		if r.Outcome != nudge.OutcomeReset || !r.QueuedLiveHead {
			t.Errorf("reply %+v", r)
		}
		if b.Successes(key.SHA) != 0 {
			t.Error("the accepted head's success stands")
		}
		if got := b.DB.QueryText("SELECT head_sha FROM evaluation WHERE number = $1", n); got != live {
			t.Errorf("evaluation at %s, want the live head", got)
		}
		id2, a2 := b.Trigger(n, func(w *store.DirectWork) { w.Head = key.SHA; w.Watermark.UpdatedAt = time.Unix(1, 0) })
		if r := b.fast(t, b.request(id2, a2, n)); r.QueuedLiveHead {
			t.Error("a live head that is known already was queued again (P9)")
		}
	})
	t.Run("RG-136 the first run is made only on the current head of an open pull request with a policy", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.Open(nil)
		key := b.Key(n)
		id, a := b.Trigger(n)
		if r := b.fast(t, b.request(id, a, n)); r.Outcome != nudge.OutcomeReset || b.Check(key.SHA).Status != "in_progress" {
			t.Fatalf("reply %+v, check %+v", r, b.Check(key.SHA))
		}
		if h := b.Head(key); h.RunID != b.Check(key.SHA).ID {
			t.Error("the new run's id is not stored")
		}
		// A historical head without a check: nothing is made there (RG-137).
		if _, err := b.Sim.Push(b.World.Repository, n, "dave", map[string]string{"go.sum": "v2\n"}); err != nil {
			t.Fatal(err)
		}
		unseen, err := b.Sim.Push(b.World.Repository, n, "dave", map[string]string{"go.sum": "v3\n"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Sim.Push(b.World.Repository, n, "dave", map[string]string{"go.sum": "v4\n"}); err != nil {
			t.Fatal(err)
		}
		id, a = b.Trigger(n, func(w *store.DirectWork) { w.Head = store.SHA(unseen) })
		b.Sim.ResetRequests()
		if r := b.fast(t, b.request(id, a, n)); r.Outcome != nudge.OutcomeNothing || b.Writes() != 0 {
			t.Errorf("RG-137: historical head: %+v, %d writes", r, b.Writes())
		}
	})
	t.Run("RG-136 no policy, no run", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Sim.AddRepo("acme", "plain", map[string]string{"README.md": "x"})
		n, err := b.Sim.OpenPull("acme/plain", githubsim.Pull{Author: "dave", Files: map[string]string{"README.md": "y"}})
		if err != nil {
			t.Fatal(err)
		}
		info, err := b.Client(ghclient.FanoutPermissions).Repository(context.Background(), ghclient.Repo{Owner: "acme", Name: "plain"})
		if err != nil {
			t.Fatal(err)
		}
		state, _ := b.Sim.PullState("acme/plain", n)
		other := b.Open(nil)
		id, a := b.Trigger(other, func(w *store.DirectWork) {
			w.Repository, w.FullName, w.Number, w.Head = store.RepositoryID(info.ID), "acme/plain", n, store.SHA(state.Head)
		})
		b.Sim.ResetRequests()
		if r := b.fast(t, b.request(id, a, n)); r.Outcome != nudge.OutcomeNothing || b.Writes() != 0 {
			t.Errorf("reply %+v, %d writes", r, b.Writes())
		}
	})
	t.Run("RG-138 a closed pull request: nothing, even where a check exists", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.Open(nil)
		b.published(t, n)
		if err := b.Sim.ClosePull(b.World.Repository, n, "dave"); err != nil {
			t.Fatal(err)
		}
		id, a := b.Trigger(n)
		b.Sim.ResetRequests()
		if r := b.fast(t, b.request(id, a, n)); r.Outcome != nudge.OutcomeNothing || b.Writes() != 0 {
			t.Errorf("reply %+v, %d writes", r, b.Writes())
		}
	})
	t.Run("RG-145 a rate limit is answered as one", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.Open(nil)
		b.published(t, n)
		id, a := b.Trigger(n)
		b.Sim.Inject(githubsim.Fault{Method: "GET", Route: rig.RoutePull, Answer: githubsim.AnswerSecondary, Status: 429, RetryAfter: "30"})
		if r := b.fast(t, b.request(id, a, n)); r.Outcome != nudge.OutcomeRateLimited {
			t.Errorf("reply %+v", r)
		}
	})
	t.Run("RG-144 a pause that another replica met is kept: GitHub is not asked, and the durable pass has the work", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.Open(nil)
		key := b.published(t, n)
		id, a := b.Trigger(n)
		if err := b.Store(storetest.Evaluator).Pause(t.Context(), int64(a.Head.Installation), time.Minute, "primary"); err != nil { // that replica is an evaluator
			t.Fatal(err)
		}
		app, err := ghclient.NewApp(ghclient.Config{APIURL: b.Sim.URL() + "/", AppID: b.World.App.ID, PrivateKey: string(b.World.App.PEM)},
			ghclient.Options{Log: b.Logger(), Metrics: prometheus.NewRegistry(), Budget: b.Store(storetest.Invalidator)})
		if err != nil {
			t.Fatal(err)
		}
		client := app.Client(b.World.Installation, ghclient.InvalidatorPermissions)
		b.w = b.worker("invalidator-2", func(GitHub) GitHub { return client }) // a process that has met no limit itself
		b.Sim.ResetRequests()
		if r := b.fast(t, b.request(id, a, n)); r.Outcome != nudge.OutcomeRateLimited {
			t.Errorf("reply %+v", r)
		}
		if asked := b.Sim.Requests(); len(asked) != 0 {
			t.Errorf("GitHub was asked %d times in a pause", len(asked))
		}
		if h := b.Head(key); h.InvalidatedGeneration == h.Generation {
			t.Error("the head counts as revoked, and nobody revoked it")
		}
	})
	t.Run("a request that does not match its delivery is refused", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.Open(nil)
		b.published(t, n)
		id, a := b.Trigger(n)
		q := b.request(id, a, n)
		q.HeadGeneration++
		b.Sim.ResetRequests()
		if r := b.fast(t, q); r.Outcome != nudge.OutcomeFailed || len(b.Sim.Requests()) != 0 {
			t.Errorf("reply %+v", r)
		}
	})
}
