package reconciler

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/countersign/countersign/pkg/daemon"
	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/nudge"
	"github.com/countersign/countersign/pkg/store"
)

const (
	// driftLease is the row by which one replica is elected to compare decided heads with what GitHub shows.
	driftLease = "reconciler.drift"
	// driftWindow is how long a decision is looked after; what is older is evaluated again by the scan long before.
	driftWindow = 72 * time.Hour
	// driftRest is how long GitHub has to show everywhere what was written.
	driftRest = 2 * time.Minute
	// driftPage is how many decisions one statement reads.
	driftPage = 100
)

// How a head differs from its decision: a closed set.
const (
	driftNone       = ""
	driftMissing    = "missing"    // GitHub shows no run of ours
	driftReplaced   = "replaced"   // a newer run of ours decides
	driftConclusion = "conclusion" // the run says something else
	driftEdited     = "edited"     // somebody wrote over the run
)

var driftKinds = []string{driftMissing, driftReplaced, driftConclusion, driftEdited}

// drift is one walk over recently decided heads (P12): what GitHub shows on each is compared with the last confirmed decision.
type drift struct {
	service *Service
	tenure  *tenure
	failures
	result string

	compared, revoked int
}

func (s *Service) comparing() duty {
	return duty{lease: driftLease, every: s.cfg.every(), run: func(work context.Context, t *tenure, _ nudge.Via) walk {
		d := &drift{service: s, tenure: t}
		d.result = d.run(work)
		return d
	}}
}

// run compares up to so many heads, from where the last walk ended; at the end of the window it begins anew the next time.
func (d *drift) run(ctx context.Context) string {
	for d.compared < d.service.cfg.DriftHeads && d.tenure.check() == nil {
		page, err := d.service.deps.Store.NextDecided(ctx, driftWindow, driftRest, driftPage)
		if err != nil {
			d.fail("list", err)
			break
		}
		done, whole := d.comparePage(ctx, page)
		if len(page) < driftPage && whole {
			done = store.DecidedHead{}
		}
		if whole || done.Decision != 0 { // nothing done of a page leaves the cursor where it is
			if err := d.service.deps.Store.KeepDriftCursor(ctx, done); err != nil {
				d.fail("cursor", err)
				break
			}
		}
		if len(page) < driftPage || !whole {
			break
		}
	}
	if err := d.tenure.check(); err != nil {
		d.count(reason(err))
	}
	if len(d.codes) > 0 {
		return resultPartial
	}
	return resultComplete
}

// comparePage returns the last head that is done with, and whether that is the page's last. A head that cannot be read is done
// with: the next round comes to it again.
func (d *drift) comparePage(ctx context.Context, page []store.DecidedHead) (done store.DecidedHead, whole bool) {
	for _, head := range page {
		if d.tenure.check() != nil || d.compared >= d.service.cfg.DriftHeads {
			return done, false
		}
		if head.Current {
			d.compared++
			if err := d.compare(ctx, head); err != nil {
				d.fail("compare", err, "installation", int64(head.Head.Installation), daemon.KeyRepo, head.FullName, daemon.KeyHeadSHA, string(head.Head.SHA))
			}
		}
		done = head
	}
	return done, true
}

func (d *drift) compare(ctx context.Context, head store.DecidedHead) error {
	repo, ok := ghclient.RepoFromFullName(int64(head.Head.Repository), head.FullName)
	if !ok {
		return fmt.Errorf("%w: repository %d has no route", errQueue, head.Head.Repository)
	}
	run, found, err := d.service.deps.Client(int64(head.Head.Installation)).FindRun(ctx, repo, string(head.Head.SHA), d.service.cfg.CheckName)
	if err != nil {
		return err
	}
	kind := differs(head, run, found)
	if kind == driftNone {
		return nil
	}
	revoked, err := d.service.deps.Store.RevokeDrift(ctx, head)
	if err != nil {
		return fmt.Errorf("%w: %w", errQueue, err)
	}
	if !revoked {
		return nil // it has moved on since it was listed
	}
	d.revoked++
	d.service.metrics.drift.WithLabelValues(kind).Inc()
	d.service.deps.Log.WarnContext(ctx, "check run differs from its decision", "kind", kind, daemon.KeyRepo, head.FullName, daemon.KeyHeadSHA, string(head.Head.SHA),
		daemon.KeyGeneration, int64(head.Generation), "decision_id", int64(head.Decision), "run_id", head.RunID, "shown_run_id", run.ID, "shown", run.Status+" "+run.Conclusion)
	if err := d.service.deps.Waker.Wake(ctx, nudge.Wake{
		Subject: nudge.Invalidate, InstallationID: int64(head.Head.Installation), RepositoryID: int64(head.Head.Repository), HeadSHA: string(head.Head.SHA),
	}); err != nil {
		d.service.deps.Log.DebugContext(ctx, "wake not sent", daemon.KeyErr, err)
	}
	return nil
}

// differs names the difference between the run that GitHub shows as the head's latest and the decision.
func differs(head store.DecidedHead, run ghclient.Run, found bool) string {
	status, conclusion := "completed", head.Conclusion
	if conclusion == "pending" { // D10
		status, conclusion = "in_progress", ""
	}
	switch {
	case !found:
		return driftMissing
	case run.ID != head.RunID:
		return driftReplaced
	case run.Status != status || run.Conclusion != conclusion:
		return driftConclusion
	case run.ExternalID != strconv.FormatInt(int64(head.Decision), 10):
		return driftEdited
	}
	return driftNone
}

func (d *drift) fail(step string, err error, attrs ...any) {
	d.failures.left(d.service.deps.Log, "comparison of decided heads left something out", step, err, attrs...)
}

func (d *drift) outcome() string { return d.result }

func (d *drift) report(ctx context.Context, result string, _ time.Duration, attrs []any) {
	d.service.metrics.driftPasses.WithLabelValues(result).Inc()
	d.service.metrics.driftCompared.Add(float64(d.compared))
	d.service.deps.Log.Log(ctx, levelOf(result), "decided heads compared", append(attrs, "reasons", d.reasons(), "compared", d.compared, "revoked", d.revoked)...)
}
