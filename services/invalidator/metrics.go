package invalidator

import "github.com/prometheus/client_golang/prometheus"

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
			Help: "Passes over one head generation by result: completed, failed, rate_limited, superseded, parked (RG-201).",
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
	if reg != nil {
		reg.MustRegister(m.invalidations, m.seconds, m.fast, m.leasesLost, m.wait, m.attempts)
	}
	return m
}
