package githubsim

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// MergeGroup is one group of a merge queue: a temporary branch on which the
// pull requests of the group are merged one after the other.
type MergeGroup struct {
	Head, HeadRef string // HeadRef begins with refs/heads/gh-readonly-queue/
	Base, BaseSHA string
	Pulls         []int
}

// GroupOptions say how a merge group is built.
type GroupOptions struct {
	// On stacks the group on another that is still in the queue: its base is
	// the other's head, as for every pull request that is not the first.
	On *MergeGroup
	// Squash makes one commit without a second parent of each pull request, as
	// a queue whose merge method is squash does.
	Squash bool
	// NoEvent sends no webhook: GitHub's delivery was lost.
	NoEvent bool
}

// queueEntry is one pull request that waits in a merge queue.
type queueEntry struct {
	id         int64
	pull       int
	base, head string // the commits between which it was merged
	ref        string // of the group's branch
	at         time.Time
}

// EnqueueMergeGroup builds a merge group of open pull requests on a base branch, in
// the given order, and sends merge_group.checks_requested. A required check must
// then be reported on the group's head, which is the head of no pull request.
func (s *Sim) EnqueueMergeGroup(fullName, base string, pulls ...int) (MergeGroup, error) {
	return s.EnqueueMergeGroupWith(fullName, base, GroupOptions{}, pulls...)
}

// EnqueueMergeGroupWith is EnqueueMergeGroup with a choice of how. A group is
// never built again by itself: DestroyMergeGroup ends one, and this makes the next.
func (s *Sim) EnqueueMergeGroupWith(fullName, base string, o GroupOptions, pulls ...int) (g MergeGroup, err error) {
	err = s.onRepo(fullName, func(m *mutation, r *repo) error {
		tip := r.branches[base]
		if tip == "" || len(pulls) == 0 {
			return fmt.Errorf("merge group on %s of %s: no such branch, or no pull requests", base, fullName)
		}
		if o.On != nil {
			tip = o.On.Head
		}
		g = MergeGroup{Base: base, BaseSHA: tip, Head: tip, Pulls: slices.Clone(pulls)}
		g.HeadRef = fmt.Sprintf("refs/heads/gh-readonly-queue/%s/pr-%d-%s", base, pulls[len(pulls)-1], tip)
		owner := m.w.accounts[r.ownerID]
		var entries []*queueEntry
		for _, n := range pulls {
			p := r.pulls[n]
			if p == nil || !p.open || p.baseRef != base {
				return fmt.Errorf("merge group on %s of %s: #%d is not open on it", base, fullName, n)
			}
			before := g.Head
			merged := m.mergeOnto(r, p, g.Head, owner)
			if o.Squash {
				alone := *merged
				alone.parents = []string{before}
				merged = m.s.objects.putCommit(alone)
			}
			g.Head = merged.sha
			entries = append(entries, &queueEntry{id: m.s.nextID(), pull: n, base: before, head: g.Head, ref: g.HeadRef, at: m.at})
		}
		if r.queues == nil {
			r.queues = map[string][]*queueEntry{}
		}
		r.queues[base] = append(r.queues[base], entries...)
		r.branches[strings.TrimPrefix(g.HeadRef, "refs/heads/")] = g.Head
		if !o.NoEvent {
			m.emitMergeGroup(r, g, "checks_requested", nil)
		}
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
		r.queues[g.Base] = slices.DeleteFunc(r.queues[g.Base], func(e *queueEntry) bool { return e.ref == g.HeadRef })
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

// mergeQueue is the queue of a branch, null where nothing was ever queued: the
// stand-in has no setting that makes one.
func (e *execution) mergeQueue(r *repo, a args) any {
	branch, _ := a["branch"].(string)
	branch = cmp.Or(branch, r.defaultBranch)
	waiting, made := r.queues[branch]
	if !made {
		return nil
	}
	return &node{typ: "MergeQueue", fields: map[string]any{
		"id": nodeID("MQ", r.id), "url": e.x.repoHTML(r) + "/queue/" + branch, "repository": func(args) any { return e.repository(r) },
		"entries": func(a args) any {
			var list []*node
			for i, one := range waiting {
				list = append(list, &node{typ: "MergeQueueEntry", fields: map[string]any{
					"id": nodeID("MQE", one.id), "position": i + 1, "state": "AWAITING_CHECKS", "enqueuedAt": stamp(one.at),
					"baseCommit":  func(args) any { return e.commit(r, e.c.s.objects.commits[one.base]) },
					"headCommit":  func(args) any { return e.commit(r, e.c.s.objects.commits[one.head]) },
					"pullRequest": func(args) any { return e.pullRequest(r, r.pulls[one.pull]) },
				}})
			}
			return connection("MergeQueueEntryConnection", "entries", list, a)
		},
	}}
}
