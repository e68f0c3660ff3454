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

// HeadWork is a trigger that names a commit alone: the button of a check whose pull requests the payload does not tell, which is so
// for a fork's head and for a merge group's.
type HeadWork struct {
	Installation InstallationID
	AccountLogin string
	Repository   RepositoryID
	FullName     string // lower-cased route (RG-035)
	Head         SHA
	Reason       string
}

// AcceptKnownHead stores it for whatever is known of that head: its open merge group, or else the first of its open pull requests,
// whose evaluation answers for all of them (P4); number names it, 0 is the group. known is false, and nothing is stored, where
// nothing is known. Idempotent by delivery id. Errors: as AcceptDirect.
func (s *Store) AcceptKnownHead(ctx context.Context, d Delivery, w HeadWork) (a Acceptance, number int, known bool, err error) {
	key := HeadKey{w.Installation, w.Repository, w.Head}
	kept, err := s.GetDelivery(ctx, d.ID)
	switch {
	case err == nil && (kept.Event != d.Event || kept.Action != d.Action || kept.Head != key):
		return Acceptance{}, 0, true, fmt.Errorf("delivery %s: %w", d.ID, ErrDeliveryConflict)
	case err == nil:
		return Acceptance{Head: kept.Head, HeadGeneration: kept.HeadGeneration, Pending: kept.Pending}, kept.Number, true, nil
	case !errors.Is(err, ErrNotFound):
		return Acceptance{}, 0, false, err
	}
	g, err := s.GetMergeGroup(ctx, key)
	if err == nil && g.State == GroupOpen {
		a, err = s.AcceptMergeGroup(ctx, d, GroupWork{
			Installation: w.Installation, AccountLogin: w.AccountLogin, Repository: w.Repository, FullName: w.FullName, Head: w.Head,
			HeadRef: g.HeadRef, BaseRef: g.BaseRef, BaseSHA: g.BaseSHA, Reason: w.Reason,
		})
		return a, 0, true, err
	}
	if err != nil && !errors.Is(err, ErrNotFound) {
		return Acceptance{}, 0, false, err
	}
	direct := DirectWork{Installation: w.Installation, AccountLogin: w.AccountLogin, Repository: w.Repository, FullName: w.FullName, Head: w.Head, Reason: w.Reason, State: "open"}
	err = s.queryOne(ctx, `
		-- name: KnownPullOfHead
		SELECT number, base_ref FROM pull WHERE installation_id = $1 AND repository_id = $2 AND head_sha = $3 AND state = 'open'
		ORDER BY number LIMIT 1`, []any{w.Installation, w.Repository, w.Head}, &direct.Number, &direct.BaseRef)
	if err = rowError(err, ErrNotFound, "look up the pull requests of %s", key); errors.Is(err, ErrNotFound) {
		return Acceptance{}, 0, false, nil
	}
	if err != nil {
		return Acceptance{}, 0, false, err
	}
	a, err = s.AcceptDirect(ctx, d, direct)
	return a, direct.Number, true, err
}
