package githubsim

import (
	"fmt"
	"slices"
	"strings"
)

// MergeGroup is one group of a merge queue: a temporary branch on which the
// pull requests of the group are merged one after the other.
type MergeGroup struct {
	Head, HeadRef string // HeadRef begins with refs/heads/gh-readonly-queue/
	Base, BaseSHA string
	Pulls         []int
}

// EnqueueMergeGroup builds a merge group of open pull requests on a base branch, in
// the given order, and sends merge_group.checks_requested. A required check must
// then be reported on the group's head, which is the head of no pull request.
func (s *Sim) EnqueueMergeGroup(fullName, base string, pulls ...int) (g MergeGroup, err error) {
	err = s.onRepo(fullName, func(m *mutation, r *repo) error {
		tip := r.branches[base]
		if tip == "" || len(pulls) == 0 {
			return fmt.Errorf("merge group on %s of %s: no such branch, or no pull requests", base, fullName)
		}
		g = MergeGroup{Base: base, BaseSHA: tip, Head: tip, Pulls: slices.Clone(pulls)}
		owner := m.w.accounts[r.ownerID]
		for _, n := range pulls {
			p := r.pulls[n]
			if p == nil || !p.open || p.baseRef != base {
				return fmt.Errorf("merge group on %s of %s: #%d is not open on it", base, fullName, n)
			}
			g.Head = m.mergeOnto(r, p, g.Head, owner).sha
		}
		g.HeadRef = fmt.Sprintf("refs/heads/gh-readonly-queue/%s/pr-%d-%s", base, pulls[len(pulls)-1], tip)
		r.branches[strings.TrimPrefix(g.HeadRef, "refs/heads/")] = g.Head
		m.emitMergeGroup(r, g, "checks_requested", nil)
		return nil
	})
	return g, err
}

// DestroyMergeGroup ends a group for a reason: merged (its pull requests are
// merged with the commits of the group), invalidated or dequeued.
func (s *Sim) DestroyMergeGroup(fullName string, g MergeGroup, reason string) error {
	return s.onRepo(fullName, func(m *mutation, r *repo) error {
		branch := strings.TrimPrefix(g.HeadRef, "refs/heads/")
		if r.branches[branch] != g.Head {
			return fmt.Errorf("destroy merge group %s: it is not there", g.HeadRef)
		}
		delete(r.branches, branch)
		m.emitMergeGroup(r, g, "destroyed", obj{"reason": reason})
		if reason != "merged" {
			return nil
		}
		owner := m.w.accounts[r.ownerID]
		commits := m.s.objects.firstParents(g.BaseSHA, g.Head)
		for i, n := range g.Pulls {
			if p := r.pulls[n]; p != nil && p.open {
				m.markMerged(r, p, commits[i], owner)
			}
		}
		m.setBranchAs(r, g.Base, g.Head, owner, "merge_queue_merge")
		return nil
	})
}

// firstParents lists the commits from base (not included) to head along first
// parents, oldest first.
func (o *objects) firstParents(base, head string) []string {
	var list []string
	for at := head; at != base; at = o.commits[at].parents[0] {
		list = append(list, at)
	}
	slices.Reverse(list)
	return list
}

func (m *mutation) emitMergeGroup(r *repo, g MergeGroup, action string, extra obj) {
	m.emit(event{name: "merge_group", action: action, repo: r, sender: r.ownerID}, func(x *renderer) obj {
		o := obj{"merge_group": obj{
			"head_sha": g.Head, "head_ref": g.HeadRef, "base_sha": g.BaseSHA, "base_ref": "refs/heads/" + g.Base,
			"head_commit": x.suiteCommit(m.s.objects.commits[g.Head]),
		}}
		for k, v := range extra {
			o[k] = v
		}
		return o
	})
}
