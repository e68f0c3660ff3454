package githubsim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

func pullState(p *pull) string {
	switch {
	case p.merged:
		return "MERGED"
	case p.open:
		return "OPEN"
	}
	return "CLOSED"
}

func (e *execution) pullRequests(r *repo, a args) any {
	states, _ := a["states"].([]any)
	var list []*node
	for _, n := range sortedKeys(r.pulls) {
		p := r.pulls[n]
		if len(states) > 0 && !slices.Contains(states, any(pullState(p))) {
			continue
		}
		if base, given := a["baseRefName"].(string); given && base != p.baseRef {
			continue
		}
		if head, given := a["headRefName"].(string); given && head != p.headRef {
			continue
		}
		list = append(list, e.pullRequest(r, p))
	}
	return connection("PullRequestConnection", "pullRequests", list, a)
}

func (e *execution) pullRequest(r *repo, p *pull) *node {
	s := e.c.s
	return &node{typ: "PullRequest", fields: map[string]any{
		"id": nodeID("PR", p.id), "databaseId": int32OrNil(p.id), "fullDatabaseId": strconv.FormatInt(p.id, 10), "number": p.number, "title": p.title, "body": p.body,
		"url": fmt.Sprintf("%s/pull/%d", e.x.repoHTML(r), p.number), "state": pullState(p), "merged": p.merged, "mergedAt": stampOrNil(p.mergedAt), "closed": !p.open,
		"isDraft": p.draft, "headRefOid": p.headSHA, "headRefName": p.headRef, "baseRefOid": s.baseSHA(r, p), "baseRefName": p.baseRef,
		"createdAt": stamp(p.createdAt), "updatedAt": stamp(p.updatedAt), "isCrossRepository": p.headRepoID != r.id, "author": e.actor(p.authorID),
		"baseRef": func(args) any { return e.ref(r, p.baseRef) }, "baseRepository": func(args) any { return e.repository(r) },
		"headRef": func(args) any {
			if h := e.c.w.repos[p.headRepoID]; h != nil {
				return e.ref(h, p.headRef)
			}
			return nil
		},
		"headRepository":      func(args) any { return e.repository(e.c.w.repos[p.headRepoID]) },
		"headRepositoryOwner": func(args) any { return e.headOwner(p) },
		"mergeCommit":         func(args) any { return e.commit(r, s.objects.commits[p.mergeSHA]) },
		"changedFiles":        func(args) any { return len(s.changes(r, p)) },
		"files":               func(a args) any { return e.files(r, p, a) },
		"commits":             func(a args) any { return e.commits(r, p, a) },
		"labels":              func(a args) any { return e.labels(r, p, a) },
		"timelineItems":       func(a args) any { return e.timeline(p, a) },
		"reviews":             func(a args) any { return e.reviews(r, p, a) },
		"latestOpinionatedReviews": func(a args) any {
			return connection("PullRequestReviewConnection", "latestOpinionatedReviews", e.opinionated(r, p, a["writersOnly"] == true), a)
		},
	}}
}

// timeline holds the changes of base; the schema has no other kind of item.
func (e *execution) timeline(p *pull, a args) any {
	kinds, _ := a["itemTypes"].([]any)
	var list []*node
	for _, b := range p.baseChanges {
		kind, typ, fields := "BASE_REF_CHANGED_EVENT", "BaseRefChangedEvent", map[string]any{"currentRefName": b.to, "previousRefName": b.from}
		if b.automatic {
			kind, typ, fields = "AUTOMATIC_BASE_CHANGE_SUCCEEDED_EVENT", "AutomaticBaseChangeSucceededEvent", map[string]any{"newBase": b.to, "oldBase": b.from}
		}
		if len(kinds) > 0 && !slices.Contains(kinds, any(kind)) {
			continue
		}
		fields["id"], fields["createdAt"], fields["actor"] = nodeID("BRE", b.id), stamp(b.at), e.actor(b.actorID)
		list = append(list, &node{typ: typ, fields: fields})
	}
	return connection("PullRequestTimelineItemsConnection", "timelineItems", list, a)
}

func (e *execution) headOwner(p *pull) *node {
	if h := e.c.w.repos[p.headRepoID]; h != nil {
		return e.actor(h.ownerID)
	}
	return nil
}

// files has no previous path for a rename: GitHub's schema has none.
func (e *execution) files(r *repo, p *pull, a args) any {
	words := map[string]string{"added": "ADDED", "removed": "DELETED", "modified": "MODIFIED", "renamed": "RENAMED"}
	var list []*node
	for _, f := range e.c.s.changes(r, p) {
		list = append(list, &node{typ: "PullRequestChangedFile", fields: map[string]any{"path": f.path, "changeType": words[f.status], "additions": f.additions, "deletions": f.deletions}})
	}
	return connection("PullRequestChangedFileConnection", "files", list, a)
}

func (e *execution) commits(r *repo, p *pull, a args) any {
	var list []*node
	for _, one := range e.c.s.pullCommits(r, p) {
		list = append(list, &node{typ: "PullRequestCommit", fields: map[string]any{"id": "PURC_" + one.sha, "commit": e.commit(r, one)}})
	}
	return connection("PullRequestCommitConnection", "commits", list, a)
}

func (e *execution) labels(r *repo, p *pull, a args) any {
	var list []*node
	for _, name := range p.labels {
		l := r.labels[strings.ToLower(name)]
		list = append(list, &node{typ: "Label", fields: map[string]any{"id": nodeID("LA", l.id), "name": l.name}})
	}
	return connection("LabelConnection", "labels", list, a)
}

func (e *execution) reviews(r *repo, p *pull, a args) any {
	states, _ := a["states"].([]any)
	var list []*node
	for _, v := range p.reviews {
		if v.state == "PENDING" && !e.c.is(v.userID) || len(states) > 0 && !slices.Contains(states, any(v.state)) {
			continue
		}
		list = append(list, e.review(r, p, v))
	}
	return connection("PullRequestReviewConnection", "reviews", list, a)
}

// opinionated is the last approval, request for changes or dismissal of each
// reviewer, in the order they were submitted.
func (e *execution) opinionated(r *repo, p *pull, writersOnly bool) []*node {
	last := map[int64]*review{}
	for _, v := range p.reviews {
		if v.state == "COMMENTED" || v.state == "PENDING" || v.userID == 0 {
			continue
		}
		if writersOnly && permissionRank[e.c.w.userPermission(r, v.userID)] < permissionRank["push"] {
			continue
		}
		last[v.userID] = v
	}
	var list []*node
	for _, v := range p.reviews {
		if last[v.userID] == v {
			list = append(list, e.review(r, p, v))
		}
	}
	return list
}

func (e *execution) review(r *repo, p *pull, v *review) *node {
	submitted := any(stamp(v.submittedAt))
	if v.state == "PENDING" {
		submitted = nil
	}
	return &node{typ: "PullRequestReview", fields: map[string]any{
		"id": nodeID("PRR", v.id), "databaseId": int32OrNil(v.id), "fullDatabaseId": strconv.FormatInt(v.id, 10), "state": v.state, "body": v.body,
		"author": e.actor(v.userID), "commit": func(args) any { return e.commit(r, e.c.s.objects.commits[v.commitID]) }, "submittedAt": submitted,
		"updatedAt": stamp(v.submittedAt), "url": fmt.Sprintf("%s/pull/%d#pullrequestreview-%d", e.x.repoHTML(r), p.number, v.id),
		"onBehalfOf": func(a args) any {
			var teams []*node
			for _, id := range v.onBehalfOf {
				if t := e.c.w.teams[id]; t != nil {
					teams = append(teams, e.team(t))
				}
			}
			return connection("TeamConnection", "onBehalfOf", teams, a)
		},
	}}
}
