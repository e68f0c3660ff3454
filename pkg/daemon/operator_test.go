package daemon

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

func fetchURL(t *testing.T, url string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

func TestOperatorAddress(t *testing.T) {
	t.Parallel()
	const secret = "webhook-secret-of-32-bytes-exactly"
	rt, out := newRuntime(t, "ingress", secret)
	rt.SetIdentity(Identity{
		GitHubAPIURL: "https://api.github.com/", AppID: 7, CheckName: "Countersign / approval",
		PolicyPath: ".github/countersign.toml", OrganizationRepository: ".github",
	})
	deliveries := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "countersign_ingress_deliveries_total", Help: "h"}, []string{"event", "result"})
	rt.Registry.MustRegister(deliveries)
	deliveries.WithLabelValues("push", "accepted").Inc()
	server := httptest.NewServer(OperatorHandler(rt))
	t.Cleanup(server.Close)

	t.Run("RG-470 the root says name, version and documentation and is not stored", func(t *testing.T) {
		t.Parallel()
		resp, body := fetchURL(t, server.URL+"/")
		var got map[string]string
		if err := json.Unmarshal([]byte(body), &got); err != nil {
			t.Fatal(err)
		}
		if got["name"] != "Countersign" || got["version"] == "" || !strings.HasPrefix(got["documentation"], "https://") || got["service"] != "ingress" {
			t.Errorf("%s", body)
		}
		if resp.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("headers %v", resp.Header)
		}
		if resp, _ := fetchURL(t, server.URL+"/nothing"); resp.StatusCode != http.StatusNotFound {
			t.Errorf("an unknown path: %d", resp.StatusCode)
		}
	})

	t.Run("RG-474 metrics are exposed and no label names a repository, pull request, person, path, commit or delivery", func(t *testing.T) {
		t.Parallel()
		_, body := fetchURL(t, server.URL+"/metrics")
		for _, want := range []string{`countersign_ingress_deliveries_total{event="push",result="accepted"} 1`, "countersign_build_info{"} {
			if !strings.Contains(body, want) {
				t.Errorf("%s is not in the metrics:\n%s", want, body)
			}
		}
		if err := CheckMetrics(rt.Registry); err != nil {
			t.Error(err)
		}
		for _, label := range []string{"repo", "pr", "actor", "path", "sha", "delivery_id"} {
			reg := prometheus.NewRegistry()
			vec := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "countersign_x_total", Help: "h"}, []string{label})
			reg.MustRegister(vec)
			vec.WithLabelValues("v").Inc()
			if err := CheckMetrics(reg); err == nil {
				t.Errorf("label %s passes", label)
			}
		}
	})

	t.Run("RG-475 the runtime identity has every field and no secret", func(t *testing.T) {
		t.Parallel()
		resp, body := fetchURL(t, server.URL+"/api/runtime-identity")
		var got map[string]any
		if err := json.Unmarshal([]byte(body), &got); err != nil {
			t.Fatal(err)
		}
		var keys []string
		for k, v := range got {
			if v != nil && v != "" {
				keys = append(keys, k)
			}
		}
		slices.Sort(keys)
		want := []string{"app_id", "backend", "check_name", "environment", "github_api_url", "go", "organization_repository",
			"policy_path", "replica", "revision", "schema_version", "service", "version"}
		if !slices.Equal(keys, want) {
			t.Errorf("fields %v, want %v", keys, want)
		}
		if got["schema_version"] != 1.0 || got["backend"] != "postgres" || got["app_id"] != 7.0 {
			t.Errorf("%s", body)
		}
		if strings.Contains(body, secret) {
			t.Errorf("a secret in %s", body)
		}
		if resp.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("headers %v", resp.Header)
		}
	})

	t.Run("pprof is there, without the command line that may hold a secret", func(t *testing.T) {
		t.Parallel()
		if resp, _ := fetchURL(t, server.URL+"/debug/pprof/goroutine?debug=1"); resp.StatusCode != http.StatusOK {
			t.Errorf("goroutines: %d", resp.StatusCode)
		}
		if resp, body := fetchURL(t, server.URL+"/debug/pprof/cmdline"); resp.StatusCode != http.StatusNotFound {
			t.Errorf("cmdline: %d %q", resp.StatusCode, body)
		}
	})

	t.Run("a name that a browser was led to by is refused on loopback", func(t *testing.T) {
		t.Parallel()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = "rebound.example:9090"
		transport := &http.Transport{}
		defer transport.CloseIdleConnections()
		resp, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusMisdirectedRequest {
			t.Errorf("%d", resp.StatusCode)
		}
		for host, want := range map[string]bool{"127.0.0.1:9090": true, "localhost": true, "[::1]:1": true, "10.0.0.1:9090": false, "example.com": false} {
			if isLoopback(host) != want {
				t.Errorf("isLoopback(%s) = %t", host, !want)
			}
		}
	})

	t.Run("RG-478 requests are not logged", func(t *testing.T) {
		t.Parallel()
		fetchURL(t, server.URL+"/?code=one-use-code-in-a-query")
		if strings.Contains(out.String(), "one-use-code") || strings.Contains(out.String(), "GET") {
			t.Errorf("%s", out)
		}
	})
}

func TestOperatorAddressIsNotPublicByDefault(t *testing.T) {
	t.Parallel()
	t.Run("RG-479 health and metrics listen on loopback unless an operator says otherwise", func(t *testing.T) {
		t.Parallel()
		c, err := Load[Config](nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		host, _, err := net.SplitHostPort(c.OperatorListen)
		if err != nil || !net.ParseIP(host).IsLoopback() {
			t.Errorf("default %q, %v", c.OperatorListen, err)
		}
		// A public listener serves its own handler alone: what libraries put on the default mux stays off it.
		public := http.NewServeMux()
		public.HandleFunc("POST /webhooks/github", func(http.ResponseWriter, *http.Request) {})
		rt, _ := newRuntime(t, "ingress")
		ln, err := Listen(t.Context(), "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- Serve(ctx, ln, public, rt.Log, time.Second) }()
		for _, path := range []string{"/", "/metrics", "/health/live", "/health/ready", "/debug/pprof/", "/debug/vars", "/api/runtime-identity"} {
			if code, _ := get(t, "http://"+ln.Addr().String()+path); code != http.StatusNotFound {
				t.Errorf("%s on the public listener: %d", path, code)
			}
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		ln, err = Listen(t.Context(), "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		if err := Serve(t.Context(), ln, nil, rt.Log, time.Second); err == nil {
			t.Error("a nil handler would serve the default mux")
		}
	})
}

func TestSeveralServicesInOneProcess(t *testing.T) {
	t.Parallel()
	one, _ := newRuntime(t, "ingress")
	two, _ := newRuntime(t, "evaluator")
	for _, rt := range []*Runtime{one, two} {
		same := prometheus.NewGauge(prometheus.GaugeOpts{Name: "countersign_nudge_connected", Help: "h"})
		found := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "countersign_work_found_total", Help: "h"}, []string{"service", "via"})
		rt.Registry.MustRegister(same, found)
		found.WithLabelValues(rt.Service, "poll").Inc()
	}
	one.Health.Require("database", func(context.Context) error { return nil })
	server := httptest.NewServer(OperatorHandler(one, two))
	defer server.Close()
	_, body := fetchURL(t, server.URL+"/metrics")
	for _, want := range []string{
		`countersign_nudge_connected{service="ingress"} 0`, `countersign_nudge_connected{service="evaluator"} 0`,
		`countersign_work_found_total{service="ingress",via="poll"} 1`, `countersign_work_found_total{service="evaluator",via="poll"} 1`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("%s is not in:\n%s", want, body)
		}
	}
	if code, body := get(t, server.URL+"/health/ready"); code != 503 || !strings.Contains(body, "evaluator/start") || !strings.Contains(body, "ingress/database") {
		t.Errorf("%d %s", code, body)
	}
	two.Health.Require("database", func(context.Context) error { return nil })
	if code, body := get(t, server.URL+"/health/ready"); code != 200 {
		t.Errorf("%d %s", code, body)
	}
	if _, body := fetchURL(t, server.URL+"/api/runtime-identity"); !strings.HasPrefix(body, "[") || !strings.Contains(body, "evaluator") {
		t.Errorf("%s", body)
	}
}

func TestInstrumentationMayNotGrowTheRegistry(t *testing.T) {
	t.Parallel()
	rt, _ := newRuntime(t, "ingress")
	counter, err := rt.MeterProvider.Meter("library").Int64Counter("http.server.requests")
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"a.example", "b.example"} {
		counter.Add(t.Context(), 1, metricAttributes("server.address", host, "http.request.method", "POST"))
	}
	families, err := rt.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "http_server_requests_total" {
			continue
		}
		if len(f.GetMetric()) != 1 || f.GetMetric()[0].GetCounter().GetValue() != 2 {
			t.Errorf("%v", f)
		}
		return
	}
	t.Error("the library's metric is not in the registry")
}

func metricAttributes(pairs ...string) metric.MeasurementOption {
	var set []attribute.KeyValue
	for i := 0; i < len(pairs); i += 2 {
		set = append(set, attribute.String(pairs[i], pairs[i+1]))
	}
	return metric.WithAttributes(set...)
}

func TestServeDrains(t *testing.T) {
	t.Parallel()
	serve := func(t *testing.T, drain time.Duration) (url string, began, release chan struct{}, stop func() error) {
		rt, _ := newRuntime(t, "ingress")
		ln, err := Listen(t.Context(), "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		began, release = make(chan struct{}), make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			close(began)
			<-release
			if r.Context().Err() == nil {
				w.WriteHeader(http.StatusAccepted)
			}
		})
		go func() { ended <- Serve(ctx, ln, handler, rt.Log, drain) }()
		return "http://" + ln.Addr().String() + "/", began, release, func() error {
			cancel()
			return <-ended
		}
	}

	t.Run("a request in flight is answered and no new one is taken", func(t *testing.T) {
		t.Parallel()
		url, began, release, stop := serve(t, 20*time.Second)
		code := make(chan int, 1)
		go func() {
			resp, _ := fetchURL(t, url)
			code <- resp.StatusCode
		}()
		<-began
		stopped := make(chan error, 1)
		go func() { stopped <- stop() }()
		eventually(t, "the listener is closed", func() bool {
			var d net.Dialer
			c, err := d.DialContext(t.Context(), "tcp", strings.Trim(strings.TrimPrefix(url, "http://"), "/"))
			if err != nil {
				return true
			}
			c.Close()
			return false
		})
		close(release)
		if got := <-code; got != http.StatusAccepted {
			t.Errorf("answered %d", got)
		}
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})

	t.Run("a request that outlasts the drain is cut off and said", func(t *testing.T) {
		t.Parallel()
		url, began, release, stop := serve(t, 50*time.Millisecond)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			transport := &http.Transport{}
			defer transport.CloseIdleConnections()
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
			if err != nil {
				t.Error(err)
				return
			}
			if resp, err := transport.RoundTrip(req); err == nil {
				resp.Body.Close()
				t.Errorf("answered %d", resp.StatusCode)
			}
		}()
		<-began
		if err := stop(); err == nil || !strings.Contains(err.Error(), "drain") {
			t.Errorf("error %v", err)
		}
		<-ended
		close(release)
	})

	t.Run("a taken address names itself", func(t *testing.T) {
		t.Parallel()
		ln, err := Listen(t.Context(), "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		if _, err := Listen(t.Context(), ln.Addr().String()); err == nil || !strings.Contains(err.Error(), ln.Addr().String()) {
			t.Errorf("error %v", err)
		}
	})
}
