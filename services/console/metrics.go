package console

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics of the console. Every label is from a closed set (RG-474).
type metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	signIns  *prometheus.CounterVec
	access   *prometheus.CounterVec
	live     prometheus.Gauge
	changes  *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "countersign_console_requests_total", Help: "Requests by page and class of status.",
		}, []string{"page", "status"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "countersign_console_request_duration_seconds", Help: "Time to a page, live updates left out.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5},
		}, []string{"page"}),
		signIns: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "countersign_console_sign_ins_total", Help: "Sign-ins by how they ended: ok, refused (state, code or cookie), failed (GitHub could not be asked).",
		}, []string{"result"}),
		access: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "countersign_console_access_total", Help: "Looks at what a person can see: cached, asked, expired (their token), failed (GitHub could not be asked, nothing was shown).",
		}, []string{"result"}),
		live: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "countersign_console_live_connections", Help: "Pages that are kept up to date now.",
		}),
		changes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "countersign_console_live_changes_total", Help: "Changes told to open pages, by page.",
		}, []string{"page"}),
	}
	var errs []error
	for _, c := range []prometheus.Collector{m.requests, m.duration, m.signIns, m.access, m.live, m.changes} {
		errs = append(errs, r.Register(c))
	}
	return m, errors.Join(errs...)
}

// statusWriter remembers the status for the count.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController reach the connection.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// counted measures a page. No access log is written (RG-478).
func (m *metrics) counted(page string, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		sw := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		next(sw, r)
		m.requests.WithLabelValues(page, strconv.Itoa(sw.status/100)+"xx").Inc()
		if page != "live" {
			m.duration.WithLabelValues(page).Observe(time.Since(began).Seconds())
		}
	}
}
