package nudge

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics counts what a Bus does. Labels are closed sets.
type metrics struct {
	wakes    *prometheus.CounterVec
	received *prometheus.CounterVec
	delay    *prometheus.HistogramVec
	asked    *prometheus.CounterVec
	served   *prometheus.CounterVec
	pending  *prometheus.GaugeVec
}

func newMetrics(r prometheus.Registerer, b *Bus) (*metrics, error) {
	m := &metrics{
		wakes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "countersign_nudge_wakes_total",
			Help: "Wake-ups sent after a commit, by subject and what became of them.",
		}, []string{"subject", "result"}),
		received: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "countersign_nudge_received_total",
			Help: "Wake-ups taken from the stream; result says whether each woke a worker or coalesced with another.",
		}, []string{"subject", "result"}),
		delay: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "countersign_nudge_delay_seconds",
			Help:    "From the sending of a wake-up to its receipt, by the two machines' clocks.",
			Buckets: []float64{.001, .005, .01, .05, .1, .5, 1, 5, 30, 120},
		}, []string{"subject"}),
		asked: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "countersign_nudge_requests_total",
			Help: "Fast-path requests made, by result.",
		}, []string{"result"}),
		served: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "countersign_nudge_served_total",
			Help: "Fast-path requests answered, by result.",
		}, []string{"result"}),
		pending: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "countersign_nudge_consumer_pending_messages",
			Help: "Wake-ups in the stream that no replica of the service has taken yet, as JetStream counted them a quarter of a minute ago at most.",
		}, []string{"subject"}),
	}
	connected := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "countersign_nudge_connected",
		Help: "1 while NATS is reachable.",
	}, func() float64 {
		if b.Connected() {
			return 1
		}
		return 0
	})
	if r == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.wakes, m.received, m.delay, m.asked, m.served, m.pending, connected} {
		if err := r.Register(c); err != nil {
			return nil, fmt.Errorf("register the nudge metrics (one Bus a registry): %w", err)
		}
	}
	return m, nil
}

// workMetrics are shared by every Work on a registry.
type workMetrics struct {
	found    *prometheus.CounterVec
	failures *prometheus.CounterVec
}

func newWorkMetrics(r prometheus.Registerer) (workMetrics, error) {
	m := workMetrics{
		found: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "countersign_work_found_total",
			Help: "Units of work found, by what made the worker look. A healthy bus finds nearly all by nudge.",
		}, []string{"service", "via"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "countersign_work_failures_total",
			Help: "Steps that ended in an error and backed a worker off.",
		}, []string{"service"}),
	}
	if r == nil {
		return m, nil
	}
	var err error
	if m.found, err = registerOnce(r, m.found); err != nil {
		return m, err
	}
	m.failures, err = registerOnce(r, m.failures)
	return m, err
}

func registerOnce(r prometheus.Registerer, c *prometheus.CounterVec) (*prometheus.CounterVec, error) {
	err := r.Register(c)
	var before prometheus.AlreadyRegisteredError
	if errors.As(err, &before) {
		if same, ok := before.ExistingCollector.(*prometheus.CounterVec); ok {
			return same, nil
		}
	}
	return c, err
}
