package ghclient

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/countersign/countersign/pkg/githubsim"
)

// world is the stand-in's example world and a client in it.
type world struct {
	t      *testing.T
	sim    *githubsim.Sim
	ex     githubsim.Example
	app    *App
	client *Client
	repo   Repo
}

func newWorld(t *testing.T, opts ...func(*Config, *Options)) *world {
	t.Helper()
	sim := githubsim.New(githubsim.Options{})
	t.Cleanup(sim.Close)
	ex := githubsim.AddExample(sim, githubsim.ExampleOptions{})
	own := http.DefaultTransport.(*http.Transport).Clone()
	t.Cleanup(own.CloseIdleConnections)
	cfg, o := Config{APIURL: sim.URL(), AppID: ex.App.ID, PrivateKey: string(ex.App.PEM), RequestTimeout: 10 * time.Second}, Options{HTTP: own}
	for _, opt := range opts {
		opt(&cfg, &o)
	}
	app, err := NewApp(cfg, o)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, sim: sim, ex: ex, app: app, client: app.Client(ex.Installation, EvaluatorPermissions)}
	w.repo = Repo{Owner: "acme", Name: "widgets"}
	info, err := w.client.Repository(t.Context(), w.repo)
	if err != nil {
		t.Fatal(err)
	}
	w.repo.ID = info.ID
	return w
}

func (w *world) pull(p githubsim.Pull) int {
	w.t.Helper()
	if p.Author == "" {
		p.Author = "dave"
	}
	if p.Files == nil {
		p.Files = map[string]string{"src/main.go": "package main\n"}
	}
	n, err := w.sim.OpenPull(w.ex.Repository, p)
	w.do(err)
	return n
}

func (w *world) do(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func TestEvidenceOfTheStandIn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.pull(githubsim.Pull{Labels: []string{"ready"}, Title: "Change"})
	_, err := w.sim.Review(w.ex.Repository, n, "alice", "APPROVED")
	w.do(err)
	_, err = w.sim.Review(w.ex.Repository, n, "renovate[bot]", "COMMENTED")
	w.do(err)
	e, err := w.client.Evidence(t.Context(), w.repo, n)
	if err != nil {
		t.Fatal(err)
	}
	head := w.sim.Head(w.ex.Repository, n)
	if e.Pull.HeadSHA != head || e.Pull.State != "open" || e.Pull.BaseRef != "main" || !slices.Equal(e.Pull.Labels, []string{"ready"}) || e.Pull.ChangedFiles != 1 || e.Pull.Author.Login != "dave" || e.Pull.Author.Type != "User" {
		t.Errorf("pull request %+v", e.Pull)
	}
	if len(e.Reviews) != 2 || e.Reviews[0].State != "APPROVED" || e.Reviews[0].CommitID != head || e.Reviews[0].Author.Login != "alice" || e.Reviews[0].ID < 3_000_000_000 {
		t.Errorf("reviews %+v", e.Reviews)
	}
	if bot := e.Reviews[1].Author; bot.Login != "renovate[bot]" || bot.Type != "Bot" || bot.ID != w.ex.Delegate.BotID {
		t.Errorf("a bot by GraphQL must look as by REST: %+v", bot)
	}
	if len(e.CodeownersFiles) != 1 || e.CodeownersFiles[0].Path != ".github/CODEOWNERS" || !strings.Contains(string(e.CodeownersFiles[0].Text), "@acme/core") {
		t.Errorf("CODEOWNERS %+v", e.CodeownersFiles)
	}
	if len(e.PolicyFiles) != 1 || e.PolicyFiles[0].Path != ".github/countersign.toml" || e.PolicyFiles[0].Ref != e.RulesRef || e.RulesRef != e.Pull.BaseTip {
		t.Errorf("policy %+v at %s", e.PolicyFiles, e.RulesRef)
	}
	if info, err := w.client.Repository(t.Context(), w.repo); err != nil || info != e.Repository {
		t.Errorf("repository %+v, by REST %+v, %v", e.Repository, info, err)
	}
	if !e.Org.Available || len(e.Org.PolicyFiles) != 1 || !strings.Contains(string(e.Org.PolicyFiles[0].Text), "[apps.renovate]") {
		t.Errorf("organization %+v", e.Org)
	}
	if len(e.CodeownersErrors) != 0 {
		t.Errorf("errors %+v", e.CodeownersErrors)
	}
	rest, err := w.client.Pull(t.Context(), w.repo, n)
	if err != nil {
		t.Fatal(err)
	}
	state, err := w.client.PullState(t.Context(), w.repo, n)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(e.Pull, state); diff != "" {
		t.Errorf("the re-read of an unchanged pull request: %s", diff)
	}
	state.BaseTip, state.Commits = "", 0 // REST does not tell the one, and is not asked for the other
	if diff := cmp.Diff(rest, state); diff != "" {
		t.Errorf("REST and GraphQL disagree: %s", diff)
	}
}

func TestEvidenceReadsRulesAtTheTip(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.sim.Set(githubsim.Switches{FrozenBaseSHA: true})
	n := w.pull(githubsim.Pull{})
	tip, err := w.sim.PushBase(w.ex.Repository, "main", "alice", map[string]string{".github/CODEOWNERS": "* @acme/operations\n"})
	w.do(err)
	e, err := w.client.Evidence(t.Context(), w.repo, n)
	if err != nil {
		t.Fatal(err)
	}
	if e.Pull.BaseSHA == tip || e.Pull.BaseTip != tip || e.RulesRef != tip || string(e.CodeownersFiles[0].Text) != "* @acme/operations\n" {
		t.Errorf("base %s, tip %s, rules at %s: %q", e.Pull.BaseSHA, e.Pull.BaseTip, e.RulesRef, e.CodeownersFiles[0].Text)
	}
}

func TestEvidenceEdges(t *testing.T) {
	t.Parallel()
	t.Run("codeowners errors, on the default branch and on another", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		_, err := w.sim.PushBase(w.ex.Repository, "main", "alice", map[string]string{".github/CODEOWNERS": "* @nobody-here\n"})
		w.do(err)
		w.do(w.sim.SetBranch(w.ex.Repository, "release", tipOf(w, "main"), "alice"))
		_, err = w.sim.PushBase(w.ex.Repository, "release", "alice", map[string]string{".github/CODEOWNERS": "* @alice\n[ @alice\n"})
		w.do(err)
		for base, kind := range map[string]string{"main": "Unknown owner", "release": "Invalid pattern"} {
			n := w.pull(githubsim.Pull{Base: base})
			for range 2 { // the second time the base branch is known beforehand
				e, err := w.client.Evidence(t.Context(), w.repo, n)
				if err != nil {
					t.Fatal(err)
				}
				if len(e.CodeownersErrors) != 1 || e.CodeownersErrors[0].Kind != kind {
					t.Errorf("%s: %+v", base, e.CodeownersErrors)
				}
			}
		}
	})
	t.Run("a large CODEOWNERS is read whole", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		large := strings.Repeat("# "+strings.Repeat("x", 1000)+"\n", 2_000) + "* @acme/core\n" // 2 MB
		_, err := w.sim.PushBase(w.ex.Repository, "main", "alice", map[string]string{".github/CODEOWNERS": large})
		w.do(err)
		e, err := w.client.Evidence(t.Context(), w.repo, w.pull(githubsim.Pull{}))
		if err != nil {
			t.Fatal(err)
		}
		if string(e.CodeownersFiles[0].Text) != large {
			t.Errorf("%d bytes of %d", len(e.CodeownersFiles[0].Text), len(large))
		}
		file, err := w.client.File(t.Context(), w.repo, e.RulesRef, ".github/CODEOWNERS")
		if err != nil || string(file.Text) != large {
			t.Errorf("by REST %d bytes of %d, %v", len(file.Text), len(large), err)
		}
	})
	t.Run("a symbolic link is not a CODEOWNERS", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		_, err := w.sim.PushBase(w.ex.Repository, "main", "alice", map[string]string{".github/CODEOWNERS": githubsim.Symlink("../owners")})
		w.do(err)
		e, err := w.client.Evidence(t.Context(), w.repo, w.pull(githubsim.Pull{}))
		if err != nil {
			t.Fatal(err)
		}
		if !e.CodeownersFiles[0].Symlink || len(e.CodeownersFiles[0].Text) != 0 || len(e.CodeownersErrors) != 1 || e.CodeownersErrors[0].Kind != "Symbolic link" {
			t.Errorf("%+v, %+v", e.CodeownersFiles, e.CodeownersErrors)
		}
	})
	t.Run("250 reviews", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		n := w.pull(githubsim.Pull{})
		for i := range 250 {
			_, err := w.sim.Review(w.ex.Repository, n, "alice", []string{"COMMENTED", "APPROVED"}[i%2])
			w.do(err)
		}
		e, err := w.client.Evidence(t.Context(), w.repo, n)
		if err != nil || len(e.Reviews) != 250 {
			t.Fatalf("%d reviews, %v", len(e.Reviews), err)
		}
	})
	t.Run("more than 1000 reviews are too many", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		n := w.pull(githubsim.Pull{})
		for range maxReviews + 1 {
			_, err := w.sim.Review(w.ex.Repository, n, "alice", "COMMENTED")
			w.do(err)
		}
		if _, err := w.client.Evidence(t.Context(), w.repo, n); !errors.Is(err, ErrTooLarge) {
			t.Fatalf("got %v", err)
		}
	})
	t.Run("an organization repository the installation can't see is not available", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.do(w.sim.DeleteInstallation(w.ex.Installation))
		w.client = w.app.Client(w.sim.AddInstallation(w.ex.App.ID, "acme", "widgets"), EvaluatorPermissions)
		e, err := w.client.Evidence(t.Context(), w.repo, w.pull(githubsim.Pull{}))
		if err != nil || e.Org.Available {
			t.Fatalf("%+v, %v", e.Org, err)
		}
	})
	t.Run("an organization repository without a policy is available and empty", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		_, err := w.sim.PushBase("acme/.github", "main", "alice", map[string]string{".github/countersign.toml": githubsim.Deleted})
		w.do(err)
		e, err := w.client.Evidence(t.Context(), w.repo, w.pull(githubsim.Pull{}))
		if err != nil || !e.Org.Available || len(e.Org.PolicyFiles) != 0 {
			t.Fatalf("%+v, %v", e.Org, err)
		}
	})
	t.Run("a renamed repository", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		n := w.pull(githubsim.Pull{})
		w.do(w.sim.RenameRepo(w.ex.Repository, "gadgets"))
		if _, err := w.client.Pull(t.Context(), w.repo, n); !errors.Is(err, ErrMoved) {
			t.Errorf("REST: got %v", err)
		}
		if _, err := w.client.Evidence(t.Context(), w.repo, n); !errors.Is(err, ErrNotFound) {
			t.Errorf("GraphQL: got %v", err)
		}
		renamed := w.repo
		renamed.Name = "gadgets"
		if _, err := w.client.Pull(t.Context(), renamed, n); err != nil {
			t.Errorf("the new name: %v", err)
		}
		renamed.ID++
		if _, err := w.client.Pull(t.Context(), renamed, n); !errors.Is(err, ErrMoved) {
			t.Errorf("another id: %v", err)
		}
	})
}

func tipOf(w *world, branch string) string {
	w.t.Helper()
	n := w.pull(githubsim.Pull{Base: branch, Files: map[string]string{"x": "y"}})
	state, err := w.client.PullState(w.t.Context(), w.repo, n)
	w.do(err)
	w.do(w.sim.ClosePull(w.ex.Repository, n, "alice"))
	return state.BaseTip
}

func TestTeamsOfTheStandIn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.sim.AddTeam(githubsim.Team{Org: "acme", Slug: "hidden", Privacy: "secret", Members: []string{"alice"}, Repos: map[string]string{"widgets": "admin"}})
	w.sim.AddTeam(githubsim.Team{Org: "acme", Slug: "readers", Members: []string{"carol"}, Repos: map[string]string{"widgets": "pull"}})
	w.sim.AddTeam(githubsim.Team{Org: "acme", Slug: "idle", Members: []string{"carol"}})
	w.do(w.sim.InviteTeamMember("acme", "docs", "erin"))
	facts, err := w.client.TeamsFor(t.Context(), "acme", []string{"core", "docs", "hidden", "readers", "idle", "no-such-team"}, w.repo)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, slug := range []string{"core", "docs", "hidden", "readers", "idle", "no-such-team"} {
		f := facts[slug]
		var logins []string
		for _, m := range f.Members {
			logins = append(logins, m.Login)
		}
		slices.Sort(logins)
		got = append(got, fmt.Sprintf("%s found=%v %s %q %v %v", slug, f.Found, f.Privacy, f.Permission, logins, f.MembersComplete))
	}
	want := []string{
		`core found=true closed "push" [alice bob] true`, `docs found=true closed "push" [carol] true`, `hidden found=true secret "admin" [alice] true`,
		`readers found=true closed "pull" [carol] true`, `idle found=true closed "" [carol] true`, `no-such-team found=false  "" [] false`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if state, _, err := w.client.TeamMembership(t.Context(), "acme", "docs", "erin"); err != nil || state != MembershipPending {
		t.Errorf("an invitation: %q, %v", state, err)
	}
	for _, tt := range []struct {
		name string
		got  func() (string, error)
		want string
	}{
		{"RG-335 no such membership", func() (string, error) {
			state, _, err := w.client.TeamMembership(t.Context(), "acme", "docs", "alice")
			return state, err
		}, ""},
		{"RG-335 membership of no such team", func() (string, error) {
			state, _, err := w.client.TeamMembership(t.Context(), "acme", "nope", "alice")
			return state, err
		}, ""},
		{"RG-335 no access of a team", func() (string, error) {
			return w.client.TeamRepositoryPermission(t.Context(), "acme", "idle", w.repo)
		}, ""},
		{"access of a team", func() (string, error) {
			return w.client.TeamRepositoryPermission(t.Context(), "acme", "core", w.repo)
		}, "push"},
		{"RG-335 permission of who isn't a collaborator", func() (string, error) { return w.client.UserPermission(t.Context(), w.repo, "renovate[bot]") }, "none"},
		{"RG-335 permission of nobody", func() (string, error) { return w.client.UserPermission(t.Context(), w.repo, "no-such-user") }, "none"},
		{"permission of a collaborator", func() (string, error) { return w.client.UserPermission(t.Context(), w.repo, "dave") }, "write"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, err := tt.got(); err != nil || got != tt.want {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
	if bot, err := w.client.User(t.Context(), "renovate[bot]"); err != nil || bot.Type != "Bot" || bot.ID != w.ex.Delegate.BotID {
		t.Errorf("a bot's account: %+v, %v", bot, err)
	}
	if _, err := w.client.Team(t.Context(), "acme", "nope"); !errors.Is(err, ErrNotFound) {
		t.Errorf("no such team: %v", err)
	}
}

func TestRunsOfTheStandIn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.pull(githubsim.Pull{})
	head := w.sim.Head(w.ex.Repository, n)
	spec := RunSpec{Name: "Countersign / approval", HeadSHA: head, Status: "in_progress", Title: "Evaluating", Summary: "…", ExternalID: "d1"}
	if _, found, err := w.client.FindRun(t.Context(), w.repo, head, spec.Name); err != nil || found {
		t.Fatalf("found %v, %v", found, err)
	}
	run, err := w.client.CreateRun(t.Context(), w.repo, spec)
	if err != nil {
		t.Fatal(err)
	}
	other := spec
	other.Name = "Countersign / shadow"
	if _, err := w.client.CreateRun(t.Context(), w.repo, other); err != nil {
		t.Fatal(err)
	}
	delegate, err := NewApp(Config{APIURL: w.sim.URL(), AppID: w.ex.Delegate.ID, PrivateKey: string(w.ex.Delegate.PEM)}, Options{HTTP: w.app.http})
	w.do(err)
	if _, err := delegate.Client(w.ex.Installation+1, Permissions{"checks": "write"}).CreateRun(t.Context(), w.repo, spec); err == nil {
		t.Error("an App without checks:write made a run")
	}
	t.Run("RG-295 the lookup finds ours by name, App and head", func(t *testing.T) {
		found, ok, err := w.client.FindRun(t.Context(), w.repo, head, spec.Name)
		if err != nil || !ok {
			t.Fatalf("found %v, %v", ok, err)
		}
		if diff := cmp.Diff(run, found); diff != "" {
			t.Error(diff)
		}
		if !strings.Contains(fmt.Sprint(w.sim.Requests()), "app_id") {
			t.Error("the request names no App")
		}
	})
	done := spec
	done.Status, done.Conclusion, done.Title, done.ReEvaluateAction = "completed", "success", "Satisfied", true
	updated, err := w.client.UpdateRun(t.Context(), w.repo, run.ID, done)
	if err != nil || updated.ID != run.ID || updated.Conclusion != "success" {
		t.Fatalf("%+v, %v", updated, err)
	}
	read, err := w.client.GetRun(t.Context(), w.repo, run.ID)
	if err != nil || read.Status != "completed" || read.CompletedAt == nil {
		t.Fatalf("%+v, %v", read, err)
	}
	t.Run("RG-300 the completed check carries the action", func(t *testing.T) {
		checks := w.sim.Checks(w.ex.Repository, head)
		if len(checks) != 2 || !slices.Equal(checks[0].Actions, []string{ReEvaluateIdentifier}) {
			t.Errorf("%+v", checks)
		}
	})
	if again, err := w.client.UpdateRun(t.Context(), w.repo, run.ID, spec); err != nil || again.Status != "in_progress" || again.Conclusion != "" {
		t.Errorf("reopened: %+v, %v", again, err)
	}
	if _, err := w.client.GetRun(t.Context(), w.repo, 99); !errors.Is(err, ErrNotFound) {
		t.Errorf("no such run: %v", err)
	}
	if _, found, err := w.client.FindRun(t.Context(), w.repo, shaA, spec.Name); err != nil || found {
		t.Errorf("an unknown commit: %v, %v", found, err)
	}
}

func TestPullsOfTheStandIn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var numbers []int
	for i := range 130 {
		numbers = append(numbers, w.pull(githubsim.Pull{Files: map[string]string{fmt.Sprintf("f%d", i): "x"}}))
	}
	var got []int
	for page := 1; page != 0; {
		pulls, next, err := w.client.OpenPulls(t.Context(), w.repo, "", page)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range pulls {
			got = append(got, p.Number)
		}
		if page == 1 { // closing what was listed moves the rest to earlier pages
			for _, n := range numbers[:50] {
				w.do(w.sim.ClosePull(w.ex.Repository, n, "alice"))
			}
		}
		page = next
	}
	if diff := cmp.Diff(numbers, got); diff != "" {
		t.Errorf("a cursor must not skip what moved: %s", diff)
	}
	fresh, err := NewApp(w.app.cfg, Options{HTTP: w.app.http})
	w.do(err)
	pulls, next, err := fresh.Client(w.ex.Installation, FanoutPermissions).OpenPulls(t.Context(), w.repo, "main", numbers[100])
	if err != nil || next != 0 || len(pulls) != 30 || pulls[0].Number != numbers[100] {
		t.Errorf("a cursor of another process: %d pulls, next %d, %v", len(pulls), next, err)
	}
	head := w.sim.Head(w.ex.Repository, numbers[110])
	of, err := w.client.PullsOfCommit(t.Context(), w.repo, head)
	if err != nil || !slices.ContainsFunc(of, func(p PullSummary) bool { return p.Number == numbers[110] && p.HeadSHA == head && p.State == "open" }) {
		t.Errorf("pull requests of a commit: %+v, %v", of, err)
	}
	repos, err := w.client.Repositories(t.Context())
	if err != nil || len(repos) != 2 {
		t.Errorf("repositories %+v, %v", repos, err)
	}
	installations, err := w.app.Installations(t.Context())
	if err != nil || len(installations) != 1 || installations[0].ID != w.ex.Installation || installations[0].AccountLogin != "acme" {
		t.Errorf("installations %+v, %v", installations, err)
	}
	if id, err := w.app.Identity(t.Context()); err != nil || id.ID != w.ex.App.ID {
		t.Errorf("identity %+v, %v", id, err)
	}
}

func TestChangedFilesOfTheStandIn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	files := map[string]string{"src/main.go": githubsim.Deleted, "src/renamed.go": "package main\n\nfunc main() {}\n"}
	for i := range 150 {
		files[fmt.Sprintf("many/%03d", i)] = fmt.Sprint(i)
	}
	n := w.pull(githubsim.Pull{Files: files})
	pull, err := w.client.Pull(t.Context(), w.repo, n)
	w.do(err)
	got, err := w.client.ChangedFiles(t.Context(), w.repo, n, pull.ChangedFiles)
	if err != nil || len(got) != 151 {
		t.Fatalf("%d files, %v", len(got), err)
	}
	if !slices.ContainsFunc(got, func(f ChangedFile) bool {
		return f.Path == "src/renamed.go" && f.PreviousPath == "src/main.go" && f.Status == "renamed" && IsSHA(f.BlobSHA)
	}) {
		t.Error("the rename's previous path is missing")
	}
	t.Run("a count that disagrees is refused", func(t *testing.T) {
		for _, want := range []int{150, 152} {
			if _, err := w.client.ChangedFiles(t.Context(), w.repo, n, want); !errors.Is(err, ErrMalformed) {
				t.Errorf("want %d: %v", want, err)
			}
		}
	})
}
