package evaluator

import (
	"context"
	"fmt"
	"slices"

	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/store"
)

// changedError: the final read found pull requests that are no longer what the snapshot was made from (RG-267).
type changedError struct {
	facts []store.PullFact
	what  string
}

func (e *changedError) Error() string { return "evidence changed before publication: " + e.what }

// unchanged is fence 1: immediately before the intent, inside the guard, each pull request of the snapshot is read again and
// compared (RG-247, RG-248). A difference is a *changedError with what GitHub reports now.
func (e evidence) unchanged(ctx context.Context, gh GitHub, repo ghclient.Repo) error {
	changed := &changedError{}
	for _, was := range e.pulls {
		now, err := gh.PullState(ctx, repo, was.Number)
		if err != nil {
			return fmt.Errorf("final read of pull request %d: %w", was.Number, err)
		}
		if what := difference(was, e.rulesRef[was.Number], now); what != "" {
			changed.facts = append(changed.facts, factOf(now))
			changed.what = fmt.Sprintf("pull request %d: %s", was.Number, what)
		}
	}
	if len(changed.facts) > 0 {
		return changed
	}
	return nil
}

// difference names the first revision that moved, "" when none did.
func difference(was ghclient.Pull, rulesRef string, now ghclient.Pull) string {
	switch {
	case now.State != was.State:
		return "state"
	case now.HeadSHA != was.HeadSHA:
		return "head"
	case now.BaseRef != was.BaseRef:
		return "base ref"
	case now.BaseSHA != was.BaseSHA:
		return "base commit"
	case now.BaseTip != "" && now.BaseTip != rulesRef:
		return "base branch"
	case now.ChangedFiles != was.ChangedFiles:
		return "changed files"
	case now.Commits != was.Commits:
		return "commits"
	case now.Draft != was.Draft:
		return "draft"
	case !slices.Equal(now.Labels, was.Labels):
		return "labels"
	}
	return ""
}
