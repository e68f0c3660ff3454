package ghclient

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/countersign/countersign/pkg/githubsim"
)

// evaluate makes the requests of one evaluation in the order of the specification: candidates of the head, evidence, files, who may
// approve, the final re-read, the publishing write and its read-back. The reset before it was proved by the invalidator (P3).
func evaluate(ctx context.Context, w *world, number int, run int64) error {
	if _, err := w.client.PullsOfCommit(ctx, w.repo, w.sim.Head(w.ex.Repository, number)); err != nil {
		return err
	}
	e, err := w.client.Evidence(ctx, w.repo, number)
	if err != nil {
		return err
	}
	if _, err := w.client.ChangedFiles(ctx, w.repo, number, e.Pull.ChangedFiles); err != nil {
		return err
	}
	if _, err := w.client.TeamsFor(ctx, "acme", []string{"core", "docs", "operations"}, w.repo); err != nil {
		return err
	}
	now, err := w.client.PullState(ctx, w.repo, number)
	if err != nil || now.HeadSHA != e.Pull.HeadSHA {
		return errors.Join(err, errors.New("the head moved"))
	}
	done := RunSpec{Name: "Countersign / approval", HeadSHA: e.Pull.HeadSHA, Status: "completed", Conclusion: "success", Title: "t", Summary: "s"}
	if _, err := w.client.UpdateRun(ctx, w.repo, run, done); err != nil {
		return err
	}
	read, err := w.client.GetRun(ctx, w.repo, run)
	if err != nil || read.Conclusion != "success" {
		return fmt.Errorf("read back %+v: %w", read, err)
	}
	return nil
}

// TestRequestsOfAnEvaluation holds the number of requests of a typical pull request: 20 files, 3 teams, 5 reviews.
func TestRequestsOfAnEvaluation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	files := map[string]string{}
	for i := range 20 {
		files[fmt.Sprintf("%s/f%d", []string{"src", "docs", "deploy"}[i%3], i)] = "x"
	}
	n := w.pull(githubsim.Pull{Files: files})
	for range 5 {
		_, err := w.sim.Review(w.ex.Repository, n, "alice", "APPROVED")
		w.do(err)
	}
	run, err := w.client.CreateRun(t.Context(), w.repo, RunSpec{Name: "Countersign / approval", HeadSHA: w.sim.Head(w.ex.Repository, n), Status: "in_progress"})
	w.do(err)
	count := func() map[string]int {
		w.sim.ResetRequests()
		if err := evaluate(t.Context(), w, n, run.ID); err != nil {
			t.Fatal(err)
		}
		made := map[string]int{}
		for _, r := range w.sim.Requests() {
			made[fmt.Sprintf("%s %s %d", r.Method, r.Route, r.Status)]++
		}
		return made
	}
	sum := func(m map[string]int) int {
		total := 0
		for n := range maps.Values(m) {
			total += n
		}
		return total
	}
	first := count()
	if n := sum(first); n > 8 {
		t.Errorf("first evaluation: %d requests\n%v", n, first)
	}
	second := count()
	free := 0
	for what, n := range second {
		if strings.HasSuffix(what, " 304") {
			free += n
		}
	}
	if free < 2 {
		t.Errorf("nothing moved, and only %d requests cost nothing: %v", free, second)
	}
	t.Logf("first %d %v\nsecond %d, %d of them free %v", sum(first), slices.Sorted(maps.Keys(first)), sum(second), free, slices.Sorted(maps.Keys(second)))
}

func TestServersAndVersions(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, path, version string }{
		{"github.com", "/", "2022-11-28"}, {"github.com, the next version", "/", "2026-03-10"}, {"a server of one's own", "/api/v3/", "2022-11-28"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(c *Config, _ *Options) { c.APIURL += tt.path; c.APIVersion = tt.version })
			n := w.pull(githubsim.Pull{})
			run, err := w.client.CreateRun(t.Context(), w.repo, RunSpec{Name: "Countersign / approval", HeadSHA: w.sim.Head(w.ex.Repository, n), Status: "in_progress"})
			w.do(err)
			if err := evaluate(t.Context(), w, n, run.ID); err != nil {
				t.Error(err)
			}
			pulls, _, err := w.client.OpenPulls(t.Context(), w.repo, "main", 1)
			if err != nil || len(pulls) != 1 {
				t.Errorf("%d pull requests, %v", len(pulls), err)
			}
		})
	}
	t.Run("a version nobody knows is refused", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		cfg := w.app.cfg
		cfg.APIVersion = "1999-01-01"
		app, err := NewApp(cfg, Options{HTTP: w.app.http})
		w.do(err)
		if _, err := app.Identity(t.Context()); !errors.Is(err, ErrInvalid) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a server without the newer queries is asked one by one", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		n := w.pull(githubsim.Pull{})
		full, err := w.client.Evidence(t.Context(), w.repo, n)
		w.do(err)
		facts, err := w.client.TeamsFor(t.Context(), "acme", []string{"core", "docs"}, w.repo)
		w.do(err)
		w.app.lacks.note(featureFiles, time.Now().Add(time.Hour))
		w.app.lacks.note(featureTeams, time.Now().Add(time.Hour))
		plain, err := w.client.Evidence(t.Context(), w.repo, n)
		w.do(err)
		if diff := cmp.Diff(full, plain); diff != "" {
			t.Errorf("evidence: %s", diff)
		}
		single, err := w.client.TeamsFor(t.Context(), "acme", []string{"core", "docs"}, w.repo)
		w.do(err)
		if diff := cmp.Diff(facts, single); diff != "" {
			t.Errorf("teams: %s", diff)
		}
	})
}

// TestEveryStepFails puts every kind of failure into every request of an evaluation. None may be taken for an answer: each ends in one of
// the sentinels, and the evaluation in an error; without the failure it succeeds.
func TestEveryStepFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.pull(githubsim.Pull{})
	run, err := w.client.CreateRun(t.Context(), w.repo, RunSpec{Name: "Countersign / approval", HeadSHA: w.sim.Head(w.ex.Repository, n), Status: "in_progress"})
	w.do(err)
	w.do(evaluate(t.Context(), w, n, run.ID))
	w.sim.ResetRequests()
	w.do(evaluate(t.Context(), w, n, run.ID))
	steps := w.sim.Requests()
	for i, step := range steps {
		write := step.Method == "PATCH"
		for name, fault := range map[string]githubsim.Fault{
			"failed": {Status: 502}, "failed, in HTML": {Answer: githubsim.AnswerHTML}, "hung up": {Answer: githubsim.AnswerHangUp}, "cut short": {Answer: githubsim.AnswerTruncated},
			"not JSON": {Answer: githubsim.AnswerNotJSON}, "refused": {Status: 403}, "gone": {Status: 404}, "happened and failed": {Applied: true, Status: 502}, "happened and hung up": {Applied: true, Answer: githubsim.AnswerHangUp},
		} {
			if !write && fault.Applied {
				continue
			}
			// A new process: no entity tags, no pause of the fault before.
			app, err := NewApp(w.app.cfg, Options{HTTP: w.app.http})
			w.do(err)
			fresh := &world{t: t, sim: w.sim, ex: w.ex, app: app, client: app.Client(w.ex.Installation, EvaluatorPermissions), repo: w.repo}
			fault.Skip, fault.Times = i, 1
			if _, err := app.tokens.get(t.Context(), w.ex.Installation, EvaluatorPermissions); err != nil {
				t.Fatal(err)
			}
			w.sim.ClearFaults()
			w.sim.Inject(fault)
			err = evaluate(t.Context(), fresh, n, run.ID)
			if err == nil && !write && fault.Answer == githubsim.AnswerHangUp {
				continue // net/http asks again where that can't do harm: a read on a connection that was kept open
			}
			named := slices.ContainsFunc(sentinels, func(s error) bool { return errors.Is(err, s) })
			if err == nil || !named {
				t.Errorf("step %d, %s %s, %s: got %v", i, step.Method, step.Route, name, err)
			}
			if write && (fault.Applied || fault.Answer != githubsim.AnswerStatus || fault.Status == 502) && !errors.Is(err, ErrUnknownOutcome) {
				t.Errorf("the write, %s: %v", name, err)
			}
		}
	}
	w.sim.ClearFaults()
	w.do(evaluate(t.Context(), w, n, run.ID))
}
