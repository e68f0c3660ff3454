package ghclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

const (
	opMergeQueue operation = "graphql.merge_queue"
	// maxQueueEntries is how many entries of one merge queue are read: GitHub builds at most 100 groups at a time.
	maxQueueEntries = 500
	// maxGroupCommits bounds the commits between a base branch and a merge group's head.
	maxGroupCommits = 1000
)

// QueuePermissions are what a merge queue's entries need beside what an evaluator has anyway. They are asked for by themselves: an
// installation that has not granted merge_queues would otherwise get no token at all.
var QueuePermissions = Permissions{"contents": "read", "merge_queues": "read", "pull_requests": "read"}

// Comparison is what a head has that a base has not.
type Comparison struct {
	// Status is identical, ahead, behind or diverged, as GitHub spells it. identical and behind: the base contains the head.
	Status    string
	MergeBase string
	// Commits are all of them, in GitHub's order.
	Commits []CommitParents
}

// Contained reports whether the base contains the head already.
func (c Comparison) Contained() bool { return c.Status == "identical" || c.Status == "behind" }

// CommitParents is a commit with its parents in their order: the first is what it was made on.
type CommitParents struct {
	SHA     string
	Parents []string
}

// Compare lists every commit that head has and base, a branch or a commit, has not. A list that is not as long as GitHub says is
// ErrMalformed; more than 1,000 commits are ErrTooLarge. Errors: ErrNotFound where either is gone.
func (c *Client) Compare(ctx context.Context, r Repo, base, head string) (Comparison, error) {
	out, err := c.compareAll(ctx, r, base, head)
	return out, doing(err, "compare %s of %s with %s", head, r.FullName(), base)
}

func (c *Client) compareAll(ctx context.Context, r Repo, base, head string) (Comparison, error) {
	path, err := r.path("compare", base+"..."+head)
	if err != nil {
		return Comparison{}, err
	}
	var out Comparison
	for page := 1; ; page++ {
		root, err := c.get(ctx, opCompare, path, url.Values{"per_page": {strconv.Itoa(perPage)}, "page": {strconv.Itoa(page)}})
		if err != nil {
			return Comparison{}, err
		}
		status, mergeBase := root.at("status").oneOf("identical", "ahead", "behind", "diverged"), root.at("merge_base_commit").object().at("sha").sha()
		total, items := root.at("total_commits").count(), root.at("commits").list()
		if page > 1 && (status != out.Status || mergeBase != out.MergeBase) {
			root.at("status").fail("the same as on the first page")
		}
		out.Status, out.MergeBase = status, mergeBase
		for _, item := range items {
			one := CommitParents{SHA: item.object().at("sha").sha()}
			for _, parent := range item.at("parents").list() {
				one.Parents = append(one.Parents, parent.object().at("sha").sha())
			}
			out.Commits = append(out.Commits, one)
		}
		switch {
		case root.read.err != nil:
			return Comparison{}, malformed(opCompare, root.read.err)
		case total > maxGroupCommits:
			return Comparison{}, &apiError{sentinel: ErrTooLarge, op: opCompare, status: http.StatusOK, text: fmt.Sprintf("more than %d commits", maxGroupCommits)}
		case len(out.Commits) == total:
			return out, nil
		case len(items) == 0 || len(out.Commits) > total:
			return Comparison{}, malformed(opCompare, fmt.Errorf("%d commits listed of %d", len(out.Commits), total))
		}
	}
}

// MergeQueueEntry is one pull request that waits in a merge queue. BaseSHA and HeadSHA are the commits between which it is merged; both
// are "" where GitHub has not built them yet.
type MergeQueueEntry struct {
	Position         int
	Pull             int
	PullHead         string // the pull request's head now
	State            string
	BaseSHA, HeadSHA string
}

// MergeQueue is what GitHub's merge queue of a branch says now, with the branch of one group.
type MergeQueue struct {
	// BaseTip is the tip of the base branch; "" where it is gone.
	BaseTip string
	// GroupSHA is what the group's own branch points to; "" where the branch is gone.
	GroupSHA string
	// Readable is false where this installation may not see the queue, or the server knows none; Why says so. Then Entries is empty.
	Readable bool
	Why      string
	Entries  []MergeQueueEntry
}

// MergeQueue reads the merge queue of a base branch and where a group's branch is, in one request. With a token that lacks
// merge_queues:read, and on a server without merge queues, it says so in the answer instead of failing: the group's commits may prove
// enough. base is a branch name, groupRef a full ref.
func (c *Client) MergeQueue(ctx context.Context, r Repo, base, groupRef string) (MergeQueue, error) {
	queue, err := (&Client{app: c.app, installation: c.installation, perms: QueuePermissions}).mergeQueue(ctx, r, base, groupRef, true)
	if errors.Is(err, ErrForbidden) || errors.Is(err, ErrInvalid) {
		why := "this server does not know merge queues as asked"
		if permissionRefused(err) {
			why = "the App's installation lacks merge_queues:read"
		}
		if queue, err = c.mergeQueue(ctx, r, base, groupRef, false); err == nil {
			queue.Why = why
		}
	}
	return queue, doing(err, "read the merge queue of %s for %s", r.FullName(), base)
}

// MergedInto reports whether a branch contains a commit. Errors: ErrNotFound where either is gone.
func (c *Client) MergedInto(ctx context.Context, r Repo, branch, sha string) (bool, error) {
	refs, err := c.mergeQueue(ctx, r, branch, "refs/heads/"+branch, false)
	if err == nil && refs.BaseTip == "" {
		err = &apiError{sentinel: ErrNotFound, op: opMergeQueue, text: "the branch is gone"}
	}
	if err != nil {
		return false, doing(err, "read the tip of %s of %s", branch, r.FullName())
	}
	compared, err := c.Compare(ctx, r, refs.BaseTip, sha)
	return err == nil && compared.Contained(), err
}

func (c *Client) mergeQueue(ctx context.Context, r Repo, base, groupRef string, entries bool) (MergeQueue, error) {
	out := MergeQueue{Readable: entries}
	for after := ""; ; {
		variables := map[string]any{"owner": r.Owner, "name": r.Name, "base": "refs/heads/" + base, "group": groupRef}
		if entries {
			variables["branch"] = base
			variables["after"] = nil
			if after != "" {
				variables["after"] = after
			}
		}
		data, err := c.query(ctx, opMergeQueue, mergeQueueQuery(entries), variables)
		if err != nil {
			return MergeQueue{}, err
		}
		repository := data.at("repository").object()
		id, name := repository.at("databaseId").id(), repository.at("nameWithOwner").text()
		out.BaseTip, out.GroupSHA = refTip(repository.at("base")), refTip(repository.at("group"))
		list := repository.at("mergeQueue").at("entries")
		more := entries && !repository.at("mergeQueue").missing() && list.object().at("pageInfo").object().at("hasNextPage").flag()
		if entries && !repository.at("mergeQueue").missing() {
			for _, item := range list.at("nodes").list() {
				out.Entries = append(out.Entries, readQueueEntry(item.object()))
			}
			after = list.at("pageInfo").at("endCursor").optionalText()
		}
		if data.read.err != nil {
			return MergeQueue{}, malformed(opMergeQueue, data.read.err)
		}
		found, ok := RepoFromFullName(id, name)
		if !ok {
			return MergeQueue{}, malformed(opMergeQueue, errors.New("the repository has no name"))
		}
		if err := r.mustBe(opMergeQueue, found); err != nil {
			return MergeQueue{}, err
		}
		switch {
		case !more:
			slices.SortFunc(out.Entries, func(a, b MergeQueueEntry) int { return a.Position - b.Position })
			return out, nil
		case after == "" || len(out.Entries) > maxQueueEntries:
			return MergeQueue{}, &apiError{sentinel: ErrTooLarge, op: opMergeQueue, text: fmt.Sprintf("more than %d entries, or no cursor to them", maxQueueEntries)}
		}
	}
}

// permissionRefused: no token with the permission (422 at the mint), or the field is forbidden to the one we have.
func permissionRefused(err error) bool {
	return errors.Is(err, ErrForbidden) || strings.Contains(strings.ToLower(err.Error()), "permission")
}

func refTip(ref node) string {
	if ref.missing() || ref.object().at("target").missing() {
		return ""
	}
	return ref.at("target").object().at("oid").sha()
}

func readQueueEntry(item node) MergeQueueEntry {
	e := MergeQueueEntry{Position: item.at("position").count(), State: item.at("state").text()}
	if pull := item.at("pullRequest"); !pull.missing() {
		e.Pull, e.PullHead = pull.object().at("number").number(), pull.at("headRefOid").sha()
	}
	if base := item.at("baseCommit"); !base.missing() {
		e.BaseSHA = base.object().at("oid").sha()
	}
	if head := item.at("headCommit"); !head.missing() {
		e.HeadSHA = head.object().at("oid").sha()
	}
	return e
}

// mergeQueueQuery asks for a group's branch and, with entries, for the queue.
func mergeQueueQuery(entries bool) string {
	variables, queue := "", ""
	if entries {
		variables = ", $branch: String!, $after: String"
		queue = `
    mergeQueue(branch: $branch) {
      entries(first: 100, after: $after) {
        pageInfo { hasNextPage endCursor }
        nodes { position state baseCommit { oid } headCommit { oid } pullRequest { number headRefOid } }
      }
    }`
	}
	return `query MergeQueue($owner: String!, $name: String!, $base: String!, $group: String!` + variables + `) {
  repository(owner: $owner, name: $name, followRenames: false) {
    databaseId nameWithOwner
    base: ref(qualifiedName: $base) { target { oid } }
    group: ref(qualifiedName: $group) { target { oid } }` + queue + `
  }
  rateLimit { cost limit remaining resetAt }
}`
}

// MergeQueuePull is the pull request that a group's branch is named after; 0 where the name is of another form. It is a hint: a group
// may hold more.
func MergeQueuePull(headRef string) int {
	last := headRef[strings.LastIndexByte(headRef, '/')+1:]
	text, found := strings.CutPrefix(last, "pr-")
	if !found {
		return 0
	}
	digits, _, _ := strings.Cut(text, "-")
	n, err := strconv.Atoi(digits)
	if err != nil || n < 0 {
		return 0
	}
	return n
}
