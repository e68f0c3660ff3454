package invalidator

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	invalidations *prometheus.CounterVec
	seconds       *prometheus.HistogramVec
	fast          *prometheus.CounterVec
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
	}
	if reg != nil {
		reg.MustRegister(m.invalidations, m.seconds, m.fast)
	}
	return m
}
