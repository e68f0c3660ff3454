package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Runtime is the plumbing of one service. Nothing in it is global, so several
// services live in one process, each with its own registry and health.
type Runtime struct {
	Service string
	// Replica tells this process from the service's others, in logs and leases.
	Replica string
	Version Version
	Config  Config
	Log     *slog.Logger
	// Registry is where the service's packages register their metrics.
	Registry *prometheus.Registry
	// Tracer makes the service's spans. TracerProvider, MeterProvider and
	// Propagator are for instrumentation libraries such as otelhttp.
	Tracer         trace.Tracer
	TracerProvider trace.TracerProvider
	MeterProvider  metric.MeterProvider
	Propagator     propagation.TextMapPropagator
	Health         *Health

	redact   *Redactor
	shutdown []func(context.Context) error

	mu       sync.Mutex
	identity Identity
}

// RuntimeOptions is what NewRuntime needs.
type RuntimeOptions struct {
	Service string
	Config  Config
	// Secrets are values no log line, health answer or span may hold (I10). SecretsOf finds them in a config.
	Secrets []string
	// Output receives the log; nil means standard error.
	Output io.Writer
	// ProcessMetrics adds the Go runtime's and the process's metrics: true for one Runtime a process.
	ProcessMetrics bool
}

// Identity is what GET /api/runtime-identity says besides the version (RG-475).
// It has no field a secret could be put in.
type Identity struct {
	GitHubAPIURL           string `json:"github_api_url,omitempty"`
	AppID                  int64  `json:"app_id,omitempty"`
	Backend                string `json:"backend,omitempty"`
	CheckName              string `json:"check_name,omitempty"`
	PolicyPath             string `json:"policy_path,omitempty"`
	OrganizationRepository string `json:"organization_repository,omitempty"`
}

// NewRuntime builds a service's plumbing. It opens no listener and dials nobody.
func NewRuntime(ctx context.Context, o RuntimeOptions) (*Runtime, error) {
	if o.Service == "" {
		return nil, errors.New("new runtime: no service name")
	}
	level, err := parseLevel(o.Config.LogLevel)
	if err != nil {
		return nil, fmt.Errorf("COUNTERSIGN_LOG_LEVEL: %w", err)
	}
	if o.Output == nil {
		o.Output = os.Stderr
	}
	rt := &Runtime{
		Service:    o.Service,
		Replica:    o.Config.Replica,
		Version:    CurrentVersion(),
		Config:     o.Config,
		Registry:   prometheus.NewRegistry(),
		Propagator: w3c,
		redact:     &Redactor{},
		identity:   Identity{Backend: "postgres"},
	}
	if rt.Replica == "" {
		rt.Replica = defaultReplica()
	}
	rt.redact.Add(o.Secrets...)
	rt.Log = NewLogger(o.Output, level, rt.redact).With(KeyService, rt.Service, KeyReplica, rt.Replica)
	rt.Health = NewHealth(rt.redact)
	if err := rt.openTelemetry(ctx, o); err != nil {
		return nil, err
	}
	return rt, nil
}

func (rt *Runtime) openTelemetry(ctx context.Context, o RuntimeOptions) error {
	attrs := []attribute.KeyValue{
		attribute.String("service.name", "countersign-"+rt.Service),
		attribute.String("service.namespace", "countersign"),
		attribute.String("service.version", rt.Version.Version),
		attribute.String("service.instance.id", rt.Replica),
		attribute.String("deployment.environment.name", o.Config.Environment),
	}
	spans, stopSpans, err := newTracing(ctx, o.Config.OTLPEndpoint, attrs)
	if err != nil {
		return fmt.Errorf("set up tracing for %s: %w", rt.Service, err)
	}
	rt.TracerProvider = spans
	rt.Tracer = spans.Tracer("github.com/countersign/countersign/" + rt.Service)
	meters, stopMeters, err := newMetrics(rt, o.ProcessMetrics)
	if err != nil {
		return fmt.Errorf("set up metrics for %s: %w", rt.Service, errors.Join(err, stopSpans(ctx)))
	}
	rt.MeterProvider = meters
	rt.shutdown = append(rt.shutdown, stopSpans, stopMeters)
	return nil
}

// Close flushes spans, for at most five seconds. The Runtime may not be used after it.
func (rt *Runtime) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	var errs []error
	for _, stop := range rt.shutdown {
		errs = append(errs, stop(ctx))
	}
	rt.shutdown = nil
	return errors.Join(errs...)
}

// SetIdentity says what the service is configured to be, for /api/runtime-identity.
func (rt *Runtime) SetIdentity(id Identity) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if id.Backend == "" {
		id.Backend = "postgres"
	}
	rt.identity = id
}

// Redact returns s with every secret this service knows replaced.
func (rt *Runtime) Redact(s string) string { return rt.redact.String(s) }

// Task runs fn as a named local task: when it returns before ctx ends, the
// service is no longer live (RG-471). It returns fn's error.
func (rt *Runtime) Task(ctx context.Context, name string, fn func(context.Context) error) error {
	ended := rt.Health.Task(name)
	err := fn(ctx)
	ended(ctx.Err() != nil, err)
	return err
}

// DrainWithin is how long a service may let its running work finish after its
// ctx ended: the shutdown grace less a tenth, kept for closing what the work used.
func (rt *Runtime) DrainWithin() time.Duration {
	return rt.Config.ShutdownGrace - rt.Config.ShutdownGrace/10
}

func defaultReplica() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "unknown"
	}
	return fmt.Sprintf("%s-%d", host, os.Getpid())
}
