package store

import (
	"context"
	"errors"
	"fmt"
)

// AcceptKnownPull stores a webhook that names a pull request but not its head, such as one about a comment: the trigger goes
// to the head the pull request was last seen at. known is false, and nothing is stored, for a pull request never seen: nothing
// was decided on it, and its first evaluation reads everything. Idempotent by delivery id. Errors: as AcceptDirect.
func (s *Store) AcceptKnownPull(ctx context.Context, d Delivery, w DirectWork) (a Acceptance, known bool, err error) {
	kept, err := s.GetDelivery(ctx, d.ID)
	switch {
	case err == nil:
		same := kept.Event == d.Event && kept.Action == d.Action && kept.Head.Installation == w.Installation &&
			kept.Head.Repository == w.Repository && kept.Number == w.Number
		if !same {
			return Acceptance{}, true, fmt.Errorf("delivery %s: %w", d.ID, ErrDeliveryConflict)
		}
		return Acceptance{Head: kept.Head, HeadGeneration: kept.HeadGeneration, Pending: kept.Pending}, true, nil
	case !errors.Is(err, ErrNotFound):
		return Acceptance{}, false, err
	}
	err = s.queryOne(ctx, `
		-- name: KnownPull
		SELECT head_sha, base_ref, state, merged FROM pull WHERE installation_id = $1 AND repository_id = $2 AND number = $3 AND head_sha <> ''`,
		[]any{w.Installation, w.Repository, w.Number}, &w.Head, &w.BaseRef, &w.State, &w.Merged)
	if err = rowError(err, ErrNotFound, "look up pull request %d", w.Number); errors.Is(err, ErrNotFound) {
		return Acceptance{}, false, nil
	}
	if err != nil {
		return Acceptance{}, false, err
	}
	a, err = s.AcceptDirect(ctx, d, w)
	return a, true, err
}
