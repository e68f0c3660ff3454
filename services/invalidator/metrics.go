package invalidator

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/countersign/countersign/pkg/nudge"
	"github.com/countersign/countersign/pkg/retry"
	"github.com/countersign/countersign/pkg/store"
)

type metrics struct {
	invalidations *prometheus.CounterVec
	seconds       *prometheus.HistogramVec
	fast          *prometheus.CounterVec
	leasesLost    prometheus.Counter
	wait          *prometheus.HistogramVec
	attempts      *prometheus.HistogramVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		invalidations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "countersign_invalidator_invalidations_total",
			Help: "Passes over one head generation by result: completed, failed, rate_limited, deferred, superseded, parked (RG-201).",
		}, []string{"result"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "countersign_invalidator_revocation_seconds",
			Help:    "From the accepted trigger to the proved revocation of its head.",
			Buckets: []float64{0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 300, 1800},
		}, []string{"lane"}),
		fast: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "countersign_invalidator_fast_resets_total",
			Help: "Resets asked for by ingress, by outcome.",
		}, []string{"result"}),
		leasesLost: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "countersign_invalidator_leases_lost_total",
			Help: "Revocations whose lease ended under them.",
		}),
		wait: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "countersign_invalidator_queue_wait_seconds",
			Help:    "From the accepted trigger to the claim of its head, by lane; a retry is counted again.",
			Buckets: []float64{0.01, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 300, 1800},
		}, []string{"lane"}),
		attempts: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "countersign_invalidator_queue_attempts",
			Help:    "Which attempt a claim was, by lane.",
			Buckets: []float64{1, 2, 3, 5, 10, 20, 50},
		}, []string{"lane"}),
	}
	// Every count begins at zero, so that an alert sees the first one too.
	for _, result := range retry.Results {
		m.invalidations.WithLabelValues(string(result))
	}
	for _, o := range []nudge.Outcome{nudge.OutcomeReset, nudge.OutcomeNothing, nudge.OutcomeSuperseded, nudge.OutcomeRateLimited, nudge.OutcomeFailed} {
		m.fast.WithLabelValues(o.String())
	}
	for _, lane := range store.Lanes {
		m.seconds.WithLabelValues(lane.String())
		m.wait.WithLabelValues(lane.String())
		m.attempts.WithLabelValues(lane.String())
	}
	if reg != nil {
		reg.MustRegister(m.invalidations, m.seconds, m.fast, m.leasesLost, m.wait, m.attempts)
	}
	return m
}
