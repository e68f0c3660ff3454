package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/countersign/countersign/internal/demo"
	"github.com/countersign/countersign/internal/system"
	"github.com/countersign/countersign/pkg/githubsim"
	"github.com/countersign/countersign/pkg/nudge/localnats"
	"github.com/countersign/countersign/pkg/store/storetest"
)

const (
	checkName = "Countersign / approval"
	secret    = "a-webhook-secret-that-a-test-plants-and-looks-for"
)

// logBuffer collects what every service writes.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// bench is the stand-in, NATS and a database; the services come with the test.
type bench struct {
	tb      testing.TB
	db      *storetest.DB
	sim     *githubsim.Sim
	stage   *demo.Stage
	nats    *localnats.Server
	ingress net.Listener
	log     *logBuffer
	// otlp is the base URL of a collector that the services export to; empty: none.
	otlp string
}

func setup(t *testing.T) *bench {
	t.Helper()
	b := &bench{tb: t, db: storetest.New(t), log: &logBuffer{}}
	t.Cleanup(func() {
		storetest.CheckInvariants(t, b.db)
		if t.Failed() {
			t.Logf("the services' log:\n%s", b.log)
		}
	})
	var err error
	if b.nats, err = localnats.Start(t.Context(), localnats.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.nats.Close)
	if b.ingress, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	b.sim = githubsim.New(githubsim.Options{})
	t.Cleanup(b.sim.Close)
	b.stage = demo.NewStage(b.sim, githubsim.App{WebhookURL: "http://" + b.ingress.Addr().String() + "/webhooks/github", WebhookSecret: secret}, checkName)
	b.stage.Patience = 3 * time.Minute
	return b
}

// environ is what production would set, for every service.
func (b *bench) environ() map[string]string {
	return map[string]string{
		"COUNTERSIGN_NATS_URL": b.nats.URL(), "COUNTERSIGN_GITHUB_API_URL": b.sim.URL(), "COUNTERSIGN_GITHUB_APP_ID": fmt.Sprint(b.stage.World.App.ID),
		"COUNTERSIGN_GITHUB_PRIVATE_KEY": string(b.stage.World.App.PEM), "COUNTERSIGN_WEBHOOK_SECRET": secret,
		"COUNTERSIGN_OTLP_ENDPOINT": b.otlp,
	}
}

// start runs the whole system in this process.
func (b *bench) start(t *testing.T, replicas int) *system.System {
	t.Helper()
	counts := map[string]int{}
	for _, s := range system.Services {
		counts[s] = replicas
	}
	sys, err := system.Start(t.Context(), system.Options{
		RoleURL: func(role string) string { return b.db.URL(storetest.Role(role)) }, Environ: b.environ(), Replicas: counts, Ingress: b.ingress, Log: b.log,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.stop(t, sys) })
	ready, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := sys.Ready(ready); err != nil {
		t.Fatal(err)
	}
	return sys
}

func (b *bench) stop(t *testing.T, sys *system.System) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := sys.Stop(ctx); err != nil {
		t.Errorf("stop: %v", err)
	}
}

// play plays the story to its end.
func (b *bench) play(t *testing.T) {
	t.Helper()
	err := b.stage.Play(t.Context(), func(r demo.Result) { t.Logf("%8s  %-11s  %s", r.Took.Round(time.Millisecond), r.Status, r.Step) })
	if err != nil {
		t.Fatal(err)
	}
}

// noLeaseLeft: whoever stopped gave back what it held.
func (b *bench) noLeaseLeft(t *testing.T) {
	t.Helper()
	held, err := b.db.Store(storetest.Reader).HeldLeases(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range held {
		t.Errorf("left behind: %s", h)
	}
}

// startUnready runs the system without waiting for readiness, which NATS's absence degrades.
func (b *bench) startUnready(t *testing.T) *system.System {
	t.Helper()
	sys, err := system.Start(t.Context(), system.Options{
		RoleURL: func(role string) string { return b.db.URL(storetest.Role(role)) }, Environ: b.environ(), Ingress: b.ingress, Log: b.log,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.stop(t, sys) })
	return sys
}

// playUntil plays the story until ctx ends.
func (b *bench) playUntil(ctx context.Context) error { return b.stage.Play(ctx, func(demo.Result) {}) }
