package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	dto "github.com/prometheus/client_model/go"
	"go.opentelemetry.io/otel/attribute"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/trace"
)

// httpAttributes are the only attributes an instrumentation library may turn
// into labels. A library's own set includes what strangers send (the Host
// header), which would let them grow the registry without end.
var httpAttributes = []attribute.Key{
	"http.request.method", "http.response.status_code", "http.route", "error.type", "network.protocol.version",
}

// newMetrics fills rt.Registry with what every service exposes and returns the
// provider whose instruments end up in the same registry.
func newMetrics(rt *Runtime, process bool) (metric.MeterProvider, func(context.Context) error, error) {
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "countersign_build_info",
		Help: "Always 1; the labels say what is running.",
	}, []string{"version", "revision", "go"})
	build.WithLabelValues(rt.Version.Version, rt.Version.Revision, rt.Version.Go).Set(1)
	all := []prometheus.Collector{build, healthMetrics{rt.Health}}
	if process {
		all = append(all, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	}
	for _, c := range all {
		if err := rt.Registry.Register(c); err != nil {
			return nil, nil, fmt.Errorf("register: %w", err)
		}
	}
	reader, err := otelprom.New(otelprom.WithRegisterer(rt.Registry), otelprom.WithoutTargetInfo(), otelprom.WithoutScopeInfo())
	if err != nil {
		return nil, nil, fmt.Errorf("open the exporter: %w", err)
	}
	provider := sdkmetric.NewMeterProvider(
		sdkmetric.WithReader(reader),
		sdkmetric.WithView(sdkmetric.NewView(
			sdkmetric.Instrument{Name: "*"},
			sdkmetric.Stream{AttributeFilter: attribute.NewAllowKeysFilter(httpAttributes...)},
		)),
	)
	return provider, provider.Shutdown, nil
}

var healthPassed = prometheus.NewDesc("countersign_health_passed",
	"1 where a check of readiness passes, 0 where it fails, asked at each look: database, nats, github_identity, merge_queues; start and stop while a service is neither.",
	[]string{"check"}, nil)

// healthMetrics shows readiness to whoever alerts on it: an operator who is not asked sees a dead database only by what no longer happens.
type healthMetrics struct{ health *Health }

func (healthMetrics) Describe(to chan<- *prometheus.Desc) { to <- healthPassed }

// Collect asks every check, at once and each within two seconds. Tasks that died are told by liveness, which ends the process.
func (m healthMetrics) Collect(to chan<- prometheus.Metric) {
	for name, passed := range m.health.checks(context.Background()) {
		v := 0.0
		if passed {
			v = 1
		}
		to <- prometheus.MustNewConstMetric(healthPassed, prometheus.GaugeValue, v, name)
	}
}

// forbiddenLabels name what no label may carry (RG-474): their values are
// without bound, and some are private.
var forbiddenLabels = []string{
	"repo", "repository", "pr", "pull", "pull_number", "user", "actor", "login", "path", "sha", "head_sha",
	"delivery", "delivery_id", "installation", "installation_id", "owner", "org", "branch", "ref", "url",
}

// CheckMetrics reports labels that RG-474 forbids. Services' tests call it on
// their registry after it has been exercised.
func CheckMetrics(g prometheus.Gatherer) error {
	families, err := g.Gather()
	if err != nil {
		return fmt.Errorf("gather: %w", err)
	}
	var errs []error
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if slices.Contains(forbiddenLabels, l.GetName()) {
					errs = append(errs, fmt.Errorf("metric %s has label %s=%q: labels are closed sets and never name a repository, pull request, person, path, commit or delivery (RG-474)", f.GetName(), l.GetName(), l.GetValue()))
				}
			}
		}
	}
	return errors.Join(errs...)
}

// ObserveTraced observes v and, where ctx has a span that is exported, names its trace in an exemplar: from a bar of a histogram
// to what happened. Exemplars leave in OpenMetrics answers only.
func ObserveTraced(ctx context.Context, o prometheus.Observer, v float64) {
	span := trace.SpanContextFromContext(ctx)
	if e, ok := o.(prometheus.ExemplarObserver); ok && span.IsSampled() {
		e.ObserveWithExemplar(v, prometheus.Labels{"trace_id": span.TraceID().String()})
		return
	}
	o.Observe(v)
}

// together gathers several services' registries as one: each metric that does
// not say which service it is gets a service label, so that none collide.
func together(rts []*Runtime) prometheus.Gatherer {
	if len(rts) == 1 {
		return rts[0].Registry
	}
	var all prometheus.Gatherers
	for _, rt := range rts {
		all = append(all, prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
			families, err := rt.Registry.Gather()
			for _, f := range families {
				for _, m := range f.GetMetric() {
					nameService(m, rt.Service)
				}
			}
			return families, err
		}))
	}
	return all
}

func nameService(m *dto.Metric, service string) {
	for _, l := range m.GetLabel() {
		if l.GetName() == KeyService {
			return
		}
	}
	name := KeyService
	m.Label = append(m.Label, &dto.LabelPair{Name: &name, Value: &service})
	slices.SortFunc(m.Label, func(a, b *dto.LabelPair) int {
		switch {
		case a.GetName() < b.GetName():
			return -1
		case a.GetName() > b.GetName():
			return 1
		}
		return 0
	})
}
