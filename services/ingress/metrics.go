package ingress

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/countersign/countersign/pkg/daemon"
	"github.com/countersign/countersign/pkg/nudge"
)

// events are the values of the event label: what we may be subscribed to. Everything else is "other", so that a stranger's
// header cannot grow the registry; a request refused before its event was read is "none".
var events = []string{
	"check_run", "check_suite", "installation", "installation_repositories", "installation_target", "issue_comment", "label",
	"member", "membership", "merge_group", "organization", "ping", "pull_request", "pull_request_review", "push", "repository",
	"team", "team_add",
}

func eventLabel(event string) string {
	switch {
	case event == "":
		return "none"
	case slices.Contains(events, event):
		return event
	}
	return "other"
}

type metrics struct {
	deliveries      *prometheus.CounterVec
	seconds         *prometheus.HistogramVec
	inFlight        prometheus.Gauge
	bodyBytes       prometheus.Histogram
	fastPath        *prometheus.CounterVec
	fastPathSeconds prometheus.Histogram
	// Of the batches that deliveries about pull requests are committed in.
	commitSeconds    prometheus.Histogram
	commitDeliveries prometheus.Histogram
	spoiled          prometheus.Counter
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		deliveries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "countersign_ingress_deliveries_total",
			Help: "Requests by event and by what became of them.",
		}, []string{"event", "result"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "countersign_ingress_request_duration_seconds",
			Help:    "From the arrival of a request's headers to its answer, the fast path included. GitHub gives up after 10 s.",
			Buckets: []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 8, 10},
		}, []string{"result"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "countersign_ingress_in_flight_requests",
			Help: "Requests being worked on.",
		}),
		bodyBytes: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "countersign_ingress_body_bytes",
			Help:    "Size of the bodies read, whether or not their signature was right.",
			Buckets: prometheus.ExponentialBuckets(1<<10, 4, 8),
		}),
		fastPath: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "countersign_ingress_fast_path_total",
			Help: "Immediate resets asked for, by outcome. unavailable: no NATS or no invalidator. Whatever the outcome, the durable pass resets the head.",
		}, []string{"result"}),
		fastPathSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "countersign_ingress_fast_path_duration_seconds",
			Help:    "How long an accepted delivery waited for the immediate reset.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 8},
		}),
		commitSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "countersign_ingress_commit_duration_seconds",
			Help:    "How long the database took for one commit of deliveries about pull requests.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 9},
		}),
		commitDeliveries: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "countersign_ingress_commit_deliveries",
			Help:    "Deliveries that shared one commit.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 7),
		}),
		spoiled: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "countersign_ingress_commits_spoiled_total",
			Help: "Commits refused for one of their deliveries; each of them was then stored by itself.",
		}),
	}
	m.begin()
	if r == nil {
		return m, nil
	}
	var errs []error
	for _, c := range []prometheus.Collector{m.deliveries, m.seconds, m.inFlight, m.bodyBytes, m.fastPath, m.fastPathSeconds, m.commitSeconds, m.commitDeliveries, m.spoiled} {
		errs = append(errs, r.Register(c))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("register the metrics of ingress: %w", err)
	}
	return m, nil
}

// begin shows what may be counted at zero, so that an alert sees the first one too.
func (m *metrics) begin() {
	for _, res := range []result{
		resultAccepted, resultDuplicate, resultIgnored, resultLimited, resultNoRoute, resultUnconfigured, resultEnvelope, resultSignature,
		resultTooLarge, resultBody, resultPayload, resultConflict, resultGuard, resultStore, resultPanic,
	} {
		m.seconds.WithLabelValues(string(res))
	}
	for _, res := range []result{resultAccepted, resultDuplicate, resultIgnored, resultConflict, resultGuard, resultStore, resultPanic} {
		for _, event := range events {
			m.deliveries.WithLabelValues(event, string(res))
		}
	}
	for _, res := range []result{resultLimited, resultEnvelope, resultSignature, resultTooLarge, resultBody, resultPayload} {
		m.deliveries.WithLabelValues(eventLabel(""), string(res))
	}
	for _, outcome := range []nudge.Outcome{nudge.OutcomeReset, nudge.OutcomeNothing, nudge.OutcomeSuperseded, nudge.OutcomeRateLimited, nudge.OutcomeFailed} {
		m.fastPath.WithLabelValues(outcome.String())
	}
	for _, outcome := range []string{fastTimeout, fastUnavailable, fastError} {
		m.fastPath.WithLabelValues(outcome)
	}
}

func (m *metrics) finished(ctx context.Context, d *delivery, res result) {
	m.deliveries.WithLabelValues(eventLabel(d.event), string(res)).Inc()
	daemon.ObserveTraced(ctx, m.seconds.WithLabelValues(string(res)), time.Since(d.began).Seconds())
}
