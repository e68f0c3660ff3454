package invalidator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/countersign/countersign/internal/hook"
	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/store"
)

// candidateSet is what fresh reads say of the pull requests of a head.
type candidateSet struct {
	open   []store.PullFact // open on this exact commit
	merged int              // merged with this head
	closed int              // closed without a merge, with this head
}

// mergedOnly: every pull request that has this head was merged, and there is one.
func (c candidateSet) mergedOnly() bool { return len(c.open) == 0 && c.closed == 0 && c.merged > 0 }

// ended: there are pull requests with this head and none of them is open. An empty set never means that (P6).
func (c candidateSet) ended() bool { return len(c.open) == 0 && c.merged+c.closed > 0 }

// candidates reads, each by itself, every pull request that GitHub lists for the commit or that we have seen on it: the
// listing is empty for heads of forks (P6, RG-188, RG-189). A malformed or contradictory answer fails the pass (RG-194, RG-195).
func (w *Worker) candidates(ctx context.Context, gh GitHub, repo ghclient.Repo, inv store.Invalidation) (candidateSet, error) {
	listed, err := gh.PullsOfCommit(ctx, repo, string(inv.Head.SHA))
	if err != nil {
		return candidateSet{}, fmt.Errorf("list pull requests of %s: %w", inv.Head.SHA, err)
	}
	numbers := candidateNumbers(listed, inv)
	if n := openCandidates(listed, inv); n > maxCandidates {
		return candidateSet{}, fmt.Errorf("%d pull requests may be open on %s, more than %d: %w", n, inv.Head.SHA, maxCandidates, ghclient.ErrTooLarge)
	}
	var mu sync.Mutex
	var set candidateSet
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(4)
	for _, number := range numbers {
		group.Go(func() error {
			pull, err := gh.Pull(ctx, repo, number)
			if errors.Is(err, ghclient.ErrNotFound) && !slices.ContainsFunc(listed, func(s ghclient.PullSummary) bool { return s.Number == number }) {
				return nil // seen once, deleted since: GitHub does not list it either
			}
			if err != nil {
				return fmt.Errorf("read pull request %d: %w", number, err)
			}
			mu.Lock()
			defer mu.Unlock()
			set.add(pull, inv.Head.SHA)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return candidateSet{}, err
	}
	slices.SortFunc(set.open, func(a, b store.PullFact) int { return a.Number - b.Number })
	return set, nil
}

func candidateNumbers(listed []ghclient.PullSummary, inv store.Invalidation) []int {
	var numbers []int
	for _, p := range listed {
		// The listing holds every pull request that contains the commit; only those that have it as their head count.
		if p.HeadSHA == string(inv.Head.SHA) {
			numbers = append(numbers, p.Number)
		}
	}
	for _, p := range inv.Seen {
		if hook.Removed(hook.Candidates) {
			break
		}
		numbers = append(numbers, p.Number)
	}
	slices.Sort(numbers)
	return slices.Compact(numbers)
}

// maxCandidates is RG-192, for GitHub's listing and what we have seen together.
const maxCandidates = 100

// openCandidates counts those that may be open on the head: listed there, or last seen open on it.
func openCandidates(listed []ghclient.PullSummary, inv store.Invalidation) int {
	numbers := map[int]bool{}
	for _, p := range listed {
		if p.HeadSHA == string(inv.Head.SHA) {
			numbers[p.Number] = true
		}
	}
	for _, p := range inv.Seen {
		if p.State != "closed" {
			numbers[p.Number] = true
		}
	}
	return len(numbers)
}

// add files a fresh read. A pull request that has moved to another head is not this head's (RG-191).
func (c *candidateSet) add(p ghclient.Pull, head store.SHA) {
	switch {
	case p.HeadSHA != string(head):
	case p.State == "open":
		c.open = append(c.open, factOf(p))
	case p.Merged:
		c.merged++
	default:
		c.closed++
	}
}

// factOf is a fresh read as the store keeps it.
func factOf(p ghclient.Pull) store.PullFact {
	return store.PullFact{
		Number: p.Number, Head: store.SHA(p.HeadSHA), BaseRef: p.BaseRef, State: p.State, Merged: p.Merged,
		Title: p.Title, AuthorLogin: p.Author.Login, UpdatedAt: p.UpdatedAt,
	}
}
