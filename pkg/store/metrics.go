package store

import (
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
)

// The pools' metrics, read when somebody looks.
var (
	poolConns = prometheus.NewDesc("countersign_store_connections",
		"Connections to Postgres by pool (statements, guards) and state: used, idle, opening.", []string{"pool", "state"}, nil)
	poolLimit = prometheus.NewDesc("countersign_store_connections_limit",
		"Connections that a pool may have at most.", []string{"pool"}, nil)
	poolAcquires = prometheus.NewDesc("countersign_store_acquires_total",
		"Connections taken from a pool. result: at_once, waited (none was free), cancelled (whoever asked gave up).", []string{"pool", "result"}, nil)
	poolWait = prometheus.NewDesc("countersign_store_acquire_wait_seconds_total",
		"Time spent waiting for connections of a pool.", []string{"pool"}, nil)
)

// Metrics collects the state of both connection pools. Register it once a registry.
func (s *Store) Metrics() prometheus.Collector { return poolMetrics{s} }

type poolMetrics struct{ store *Store }

func (poolMetrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{poolConns, poolLimit, poolAcquires, poolWait} {
		to <- d
	}
}

func (m poolMetrics) Collect(to chan<- prometheus.Metric) {
	collectPool(to, "statements", m.store.pool.Stat())
	collectPool(to, "guards", m.store.guards.Stat())
}

func collectPool(to chan<- prometheus.Metric, pool string, s *pgxpool.Stat) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, append([]string{pool}, labels...)...)
	}
	counter := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, append([]string{pool}, labels...)...)
	}
	gauge(poolConns, float64(s.AcquiredConns()), "used")
	gauge(poolConns, float64(s.IdleConns()), "idle")
	gauge(poolConns, float64(s.ConstructingConns()), "opening")
	gauge(poolLimit, float64(s.MaxConns()))
	counter(poolAcquires, float64(s.AcquireCount()-s.EmptyAcquireCount()), "at_once")
	counter(poolAcquires, float64(s.EmptyAcquireCount()), "waited")
	counter(poolAcquires, float64(s.CanceledAcquireCount()), "cancelled")
	counter(poolWait, s.AcquireDuration().Seconds())
}
