package ghclient

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics of this package. Labels come from closed sets: operations are constants of this package, outcomes are outcomeOf's.
type metrics struct {
	requests *prometheus.CounterVec   // by operation and outcome; a coalesced read counts once, as "shared" for each who joined
	budget   *prometheus.GaugeVec     // least remaining budget of any installation, by resource
	latency  *prometheus.HistogramVec // of one request on the wire, by operation
	waiting  *prometheus.HistogramVec // for a slot, by lane
	pauses   *prometheus.CounterVec   // by kind
}

// newMetrics registers with r. Several Apps in one process share the collectors of the first.
func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		requests: register(r, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "countersign_github_requests_total",
			Help: "Requests to GitHub by operation and outcome; not_modified cost no budget, refused and shared were not sent.",
		}, []string{"operation", "outcome"})),
		budget: register(r, prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "countersign_github_budget_remaining",
			Help: "Requests (core) or points (graphql) left in this hour to the installation that has fewest.",
		}, []string{"resource"})),
		latency: register(r, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "countersign_github_request_duration_seconds",
			Help:    "Time from sending a request to having read its answer.",
			Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20},
		}, []string{"operation"})),
		waiting: register(r, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "countersign_github_lane_wait_seconds",
			Help:    "Time a request waited for a slot, by lane.",
			Buckets: []float64{.001, .01, .05, .25, 1, 5, 20, 60},
		}, []string{"lane"})),
		pauses: register(r, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "countersign_github_pauses_total",
			Help: "Answers by which GitHub asked an installation to wait, by kind: primary (the hour's budget is spent), secondary (too fast).",
		}, []string{"kind"})),
	}
	for _, kind := range []string{"primary", "secondary"} {
		m.pauses.WithLabelValues(kind) // begins at zero, so that an alert sees the first one too
	}
	return m
}

// expose says at each look how many installations must be left alone. The first App of a registry is the one asked.
func (b *budgets) expose(r prometheus.Registerer) {
	register[prometheus.Collector](r, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "countersign_github_paused_installations",
		Help: "Installations that this replica leaves alone until GitHub's delay is over.",
	}, func() float64 {
		b.mu.Lock()
		defer b.mu.Unlock()
		paused := 0
		for _, l := range b.ledgers {
			if l.pausedUntil.After(b.now()) {
				paused++
			}
		}
		return float64(paused)
	}))
}

func register[C prometheus.Collector](r prometheus.Registerer, c C) C {
	if r == nil {
		return c
	}
	var already prometheus.AlreadyRegisteredError
	if err := r.Register(c); errors.As(err, &already) {
		if existing, ok := already.ExistingCollector.(C); ok {
			return existing
		}
	}
	return c
}
