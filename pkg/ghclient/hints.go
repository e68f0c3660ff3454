package ghclient

import (
	"fmt"

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
