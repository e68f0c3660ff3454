package checkrun

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	writes *prometheus.CounterVec
	proofs *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "countersign_checkrun_writes_total",
			Help: "Writes of check runs to GitHub, by operation (create, reset, publish, supersede, cancel) and outcome (ok, error).",
		}, []string{"operation", "outcome"}),
		proofs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "countersign_checkrun_proofs_total",
			Help: "How heads were proved unfinished: known (already proved), read (GET alone), reset (PATCH and GET), replaced (new run), created (first run), none (no managed run), failed.",
		}, []string{"how"}),
	}
	if reg != nil {
		reg.MustRegister(m.writes, m.proofs)
	}
	return m
}
