package e2e

import (
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/countersign/countersign/internal/system"
	"github.com/countersign/countersign/pkg/githubsim"
	"github.com/countersign/countersign/pkg/store/storetest"
)

// door stands where GitHub finds ingress: open, answering 503 in its place, or gone.
type door struct {
	state atomic.Int32
	to    atomic.Pointer[httputil.ReverseProxy]
}

const (
	doorOpen int32 = iota
	doorRefuses
	doorGone
)

func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch d.state.Load() {
	case doorRefuses:
		w.WriteHeader(http.StatusServiceUnavailable)
	case doorGone:
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_ = conn.Close()
		}
	default:
		d.to.Load().ServeHTTP(w, r)
	}
}

func TestGaps(t *testing.T) {
	t.Parallel()
	t.Run("deliveries that never reached ingress: GitHub's log brings them back, no operator and no scan needed", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		d := &door{}
		front := &http.Server{Handler: d, ReadHeaderTimeout: time.Minute}
		go func() { _ = front.Serve(b.ingress) }()
		t.Cleanup(func() { _ = front.Close() })
		environ := b.environ()
		environ["COUNTERSIGN_DELIVERY_LOG_INTERVAL"] = "5s"
		environ["COUNTERSIGN_RECONCILE_INTERVAL"] = "24h"
		environ["COUNTERSIGN_RECHECK_AFTER"] = "0s"
		sys, err := system.Start(t.Context(), system.Options{
			RoleURL: func(role string) string { return b.db.URL(storetest.Role(role)) }, Environ: environ, Log: b.log,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.stop(t, sys) })
		target, err := url.Parse(sys.IngressURLs()[0])
		if err != nil {
			t.Fatal(err)
		}
		d.to.Store(httputil.NewSingleHostReverseProxy(target))
		within(t, "everything is ready", func() bool { return sys.Ready(t.Context()) == nil })

		repo := b.stage.World.Repository
		open := func() int {
			t.Helper()
			number, err := b.sim.OpenPull(repo, githubsim.Pull{Author: "dave", Files: map[string]string{"go.sum": "x v1\n", "docs/index.md": "# again\n"}})
			if err != nil {
				t.Fatal(err)
			}
			return number
		}
		conclusion := func(number int) string {
			check, _ := b.sim.LatestCheck(repo, b.sim.Head(repo, number), checkName)
			return check.Conclusion
		}
		first := open()
		for _, login := range []string{"alice", "carol"} {
			if _, err := b.sim.Review(repo, first, login, "APPROVED"); err != nil {
				t.Fatal(err)
			}
		}
		within(t, "the first pull request is approved", func() bool { return conclusion(first) == "success" })

		d.state.Store(doorRefuses) // an authority event that cannot be ordered
		if err := b.sim.RemoveTeamMember("acme", "core", "alice"); err != nil {
			t.Fatal(err)
		}
		within(t, "it was refused", func() bool { return b.failed("membership", "removed", http.StatusServiceUnavailable) })
		d.state.Store(doorGone) // and nobody there at all
		second := open()
		within(t, "it did not arrive", func() bool { return b.failed("pull_request", "opened", 0) })
		within(t, "both are known to be missed", func() bool {
			return b.db.QueryInt("SELECT count(*) FROM delivery_gap WHERE state = 'open' AND event IN ('membership', 'pull_request')") == 2
		})
		if got := conclusion(first); got != "success" {
			t.Errorf("before any event arrived the first check says %q", got)
		}

		d.state.Store(doorOpen)
		within(t, "the first verdict follows the team, the second pull request has one", func() bool {
			return conclusion(first) == "failure" && conclusion(second) == "failure"
		})
		within(t, "both gaps are filled", func() bool {
			return b.db.QueryInt("SELECT count(*) FROM delivery_gap WHERE state = 'filled' AND event IN ('membership', 'pull_request')") == 2
		})
		if n := b.db.QueryInt("SELECT count(*) FROM delivery_gap JOIN delivery ON guid = delivery_id WHERE delivery_gap.event IN ('membership', 'pull_request')"); n != 2 {
			t.Errorf("%d of the missed deliveries are stored", n)
		}
		if n := b.db.QueryInt("SELECT count(*) FROM decision WHERE reason = 'reconcile.scan'"); n != 0 {
			t.Errorf("%d decisions came from the scan", n)
		}
	})
}

// failed: GitHub's log shows a delivery of that kind that ended so, and none that succeeded.
func (b *bench) failed(event, action string, code int) bool {
	found := false
	for _, d := range b.sim.Deliveries(b.stage.World.App.ID) {
		if d.Event == event && d.Action == action {
			found = d.Code == code
		}
	}
	return found
}

func within(t *testing.T, what string, reached func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if reached() {
			return
		}
	}
	t.Fatalf("waited two minutes in vain until %s", what)
}
