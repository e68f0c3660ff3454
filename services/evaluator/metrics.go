package evaluator

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/countersign/countersign/pkg/daemon"
	"github.com/countersign/countersign/pkg/policy"
	"github.com/countersign/countersign/pkg/retry"
	"github.com/countersign/countersign/pkg/store"
)

type metrics struct {
	evaluations  *prometheus.CounterVec
	publications *prometheus.CounterVec
	refusals     *prometheus.CounterVec
	lag          *prometheus.HistogramVec
	leasesLost   prometheus.Counter
	wait         *prometheus.HistogramVec
	attempts     *prometheus.HistogramVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		evaluations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "countersign_evaluator_evaluations_total",
			Help: "Claimed heads by what became of them: completed, failed, rate_limited, deferred, superseded, parked.",
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
		wait: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "countersign_evaluator_queue_wait_seconds",
			Help:    "From the accepted trigger to the claim, by lane; a retry is counted again. Rechecks are not.",
			Buckets: []float64{0.01, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 300, 1800},
		}, []string{"lane"}),
		attempts: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "countersign_evaluator_queue_attempts",
			Help:    "Which attempt a claim was, by lane.",
			Buckets: []float64{1, 2, 3, 5, 10, 20, 50},
		}, []string{"lane"}),
	}
	m.begin()
	if reg != nil {
		reg.MustRegister(m.evaluations, m.publications, m.refusals, m.lag, m.leasesLost, m.wait, m.attempts)
	}
	return m
}

// begin shows every count at zero, so that an alert sees the first one too.
func (m *metrics) begin() {
	for _, result := range retry.Results {
		m.evaluations.WithLabelValues(string(result))
	}
	for _, conclusion := range []string{"success", string(policy.LookFailure), string(policy.LookActionRequired), string(policy.LookPending)} {
		m.publications.WithLabelValues(conclusion)
	}
	for _, fence := range store.Fences {
		m.refusals.WithLabelValues(string(fence))
	}
	for _, lane := range store.Lanes {
		m.lag.WithLabelValues(lane.String())
		m.wait.WithLabelValues(lane.String())
		m.attempts.WithLabelValues(lane.String())
	}
}

// claimed records how long the first of the claimed rows waited, and how often it was tried.
func (m *metrics) claimed(ev store.Evaluation) {
	row := ev.Trigger()
	if !row.Recheck {
		m.wait.WithLabelValues(row.Lane.String()).Observe(max(0, ev.ClaimedAt.Sub(row.RequestedAt).Seconds()))
	}
	m.attempts.WithLabelValues(row.Lane.String()).Observe(float64(row.Attempts + 1))
}

func (w *Worker) observe(ctx context.Context, ev store.Evaluation, out outcome, result retry.Result, err error) {
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
		daemon.ObserveTraced(ctx, w.metrics.lag.WithLabelValues(ev.Trigger().Lane.String()), time.Since(ev.Trigger().RequestedAt).Seconds())
	}
}
