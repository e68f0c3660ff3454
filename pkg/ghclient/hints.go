package ghclient

import (
	"fmt"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

// hints remember where something was found, to look there first. Nothing depends on their being right or there at all.
type hints struct {
	pages    *lru.Cache[string, int]    // of an open-pulls cursor
	branches *lru.Cache[string, string] // base branch of a pull request
}

func newHints() *hints {
	pages, _ := lru.New[string, int](4096) // errs only for a size below 1
	branches, _ := lru.New[string, string](16384)
	return &hints{pages: pages, branches: branches}
}

func (h *hints) get(key string) int {
	page, _ := h.pages.Get(key)
	return page
}

func (h *hints) put(key string, page int) { h.pages.Add(key, page) }

func branchKey(installation int64, r Repo, number int) string {
	return fmt.Sprintf("%d|%s|%d", installation, r.FullName(), number)
}

func (h *hints) branch(installation int64, r Repo, number int) string {
	branch, _ := h.branches.Get(branchKey(installation, r, number))
	return branch
}

func (h *hints) putBranch(installation int64, r Repo, number int, branch string) {
	h.branches.Add(branchKey(installation, r, number), branch)
}

// A feature is something an older server may not have.
type feature int

const (
	featureFiles feature = iota // Commit.file in GraphQL
	featureTeams                // repositories and members of a team in GraphQL
	features
)

// lacking remembers what the server refused, and until when that is believed.
type lacking struct {
	mu    sync.Mutex // guards until
	until [features]time.Time
}

func (l *lacking) has(f feature, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return now.Before(l.until[f])
}

func (l *lacking) note(f feature, until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until[f] = until
}
