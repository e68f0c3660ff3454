package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// w3c is the only propagation format: rows and nudges carry a traceparent and nothing else.
var w3c = propagation.TraceContext{}

// Traceparent returns the W3C traceparent of ctx's span, to be stored in a row;
// empty when there is none. Baggage and tracestate do not travel: a row must not
// carry what a stranger put into a header.
func Traceparent(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	w3c.Inject(ctx, carrier)
	return carrier["traceparent"]
}

// WithTraceparent returns ctx with s, read from a row or a nudge, as the remote
// parent of the next span. An empty or malformed s returns ctx without any parent.
func WithTraceparent(ctx context.Context, s string) context.Context {
	ctx = trace.ContextWithSpanContext(ctx, trace.SpanContext{})
	return w3c.Extract(ctx, propagation.MapCarrier{"traceparent": s})
}

// TraceLink returns a link to s, for a unit of work that several triggers
// coalesced into. ok is false when s is empty or malformed.
func TraceLink(s string) (link trace.Link, ok bool) {
	sc := trace.SpanContextFromContext(WithTraceparent(context.Background(), s))
	return trace.Link{SpanContext: sc}, sc.IsValid()
}

// newTracing returns the provider of spans and what ends it. Without an endpoint
// spans are not recorded, and a remote parent still passes through.
func newTracing(ctx context.Context, endpoint string, attrs []attribute.KeyValue) (trace.TracerProvider, func(context.Context) error, error) {
	if endpoint == "" {
		return noop.NewTracerProvider(), func(context.Context) error { return nil }, nil
	}
	u, err := url.Parse(endpoint)
	if err != nil {
		return nil, nil, fmt.Errorf("read the OTLP endpoint: %w", err)
	}
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(u.JoinPath("v1", "traces").String()))
	if err != nil {
		return nil, nil, fmt.Errorf("open the OTLP exporter: %w", err)
	}
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(exporter),
		sdktrace.WithResource(resource.NewSchemaless(attrs...)),
	)
	return provider, provider.Shutdown, nil
}

func checkEndpoint(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return errors.New("not an http or https URL; write for example http://127.0.0.1:4318")
	}
	if u.User != nil {
		return errors.New("holds a user name or password; give credentials in OTEL_EXPORTER_OTLP_HEADERS")
	}
	return nil
}
