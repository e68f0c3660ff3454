package invalidator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/countersign/countersign/pkg/checkrun"
	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/nudge"
	"github.com/countersign/countersign/pkg/store"
)

// Fast resets the head that one accepted delivery named, while its sender still waits (section F). Whatever it answers, the
// head's row stays pending until the durable pass has done both halves. It may run twice for one delivery.
func (w *Worker) Fast(ctx context.Context, q nudge.InvalidateRequest) (nudge.InvalidateReply, error) {
	started := time.Now()
	reply, err := w.fast(ghclient.WithLane(ctx, ghclient.LaneRevocation), q)
	w.metrics.fast.WithLabelValues(reply.Outcome.String()).Inc()
	attrs := []any{
		"delivery_id", q.DeliveryID, "pr", q.PullNumber, "head_sha", q.HeadSHA, "generation", q.HeadGeneration,
		"result", reply.Outcome.String(), "queued_live_head", reply.QueuedLiveHead, "elapsed_ms", time.Since(started).Milliseconds(),
	}
	if err != nil {
		w.Log.WarnContext(ctx, "fast reset failed", append(attrs, "err", err.Error())...)
		return reply, nil
	}
	w.Log.InfoContext(ctx, "fast reset ended", attrs...)
	return reply, nil
}

func (w *Worker) fast(ctx context.Context, q nudge.InvalidateRequest) (nudge.InvalidateReply, error) {
	key := store.HeadKey{Installation: store.InstallationID(q.InstallationID), Repository: store.RepositoryID(q.RepositoryID), SHA: store.SHA(q.HeadSHA)}
	kept, err := w.Store.GetDelivery(ctx, store.DeliveryID(q.DeliveryID))
	if err != nil {
		return nudge.InvalidateReply{}, err
	}
	if kept.Head != key || kept.Number != q.PullNumber || kept.HeadGeneration != store.Generation(q.HeadGeneration) {
		return nudge.InvalidateReply{}, fmt.Errorf("request does not match delivery %s", q.DeliveryID)
	}
	if !kept.Pending {
		return nudge.InvalidateReply{Outcome: nudge.OutcomeSuperseded}, nil // RG-132
	}
	head, err := w.Store.GetHead(ctx, key)
	if err != nil {
		return nudge.InvalidateReply{}, err
	}
	repo, ok := ghclient.RepoFromFullName(q.RepositoryID, head.FullName)
	if !ok {
		return nudge.InvalidateReply{}, fmt.Errorf("repository %d has no route", q.RepositoryID)
	}
	f := fastReset{w: w, gh: w.GitHub(q.InstallationID), repo: repo, key: key, generation: kept.HeadGeneration, delivery: store.Delivery{ID: store.DeliveryID(q.DeliveryID), Traceparent: q.Traceparent}, reason: kept.Event + "." + kept.Action}
	return f.run(ctx, q.PullNumber)
}

// fastReset is one request on its way.
type fastReset struct {
	w          *Worker
	gh         GitHub
	repo       ghclient.Repo
	key        store.HeadKey
	generation store.Generation
	delivery   store.Delivery
	reason     string
}

func (f fastReset) run(ctx context.Context, number int) (nudge.InvalidateReply, error) {
	pull, err := f.gh.Pull(ctx, f.repo, number) // RG-131
	if err != nil {
		return f.failed(nudge.InvalidateReply{}, err)
	}
	if pull.State != "open" {
		return nudge.InvalidateReply{Outcome: nudge.OutcomeNothing}, nil // RG-138: the durable pass finishes it
	}
	reply := nudge.InvalidateReply{}
	if pull.HeadSHA != string(f.key.SHA) {
		pullKey := store.PullKey{Installation: f.key.Installation, Repository: f.key.Repository, Number: number}
		reply.QueuedLiveHead, err = f.w.Store.QueueLiveHead(ctx, pullKey, f.repo.FullName(), factOf(pull), f.delivery, f.reason) // RG-134
		if err != nil {
			return reply, err
		}
	}
	proof, err := f.reset(ctx, pull)
	if err != nil {
		return f.failed(reply, err)
	}
	if proof == checkrun.ProofNone {
		reply.Outcome = nudge.OutcomeNothing
		return reply, nil
	}
	reply.Outcome = nudge.OutcomeReset
	return reply, f.w.Store.MarkDeliveryInvalidated(ctx, f.delivery.ID) // RG-146
}

// failed names an error as an outcome; a rate limit has been stored by the client already (RG-145).
func (f fastReset) failed(reply nudge.InvalidateReply, err error) (nudge.InvalidateReply, error) {
	switch {
	case errors.Is(err, ghclient.ErrRateLimited):
		reply.Outcome = nudge.OutcomeRateLimited
	case errors.Is(err, store.ErrSuperseded):
		reply.Outcome = nudge.OutcomeSuperseded
		return reply, nil
	}
	return reply, err
}

func (f fastReset) reset(ctx context.Context, pull ghclient.Pull) (checkrun.Proof, error) {
	guard, err := f.w.Store.AcquireGuard(ctx, f.key, f.w.Checks.GuardWait())
	if err != nil {
		return "", err
	}
	defer guard.Release()
	return f.w.Checks.Reset(ctx, f.gh, guard, checkrun.ResetRequest{
		Repo: f.repo, Generation: f.generation, Texts: reevaluating(),
		Hold: func(ctx context.Context) error { return f.hold(ctx, guard) },
		Create: func(ctx context.Context) (bool, error) {
			if pull.HeadSHA != string(f.key.SHA) { // RG-136, RG-137: never on a historical head
				return false, nil
			}
			return f.managed(ctx, pull)
		},
	})
}

// hold re-reads the token after the GitHub lookup, immediately before a write, inside the guard (RG-132, RG-133).
func (f fastReset) hold(ctx context.Context, guard *store.Guard) error {
	head, err := guard.Head(ctx)
	if err != nil {
		return err
	}
	if head.Generation != f.generation || head.InvalidatedGeneration >= f.generation {
		return fmt.Errorf("fast reset of %s generation %d: %w", f.key, f.generation, store.ErrSuperseded)
	}
	return nil
}

// managed reports whether a policy file exists at the pull request's base (RG-136).
func (f fastReset) managed(ctx context.Context, pull ghclient.Pull) (bool, error) {
	for _, path := range policyPaths() {
		_, err := f.gh.File(ctx, f.repo, pull.BaseRef, path)
		if err == nil {
			return true, nil
		}
		if !errors.Is(err, ghclient.ErrNotFound) {
			return false, err
		}
	}
	return false, nil
}
