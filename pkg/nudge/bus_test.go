package nudge_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/countersign/countersign/pkg/nudge"
	"github.com/countersign/countersign/pkg/nudge/nudgetest"
)

// silent is a loopback address that accepts connections and never speaks: the
// worst server there is.
func silent(t *testing.T) string {
	t.Helper()
	var lc net.ListenConfig
	ln, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var held []net.Conn
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			held = append(held, c)
			mu.Unlock()
		}
	})
	t.Cleanup(func() {
		ln.Close()
		wg.Wait()
		for _, c := range held {
			c.Close()
		}
	})
	return ln.Addr().String()
}

// vacant is a loopback address nobody listens on.
func vacant(t *testing.T) string {
	t.Helper()
	var lc net.ListenConfig
	ln, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

func TestConnectNeverWaits(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, url string }{
		{"no server configured", ""},
		{"nobody listens", "nats://" + vacant(t)},
		{"a server that never speaks", "nats://" + silent(t)},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			begin := time.Now()
			reg := prometheus.NewRegistry()
			bus, err := nudge.Connect(t.Context(), nudge.Config{URL: test.url}, nudge.Options{Name: "ingress", Metrics: reg})
			if err != nil {
				t.Fatal(err)
			}
			defer bus.Close()
			if err := bus.Wake(t.Context(), nudge.Wake{Subject: nudge.Invalidate}); !errors.Is(err, nudge.ErrUnavailable) {
				t.Errorf("Wake: %v, want ErrUnavailable", err)
			}
			if _, err := bus.AskInvalidate(t.Context(), nudge.InvalidateRequest{}); !errors.Is(err, nudge.ErrUnavailable) {
				t.Errorf("AskInvalidate: %v, want ErrUnavailable", err)
			}
			// The dial alone takes two seconds against the silent server.
			if took := time.Since(begin); took > 1900*time.Millisecond {
				t.Errorf("it took %s", took)
			}
			if bus.Connected() {
				t.Error("it says it is connected")
			}
			if err := bus.Check(t.Context()); err == nil {
				t.Error("the check sees nothing missing")
			}
			want := `
# HELP countersign_nudge_wakes_total Wake-ups sent after a commit, by subject and what became of them.
# TYPE countersign_nudge_wakes_total counter
countersign_nudge_wakes_total{result="unavailable",subject="countersign.v1.invalidate"} 1
# HELP countersign_nudge_requests_total Fast-path requests made, by result.
# TYPE countersign_nudge_requests_total counter
countersign_nudge_requests_total{result="unavailable"} 1
# HELP countersign_nudge_connected 1 while NATS is reachable.
# TYPE countersign_nudge_connected gauge
countersign_nudge_connected 0
`
			if err := testutil.GatherAndCompare(reg, strings.NewReader(want),
				"countersign_nudge_wakes_total", "countersign_nudge_requests_total", "countersign_nudge_connected"); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestNilBusIsUnavailable(t *testing.T) {
	t.Parallel()
	var bus *nudge.Bus
	if err := bus.Wake(t.Context(), nudge.Wake{Subject: nudge.Evaluate}); !errors.Is(err, nudge.ErrUnavailable) {
		t.Errorf("Wake: %v", err)
	}
	if _, err := bus.AskInvalidate(t.Context(), nudge.InvalidateRequest{}); !errors.Is(err, nudge.ErrUnavailable) {
		t.Errorf("AskInvalidate: %v", err)
	}
	if bus.Connected() || bus.Check(t.Context()) == nil {
		t.Error("a nil bus is connected")
	}
	bus.Close()
}

func TestBusComesBack(t *testing.T) {
	t.Parallel()
	ns := nudgetest.New(t)
	ns.Stop()
	bus := ns.Dial("ingress")
	if bus.Connected() {
		t.Fatal("connected to a server that is stopped")
	}
	ns.Restart()
	nudgetest.WaitConnected(t, bus)
	ns.Stop()
	nudgetest.Eventually(t, "the bus has noticed", func() bool { return !bus.Connected() })
	ns.Restart()
	nudgetest.WaitConnected(t, bus)
	if err := bus.Check(t.Context()); err != nil {
		t.Error(err)
	}
	bus.Close()
	if bus.Connected() {
		t.Error("connected after Close")
	}
}

func TestConfigRefusals(t *testing.T) {
	t.Parallel()
	const secret = "SUASECRETSECRETSECRET"
	for _, test := range []struct {
		name string
		cfg  nudge.Config
		want string
	}{
		{"another scheme", nudge.Config{URL: "http://127.0.0.1:4222"}, "COUNTERSIGN_NATS_URL"},
		{"one bad of two", nudge.Config{URL: "nats://127.0.0.1:4222,127.0.0.1:4223"}, "COUNTERSIGN_NATS_URL"},
		{"a password is not echoed", nudge.Config{URL: "http://u:" + secret + "@127.0.0.1"}, "COUNTERSIGN_NATS_URL"},
		{"both credentials", nudge.Config{Credentials: secret, NKeySeed: secret}, "both set"},
		{"no seed", nudge.Config{URL: "nats://127.0.0.1:1", NKeySeed: secret}, "COUNTERSIGN_NATS_NKEY_SEED"},
		{"no such CA", nudge.Config{URL: "nats://127.0.0.1:1", CAFile: "testdata/none.pem"}, "COUNTERSIGN_NATS_CA_FILE"},
		{"a CA that is none", nudge.Config{URL: "nats://127.0.0.1:1", CAFile: "bus_test.go"}, "COUNTERSIGN_NATS_CA_FILE"},
		{"storage", nudge.Config{Storage: "tape"}, `"tape"`},
		{"wake timeout", nudge.Config{WakeTimeout: time.Minute}, "COUNTERSIGN_NATS_WAKE_TIMEOUT"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := nudge.Connect(t.Context(), test.cfg, nudge.Options{Name: "ingress"})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("error %v does not name %s", err, test.want)
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("error echoes the secret: %v", err)
			}
		})
	}
}

func TestFastPath(t *testing.T) {
	t.Parallel()
	ask := nudge.InvalidateRequest{
		DeliveryID: "d-1", InstallationID: 7, RepositoryID: 8, PullNumber: 9,
		HeadSHA: strings.Repeat("a", 40), HeadGeneration: 3,
		Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	}

	t.Run("the request arrives whole and so does the answer", func(t *testing.T) {
		t.Parallel()
		ns := nudgetest.New(t)
		serving := ns.Connect("invalidator")
		got := make(chan nudge.InvalidateRequest, 1)
		want := nudge.InvalidateReply{Outcome: nudge.OutcomeReset, QueuedLiveHead: true}
		stop, err := serving.ServeInvalidate(t.Context(), 2, func(_ context.Context, q nudge.InvalidateRequest) (nudge.InvalidateReply, error) {
			got <- q
			return want, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		reply := askUntilServed(t, ns.Connect("ingress"), ask)
		if diff := cmp.Diff(want, reply); diff != "" {
			t.Errorf("reply (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(ask, <-got); diff != "" {
			t.Errorf("request (-want +got):\n%s", diff)
		}
	})

	t.Run("every outcome survives the wire", func(t *testing.T) {
		t.Parallel()
		ns := nudgetest.New(t)
		var next atomic.Int64
		stop, err := ns.Connect("invalidator").ServeInvalidate(t.Context(), 1, func(context.Context, nudge.InvalidateRequest) (nudge.InvalidateReply, error) {
			return nudge.InvalidateReply{Outcome: nudge.Outcome(next.Load())}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		bus := ns.Connect("ingress")
		seen := map[string]bool{}
		for o := nudge.OutcomeFailed; o <= nudge.OutcomeRateLimited; o++ {
			next.Store(int64(o))
			if got := askUntilServed(t, bus, ask).Outcome; got != o {
				t.Errorf("outcome %s arrived as %s", o, got)
			}
			seen[o.String()] = true
		}
		if len(seen) != 5 {
			t.Errorf("the outcomes have %d names, want 5: %v", len(seen), seen)
		}
	})

	t.Run("no invalidator is said at once", func(t *testing.T) {
		t.Parallel()
		bus := nudgetest.New(t).Connect("ingress")
		_, err := bus.AskInvalidate(t.Context(), ask)
		if !errors.Is(err, nudge.ErrNoResponder) {
			t.Errorf("error %v, want ErrNoResponder", err)
		}
	})

	t.Run("a slow invalidator is given up at the caller's deadline", func(t *testing.T) {
		t.Parallel()
		ns := nudgetest.New(t)
		release := make(chan struct{})
		stop, err := ns.Connect("invalidator").ServeInvalidate(t.Context(), 1, func(context.Context, nudge.InvalidateRequest) (nudge.InvalidateReply, error) {
			<-release
			return nudge.InvalidateReply{Outcome: nudge.OutcomeReset}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		defer close(release)
		bus := ns.Connect("ingress")
		for {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			_, err := bus.AskInvalidate(ctx, ask)
			cancel()
			if errors.Is(err, nudge.ErrNoResponder) {
				continue // not subscribed yet
			}
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("error %v, want a deadline", err)
			}
			return
		}
	})

	t.Run("an error or a panic claims nothing", func(t *testing.T) {
		t.Parallel()
		ns := nudgetest.New(t)
		var calls atomic.Int64
		stop, err := ns.Connect("invalidator").ServeInvalidate(t.Context(), 1, func(context.Context, nudge.InvalidateRequest) (nudge.InvalidateReply, error) {
			if calls.Add(1) == 1 {
				return nudge.InvalidateReply{Outcome: nudge.OutcomeReset}, errors.New("github is away")
			}
			panic("a bug")
		})
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		bus := ns.Connect("ingress")
		for range 2 {
			if got := askUntilServed(t, bus, ask); got != (nudge.InvalidateReply{}) {
				t.Errorf("answer %+v, want nothing claimed", got)
			}
		}
		if calls.Load() != 2 {
			t.Errorf("%d calls, want 2", calls.Load())
		}
	})

	t.Run("stop waits for the reset that runs", func(t *testing.T) {
		t.Parallel()
		ns := nudgetest.New(t)
		started, release := make(chan struct{}), make(chan struct{})
		var finished atomic.Bool
		ctx, cancel := context.WithCancel(t.Context())
		stop, err := ns.Connect("invalidator").ServeInvalidate(ctx, 1, func(ctx context.Context, _ nudge.InvalidateRequest) (nudge.InvalidateReply, error) {
			close(started)
			<-release
			finished.Store(ctx.Err() == nil)
			return nudge.InvalidateReply{Outcome: nudge.OutcomeReset}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		answered := make(chan nudge.InvalidateReply, 1)
		bus := ns.Connect("ingress")
		go func() { answered <- askUntilServed(t, bus, ask) }()
		<-started
		cancel()
		stopped := make(chan struct{})
		go func() { stop(); close(stopped) }()
		close(release)
		<-stopped
		if !finished.Load() {
			t.Error("stop returned before the reset had finished, or cancelled it")
		}
		if got := <-answered; got.Outcome != nudge.OutcomeReset {
			t.Errorf("answer %v, want the reset's own", got.Outcome)
		}
		stop()
	})

	t.Run("two replicas share the requests and each is answered once", func(t *testing.T) {
		t.Parallel()
		ns := nudgetest.New(t)
		var counts [2]atomic.Int64
		for i := range counts {
			stop, err := ns.Connect("invalidator").ServeInvalidate(t.Context(), 4, func(context.Context, nudge.InvalidateRequest) (nudge.InvalidateReply, error) {
				counts[i].Add(1)
				return nudge.InvalidateReply{Outcome: nudge.OutcomeReset}, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			defer stop()
		}
		bus := ns.Connect("ingress")
		nudgetest.Eventually(t, "both replicas have answered", func() bool {
			askUntilServed(t, bus, ask)
			return counts[0].Load() > 0 && counts[1].Load() > 0
		})
	})
}

// askUntilServed repeats a request while nobody has subscribed yet.
func askUntilServed(t *testing.T, bus *nudge.Bus, q nudge.InvalidateRequest) nudge.InvalidateReply {
	var reply nudge.InvalidateReply
	nudgetest.Eventually(t, "an invalidator answers", func() bool {
		var err error
		reply, err = bus.AskInvalidate(t.Context(), q)
		if err != nil && !errors.Is(err, nudge.ErrNoResponder) {
			t.Errorf("AskInvalidate: %v", err)
		}
		return err == nil
	})
	return reply
}
