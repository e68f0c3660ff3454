package evaluator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/countersign/countersign/internal/explain"
	"github.com/countersign/countersign/internal/hook"
	"github.com/countersign/countersign/pkg/checkrun"
	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/nudge"
	"github.com/countersign/countersign/pkg/policy"
	"github.com/countersign/countersign/pkg/store"
)

// did says what one claimed head came to; the set is closed and is a metric label.
type did string

const (
	didPublish  did = "published"
	didNothing  did = "nothing"  // no policy and no run, no open pull request, or already published
	didRequeue  did = "requeued" // the head's generation was advanced
	didAdvance  did = "advanced" // a pull request had moved to another head
	didRecheck  did = "rechecked"
	didNotReach did = "unfinished"
)

type outcome struct {
	did        did
	conclusion string
	decision   store.DecisionID
}

var (
	errAuthorityPending = errors.New("authority work is pending for this head")
	errLagging          = errors.New("github answers older than the trigger promised")
	errTooManyPulls     = fmt.Errorf("%d or more open pull requests share this head: close some of them", store.MaxPullsOnHead)
)

// evaluate is the story of one claimed head. Each step either ends it or leads to the next; an error leaves the work to be
// tried again.
func (w *Worker) evaluate(ctx context.Context, ev store.Evaluation) (outcome, error) {
	gh := w.GitHub(int64(ev.Head.Installation))
	repo, ok := ghclient.RepoFromFullName(int64(ev.Head.Repository), ev.FullName)
	if !ok {
		return outcome{did: didNotReach}, fmt.Errorf("repository %d has no route %q", ev.Head.Repository, ev.FullName)
	}
	if w.policyRepository(repo) {
		return w.complete(ctx, ev, outcome{did: didNothing}, nil) // RG-278
	}
	if ev.Publication == store.PublicationIntended && ev.Group == nil {
		// The invalidator keeps what a merged pull request has (D13), an unconfirmed intent too: asking it again would never end.
		if merged, err := allMerged(ctx, gh, repo, ev); err != nil {
			return outcome{did: didNotReach}, err
		} else if merged {
			return w.complete(ctx, ev, outcome{did: didNothing}, nil)
		}
	}
	if again, err := w.mustRevokeFirst(ctx, ev); err != nil || again {
		return outcome{did: didRequeue}, err
	}
	if ev.Published() && !anyRecheck(ev) {
		return w.complete(ctx, ev, outcome{did: didNothing}, nil) // a crash came between confirmation and completion
	}
	group, err := w.resolveGroup(ctx, gh, repo, &ev)
	if err != nil {
		return outcome{did: didNotReach}, err
	}
	if group.over && len(ev.Rows) == 0 {
		return w.complete(ctx, ev, outcome{did: didNothing}, nil)
	}
	if !ev.RunProved() && !ev.Published() {
		if managed, err := w.firstRun(ctx, gh, repo, &ev); err != nil || !managed {
			return w.unmanaged(ctx, ev, err)
		}
	}
	if pending, err := w.Store.AuthorityPending(ctx, ev.Head, nil); err != nil || pending {
		return outcome{did: didNotReach}, cmp.Or(err, errAuthorityPending) // nothing could be published: do not collect (RG-225)
	}
	if err := w.recordMembers(ctx, ev, group); err != nil {
		return outcome{did: didNotReach}, err
	}
	evidence, err := w.snapshot(ctx, gh, repo, ev, group)
	if err != nil {
		return outcome{did: didNotReach}, err
	}
	if len(evidence.moved) > 0 {
		return w.advance(ctx, ev, evidence.moved)
	}
	if len(evidence.snapshot.Pulls) == 0 && ev.Group == nil {
		if ev.Published() && len(evidence.closed) > 0 {
			return w.advance(ctx, ev, evidence.closed) // a close nobody told us of: the invalidator revokes or keeps (P7)
		}
		return w.complete(ctx, ev, outcome{did: didNothing}, nil) // the invalidator has ended the run (RG-279)
	}
	verdict := policy.Evaluate(evidence.snapshot)
	if ev.Published() {
		return w.recheck(ctx, ev, evidence, verdict)
	}
	return w.publish(ctx, gh, repo, ev, evidence, verdict)
}

// snapshot is collect as one span of the trace.
func (w *Worker) snapshot(ctx context.Context, gh GitHub, repo ghclient.Repo, ev store.Evaluation, group groupView) (evidence, error) {
	ctx, span := w.Tracer.Start(ctx, "snapshot")
	defer span.End()
	return w.collect(ctx, gh, repo, ev, group)
}

// policyRepository reports whether the repository holds the organization's policy; nothing in it is gated (RG-278). Work for
// one is left over from another name.
func (w *Worker) policyRepository(repo ghclient.Repo) bool {
	return strings.EqualFold(repo.Name, cmp.Or(w.Config.GitHub.OrgRepository, ".github"))
}

// mustRevokeFirst sends a head back to the invalidator where its claim cannot be trusted to publish: an intent that was never
// confirmed (a write may still be on its way, P1), or rows of an older authority epoch, once nothing relevant is pending (P8).
func (w *Worker) mustRevokeFirst(ctx context.Context, ev store.Evaluation) (bool, error) {
	reason := ""
	switch {
	case ev.Publication == store.PublicationIntended && !hook.Removed(hook.Intent):
		reason = "publication.unconfirmed"
	case ev.StaleEpoch():
		pending, err := w.Store.AuthorityPending(ctx, ev.Head, nil)
		if err != nil {
			return false, err
		}
		if pending {
			return false, errAuthorityPending
		}
		reason = "authority.epoch"
	default:
		return false, nil
	}
	return true, w.requeue(ctx, ev, reason)
}

func (w *Worker) requeue(ctx context.Context, ev store.Evaluation, reason string) error {
	if err := w.Store.RequeueEvaluation(ctx, ev, reason); err != nil {
		return err
	}
	w.wakeInvalidator(ctx, ev.Head)
	return nil
}

func (w *Worker) wakeInvalidator(ctx context.Context, key store.HeadKey) {
	_ = w.Bus.Wake(ctx, nudge.Wake{ // a lost wake is found by polling (I7)
		Subject: nudge.Invalidate, InstallationID: int64(key.Installation), RepositoryID: int64(key.Repository), HeadSHA: string(key.SHA),
	})
}

func anyRecheck(ev store.Evaluation) bool {
	for _, r := range ev.Rows {
		if r.Recheck {
			return true
		}
	}
	return ev.Group != nil && ev.Group.Recheck
}

// firstRun makes sure that a proved unfinished run exists before any mutable evidence is read (RG-240), where the invalidator
// proved none: on the first evaluation of a head (P3), and where every pull request on it was merged. The latter keeps its
// result, so nothing is written unless one is open (D13). managed is false where nothing is open, and where there is neither a
// run nor a policy file at the base of any pull request on the head (RG-241).
func (w *Worker) firstRun(ctx context.Context, gh GitHub, repo ghclient.Repo, ev *store.Evaluation) (managed bool, err error) {
	bases, err := openBases(ctx, gh, repo, *ev)
	if err != nil || len(bases) == 0 {
		return false, err
	}
	guard, err := w.Store.AcquireGuard(ctx, ev.Head, w.Checks.GuardWait())
	if err != nil {
		return false, err
	}
	defer guard.Release()
	texts := policy.RenderInProgress(policy.InProgressEvaluating)
	proof, err := w.Checks.Reset(ctx, gh, guard, checkrun.ResetRequest{
		Repo: repo, Generation: ev.Generation, Texts: checkrun.Texts{Title: texts.Title, Summary: texts.Summary},
		Hold:   func(ctx context.Context) error { return guard.HoldsEvaluation(ctx, *ev) },
		Create: func(ctx context.Context) (bool, error) { return anyPolicy(ctx, gh, repo, bases) },
	})
	if err != nil || proof == checkrun.ProofNone {
		return false, err
	}
	head, err := guard.Head(ctx)
	if err != nil {
		return false, err
	}
	if head.Generation != ev.Generation { // RG-242
		return false, fmt.Errorf("first run of %s generation %d: %w", ev.Head, ev.Generation, store.ErrSuperseded)
	}
	ev.HeadState = head
	return true, nil
}

// openBases are the base refs of the queued pull requests that are open on this head now, and of the merge group.
func openBases(ctx context.Context, gh GitHub, repo ghclient.Repo, ev store.Evaluation) ([]string, error) {
	var bases []string
	for _, row := range ev.Rows {
		pull, err := gh.Pull(ctx, repo, row.Number)
		if err != nil {
			return nil, err
		}
		if pull.State == "open" && pull.HeadSHA == string(ev.Head.SHA) {
			bases = append(bases, pull.BaseRef)
		}
	}
	if ev.Group != nil {
		bases = append(bases, ev.Group.BaseRef)
	}
	slices.Sort(bases)
	return slices.Compact(bases), nil
}

// allMerged reports whether every queued pull request was merged with this head.
func allMerged(ctx context.Context, gh GitHub, repo ghclient.Repo, ev store.Evaluation) (bool, error) {
	for _, row := range ev.Rows {
		pull, err := gh.Pull(ctx, repo, row.Number)
		if err != nil {
			return false, err
		}
		if !pull.Merged || pull.HeadSHA != string(ev.Head.SHA) {
			return false, nil
		}
	}
	return true, nil
}

// anyPolicy reports whether one of the base refs has a policy file.
func anyPolicy(ctx context.Context, gh GitHub, repo ghclient.Repo, bases []string) (bool, error) {
	for _, base := range bases {
		for _, path := range []string{policy.PolicyPath, policy.FallbackPolicyPath} {
			_, err := gh.File(ctx, repo, base, path)
			if err == nil {
				return true, nil
			}
			if !errors.Is(err, ghclient.ErrNotFound) {
				return false, err
			}
		}
	}
	return false, nil
}

// unmanaged ends silently: no check, no noise (RG-241). A pull request that has moved meanwhile is followed all the same.
func (w *Worker) unmanaged(ctx context.Context, ev store.Evaluation, err error) (outcome, error) {
	if err != nil {
		return outcome{did: didNotReach}, err
	}
	gh := w.GitHub(int64(ev.Head.Installation))
	repo, _ := ghclient.RepoFromFullName(int64(ev.Head.Repository), ev.FullName)
	var moved []store.PullFact
	for _, row := range ev.Rows {
		pull, err := gh.Pull(ctx, repo, row.Number)
		if err != nil {
			return outcome{did: didNotReach}, err
		}
		if lags(row.Watermark, pull) {
			return outcome{did: didNotReach}, errLagging
		}
		if pull.State == "open" && pull.HeadSHA != string(ev.Head.SHA) {
			moved = append(moved, factOf(pull))
		}
	}
	if len(moved) > 0 {
		return w.advance(ctx, ev, moved)
	}
	return w.complete(ctx, ev, outcome{did: didNothing}, nil)
}

// advance follows pull requests that are at another head now (RG-266): their live heads are revoked and queued anew.
func (w *Worker) advance(ctx context.Context, ev store.Evaluation, moved []store.PullFact) (outcome, error) {
	if err := w.Store.AdvanceEvaluation(ctx, ev, moved); err != nil {
		return outcome{did: didNotReach}, err
	}
	w.wakeInvalidator(ctx, ev.Head)
	return outcome{did: didAdvance}, nil
}

func (w *Worker) complete(ctx context.Context, ev store.Evaluation, out outcome, followUps []store.FollowUp) (outcome, error) {
	_, err := w.Store.CompleteEvaluation(ctx, ev, followUps)
	return out, err
}

// publish decides and writes. The final read happens inside the guard; what it finds changed is discarded and queued anew (RG-267).
func (w *Worker) publish(ctx context.Context, gh GitHub, repo ghclient.Repo, ev store.Evaluation, e evidence, verdict policy.Verdict) (outcome, error) {
	look := policy.Look(w.Config.MissingApproval)
	if ev.Group != nil {
		look = policy.LookFailure // whatever else a missing approval looks like, a queue that waits for it stands still
	}
	output := policy.Render(verdict, policy.RenderInput{MissingApproval: look, Insecure: w.Config.AllowInsecureChanges})
	reset := policy.RenderInProgress(policy.InProgressUncertain)
	conclusion := output.Conclusion
	if conclusion == "" {
		conclusion = string(policy.LookPending)
	}
	id, err := w.Checks.Publish(ctx, gh, w.Store, checkrun.Publication{
		Repo: repo, Evaluation: ev, BaseRefs: e.baseRefs(), DetailsURL: w.detailsURL(repo, ev, e),
		Texts:     checkrun.Texts{Title: reset.Title, Summary: reset.Summary},
		Decision:  decisionOf(ev, e, verdict, output, conclusion),
		FinalRead: func(ctx context.Context) error { return e.unchanged(ctx, gh, repo) },
	})
	var changed *changedError
	switch {
	case errors.As(err, &changed) && ev.Group != nil:
		return outcome{did: didRequeue}, w.requeue(ctx, ev, "merge_group.changed")
	case errors.As(err, &changed):
		return w.advance(ctx, ev, changed.facts)
	case err != nil:
		return w.requeueUncertain(ctx, ev, err)
	}
	return w.complete(ctx, ev, outcome{did: didPublish, conclusion: conclusion, decision: id}, w.followUps(ev, e, verdict))
}

// requeueUncertain looks at what a failed publication left: with its intent gone, the same generation is simply tried again;
// with an intent that stands, the head goes back to the invalidator, which replaces the run. So it does where the database
// confirmed and its answer was lost: the run was set back, and the row would call it published.
func (w *Worker) requeueUncertain(ctx context.Context, ev store.Evaluation, cause error) (outcome, error) {
	out := outcome{did: didNotReach}
	shielded, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	head, err := w.Store.GetHead(shielded, ev.Head)
	stands := head.Publication == store.PublicationIntended || head.PublishedGeneration == ev.Generation
	if err == nil && stands && head.Generation == ev.Generation {
		if requeueErr := w.requeue(shielded, ev, "publication.uncertain"); requeueErr == nil {
			out.did = didRequeue
		}
	}
	return out, cause
}

func decisionOf(ev store.Evaluation, e evidence, verdict policy.Verdict, output policy.CheckOutput, conclusion string) store.Decision {
	row := ev.Trigger()
	number := row.Number
	if ev.Group != nil && number == 0 {
		number = ghclient.MergeQueuePull(ev.Group.HeadRef) // the one that the group is named after, for the reader
	}
	return store.Decision{
		Number: number, FullName: ev.FullName, Generation: row.Generation, DeliveryID: row.DeliveryID, Reason: row.Reason,
		EvidenceDigest: policy.Digest(e.snapshot), Evidence: string(e.snapshot.MarshalCanonical()), Verdict: string(verdict.MarshalCanonical()),
		Conclusion: conclusion, Title: output.Title, Summary: output.Summary, Explanation: output.Text,
		Traceparent: row.Traceparent, RequestedAt: row.RequestedAt, Bases: e.bases(), Standings: explain.Standings(e.snapshot, verdict),
	}
}

// followUps keep a row for a later look: after a success one cheap recheck (P5), and the moment at which time alone changes the verdict.
func (w *Worker) followUps(ev store.Evaluation, e evidence, verdict policy.Verdict) []store.FollowUp {
	f := store.FollowUp{Number: ev.Trigger().Number}
	if verdict.Conclusion.Approved() && w.Config.RecheckAfter > 0 && !hook.Removed(hook.Recheck) {
		f.After, f.Reason = w.Config.RecheckAfter, "recheck.success"
	}
	if verdict.NextDue != nil {
		until := max(verdict.NextDue.Sub(e.snapshot.Now), 0) + time.Second
		if f.Reason == "" || until < f.After {
			f.After, f.Reason = until, "verdict.expires"
		}
	}
	if e.refusal != nil {
		f = w.lookAgain(ev)
	}
	if f.Reason == "" {
		return nil
	}
	return []store.FollowUp{f}
}

func (w *Worker) detailsURL(repo ghclient.Repo, ev store.Evaluation, e evidence) string {
	if w.Config.DetailsURL != "" {
		return fmt.Sprintf("%s/pull/%s/%d", w.Config.DetailsURL, repo.FullName(), ev.Trigger().Number)
	}
	return e.htmlURL
}
