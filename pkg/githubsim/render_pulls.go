package githubsim

import (
	"fmt"
	"maps"
	"strings"
)

// baseSHA is what base.sha shows: see Switches.FrozenBaseSHA.
func (s *Sim) baseSHA(repo *repo, p *pull) string {
	if tip := repo.branches[p.baseRef]; p.open && tip != "" && !s.switches.FrozenBaseSHA {
		return tip
	}
	return p.baseSHA
}

// pullSimple is GitHub's pull-request-simple, the element of lists.
func (r *renderer) pullSimple(repo *repo, p *pull) obj {
	url, html := fmt.Sprintf("%s/pulls/%d", r.repoURL(repo), p.number), fmt.Sprintf("%s/pull/%d", r.repoHTML(repo), p.number)
	issue := fmt.Sprintf("%s/issues/%d", r.repoURL(repo), p.number)
	statuses := r.repoURL(repo) + "/statuses/" + p.headSHA
	state := "closed"
	if p.open {
		state = "open"
	}
	o := obj{
		"id": p.id, "node_id": nodeID("PR", p.id), "number": p.number, "state": state, "locked": false, "title": p.title, "body": stringOrNil(p.body),
		"user": r.author(p.authorID), "draft": p.draft, "url": url, "html_url": html, "diff_url": html + ".diff", "patch_url": html + ".patch", "issue_url": issue,
		"commits_url": url + "/commits", "review_comments_url": url + "/comments", "review_comment_url": r.repoURL(repo) + "/pulls/comments{/number}",
		"comments_url": issue + "/comments", "statuses_url": statuses, "created_at": stamp(p.createdAt), "updated_at": stamp(p.updatedAt),
		"closed_at": stampOrNil(p.closedAt), "merged_at": stampOrNil(p.mergedAt), "merge_commit_sha": stringOrNil(p.mergeSHA),
		"assignee": nil, "assignees": []obj{}, "milestone": nil, "labels": r.labels(repo, p), "auto_merge": nil, "active_lock_reason": nil,
		"author_association": r.associationOf(repo, p.authorID), "head": r.head(p), "base": r.base(repo, p),
		"_links": obj{
			"self": href(url), "html": href(html), "issue": href(issue), "comments": href(issue + "/comments"), "review_comments": href(url + "/comments"),
			"review_comment": href(r.repoURL(repo) + "/pulls/comments{/number}"), "commits": href(url + "/commits"), "statuses": href(statuses),
		},
	}
	o["requested_reviewers"], o["requested_teams"] = r.requested(p)
	if r.version == "2026-03-10" {
		delete(o, "merge_commit_sha")
		delete(o, "assignee")
	}
	return o
}

// author is the account that opened a pull request: GitHub's ghost where it was
// deleted. A review of a deleted account has user null instead.
func (r *renderer) author(id int64) any {
	if u := r.user(id); u != nil {
		return u
	}
	return r.account(&account{id: ghostID, login: "ghost", kind: "User"})
}

const ghostID = 10137

func href(url string) obj { return obj{"href": url} }

func (r *renderer) requested(p *pull) (users, teams []obj) {
	users, teams = []obj{}, []obj{}
	for _, id := range p.requestedUsers {
		if a := r.w.accounts[id]; a != nil {
			users = append(users, r.account(a))
		}
	}
	for _, id := range p.requestedTeams {
		if t := r.w.teams[id]; t != nil {
			teams = append(teams, r.team(t))
		}
	}
	return users, teams
}

func (r *renderer) labels(repo *repo, p *pull) []obj {
	labels := []obj{}
	for _, name := range p.labels {
		labels = append(labels, r.label(repo, name))
	}
	return labels
}

// head is null in repo, user and label together where the fork was deleted.
func (r *renderer) head(p *pull) obj {
	o := obj{"label": nil, "ref": p.headRef, "sha": p.headSHA, "user": nil, "repo": nil}
	if repo := r.w.repos[p.headRepoID]; repo != nil {
		owner := r.w.accounts[repo.ownerID]
		o["label"], o["user"], o["repo"] = owner.login+":"+p.headRef, r.account(owner), r.repoOnce(repo)
	}
	return o
}

func (r *renderer) base(repo *repo, p *pull) obj {
	owner := r.w.accounts[repo.ownerID]
	return obj{"label": owner.login + ":" + p.baseRef, "ref": p.baseRef, "sha": r.s.baseSHA(repo, p), "user": r.account(owner), "repo": r.repoOnce(repo)}
}

// pull is GitHub's pull-request, the answer of GET pulls/{number} and the body
// of pull_request events.
func (r *renderer) pull(repo *repo, p *pull) obj {
	o := r.pullSimple(repo, p)
	additions, deletions, files := 0, 0, r.s.changes(repo, p)
	for _, f := range files {
		additions += f.additions
		deletions += f.deletions
	}
	maps.Copy(o, obj{
		"merged": p.merged, "mergeable": nil, "rebaseable": nil, "mergeable_state": "unknown", "merged_by": r.user(p.mergedBy),
		"comments": len(repo.comments[p.number]), "review_comments": 0, "maintainer_can_modify": false,
		"commits": len(r.s.pullCommits(repo, p)), "additions": additions, "deletions": deletions, "changed_files": len(files),
	})
	if p.open {
		o["mergeable"], o["rebaseable"], o["mergeable_state"] = true, true, "clean"
		if p.draft {
			o["mergeable_state"] = "draft"
		}
	}
	return o
}

// diffBase is the commit that a pull request is compared with: the merge base
// of its head with the base branch, as it was when it was merged or closed.
func (s *Sim) diffBase(repo *repo, p *pull) string {
	return s.objects.mergeBase(s.liveBase(repo, p), p.headSHA)
}

func (s *Sim) liveBase(repo *repo, p *pull) string {
	if tip := repo.branches[p.baseRef]; p.open && tip != "" {
		return tip
	}
	return p.baseSHA
}

func (s *Sim) changes(repo *repo, p *pull) []fileChange {
	base := ""
	if c := s.objects.commits[s.diffBase(repo, p)]; c != nil {
		base = c.tree
	}
	return s.objects.diff(base, s.objects.commits[p.headSHA].tree)
}

func (s *Sim) pullCommits(repo *repo, p *pull) []*commit {
	return s.objects.commitsBetween(s.liveBase(repo, p), p.headSHA)
}

// review is GitHub's pull-request-review. A pending one has no submitted_at.
func (r *renderer) review(repo *repo, p *pull, v *review) obj {
	html := fmt.Sprintf("%s/pull/%d#pullrequestreview-%d", r.repoHTML(repo), p.number, v.id)
	url := fmt.Sprintf("%s/pulls/%d", r.repoURL(repo), p.number)
	state := v.state
	if r.hook {
		state = strings.ToLower(state)
	}
	o := obj{
		"id": v.id, "node_id": nodeID("PRR", v.id), "user": r.user(v.userID), "body": v.body, "state": state, "html_url": html, "pull_request_url": url,
		"author_association": r.associationOf(repo, v.userID), "_links": obj{"html": href(html), "pull_request": href(url)}, "commit_id": v.commitID,
	}
	if v.state != "PENDING" {
		o["submitted_at"] = stamp(v.submittedAt)
	}
	if r.hook {
		o["updated_at"] = stamp(v.submittedAt)
	}
	return o
}

// pullMinimal is the reference that check runs and suites carry.
func (r *renderer) pullMinimal(repo *repo, p *pull) obj {
	return obj{
		"url": fmt.Sprintf("%s/pulls/%d", r.repoURL(repo), p.number), "id": p.id, "number": p.number,
		"head": obj{"ref": p.headRef, "sha": p.headSHA, "repo": r.repoRef(p.headRepoID)},
		"base": obj{"ref": p.baseRef, "sha": r.s.baseSHA(repo, p), "repo": r.repoRef(repo.id)},
	}
}

func (r *renderer) repoRef(id int64) obj {
	repo := r.w.repos[id]
	return obj{"id": repo.id, "url": r.repoURL(repo), "name": repo.name}
}

// pullsOnHead lists the open pull requests of a commit as a check run names
// them: never those of a fork.
func (r *renderer) pullsOnHead(repo *repo, sha string) []obj {
	list := []obj{}
	for _, n := range sortedKeys(repo.pulls) {
		if p := repo.pulls[n]; p.open && p.headSHA == sha && p.headRepoID == repo.id {
			list = append(list, r.pullMinimal(repo, p))
		}
	}
	return list
}
