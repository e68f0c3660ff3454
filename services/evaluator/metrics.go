package evaluator

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/countersign/countersign/pkg/retry"
	"github.com/countersign/countersign/pkg/store"
)

type metrics struct {
	evaluations  *prometheus.CounterVec
	publications *prometheus.CounterVec
	refusals     *prometheus.CounterVec
	lag          *prometheus.HistogramVec
	leasesLost   prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		evaluations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "countersign_evaluator_evaluations_total",
			Help: "Claimed heads by what became of them: completed, failed, rate_limited, superseded, parked.",
		}, []string{"result"}),
		publications: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "countersign_evaluator_publications_total",
			Help: "Confirmed decisions by conclusion.",
		}, []string{"result"}),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "countersign_evaluator_guard_rejections_total",
			Help: "Publications that a fence refused, by fence.",
		}, []string{"reason"}),
		lag: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "countersign_evaluator_lag_seconds",
			Help:    "From the accepted trigger to the confirmed decision.",
			Buckets: []float64{0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 300, 1800},
		}, []string{"lane"}),
		leasesLost: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "countersign_evaluator_leases_lost_total",
			Help: "Evaluations whose lease ended under them.",
		}),
	}
	if reg != nil {
		reg.MustRegister(m.evaluations, m.publications, m.refusals, m.lag, m.leasesLost)
	}
	return m
}

func (w *Worker) observe(ev store.Evaluation, out outcome, result retry.Result, err error) {
	w.metrics.evaluations.WithLabelValues(string(result)).Inc()
	var fence *store.FenceError
	if errors.As(err, &fence) {
		w.metrics.refusals.WithLabelValues(string(fence.Fence)).Inc()
	}
	if errors.Is(err, store.ErrLeaseLost) {
		w.metrics.leasesLost.Inc()
	}
	if err == nil && out.did == didPublish {
		w.metrics.publications.WithLabelValues(out.conclusion).Inc()
		w.metrics.lag.WithLabelValues(ev.Rows[0].Lane.String()).Observe(time.Since(ev.Rows[0].RequestedAt).Seconds())
	}
}
