package githubsim

import "fmt"

// Example is the small world that `cmd/githubsim` and the demo begin with.
type Example struct {
	App          App // Countersign's own
	Delegate     App // an enrolled App, whose approvals may count
	Installation int64
	Repository   string            // owner/name
	Tokens       map[string]string // login → token to act with
}

// ExampleOptions configures the example world.
type ExampleOptions struct {
	App App // ID, Slug, key and webhook of Countersign's App; Permissions and Events are completed
}

const exampleOwners = `# Whoever changes a path needs an approval of one of its owners.
*        @acme/core
/docs/   @acme/docs
/deploy/ @acme/operations
`

const exampleRepositoryPolicy = `schema_version = 1
enabled = true

# An approval of the App "renovate" counts for lock files that core owns.
[[delegations]]
app = "renovate"
paths = ["/go.sum", "/web/package-lock.json"]
for_owners = ["@acme/core"]
`

// AddExample builds the example world: the organisation acme with its teams, the
// repository acme/widgets with CODEOWNERS and a policy, the organisation's policy
// in acme/.github, Countersign's App installed on both, and the App renovate
// enrolled. It opens no pull request.
func AddExample(s *Sim, o ExampleOptions) Example {
	s.AddOrg("acme", "alice", "bob", "carol", "dave", "erin")
	must(s.SetOrgRole("acme", "grace", "admin")) // the owner
	e := Example{App: s.AddApp(o.App), Repository: "acme/widgets", Tokens: map[string]string{}}
	e.Delegate = s.AddApp(App{Slug: "renovate", Permissions: map[string]string{"pull_requests": "write", "contents": "write"}, Events: []string{}})
	organizationPolicy := fmt.Sprintf("schema_version = 1\n\n[apps.renovate]\nslug = \"renovate\"\napp_id = %d\nbot_user_id = %d\n\n[guardrails]\nnon_delegable_paths = [\"/deploy/**\"]\n", e.Delegate.ID, e.Delegate.BotID)
	s.AddRepo("acme", ".github", map[string]string{".github/countersign.toml": organizationPolicy, "README.md": "# acme\n"})
	s.AddRepo("acme", "widgets", map[string]string{
		".github/CODEOWNERS": exampleOwners, ".github/countersign.toml": exampleRepositoryPolicy,
		"README.md": "# widgets\n", "go.mod": "module example.com/widgets\n", "go.sum": "", "web/package-lock.json": "{}\n",
		"src/main.go": "package main\n\nfunc main() {}\n", "docs/index.md": "# Widgets\n", "deploy/prod.yaml": "replicas: 3\n",
	})
	for slug, members := range map[string][]string{"core": {"alice", "bob"}, "docs": {"carol"}, "operations": {"bob", "erin"}} {
		s.AddTeam(Team{Org: "acme", Slug: slug, Repos: map[string]string{"widgets": "push"}, Members: members})
	}
	for _, login := range []string{"alice", "bob", "carol", "dave", "erin", "grace"} {
		e.Tokens[login] = s.UserToken(login)
	}
	must(s.SetCollaborator(e.Repository, "dave", "push"))
	e.Installation = s.AddInstallation(e.App.ID, "acme")
	s.AddInstallation(e.Delegate.ID, "acme")
	return e
}

// must is for steps of a world that is built from constants.
func must(err error) {
	if err != nil {
		misuse("%v", err)
	}
}
