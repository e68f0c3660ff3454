package invalidator

import (
	"context"
	"errors"

	"github.com/countersign/countersign/pkg/checkrun"
	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/store"
)

// groupPass revokes the head of a merge group (P13). Only a group that GitHub shows to be merged keeps its success; one that ended
// otherwise loses it, and an unfinished run of one is ended. No pull request has the head as its own, but somebody may open one on it:
// those are queued as on any head.
func (w *Worker) groupPass(ctx context.Context, gh GitHub, repo ghclient.Repo, inv store.Invalidation) (outcome, error) {
	open := inv.Group.State == store.GroupOpen
	if inv.Group.EndedReason == "merged" || inv.Group.AnyClosed {
		// In doubt it is revoked: an error here says nothing about the group.
		if merged, err := gh.MergedInto(ctx, repo, inv.Group.BaseRef, string(inv.Head.SHA)); err == nil && merged {
			return w.mergedGroup(ctx, gh, repo, inv)
		}
	}
	out := outcome{}
	var err error
	if out.proof, err = w.reset(ctx, gh, repo, inv); err != nil {
		return out, err
	}
	found, err := w.candidates(ctx, gh, repo, inv)
	if errors.Is(err, ghclient.ErrNotFound) || errors.Is(err, ghclient.ErrInvalid) {
		found, err = candidateSet{}, nil // a commit that only the group's branch held is gone with it
	}
	if err != nil {
		return out, err
	}
	if !open && len(found.open) == 0 && out.proof != checkrun.ProofNone {
		if err := w.cancelWith(ctx, gh, repo, inv, checkrun.Texts{Title: "Merge group ended", Summary: "GitHub took this merge group out of the queue; nothing is decided on it any more."}); err != nil {
			return out, err
		}
	}
	return w.complete(ctx, inv, out, found)
}

// mergedGroup keeps a completed run as it is and ends an unfinished one.
func (w *Worker) mergedGroup(ctx context.Context, gh GitHub, repo ghclient.Repo, inv store.Invalidation) (outcome, error) {
	if err := w.Store.EndMergedGroup(ctx, inv); err != nil {
		return outcome{}, err
	}
	inv.Group.State = store.GroupEnded
	return w.finishMerged(ctx, gh, repo, inv, candidateSet{})
}
