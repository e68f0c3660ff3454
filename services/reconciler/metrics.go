package reconciler

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/countersign/countersign/pkg/daemon"
	"github.com/countersign/countersign/pkg/store"
)

// How an election ended: a closed set.
const (
	electionElected  = "elected"
	electionHeld     = "held"     // another replica scans, or scanned recently
	electionReleased = "released" // elected while being told to stop: given back unused (RG-418)
	electionFailed   = "failed"
)

// metrics of the reconciler. Every label is from a closed set (RG-474).
type metrics struct {
	elections    *prometheus.CounterVec
	scans        *prometheus.CounterVec
	duration     prometheus.Histogram
	lastSuccess  prometheus.Gauge
	overdue      prometheus.Gauge
	leftOut      *prometheus.CounterVec
	repositories prometheus.Counter
	pulls        *prometheus.CounterVec
	woken        prometheus.Counter
	pruned       *prometheus.CounterVec
	leasesLost   prometheus.Counter

	gapPasses  *prometheus.CounterVec
	gapRead    prometheus.Counter
	gapFound   *prometheus.CounterVec
	gapAsked   *prometheus.CounterVec
	gapSettled *prometheus.CounterVec
	gapOpen    prometheus.Gauge
	gapOldest  prometheus.Gauge

	driftPasses   *prometheus.CounterVec
	driftCompared prometheus.Counter
	drift         *prometheus.CounterVec

	presence *prometheus.CounterVec
	parked   *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		elections: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "countersign_reconciler_elections_total",
			Help: "Times this replica stood for election, by how it ended. held: another replica scans, or did so recently.",
		}, []string{"result"}),
		scans: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "countersign_reconciler_scans_total",
			Help: "Scans, by result. partial: something was left out. failure: there was no valid list of installations.",
		}, []string{"result"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "countersign_reconciler_scan_seconds",
			Help:    "Time from the election to the end of the scan.",
			Buckets: []float64{.1, .5, 1, 5, 15, 30, 60, 120, 300, 600, 1800},
		}),
		lastSuccess: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "countersign_reconciler_last_success_timestamp_seconds",
			Help: "When the last complete scan of any replica ended; 0: never. Only a complete scan advances it.",
		}),
		overdue: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "countersign_reconciler_last_success_age_seconds",
			Help: "Time since the last complete scan of any replica, or since this process started when there was none.",
		}),
		leftOut: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "countersign_reconciler_left_out_total",
			Help: "Things a scan left out, by the reason.",
		}, []string{"reason"}),
		repositories: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "countersign_reconciler_repositories_scanned_total",
			Help: "Repositories whose open pull requests were listed to the end.",
		}),
		pulls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "countersign_reconciler_pulls_total",
			Help: "Open pull requests seen. queued: nothing was waiting for it and it was due. left: the others.",
		}, []string{"result"}),
		woken: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "countersign_reconciler_woken_total",
			Help: "Parked authority changes made due because their target was listed again. Above zero: an event was lost.",
		}),
		pruned: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "countersign_reconciler_pruned_rows_total",
			Help: "Rows removed by retention.",
		}, []string{"kind"}),
		leasesLost: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "countersign_reconciler_leases_lost_total",
			Help: "Terms that ended under whoever scanned, walked the delivery log or compared.",
		}),
	}
	for _, result := range results {
		m.scans.WithLabelValues(result)
	}
	for _, result := range []string{electionElected, electionHeld, electionReleased, electionFailed} {
		m.elections.WithLabelValues(result)
	}
	m.addGaps()
	m.addDrift()
	if r == nil {
		return m, nil
	}
	var errs []error
	for _, c := range []prometheus.Collector{
		m.elections, m.scans, m.duration, m.lastSuccess, m.overdue, m.leftOut, m.repositories, m.pulls, m.woken, m.pruned, m.leasesLost,
		m.gapPasses, m.gapRead, m.gapFound, m.gapAsked, m.gapSettled, m.gapOpen, m.gapOldest,
		m.driftPasses, m.driftCompared, m.drift, m.presence, m.parked,
	} {
		errs = append(errs, r.Register(c))
	}
	return m, errors.Join(errs...)
}

// addGaps makes the metrics of the walk over GitHub's delivery log.
func (m *metrics) addGaps() {
	m.gapPasses = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "countersign_reconciler_gap_passes_total",
		Help: "Walks over GitHub's delivery log, by result. partial: something was left out. failure: the log could not be read.",
	}, []string{"result"})
	m.gapRead = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "countersign_reconciler_gap_attempts_read_total",
		Help: "Attempts to deliver that were read from GitHub's log; an attempt is read more than once.",
	})
	m.gapFound = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "countersign_reconciler_gap_found_total",
		Help: "Missed deliveries found. failed: GitHub did not get a success. missing: it did, and the delivery is not stored.",
	}, []string{"kind"})
	m.gapAsked = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "countersign_reconciler_gap_asked_total",
		Help: "Redeliveries asked for, by GitHub's answer. expired: GitHub no longer has the delivery.",
	}, []string{"result"})
	m.gapSettled = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "countersign_reconciler_gap_settled_total",
		Help: "Missed deliveries that came to an end. filled: stored. acknowledged: it asked for nothing. refused, given_up, expired: it did not come.",
	}, []string{"state"})
	m.gapOpen = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "countersign_reconciler_gap_open_rows",
		Help: "Missed deliveries that are still asked for.",
	})
	m.gapOldest = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "countersign_reconciler_gap_oldest_age_seconds",
		Help: "Time since the oldest delivery that is still missed was found; 0: none.",
	})
	for _, result := range results {
		m.gapPasses.WithLabelValues(result)
	}
	for _, kind := range []store.GapKind{store.GapFailed, store.GapMissing} {
		m.gapFound.WithLabelValues(string(kind))
	}
	for _, state := range store.GapStates {
		m.gapSettled.WithLabelValues(string(state))
	}
}

// addDrift makes the metrics of the comparison of decided heads.
func (m *metrics) addDrift() {
	m.driftPasses = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "countersign_reconciler_drift_passes_total",
		Help: "Walks over recently decided heads, by result.",
	}, []string{"result"})
	m.driftCompared = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "countersign_reconciler_drift_compared_total",
		Help: "Heads whose check was compared with its decision.",
	})
	m.drift = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "countersign_reconciler_drift_total",
		Help: "Heads revoked because GitHub showed something else than was decided. Above zero: somebody else wrote our check.",
	}, []string{"kind"})
	m.presence = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "countersign_reconciler_presence_changes_total",
		Help: "Installations and repositories that a listing showed to be gone, or back.",
	}, []string{"result"})
	m.parked = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "countersign_reconciler_parked_rows_total",
		Help: "Rows of work parked because their target is gone, and woken because it is back.",
	}, []string{"result"})
	for _, kind := range driftKinds {
		m.drift.WithLabelValues(kind)
	}
	for _, result := range []string{resultComplete, resultPartial} {
		m.driftPasses.WithLabelValues(result)
	}
}

func (m *metrics) recordFill(f *fill, result string, _ time.Duration) {
	m.gapPasses.WithLabelValues(result).Inc()
	m.gapRead.Add(float64(f.read))
	m.pruned.WithLabelValues("gaps").Add(float64(f.pruned))
}

func (m *metrics) recordScan(sc *scan, result string, took time.Duration) {
	m.scans.WithLabelValues(result).Inc()
	m.duration.Observe(took.Seconds())
	m.repositories.Add(float64(sc.repositories))
	m.pulls.WithLabelValues("queued").Add(float64(sc.queued))
	m.pulls.WithLabelValues("left").Add(float64(sc.pulls - sc.queued))
	m.woken.Add(float64(sc.woken))
	m.pruned.WithLabelValues("deliveries").Add(float64(sc.prunedDeliveries))
	m.pruned.WithLabelValues("heads").Add(float64(sc.prunedHeads))
	for code, n := range sc.codes {
		m.leftOut.WithLabelValues(code).Add(float64(n))
	}
}

// observeEvery is how old the gauges of the last success may be.
const observeEvery = 15 * time.Second

// Observe keeps the gauges of the last success fresh until ctx ends; it returns nil. Every replica shows them, not only the
// one that scanned.
func (s *Service) Observe(ctx context.Context) error {
	started := time.Now()
	tick := time.NewTicker(observeEvery)
	defer tick.Stop()
	for {
		s.observe(ctx, started)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (s *Service) observe(ctx context.Context, started time.Time) {
	status, err := s.deps.Store.ReadLease(ctx, leaseName)
	if err != nil {
		if ctx.Err() == nil {
			s.deps.Log.WarnContext(ctx, "lease not read", daemon.KeyErr, err)
		}
		return
	}
	since := started
	if !status.LastSuccess.IsZero() {
		since = status.LastSuccess
		s.metrics.lastSuccess.Set(float64(since.Unix()))
	}
	s.metrics.overdue.Set(max(0, time.Since(since).Seconds()))
	gaps, err := s.deps.Store.ReadGapBacklog(ctx)
	if err != nil {
		if ctx.Err() == nil {
			s.deps.Log.WarnContext(ctx, "missed deliveries not counted", daemon.KeyErr, err)
		}
		return
	}
	s.metrics.gapOpen.Set(float64(gaps.Open))
	s.metrics.gapOldest.Set(gaps.Oldest.Seconds())
}
