package main

import (
	"fmt"
	"reflect"

	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/githubsim"
)

// clientWorld is what the calls of the client are made about.
type clientWorld struct {
	app  *ghclient.App
	c    *ghclient.Client
	repo ghclient.Repo
	n    int
	pull ghclient.Pull
	run  ghclient.Run
}

// clientRun uses the same world through pkg/ghclient: what our client sends must
// be what GitHub describes, and what it reads back must make sense to it.
func (s *stage) clientRun() {
	app, err := ghclient.NewApp(ghclient.Config{
		APIURL: s.server.URL + "/", AppID: s.example.App.ID, PrivateKey: string(s.example.App.PEM), APIVersion: s.version,
		PolicyPaths: []string{".github/countersign.toml", ".github/extra-codeowners.toml"}, OrgRepository: ".github",
	}, ghclient.Options{})
	must(err)
	w := &clientWorld{app: app, c: app.Client(s.example.Installation, ghclient.EvaluatorPermissions)}
	w.n = s.clientPull()
	list, err := w.c.Repositories(s.ctx)
	must(err)
	for _, one := range list {
		if one.FullName() == s.example.Repository {
			w.repo = one.Repo
		}
	}
	w.pull, err = w.c.PullState(s.ctx, w.repo, w.n)
	must(err)
	_, _, err = s.settle()
	must(err)
	calls := s.clientCalls(w)
	for _, name := range methods(w.app, w.c) {
		call, known := calls[name]
		if !known {
			must(fmt.Errorf("client.go does not call %s of pkg/ghclient: add it, so that what it sends is checked", name))
		}
		if err := call(); err != nil {
			must(fmt.Errorf("%s: %w", name, err))
		}
	}
}

// clientPull opens a pull request with everything on it that the client reads.
func (s *stage) clientPull() int {
	full := s.example.Repository
	n, err := s.sim.OpenPull(full, githubsim.Pull{Author: "dave", Labels: []string{"ready"}, Files: map[string]string{
		"src/main.go": "package main\n", "docs/index.md": githubsim.Deleted, "docs/start.md": "# Widgets\n",
	}})
	must(err)
	for _, login := range []string{"alice", "carol", "renovate[bot]"} {
		_, err = s.sim.Review(full, n, login, "APPROVED")
		must(err)
	}
	must(s.sim.Comment(full, n, "alice", "Fine."))
	_, err = s.sim.PushBase(full, "release", "alice", map[string]string{"VERSION": "1\n"})
	must(err)
	must(s.sim.Retarget(full, n, "release", "dave"))
	must(s.sim.Retarget(full, n, "main", "dave"))
	return n
}

// methods are the exported methods that send something, those of the App first.
func methods(app *ghclient.App, c *ghclient.Client) []string {
	var names []string
	for _, one := range []any{app, c} {
		t := reflect.TypeOf(one)
		for i := range t.NumMethod() {
			if m := t.Method(i); m.Type.NumIn() > 1 && m.Type.In(1).String() == "context.Context" {
				names = append(names, t.Elem().Name()+"."+m.Name)
			}
		}
	}
	return names
}

// ignore makes a call of one that also answers something.
func ignore[T any](_ T, err error) error { return err }

func ignore2[T, U any](_ T, _ U, err error) error { return err }

func (s *stage) clientCalls(w *clientWorld) map[string]func() error {
	ctx, c, repo := s.ctx, w.c, w.repo
	const name = "Countersign / approval"
	begin := ghclient.RunSpec{Name: name, HeadSHA: w.pull.HeadSHA, Status: "in_progress", Title: "Evaluating", Summary: "Evaluating."}
	end := ghclient.RunSpec{
		Name: name, HeadSHA: w.pull.HeadSHA, Status: "completed", Conclusion: "success", ExternalID: "7", DetailsURL: "https://countersign.example/7",
		Title: "Approved", Summary: "By all owners.", Text: "Text.", ReEvaluateAction: true,
	}
	return map[string]func() error{
		"App.Server":        func() error { return ignore(w.app.Server(ctx)) },
		"App.Identity":      func() error { return ignore(w.app.Identity(ctx)) },
		"App.HookConfig":    func() error { return ignore(w.app.HookConfig(ctx)) },
		"App.Installations": func() error { return ignore(w.app.Installations(ctx)) },
		"App.Deliveries":    func() error { return ignore2(w.app.Deliveries(ctx, "")) },
		"App.Redeliver": func() error {
			list, _, err := w.app.Deliveries(ctx, "")
			if err != nil {
				return err
			}
			return w.app.Redeliver(ctx, list[0].ID)
		},
		"Client.BaseChange":       func() error { return ignore2(c.BaseChange(ctx, repo, w.n)) },
		"Client.BaseRules":        func() error { return ignore(c.BaseRules(ctx, repo, "main")) },
		"Client.Changes":          func() error { return ignore(c.Changes(ctx, repo, []int{w.n})) },
		"Client.ChangedContent":   func() error { return ignore(c.ChangedContent(ctx, repo, w.pull.BaseTip, w.pull.HeadSHA)) },
		"Client.ChangedFiles":     func() error { return ignore(c.ChangedFiles(ctx, repo, w.n, w.pull.ChangedFiles)) },
		"Client.CodeownersErrors": func() error { return ignore(c.CodeownersErrors(ctx, repo, "main")) },
		"Client.Comments":         func() error { return ignore(c.Comments(ctx, repo, w.n)) },
		"Client.CreateRun": func() (err error) {
			w.run, err = c.CreateRun(ctx, repo, begin)
			return err
		},
		"Client.Evidence": func() error { return ignore(c.Evidence(ctx, repo, w.n)) },
		"Client.File":     func() error { return ignore(c.File(ctx, repo, "main", ".github/CODEOWNERS")) },
		"Client.FindRun":  func() error { return ignore2(c.FindRun(ctx, repo, w.pull.HeadSHA, name)) },
		"Client.Compare":  func() error { return ignore(c.Compare(ctx, repo, w.pull.BaseTip, w.pull.HeadSHA)) },
		"Client.MergeQueue": func() error {
			g, err := s.sim.EnqueueMergeGroup(s.example.Repository, "main", w.n)
			must(err)
			return ignore(c.MergeQueue(ctx, repo, "main", g.HeadRef))
		},
		"Client.MergedInto":    func() error { return ignore(c.MergedInto(ctx, repo, "main", w.pull.HeadSHA)) },
		"Client.TokenLength":   func() error { return ignore(c.TokenLength(ctx)) },
		"Client.GetRun":        func() error { return ignore(c.GetRun(ctx, repo, w.run.ID)) },
		"Client.LastPush":      func() error { return ignore(c.LastPush(ctx, w.pull)) },
		"Client.ListRuns":      func() error { return ignore(c.ListRuns(ctx, repo, w.pull.HeadSHA, name, true)) },
		"Client.OpenPulls":     func() error { return ignore2(c.OpenPulls(ctx, repo, "main", 1)) },
		"Client.Pull":          func() error { return ignore(c.Pull(ctx, repo, w.n)) },
		"Client.PullState":     func() error { return ignore(c.PullState(ctx, repo, w.n)) },
		"Client.PullsOfCommit": func() error { return ignore(c.PullsOfCommit(ctx, repo, w.pull.HeadSHA)) },
		"Client.RequiredChecks": func() error {
			s.sim.RequireCheck(s.example.Repository, githubsim.RequiredCheck{Branch: "main", Context: name, Ruleset: true})
			return ignore(c.RequiredChecks(ctx, repo, "main"))
		},
		"Client.Repositories":             func() error { return ignore(c.Repositories(ctx)) },
		"Client.Repository":               func() error { return ignore(c.Repository(ctx, repo)) },
		"Client.Team":                     func() error { return ignore(c.Team(ctx, "acme", "core")) },
		"Client.TeamMembers":              func() error { return ignore(c.TeamMembers(ctx, "acme", "core")) },
		"Client.TeamMembership":           func() error { return ignore2(c.TeamMembership(ctx, "acme", "core", "alice")) },
		"Client.TeamRepositoryPermission": func() error { return ignore(c.TeamRepositoryPermission(ctx, "acme", "core", repo)) },
		"Client.TeamsFor":                 func() error { return ignore(c.TeamsFor(ctx, "acme", []string{"core", "docs"}, repo)) },
		"Client.UpdateRun":                func() error { return ignore(c.UpdateRun(ctx, repo, w.run.ID, end)) },
		"Client.User":                     func() error { return ignore(c.User(ctx, "renovate[bot]")) },
		"Client.UserPermission":           func() error { return ignore(c.UserPermission(ctx, repo, "alice")) },
	}
}
