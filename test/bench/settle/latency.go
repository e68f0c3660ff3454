package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/countersign/countersign/pkg/githubsim"
	"github.com/countersign/countersign/test/bench/measure"
)

// timing is what one change took.
type timing struct {
	revoked time.Duration // the old result left GitHub
	proved  time.Duration // and was read back as unfinished
	settled time.Duration // the final check stands
	trips   int           // requests in the longest row of which each began when the one before was answered
}

// latency is the table of changes, idle and beside a storm.
func latency(ctx context.Context, s settings) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "%d approvals and %d dismissals, one after another; the storm is a member who leaves a team: %d open pull requests of one organisation are revoked and decided again.\n\n", s.events, s.events, s.storm)
	b.WriteString("| GitHub answers after | beside | change → old success gone, p50 | p99 | → proved, p50 | p99 | → final check, p50 | p99 | requests in a row | ÷ their round trips |\n|---|---|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	for _, rtt := range []time.Duration{0, s.rtt} {
		w, err := open(ctx, rtt, nil)
		if err != nil {
			return "", err
		}
		err = w.latencies(ctx, s, &b)
		w.close()
		if err != nil {
			return "", err
		}
	}
	return b.String(), nil
}

func (w *world) latencies(ctx context.Context, s settings, b *strings.Builder) error {
	subjects, err := w.pulls("acme/widgets", 10)
	if err != nil {
		return err
	}
	neighbours, err := w.pulls("octo-org/widgets", 10)
	if err != nil {
		return err
	}
	w.sim.ReleaseWebhooks(0)
	if err := w.settled(ctx); err != nil {
		return err
	}
	w.set(w.rtt)
	idle, err := w.events(ctx, subjects, s.events)
	if err != nil {
		return err
	}
	w.row(b, "nothing", idle, nil)
	w.set(0) // the stage for the storm is set quickly
	w.sim.HoldWebhooks()
	if _, err := w.pulls("acme/storm", s.storm); err != nil {
		return err
	}
	w.sim.ReleaseWebhooks(0)
	if err := w.settled(ctx); err != nil {
		return err
	}
	w.set(w.rtt)
	for _, n := range []struct {
		name     string
		subjects []pull
	}{{"a storm of the same organisation", subjects}, {"a storm of another organisation", neighbours}} {
		if err := w.sim.RemoveTeamMember("acme", "core", "bob"); err != nil {
			return err
		}
		busy, err := w.events(ctx, n.subjects, s.events)
		if err != nil {
			return err
		}
		left, err := w.count(ctx, waiting)
		if err != nil {
			return err
		}
		w.row(b, n.name, busy, idle)
		fmt.Fprintf(b, "| | %d of %d still waited when the last event was settled | | | | | | | | |\n", left, s.storm)
		w.set(0)
		if err := w.settled(ctx); err != nil {
			return err
		}
		if err := w.sim.AddTeamMember("acme", "core", "bob"); err != nil {
			return err
		}
		if err := w.settled(ctx); err != nil {
			return err
		}
		w.set(w.rtt)
	}
	return nil
}

func (w *world) set(rtt time.Duration) {
	now := w.sim.Switches()
	now.Latency = rtt
	w.sim.Set(now)
}

// settled waits until every webhook is answered and nothing waits.
func (w *world) settled(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Minute)
	defer cancel()
	if err := w.sim.Settle(ctx); err != nil {
		return err
	}
	return w.drain(ctx, waiting)
}

// events approves and dismisses in turn and times both: an approval ends in success, a dismissal first revokes it.
func (w *world) events(ctx context.Context, subjects []pull, n int) (all []timing, err error) {
	for i := range n {
		p := subjects[i%len(subjects)]
		began := time.Now()
		id, err := w.sim.Review(p.repo, p.number, "alice", "APPROVED")
		if err != nil {
			return nil, err
		}
		if _, _, err := w.watch.await(p.head, began, "success"); err != nil {
			return nil, w.explain(p, err)
		}
		w.sim.ResetRequests()
		began = time.Now()
		if err := w.sim.DismissReview(p.repo, p.number, id, author); err != nil {
			return nil, err
		}
		left, reached, err := w.watch.await(p.head, began, "failure")
		if err != nil {
			return nil, w.explain(p, err)
		}
		t := timing{revoked: left.Sub(began), settled: reached.Sub(began)}
		requests := w.sim.Requests()
		t.trips = inARow(requests, w.rtt)
		t.proved = t.revoked
		for _, r := range requests {
			if r.Method == "GET" && strings.HasSuffix(r.Route, "/check-runs/{check_run_id}") && r.At.After(left) {
				t.proved = r.At.Add(w.rtt).Sub(began)
				break
			}
		}
		all = append(all, t)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	return all, nil
}

// explain adds what the check says to an error.
func (w *world) explain(p pull, err error) error {
	check, _ := w.sim.LatestCheck(p.repo, p.head, checkName)
	return fmt.Errorf("%w: %s#%d says %s %s %q", err, p.repo, p.number, check.Status, check.Conclusion, check.Title)
}

// inARow is the length of the longest row of requests that do not overlap: what no client of this order could do beside each
// other. Without latency every request overlaps nothing.
func inARow(requests []githubsim.Request, rtt time.Duration) (n int) {
	slices.SortFunc(requests, func(a, b githubsim.Request) int { return cmp.Compare(a.At.UnixNano(), b.At.UnixNano()) })
	var free time.Time
	for _, r := range requests {
		if !r.At.Before(free) {
			n, free = n+1, r.At.Add(rtt)
		}
	}
	return n
}

func (w *world) row(b *strings.Builder, beside string, all, idle []timing) {
	of := func(f func(timing) time.Duration) []time.Duration {
		list := make([]time.Duration, len(all))
		for i, t := range all {
			list[i] = f(t)
		}
		return list
	}
	revoked, proved, settled := of(func(t timing) time.Duration { return t.revoked }), of(func(t timing) time.Duration { return t.proved }), of(func(t timing) time.Duration { return t.settled })
	trips, ratio := "", ""
	if w.rtt > 0 && idle == nil {
		var rows []float64
		for _, t := range all {
			rows = append(rows, float64(t.trips))
		}
		m := measure.Median(rows)
		trips, ratio = fmt.Sprintf("%.0f", m), fmt.Sprintf("%.2f", measure.Quantile(settled, 0.5).Seconds()/(m*w.rtt.Seconds()))
	}
	fmt.Fprintf(b, "| %s | %s |", w.rtt, beside)
	for _, list := range [][]time.Duration{revoked, proved, settled} {
		fmt.Fprintf(b, " %s | %s |", measure.Millis(measure.Quantile(list, 0.5)), measure.Millis(measure.Quantile(list, 0.99)))
	}
	fmt.Fprintf(b, " %s | %s |\n", trips, ratio)
}
