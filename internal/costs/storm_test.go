package costs

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/nudge"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/store/storetest"
	"github.com/countersign/countersign/services/fanout"
)

var storm = flag.Int("storm", 25, "open pull requests that one installation-wide change concerns; with -update and 150 or more the table is written; an hour's budget allows some 200")

const (
	stormBegin = "<!-- storm: written by make bench UPDATE=1 -->\n"
	stormEnd   = "<!-- end of storm -->\n"
)

// asleep sends no wake-up: the test asks for each step.
type asleep struct{}

func (asleep) Wake(context.Context, nudge.Wake) error { return nil }

// TestStorm counts what an installation-wide change costs: a member leaves a team, and every open pull request that was decided
// is revoked and decided again.
func TestStorm(t *testing.T) {
	t.Parallel()
	b := setup(t)
	n := *storm
	numbers := make([]int, n)
	for i := range numbers {
		numbers[i] = b.Open(map[string]string{"go.sum": fmt.Sprintln("example.com/x", i), "docs/index.md": fmt.Sprintln("# again", i)}) // no shared heads
		b.Approve(numbers[i], "alice", "carol")
		b.Trigger(numbers[i])
	}
	b.work(t)
	b.Pass(2 * time.Second)
	fan, err := fanout.New(fanout.Config{Worker: store.WorkerConfig{Concurrency: 1, Poll: 50 * time.Millisecond, Lease: time.Minute, RetryMax: time.Minute}}, fanout.Deps{
		Store: b.Store(storetest.Fanout), GitHub: func(store.InstallationID) fanout.GitHub { return b.Client(ghclient.FanoutPermissions) }, Waker: asleep{},
		Holder: "fanout-1", Log: b.Logger(), Metrics: prometheus.NewRegistry(), Tracer: noop.NewTracerProvider().Tracer(""),
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.Store(storetest.Ingress).AcceptAuthority(t.Context(), store.Delivery{ID: "storm", Event: "membership", Action: "removed"},
		store.AuthorityWork{Installation: store.InstallationID(b.World.Installation), AccountLogin: "acme", Scope: store.ScopeInstallation, Reason: "membership.removed"}, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	b.Sim.ResetRequests()
	b.drain(t, func() (bool, error) { return fan.Step(t.Context(), nudge.ViaPoll) })
	spread := b.asked()
	revoke, decide := b.work(t)
	for _, number := range numbers {
		if b.Successes(b.Key(number).SHA) != 1 {
			t.Fatalf("#%d is not decided again\n%s", number, b.Log)
		}
	}
	pages := (n + 99) / 100
	if len(spread) > 3+2*pages {
		t.Errorf("the fan-out asked %d times for %d pages of pull requests: %v", len(spread), pages, routes(spread))
	}
	if len(decide) > goal*n {
		t.Errorf("%d requests to decide %d pull requests, the goal is %d for each", len(decide), n, goal)
	}
	text := stormTable(n, spread, revoke, decide)
	t.Log("\n" + text)
	if *update && n >= 150 {
		write(t, stormBegin, stormEnd, text)
	}
}

func stormTable(n int, spread, revoke, decide []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| service | requests | of which free | for each of %d pull requests | by route |\n|---|--:|--:|--:|---|\n", n)
	for _, s := range []struct {
		service string
		list    []string
	}{{"fanout", spread}, {"invalidator", revoke}, {"evaluator", decide}} {
		free := 0
		for _, l := range s.list {
			if strings.HasSuffix(l, " free") {
				free++
			}
		}
		fmt.Fprintf(&b, "| %s | %d | %d | %.2f | %s |\n", s.service, len(s.list), free, float64(len(s.list))/float64(n), routes(s.list))
	}
	return b.String()
}
