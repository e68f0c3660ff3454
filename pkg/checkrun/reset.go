package checkrun

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/countersign/countersign/internal/hook"
	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/store"
)

// Proof says how a head came to be proved unfinished.
type Proof string

// The ways; the set is closed and is a metric label.
const (
	ProofKnown    Proof = "known"    // it was proved for this generation before; nothing was asked (P3)
	ProofRead     Proof = "read"     // the bound run was never finished; it was read, not written
	ProofReset    Proof = "reset"    // it was set back, and reads unfinished
	ProofReplaced Proof = "replaced" // a new run was posted and the old one set to failure
	ProofCreated  Proof = "created"  // the first run of the head was made
	ProofNone     Proof = "none"     // there is no managed run and none was wanted (RG-187)
)

// ResetRequest asks for a head's run to be proved unfinished for one generation.
type ResetRequest struct {
	Repo       ghclient.Repo
	Generation store.Generation
	// Hold verifies, inside the guard and immediately before each write, that the caller still may write (RG-133, RG-183, RG-255).
	Hold func(ctx context.Context) error
	// Create is asked when the head has no managed run: true makes the first one (RG-136). Nil, or false, and a head without
	// a run gets no write (RG-187).
	Create func(ctx context.Context) (bool, error)
	Texts  Texts
}

// Reset proves, inside guard, that the head's managed run is unfinished for the generation, and binds it (P1, P2). It may run
// twice: what was proved is not asked again. Errors: store.ErrSuperseded and what Hold returns mean that somebody newer has
// the head; ErrUnproved and GitHub's errors leave the head to be tried again.
func (m *Manager) Reset(ctx context.Context, gh GitHub, guard *store.Guard, req ResetRequest) (Proof, error) {
	ctx, span := startSpan(ctx, "reset")
	defer span.End()
	head, err := guard.Head(ctx)
	if err != nil {
		return "", err
	}
	if head.Generation != req.Generation {
		return "", fmt.Errorf("reset %s: generation %d is current, not %d: %w", head.Head, head.Generation, req.Generation, store.ErrSuperseded)
	}
	ctx, cancel := context.WithTimeout(ctx, m.cfg.WriteTimeout)
	defer cancel()
	t := &target{m: m, gh: gh, repo: req.Repo, guard: guard, head: head}
	proof, err := t.prove(ctx, req)
	if err != nil {
		m.metrics.proofs.WithLabelValues(notProved(err)).Inc()
		return "", fmt.Errorf("reset %s generation %d: %w", head.Head, head.Generation, err)
	}
	m.metrics.proofs.WithLabelValues(string(proof)).Inc()
	return proof, nil
}

// prove proves the effective run unfinished: the bound one, but for a head on which GitHub showed another (P12).
func (t *target) prove(ctx context.Context, req ResetRequest) (Proof, error) {
	if !t.head.Drifted {
		return t.proveBound(ctx, req)
	}
	runs, err := t.gh.ListRuns(ctx, t.repo, string(t.head.Head.SHA), t.m.cfg.Name, true)
	if err != nil {
		return "", err
	}
	if newest := newestOf(runs); newest > t.head.RunID && t.head.Publication != store.PublicationIntended {
		if err := t.guard.AdoptRun(ctx, t.head.Generation, newest); err != nil {
			return "", err
		}
		t.head.RunID, t.head.RunGeneration, t.head.Publication = newest, 0, store.PublicationNone
	}
	proof, err := t.proveBound(ctx, req)
	if err != nil {
		return proof, err
	}
	return proof, t.sweep(ctx, req, runs)
}

// sweep sets to failure what else passes under the managed name, so that no reading of "latest" finds it (P2, P12).
func (t *target) sweep(ctx context.Context, req ResetRequest, runs []ghclient.Run) error {
	head, err := t.guard.Head(ctx)
	if err != nil {
		return err
	}
	for _, run := range runs {
		if run.ID == head.RunID || run.Status != "completed" || (run.Conclusion != "success" && run.Conclusion != "neutral" && run.Conclusion != "skipped") {
			continue
		}
		if err := req.Hold(ctx); err != nil {
			return err
		}
		t.supersede(ctx, run.ID)
	}
	return nil
}

func newestOf(runs []ghclient.Run) (id int64) {
	for _, r := range runs {
		id = max(id, r.ID)
	}
	return id
}

// proveBound is the decision table of P2.
func (t *target) proveBound(ctx context.Context, req ResetRequest) (Proof, error) {
	if t.head.RunProved() && t.head.Publication == store.PublicationNone {
		return ProofKnown, nil
	}
	if t.head.RunID == 0 {
		return t.proveUnknown(ctx, req)
	}
	if t.head.Publication == store.PublicationIntended && !hook.Removed(hook.RunBinding) {
		return t.replace(ctx, req) // a write may still arrive on the bound run (P1)
	}
	run, err := t.gh.GetRun(ctx, t.repo, t.head.RunID)
	switch {
	case errors.Is(err, ghclient.ErrNotFound):
		// GitHub does not know it: another run, or none, is the effective one. That also ends a POST of this generation that was
		// answered and came to nothing; where the read only lags, one more run is made, and is the newest.
		return ProofReplaced, t.post(ctx, req)
	case err != nil:
		return "", err
	case unfinished(run) && t.head.Publication == store.PublicationNone:
		return ProofRead, t.guard.BindRun(ctx, t.head.Generation, run.ID, false)
	}
	return t.setBack(ctx, req, run)
}

// proveUnknown handles a head whose run this database does not know: found by App, name and exact head (RG-186), adopted
// before anything is proved of it; or absent.
func (t *target) proveUnknown(ctx context.Context, req ResetRequest) (Proof, error) {
	run, found, err := t.gh.FindRun(ctx, t.repo, string(t.head.Head.SHA), t.m.cfg.Name)
	if err != nil {
		return "", err
	}
	if !found {
		return t.first(ctx, req)
	}
	if err := t.guard.AdoptRun(ctx, t.head.Generation, run.ID); err != nil {
		return "", err
	}
	t.head.RunID = run.ID
	if unfinished(run) {
		return ProofRead, t.guard.BindRun(ctx, t.head.Generation, run.ID, false)
	}
	return t.setBack(ctx, req, run)
}

// first makes the head's first run, where it is wanted.
func (t *target) first(ctx context.Context, req ResetRequest) (Proof, error) {
	if req.Create == nil {
		return ProofNone, nil
	}
	if wanted, err := req.Create(ctx); err != nil || !wanted {
		return ProofNone, err
	}
	if err := req.Hold(ctx); err != nil {
		return "", err
	}
	run, err := t.gh.CreateRun(ctx, t.repo, t.inProgress(req.Texts))
	t.audit(ctx, "create", run.ID, "", "in_progress", err)
	if err != nil {
		return "", err
	}
	return ProofCreated, t.bindNew(ctx, run)
}

// setBack PATCHes the finished run to in_progress and believes only the read-back: GitHub may refuse, or accept and change
// nothing. Then the run is replaced.
func (t *target) setBack(ctx context.Context, req ResetRequest, run ghclient.Run) (Proof, error) {
	if err := req.Hold(ctx); err != nil {
		return "", err
	}
	_, err := t.gh.UpdateRun(ctx, t.repo, run.ID, t.inProgress(req.Texts))
	t.audit(ctx, "reset", run.ID, describe(run), "in_progress", err)
	if err != nil && !refusedForGood(err) {
		return "", err
	}
	if err == nil && hook.Removed(hook.Proof) {
		return ProofReset, t.guard.BindRun(ctx, t.head.Generation, run.ID, false)
	}
	if err == nil {
		back, err := t.gh.GetRun(ctx, t.repo, run.ID)
		if err != nil {
			return "", err
		}
		if unfinished(back) {
			return ProofReset, t.guard.BindRun(ctx, t.head.Generation, run.ID, false)
		}
	}
	return t.replace(ctx, req)
}

// refusedForGood: GitHub understood the request and will not do it on this run (422, 403 of a reinstalled App, 404, 409).
func refusedForGood(err error) bool {
	return errors.Is(err, ghclient.ErrInvalid) || errors.Is(err, ghclient.ErrForbidden) || errors.Is(err, ghclient.ErrNotFound) || errors.Is(err, ghclient.ErrConflict)
}

// replace posts one new run for the generation, in the place of the bound one.
func (t *target) replace(ctx context.Context, req ResetRequest) (Proof, error) {
	if t.head.PostedGeneration == t.head.Generation {
		return "", fmt.Errorf("run %d was posted for this generation and reads finished: %w", t.head.RunID, ErrUnproved)
	}
	return ProofReplaced, t.post(ctx, req)
}

// post makes a new in_progress run, once a generation: an earlier POST whose answer was lost is found by its marker and
// adopted instead of being repeated. An older run than the bound one is never adopted: the newest is the one that counts, and
// a listing may lag. The run it takes the place of is set to failure before the new one is recorded, so that no success
// remains in any reading of "latest" (P2): once the new id is stored, nobody would look for the old one again.
func (t *target) post(ctx context.Context, req ResetRequest) error {
	run, found, err := t.gh.FindRun(ctx, t.repo, string(t.head.Head.SHA), t.m.cfg.Name)
	if err != nil {
		return err
	}
	if !found || run.ID <= t.head.RunID || run.ExternalID != marker(t.head) || !unfinished(run) {
		if err := req.Hold(ctx); err != nil {
			return err
		}
		run, err = t.gh.CreateRun(ctx, t.repo, t.inProgress(req.Texts))
		t.audit(ctx, "create", run.ID, "", "in_progress", err)
		if err != nil {
			return err
		}
	}
	if t.head.RunID != 0 {
		t.supersede(ctx, t.head.RunID)
	}
	return t.bindNew(ctx, run)
}

// bindNew stores a new run's id before anything is proved of it, and binds it once it reads unfinished.
func (t *target) bindNew(ctx context.Context, run ghclient.Run) error {
	if err := t.guard.Posted(ctx, t.head.Generation, run.ID); err != nil {
		return err
	}
	back, err := t.readNew(ctx, run.ID)
	if err != nil {
		return err
	}
	if !unfinished(back) {
		return fmt.Errorf("new run %d: %w", run.ID, ErrUnproved)
	}
	return t.guard.BindRun(ctx, t.head.Generation, run.ID, true)
}

// readNew reads a run that was just made, which a replica that lags does not know yet.
func (t *target) readNew(ctx context.Context, id int64) (run ghclient.Run, err error) {
	for try := range readBackTries {
		if try > 0 {
			if err := pause(ctx, hook.Pace(100*time.Millisecond<<try)); err != nil {
				return run, err
			}
		}
		if run, err = t.gh.GetRun(ctx, t.repo, id); !errors.Is(err, ghclient.ErrNotFound) {
			return run, err
		}
	}
	return run, err
}

// supersede is best effort: the new run is what counts; a success that stays behind it is counted and seen by the reconciler.
func (t *target) supersede(ctx context.Context, old int64) {
	_, err := t.gh.UpdateRun(ctx, t.repo, old, ghclient.RunSpec{
		Name: t.m.cfg.Name, HeadSHA: string(t.head.Head.SHA), Status: "completed", Conclusion: "failure",
		Title: "Replaced by a newer run", Summary: "The evidence changed after this run; the newer run of the same name decides.",
	})
	t.audit(ctx, "supersede", old, "completed", "failure", err)
}

// Cancel ends an unfinished run whose pull requests are all closed (RG-200, D13): by id, only after the run was proved
// unfinished for the generation. Errors leave it to be tried again.
func (m *Manager) Cancel(ctx context.Context, gh GitHub, guard *store.Guard, req ResetRequest) error {
	head, err := guard.Head(ctx)
	if err != nil {
		return err
	}
	if head.Generation != req.Generation || !head.RunProved() {
		return fmt.Errorf("cancel %s: %w", head.Head, store.ErrSuperseded)
	}
	ctx, cancel := context.WithTimeout(ctx, m.cfg.WriteTimeout)
	defer cancel()
	t := &target{m: m, gh: gh, repo: req.Repo, guard: guard, head: head}
	if err := req.Hold(ctx); err != nil {
		return err
	}
	_, err = gh.UpdateRun(ctx, req.Repo, head.RunID, ghclient.RunSpec{
		Name: m.cfg.Name, HeadSHA: string(head.Head.SHA), Status: "completed", Conclusion: "cancelled", ExternalID: marker(head),
		Title: req.Texts.Title, Summary: req.Texts.Summary,
	})
	t.audit(ctx, "cancel", head.RunID, "in_progress", "cancelled", err)
	if err != nil {
		return fmt.Errorf("cancel run %d of %s: %w", head.RunID, head.Head, err)
	}
	return nil
}

func describe(r ghclient.Run) string {
	if r.Conclusion != "" {
		return r.Conclusion
	}
	return r.Status
}
