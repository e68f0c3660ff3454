package reconciler

import (
	"context"
	"fmt"
	"net/http"
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
	installation int64
}

func setupSim(t *testing.T) *simBundle {
	t.Helper()
	b := &simBundle{bundle: setup(t, world()), sim: githubsim.New(githubsim.Options{})}
	t.Cleanup(b.sim.Close)
	b.sim.AddOrg("acme", "alice")
	b.app = b.sim.AddApp(githubsim.App{})
	b.sim.AddRepo("acme", "api", map[string]string{"README.md": "# api\n"})
	b.installation = b.sim.AddInstallation(b.app.ID, "acme")
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	app, err := ghclient.NewApp(b.config(), ghclient.Options{HTTP: Gated(transport), Budget: b.db.Store(storetest.Reconciler)})
	if err != nil {
		t.Fatal(err)
	}
	b.service, err = New(testConfig(), Deps{
		Store: b.store, App: app, Waker: b.wakes, Holder: "reconciler-1", Log: b.service.deps.Log,
		Client: func(i int64) Client { return app.Client(i, ghclient.ReconcilerPermissions) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *simBundle) config() ghclient.Config {
	return ghclient.Config{APIURL: b.sim.URL(), AppID: b.app.ID, PrivateKey: string(b.app.PEM)}
}

func (b *simBundle) open(repository string, files ...string) {
	b.t.Helper()
	for _, f := range files {
		if _, err := b.sim.OpenPull(repository, githubsim.Pull{Author: "alice", Files: map[string]string{f: "x\n"}}); err != nil {
			b.t.Fatal(err)
		}
	}
}

func (b *simBundle) requests(route string) (n int) {
	for _, r := range b.sim.Requests() {
		if r.Route == route {
			n++
		}
	}
	return n
}

func TestAgainstTheStandIn(t *testing.T) {
	t.Parallel()
	queued := "SELECT coalesce(string_agg(format('%s#%s', full_name, number), ' ' ORDER BY full_name, number), '') FROM evaluation JOIN repository USING (installation_id, repository_id)"
	t.Run("RG-401 RG-417 RG-425 open pull requests that no webhook told of are found; policy, archived and suspended ones are not", func(t *testing.T) {
		t.Parallel()
		b := setupSim(t)
		b.sim.AddRepo("acme", ".github", map[string]string{"README.md": "# policy\n"})
		b.sim.AddRepo("acme", "attic", map[string]string{"README.md": "# attic\n"})
		b.sim.AddOrg("octo-org", "bob")
		b.sim.AddRepo("octo-org", "site", map[string]string{"README.md": "# site\n"})
		other := b.sim.AddInstallation(b.app.ID, "octo-org")
		b.open("acme/api", "a", "b")
		b.open("acme/.github", "c")
		b.open("acme/attic", "d")
		b.open("octo-org/site", "e")
		if err := b.sim.SetArchived("acme/attic", true); err != nil {
			t.Fatal(err)
		}
		if err := b.sim.SuspendInstallation(other); err != nil {
			t.Fatal(err)
		}
		b.wantResult("complete")
		b.wantText("acme/api#1 acme/api#2", queued)
		b.wantInt(1, "SELECT count(*) FROM installation WHERE account_login = 'acme'")
		if err := b.sim.UnsuspendInstallation(other); err != nil {
			t.Fatal(err)
		}
		b.wantResult("complete")
		b.wantText("acme/api#1 acme/api#2 octo-org/site#1", queued)
	})
	t.Run("RG-423 RG-424 answers that are cut short: the list of installations fails the attempt, any other list its installation", func(t *testing.T) {
		t.Parallel()
		b := setupSim(t)
		b.open("acme/api", "a")
		b.sim.Inject(githubsim.Fault{Route: "/app/installations", Answer: githubsim.AnswerTruncated})
		b.wantResult("failure")
		b.sim.Inject(githubsim.Fault{Route: "/installation/repositories", Answer: githubsim.AnswerTruncated})
		b.wantResult("partial")
		b.sim.Inject(githubsim.Fault{Route: "/repos/{owner}/{repo}/pulls", Answer: githubsim.AnswerTruncated})
		b.wantResult("partial")
		b.wantText("", queued)
		b.wantResult("complete")
		b.wantText("acme/api#1", queued)
	})
	t.Run("RG-420 RG-421 told to stop during the first page of a list: it is read to its end, the second page is not asked for", func(t *testing.T) {
		t.Parallel()
		b := setupSim(t)
		for i := range 101 {
			b.sim.AddRepo("acme", fmt.Sprintf("r%d", i), map[string]string{"README.md": "#\n"})
		}
		ctx, stop := context.WithCancel(t.Context())
		seen, answer := make(chan struct{}), make(chan struct{})
		b.sim.Inject(githubsim.Fault{Route: "/installation/repositories", Answer: githubsim.AnswerTruth, Seen: seen, Until: answer})
		go func() {
			<-seen
			stop()
			close(answer)
		}()
		b.service.attempt(ctx, nudge.ViaPoll, 0)
		if got := b.requests("/installation/repositories"); got != 1 {
			t.Errorf("%d pages were asked for", got)
		}
		for _, r := range b.sim.Requests() {
			if r.Status != http.StatusOK && r.Status != http.StatusCreated {
				t.Errorf("%s %s ended with %d", r.Method, r.Path, r.Status)
			}
		}
		if b.store.result != "partial" {
			t.Errorf("result %q", b.store.result)
		}
		b.wantResult("complete")
		if got := b.requests("/installation/repositories"); got != 3 {
			t.Errorf("%d pages in all, want 3", got)
		}
	})
	t.Run("RG-145 a rate limit pauses the installation, which no event had named yet", func(t *testing.T) {
		t.Parallel()
		b := setupSim(t)
		b.sim.Inject(githubsim.Fault{Route: "/repos/{owner}/{repo}/pulls", Answer: githubsim.AnswerSecondary, RetryAfter: "120"})
		b.wantResult("partial")
		b.wantInt(1, "SELECT count(*) FROM installation WHERE paused_until > now() + interval '110 seconds'")
	})
}

func TestRun(t *testing.T) {
	t.Parallel()
	t.Run("the service scans at start, is ready, looks again when asked, and stops without a lease left behind", func(t *testing.T) {
		t.Parallel()
		b := setupSim(t)
		b.open("acme/api", "a")
		server := nudgetest.New(t)
		cfg := testConfig()
		cfg.ScanEvery = time.Hour
		cfg.Store, cfg.Nudge, cfg.GitHub = b.db.Config(storetest.Reconciler), server.Config("reconciler"), b.config()
		cfg.Identity = daemon.IdentityConfig{Interval: time.Second, FreshFor: time.Minute}
		rt, err := daemon.NewRuntime(t.Context(), daemon.RuntimeOptions{Service: "reconciler", Output: t.Output(), Config: daemon.Config{ShutdownGrace: 10 * time.Second}})
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
		nudgetest.Eventually(t, "the first scan is complete", func() bool {
			return b.db.QueryInt("SELECT count(*) FROM lease WHERE name = 'reconciler' AND last_result = 'complete'") == 1
		})
		b.wantInt(1, "SELECT count(*) FROM evaluation")
		b.open("acme/api", "b")
		operator := server.Connect("operator")
		nudgetest.Eventually(t, "the new pull request is found", func() bool {
			_ = operator.Wake(t.Context(), nudge.Wake{Subject: nudge.Reconcile})
			return b.db.QueryInt("SELECT count(*) FROM evaluation") == 2
		})
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		held, err := b.store.real.(*store.Store).HeldLeases(t.Context())
		if err != nil || len(held) != 0 {
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
