package evaluator

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/countersign/countersign/internal/rig"
	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/githubsim"
	"github.com/countersign/countersign/pkg/nudge"
	"github.com/countersign/countersign/pkg/retry"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/store/storetest"
)

// keep plays the invalidator's pass for a head whose pull requests were all merged: nothing is reset (P2).
func (b *bench) keep(t *testing.T) {
	t.Helper()
	s := b.Store(storetest.Invalidator)
	inv, err := s.ClaimInvalidation(t.Context(), "invalidator-1", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.CompleteInvalidation(t.Context(), inv, nil); err != nil {
		t.Fatal(err)
	}
}

func TestClosed(t *testing.T) {
	t.Parallel()
	t.Run("D13 the evaluation that a merge queued leaves the success alone", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.approved()
		key := b.ready(n)
		b.step(t)
		if _, err := b.Sim.MergePull(b.World.Repository, n, "alice"); err != nil {
			t.Fatal(err)
		}
		b.Trigger(n)
		b.keep(t)
		b.Sim.ResetRequests()
		b.step(t)
		if b.Writes() != 0 || b.Successes(key.SHA) != 1 {
			t.Errorf("%d writes, %d successes: %+v", b.Writes(), b.Successes(key.SHA), b.Check(key.SHA))
		}
		if got := b.DB.QueryInt("SELECT count(*) FROM evaluation"); got != 0 {
			t.Errorf("%d evaluations are left", got)
		}
	})
	t.Run("D13 a merge while a publication is unconfirmed ends: nothing asks for a revocation again and again", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.approved()
		key := b.ready(n)
		b.w = b.worker(func(g GitHub) GitHub {
			return &hooked{GitHub: g, afterPublish: func() {
				b.Sim.Inject(githubsim.Fault{Method: "PATCH", Route: rig.RouteRun, Times: 1})
			}, publishErr: ghclient.ErrUnavailable}
		})
		b.step(t)
		if h := b.Head(key); h.Publication != store.PublicationIntended {
			t.Fatalf("the stage is not set: %+v", h)
		}
		if _, err := b.Sim.MergePull(b.World.Repository, n, "alice"); err != nil {
			t.Fatal(err)
		}
		b.Trigger(n)
		b.keep(t)
		generation := b.Head(key).Generation
		b.step(t)
		if h := b.Head(key); h.Generation != generation || b.DB.QueryInt("SELECT count(*) FROM evaluation") != 0 {
			t.Errorf("generation %d after %d, %d evaluations", h.Generation, generation, b.DB.QueryInt("SELECT count(*) FROM evaluation"))
		}
	})
	t.Run("P7 a close without a webhook is found by the recheck, and revokes", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.approved()
		key := b.ready(n)
		b.step(t)
		if err := b.Sim.ClosePull(b.World.Repository, n, "dave"); err != nil { // and no webhook arrives
			t.Fatal(err)
		}
		b.Now()
		b.step(t)
		if h := b.Head(key); h.Generation <= h.InvalidatedGeneration {
			t.Error("the success of a closed pull request stands")
		}
		if got := b.DB.QueryText("SELECT state FROM pull WHERE number = $1", n); got != "closed" {
			t.Errorf("the pull request is kept as %s", got)
		}
		b.settle(t)
		if b.Successes(key.SHA) != 0 || b.DB.QueryInt("SELECT count(*) FROM evaluation") != 0 {
			t.Errorf("%d successes, %d rows", b.Successes(key.SHA), b.DB.QueryInt("SELECT count(*) FROM evaluation"))
		}
	})
}

// stale answers with the evidence as it was at some moment, as a replica does that lags; the pull request's own time may
// have caught up, or not have moved.
type stale struct {
	GitHub
	evidence *ghclient.Evidence
}

func (s stale) Evidence(ctx context.Context, repo ghclient.Repo, number int) (ghclient.Evidence, error) {
	if s.evidence != nil {
		return *s.evidence, nil
	}
	return s.GitHub.Evidence(ctx, repo, number)
}

func TestLaggingReads(t *testing.T) {
	t.Parallel()
	for _, state := range []string{"DISMISSED", "dismissed"} {
		t.Run("P5 a dismissal that is not visible yet is waited for: "+state, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			n := b.approved()
			before, err := b.Client(ghclient.EvaluatorPermissions).Evidence(t.Context(), b.Repo(), n)
			if err != nil {
				t.Fatal(err)
			}
			b.w = b.worker(func(g GitHub) GitHub { return stale{GitHub: g, evidence: &before} })
			b.Trigger(n, func(w *store.DirectWork) { // within the second of the approval: the time alone tells nothing
				w.Watermark = store.Watermark{Head: w.Head, UpdatedAt: before.Pull.UpdatedAt, ReviewID: before.Reviews[0].ID, ReviewState: state}
			})
			b.Invalidate()
			b.step(t)
			if got := b.DB.QueryInt("SELECT count(*) FROM decision"); got != 0 {
				t.Error("decided by an approval that was dismissed")
			}
		})
	}
	t.Run("P5 what never becomes visible is asked for less and less often", func(t *testing.T) {
		t.Parallel()
		w := &Worker{Deps: Deps{Config: Config{Worker: store.WorkerConfig{Poll: time.Second, RetryMax: time.Minute}}}}
		now := time.Now()
		for waited, want := range map[time.Duration]time.Duration{0: 2 * time.Second, 40 * time.Second: 10 * time.Second, time.Hour: time.Minute} {
			ev := store.Evaluation{ClaimedAt: now, Rows: []store.EvaluationRow{{RequestedAt: now.Add(-waited)}}}
			if d := w.disposition(ev, errLagging); d.After != want || d.Spend {
				t.Errorf("after %s: %+v, want %s and no attempt", waited, d, want)
			}
		}
	})
}

func TestNoWorkForNothing(t *testing.T) {
	t.Parallel()
	for name, scope := range map[string]string{
		"of the installation": "INSERT INTO authority (installation_id, scope, epoch, reason) VALUES ($1, 'installation', 1 + 0 * $2::bigint, 'team')",
		"of the repository":   "INSERT INTO authority (installation_id, scope, repository_id, epoch, reason) VALUES ($1, 'repository', $2, 1, 'label')",
		"of the base":         "INSERT INTO authority (installation_id, scope, repository_id, base_ref, epoch, reason) VALUES ($1, 'base', $2, 'main', 1, 'push')",
	} {
		t.Run("RG-225 pending authority "+name+" is seen before the facts are asked for", func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			n := b.approved()
			key := b.ready(n)
			asked := 0
			b.w = b.worker(func(g GitHub) GitHub { return counting{GitHub: g, asked: &asked} })
			b.DB.Exec(scope, key.Installation, key.Repository)
			b.step(t)
			if asked != 0 {
				t.Errorf("asked for facts %d times", asked)
			}
			if got := b.DB.QueryInt("SELECT count(*) FROM evaluation WHERE attempts = 0 AND available_at > now() + interval '3 seconds'"); got != 1 {
				t.Error("not deferred, or an attempt was spent")
			}
		})
	}
	t.Run("P4 I6 more pull requests on a head than are read is no evidence", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.approved()
		key := b.ready(n)
		b.DB.Exec("INSERT INTO pull (installation_id, repository_id, number, head_sha) SELECT $1, $2, 100000 + i, $3 FROM generate_series(1, 1200) AS i",
			key.Installation, key.Repository, key.SHA)
		b.step(t)
		if b.Successes(key.SHA) != 0 || b.DB.QueryInt("SELECT count(*) FROM evaluation WHERE last_error LIKE '%share this head%'") != 1 {
			t.Errorf("%d successes\n%s", b.Successes(key.SHA), b.Log)
		}
	})
}

// counting counts reads of who may approve.
type counting struct {
	GitHub
	asked *int
}

func (c counting) TeamsFor(ctx context.Context, org string, slugs []string, repo ghclient.Repo) (map[string]ghclient.TeamFacts, error) {
	*c.asked++
	return c.GitHub.TeamsFor(ctx, org, slugs, repo)
}

func TestFirstRun(t *testing.T) {
	t.Parallel()
	t.Run("RG-242 a newer generation that comes with the first run ends the evaluation before evidence is read", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.approved()
		b.ready(n)
		b.Sim.ResetRequests()
		b.w = b.worker(func(g GitHub) GitHub { return &readingBack{GitHub: g, hook: func() { b.Trigger(n) }} })
		b.step(t)
		for _, q := range b.Sim.Requests() {
			if q.Route == rig.RouteGraphQL {
				t.Fatal("evidence was read for a generation that was superseded")
			}
		}
		if got := testutil.ToFloat64(b.w.metrics.evaluations.WithLabelValues("superseded")); got != 1 {
			t.Errorf("superseded counted %v times\n%s", got, b.Log)
		}
	})
	t.Run("RG-278 a pull request of the organization's policy repository is not evaluated", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.approved()
		b.ready(n)
		b.DB.Exec("UPDATE repository SET full_name = 'acme/.github'") // as after a rename
		b.Sim.ResetRequests()
		b.step(t)
		if len(b.Sim.Requests()) != 0 || b.DB.QueryInt("SELECT count(*) FROM evaluation") != 0 || b.DB.QueryInt("SELECT count(*) FROM decision") != 0 {
			t.Errorf("%d requests, %d evaluations", len(b.Sim.Requests()), b.DB.QueryInt("SELECT count(*) FROM evaluation"))
		}
	})
	t.Run("P14 after an outage one 404 does not put the work off for hours", func(t *testing.T) {
		t.Parallel()
		w := &Worker{Deps: Deps{Config: Config{Worker: store.WorkerConfig{Poll: time.Second, RetryMax: time.Minute}}}}
		now := time.Now()
		for waited, want := range map[time.Duration]time.Duration{time.Second: time.Minute, 20 * time.Minute: 10 * time.Minute, 100 * time.Hour: 6 * time.Hour} {
			ev := store.Evaluation{ClaimedAt: now, Rows: []store.EvaluationRow{{RequestedAt: now.Add(-waited), Attempts: 20}}}
			if d := w.disposition(ev, ghclient.ErrNotFound); d.After != want || d.Result != retry.Parked {
				t.Errorf("after %s: %+v, want %s", waited, d, want)
			}
		}
	})
}

// readingBack runs a hook when a run is first read back.
type readingBack struct {
	GitHub
	hook func()
}

func (r *readingBack) GetRun(ctx context.Context, repo ghclient.Repo, id int64) (ghclient.Run, error) {
	if hook := r.hook; hook != nil {
		r.hook = nil
		hook()
	}
	return r.GitHub.GetRun(ctx, repo, id)
}

func TestInterrupted(t *testing.T) {
	t.Parallel()
	t.Run("a panic leaves a lease that ends", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.approved()
		b.ready(n)
		b.w = b.worker(func(g GitHub) GitHub {
			return &hooked{GitHub: g, beforeFinalRead: func() { panic("a bug") }}
		}, func(c *Config) { c.Worker.Lease = 3 * time.Second })
		func() {
			defer func() { _ = recover() }()
			_, _ = b.w.Step(t.Context(), nudge.ViaPoll)
			t.Error("the stage is not set: no panic")
		}()
		ends := b.DB.QueryText("SELECT evaluation_expires_at::text FROM head")
		deadline := time.Now().Add(time.Minute)
		for b.DB.QueryInt("SELECT count(*) FROM head WHERE evaluation_expires_at < now()") == 0 {
			if now := b.DB.QueryText("SELECT evaluation_expires_at::text FROM head"); now != ends || time.Now().After(deadline) {
				t.Fatalf("renewed to %s although nobody works it", now)
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
	t.Run("a stop spends no attempt and leaves the row due", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.approved()
		b.ready(n)
		ctx, cancel := context.WithCancel(t.Context())
		b.w = b.worker(func(g GitHub) GitHub { return &hooked{GitHub: g, beforeFinalRead: cancel} })
		if _, err := b.w.Step(ctx, nudge.ViaPoll); err != nil {
			t.Fatal(err)
		}
		if got := b.DB.QueryInt("SELECT count(*) FROM evaluation WHERE attempts = 0 AND available_at < now() + interval '2 seconds'"); got != 1 {
			t.Error("a stop counts as a failure")
		}
		if got := b.DB.QueryInt("SELECT count(*) FROM head WHERE evaluation_expires_at IS NOT NULL"); got != 0 {
			t.Error("the lease is held by nobody")
		}
	})
	t.Run("a lease lost in the middle of a request is counted as that", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.approved()
		b.ready(n)
		b.w = b.worker(func(g GitHub) GitHub {
			return lost{GitHub: g, lose: func() {
				b.DB.Exec("UPDATE head SET evaluation_expires_at = now() - interval '1 second'")
			}}
		}, func(c *Config) { c.Worker.Lease = 3 * time.Second })
		b.step(t)
		if got := testutil.ToFloat64(b.w.metrics.leasesLost); got != 1 {
			t.Errorf("%v leases lost\n%s", got, b.Log)
		}
		if got := testutil.ToFloat64(b.w.metrics.evaluations.WithLabelValues("superseded")); got != 1 {
			t.Errorf("superseded counted %v times", got)
		}
	})
	t.Run("an epoch that advances meanwhile frees the head at once", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.approved()
		b.ready(n)
		b.w = b.worker(func(g GitHub) GitHub {
			return &hooked{GitHub: g, beforeFinalRead: func() { b.DB.Exec("UPDATE installation SET authority_epoch = authority_epoch + 1") }}
		})
		b.step(t)
		if got := b.DB.QueryInt("SELECT count(*) FROM head WHERE evaluation_expires_at IS NOT NULL"); got != 0 {
			t.Error("the head is leased by nobody until the lease ends")
		}
	})
	t.Run("P11 a confirmation whose answer was lost does not pass a run that was set back for published", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.approved()
		key := b.ready(n)
		b.step(t)
		b.Now() // the recheck's row stands for the evaluation that was not completed
		b.DB.Exec("UPDATE evaluation SET recheck = false")
		ev, err := b.Store(storetest.Evaluator).ClaimEvaluation(t.Context(), "evaluator-1", time.Minute)
		if err != nil || !ev.Published() {
			t.Fatalf("published %v, %v", ev.Published(), err)
		}
		lostAnswer := errors.New("the commit's answer was lost")
		if out, err := b.w.requeueUncertain(t.Context(), ev, lostAnswer); !errors.Is(err, lostAnswer) || out.did != didRequeue {
			t.Errorf("%+v, %v", out, err)
		}
		if h := b.Head(key); h.Generation <= ev.Generation {
			t.Error("nobody looks again")
		}
	})
	t.Run("P10 the final read is bounded: authority events wait for the guard", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.approved()
		b.ready(n)
		bounded := false
		b.w = b.worker(func(g GitHub) GitHub { return deadlines{GitHub: g, bounded: &bounded} })
		b.step(t)
		if !bounded {
			t.Error("the guard is held for as long as a read takes")
		}
	})
}

// lost loses the lease during a read and answers only when the read is cancelled.
type lost struct {
	GitHub
	lose func()
}

func (l lost) PullsOfCommit(ctx context.Context, _ ghclient.Repo, _ string) ([]ghclient.PullSummary, error) {
	l.lose()
	<-ctx.Done()
	return nil, ctx.Err()
}

// deadlines reports whether the final read has a deadline.
type deadlines struct {
	GitHub
	bounded *bool
}

func (d deadlines) PullState(ctx context.Context, repo ghclient.Repo, number int) (ghclient.Pull, error) {
	_, *d.bounded = ctx.Deadline()
	return d.GitHub.PullState(ctx, repo, number)
}
