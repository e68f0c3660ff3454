package fanout

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/countersign/countersign/pkg/daemon"
	"github.com/countersign/countersign/pkg/retry"
	"github.com/countersign/countersign/pkg/store"
)

// metrics of the fan-out. Every label is from a closed set (RG-474).
type metrics struct {
	passes       *prometheus.CounterVec
	duration     *prometheus.HistogramVec
	pulls        prometheus.Counter
	considered   *prometheus.CounterVec
	repositories prometheus.Counter
	leasesLost   prometheus.Counter
	wait         *prometheus.HistogramVec
	attempts     *prometheus.HistogramVec
	rows         *prometheus.GaugeVec
	oldest       prometheus.Gauge
}

var scopes = []store.Scope{store.ScopeInstallation, store.ScopeRepository, store.ScopeBase}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		passes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "countersign_fanout_passes_total",
			Help: "Passes over an authority change, by its scope and how the pass ended. superseded: the lease was lost or a newer event came.",
		}, []string{"scope", "result"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "countersign_fanout_pass_seconds",
			Help:    "Time from the claim of an authority change to the end of its pass.",
			Buckets: []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300},
		}, []string{"scope"}),
		pulls: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "countersign_fanout_pulls_queued_total",
			Help: "Pull requests whose head was revoked and whose evaluation was queued because of an authority change.",
		}),
		considered: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "countersign_fanout_pulls_considered_total",
			Help: "Open pull requests that authority changes may concern, by why they were queued; kept: a base push left them alone, because it changed nothing they were decided by.",
		}, []string{"why"}),
		repositories: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "countersign_fanout_repositories_queued_total",
			Help: "Repositories that installation-wide changes were split into.",
		}),
		leasesLost: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "countersign_fanout_leases_lost_total",
			Help: "Passes whose lease ended under them.",
		}),
		wait: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "countersign_fanout_queue_wait_seconds",
			Help:    "From the accepted authority change to the claim of its row, by scope; each pass is counted.",
			Buckets: []float64{.01, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800},
		}, []string{"scope"}),
		attempts: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "countersign_fanout_queue_attempts",
			Help:    "Which attempt a claim was, by scope.",
			Buckets: []float64{1, 2, 3, 5, 10, 20, 50},
		}, []string{"scope"}),
		rows: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "countersign_fanout_authority_rows",
			Help: "Authority changes that block publication, by state. parked: the target cannot be reached.",
		}, []string{"state"}),
		oldest: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "countersign_fanout_oldest_authority_age_seconds",
			Help: "Age of the oldest authority change that is not parked. Nothing it covers is published meanwhile.",
		}),
	}
	for _, scope := range scopes {
		for _, result := range results {
			m.passes.WithLabelValues(string(scope), string(result))
		}
		m.duration.WithLabelValues(string(scope))
		m.wait.WithLabelValues(string(scope))
		m.attempts.WithLabelValues(string(scope))
	}
	for _, reason := range whys {
		m.considered.WithLabelValues(string(reason))
	}
	if r == nil {
		return m, nil
	}
	var errs []error
	for _, c := range []prometheus.Collector{m.passes, m.duration, m.pulls, m.considered, m.repositories, m.rows, m.oldest, m.leasesLost, m.wait, m.attempts} {
		errs = append(errs, r.Register(c))
	}
	return m, errors.Join(errs...)
}

// claimed records how long an authority change waited, and how often it was tried.
func (m *metrics) claimed(a store.Authority) {
	m.wait.WithLabelValues(string(a.Scope)).Observe(max(0, time.Since(a.RequestedAt).Seconds()))
	m.attempts.WithLabelValues(string(a.Scope)).Observe(float64(a.Attempts + 1))
}

func (m *metrics) record(p *pass, d retry.Disposition, took time.Duration) {
	scope := string(p.authority.Scope)
	m.passes.WithLabelValues(scope, string(d.Result)).Inc()
	m.duration.WithLabelValues(scope).Observe(took.Seconds())
	m.pulls.Add(float64(p.pulls))
	for reason, n := range p.why {
		m.considered.WithLabelValues(string(reason)).Add(float64(n))
	}
	m.repositories.Add(float64(p.repositories))
}

// observeEvery is how old the backlog gauges may be.
const observeEvery = 15 * time.Second

// Observe keeps the backlog gauges fresh until ctx ends; it returns nil. A database that does not answer leaves the last values.
func (s *Service) Observe(ctx context.Context) error {
	tick := time.NewTicker(observeEvery)
	defer tick.Stop()
	for {
		s.observe(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (s *Service) observe(ctx context.Context) {
	b, err := s.deps.Store.ReadAuthorityBacklog(ctx)
	if err != nil {
		if ctx.Err() == nil {
			s.deps.Log.WarnContext(ctx, "backlog not read", daemon.KeyErr, err)
		}
		return
	}
	for state, n := range map[string]int{"due": b.Due, "leased": b.Leased, "waiting": b.Waiting, "parked": b.Parked} {
		s.metrics.rows.WithLabelValues(state).Set(float64(n))
	}
	s.metrics.oldest.Set(b.OldestAge.Seconds())
}
