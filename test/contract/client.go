package main

import (
	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/githubsim"
)

// clientRun uses the same world through pkg/ghclient: what our client sends must
// be what GitHub describes, and what it reads back must make sense to it.
func (s *stage) clientRun() {
	app, err := ghclient.NewApp(ghclient.Config{
		APIURL: s.server.URL + "/", AppID: s.example.App.ID, PrivateKey: string(s.example.App.PEM), APIVersion: s.version,
		PolicyPaths: []string{".github/countersign.toml", ".github/extra-codeowners.toml"}, OrgRepository: ".github",
	}, ghclient.Options{})
	must(err)
	_, err = app.Identity(s.ctx)
	must(err)
	_, err = app.Installations(s.ctx)
	must(err)
	c := app.Client(s.example.Installation, ghclient.EvaluatorPermissions)
	list, err := c.Repositories(s.ctx)
	must(err)
	var repo ghclient.Repo
	for _, one := range list {
		if one.FullName() == s.example.Repository {
			repo = one.Repo
		}
	}
	full := s.example.Repository
	n, err := s.sim.OpenPull(full, githubsim.Pull{Author: "dave", Labels: []string{"ready"}, Files: map[string]string{
		"src/main.go": "package main\n", "docs/index.md": githubsim.Deleted, "docs/start.md": "# Widgets\n",
	}})
	must(err)
	for _, login := range []string{"alice", "carol", "renovate[bot]"} {
		_, err = s.sim.Review(full, n, login, "APPROVED")
		must(err)
	}
	s.clientReads(c, repo, n)
	s.clientWrites(c, repo, n)
	_, _, err = app.Deliveries(s.ctx, "")
	must(err)
}

func (s *stage) clientReads(c *ghclient.Client, repo ghclient.Repo, n int) {
	_, err := c.Repository(s.ctx, repo)
	must(err)
	pull, err := c.Pull(s.ctx, repo, n)
	must(err)
	_, err = c.PullState(s.ctx, repo, n)
	must(err)
	_, _, err = c.OpenPulls(s.ctx, repo, "main", 1)
	must(err)
	_, err = c.PullsOfCommit(s.ctx, repo, pull.HeadSHA)
	must(err)
	_, err = c.Evidence(s.ctx, repo, n)
	must(err)
	_, err = c.ChangedFiles(s.ctx, repo, n, pull.ChangedFiles)
	must(err)
	_, err = c.File(s.ctx, repo, "main", ".github/CODEOWNERS")
	must(err)
	_, err = c.CodeownersErrors(s.ctx, repo, "main")
	must(err)
	_, err = c.Team(s.ctx, "acme", "core")
	must(err)
	_, err = c.TeamRepositoryPermission(s.ctx, "acme", "core", repo)
	must(err)
	_, _, err = c.TeamMembership(s.ctx, "acme", "core", "alice")
	must(err)
	_, err = c.TeamMembers(s.ctx, "acme", "core")
	must(err)
	_, err = c.TeamsFor(s.ctx, "acme", []string{"core", "docs"}, repo)
	must(err)
	_, err = c.UserPermission(s.ctx, repo, "alice")
	must(err)
	_, err = c.User(s.ctx, "renovate[bot]")
	must(err)
}

func (s *stage) clientWrites(c *ghclient.Client, repo ghclient.Repo, n int) {
	head := s.sim.Head(s.example.Repository, n)
	run, err := c.CreateRun(s.ctx, repo, ghclient.RunSpec{Name: "Countersign / approval", HeadSHA: head, Status: "in_progress", Title: "Evaluating", Summary: "Evaluating."})
	must(err)
	_, err = c.UpdateRun(s.ctx, repo, run.ID, ghclient.RunSpec{
		Name: "Countersign / approval", HeadSHA: head, Status: "completed", Conclusion: "success", ExternalID: "7", DetailsURL: "https://countersign.example/7",
		Title: "Approved", Summary: "By all owners.", Text: "Text.", ReEvaluateAction: true,
	})
	must(err)
	_, err = c.GetRun(s.ctx, repo, run.ID)
	must(err)
	_, _, err = c.FindRun(s.ctx, repo, head, "Countersign / approval")
	must(err)
	_, err = c.ListRuns(s.ctx, repo, head, "Countersign / approval", true)
	must(err)
}
