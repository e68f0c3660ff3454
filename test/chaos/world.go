package chaos

import (
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"sync"
	"time"

	"github.com/countersign/countersign/pkg/githubsim"
)

const (
	// CheckName is the managed check's name.
	CheckName = "Countersign / approval"
	secret    = "a-webhook-secret-of-the-chaos-runs-0123456789"
	ownersAt  = ".github/CODEOWNERS"
	policyAt  = ".github/countersign.toml"
)

var (
	organizations = []string{"acme", "octo-org"}
	people        = []string{"alice", "bob", "carol", "dave", "erin", "frank"}
	teamMembers   = map[string][]string{"core": {"alice", "bob"}, "docs": {"carol", "erin"}, "operations": {"bob", "erin"}}
	branches      = []string{"main", "release"}
	// files are what pull requests change, chosen so that every rule of every CODEOWNERS below is met and missed.
	files = []string{"go.sum", "src/main.go", "src/auth/login.go", "docs/index.md", "docs/deep/page.md", "deploy/prod.yaml", "generated/x.txt", "README.md"}
)

// ownersFiles are the CODEOWNERS that a repository moves between; %s is the organization.
var ownersFiles = []string{
	"* @%[1]s/core\n/docs/ @%[1]s/docs\n/deploy/ @%[1]s/operations\n/generated/\n",
	"* @%[1]s/core @dave\n/docs/ @%[1]s/docs @%[1]s/core\n/src/auth/ @%[1]s/operations\n",
	"# everything has one owner\n* @%[1]s/docs\n/go.sum @%[1]s/core\n",
	"/docs/ @carol\n/src/ @%[1]s/core\n",
}

func ownersFile(org string, draw uint64) string {
	text := ownersFiles[draw%uint64(len(ownersFiles))]
	if text == ownersFiles[3] {
		return fmt.Sprintf(text, org)
	}
	return fmt.Sprintf(text, org)
}

const (
	enabled  = "schema_version = 1\nenabled = true\n\n[[delegations]]\napp = \"renovate\"\npaths = [\"/go.sum\"]\nfor_owners = [\"@%s/core\"]\n"
	disabled = "schema_version = 1\nenabled = false\n"
)

func organizationPolicy(enrolled bool, app githubsim.App) string {
	if !enrolled {
		// Another App of that name: the delegations stay valid, and renovate's reviews are nobody's.
		return fmt.Sprintf("schema_version = 1\n\n[apps.renovate]\nslug = \"other-bot\"\napp_id = %d\nbot_user_id = %d\n", app.ID+7_000_000, app.BotID+7_000_000)
	}
	return fmt.Sprintf("schema_version = 1\n\n[apps.renovate]\nslug = \"renovate\"\napp_id = %d\nbot_user_id = %d\n", app.ID, app.BotID)
}

// world is the stage of one schedule.
type world struct {
	sim      *githubsim.Sim
	app      githubsim.App
	delegate githubsim.App
	repos    []int64 // the repositories that are gated, in order
	routes   map[int64]string
	owner    map[int64]string // organization of a repository
	names    int              // of repositories that were renamed
}

// appKey is made once a process: making one takes longer than most schedules.
var appKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

// newWorld builds two organizations with three gated repositories, teams, policies and a first pull request each. Webhooks
// are held until ReleaseWebhooks.
func newWorld(p Plan, webhooks string) *world {
	began := time.Now()
	sim := githubsim.New(githubsim.Options{
		HostURLs: true, DeliveryConcurrency: 4, DeliveryTimeout: 5 * time.Second,
		Now: func() time.Time {
			real := time.Since(began)
			// No further ahead than a token of the real clock's is good for.
			return began.Add(min(real*time.Duration(p.ClockSpeed), real+5*time.Minute))
		},
	})
	sim.HoldWebhooks()
	w := &world{sim: sim, routes: map[int64]string{}, owner: map[int64]string{}}
	w.app = sim.AddApp(githubsim.App{PrivateKey: appKey(), WebhookURL: webhooks, WebhookSecret: secret})
	w.delegate = sim.AddApp(githubsim.App{Slug: "renovate", PrivateKey: appKey(), Permissions: map[string]string{"pull_requests": "write"}, Events: []string{}})
	for _, org := range organizations {
		sim.AddOrg(org, people...)
		sim.AddRepo(org, ".github", map[string]string{policyAt: organizationPolicy(true, w.delegate)})
		names := []string{"widgets", "gadgets"}
		if org == "octo-org" {
			names = []string{"tools"}
		}
		grants := map[string]string{}
		for _, name := range names {
			w.addRepo(org, name)
			grants[name] = "push"
		}
		for _, slug := range []string{"core", "docs", "operations"} {
			sim.AddTeam(githubsim.Team{Org: org, Slug: slug, Repos: grants, Members: teamMembers[slug]})
		}
		for _, name := range names {
			for _, login := range []string{"carol", "dave"} {
				check(sim.SetCollaborator(org+"/"+name, login, "push"))
			}
		}
		sim.AddInstallation(w.app.ID, org)
		sim.AddInstallation(w.delegate.ID, org)
	}
	for _, id := range w.repos {
		for i := range 2 {
			_, err := sim.OpenPull(w.routes[id], githubsim.Pull{Author: people[3+i], Files: map[string]string{files[i]: "first\n", files[3+i]: "first\n"}})
			check(err)
		}
	}
	sim.Set(p.Switches)
	return w
}

func (w *world) addRepo(org, name string) {
	content := map[string]string{ownersAt: ownersFile(org, 0), policyAt: fmt.Sprintf(enabled, org)}
	for _, f := range files {
		content[f] = "begin " + f + "\n"
	}
	id := w.sim.AddRepo(org, name, content)
	w.repos = append(w.repos, id)
	w.routes[id], w.owner[id] = org+"/"+name, org
	_, err := w.sim.PushBase(w.routes[id], "release", "", map[string]string{"RELEASE": "1\n"})
	check(err)
}

// check is for steps of a world that is built from constants.
func check(err error) {
	if err != nil {
		panic(err)
	}
}
