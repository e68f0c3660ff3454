package fanout

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/countersign/countersign/pkg/daemon"
	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/githubsim"
	"github.com/countersign/countersign/pkg/nudge"
	"github.com/countersign/countersign/pkg/nudge/nudgetest"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/store/storetest"
)

// simBundle is the service over the real client, against the stand-in.
type simBundle struct {
	*bundle
	sim          *githubsim.Sim
	app          githubsim.App
	installation store.InstallationID
	repository   store.RepositoryID
}

func setupSim(t *testing.T) *simBundle {
	t.Helper()
	b := &simBundle{bundle: setup(t), sim: githubsim.New(githubsim.Options{})}
	t.Cleanup(b.sim.Close)
	b.sim.AddOrg("acme", "alice")
	b.app = b.sim.AddApp(githubsim.App{})
	b.repository = store.RepositoryID(b.sim.AddRepo("acme", "api", map[string]string{"README.md": "# api\n"}))
	b.installation = store.InstallationID(b.sim.AddInstallation(b.app.ID, "acme", "api"))
	b.service = b.simReplica("fanout-1", b.fanout)
	return b
}

func (b *simBundle) config() ghclient.Config {
	return ghclient.Config{APIURL: b.sim.URL(), AppID: b.app.ID, PrivateKey: string(b.app.PEM)}
}

// simReplica is another process: a client of its own that remembers nothing.
func (b *simBundle) simReplica(holder string, s Store) *Service {
	b.t.Helper()
	transport := &http.Transport{}
	b.t.Cleanup(transport.CloseIdleConnections)
	app, err := ghclient.NewApp(b.config(), ghclient.Options{HTTP: transport, Budget: b.fanout})
	if err != nil {
		b.t.Fatal(err)
	}
	service, err := New(testConfig(), Deps{
		Store: s, Waker: b.wakes, Holder: holder,
		GitHub: func(i store.InstallationID) GitHub { return app.Client(int64(i), ghclient.FanoutPermissions) },
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return service
}

func (b *simBundle) openPulls(n int, base string) {
	b.t.Helper()
	for i := range n {
		if _, err := b.sim.OpenPull("acme/api", githubsim.Pull{Author: "alice", Base: base, Files: map[string]string{fmt.Sprintf("src/%s-%d.go", base, i): "package src\n"}}); err != nil {
			b.t.Fatal(err)
		}
	}
}

func (b *simBundle) authority(id store.DeliveryID, w store.AuthorityWork) {
	b.t.Helper()
	w.Installation = b.installation
	if w.Scope != store.ScopeInstallation {
		w.Repository, w.FullName = b.repository, "acme/api"
	}
	b.accept(id, w)
}

func TestAgainstTheStandIn(t *testing.T) {
	t.Parallel()
	t.Run("RG-212 RG-213 RG-219 an installation's change reaches every open pull request, and nothing is written to GitHub", func(t *testing.T) {
		t.Parallel()
		b := setupSim(t)
		b.sim.AddRepo("acme", ".github", map[string]string{"README.md": "# policy\n"})
		b.sim.AddRepo("acme", "attic", map[string]string{"README.md": "# attic\n"})
		if err := b.sim.AddToInstallation(int64(b.installation), ".github", "attic"); err != nil {
			t.Fatal(err)
		}
		if err := b.sim.SetArchived("acme/attic", true); err != nil {
			t.Fatal(err)
		}
		b.openPulls(3, "main")
		b.authority("1", store.AuthorityWork{Scope: store.ScopeInstallation})
		b.drain(b.service)
		b.wantText("1:1 2:1 3:1", headGenerations)
		b.wantText(b.sim.Head("acme/api", 2), "SELECT head_sha FROM pull WHERE number = 2")
		b.wantInt(0, "SELECT count(*) FROM authority")
		for _, r := range b.sim.Requests() {
			if r.Method != http.MethodGet && !strings.HasSuffix(r.Route, "/access_tokens") {
				t.Errorf("%s %s", r.Method, r.Path)
			}
		}
	})
	t.Run("RG-219 P8 a hundred and more: another process goes on behind the first page though pull requests closed meanwhile", func(t *testing.T) {
		t.Parallel()
		b := setupSim(t)
		b.openPulls(103, "main")
		b.authority("1", store.AuthorityWork{Scope: store.ScopeRepository})
		stop := make(chan struct{})
		close(stop)
		if _, err := b.service.step(t.Context(), stop, nudge.ViaPoll); err != nil {
			t.Fatal(err)
		}
		b.wantInt(100, "SELECT count(*) FROM evaluation")
		for _, n := range []int{1, 2, 50} {
			if err := b.sim.ClosePull("acme/api", n, "alice"); err != nil {
				t.Fatal(err)
			}
		}
		b.drain(b.simReplica("fanout-2", b.fanout))
		b.wantInt(103, "SELECT count(*) FROM pull p JOIN head h USING (installation_id, repository_id, head_sha) WHERE h.generation = 1")
		b.wantInt(0, "SELECT count(*) FROM authority")
	})
	t.Run("RG-219 a push to a base queues the pull requests of that base", func(t *testing.T) {
		t.Parallel()
		b := setupSim(t)
		b.openPulls(1, "main")
		b.sim.AddCommits("acme/api", "main", 1)
		if err := b.sim.SetBranch("acme/api", "release/1", b.sim.Head("acme/api", 1), "alice"); err != nil {
			t.Fatal(err)
		}
		b.openPulls(2, "release/1")
		b.authority("1", store.AuthorityWork{Scope: store.ScopeBase, BaseRef: "release/1"})
		b.drain(b.service)
		b.wantText("2:1 3:1", headGenerations)
	})
	t.Run("RG-224 a renamed repository, also when another one took its name, is worked under its reported route", func(t *testing.T) {
		t.Parallel()
		b := setupSim(t)
		b.openPulls(2, "main")
		if err := b.sim.RenameRepo("acme/api", "platform"); err != nil {
			t.Fatal(err)
		}
		b.authority("1", store.AuthorityWork{Scope: store.ScopeRepository})
		b.drain(b.service)
		b.wantText("1:1 2:1", headGenerations)
		b.wantText("acme/platform", "SELECT full_name FROM repository")

		b.sim.AddRepo("acme", "api", map[string]string{"README.md": "# another\n"})
		if err := b.sim.AddToInstallation(int64(b.installation), "api"); err != nil {
			t.Fatal(err)
		}
		b.authority("2", store.AuthorityWork{Scope: store.ScopeRepository}) // arrives with the old name
		b.drain(b.service)
		b.wantText("1:2 2:2", headGenerations)
		b.wantText("acme/platform", "SELECT full_name FROM repository")
	})
	t.Run("RG-228 a suspended installation and a removed repository are parked and come back with their event", func(t *testing.T) {
		t.Parallel()
		b := setupSim(t)
		b.openPulls(1, "main")
		parked := "SELECT count(*) FROM authority WHERE parked_at IS NOT NULL AND available_at > now() + interval '299 seconds'"
		if err := b.sim.SuspendInstallation(int64(b.installation)); err != nil {
			t.Fatal(err)
		}
		b.authority("1", store.AuthorityWork{Scope: store.ScopeInstallation})
		b.drain(b.service)
		b.wantInt(1, parked)
		if err := b.sim.UnsuspendInstallation(int64(b.installation)); err != nil {
			t.Fatal(err)
		}
		b.authority("2", store.AuthorityWork{Scope: store.ScopeInstallation})
		b.drain(b.service)
		b.wantText("1:1", headGenerations)

		b.sim.AddRepo("acme", "web", map[string]string{"README.md": "# web\n"})
		if err := b.sim.AddToInstallation(int64(b.installation), "web"); err != nil {
			t.Fatal(err)
		}
		if err := b.sim.RemoveFromInstallation(int64(b.installation), "api"); err != nil {
			t.Fatal(err)
		}
		b.authority("3", store.AuthorityWork{Scope: store.ScopeRepository})
		b.drain(b.service)
		b.wantInt(1, parked)
		if err := b.sim.AddToInstallation(int64(b.installation), "api"); err != nil {
			t.Fatal(err)
		}
		b.authority("4", store.AuthorityWork{Scope: store.ScopeInstallation, Reason: "installation_repositories.added"})
		b.drain(b.service)
		b.wantText("1:2", headGenerations)
	})
	t.Run("RG-220 RG-145 a rate limit defers by GitHub's delay, spends nothing and pauses every replica", func(t *testing.T) {
		t.Parallel()
		b := setupSim(t)
		b.openPulls(1, "main")
		b.sim.Inject(githubsim.Fault{Route: "/repos/{owner}/{repo}/pulls", Answer: githubsim.AnswerSecondary, RetryAfter: "120"})
		b.authority("1", store.AuthorityWork{Scope: store.ScopeRepository})
		b.step(b.service)
		b.wantInt(1, "SELECT count(*) FROM authority WHERE attempts = 0 AND available_at BETWEEN now() + interval '110 seconds' AND now() + interval '120 seconds'")
		b.wantInt(1, "SELECT count(*) FROM installation WHERE paused_until > now() + interval '110 seconds'")
		b.db.Exec("UPDATE authority SET available_at = now()")
		if b.step(b.service) {
			t.Error("worked during the pause")
		}
	})
	t.Run("RG-227 a truncated answer and a server error are retried until the list is whole", func(t *testing.T) {
		t.Parallel()
		b := setupSim(t)
		b.openPulls(2, "main")
		b.sim.Inject(githubsim.Fault{Route: "/repos/{owner}/{repo}/pulls", Answer: githubsim.AnswerTruncated})
		b.sim.Inject(githubsim.Fault{Route: "/repos/{owner}/{repo}/pulls", Answer: githubsim.AnswerHTML})
		b.authority("1", store.AuthorityWork{Scope: store.ScopeRepository})
		for range 2 {
			b.step(b.service)
			b.wantInt(0, "SELECT count(*) FROM evaluation")
			b.db.Exec("UPDATE authority SET available_at = now()")
		}
		b.drain(b.service)
		b.wantText("1:1 2:1", headGenerations)
	})
}

func TestRun(t *testing.T) {
	t.Parallel()
	t.Run("the service works a change it is woken for, is ready, and stops without a lease left behind", func(t *testing.T) {
		t.Parallel()
		b := setupSim(t)
		b.openPulls(2, "main")
		server := nudgetest.New(t)
		cfg := testConfig()
		cfg.Worker.Poll = 10 * time.Second // found by the nudge, or not in time
		cfg.Store, cfg.Nudge, cfg.GitHub = b.db.Config(storetest.Fanout), server.Config("fanout"), b.config()
		cfg.Identity = daemon.IdentityConfig{Interval: time.Second, FreshFor: time.Minute}
		rt, err := daemon.NewRuntime(t.Context(), daemon.RuntimeOptions{Service: "fanout", Output: t.Output(), Config: daemon.Config{ShutdownGrace: 10 * time.Second}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- Run(ctx, rt, cfg) }()
		nudgetest.Eventually(t, "the service is ready", func() bool {
			_, worst := rt.Health.Ready(t.Context())
			return worst == daemon.StatusOK
		})
		b.authority("1", store.AuthorityWork{Scope: store.ScopeInstallation})
		ingress := server.Connect("ingress")
		nudgetest.Eventually(t, "the change is worked", func() bool {
			_ = ingress.Wake(t.Context(), nudge.Wake{Subject: nudge.Fanout, InstallationID: int64(b.installation)})
			return b.db.QueryInt("SELECT count(*) FROM evaluation") == 2 && b.db.QueryInt("SELECT count(*) FROM authority") == 0
		})
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if held, err := b.fanout.HeldLeases(t.Context()); err != nil || len(held) != 0 {
			t.Errorf("leases %v, %v", held, err)
		}
		if err := daemon.CheckMetrics(rt.Registry); err != nil {
			t.Error(err)
		}
		if err := rt.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
