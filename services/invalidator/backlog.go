package invalidator

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/countersign/countersign/pkg/store"
)

// observeEvery is how old the backlog gauges may be.
const observeEvery = 15 * time.Second

type backlogMetrics struct {
	rows   *prometheus.GaugeVec
	oldest *prometheus.GaugeVec
}

func newBacklogMetrics(reg prometheus.Registerer) backlogMetrics {
	m := backlogMetrics{
		rows: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "countersign_invalidator_queue_rows",
			Help: "Heads that wait for their revocation, by lane and state: due, leased, waiting, parked (the installation or repository is gone).",
		}, []string{"lane", "state"}),
		oldest: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "countersign_invalidator_queue_oldest_age_seconds",
			Help: "Age of the oldest unanswered trigger, by lane.",
		}, []string{"lane"}),
	}
	if reg != nil {
		reg.MustRegister(m.rows, m.oldest)
	}
	return m
}

// Observe keeps the backlog gauges fresh until ctx ends; it returns nil. A database that does not answer leaves the last values.
func (w *Worker) Observe(ctx context.Context) error {
	tick := time.NewTicker(observeEvery)
	defer tick.Stop()
	for {
		w.observeBacklog(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (w *Worker) observeBacklog(ctx context.Context) {
	lanes, err := w.Store.ReadInvalidationBacklog(ctx)
	if err != nil {
		if ctx.Err() == nil {
			w.Log.WarnContext(ctx, "backlog not read", "err", err)
		}
		return
	}
	// A lane in which nothing waits is shown as such, so that an empty queue and a missing answer look different.
	now := map[store.Lane]store.LaneBacklog{}
	for _, b := range lanes {
		now[b.Lane] = b
	}
	for _, l := range store.Lanes {
		b, lane := now[l], l.String()
		w.backlog.rows.WithLabelValues(lane, "due").Set(float64(b.Due))
		w.backlog.rows.WithLabelValues(lane, "leased").Set(float64(b.Leased))
		w.backlog.rows.WithLabelValues(lane, "waiting").Set(float64(b.Waiting))
		w.backlog.rows.WithLabelValues(lane, "parked").Set(float64(b.Parked))
		w.backlog.oldest.WithLabelValues(lane).Set(b.OldestAge.Seconds())
	}
}
