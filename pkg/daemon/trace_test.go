package daemon

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func TestTraceContextSurvivesARow(t *testing.T) {
	t.Parallel()
	provider := sdktrace.NewTracerProvider()
	ctx, span := provider.Tracer("t").Start(t.Context(), "webhook")
	stored := Traceparent(ctx)
	_, child := provider.Tracer("t").Start(WithTraceparent(t.Context(), stored), "evaluate")
	if child.SpanContext().TraceID() != span.SpanContext().TraceID() {
		t.Errorf("the evaluation is in trace %s, the webhook in %s", child.SpanContext().TraceID(), span.SpanContext().TraceID())
	}
	link, ok := TraceLink(stored)
	if !ok || link.SpanContext.SpanID() != span.SpanContext().SpanID() {
		t.Errorf("link %v, %t", link, ok)
	}
}

func TestTraceContextWithoutTracing(t *testing.T) {
	t.Parallel()
	// No exporter: nothing is recorded, and what came from outside still travels.
	rt, _ := newRuntime(t, "ingress")
	ctx, _ := rt.Tracer.Start(WithTraceparent(t.Context(), parent), "webhook")
	if got := Traceparent(ctx); got != parent {
		t.Errorf("traceparent %q, want %q", got, parent)
	}
	if got := Traceparent(t.Context()); got != "" {
		t.Errorf("traceparent %q of nothing", got)
	}
	for _, bad := range []string{"", "x", "00-0-0-0", parent + "-more", strings.Repeat("0", 55)} {
		// An unreadable row must not be joined to whatever trace reads it.
		if sc := trace.SpanContextFromContext(WithTraceparent(ctx, bad)); sc.IsValid() {
			t.Errorf("%q gives the parent %v", bad, sc)
		}
		if _, ok := TraceLink(bad); ok {
			t.Errorf("%q gives a link", bad)
		}
	}
}

func TestSpansAreExported(t *testing.T) {
	t.Parallel()
	type request struct{ path, body string }
	got := make(chan request, 8)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got <- request{r.URL.Path, string(body)}
	}))
	defer collector.Close()
	c := testConfig(t)
	c.OTLPEndpoint = collector.URL
	c.Environment = "rehearsal"
	rt, err := NewRuntime(t.Context(), RuntimeOptions{Service: "evaluator", Config: c, Output: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	_, span := rt.Tracer.Start(context.Background(), "evaluate the pull request")
	span.End()
	if err := rt.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	req := <-got
	if req.path != "/v1/traces" {
		t.Errorf("sent to %s", req.path)
	}
	// The body is protobuf; its strings are plain in it.
	for _, want := range []string{"evaluate the pull request", "service.name", "countersign-evaluator", "rehearsal", "r-1"} {
		if !strings.Contains(req.body, want) {
			t.Errorf("%q was not exported", want)
		}
	}
}

func TestEndpointRefusals(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"collector:4318", "grpc://127.0.0.1:4317", "http://", "http://u:opensesame@127.0.0.1:4318"} {
		err := checkEndpoint(bad)
		if err == nil {
			t.Errorf("%s passes", bad)
		} else if strings.Contains(err.Error(), "opensesame") {
			t.Errorf("the error echoes the password: %v", err)
		}
	}
	for _, good := range []string{"http://127.0.0.1:4318", "https://otel.example/base"} {
		if err := checkEndpoint(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
}

func TestObserveTraced(t *testing.T) {
	t.Parallel()
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "x_seconds", Buckets: []float64{1}})
	sampled, span := sdktrace.NewTracerProvider().Tracer("t").Start(t.Context(), "webhook")
	ObserveTraced(t.Context(), h, 0.5)
	if e := exemplar(t, h); e != nil {
		t.Errorf("without a trace there is the exemplar %v", e)
	}
	ObserveTraced(sampled, h, 0.5)
	e := exemplar(t, h)
	if e == nil || e.GetLabel()[0].GetName() != "trace_id" || e.GetLabel()[0].GetValue() != span.SpanContext().TraceID().String() {
		t.Errorf("exemplar %v, want the trace %s", e, span.SpanContext().TraceID())
	}
}

func exemplar(t *testing.T, h prometheus.Histogram) *dto.Exemplar {
	t.Helper()
	var m dto.Metric
	if err := h.Write(&m); err != nil {
		t.Fatal(err)
	}
	return m.GetHistogram().GetBucket()[0].GetExemplar()
}
