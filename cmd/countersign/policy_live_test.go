package main

import (
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/countersign/countersign/pkg/githubsim"
)

// TestPolicyLintLive sets variables of the process, so it is not parallel.
func TestPolicyLintLive(t *testing.T) {
	sim := githubsim.New(githubsim.Options{})
	defer sim.Close()
	server := httptest.NewServer(sim.Handler())
	defer server.Close()
	app := sim.AddApp(githubsim.App{})
	sim.AddOrg("acme", "alice", "bob")
	sim.AddRepo("acme", "app", map[string]string{"README.md": "x"})
	sim.AddTeam(githubsim.Team{Org: "acme", Slug: "platform", Repos: map[string]string{"app": "push"}, Members: []string{"bob"}})
	sim.AddTeam(githubsim.Team{Org: "acme", Slug: "readers", Repos: map[string]string{"app": "pull"}, Members: []string{"bob"}})
	sim.AddTeam(githubsim.Team{Org: "acme", Slug: "empty", Repos: map[string]string{"app": "push"}})
	installation := sim.AddInstallation(app.ID, "acme")
	t.Setenv("COUNTERSIGN_GITHUB_API_URL", server.URL+"/")
	t.Setenv("COUNTERSIGN_GITHUB_APP_ID", strconv.FormatInt(app.ID, 10))
	t.Setenv("COUNTERSIGN_GITHUB_PRIVATE_KEY", string(app.PEM))

	dir := writeFiles(t, map[string]string{
		"CODEOWNERS": "* @acme/platform\n/r @acme/readers\n/e @acme/empty @nobody-there\n/f @other/team @acme/gone\n", "good/CODEOWNERS": "* @acme/platform\n",
		"p.toml": cliPolicy + "[break_glass]\nteams = [\"@acme/gone\"]\nmax_duration = \"1h\"\n",
	})
	live := func(args ...string) result {
		return invoke(t, "", append([]string{"policy", "lint", "--live", "--repository", "acme/app", "--installation", strconv.FormatInt(installation, 10)}, args...)...)
	}
	got := live(filepath.Join(dir, "CODEOWNERS"), filepath.Join(dir, "p.toml"))
	for _, want := range []string{
		"CODEOWNERS:2:1: error: the owner @acme/readers has no write access", "CODEOWNERS:3:1: error: the owner @acme/empty has no members",
		"CODEOWNERS:3:1: error: the owner @nobody-there has only none permission", "CODEOWNERS:4:1: error: the owner @other/team belongs to another organisation",
		"CODEOWNERS:4:1: error: the owner @acme/gone does not exist", "p.toml: error: the owner @acme/gone does not exist",
	} {
		if !strings.Contains(got.out, want) {
			t.Errorf("output lacks %q", want)
		}
	}
	if got.code != exitFindings || strings.Contains(got.out, "@acme/platform") {
		t.Errorf("exit %d\n%s%s", got.code, got.out, got.errors)
	}
	if got := live(filepath.Join(dir, "good/CODEOWNERS")); got.code != exitFine {
		t.Errorf("healthy owners: exit %d\n%s%s", got.code, got.out, got.errors)
	}
	if got := invoke(t, "", "policy", "lint", "--live", filepath.Join(dir, "CODEOWNERS")); got.code != exitUsage || !strings.Contains(got.errors, "--repository") {
		t.Errorf("without a repository: exit %d, %s", got.code, got.errors)
	}
	t.Setenv("COUNTERSIGN_GITHUB_APP_ID", "")
	if got := live(filepath.Join(dir, "CODEOWNERS")); got.code != exitUsage || !strings.Contains(got.errors, "COUNTERSIGN_GITHUB_APP_ID") {
		t.Errorf("without an App: exit %d, %s", got.code, got.errors)
	}
	server.Close()
	t.Setenv("COUNTERSIGN_GITHUB_APP_ID", strconv.FormatInt(app.ID, 10))
	if got := live(filepath.Join(dir, "CODEOWNERS")); got.code != exitUsage || got.out != "" {
		t.Errorf("GitHub is away: exit %d, %s%s", got.code, got.out, got.errors)
	}
}
