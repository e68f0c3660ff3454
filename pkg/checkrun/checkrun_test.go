package checkrun_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/countersign/countersign/internal/rig"
	"github.com/countersign/countersign/pkg/checkrun"
	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/githubsim"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/store/storetest"
)

// bench is the protocol over the rig, with one pull request whose head has a proved unfinished run.
type bench struct {
	*rig.Rig
	number int
	key    store.HeadKey
	ev     store.Evaluation
}

func setup(t *testing.T) *bench {
	t.Helper()
	b := &bench{Rig: rig.New(t)}
	b.number = b.Open(nil)
	b.key = b.Key(b.number)
	if _, err := b.github().CreateRun(t.Context(), b.Repo(), ghclient.RunSpec{Name: rig.CheckName, HeadSHA: string(b.key.SHA), Status: "in_progress", Title: "t", Summary: "s"}); err != nil {
		t.Fatal(err)
	}
	b.claim(t)
	return b
}

// claim triggers, invalidates and claims.
func (b *bench) claim(t *testing.T) {
	t.Helper()
	b.Trigger(b.number)
	b.Invalidate()
	b.Now()
	var err error
	if b.ev, err = b.Store(storetest.Evaluator).ClaimEvaluation(t.Context(), "evaluator-1", time.Minute); err != nil {
		t.Fatal(err)
	}
	if !b.ev.RunProved() {
		t.Fatal("the stage is not set: no proved run")
	}
	b.Sim.ResetRequests()
}

func (b *bench) github() checkrun.GitHub { return b.Client(ghclient.EvaluatorPermissions) }

func (b *bench) publish(ctx context.Context, m *checkrun.Manager, gh checkrun.GitHub) (store.DecisionID, error) {
	return m.Publish(ctx, gh, b.Store(storetest.Evaluator), checkrun.Publication{
		Repo: b.Repo(), Evaluation: b.ev, BaseRefs: []string{"main"}, Texts: checkrun.Texts{Title: "t", Summary: "s"},
		Decision: store.Decision{
			Number: b.number, FullName: b.ev.FullName, Generation: b.ev.Rows[0].Generation, Reason: "test", Evidence: "{}", Verdict: "{}",
			Conclusion: "success", Title: "t", Summary: "s", RequestedAt: time.Now(),
		},
		FinalRead: func(context.Context) error { return nil },
	})
}

func (b *bench) reset(t *testing.T, gh checkrun.GitHub, hold func(context.Context) error) (checkrun.Proof, error) {
	t.Helper()
	guard, err := b.Store(storetest.Evaluator).AcquireGuard(t.Context(), b.key, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer guard.Release()
	return b.Checks().Reset(t.Context(), gh, guard, checkrun.ResetRequest{
		Repo: b.Repo(), Generation: b.Head(b.key).Generation, Texts: checkrun.Texts{Title: "t", Summary: "s"}, Hold: hold,
	})
}

func (b *bench) outcomes(t *testing.T, want string) {
	t.Helper()
	if got := b.DB.QueryText("SELECT coalesce(string_agg(outcome, ' ' ORDER BY decision_id), '') FROM decision"); got != want {
		t.Errorf("decisions %q, want %q; log %s", got, want, b.Log)
	}
}

// lost swallows writes of a status: nobody knows what became of them; send lets the last one arrive after all.
type lost struct {
	checkrun.GitHub
	all  bool // the undoing too
	send func() error
}

func (l *lost) UpdateRun(ctx context.Context, repo ghclient.Repo, id int64, spec ghclient.RunSpec) (ghclient.Run, error) {
	if spec.Status == "completed" && l.send == nil {
		l.send = func() error {
			_, err := l.GitHub.UpdateRun(context.WithoutCancel(ctx), repo, id, spec)
			return err
		}
		return ghclient.Run{}, ghclient.ErrUnknownOutcome
	}
	if l.all {
		return ghclient.Run{}, ghclient.ErrUnavailable
	}
	return l.GitHub.UpdateRun(ctx, repo, id, spec)
}

func TestP1(t *testing.T) {
	t.Parallel()
	t.Run("P1 a write that was on its way for an hour reaches a run that no longer counts", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		old := b.Head(b.key).RunID
		gh := &lost{GitHub: b.github(), all: true}
		if _, err := b.publish(t.Context(), b.Checks(), gh); err == nil {
			t.Fatal("published")
		}
		if h := b.Head(b.key); h.Publication != store.PublicationIntended {
			t.Fatalf("the uncertain intent does not stand: %+v", h)
		}
		b.Trigger(b.number)
		b.Invalidate()
		h := b.Head(b.key)
		if h.RunID == old || !h.RunProved() {
			t.Fatalf("the old run still counts: %+v", h)
		}
		if err := gh.send(); err != nil { // an hour later
			t.Fatal(err)
		}
		if c := b.Check(b.key.SHA); c.ID != h.RunID || c.Status != "in_progress" {
			t.Errorf("GitHub shows %+v", c)
		}
	})
	t.Run("P1 a writer of an older generation is refused by the fences and writes nothing", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Trigger(b.number)
		_, err := b.publish(t.Context(), b.Checks(), b.github())
		if !errors.Is(err, store.ErrSuperseded) || b.Writes() != 0 {
			t.Errorf("%v, %d writes", err, b.Writes())
		}
		b.outcomes(t, "")
	})
}

func TestP2(t *testing.T) {
	t.Parallel()
	hold := func(context.Context) error { return nil }
	for name, row := range map[string]struct {
		reopen githubsim.ReopenRun
		want   checkrun.Proof
	}{
		"GitHub reopens the run":               {githubsim.ReopenTakesEffect, checkrun.ProofReset},
		"GitHub accepts and changes nothing":   {githubsim.ReopenIgnored, checkrun.ProofReplaced},
		"GitHub refuses to reopen a completed": {githubsim.ReopenRefused, checkrun.ProofReplaced},
	} {
		t.Run("P2 "+name+": only the read-back is believed, and no success remains", func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			if _, err := b.publish(t.Context(), b.Checks(), b.github()); err != nil {
				t.Fatal(err)
			}
			b.Trigger(b.number)
			b.Sim.Set(githubsim.Switches{ReopenRun: row.reopen})
			proof, err := b.reset(t, b.github(), hold)
			if err != nil || proof != row.want {
				t.Errorf("%s, %v", proof, err)
			}
			if c := b.Check(b.key.SHA); c.Status != "in_progress" || b.Successes(b.key.SHA) != 0 {
				t.Errorf("%+v, %d successes", c, b.Successes(b.key.SHA))
			}
		})
	}
	t.Run("P2 RG-183 a writer that may not write any more sends nothing", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		if _, err := b.publish(t.Context(), b.Checks(), b.github()); err != nil {
			t.Fatal(err)
		}
		b.Trigger(b.number)
		b.Sim.ResetRequests()
		_, err := b.reset(t, b.github(), func(context.Context) error { return store.ErrLeaseLost })
		if !errors.Is(err, store.ErrLeaseLost) || b.Writes() != 0 {
			t.Errorf("%v, %d writes", err, b.Writes())
		}
	})
}

// lagging shows reads that are older than the writes: new runs are not found until it caught up, and a listing shows one of them only.
type lagging struct {
	checkrun.GitHub
	listed  ghclient.Run
	created []int64
	after   func() // each POST
	caught  bool
}

func (l *lagging) CreateRun(ctx context.Context, repo ghclient.Repo, spec ghclient.RunSpec) (ghclient.Run, error) {
	run, err := l.GitHub.CreateRun(ctx, repo, spec)
	l.created = append(l.created, run.ID)
	if l.after != nil {
		l.after()
	}
	return run, err
}

func (l *lagging) GetRun(ctx context.Context, repo ghclient.Repo, id int64) (ghclient.Run, error) {
	if slices.Contains(l.created, id) && !l.caught {
		return ghclient.Run{}, ghclient.ErrNotFound
	}
	return l.GitHub.GetRun(ctx, repo, id)
}

func (l *lagging) FindRun(ctx context.Context, repo ghclient.Repo, sha, name string) (ghclient.Run, bool, error) {
	if l.listed.ID != 0 {
		run, err := l.GitHub.GetRun(ctx, repo, l.listed.ID)
		return run, true, err
	}
	return l.GitHub.FindRun(ctx, repo, sha, name)
}

// TestTheNewestRun: whatever GitHub shows meanwhile, the newest run that was made is the bound one, and none behind it passes.
func TestTheNewestRun(t *testing.T) {
	t.Parallel()
	hold := func(context.Context) error { return nil }
	success := func(t *testing.T) (*bench, *lagging) {
		t.Helper()
		b := setup(t)
		if _, err := b.publish(t.Context(), b.Checks(), b.github()); err != nil {
			t.Fatal(err)
		}
		b.Trigger(b.number)
		b.Sim.Set(githubsim.Switches{ReopenRun: githubsim.ReopenIgnored})
		return b, &lagging{GitHub: b.github()}
	}
	bound := func(t *testing.T, b *bench, gh *lagging) {
		t.Helper()
		if got, want := b.Head(b.key).RunID, slices.Max(gh.created); got != want {
			t.Errorf("run %d is bound, and %d is the newest of %v", got, want, gh.created)
		}
		if b.Successes(b.key.SHA) != 0 {
			t.Error("a success is left behind the new run")
		}
	}
	t.Run("P2 a listing that shows an older run of the same generation: the newest stays bound", func(t *testing.T) {
		t.Parallel()
		b, gh := success(t)
		for range 2 { // two runs are made, and neither can be read
			if _, err := b.reset(t, gh, hold); !errors.Is(err, ghclient.ErrNotFound) {
				t.Fatal(err)
			}
		}
		gh.listed.ID = gh.created[0]
		if _, err := b.reset(t, gh, hold); !errors.Is(err, ghclient.ErrNotFound) {
			t.Fatal(err)
		}
		bound(t, b, gh)
		gh.caught = true
		if _, err := b.reset(t, gh, hold); err != nil {
			t.Fatal(err)
		}
		bound(t, b, gh)
	})
	t.Run("P2 a new run cannot be read yet: no success remains behind it all the same", func(t *testing.T) {
		t.Parallel()
		b, gh := success(t)
		if _, err := b.reset(t, gh, hold); !errors.Is(err, ghclient.ErrNotFound) {
			t.Fatal(err)
		}
		bound(t, b, gh)
	})
	t.Run("P2 a generation that begins while a run is made: that run is the newest, and the new generation's", func(t *testing.T) {
		t.Parallel()
		b, gh := success(t)
		gh.after = func() { b.Trigger(b.number) }
		if _, err := b.reset(t, gh, hold); !errors.Is(err, store.ErrSuperseded) {
			t.Fatal(err)
		}
		bound(t, b, gh)
		gh.after, gh.caught = nil, true
		b.Sim.Set(githubsim.Switches{ReopenRun: githubsim.ReopenTakesEffect}) // the older run could be reopened, and must not be the bound one
		if proof, err := b.reset(t, gh, hold); err != nil || proof != checkrun.ProofRead {
			t.Fatal(proof, err)
		}
		bound(t, b, gh)
	})
}

func TestP3(t *testing.T) {
	t.Parallel()
	t.Run("P3 a proved reset is not repeated: no request at all", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		proof, err := b.reset(t, b.github(), func(context.Context) error { return errors.New("asked") })
		if err != nil || proof != checkrun.ProofKnown || len(b.Sim.Requests()) != 0 {
			t.Errorf("%s, %v, %d requests", proof, err, len(b.Sim.Requests()))
		}
	})
}

// watched asks before each completed write.
type watched struct {
	checkrun.GitHub
	before func()
}

func (w *watched) UpdateRun(ctx context.Context, repo ghclient.Repo, id int64, spec ghclient.RunSpec) (ghclient.Run, error) {
	if spec.Status == "completed" {
		w.before()
	}
	return w.GitHub.UpdateRun(ctx, repo, id, spec)
}

func TestP11(t *testing.T) {
	t.Parallel()
	t.Run("P11 I9 the decision is committed before its write, and confirmed after its read-back", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		gh := &watched{GitHub: b.github(), before: func() { b.outcomes(t, "intended") }}
		if _, err := b.publish(t.Context(), b.Checks(), gh); err != nil {
			t.Fatal(err)
		}
		b.outcomes(t, "confirmed")
		if b.Successes(b.key.SHA) != 1 {
			t.Error("no success")
		}
	})
	t.Run("P11 RG-259 a crash between the intent and the write: nothing is trusted, the next generation decides once", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		guard, err := b.Store(storetest.Evaluator).AcquireGuard(t.Context(), b.key, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := guard.RecordIntent(t.Context(), b.ev, store.Decision{Number: b.number, FullName: b.ev.FullName, Generation: b.ev.Rows[0].Generation, Reason: "test", Evidence: "{}", Verdict: "{}", Conclusion: "success", RunID: b.ev.RunID, RequestedAt: time.Now()}, []string{"main"}); err != nil {
			t.Fatal(err)
		}
		guard.Release() // and the process is gone
		if _, err := b.publish(t.Context(), b.Checks(), b.github()); !errors.Is(err, store.ErrSuperseded) {
			t.Errorf("an unconfirmed intent was passed over: %v", err)
		}
		b.DB.Exec("UPDATE head SET evaluation_expires_at = NULL, evaluation_holder = ''")
		b.claim(t)
		if _, err := b.publish(t.Context(), b.Checks(), b.github()); err != nil {
			t.Fatal(err)
		}
		b.outcomes(t, "reset confirmed")
	})
	t.Run("RG-265 a reset that fails too: the error is the write's, the reset's is an event of its own", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		_, err := b.publish(t.Context(), b.Checks(), &lost{GitHub: failing{b.github()}, all: true})
		if !errors.Is(err, errReadBack) || errors.Is(err, ghclient.ErrUnavailable) {
			t.Errorf("reported %v", err)
		}
		if !strings.Contains(b.Log.String(), "reset after an uncertain publication failed") {
			t.Error("the failed reset is not logged")
		}
	})
	t.Run("a publication that GitHub refuses for good says so", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.Sim.Inject(githubsim.Fault{Method: "PATCH", Route: rig.RouteRun, Contain: `"completed"`, Status: 422})
		if _, err := b.publish(t.Context(), b.Checks(), b.github()); !errors.Is(err, checkrun.ErrRefused) || !errors.Is(err, ghclient.ErrInvalid) {
			t.Errorf("%v", err)
		}
		b.outcomes(t, "reset")
	})
}

var errReadBack = errors.New("the read-back broke")

type failing struct{ checkrun.GitHub }

func (failing) GetRun(context.Context, ghclient.Repo, int64) (ghclient.Run, error) {
	return ghclient.Run{}, errReadBack
}

func TestP10(t *testing.T) {
	t.Parallel()
	cfg := checkrun.Config{Name: rig.CheckName, WriteTimeout: 3 * time.Second, UndoTimeout: 1500 * time.Millisecond, GuardWait: 10 * time.Second, AuthorityWait: 5 * time.Second}
	t.Run("P10 RG-163 GitHub answers neither the write nor its undoing: an authority event waits, and is not refused", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		seen, until := make(chan struct{}), make(chan struct{})
		b.Sim.Inject(githubsim.Fault{Method: "PATCH", Route: rig.RouteRun, Times: -1, Answer: githubsim.AnswerHangUp, Seen: seen, Until: until})
		defer close(until)
		published := make(chan error, 1)
		go func() {
			_, err := b.publish(context.Background(), checkrun.New(cfg, b.Logger(), prometheus.NewRegistry()), b.github())
			published <- err
		}()
		<-seen
		began := time.Now()
		_, err := b.Store(storetest.Ingress).AcceptAuthority(t.Context(), store.Delivery{ID: "a1", Event: "team"},
			store.AuthorityWork{Installation: b.key.Installation, Scope: store.ScopeInstallation, Reason: "team.edited"}, cfg.AuthorityWait)
		if err != nil {
			t.Errorf("refused after %s: %v", time.Since(began), err)
		}
		if err := <-published; err == nil {
			t.Error("published")
		}
		if h := b.Head(b.key); h.Publication != store.PublicationIntended {
			t.Errorf("an uncertain write is trusted: %+v", h)
		}
		t.Run("RG-223 the epoch it advanced fences whoever was writing", func(t *testing.T) {
			if _, err := b.publish(t.Context(), b.Checks(), b.github()); !errors.Is(err, store.ErrSuperseded) {
				t.Errorf("%v", err)
			}
		})
	})
	t.Run("P10 the guard is held for less than an authority event waits, or nothing starts", func(t *testing.T) {
		t.Parallel()
		if err := cfg.Validate(); err != nil {
			t.Error(err)
		}
		for _, change := range []func(*checkrun.Config){
			func(c *checkrun.Config) { c.WriteTimeout = 4 * time.Second },
			func(c *checkrun.Config) { c.UndoTimeout = 4 * time.Second },
			func(c *checkrun.Config) { c.AuthorityWait = time.Second },
			func(c *checkrun.Config) { c.UndoTimeout = -time.Second },
		} {
			bad := cfg
			change(&bad)
			if err := bad.Validate(); err == nil || !strings.Contains(err.Error(), "COUNTERSIGN_CHECK_UNDO_TIMEOUT") {
				t.Errorf("%+v: %v", bad, err)
			}
		}
	})
	t.Run("P10 RG-264 a cancellation while the database confirms neither closes the guard nor undoes what is confirmed", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		conn, err := pgx.Connect(t.Context(), b.DB.URL(storetest.Owner))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.Background())
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		gh := &watched{GitHub: b.github(), before: func() { // the confirmation will wait for this row
			for _, sql := range []string{"BEGIN", "SELECT FROM head WHERE head_sha = '" + string(b.key.SHA) + "' FOR UPDATE"} {
				if _, err := conn.Exec(context.Background(), sql); err != nil {
					t.Error(err)
				}
			}
		}}
		published := make(chan error, 1)
		go func() {
			_, err := b.publish(ctx, b.Checks(), gh)
			published <- err
		}()
		waits := func() bool {
			return b.DB.QueryInt("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%ConfirmPublication%'") > 0
		}
		for end := time.Now().Add(20 * time.Second); !waits() && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		}
		if !waits() {
			t.Fatal("the confirmation does not wait: this proves nothing")
		}
		cancel()
		guards := "SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database WHERE locktype = 'advisory' AND datname = current_database()"
		for range 20 {
			if b.DB.QueryInt(guards) != 3 {
				t.Fatal("the guard is gone while a success stands unconfirmed")
			}
		}
		if _, err := conn.Exec(context.Background(), "COMMIT"); err != nil {
			t.Fatal(err)
		}
		if err := <-published; err != nil {
			t.Errorf("%v", err)
		}
		b.outcomes(t, "confirmed")
		if b.Successes(b.key.SHA) != 1 {
			t.Errorf("log %s", b.Log)
		}
	})
}
