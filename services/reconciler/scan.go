package reconciler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/countersign/countersign/pkg/daemon"
	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/nudge"
	"github.com/countersign/countersign/pkg/store"
)

// How a scan ended (RG-415, RG-416, RG-423): a closed set, recorded in the lease and used as a metric label.
const (
	resultComplete = "complete"
	resultPartial  = "partial" // something was left out; what was queued stays
	resultFailure  = "failure" // there was no valid list of installations
)

var results = []string{resultComplete, resultPartial, resultFailure}

// pruneBatch is how many rows one retention step removes.
const pruneBatch = 1000

// scan is one walk over everything the App is installed on, with what is reported when it has ended.
type scan struct {
	service *Service
	tenure  *tenure

	installations, suspended, failedInstallations int
	repositories, pulls, queued                   int
	woken                                         int // parked authority work whose target is back (P14)
	prunedDeliveries, prunedHeads                 int
	failures
	result string
}

// failures counts what a walk left out, by reason code.
type failures struct {
	codes map[string]int
}

// run is the whole scan. Retention comes first, so that nothing GitHub does postpones it (RG-405, RG-407).
func (sc *scan) run(ctx context.Context) string {
	sc.prune(ctx)
	if err := sc.tenure.check(); err != nil {
		return sc.ended(err)
	}
	installations, err := sc.service.deps.App.Installations(ctx)
	if ended := sc.tenure.check(); ended != nil {
		return sc.ended(ended)
	}
	if err != nil {
		sc.fail("installations", err)
		return resultFailure // RG-423: not even one record of it is used
	}
	sc.markInstallations(ctx, installations)
	for _, i := range installations {
		if err := sc.tenure.check(); err != nil {
			return sc.ended(err)
		}
		if i.SuspendedAt != nil {
			sc.suspended++ // RG-425: the client validated the record first
			continue
		}
		sc.installations++
		if !sc.installation(ctx, i) {
			sc.failedInstallations++
		}
	}
	if err := sc.tenure.check(); err != nil {
		return sc.ended(err)
	}
	if len(sc.codes) > 0 {
		return resultPartial
	}
	return resultComplete
}

// ended is the result of a scan that may not go on (RG-415, RG-419).
func (sc *scan) ended(err error) string {
	sc.count(reason(err))
	return resultPartial
}

// prune removes what retention no longer keeps, a batch a statement, and looks between them (RG-405, RG-420).
func (sc *scan) prune(ctx context.Context) {
	for _, step := range []struct {
		kind   string
		pruned *int
		prune  func(ctx context.Context, age time.Duration, limit int) (int, error)
	}{
		{"deliveries", &sc.prunedDeliveries, sc.service.deps.Store.PruneDeliveries},
		{"heads", &sc.prunedHeads, sc.service.deps.Store.PruneHeads},
	} {
		for sc.tenure.check() == nil {
			n, err := step.prune(ctx, sc.service.cfg.retention(), pruneBatch)
			*step.pruned += n
			if err != nil {
				sc.fail("prune "+step.kind, err)
			}
			if err != nil || n < pruneBatch {
				break
			}
		}
	}
}

// installation scans one installation; false says that something of it was left out. A failure here never reaches another (RG-424).
func (sc *scan) installation(ctx context.Context, i ghclient.Installation) bool {
	if err := sc.service.deps.Store.KeepInstallation(ctx, store.InstallationID(i.ID), i.AccountLogin); err != nil {
		sc.failIn(i.ID, "", fmt.Errorf("%w: %w", errQueue, err))
		return false
	}
	if sc.tenure.check() != nil {
		return false
	}
	client := sc.service.deps.Client(i.ID)
	repositories, err := client.Repositories(ctx)
	if sc.tenure.check() != nil {
		return false
	}
	if err != nil {
		sc.failIn(i.ID, "", err)
		return false
	}
	whole := sc.wakeParked(ctx, i.ID, repositories)
	for _, r := range repositories {
		if sc.tenure.check() != nil {
			return false
		}
		if r.Archived || strings.EqualFold(r.Name, sc.service.cfg.GitHub.OrgRepository) {
			continue // RG-425, RG-417
		}
		err := sc.repository(ctx, client, i.ID, r.Repo)
		if sc.tenure.check() != nil {
			return false
		}
		if err == nil {
			continue
		}
		whole = false
		sc.failIn(i.ID, r.FullName(), err)
		if ofInstallation(err) {
			return false // every other repository of it would say the same
		}
	}
	return whole
}

// markInstallations parks the work of installations that are gone or suspended, and wakes that of those that are back (P14).
func (sc *scan) markInstallations(ctx context.Context, listed []ghclient.Installation) {
	var present, suspended []store.InstallationID
	for _, i := range listed {
		present = append(present, store.InstallationID(i.ID))
		if i.SuspendedAt != nil {
			suspended = append(suspended, store.InstallationID(i.ID))
		}
	}
	marked, err := sc.service.deps.Store.MarkInstallations(ctx, present, suspended)
	if err != nil {
		sc.fail("mark installations", fmt.Errorf("%w: %w", errQueue, err))
		return
	}
	sc.present(marked, "installation")
}

// present counts what a listing changed.
func (sc *scan) present(p store.Presence, what string) {
	m := sc.service.metrics
	m.presence.WithLabelValues(what + "_gone").Add(float64(p.Gone))
	m.presence.WithLabelValues(what + "_returned").Add(float64(p.Returned))
	m.parked.WithLabelValues("parked").Add(float64(p.Parked))
	m.parked.WithLabelValues("woken").Add(float64(p.Woken))
	if p.Gone+p.Returned+p.Parked+p.Woken > 0 {
		sc.service.deps.Log.Info("listing changed what is parked", "of", what, "gone", p.Gone, "returned", p.Returned, "parked", p.Parked, "woken", p.Woken)
	}
}

// wakeParked ends the long wait of authority work whose repository is reachable again, although no event said so (P14).
func (sc *scan) wakeParked(ctx context.Context, installation int64, listed []ghclient.RepositoryInfo) bool {
	ids := make([]store.RepositoryID, len(listed))
	for n, r := range listed {
		ids[n] = store.RepositoryID(r.ID)
	}
	marked, err := sc.service.deps.Store.MarkRepositories(ctx, store.InstallationID(installation), ids)
	if err != nil {
		sc.failIn(installation, "", fmt.Errorf("%w: %w", errQueue, err))
		return false
	}
	sc.present(marked, "repository")
	if sc.tenure.check() != nil {
		return false
	}
	woken, err := sc.service.deps.Store.WakeParked(ctx, store.InstallationID(installation), ids)
	if err != nil {
		sc.failIn(installation, "", fmt.Errorf("%w: %w", errQueue, err))
		return false
	}
	sc.woken += woken
	if woken > 0 {
		sc.wake(ctx, nudge.Wake{Subject: nudge.Fanout, InstallationID: installation})
	}
	return true
}

// repository reads the list of open pull requests to its end before it queues any: a list that turns out to be malformed
// queues nothing (RG-424).
func (sc *scan) repository(ctx context.Context, client Client, installation int64, r ghclient.Repo) error {
	pulls, err := sc.openPulls(ctx, client, r)
	if err != nil {
		return err
	}
	sc.repositories++
	sc.pulls += len(pulls)
	queued := 0
	for _, pull := range pulls {
		if err = sc.tenure.check(); err != nil {
			break
		}
		var did bool
		if did, err = sc.enqueue(ctx, installation, r, pull); err != nil {
			break
		}
		if did {
			queued++
		}
	}
	sc.queued += queued
	if queued > 0 {
		sc.wake(ctx, nudge.Wake{Subject: nudge.Invalidate, InstallationID: installation, RepositoryID: r.ID})
	}
	return err
}

func (sc *scan) openPulls(ctx context.Context, client Client, r ghclient.Repo) ([]ghclient.Pull, error) {
	var all []ghclient.Pull
	seen := map[int]bool{}
	for page := 1; page != 0; {
		pulls, next, err := client.OpenPulls(ctx, r, "", page)
		if ended := sc.tenure.check(); ended != nil {
			return nil, ended
		}
		if err != nil {
			return nil, err
		}
		for _, p := range pulls {
			if seen[p.Number] {
				return nil, fmt.Errorf("list the open pull requests of %s: one is listed twice: %w", r.FullName(), ghclient.ErrMalformed) // RG-413
			}
			seen[p.Number] = true
		}
		all = append(all, pulls...)
		page = next
	}
	return all, nil
}

// errQueue marks a failure to queue, which is the database's and not GitHub's.
var errQueue = errors.New("queue failure")

// enqueue queues the pull request if nothing is waiting for it and it is due (RG-401, RG-402, RG-404).
func (sc *scan) enqueue(ctx context.Context, installation int64, r ghclient.Repo, p ghclient.Pull) (bool, error) {
	key := store.PullKey{Installation: store.InstallationID(installation), Repository: store.RepositoryID(r.ID), Number: p.Number}
	fact := store.PullFact{
		Number: p.Number, Head: store.SHA(p.HeadSHA), BaseRef: p.BaseRef, State: p.State, Merged: p.Merged,
		Title: p.Title, AuthorLogin: p.Author.Login, UpdatedAt: p.UpdatedAt,
	}
	did, err := sc.service.deps.Store.EnqueueIdle(ctx, key, r.FullName(), fact, sc.service.cfg.Recheck)
	if err != nil {
		return false, fmt.Errorf("%w: %w", errQueue, err)
	}
	return did, nil
}

// wake tells a service that a committed row has work. A wake that is not sent costs one poll (I7).
func (sc *scan) wake(ctx context.Context, w nudge.Wake) {
	if err := sc.service.deps.Waker.Wake(ctx, w); err != nil {
		sc.service.deps.Log.DebugContext(ctx, "wake not sent", daemon.KeyErr, err)
	}
}

// failIn records a failure of one installation or repository.
func (sc *scan) failIn(installation int64, repo string, err error) {
	sc.fail("installation", err, "installation", installation, daemon.KeyRepo, repo)
}

func (sc *scan) fail(step string, err error, attrs ...any) {
	sc.failures.left(sc.service.deps.Log, "scan left something out", step, err, attrs...)
}

// left counts and logs what was left out. What GitHub sent malformed is named by a fixed code only, never by its value (RG-426).
func (f *failures) left(log *slog.Logger, message, step string, err error, attrs ...any) {
	code := reason(err)
	f.count(code)
	attrs = append(attrs, "step", step, "reason", code)
	if code != "malformed" {
		attrs = append(attrs, daemon.KeyErr, err)
	}
	log.Warn(message, attrs...)
}

func (f *failures) count(code string) {
	if f.codes == nil {
		f.codes = map[string]int{}
	}
	f.codes[code]++
}

// reasons lists the codes of what was left out.
func (f *failures) reasons() []string { return slices.Sorted(maps.Keys(f.codes)) }

func (sc *scan) outcome() string { return sc.result }

func (sc *scan) report(ctx context.Context, result string, took time.Duration, attrs []any) {
	sc.service.metrics.recordScan(sc, result, took)
	sc.service.deps.Log.Log(ctx, levelOf(result), "reconcile scan", append(attrs, "reasons", sc.reasons(),
		"installations", sc.installations, "suspended", sc.suspended, "failed_installations", sc.failedInstallations,
		"repositories", sc.repositories, "pulls", sc.pulls, "queued", sc.queued, "woken", sc.woken,
		"pruned_deliveries", sc.prunedDeliveries, "pruned_heads", sc.prunedHeads)...)
}
