package ingress

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/countersign/countersign/pkg/daemon"
	"github.com/countersign/countersign/pkg/nudge"
	"github.com/countersign/countersign/pkg/nudge/nudgetest"
	"github.com/countersign/countersign/pkg/store/storetest"
)

// running is an ingress that Run serves, as its process would.
type running struct {
	rt   *daemon.Runtime
	log  *logBuffer
	addr string
	stop context.CancelFunc
	done chan error
}

func run(t *testing.T, cfg Config) *running {
	t.Helper()
	r := &running{log: &logBuffer{}, done: make(chan error, 1)}
	var err error
	r.rt, err = daemon.NewRuntime(t.Context(), daemon.RuntimeOptions{
		Service: "ingress", Config: daemon.Config{ShutdownGrace: 20 * time.Second}, Secrets: daemon.SecretsOf(cfg), Output: r.log,
	})
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	r.addr = cfg.Listener.Addr().String()
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	go func() { r.done <- Run(ctx, r.rt, cfg) }()
	t.Cleanup(func() {
		stop()
		if err := <-r.done; err != nil {
			t.Error(err)
		}
		if err := r.rt.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return r
}

func (r *running) ended(t *testing.T) error {
	t.Helper()
	r.stop()
	select {
	case err := <-r.done:
		r.done <- nil // for the clean-up
		return err
	case <-time.After(30 * time.Second):
		t.Fatal("Run did not return")
		return nil
	}
}

func (r *running) post(t *testing.T, event string, payload any) int {
	t.Helper()
	resp, err := http.DefaultClient.Do(request(t, "http://"+r.addr+Route, "d1", event, encode(t, payload)))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	return resp.StatusCode
}

// operator asks the operator surface.
func (r *running) operator(t *testing.T, path string) (int, string) {
	t.Helper()
	req := httptest.NewRequest(http.MethodGet, "http://127.0.0.1"+path, nil)
	w := httptest.NewRecorder()
	daemon.OperatorHandler(r.rt).ServeHTTP(w, req)
	return w.Code, w.Body.String()
}

func runConfig(db *storetest.DB, nats nudge.Config) Config {
	cfg := testConfig()
	cfg.Store, cfg.Nudge = db.Config(storetest.Ingress), nats
	return cfg
}

func TestRun(t *testing.T) {
	t.Parallel()
	t.Run("RG-474 RG-478 RG-479 a process receives webhooks, shows nothing else in public, and logs no access", func(t *testing.T) {
		t.Parallel()
		db := storetest.New(t)
		r := run(t, runConfig(db, nudgetest.New(t).Config("ingress")))
		if status := r.post(t, "pull_request", pullRequest("opened", 7, headA, "open")); status != http.StatusAccepted {
			t.Fatalf("status %d", status)
		}
		for _, path := range []string{"/", "/metrics", "/health/live", "/health/ready", "/debug/pprof/", "/api/runtime-identity", Route} {
			resp, err := http.Get("http://" + r.addr + path + "?code=one-use-code")
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if err != nil || resp.StatusCode/100 != 4 || strings.Contains(string(body), "countersign_") {
				t.Errorf("GET %s in public: %d %s", path, resp.StatusCode, body)
			}
		}
		if strings.Contains(r.log.String(), "one-use-code") {
			t.Error("a query string is in the log")
		}
		status, metrics := r.operator(t, "/metrics")
		for _, want := range []string{
			`countersign_ingress_deliveries_total{event="pull_request",result="accepted"} 1`, "countersign_ingress_request_duration_seconds_bucket",
			"countersign_ingress_in_flight_requests 0", `countersign_ingress_fast_path_total{result="unavailable"} 1`, "countersign_ingress_body_bytes_count 1",
		} {
			if status != http.StatusOK || !strings.Contains(metrics, want) {
				t.Errorf("%d: metrics lack %s", status, want)
			}
		}
		if err := daemon.CheckMetrics(r.rt.Registry); err != nil {
			t.Error(err)
		}
		if err := r.ended(t); err != nil {
			t.Errorf("Run after a stop: %v", err)
		}
		storetest.CheckInvariants(t, db)
	})
	t.Run("RG-472 readiness proves the database and, degraded, NATS, and says what is missing", func(t *testing.T) {
		t.Parallel()
		db, nats := storetest.New(t), nudgetest.New(t)
		r := run(t, runConfig(db, nats.Config("ingress")))
		ready := func(status int, what string) {
			t.Helper()
			nudgetest.Eventually(t, what, func() bool {
				code, body := r.operator(t, "/health/ready")
				return code == status && strings.Contains(body, what)
			})
		}
		ready(http.StatusOK, `"status":"ok"`)
		nats.Stop()
		ready(http.StatusOK, `"status":"degraded"`)
		if status := r.post(t, "pull_request", pullRequest("opened", 7, headA, "open")); status != http.StatusAccepted {
			t.Errorf("without NATS: status %d", status)
		}
		db.Exec("DELETE FROM goose_db_version")
		ready(http.StatusServiceUnavailable, `"database"`)
		if code, _ := r.operator(t, "/health/live"); code != http.StatusOK {
			t.Errorf("live %d: liveness is not the database's (RG-471)", code)
		}
	})
	t.Run("a stop answers what is in flight, whose rows are committed, and then returns", func(t *testing.T) {
		t.Parallel()
		db, nats := storetest.New(t), nudgetest.New(t)
		asked, hold := make(chan struct{}), make(chan struct{})
		stop, err := nats.Connect("invalidator").ServeInvalidate(t.Context(), 1, func(_ context.Context, q nudge.InvalidateRequest) (nudge.InvalidateReply, error) {
			if q.DeliveryID == "probe" {
				return nudge.InvalidateReply{}, nil
			}
			close(asked)
			<-hold
			return nudge.InvalidateReply{Outcome: nudge.OutcomeReset}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		bus := nats.Connect("ingress")
		nudgetest.Eventually(t, "the invalidator listens", func() bool {
			_, err := bus.AskInvalidate(t.Context(), nudge.InvalidateRequest{DeliveryID: "probe"})
			return err == nil
		})
		r := run(t, runConfig(db, nats.Config("ingress")))
		nudgetest.Eventually(t, "ingress is connected", func() bool {
			_, body := r.operator(t, "/health/ready")
			return strings.Contains(body, `"status":"ok"`) && !strings.Contains(body, "degraded")
		})
		status := make(chan int, 1)
		go func() { status <- r.post(t, "pull_request", pullRequest("opened", 7, headA, "open")) }()
		<-asked
		r.stop()
		nudgetest.Eventually(t, "nothing new is taken", func() bool {
			conn, err := net.Dial("tcp", r.addr)
			if err == nil {
				_ = conn.Close()
			}
			return err != nil
		})
		close(hold)
		if got := <-status; got != http.StatusAccepted {
			t.Errorf("the request in flight got %d, want 202", got)
		}
		if err := r.ended(t); err != nil {
			t.Errorf("Run: %v", err)
		}
		if n := db.QueryInt(deliveries); n != 1 {
			t.Errorf("%d deliveries, want 1", n)
		}
		storetest.CheckInvariants(t, db)
	})
	t.Run("a database that was never migrated is refused at the start", func(t *testing.T) {
		t.Parallel()
		db := storetest.New(t)
		db.Exec("DROP TABLE goose_db_version")
		r := run(t, runConfig(db, nudge.Config{}))
		err := <-r.done
		r.done <- nil
		if err == nil || !strings.Contains(err.Error(), "schema") {
			t.Errorf("Run: %v, want an error about the schema", err)
		}
	})
	t.Run("no secret is in a log line or an answer", func(t *testing.T) {
		t.Parallel()
		db := storetest.New(t)
		r := run(t, runConfig(db, nudge.Config{}))
		payload := with(pullRequest("opened", 7, headA, "open"), "pull_request.title", "private words of the body")
		r.post(t, "pull_request", payload)
		r.post(t, "pull_request", with(payload, "pull_request.head.sha", "private words of the body"))
		for _, text := range []string{secret, oldSecret, "private words"} {
			if strings.Contains(r.log.String(), text) {
				t.Errorf("%q is in the log: %s", text, r.log)
			}
		}
		if _, identity := r.operator(t, "/api/runtime-identity"); !json.Valid([]byte(identity)) || strings.Contains(identity, secret) || !strings.Contains(identity, "4242") {
			t.Errorf("identity %s", identity)
		}
	})
}

// A slow or stalling sender must not hold a request for ever: the listener's own bounds end it.
func TestServeBounds(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	entered := make(chan struct{})
	log := &logBuffer{}
	go func() {
		done <- serve(ctx, ln, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			close(entered)
			<-r.Context().Done()
		}), daemon.NewLogger(log, 0, nil), 50*time.Millisecond)
	}()
	go func() {
		if resp, err := http.Get("http://" + ln.Addr().String() + Route); err == nil {
			_ = resp.Body.Close()
		}
	}()
	<-entered
	stop()
	if err := <-done; !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a request that outlived the drain: %v, want an error that says so", err)
	}
}

func TestTrace(t *testing.T) {
	t.Parallel()
	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	st := &fakeStore{}
	s, err := New(Deps{Store: st, Bus: offline(), Config: testConfig(), Tracer: provider.Tracer("")})
	if err != nil {
		t.Fatal(err)
	}
	req := request(t, Route, "d1", "pull_request", encode(t, pullRequest("opened", 7, headA, "open")))
	const foreign = "0af7651916cd43dd8448eb211c80319c"
	req.Header.Set("Traceparent", "00-"+foreign+"-b7ad6b7169203331-01")
	s.ServeHTTP(httptest.NewRecorder(), req)
	if len(spans.Ended()) != 2 || spans.Ended()[0].Name() != "commit" || spans.Ended()[0].Parent().SpanID() != spans.Ended()[1].SpanContext().SpanID() {
		t.Fatalf("%d spans, want the request's and below it the commit's", len(spans.Ended()))
	}
	trace := spans.Ended()[1].SpanContext().TraceID().String()
	if len(st.traces) != 1 || !strings.Contains(st.traces[0], trace) || trace == foreign {
		t.Errorf("the row carries %q; want trace %s, and not the sender's", st.traces, trace)
	}
}
