package evaluator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/policy"
	"github.com/countersign/countersign/pkg/store"
)

// groupPatience is how long a merge group whose members cannot be proved yet is read again before that is its result: GitHub's reads
// may lag behind its webhook, and a failed check takes the pull requests out of the queue.
const groupPatience = 30 * time.Second

var (
	errMembersPending = errors.New("a member of the merge group has work of its own first")
	errGroupUnproved  = fmt.Errorf("merge group is not proved yet: %w", errLagging)
)

// groupView is what a merge group is made of, by its commits and by GitHub's queue; the zero value is no group.
type groupView struct {
	// over: GitHub shows that the group is merged, or that its branch is gone. The row was ended.
	over bool
	// snapshot carries the refs and what keeps the members from being proved; the members are added when they were read.
	snapshot *policy.MergeGroup
	steps    []groupStep
}

// groupStep is one commit of the group's own: the merge of one pull request, or, in a queue that squashes or rebases, what GitHub's
// queue says is one.
type groupStep struct {
	commit string
	// head is the pull request's head inside the group.
	head string
	// candidates may be the pull request; named are those that GitHub's queue says are.
	candidates, named []int
}

// resolveGroup finds the pull requests of the claimed merge group. Every commit between the base branch's tip and the group's head
// has to be accounted for, not only those that this group added to the one in front of it: a queue may merge a group whose
// predecessor failed. It ends the group's row where GitHub shows that it is over.
//
// How a member and its head are proved: where the queue makes merge commits, by the commit's second parent, which is the head; where it
// squashes or rebases, nothing in the commits names it, so that GitHub's queue has to, for every one of them.
func (w *Worker) resolveGroup(ctx context.Context, gh GitHub, repo ghclient.Repo, ev *store.Evaluation) (groupView, error) {
	g := ev.Group
	if g == nil {
		return groupView{}, nil
	}
	queue, err := gh.MergeQueue(ctx, repo, g.BaseRef, g.HeadRef)
	if err != nil {
		return groupView{}, err
	}
	view := groupView{snapshot: &policy.MergeGroup{BaseRef: g.BaseRef, HeadRef: g.HeadRef, State: policy.FactPresent, QueueState: policy.FactPresent}}
	if !queue.Readable {
		view.snapshot.QueueState, view.snapshot.QueueProblem = policy.FactUnknown, queue.Why
	}
	if queue.BaseTip == "" {
		view.fail("the branch %s is not there", g.BaseRef)
		return view, nil
	}
	compared, err := gh.Compare(ctx, repo, queue.BaseTip, string(ev.Head.SHA))
	switch {
	case errors.Is(err, ghclient.ErrTooLarge):
		view.fail("it has more commits than are read; let the queue merge fewer pull requests at once")
		return view, nil
	case err != nil:
		return groupView{}, err
	case compared.Contained():
		return w.endGroup(ctx, ev, "merged")
	case queue.GroupSHA != string(ev.Head.SHA) && waitedFor(*ev) > groupPatience:
		return w.endGroup(ctx, ev, "gone")
	case queue.GroupSHA != string(ev.Head.SHA):
		return groupView{}, errGroupUnproved
	}
	return view, w.findSteps(ctx, gh, repo, *ev, &view, compared, queue)
}

// waitedFor is how long the group's newest trigger has been waiting.
func waitedFor(ev store.Evaluation) time.Duration { return ev.ClaimedAt.Sub(ev.Group.RequestedAt) }

func (w *Worker) endGroup(ctx context.Context, ev *store.Evaluation, reason string) (groupView, error) {
	if err := w.Store.EndMergeGroup(ctx, *ev, reason); err != nil {
		return groupView{}, err
	}
	w.Log.InfoContext(ctx, "merge group ended", "repo", ev.FullName, "head_sha", string(ev.Head.SHA), "reason", reason)
	ev.Group = nil
	return groupView{over: true}, nil
}

// fail records the first reason for which the members are not proved.
func (v *groupView) fail(format string, args ...any) {
	if v.snapshot.State == policy.FactPresent {
		v.snapshot.State, v.snapshot.Problem = policy.FactAbsent, fmt.Sprintf(format, args...)
	}
}

// findSteps walks the group's first parents from its head down to the base branch.
func (w *Worker) findSteps(ctx context.Context, gh GitHub, repo ghclient.Repo, ev store.Evaluation, view *groupView, compared ghclient.Comparison, queue ghclient.MergeQueue) error {
	parents := map[string][]string{}
	for _, c := range compared.Commits {
		parents[c.SHA] = c.Parents
	}
	var chain []string
	linear := false
	for at := string(ev.Head.SHA); ; {
		up, own := parents[at]
		if !own {
			break // the comparison is whole, so the base branch has this one
		}
		if len(up) < 1 || len(up) > 2 || len(chain) > len(compared.Commits) {
			view.fail("commit %s has %d parents; a merge queue makes commits with one or two", at, len(up))
			return nil
		}
		chain, linear = append(chain, at), linear || len(up) == 1
		at = up[0]
	}
	if linear {
		view.linearSteps(ev, chain, parents, queue)
		return nil
	}
	for i, commit := range chain {
		step := groupStep{commit: commit, head: parents[commit][1]}
		for _, e := range queue.Entries {
			if e.HeadSHA == commit && e.Pull != 0 {
				step.named = append(step.named, e.Pull)
			}
		}
		if err := w.findCandidates(ctx, gh, repo, ev, &step); err != nil {
			return err
		}
		if hint := ghclient.MergeQueuePull(ev.Group.HeadRef); i == 0 && hint != 0 {
			step.candidates = append(step.candidates, hint)
		}
		slices.Sort(step.candidates)
		step.candidates = slices.Compact(step.candidates)
		view.steps = append(view.steps, step)
	}
	return nil
}

// findCandidates lists who may have the step's head: GitHub's listing of the commit, which is empty for heads of forks, what we have
// seen on it (P6), and the queue's own entry.
func (w *Worker) findCandidates(ctx context.Context, gh GitHub, repo ghclient.Repo, ev store.Evaluation, step *groupStep) error {
	listed, err := gh.PullsOfCommit(ctx, repo, step.head)
	if err != nil {
		return err
	}
	seen, err := w.Store.SeenPulls(ctx, store.HeadKey{Installation: ev.Head.Installation, Repository: ev.Head.Repository, SHA: store.SHA(step.head)})
	if err != nil {
		return err
	}
	step.candidates = slices.Clone(step.named)
	var moved []int
	for _, p := range listed {
		if p.HeadSHA == step.head {
			step.candidates = append(step.candidates, p.Number)
		} else {
			moved = append(moved, p.Number)
		}
	}
	for _, p := range seen {
		step.candidates = append(step.candidates, p.Number)
	}
	for _, m := range ev.Group.Members {
		if m.Head == store.SHA(step.head) {
			step.candidates = append(step.candidates, m.Number)
		}
	}
	if len(step.candidates) == 0 {
		step.candidates = moved // they contain the commit and have another head by now: the result names them
	}
	return nil
}

// linearSteps follows the queue's entries from the group's head to the base branch, each from the commit that the last one stands on.
func (v *groupView) linearSteps(ev store.Evaluation, chain []string, parents map[string][]string, queue ghclient.MergeQueue) {
	if !queue.Readable {
		v.fail("the queue squashes or rebases, so only GitHub's merge queue can say what is inside, and it cannot be read: %s", queue.Why)
		return
	}
	rank := map[string]int{}
	for i, commit := range chain {
		rank[commit] = i
	}
	pinned := map[int]store.SHA{}
	for _, m := range ev.Group.Members {
		pinned[m.Number] = m.Head
	}
	covered, next := 0, chain[0]
	for covered < len(chain) {
		base := ""
		for _, e := range queue.Entries {
			if e.HeadSHA != next {
				continue
			}
			if e.Pull == 0 || e.BaseSHA == "" || base != "" && base != e.BaseSHA {
				v.fail("GitHub's merge queue does not say which pull requests commit %s holds, or on what it stands", next)
				return
			}
			base = e.BaseSHA
			head := e.PullHead
			if was, known := pinned[e.Pull]; known {
				head = string(was) // the one it was queued with: a later push leaves the queue, or should
			}
			v.steps = append(v.steps, groupStep{commit: next, head: head, candidates: []int{e.Pull}, named: []int{e.Pull}})
		}
		at, inside := rank[base]
		_, aside := parents[base]
		switch {
		case base == "":
			v.fail("GitHub's merge queue has no entry for commit %s, which is inside", next)
			return
		case !inside && !aside:
			at = len(chain) // the base branch has it
		case !inside || at <= rank[next]:
			v.fail("GitHub's merge queue puts commit %s on %s, where it does not stand", next, base)
			return
		}
		covered, next = at, base
	}
	for _, e := range queue.Entries { // an entry in the middle of what another one claims is a member that hides
		if _, inside := rank[e.HeadSHA]; inside && !slices.ContainsFunc(v.steps, func(s groupStep) bool { return s.commit == e.HeadSHA }) {
			v.steps = append(v.steps, groupStep{commit: e.HeadSHA, head: e.PullHead, candidates: []int{e.Pull}, named: []int{e.Pull}})
		}
	}
}

// members are all candidates with the head that each would have inside the group.
func (v groupView) members() []store.GroupMember {
	heads := map[int]string{}
	var list []store.GroupMember
	for _, s := range v.steps {
		for _, n := range s.candidates {
			if _, twice := heads[n]; !twice {
				heads[n] = s.head
				list = append(list, store.GroupMember{Number: n, Head: store.SHA(s.head)})
			}
		}
	}
	return list
}

// recordMembers makes the group depend on its members, before anything about them is read; then it waits for what they have to do
// themselves.
func (w *Worker) recordMembers(ctx context.Context, ev store.Evaluation, view groupView) error {
	if ev.Group == nil {
		return nil
	}
	if err := w.Store.RecordMembers(ctx, ev, view.members()); err != nil {
		return err
	}
	pending, err := w.Store.MembersPending(ctx, ev)
	if err != nil {
		return err
	}
	if pending && waitedFor(ev) < 10*groupPatience {
		w.wakeInvalidator(ctx, ev.Head)
		return errMembersPending
	}
	if pending {
		return fmt.Errorf("%w, and it does not end", errMembersPending)
	}
	return nil
}

// readMembers reads every candidate of every step and keeps those that are open at the step's head, into the group's base: the
// members. A step without one, and one that the queue names and that is not one, leave the group unproved.
func (c *collector) readMembers(ctx context.Context, view groupView) error {
	if view.snapshot == nil {
		return nil
	}
	group := *view.snapshot
	c.snapshot.MergeGroup = &group
	why := make([]map[int]string, len(view.steps))
	workers, gctx := errgroup.WithContext(ctx)
	workers.SetLimit(6)
	for i, step := range view.steps {
		why[i] = map[int]string{}
		for _, n := range step.candidates {
			workers.Go(func() error { return c.readMember(gctx, step, n, why[i]) })
		}
	}
	if err := workers.Wait(); err != nil {
		return err
	}
	kept := groupView{snapshot: &group}
	for i, step := range view.steps {
		kept.judgeStep(step, why[i])
	}
	slices.SortFunc(c.pulls, func(a, b ghclient.Pull) int { return a.Number - b.Number })
	if group.State != policy.FactPresent && waitedFor(c.ev) < groupPatience {
		return fmt.Errorf("%w: %s", errGroupUnproved, group.Problem)
	}
	return nil
}

// judgeStep adds the step's members; why holds "" for each that is one.
func (v *groupView) judgeStep(step groupStep, why map[int]string) {
	members := 0
	for _, n := range step.candidates {
		reason := why[n]
		switch {
		case reason == "":
			members++
			v.snapshot.Members = append(v.snapshot.Members, policy.MergeGroupMember{Number: n, HeadSHA: step.head})
		case slices.Contains(step.named, n):
			v.fail("pull request %d, which GitHub's merge queue names for commit %s, %s", n, step.commit, reason)
		}
	}
	if members > 0 {
		return
	}
	for _, n := range step.candidates {
		v.fail("commit %s merges %s, and pull request %d %s", step.commit, step.head, n, why[n])
	}
	v.fail("commit %s merges %s, which is the head of no open pull request into %s", step.commit, step.head, v.snapshot.BaseRef)
}

func (c *collector) readMember(ctx context.Context, step groupStep, number int, why map[int]string) error {
	say := func(format string, args ...any) {
		c.mu.Lock()
		defer c.mu.Unlock()
		why[number] = fmt.Sprintf(format, args...)
	}
	e, err := c.gh.Evidence(ctx, c.repo, number)
	switch {
	case errors.Is(err, ghclient.ErrNotFound):
		say("does not exist")
		return nil
	case err != nil:
		return fmt.Errorf("read evidence of merge group member %d: %w", number, err)
	case e.Pull.State != "open":
		say("is closed")
		return nil
	case e.Pull.HeadSHA != step.head:
		say("has moved to %s since it was queued", e.Pull.HeadSHA)
		return nil
	case e.Pull.BaseRef != c.snapshot.MergeGroup.BaseRef:
		say("goes into %s", e.Pull.BaseRef)
		return nil
	}
	files, err := c.gh.ChangedFiles(ctx, c.repo, number, e.Pull.ChangedFiles)
	if err != nil {
		return fmt.Errorf("list files of merge group member %d: %w", number, err)
	}
	say("")
	return c.add(e, files)
}
