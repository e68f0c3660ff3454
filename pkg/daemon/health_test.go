package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestLiveness(t *testing.T) {
	t.Parallel()
	t.Run("RG-471 only a dead local task makes it 503, whatever the database and GitHub say", func(t *testing.T) {
		t.Parallel()
		rt, _ := newRuntime(t, "evaluator")
		rt.Health.Require("database", func(context.Context) error { return errors.New("away") })
		rt.Health.Require("github_identity", func(context.Context) error { return errors.New("away") })
		server := httptest.NewServer(OperatorHandler(rt))
		defer server.Close()
		if code, body := get(t, server.URL+"/health/live"); code != http.StatusOK {
			t.Errorf("without tasks: %d %s", code, body)
		}
		ctx, cancel := context.WithCancel(t.Context())
		release := make(chan error)
		ended := make(chan error, 2)
		go func() {
			ended <- rt.Task(ctx, "work", func(context.Context) error { return <-release })
		}()
		go func() {
			ended <- rt.Task(ctx, "told", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		}()
		eventually(t, "both tasks are there", func() bool { f, _ := rt.Health.Live(); return len(f) == 2 })
		if code, body := get(t, server.URL+"/health/live"); code != http.StatusOK {
			t.Errorf("while they run: %d %s", code, body)
		}
		release <- errors.New("the queue is broken: token ghs_abcdefghijklmnopqrstuvwxyz")
		<-ended
		code, body := get(t, server.URL+"/health/live")
		if code != http.StatusServiceUnavailable || !strings.Contains(body, "work") || !strings.Contains(body, "the queue is broken") {
			t.Errorf("after its death: %d %s", code, body)
		}
		if strings.Contains(body, "abcdefgh") {
			t.Errorf("a token is shown: %s", body)
		}
		if code, body := get(t, server.URL+"/health/ready"); code != http.StatusServiceUnavailable || !strings.Contains(body, "work") {
			t.Errorf("ready with a dead task: %d %s", code, body)
		}
		cancel()
		<-ended
		if findings, _ := rt.Health.Live(); len(findings) != 1 {
			t.Errorf("a task that was told to stop is still shown: %v", findings)
		}
	})
}

func TestReadiness(t *testing.T) {
	t.Parallel()

	t.Run("RG-472 ready only with a recent identity proof, a compatible database and live tasks", func(t *testing.T) {
		t.Parallel()
		rt, _ := newRuntime(t, "evaluator")
		var appID atomic.Int64
		appID.Store(7)
		github := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `{"id":%d}`, appID.Load())
		}))
		defer github.Close()
		client := github.Client()
		defer client.CloseIdleConnections()
		fetch := func(ctx context.Context) (int64, error) {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, github.URL+"/app", nil)
			if err != nil {
				return 0, err
			}
			resp, err := client.Do(req)
			if err != nil {
				return 0, err
			}
			defer resp.Body.Close()
			var app struct{ ID int64 }
			return app.ID, json.NewDecoder(resp.Body).Decode(&app)
		}
		probe, err := NewIdentityProbe(rt.Health, IdentityConfig{Interval: time.Second, FreshFor: 2 * time.Second}, 7, fetch)
		if err != nil {
			t.Fatal(err)
		}
		var database atomic.Value
		database.Store(errors.New("the database is at migration 3, this binary needs 4; run countersign database migrate"))
		rt.Health.Require("database", func(context.Context) error {
			if err := database.Load().(error); !errors.Is(err, errNothing) {
				return err
			}
			return nil
		})
		server := httptest.NewServer(OperatorHandler(rt))
		defer server.Close()
		expect := func(code int, parts ...string) {
			t.Helper()
			got, body := get(t, server.URL+"/health/ready")
			if got != code {
				t.Errorf("%d, want %d: %s", got, code, body)
			}
			for _, part := range parts {
				if !strings.Contains(body, part) {
					t.Errorf("%q is not in %s", part, body)
				}
			}
		}
		expect(503, "github_identity", "not proved yet", "migration 3")
		probe.once(t.Context())
		expect(503, "migration 3")
		database.Store(errNothing)
		expect(200, `"status":"ready"`)

		died := rt.Health.Task("work")
		expect(200)
		died(false, errors.New("broken"))
		expect(503, "work", "broken")
		rt.Health.Task("work")
		expect(200)

		// Another App's key: the old proof runs out and says so.
		appID.Store(8)
		probe.once(t.Context())
		probe.mu.Lock()
		probe.proved = time.Now().Add(-3 * time.Second)
		probe.mu.Unlock()
		expect(503, "App 8", "says 7")

		rt.Health.Stopping()
		expect(503, "told to stop")
	})

	t.Run("what is preferred is shown as degraded and leaves it ready", func(t *testing.T) {
		t.Parallel()
		rt, _ := newRuntime(t, "ingress")
		server := httptest.NewServer(OperatorHandler(rt))
		defer server.Close()
		rt.Health.Prefer("nats", func(context.Context) error { return errors.New("nats is not connected") })
		if code, body := get(t, server.URL+"/health/ready"); code != 503 || !strings.Contains(body, "not finished starting") {
			t.Errorf("before any required check: %d %s", code, body)
		}
		rt.Health.Require("database", func(context.Context) error { return nil })
		code, body := get(t, server.URL+"/health/ready")
		if code != 200 || !strings.Contains(body, `"status":"degraded"`) || !strings.Contains(body, "nats is not connected") {
			t.Errorf("%d %s", code, body)
		}
	})

	t.Run("a check that hangs is given up and named", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			h := NewHealth(&Redactor{})
			h.Require("database", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
			begin := time.Now()
			findings, worst := h.Ready(t.Context())
			if took := time.Since(begin); took != checkTimeout {
				t.Errorf("it took %s", took)
			}
			if worst != StatusFailed || !strings.Contains(findings[0].Missing, "no answer within") {
				t.Errorf("%s %v", worst, findings)
			}
		})
	})
}

var errNothing = errors.New("nothing")

func TestProbe(t *testing.T) {
	t.Parallel()

	t.Run("RG-473 one failed probe keeps it ready until the window ends and a later one restores it", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			h := NewHealth(&Redactor{})
			var broken atomic.Bool
			probe, err := NewProbe(h, "github_identity", 30*time.Second, 90*time.Second, func(context.Context) error {
				if broken.Load() {
					return errors.New("GitHub answered 502")
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			ready := func() bool { _, worst := h.Ready(t.Context()); return worst == StatusOK }
			if ready() {
				t.Error("ready before the first probe")
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- probe.Run(ctx) }()
			synctest.Wait()
			if !ready() {
				t.Error("not ready after the first probe")
			}
			broken.Store(true)
			time.Sleep(90 * time.Second)
			synctest.Wait()
			if !ready() {
				t.Error("not ready within the window")
			}
			time.Sleep(time.Second)
			findings, worst := h.Ready(t.Context())
			if worst != StatusFailed || !strings.Contains(findings[0].Missing, "502") {
				t.Errorf("after the window: %s %v", worst, findings)
			}
			broken.Store(false)
			time.Sleep(30 * time.Second)
			synctest.Wait()
			if !ready() {
				t.Error("a later probe did not restore it")
			}
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	})

	t.Run("a probe that hangs ends with its interval", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			h := NewHealth(&Redactor{})
			probe, err := NewProbe(h, "p", time.Second, 2*time.Second, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
			if err != nil {
				t.Fatal(err)
			}
			begin := time.Now()
			probe.once(t.Context())
			if took := time.Since(begin); took != time.Second {
				t.Errorf("it took %s", took)
			}
		})
	})
}

func TestIdentityFreshness(t *testing.T) {
	t.Parallel()
	t.Run("RG-453 at least twice the interval, 30 and 90 seconds by default", func(t *testing.T) {
		t.Parallel()
		c, err := Load[IdentityConfig](nil, nil)
		if err != nil || c.Interval != 30*time.Second || c.FreshFor != 90*time.Second {
			t.Errorf("defaults %+v, %v", c, err)
		}
		if _, err := Load[IdentityConfig]([]string{"--identity-fresh-for=60s"}, nil); err != nil {
			t.Errorf("exactly twice: %v", err)
		}
		_, err = Load[IdentityConfig]([]string{"--identity-fresh-for=59s"}, nil)
		if err == nil || !strings.Contains(err.Error(), "COUNTERSIGN_IDENTITY_FRESH_FOR") {
			t.Errorf("less than twice: %v", err)
		}
		if _, err := NewProbe(NewHealth(&Redactor{}), "p", time.Minute, time.Minute, nil); err == nil {
			t.Error("a probe with such a window was made")
		}
		if _, err := Load[IdentityConfig]([]string{"--identity-probe-interval=0s"}, nil); err == nil {
			t.Error("an interval of zero")
		}
	})
}

// get returns the status and body of url.
func get(t *testing.T, url string) (int, string) {
	t.Helper()
	resp, body := fetchURL(t, url)
	return resp.StatusCode, body
}

// What readiness says is a metric too, so that an alert sees a dead database without asking every replica.
func TestHealthIsAMetric(t *testing.T) {
	t.Parallel()
	rt, _ := newRuntime(t, "evaluator")
	value := func(check string) (v float64, found bool) {
		t.Helper()
		families, err := rt.Registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				if f.GetName() == "countersign_health_passed" && m.GetLabel()[0].GetValue() == check {
					return m.GetGauge().GetValue(), true
				}
			}
		}
		return 0, false
	}
	if v, found := value("start"); !found || v != 0 {
		t.Errorf("start %v, %t before any check is registered; want 0", v, found)
	}
	var down error
	rt.Health.Require("database", func(context.Context) error { return nil })
	rt.Health.Prefer("nats", func(context.Context) error { return down })
	if _, found := value("start"); found {
		t.Error("start is still shown after a check was registered")
	}
	down = errors.New("no server")
	for check, want := range map[string]float64{"database": 1, "nats": 0} {
		if v, found := value(check); !found || v != want {
			t.Errorf("%s %v, %t; want %v", check, v, found, want)
		}
	}
	rt.Health.Stopping()
	if v, found := value("stop"); !found || v != 0 {
		t.Errorf("stop %v, %t while stopping; want 0", v, found)
	}
}
