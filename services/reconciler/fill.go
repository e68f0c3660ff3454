package reconciler

import (
	"context"
	"errors"
	"time"

	"github.com/countersign/countersign/pkg/daemon"
	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/nudge"
	"github.com/countersign/countersign/pkg/store"
)

const (
	// fillLease is the row by which one replica is elected to read GitHub's delivery log.
	fillLease = "reconciler.deliveries"
	// logPages bounds what one walk reads: 5,000 attempts. What is left is read by the next, from where this one stopped.
	logPages = 50
	// logOverlap is read again by each walk: GitHub shows an attempt when it has ended, up to 10 s (a server of one's own: 30 s)
	// after it began, and lists it by when it began.
	logOverlap = 2 * time.Minute
	// firstLook is how far back the very first walk looks: what was sent before this database existed is the scan's to find.
	firstLook = time.Hour
	// probes is how many are asked for while nothing that GitHub sends arrives: enough to learn when that has ended.
	probes = 3
	// reservedDelay is how long an ask waits that our own budget, or GitHub, put off, at least.
	reservedDelay = time.Minute
)

// fill is one walk over GitHub's delivery log: what failed, or was delivered and is not stored, is asked for again.
type fill struct {
	service *Service
	tenure  *tenure
	failures
	result string

	read, found, settled, asked, pruned int
}

func (s *Service) filling() duty {
	return duty{lease: fillLease, every: s.cfg.logEvery(), run: func(work context.Context, t *tenure, _ nudge.Via) walk {
		f := &fill{service: s, tenure: t}
		f.result = f.run(work)
		return f
	}}
}

// run reads, settles and asks. Asking goes on where reading failed: what is known to be missed is known all the same.
func (f *fill) run(ctx context.Context) string {
	f.prune(ctx)
	if err := f.tenure.check(); err != nil {
		f.count(reason(err))
		return resultPartial
	}
	position, err := f.readLog(ctx)
	read := err == nil
	if err != nil {
		f.fail("read", err)
	}
	if f.tenure.check() == nil {
		if settled, err := f.service.deps.Store.SettleGaps(ctx); err != nil {
			f.fail("settle", err)
		} else {
			f.settle(settled)
		}
	}
	f.askDue(ctx, position)
	if err := f.tenure.check(); err != nil {
		f.count(reason(err))
	}
	switch {
	case len(f.codes) == 0:
		return resultComplete
	case !read:
		return resultFailure
	}
	return resultPartial
}

// readLog reads the log from its newest end, or from where the last walk stopped, back to what was read before.
func (f *fill) readLog(ctx context.Context) (store.LogPosition, error) {
	position, err := f.service.deps.Store.ReadLogPosition(ctx)
	if err != nil {
		return position, err
	}
	if position.ReadThrough.IsZero() {
		position.ReadThrough = time.Now().Add(-firstLook)
	}
	if position.Resume != "" {
		end, err := f.readPages(ctx, &position, position.Resume, position.ResumeTop)
		if errors.Is(err, ghclient.ErrInvalid) || errors.Is(err, ghclient.ErrNotFound) {
			// GitHub no longer knows the place: begin at the newest end, which reaches everything it still has.
			position.Resume, position.ResumeTop = "", time.Time{}
			err = f.service.deps.Store.KeepLogPosition(ctx, position)
			end = true
		}
		if err != nil || !end {
			return position, err
		}
	}
	_, err = f.readPages(ctx, &position, "", time.Time{})
	return position, err
}

// readPages follows the pages from cursor and keeps the position after each; end says that it came to what was read before.
func (f *fill) readPages(ctx context.Context, position *store.LogPosition, cursor string, top time.Time) (end bool, err error) {
	until := position.ReadThrough.Add(-logOverlap)
	for range logPages {
		if f.tenure.check() != nil {
			return false, nil
		}
		page, next, err := f.service.deps.App.Deliveries(ctx, cursor)
		if err != nil {
			return false, err
		}
		f.read += len(page)
		older := len(page) > 0
		for _, d := range page {
			if d.DeliveredAt.After(top) {
				top = d.DeliveredAt
			}
			older = older && d.DeliveredAt.Before(until)
			noteReach(position, d)
		}
		if err := f.record(ctx, page); err != nil {
			return false, err
		}
		position.Resume, position.ResumeTop = next, top
		if next == "" || older {
			position.Resume, position.ResumeTop = "", time.Time{}
			if top.After(position.ReadThrough) {
				position.ReadThrough = top
			}
			return true, f.service.deps.Store.KeepLogPosition(ctx, *position)
		}
		if err := f.service.deps.Store.KeepLogPosition(ctx, *position); err != nil {
			return false, err
		}
		cursor = next
	}
	return false, nil
}

// record folds one page by GUID: the newest attempt names the delivery, and one success is enough.
func (f *fill) record(ctx context.Context, page []ghclient.Delivery) error {
	// A delivery id is kept as long as retention says: an older one may be missing rightly.
	kept := time.Now().Add(time.Hour - f.service.cfg.retention())
	var log []store.LoggedDelivery
	at := map[string]int{}
	for _, d := range page { // newest first
		if !d.Mapped() {
			continue
		}
		n, known := at[d.GUID]
		if !known {
			n = len(log)
			at[d.GUID] = n
			log = append(log, store.LoggedDelivery{
				GUID: store.DeliveryID(d.GUID), Event: d.Event, Action: d.Action, Installation: store.InstallationID(d.InstallationID),
				Repository: store.RepositoryID(d.RepositoryID), AttemptID: d.ID, AttemptedAt: d.DeliveredAt, StatusCode: d.StatusCode, Status: d.Status,
				Retained: d.Retained() && d.DeliveredAt.After(kept),
			})
		}
		log[n].Succeeded = log[n].Succeeded || d.Succeeded()
		log[n].Redelivered = log[n].Redelivered || d.Redelivery
	}
	count, err := f.service.deps.Store.RecordLog(ctx, log)
	if err != nil {
		return err
	}
	for kind, n := range count.Found {
		f.found += n
		f.service.metrics.gapFound.WithLabelValues(string(kind)).Add(float64(n))
	}
	f.settle(count.Settled)
	return nil
}

func (f *fill) settle(settled map[store.GapState]int) {
	for state, n := range settled {
		f.settled += n
		f.service.metrics.gapSettled.WithLabelValues(string(state)).Add(float64(n))
	}
}

// askDue asks GitHub to deliver again what is due, so many a walk. While nothing arrives, a few are asked for, to learn when that
// has ended.
func (f *fill) askDue(ctx context.Context, position store.LogPosition) {
	limit := f.service.cfg.LogAsks
	if position.Unreached.After(position.Accepted) {
		limit = min(limit, probes)
	}
	for range limit {
		if f.tenure.check() != nil {
			return
		}
		gap, err := f.service.deps.Store.TakeGap(ctx, position.Accepted)
		if errors.Is(err, store.ErrNoWork) {
			return
		}
		if err != nil {
			f.fail("take", err)
			return
		}
		if f.tenure.check() != nil || !f.ask(ctx, gap) {
			return
		}
	}
}

// ask asks for one; false ends the walk's asking.
func (f *fill) ask(ctx context.Context, gap store.Gap) bool {
	err := f.service.deps.App.Redeliver(ctx, gap.AttemptID)
	result, goOn, expired, spend, delay := "accepted", true, false, true, time.Duration(0)
	var limit *ghclient.RateLimitError
	switch {
	case err == nil:
		f.asked++
	case errors.Is(err, ghclient.ErrNotFound):
		result, expired = "expired", true
		f.settle(map[store.GapState]int{store.GapExpired: 1})
	case errors.As(err, &limit):
		result, goOn, spend, delay = "rate_limited", false, false, max(limit.After, reservedDelay)
	default:
		result, goOn = "failed", !errors.Is(err, ghclient.ErrUnavailable)
	}
	f.service.metrics.gapAsked.WithLabelValues(result).Inc()
	f.service.deps.Log.InfoContext(ctx, "redelivery asked for", "audit", true, daemon.KeyDeliveryID, string(gap.GUID), "event", gap.Event, "action", gap.Action,
		"installation", int64(gap.Installation), "kind", string(gap.Kind), "status_code", gap.StatusCode, daemon.KeyAttempt, gap.Asks, daemon.KeyResult, result, daemon.KeyErr, errText(err))
	if err == nil {
		return true
	}
	if !expired {
		f.count(reason(err))
	}
	if err := f.service.deps.Store.GapNotAsked(ctx, gap, expired, spend, delay, err.Error()); err != nil {
		f.fail("record", err)
		return false
	}
	return goOn
}

// noteReach keeps when something last arrived, and when something last did not.
func noteReach(p *store.LogPosition, d ghclient.Delivery) {
	switch {
	case d.Succeeded() && d.DeliveredAt.After(p.Accepted):
		p.Accepted = d.DeliveredAt
	case (d.StatusCode == 0 || d.StatusCode >= 500) && d.DeliveredAt.After(p.Unreached):
		p.Unreached = d.DeliveredAt
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// prune removes the rows that retention no longer keeps (RG-405, RG-420).
func (f *fill) prune(ctx context.Context) {
	for f.tenure.check() == nil {
		n, err := f.service.deps.Store.PruneGaps(ctx, f.service.cfg.retention(), pruneBatch)
		f.pruned += n
		if err != nil {
			f.fail("prune", err)
		}
		if err != nil || n < pruneBatch {
			return
		}
	}
}

func (f *fill) fail(step string, err error, _ ...any) {
	f.failures.left(f.service.deps.Log, "walk over the delivery log left something out", step, err)
}

func (f *fill) outcome() string { return f.result }

func (f *fill) report(ctx context.Context, result string, took time.Duration, attrs []any) {
	f.service.metrics.recordFill(f, result, took)
	f.service.deps.Log.Log(ctx, levelOf(result), "delivery log read", append(attrs, "reasons", f.reasons(),
		"read", f.read, "found", f.found, "settled", f.settled, "asked", f.asked, "pruned", f.pruned)...)
}
