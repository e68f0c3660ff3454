package evaluator

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/countersign/countersign/internal/rig"
	"github.com/countersign/countersign/pkg/checkrun"
	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/githubsim"
	"github.com/countersign/countersign/pkg/nudge"
	"github.com/countersign/countersign/pkg/policy"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/store/storetest"
)

// bench is one evaluator over the rig.
type bench struct {
	*rig.Rig
	w *Worker
}

func setup(t *testing.T, change ...func(*Config)) *bench {
	t.Helper()
	b := &bench{Rig: rig.New(t)}
	b.w = b.worker(func(g GitHub) GitHub { return g }, change...)
	return b
}

func (b *bench) worker(wrap func(GitHub) GitHub, change ...func(*Config)) *Worker {
	cfg := Config{
		Check:        checkrun.Config{Name: rig.CheckName, WriteTimeout: 5 * time.Second, GuardWait: 6 * time.Second},
		Worker:       store.WorkerConfig{Concurrency: 1, Poll: 50 * time.Millisecond, Lease: time.Minute, RetryMax: time.Minute},
		RecheckAfter: 30 * time.Second,
	}
	for _, c := range change {
		c(&cfg)
	}
	return New(Deps{
		Store: b.Store(storetest.Evaluator), GitHub: func(int64) GitHub { return wrap(b.Client(ghclient.EvaluatorPermissions)) }, Checks: b.Checks(), Config: cfg,
		Replica: "evaluator-1", Tracer: noop.NewTracerProvider().Tracer(""), Log: b.Logger(), Metrics: prometheus.NewRegistry(),
	})
}

// step works one due head.
func (b *bench) step(t *testing.T) {
	t.Helper()
	did, err := b.w.Step(t.Context(), nudge.ViaPoll)
	if err != nil || !did {
		t.Fatalf("step: did %v, %v\n%s", did, err, b.Log)
	}
}

// settle invalidates and evaluates until nothing is due.
func (b *bench) settle(t *testing.T) {
	t.Helper()
	for range 20 {
		b.Invalidate()
		did, err := b.w.Step(t.Context(), nudge.ViaPoll)
		if err != nil {
			t.Fatalf("step: %v", err)
		}
		if !did && b.DB.QueryInt("SELECT count(*) FROM head WHERE generation > invalidated_generation") == 0 {
			return
		}
	}
	t.Fatalf("work does not end\n%s", b.Log)
}

// ready triggers a pull request and invalidates its head: the next step evaluates it.
func (b *bench) ready(number int) store.HeadKey {
	b.Trigger(number)
	b.Invalidate()
	return b.Key(number)
}

// approved opens a pull request both owner sets of which have approved.
func (b *bench) approved() int {
	n := b.Open(nil)
	b.Approve(n, "alice", "carol")
	return n
}

func TestDecision(t *testing.T) {
	t.Parallel()
	t.Run("RG-240 RG-280 RG-056 blocked names who is missing, and the decision records delivery and reason", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.Open(nil)
		id, _ := b.Trigger(n)
		b.Invalidate()
		b.step(t)
		c := b.Check(b.Key(n).SHA)
		if c.Conclusion != "failure" || !strings.Contains(c.Text, "acme/core") || !strings.Contains(c.Text, "acme/docs") {
			t.Errorf("check %+v", c)
		}
		d := b.decision(t)
		if d.DeliveryID != id || d.Reason != "pull_request.edited" || d.Outcome != "confirmed" || d.RunID != c.ID {
			t.Errorf("decision %+v", d)
		}
		b.firstWriteBeforeEvidence(t)
	})
	t.Run("RG-290 RG-294 RG-300 the run's name, external id, link and action", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.approved()
		key := b.ready(n)
		b.step(t)
		c := b.Check(key.SHA)
		if c.Name != rig.CheckName || c.Conclusion != "success" || c.ExternalID != strings.TrimSpace(b.DB.QueryText("SELECT decision_id::text FROM decision")) {
			t.Errorf("check %+v", c)
		}
		if len(c.Actions) != 1 || c.Actions[0] != "re-evaluate" {
			t.Errorf("actions %v", c.Actions)
		}
	})
	t.Run("RG-241 no policy and no run: silence", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		if _, err := b.Sim.PushBase(b.World.Repository, "main", "alice", map[string]string{".github/countersign.toml": ""}); err != nil {
			t.Fatal(err)
		}
		b.Sim.AddRepo("acme", "plain", map[string]string{"README.md": "x"})
		n := b.plainPull(t)
		b.Invalidate()
		b.Sim.ResetRequests()
		b.step(t)
		if b.Writes() != 0 || b.DB.QueryInt("SELECT count(*) FROM evaluation") != 0 || b.DB.QueryInt("SELECT count(*) FROM decision") != 0 {
			t.Errorf("pull %d: %d writes", n, b.Writes())
		}
	})
	t.Run("RG-354 a policy disabled while a run exists is a published failure", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.approved()
		key := b.ready(n)
		b.step(t)
		if _, err := b.Sim.PushBase(b.World.Repository, "main", "alice", map[string]string{".github/countersign.toml": "schema_version = 1\nenabled = false\n"}); err != nil {
			t.Fatal(err)
		}
		b.ready(n)
		b.step(t)
		if c := b.Check(key.SHA); c.Conclusion != "failure" {
			t.Errorf("check %+v", c)
		}
	})
	t.Run("D10 a missing approval may look pending or action required, and allows nothing", func(t *testing.T) {
		t.Parallel()
		for look, want := range map[string]string{"pending": "", "action_required": "action_required"} {
			b := setup(t, func(c *Config) { c.MissingApproval = look })
			n := b.Open(nil)
			key := b.ready(n)
			b.step(t)
			c := b.Check(key.SHA)
			if c.Conclusion != want || b.decision(t).Conclusion != look || !strings.Contains(c.Title, "Approval required") {
				t.Errorf("%s: check %+v, decision %q", look, c, b.decision(t).Conclusion)
			}
			b.Approve(n, "alice", "carol")
			b.ready(n)
			b.step(t)
			if c := b.Check(key.SHA); c.Conclusion != "success" {
				t.Errorf("%s: after approval %+v", look, c)
			}
		}
	})
	t.Run("D7 RG-257 two pull requests on one head: the conjunction, each explained", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.approved()
		key := b.Key(n)
		other, err := b.Sim.OpenPull(b.World.Repository, githubsim.Pull{Author: "dave", Base: "main", Head: string(key.SHA), Branch: "twin"})
		if err != nil {
			t.Fatal(err)
		}
		b.Trigger(n)
		b.Trigger(other)
		b.Invalidate()
		b.step(t)
		c := b.Check(key.SHA)
		if c.Conclusion != "failure" {
			t.Errorf("one of two is not approved: %+v", c)
		}
		b.Approve(other, "alice", "carol")
		b.ready(other)
		b.step(t)
		if c := b.Check(key.SHA); c.Conclusion != "success" {
			t.Errorf("both are approved: %+v", c)
		}
		if got := b.DB.QueryInt("SELECT count(*) FROM evaluation WHERE NOT recheck"); got != 0 {
			t.Errorf("%d evaluations are left", got)
		}
	})
	t.Run("P6 the head of a fork is decided", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n, err := b.Sim.OpenPull(b.World.Repository, githubsim.Pull{Author: "erin", Fork: "erin", Files: map[string]string{"docs/x.md": "x"}})
		if err != nil {
			t.Fatal(err)
		}
		b.Approve(n, "carol")
		key := b.ready(n)
		b.step(t)
		if c := b.Check(key.SHA); c.Conclusion != "success" {
			t.Errorf("check %+v", c)
		}
	})
	t.Run("RG-279 a closed pull request is not evaluated", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.approved()
		b.ready(n)
		if err := b.Sim.ClosePull(b.World.Repository, n, "dave"); err != nil {
			t.Fatal(err)
		}
		b.step(t)
		if got := b.DB.QueryInt("SELECT count(*) FROM decision"); got != 0 {
			t.Error("a closed pull request was decided")
		}
		if got := b.DB.QueryInt("SELECT count(*) FROM evaluation"); got != 0 {
			t.Error("its evaluation stays")
		}
	})
	t.Run("I8 I9 RG-246 replaying the recorded evidence gives the recorded verdict", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.approved()
		b.ready(n)
		b.step(t)
		d := b.decision(t)
		snapshot, err := policy.DecodeSnapshot([]byte(d.Evidence))
		if err != nil {
			t.Fatal(err)
		}
		if got := string(policy.Evaluate(snapshot).MarshalCanonical()); got != d.Verdict {
			t.Errorf("replay differs:\n%s\n%s", got, d.Verdict)
		}
		if policy.Digest(snapshot) != d.EvidenceDigest {
			t.Error("the digest is not of the evidence")
		}
	})
}

// firstWriteBeforeEvidence: the run was made in progress before reviews were asked for (RG-240).
func (b *bench) firstWriteBeforeEvidence(t *testing.T) {
	t.Helper()
	for _, q := range b.Sim.Requests() {
		if q.Method == "POST" && q.Route == rig.RouteRuns {
			return
		}
		if q.Route == rig.RouteGraphQL {
			t.Error("evidence was read before the run was in progress")
			return
		}
	}
	t.Error("no run was made")
}

func (b *bench) decision(t *testing.T) store.StoredDecision {
	t.Helper()
	list, err := b.Store(storetest.Reader).ListDecisions(t.Context(), store.PullKey{}, 0, 1)
	if err != nil || len(list) != 1 {
		t.Fatalf("decisions %v, %v", list, err)
	}
	return list[0]
}

func (b *bench) plainPull(t *testing.T) int {
	t.Helper()
	n, err := b.Sim.OpenPull("acme/plain", githubsim.Pull{Author: "dave", Files: map[string]string{"README.md": "y"}})
	if err != nil {
		t.Fatal(err)
	}
	info, err := b.Client(ghclient.FanoutPermissions).Repository(t.Context(), ghclient.Repo{Owner: "acme", Name: "plain"})
	if err != nil {
		t.Fatal(err)
	}
	state, _ := b.Sim.PullState("acme/plain", n)
	some := b.Open(nil)
	b.Trigger(some, func(w *store.DirectWork) {
		w.Repository, w.FullName, w.Number, w.Head, w.Watermark = store.RepositoryID(info.ID), "acme/plain", n, store.SHA(state.Head), store.Watermark{}
	})
	return n
}

// hooked runs a hook once, at a named moment of an evaluation.
type hooked struct {
	GitHub
	beforeFinalRead, afterPublish func()
	publishErr                    error
}

func (h *hooked) PullState(ctx context.Context, repo ghclient.Repo, number int) (ghclient.Pull, error) {
	if hook := h.beforeFinalRead; hook != nil {
		h.beforeFinalRead = nil
		hook()
	}
	return h.GitHub.PullState(ctx, repo, number)
}

func (h *hooked) UpdateRun(ctx context.Context, repo ghclient.Repo, id int64, spec ghclient.RunSpec) (ghclient.Run, error) {
	run, err := h.GitHub.UpdateRun(ctx, repo, id, spec)
	if spec.Status == "completed" {
		if hook := h.afterPublish; hook != nil {
			h.afterPublish = nil
			hook()
		}
		if h.publishErr != nil {
			err, h.publishErr = h.publishErr, nil
		}
	}
	return run, err
}

func TestFences(t *testing.T) {
	t.Parallel()
	// Each case makes one fence fail after the evidence was collected, before the final read.
	before := map[string]func(b *bench, n int, key store.HeadKey){
		"RG-249 RG-250 RG-251 RG-268 a newer trigger": func(b *bench, n int, _ store.HeadKey) { b.Trigger(n) },
		"RG-252 RG-223 an installation-wide epoch": func(b *bench, _ int, _ store.HeadKey) {
			b.DB.Exec("UPDATE installation SET authority_epoch = authority_epoch + 1")
		},
		"RG-253 RG-225 pending authority of the base": func(b *bench, _ int, k store.HeadKey) {
			b.DB.Exec("INSERT INTO authority (installation_id, scope, repository_id, base_ref, epoch, reason) VALUES ($1, 'base', $2, 'main', 1, 'push')", k.Installation, k.Repository)
		},
		"RG-225 retrying authority of the repository": func(b *bench, _ int, k store.HeadKey) {
			b.DB.Exec("INSERT INTO authority (installation_id, scope, repository_id, epoch, reason, attempts, available_at) VALUES ($1, 'repository', $2, 1, 'label', 3, now() + interval '1 hour')", k.Installation, k.Repository)
		},
		"RG-255 RG-256 a lost lease": func(b *bench, _ int, _ store.HeadKey) {
			b.DB.Exec("UPDATE head SET evaluation_expires_at = now() - interval '1 second'")
		},
		"P1 another bound run": func(b *bench, _ int, _ store.HeadKey) { b.DB.Exec("UPDATE head SET run_id = run_id + 1000") },
	}
	for name, hook := range before {
		t.Run("I3 "+name+" refuses: nothing completed is written", func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			n := b.approved()
			key := b.ready(n)
			b.w = b.worker(func(g GitHub) GitHub { return &hooked{GitHub: g, beforeFinalRead: func() { hook(b, n, key) }} })
			b.step(t)
			if b.Successes(key.SHA) != 0 {
				t.Errorf("a success was published\n%s", b.Log)
			}
			if got := b.DB.QueryInt("SELECT count(*) FROM decision WHERE outcome = 'confirmed'"); got != 0 {
				t.Error("a decision was confirmed")
			}
		})
	}
	t.Run("RG-226 authority of another repository or base does not block", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.approved()
		key := b.ready(n)
		b.DB.Exec("INSERT INTO authority (installation_id, scope, repository_id, base_ref, epoch, reason) VALUES ($1, 'base', $2, 'release', 1, 'push'), ($1, 'repository', $2 + 1, '', 1, 'label')", key.Installation, key.Repository)
		b.step(t)
		if b.Successes(key.SHA) != 1 {
			t.Errorf("blocked by foreign authority\n%s", b.Log)
		}
		b.DB.Exec("DELETE FROM authority")
	})
	t.Run("RG-273 pending authority waits without spending an attempt", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.approved()
		key := b.ready(n)
		b.DB.Exec("INSERT INTO authority (installation_id, scope, repository_id, epoch, reason) VALUES ($1, 'repository', $2, 1, 'label')", key.Installation, key.Repository)
		b.step(t)
		if got := b.DB.QueryInt("SELECT count(*) FROM evaluation WHERE attempts = 0 AND available_at > now() + interval '3 seconds'"); got != 1 {
			t.Error("not deferred, or an attempt was spent")
		}
		b.DB.Exec("DELETE FROM authority")
		b.Now()
		b.settle(t)
		if b.Successes(key.SHA) != 1 {
			t.Error("did not settle when the authority was done")
		}
	})
	t.Run("RG-223 P8 work of an older epoch never publishes; when nothing is pending it is requeued at the current one", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.approved()
		key := b.ready(n)
		b.DB.Exec("UPDATE installation SET authority_epoch = authority_epoch + 1")
		b.step(t)
		if b.Successes(key.SHA) != 0 {
			t.Fatal("published under an older epoch")
		}
		b.settle(t)
		if b.Successes(key.SHA) != 1 {
			t.Errorf("stranded\n%s", b.Log)
		}
	})
	changes := map[string]func(b *bench, n int) error{
		"RG-247 a new head": func(b *bench, n int) error {
			_, err := b.Sim.Push(b.World.Repository, n, "dave", map[string]string{"go.sum": "v9\n"})
			return err
		},
		"RG-247 another base": func(b *bench, n int) error { return b.Sim.Retarget(b.World.Repository, n, "release", "dave") },
		"RG-247 a new base tip": func(b *bench, _ int) error {
			_, err := b.Sim.PushBase(b.World.Repository, "main", "alice", map[string]string{"README.md": "moved\n"})
			return err
		},
		"RG-248 a label": func(b *bench, n int) error { return b.Sim.Label(b.World.Repository, n, "urgent", "alice") },
	}
	for name, change := range changes {
		t.Run("RG-267 "+name+" at the final read discards and queues anew", func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			if err := b.Sim.SetBranch(b.World.Repository, "release", b.branchTip(t), "alice"); err != nil {
				t.Fatal(err)
			}
			n := b.approved()
			key := b.ready(n)
			b.w = b.worker(func(g GitHub) GitHub {
				return &hooked{GitHub: g, beforeFinalRead: func() {
					if err := change(b, n); err != nil {
						b.TB.Error(err)
					}
				}}
			})
			b.step(t)
			if b.Successes(key.SHA) != 0 {
				t.Error("published what had changed")
			}
			now := b.Key(n)
			if got := b.DB.QueryInt("SELECT count(*) FROM evaluation WHERE head_sha = $1 AND available_at <= now()", now.SHA); got != 1 {
				t.Error("no work for what is there now")
			}
			if h := b.Head(now); h.Generation <= h.InvalidatedGeneration {
				t.Error("the live head does not wait for its revocation")
			}
			b.w = b.worker(func(g GitHub) GitHub { return g })
			b.settle(t)
			if c := b.Check(now.SHA); c.Status != "completed" {
				t.Errorf("never settled: %+v", c)
			}
		})
	}
	t.Run("RG-266 a queued head that is stale at the start is followed, not published", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.approved()
		old := b.ready(n)
		if _, err := b.Sim.Push(b.World.Repository, n, "dave", map[string]string{"go.sum": "v9\n"}); err != nil {
			t.Fatal(err)
		}
		b.step(t)
		if b.Successes(old.SHA) != 0 {
			t.Error("published on a stale head")
		}
		if got := b.DB.QueryText("SELECT head_sha FROM evaluation"); got != string(b.Key(n).SHA) {
			t.Errorf("work is at %s", got)
		}
	})
}

func (b *bench) branchTip(t *testing.T) string {
	t.Helper()
	n := b.Open(nil)
	state, _ := b.Sim.PullState(b.World.Repository, n)
	if err := b.Sim.ClosePull(b.World.Repository, n, "dave"); err != nil {
		t.Fatal(err)
	}
	return state.BaseSHA
}

func TestUncertainPublication(t *testing.T) {
	t.Parallel()
	after := map[string]func(b *bench, n int){
		"RG-258 RG-261 a lost lease": func(b *bench, _ int) {
			b.DB.Exec("UPDATE head SET evaluation_expires_at = now() - interval '1 second'")
		},
		"RG-258 RG-262 a newer generation": func(b *bench, n int) { b.Trigger(n) },
		"RG-263 a database error": func(b *bench, _ int) {
			b.DB.Exec("ALTER TABLE decision RENAME TO decision_away")
		},
	}
	for name, hook := range after {
		t.Run(name+" after the write: the run is set back before the guard is released, the work stays", func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			n := b.approved()
			key := b.ready(n)
			b.w = b.worker(func(g GitHub) GitHub { return &hooked{GitHub: g, afterPublish: func() { hook(b, n) }} })
			b.step(t)
			b.DB.Exec("ALTER TABLE IF EXISTS decision_away RENAME TO decision")
			if b.Successes(key.SHA) != 0 {
				t.Errorf("the uncertain success stands\n%s", b.Log)
			}
			if got := b.DB.QueryInt("SELECT count(*) FROM decision WHERE outcome = 'confirmed'"); got != 0 {
				t.Error("confirmed")
			}
			b.w = b.worker(func(g GitHub) GitHub { return g })
			b.DB.Exec("UPDATE head SET evaluation_expires_at = NULL, evaluation_holder = ''")
			b.Now()
			b.settle(t)
			if b.Successes(key.SHA) != 1 {
				t.Errorf("never settled\n%s", b.Log)
			}
		})
	}
	for name, fault := range map[string]githubsim.Fault{
		"RG-260 a cancellation during the write, which never arrives": {Method: "PATCH", Contain: `"completed"`, Answer: githubsim.AnswerHangUp},
		"RG-260 a cancellation during the write, which arrives":       {Method: "PATCH", Contain: `"completed"`, Answer: githubsim.AnswerTruth},
		"RG-264 a cancellation during the read-back":                  {Method: "GET", Skip: 1, Answer: githubsim.AnswerTruth}, // the first read is the binding's
	} {
		t.Run(name+": the shielded reset comes first, then the cancellation", func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			n := b.approved()
			key := b.ready(n)
			seen, until := make(chan struct{}), make(chan struct{})
			fault.Route, fault.Seen, fault.Until = rig.RouteRun, seen, until
			b.Sim.Inject(fault)
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				<-seen
				cancel() // while GitHub has the request
			}()
			if _, err := b.w.Step(ctx, nudge.ViaPoll); err != nil {
				t.Fatal(err)
			}
			close(until)
			if ctx.Err() == nil {
				t.Fatal("never cancelled: this proves nothing")
			}
			if !strings.Contains(b.Log.String(), "context canceled") {
				t.Errorf("the cancellation is not what ended it\n%s", b.Log)
			}
			if got := b.DB.QueryInt("SELECT count(*) FROM decision WHERE outcome = 'confirmed'"); got != 0 {
				t.Error("confirmed")
			}
			if b.Successes(key.SHA) != 0 {
				t.Errorf("a success stands after cancellation\n%s", b.Log)
			}
			b.DB.Exec("UPDATE head SET evaluation_expires_at = NULL, evaluation_holder = ''")
			b.Now()
			b.settle(t)
			if b.Successes(key.SHA) != 1 {
				t.Error("the work was lost")
			}
		})
	}
	t.Run("RG-265 a reset that fails too keeps the original error, and the next generation replaces the run", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.approved()
		key := b.ready(n)
		old := b.Head(key).RunID
		b.w = b.worker(func(g GitHub) GitHub {
			return &hooked{GitHub: g, afterPublish: func() {
				b.Sim.Inject(githubsim.Fault{Method: "PATCH", Route: rig.RouteRun, Times: 1})
			}, publishErr: ghclient.ErrUnavailable}
		})
		b.step(t)
		if !strings.Contains(b.Log.String(), "reset after an uncertain publication failed") {
			t.Error("the failed reset is no event of its own")
		}
		for line := range strings.Lines(b.Log.String()) {
			if !strings.Contains(line, `"evaluation ended"`) {
				continue
			}
			var ended struct{ Err string }
			if err := json.Unmarshal([]byte(line), &ended); err != nil || !strings.Contains(ended.Err, ghclient.ErrUnavailable.Error()) || strings.Contains(ended.Err, "reset") {
				t.Errorf("reported as %q, not as the original error", ended.Err)
			}
		}
		b.w = b.worker(func(g GitHub) GitHub { return g })
		b.Now()
		b.settle(t)
		if h := b.Head(key); h.RunID == old || h.RunID == 0 {
			t.Errorf("run %d was trusted although a write on it was uncertain", h.RunID)
		}
		if b.Successes(key.SHA) != 1 {
			t.Errorf("%d successes", b.Successes(key.SHA))
		}
	})
	faults := map[string]githubsim.Fault{
		"failed":                     {Method: "PATCH", Route: rig.RouteRun, Contain: `"completed"`},
		"failed but happened":        {Method: "PATCH", Route: rig.RouteRun, Contain: `"completed"`, Applied: true, Answer: githubsim.AnswerHangUp},
		"answered and did nothing":   {Method: "PATCH", Route: rig.RouteRun, Contain: `"completed"`, Lie: true, Answer: githubsim.AnswerTruth},
		"refused as invalid":         {Method: "PATCH", Route: rig.RouteRun, Contain: `"completed"`, Status: 422},
		"applied, answer truncated":  {Method: "PATCH", Route: rig.RouteRun, Contain: `"completed"`, Applied: true, Answer: githubsim.AnswerTruncated},
		"applied, read-back failing": {Method: "GET", Route: rig.RouteRun, Skip: 1, Times: 2},
	}
	for name, fault := range faults {
		t.Run("RG-259 P11 publication "+name+": one success in the end, decided once", func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			n := b.approved()
			key := b.ready(n)
			seen := make(chan struct{})
			fault.Seen = seen
			b.Sim.Inject(fault)
			b.step(t)
			select {
			case <-seen:
			default:
				t.Fatal("the fault never struck")
			}
			for range 4 {
				b.DB.Exec("UPDATE head SET evaluation_expires_at = NULL, evaluation_holder = '' WHERE evaluation_expires_at IS NOT NULL")
				b.Now()
				if b.DB.QueryInt("SELECT count(*) FROM evaluation WHERE NOT recheck") == 0 {
					break
				}
				b.Invalidate()
				if _, err := b.w.Step(t.Context(), nudge.ViaPoll); err != nil {
					t.Fatal(err)
				}
			}
			if b.Successes(key.SHA) != 1 {
				t.Errorf("%d successes\n%s", b.Successes(key.SHA), b.Log)
			}
			if got := b.DB.QueryInt("SELECT count(*) FROM decision WHERE outcome = 'confirmed'"); got != 1 {
				t.Errorf("%d confirmed decisions", got)
			}
		})
	}
}

func TestRetry(t *testing.T) {
	t.Parallel()
	t.Run("RG-269 a failure stays pending and is tried for ever with capped backoff", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.approved()
		key := b.ready(n)
		b.Sim.Inject(githubsim.Fault{Route: rig.RouteGraphQL, Times: 12})
		for i := range 8 {
			b.step(t)
			if got := b.DB.QueryInt("SELECT attempts FROM evaluation"); got != int64(i+1) {
				t.Fatalf("attempts %d after %d tries", got, i+1)
			}
			if wait := b.DB.QueryInt("SELECT extract(epoch FROM available_at - now())::int FROM evaluation"); wait > 60 {
				t.Errorf("deferred by %d s, above the cap", wait)
			}
			b.Now()
		}
		b.Sim.ClearFaults()
		b.settle(t)
		if b.Successes(key.SHA) != 1 {
			t.Error("the work was lost")
		}
	})
	t.Run("RG-270 a rate limit waits for GitHub's delay and spends nothing", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.approved()
		b.ready(n)
		b.Sim.Inject(githubsim.Fault{Route: rig.RouteGraphQL, Answer: githubsim.AnswerSecondary, Status: 403, RetryAfter: "90"})
		b.step(t)
		if got := b.DB.QueryInt("SELECT count(*) FROM evaluation WHERE attempts = 0 AND available_at > now() + interval '80 seconds'"); got != 1 {
			t.Error("not deferred by GitHub's 90 s, or an attempt was spent")
		}
	})
	t.Run("P5 a read older than the trigger promised is repeated, spends nothing and moves nothing back", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.approved()
		b.Trigger(n, func(w *store.DirectWork) { w.Watermark.UpdatedAt = time.Now().Add(time.Hour) })
		b.Invalidate()
		b.step(t)
		if got := b.DB.QueryInt("SELECT count(*) FROM evaluation WHERE attempts = 0 AND last_error LIKE '%older than the trigger%'"); got != 1 {
			t.Errorf("not treated as a lagging read\n%s", b.Log)
		}
		if got := b.DB.QueryInt("SELECT count(*) FROM decision"); got != 0 {
			t.Error("decided from a lagging read")
		}
	})
	t.Run("P5 a review that triggered the work and is not visible yet is waited for", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.approved()
		b.Trigger(n, func(w *store.DirectWork) { w.Watermark.ReviewID, w.Watermark.ReviewState = 987654321, "approved" })
		b.Invalidate()
		b.step(t)
		if got := b.DB.QueryInt("SELECT count(*) FROM decision"); got != 0 {
			t.Error("decided without the review that triggered the work")
		}
	})
	t.Run("RG-002 what a payload says of a review, a state or a name is no evidence: the verdict rests on what GitHub answers", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.Open(nil)
		var last int64
		for _, owner := range []string{"alice", "carol"} {
			id, err := b.Sim.Review(b.World.Repository, n, owner, "COMMENTED")
			if err != nil {
				t.Fatal(err)
			}
			last = id
		}
		b.Trigger(n, func(w *store.DirectWork) { // everything a payload could claim in favour of the change
			w.Watermark.ReviewID, w.Watermark.ReviewState = last, "APPROVED"
			w.Title, w.AuthorLogin, w.BaseRef = "approved by acme/core and acme/docs", "carol", "unprotected"
		})
		b.Invalidate()
		b.step(t)
		if c := b.Check(b.Key(n).SHA); c.Conclusion != "failure" || !strings.Contains(c.Text, "acme/core") || !strings.Contains(c.Text, "acme/docs") {
			t.Errorf("check %+v\n%s", c, b.Log)
		}
		if e := b.decision(t).Evidence; strings.Contains(e, "APPROVED") || strings.Contains(e, "unprotected") {
			t.Errorf("a claim of the payload is in the evidence: %s", e)
		}
	})
	t.Run("P5 after a success one recheck; a difference revokes and decides anew", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.approved()
		key := b.ready(n)
		b.step(t)
		if got := b.DB.QueryInt("SELECT count(*) FROM evaluation WHERE recheck AND available_at > now()"); got != 1 {
			t.Fatal("no recheck is kept")
		}
		if err := b.Sim.RemoveTeamMember("acme", "core", "alice"); err != nil { // and no webhook arrives
			t.Fatal(err)
		}
		b.Now()
		b.settle(t)
		if c := b.Check(key.SHA); c.Conclusion != "failure" {
			t.Errorf("check %+v", c)
		}
	})
	t.Run("P5 a recheck that finds the same ends without a write", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.approved()
		b.ready(n)
		b.step(t)
		b.Sim.ResetRequests()
		b.Now()
		b.step(t)
		if b.Writes() != 0 || b.DB.QueryInt("SELECT count(*) FROM evaluation") != 0 {
			t.Errorf("%d writes, %d rows", b.Writes(), b.DB.QueryInt("SELECT count(*) FROM evaluation"))
		}
	})
	t.Run("RG-277 a superseded completion is not counted as completed", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.approved()
		b.ready(n)
		b.w = b.worker(func(g GitHub) GitHub { return &hooked{GitHub: g, beforeFinalRead: func() { b.Trigger(n) }} })
		b.step(t)
		if got := testutil.ToFloat64(b.w.metrics.evaluations.WithLabelValues("completed")); got != 0 {
			t.Errorf("completed counted %v times", got)
		}
		if got := testutil.ToFloat64(b.w.metrics.evaluations.WithLabelValues("superseded")); got != 1 {
			t.Errorf("superseded counted %v times", got)
		}
		if got := testutil.ToFloat64(b.w.metrics.refusals.WithLabelValues(string(store.FenceHeadGeneration))); got != 1 {
			t.Errorf("the refusing fence was counted %v times", got)
		}
	})
	t.Run("P11 a crash between confirmation and completion is repaired without another write", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.approved()
		key := b.ready(n)
		b.step(t)
		b.DB.Exec("UPDATE evaluation SET recheck = false, available_at = now()") // as if the completion had been lost
		b.Sim.ResetRequests()
		b.step(t)
		if b.Writes() != 0 || b.Successes(key.SHA) != 1 || b.DB.QueryInt("SELECT count(*) FROM evaluation") != 0 {
			t.Errorf("%d writes, %d successes", b.Writes(), b.Successes(key.SHA))
		}
	})
	t.Run("P4 RG-274 one lease a head; a reclaimed lease fences the former owner", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.approved()
		b.ready(n)
		s := b.Store(storetest.Evaluator)
		first, err := s.ClaimEvaluation(t.Context(), "evaluator-1", time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.ClaimEvaluation(t.Context(), "evaluator-2", time.Minute); err == nil {
			t.Fatal("two evaluators hold one head")
		}
		b.DB.Exec("UPDATE head SET evaluation_expires_at = now() - interval '1 second'")
		second, err := s.ClaimEvaluation(t.Context(), "evaluator-2", time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if second.Token <= first.Token || second.Rows[0].Generation <= first.Rows[0].Generation {
			t.Errorf("token %d after %d, generation %d after %d", second.Token, first.Token, second.Rows[0].Generation, first.Rows[0].Generation)
		}
		if _, err := s.CompleteEvaluation(t.Context(), first, nil); err == nil {
			t.Error("the former owner completed")
		}
	})
}
