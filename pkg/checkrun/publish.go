package checkrun

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/countersign/countersign/internal/hook"
	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/store"
)

// Publication is one decision to be written on the head's bound run.
type Publication struct {
	Repo       ghclient.Repo
	Evaluation store.Evaluation
	Decision   store.Decision // RunID is filled here
	BaseRefs   []string
	DetailsURL string
	Texts      Texts // shown when the write has to be undone
	// FinalRead compares GitHub's current revisions with the snapshot (fence 1, RG-247, RG-248), inside the guard and before the intent.
	FinalRead func(ctx context.Context) error
}

// Publish writes one decision through the fences: guard → final read → intent (decision row) → PATCH → read-back → confirm.
// On any doubt the run is set back before the guard is released, also when ctx was cancelled; the original error is returned
// and the work stays retryable (RG-259…265). It returns the decision's id. It must not be called again for one evaluation
// after success; a second call is refused by the fences.
func (m *Manager) Publish(ctx context.Context, gh GitHub, s *store.Store, p Publication) (store.DecisionID, error) {
	ctx, span := startSpan(ctx, "publish")
	defer span.End()
	guard, err := s.AcquireGuard(ctx, p.Evaluation.Head, m.cfg.GuardWait)
	if err != nil {
		return 0, err
	}
	defer guard.Release()
	// One deadline for everything inside the guard, and one more for undoing it: authority events wait for both, and are refused
	// when the guard is held longer (P10, RG-161).
	bounded, cancel := context.WithTimeout(ctx, m.cfg.WriteTimeout)
	defer cancel()
	// The guard's own statements ignore the caller's cancellation: cancelling one would close the connection that is the guard.
	shielded, stop := context.WithTimeout(context.WithoutCancel(ctx), m.cfg.WriteTimeout)
	defer stop()
	head, err := guard.Head(shielded)
	if err != nil {
		return 0, err
	}
	t := &target{m: m, gh: gh, repo: p.Repo, guard: guard, head: head, shielded: shielded}
	p.Decision.RunID = head.RunID
	if err := guard.Fences(shielded, p.Evaluation, head.RunID, p.BaseRefs, 0); err != nil {
		return 0, err
	}
	if err := p.FinalRead(bounded); err != nil && !hook.Removed(hook.FinalRead) {
		return 0, err
	}
	id, err := guard.RecordIntent(shielded, p.Evaluation, p.Decision, p.BaseRefs)
	if err != nil {
		return 0, err
	}
	if answered, err := t.writeAndConfirm(bounded, p, id); err != nil {
		return 0, t.undo(ctx, p, id, answered, err)
	}
	return id, nil
}

// writeAndConfirm writes, reads back and confirms. answered says that GitHub answered the write, so that nothing of
// it can still arrive.
func (t *target) writeAndConfirm(ctx context.Context, p Publication, id store.DecisionID) (answered bool, err error) {
	want := t.decided(p, id)
	_, err = t.gh.UpdateRun(ctx, t.repo, t.head.RunID, want)
	t.audit(ctx, "publish", t.head.RunID, "in_progress", p.Decision.Conclusion, err)
	answered = err == nil || refusedForGood(err) || errors.Is(err, ghclient.ErrRateLimited)
	if refusedForGood(err) {
		return answered, fmt.Errorf("publish decision %d: %w: %w", id, ErrRefused, err)
	}
	if err != nil && !errors.Is(err, ghclient.ErrUnknownOutcome) {
		return answered, fmt.Errorf("publish decision %d: %w", id, err)
	}
	// Read back whether or not the answer arrived: an outcome that is unknown is adopted only when it reads exactly as decided.
	if err := t.readBack(ctx, want); err != nil {
		return answered, fmt.Errorf("read back decision %d: %w", id, err)
	}
	if err := ctx.Err(); err != nil {
		return answered, fmt.Errorf("confirm decision %d: %w", id, context.Cause(ctx)) // RG-264: what was cancelled is undone
	}
	return answered, t.guard.ConfirmPublication(t.shielded, p.Evaluation, id, t.head.RunID, p.BaseRefs)
}

func (t *target) decided(p Publication, id store.DecisionID) ghclient.RunSpec {
	spec := ghclient.RunSpec{
		Name: t.m.cfg.Name, HeadSHA: string(t.head.Head.SHA), Status: "completed", Conclusion: p.Decision.Conclusion,
		ExternalID: strconv.FormatInt(int64(id), 10), DetailsURL: p.DetailsURL,
		Title: p.Decision.Title, Summary: p.Decision.Summary, Text: p.Decision.Explanation, ReEvaluateAction: true,
	}
	if p.Decision.Conclusion == "pending" { // D10: how a missing approval looks, never what it allows
		spec.Status, spec.Conclusion = "in_progress", ""
	}
	return spec
}

// readBackTries bounds how often a read that lags the write is repeated.
const readBackTries = 4

func (t *target) readBack(ctx context.Context, want ghclient.RunSpec) error {
	var seen string
	for try := range readBackTries {
		if try > 0 {
			if err := pause(ctx, 100*time.Millisecond<<try); err != nil {
				return err
			}
		}
		run, err := t.gh.GetRun(ctx, t.repo, t.head.RunID)
		if err != nil {
			return err
		}
		if run.ID == t.head.RunID && run.HeadSHA == want.HeadSHA && run.Status == want.Status && run.Conclusion == want.Conclusion && run.ExternalID == want.ExternalID {
			return nil
		}
		seen = fmt.Sprintf("%s %s external id %q", run.Status, run.Conclusion, run.ExternalID)
	}
	return fmt.Errorf("run %d reads %s: %w", t.head.RunID, seen, ErrUnproved)
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// undo sets the run back, shielded from the caller's cancellation, before the guard is released. Only an answered write and a
// read-back that shows the run unfinished clear the intent; otherwise it stays and the next generation replaces the run (P1). The original
// error is returned, joined by nothing: a failed reset is an event of its own in the log (RG-265).
func (t *target) undo(ctx context.Context, p Publication, id store.DecisionID, answered bool, cause error) error {
	if hook.Removed(hook.Undo) {
		return cause
	}
	shielded, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.m.cfg.UndoTimeout)
	defer cancel()
	proved, err := t.resetBound(shielded, p.Texts)
	proved = proved && answered
	if err == nil {
		err = t.guard.SettleReset(shielded, id, t.head.RunID, proved)
	}
	if err != nil || !proved {
		t.m.log.ErrorContext(ctx, "reset after an uncertain publication failed", "repo", t.repo.FullName(), "head_sha", string(t.head.Head.SHA),
			"generation", int64(t.head.Generation), "run_id", t.head.RunID, "decision_id", int64(id), "proved", proved, "err", errText(err), "cause", cause.Error())
	}
	return cause
}

func (t *target) resetBound(ctx context.Context, texts Texts) (proved bool, err error) {
	_, err = t.gh.UpdateRun(ctx, t.repo, t.head.RunID, t.inProgress(texts))
	t.audit(ctx, "reset", t.head.RunID, "uncertain", "in_progress", err)
	if err != nil {
		return false, err
	}
	back, err := t.gh.GetRun(ctx, t.repo, t.head.RunID)
	if err != nil {
		return false, err
	}
	// The decision's id must be gone as well: a run that still carries it may be about to be finished by a late write.
	return unfinished(back) && back.ExternalID == marker(t.head), nil
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
