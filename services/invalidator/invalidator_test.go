package invalidator

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/countersign/countersign/internal/rig"
	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/githubsim"
	"github.com/countersign/countersign/pkg/nudge"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/store/storetest"
)

// bench is one invalidator over the rig.
type bench struct {
	*rig.Rig
	w *Worker
}

func setup(t *testing.T) *bench {
	t.Helper()
	r := rig.New(t)
	b := &bench{Rig: r}
	b.w = b.worker("invalidator-1", func(g GitHub) GitHub { return g })
	return b
}

func (b *bench) worker(replica string, wrap func(GitHub) GitHub) *Worker {
	return New(Deps{
		Store: b.Store(storetest.Invalidator), GitHub: func(int64) GitHub { return wrap(b.Client(ghclient.InvalidatorPermissions)) }, Checks: b.Checks(),
		Worker:  store.WorkerConfig{Concurrency: 1, Poll: 50 * time.Millisecond, Lease: time.Minute, RetryMax: time.Minute},
		Replica: replica, Tracer: noop.NewTracerProvider().Tracer(""), Log: b.Logger(), Metrics: prometheus.NewRegistry(),
	})
}

// step works one due head.
func (b *bench) step(t *testing.T) {
	t.Helper()
	did, err := b.w.Step(t.Context(), nudge.ViaPoll)
	if err != nil || !did {
		t.Fatalf("step: did %v, %v", did, err)
	}
}

// drain works until nothing is due.
func (b *bench) drain(t *testing.T) {
	t.Helper()
	for range 20 {
		did, err := b.w.Step(t.Context(), nudge.ViaPoll)
		if err != nil {
			t.Fatalf("step: %v", err)
		}
		if !did {
			return
		}
	}
	t.Fatal("work does not end")
}

// published makes a head whose success was published and confirmed, through the store and GitHub.
func (b *bench) published(t *testing.T, number int) store.HeadKey {
	t.Helper()
	key := b.Key(number)
	gh := b.Client(ghclient.EvaluatorPermissions)
	run, err := gh.CreateRun(t.Context(), b.Repo(), ghclient.RunSpec{Name: rig.CheckName, HeadSHA: string(key.SHA), Status: "in_progress", Title: "t", Summary: "s"})
	if err != nil {
		t.Fatal(err)
	}
	b.Trigger(number)
	b.drain(t)
	b.DB.Exec("UPDATE evaluation SET available_at = now()")
	evaluator := b.Store(storetest.Evaluator)
	ev, err := evaluator.ClaimEvaluation(t.Context(), "evaluator-1", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if ev.RunID != run.ID {
		t.Fatalf("bound run %d, want the one found on GitHub, %d", ev.RunID, run.ID)
	}
	guard, err := evaluator.AcquireGuard(t.Context(), key, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer guard.Release()
	id, err := guard.RecordIntent(t.Context(), ev, store.Decision{Number: number, FullName: ev.FullName, Generation: ev.Rows[0].Generation, Reason: "test", Evidence: "{}", Verdict: "{}", Conclusion: "success", RunID: run.ID, RequestedAt: time.Now()}, []string{"main"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := gh.UpdateRun(t.Context(), b.Repo(), run.ID, ghclient.RunSpec{Name: rig.CheckName, HeadSHA: string(key.SHA), Status: "completed", Conclusion: "success", Title: "t", Summary: "s"}); err != nil {
		t.Fatal(err)
	}
	if err := guard.ConfirmPublication(t.Context(), ev, id, run.ID, []string{"main"}); err != nil {
		t.Fatal(err)
	}
	guard.Release()
	if _, err := evaluator.CompleteEvaluation(t.Context(), ev, nil); err != nil {
		t.Fatal(err)
	}
	if b.Check(key.SHA).Conclusion != "success" {
		t.Fatal("the stage is not set: no success")
	}
	b.Sim.ResetRequests()
	return key
}

func TestRevocation(t *testing.T) {
	t.Parallel()
	t.Run("RG-186 RG-190 RG-198 RG-199 P2 an old success is set back, read back, and its pull request queued", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.Open(nil)
		key := b.published(t, n)
		before := b.Check(key.SHA).ID
		_, a := b.Trigger(n)
		b.step(t)
		if c := b.Check(key.SHA); c.Status != "in_progress" || c.Conclusion != "" || c.ID != before {
			t.Errorf("check %+v, want the same run unfinished", c)
		}
		if h := b.Head(key); h.InvalidatedGeneration != a.HeadGeneration || !h.RunProved() {
			t.Errorf("head %+v", h)
		}
		if got := b.DB.QueryInt("SELECT count(*) FROM evaluation WHERE number = $1 AND head_generation = $2 AND available_at <= now()", n, a.HeadGeneration); got != 1 {
			t.Error("the pull request is not queued at the head's generation")
		}
		for _, q := range b.Sim.Requests() {
			if q.Method == "POST" && q.Route == rig.RouteRuns {
				t.Error("a head with a managed run got a new one where a PATCH took effect")
			}
		}
	})
	for name, position := range map[string]githubsim.ReopenRun{"answers 200 and changes nothing": githubsim.ReopenIgnored, "answers 422": githubsim.ReopenRefused} {
		t.Run("P2 RG-186 where GitHub "+name+" one new run replaces it and no success remains", func(t *testing.T) {
			t.Parallel()
			for _, latest := range []githubsim.LatestBy{githubsim.LatestByID, githubsim.LatestByCompletedAt} {
				b := setup(t)
				n := b.Open(nil)
				key := b.published(t, n)
				old := b.Check(key.SHA).ID
				b.Sim.Set(githubsim.Switches{ReopenRun: position, LatestBy: latest})
				b.Trigger(n)
				b.step(t)
				if h := b.Head(key); h.InvalidatedGeneration != h.Generation || h.RunID == old || h.PostedGeneration != h.Generation {
					t.Errorf("head %+v, want a new bound run", h)
				}
				if s := b.Successes(key.SHA); s != 0 {
					t.Errorf("%d runs still say success", s)
				}
				if posts := b.posts(); posts != 1 {
					t.Errorf("%d runs posted, want 1", posts)
				}
			}
		})
	}
	t.Run("P2 P1 an unconfirmed intent is never trusted: a new run is posted", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.Open(nil)
		key := b.published(t, n)
		old := b.Head(key).RunID
		b.DB.Exec("UPDATE head SET intent_decision_id = published_decision_id, published_decision_id = NULL")
		b.DB.Exec("UPDATE decision SET outcome = 'intended', settled_at = NULL")
		b.Trigger(n)
		b.step(t)
		if h := b.Head(key); h.RunID == old || h.InvalidatedGeneration != h.Generation || h.Publication != store.PublicationNone {
			t.Errorf("head %+v", h)
		}
		if b.Successes(key.SHA) != 0 {
			t.Error("a success remains")
		}
	})
	t.Run("P2 a POST whose answer was lost is found again, not repeated", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.Open(nil)
		key := b.published(t, n)
		b.Sim.Set(githubsim.Switches{ReopenRun: githubsim.ReopenIgnored})
		b.Sim.Inject(githubsim.Fault{Method: "POST", Route: rig.RouteRuns, Applied: true, Answer: githubsim.AnswerHangUp})
		b.Trigger(n)
		b.step(t)
		if h := b.Head(key); h.InvalidatedGeneration == h.Generation {
			t.Fatal("counted as invalidated although nothing was proved")
		}
		b.Now()
		b.step(t)
		if h := b.Head(key); h.InvalidatedGeneration != h.Generation {
			t.Errorf("head %+v", h)
		}
		if posts := b.posts(); posts != 1 {
			t.Errorf("%d POSTs, want the lost one alone", posts)
		}
	})
	t.Run("RG-187 RG-137 a head without a managed run gets no write", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.Open(nil)
		key := b.Key(n)
		b.Trigger(n)
		b.Sim.ResetRequests()
		b.step(t)
		if b.Writes() != 0 {
			t.Errorf("%d writes", b.Writes())
		}
		if h := b.Head(key); h.InvalidatedGeneration != h.Generation || h.RunID != 0 {
			t.Errorf("head %+v", h)
		}
	})
	t.Run("RG-135 an existing check is reset although the policy no longer exists", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.Open(nil)
		key := b.published(t, n)
		if _, err := b.Sim.PushBase(b.World.Repository, "main", "alice", map[string]string{".github/countersign.toml": ""}); err != nil {
			t.Fatal(err)
		}
		b.Trigger(n)
		b.step(t)
		if c := b.Check(key.SHA); c.Conclusion != "" {
			t.Errorf("check still says %q", c.Conclusion)
		}
	})
	t.Run("RG-200 D13 a merged pull request keeps its success", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.Open(nil)
		key := b.published(t, n)
		if _, err := b.Sim.MergePull(b.World.Repository, n, "alice"); err != nil {
			t.Fatal(err)
		}
		b.Trigger(n)
		b.step(t)
		if c := b.Check(key.SHA); c.Conclusion != "success" {
			t.Errorf("check says %q", c.Conclusion)
		}
		if h := b.Head(key); h.InvalidatedGeneration != h.Generation {
			t.Errorf("head %+v still pending", h)
		}
		if b.Writes() != 0 {
			t.Errorf("%d writes", b.Writes())
		}
	})
	t.Run("RG-200 RG-279 P7 a close without a merge revokes and ends the run as cancelled", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.Open(nil)
		key := b.published(t, n)
		if err := b.Sim.ClosePull(b.World.Repository, n, "dave"); err != nil {
			t.Fatal(err)
		}
		b.Trigger(n)
		b.step(t)
		if c := b.Check(key.SHA); c.Conclusion != "cancelled" {
			t.Errorf("check says %q, want cancelled", c.Conclusion)
		}
	})
	t.Run("RG-200 a closed pull request never ends the run of an open one on the same commit", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.Open(nil)
		key := b.published(t, n)
		other, err := b.Sim.OpenPull(b.World.Repository, githubsim.Pull{Author: "dave", Base: "main", Head: string(key.SHA), Branch: "twin"})
		if err != nil {
			t.Fatal(err)
		}
		b.Trigger(other)
		b.drain(t)
		if err := b.Sim.ClosePull(b.World.Repository, n, "dave"); err != nil {
			t.Fatal(err)
		}
		b.Trigger(n)
		b.drain(t)
		if c := b.Check(key.SHA); c.Status != "in_progress" {
			t.Errorf("check %+v, want unfinished", c)
		}
		if got := b.DB.QueryInt("SELECT count(*) FROM evaluation WHERE number = $1", other); got != 1 {
			t.Error("the open pull request is not queued")
		}
	})
	t.Run("P6 the head of a fork, which GitHub's listing leaves out, is queued all the same", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n, err := b.Sim.OpenPull(b.World.Repository, githubsim.Pull{Author: "erin", Fork: "erin", Files: map[string]string{"docs/x.md": "x"}})
		if err != nil {
			t.Fatal(err)
		}
		listed, err := b.Client(ghclient.InvalidatorPermissions).PullsOfCommit(t.Context(), b.Repo(), string(b.Key(n).SHA))
		if err != nil || len(listed) != 0 {
			t.Fatalf("the stage is not set: listing %v, %v", listed, err)
		}
		_, a := b.Trigger(n)
		b.DB.Exec("DELETE FROM evaluation")
		b.step(t)
		if got := b.DB.QueryInt("SELECT count(*) FROM evaluation WHERE number = $1 AND head_generation = $2", n, a.HeadGeneration); got != 1 {
			t.Error("not queued")
		}
	})
	t.Run("RG-191 a candidate that has moved keeps its newer row", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.Open(nil)
		old := b.Key(n)
		b.Trigger(n)
		sha, err := b.Sim.Push(b.World.Repository, n, "dave", map[string]string{"go.sum": "v2\n"})
		if err != nil {
			t.Fatal(err)
		}
		b.Trigger(n, func(w *store.DirectWork) { w.Before = old.SHA; w.Watermark.UpdatedAt = time.Now().Add(-time.Minute) })
		b.drain(t)
		if got := b.DB.QueryText("SELECT head_sha FROM evaluation WHERE number = $1", n); got != sha {
			t.Errorf("evaluation at %s, want the newer head %s", got, sha)
		}
	})
}

func (b *bench) posts() int {
	n := 0
	for _, q := range b.Sim.Requests() {
		if q.Method == "POST" && q.Route == rig.RouteRuns {
			n++
		}
	}
	return n
}

func TestCandidatesFailClosed(t *testing.T) {
	t.Parallel()
	lies := map[string]func(GitHub) GitHub{
		"RG-188 RG-194 a contradictory listing": func(g GitHub) GitHub { return lying{GitHub: g, listErr: ghclient.ErrMalformed} },
		"RG-192 more than a hundred candidates": func(g GitHub) GitHub { return lying{GitHub: g, listErr: ghclient.ErrTooLarge} },
		"RG-189 RG-195 a candidate that is not what was asked for": func(g GitHub) GitHub {
			return lying{GitHub: g, pullErr: ghclient.ErrMalformed}
		},
	}
	for name, lie := range lies {
		t.Run(name+" leaves the head pending", func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			n := b.Open(nil)
			key := b.published(t, n)
			b.Trigger(n)
			b.w = b.worker("invalidator-1", lie)
			b.step(t)
			if h := b.Head(key); h.InvalidatedGeneration == h.Generation {
				t.Error("counted as invalidated")
			}
			if b.Successes(key.SHA) != 0 {
				t.Error("the old success stands: the reset comes before the listing")
			}
		})
	}
	t.Run("RG-192 P6 the 101st candidate fails closed, whether GitHub lists it or only we have seen it", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.Open(nil)
		key := b.published(t, n)
		b.Trigger(n)
		b.DB.Exec("INSERT INTO pull (installation_id, repository_id, number, head_sha, state) SELECT $1, $2, 1000 + i, $3, 'open' FROM generate_series(1, 100) AS i", key.Installation, key.Repository, key.SHA)
		b.step(t)
		if h := b.Head(key); h.InvalidatedGeneration == h.Generation {
			t.Error("counted as invalidated")
		}
		if b.Successes(key.SHA) != 0 {
			t.Error("the old success stands")
		}
		if got := b.DB.QueryText("SELECT invalidation_error FROM head WHERE head_sha = $1", key.SHA); !strings.Contains(got, "101 pull requests") {
			t.Errorf("the row says %q", got)
		}
		// One less, or one that is known to be closed, is no such case.
		b.DB.Exec("UPDATE pull SET state = 'closed' WHERE number = 1001")
		b.DB.Exec("DELETE FROM pull WHERE number > 1001")
		b.Now()
		b.step(t)
		if h := b.Head(key); h.InvalidatedGeneration != h.Generation {
			t.Error("not invalidated")
		}
	})
	t.Run("RG-193 what GitHub leaves out and nobody saw is not queued; nothing claims otherwise", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.Open(nil)
		b.Trigger(n)
		b.w = b.worker("invalidator-1", func(g GitHub) GitHub { return lying{GitHub: g, listEmpty: true} })
		b.step(t)
		if got := b.DB.QueryInt("SELECT count(*) FROM evaluation"); got != 1 {
			t.Errorf("%d evaluations, want the seen one", got)
		}
	})
}

// lying answers some reads with an error, or with nothing.
type lying struct {
	GitHub
	listErr, pullErr error
	listEmpty        bool
}

func (l lying) PullsOfCommit(ctx context.Context, repo ghclient.Repo, sha string) ([]ghclient.PullSummary, error) {
	if l.listErr != nil || l.listEmpty {
		return nil, l.listErr
	}
	return l.GitHub.PullsOfCommit(ctx, repo, sha)
}

func (l lying) Pull(ctx context.Context, repo ghclient.Repo, number int) (ghclient.Pull, error) {
	if l.pullErr != nil {
		return ghclient.Pull{}, l.pullErr
	}
	return l.GitHub.Pull(ctx, repo, number)
}

// between runs a hook before the first write of a check run.
type between struct {
	GitHub
	hook func()
}

func (b *between) UpdateRun(ctx context.Context, repo ghclient.Repo, id int64, spec ghclient.RunSpec) (ghclient.Run, error) {
	return b.GitHub.UpdateRun(ctx, repo, id, spec)
}

func (b *between) GetRun(ctx context.Context, repo ghclient.Repo, id int64) (ghclient.Run, error) {
	if b.hook != nil {
		hook := b.hook
		b.hook = nil
		hook()
	}
	return b.GitHub.GetRun(ctx, repo, id)
}

func TestFencedWorker(t *testing.T) {
	t.Parallel()
	cases := map[string]func(b *bench, n int){
		"RG-183 RG-184 a replacement owner": func(b *bench, _ int) {
			b.DB.Exec("UPDATE head SET invalidation_expires_at = now() - interval '1 second'")
			if _, err := b.Store(storetest.Invalidator).ClaimInvalidation(context.Background(), "invalidator-2", time.Minute); err != nil {
				b.TB.Fatal(err)
			}
		},
		"RG-185 a newer generation": func(b *bench, n int) { b.Trigger(n) },
		"RG-183 an expired lease": func(b *bench, _ int) {
			b.DB.Exec("UPDATE head SET invalidation_expires_at = now() - interval '1 second'")
		},
	}
	for name, hook := range cases {
		t.Run(name+" fences the old worker: no PATCH, no completion", func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			n := b.Open(nil)
			key := b.published(t, n)
			_, a := b.Trigger(n)
			b.Sim.ResetRequests()
			b.w = b.worker("invalidator-1", func(g GitHub) GitHub { return &between{GitHub: g, hook: func() { hook(b, n) }} })
			b.step(t)
			if b.Writes() != 0 {
				t.Errorf("%d writes by a fenced worker", b.Writes())
			}
			if h := b.Head(key); h.InvalidatedGeneration >= a.HeadGeneration {
				t.Error("a fenced worker completed")
			}
			if got := testutil.ToFloat64(b.w.metrics.invalidations.WithLabelValues("superseded")); got != 1 {
				t.Errorf("superseded counted %v times", got)
			}
		})
	}
}

func TestFailures(t *testing.T) {
	t.Parallel()
	faults := map[string]githubsim.Fault{
		"PATCH fails":                        {Method: "PATCH", Route: rig.RouteRun},
		"PATCH fails but happened":           {Method: "PATCH", Route: rig.RouteRun, Applied: true, Answer: githubsim.AnswerHangUp},
		"PATCH is answered and did nothing":  {Method: "PATCH", Route: rig.RouteRun, Lie: true, Answer: githubsim.AnswerTruth},
		"read-back fails":                    {Method: "GET", Route: rig.RouteRun, Skip: 1},
		"read-back is truncated":             {Method: "GET", Route: rig.RouteRun, Skip: 1, Answer: githubsim.AnswerTruncated},
		"candidates listing fails with HTML": {Method: "GET", Route: rig.RoutePullsOf, Answer: githubsim.AnswerHTML},
		"candidate read fails":               {Method: "GET", Route: rig.RoutePull, Answer: githubsim.AnswerNotJSON},
	}
	for name, fault := range faults {
		t.Run("RG-196 "+name+": pending with backoff, then revoked and nothing lost", func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			n := b.Open(nil)
			key := b.published(t, n)
			_, a := b.Trigger(n)
			seen := make(chan struct{})
			fault.Seen = seen
			b.Sim.Inject(fault)
			b.step(t)
			select {
			case <-seen:
			default:
				t.Fatal("the fault never struck")
			}
			b.Now()
			for range 3 {
				if b.Head(key).InvalidatedGeneration == a.HeadGeneration {
					break
				}
				b.step(t)
				b.Now()
			}
			if h := b.Head(key); h.InvalidatedGeneration != a.HeadGeneration || !h.RunProved() {
				t.Errorf("head %+v never settled", h)
			}
			if b.Successes(key.SHA) != 0 {
				t.Error("the old success stands")
			}
			if got := b.DB.QueryInt("SELECT count(*) FROM evaluation WHERE number = $1 AND head_generation = $2", n, a.HeadGeneration); got != 1 {
				t.Error("the evaluation was lost")
			}
		})
	}
	t.Run("RG-196 backoff doubles from a second to the cap", func(t *testing.T) {
		t.Parallel()
		for attempts, want := range map[int]time.Duration{0: time.Second, 1: 2 * time.Second, 5: 32 * time.Second, 6: time.Minute, 400: time.Minute} {
			if got := store.Backoff(attempts, time.Minute); got != want {
				t.Errorf("after %d attempts %s, want %s", attempts, got, want)
			}
		}
	})
	t.Run("RG-197 RG-145 a rate limit defers by GitHub's delay and spends no attempt", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.Open(nil)
		key := b.published(t, n)
		b.Trigger(n)
		b.Sim.Inject(githubsim.Fault{Method: "PATCH", Route: rig.RouteRun, Answer: githubsim.AnswerSecondary, Status: 403, RetryAfter: "77"})
		b.step(t)
		if got := b.DB.QueryInt("SELECT invalidation_attempts FROM head WHERE head_sha = $1", key.SHA); got != 0 {
			t.Errorf("%d attempts spent", got)
		}
		wait := b.DB.QueryInt("SELECT extract(epoch FROM invalidation_available_at - now())::int FROM head WHERE head_sha = $1", key.SHA)
		if wait < 60 || wait > 77 {
			t.Errorf("deferred by %d s, want GitHub's 77", wait)
		}
		if got := testutil.ToFloat64(b.w.metrics.invalidations.WithLabelValues("rate_limited")); got != 1 {
			t.Errorf("RG-201: rate_limited counted %v times", got)
		}
	})
	t.Run("RG-201 completed, failed, rate_limited and superseded are results of one counter", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.Open(nil)
		b.published(t, n)
		done := testutil.ToFloat64(b.w.metrics.invalidations.WithLabelValues("completed"))
		b.Trigger(n)
		b.Sim.Inject(githubsim.Fault{Method: "PATCH", Route: rig.RouteRun})
		b.step(t)
		b.Now()
		b.step(t)
		if got := testutil.ToFloat64(b.w.metrics.invalidations.WithLabelValues("failed")); got != 1 {
			t.Errorf("failed %v", got)
		}
		if got := testutil.ToFloat64(b.w.metrics.invalidations.WithLabelValues("completed")) - done; got != 1 {
			t.Errorf("completed %v", got)
		}
	})
}

func TestRenewal(t *testing.T) {
	t.Parallel()
	t.Run("RG-182 RG-275 a lease is renewed only while unexpired and of the same generation", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.Open(nil)
		b.Trigger(n)
		s := b.Store(storetest.Invalidator)
		inv, err := s.ClaimInvalidation(t.Context(), "invalidator-1", time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.RenewInvalidation(t.Context(), inv, time.Minute); err != nil {
			t.Errorf("renew while held: %v", err)
		}
		b.DB.Exec("UPDATE head SET invalidation_expires_at = now() - interval '1 second'")
		if err := s.RenewInvalidation(t.Context(), inv, time.Minute); !errors.Is(err, store.ErrLeaseLost) {
			t.Errorf("renew after expiry: %v", err)
		}
		inv, err = s.ClaimInvalidation(t.Context(), "invalidator-1", time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		b.Trigger(n)
		if err := s.RenewInvalidation(t.Context(), inv, time.Minute); !errors.Is(err, store.ErrSuperseded) {
			t.Errorf("renew for an older generation: %v", err)
		}
	})
}

func TestLogsCarryNoSecret(t *testing.T) {
	t.Parallel()
	b := setup(t)
	n := b.Open(nil)
	b.published(t, n)
	b.Trigger(n)
	b.Sim.Inject(githubsim.Fault{Method: "PATCH", Route: rig.RouteRun})
	b.step(t)
	for _, secret := range []string{"ghs_", "PRIVATE KEY", "Bearer"} {
		if strings.Contains(b.Log.String(), secret) {
			t.Errorf("the log holds %q", secret)
		}
	}
}
