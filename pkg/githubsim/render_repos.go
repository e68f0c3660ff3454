package githubsim

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
)

// repoURL is the root of the url fields of a repository.
func (r *renderer) repoURL(repo *repo) string { return r.api + "/repos/" + r.w.fullName(repo) }

func (r *renderer) repoHTML(repo *repo) string { return r.html + "/" + r.w.fullName(repo) }

// minimalRepo is GitHub's minimal-repository: identity and addresses.
func (r *renderer) minimalRepo(repo *repo) obj {
	url := r.repoURL(repo)
	o := obj{
		"id": repo.id, "node_id": nodeID("R", repo.id), "name": repo.name, "full_name": r.w.fullName(repo),
		"private": repo.private, "owner": r.user(repo.ownerID), "html_url": r.repoHTML(repo), "description": nil,
		"fork": repo.parentID != 0, "url": url,
	}
	for key, path := range repoPaths {
		o[key] = url + path
	}
	return o
}

var repoPaths = map[string]string{
	"archive_url": "/{archive_format}{/ref}", "assignees_url": "/assignees{/user}", "blobs_url": "/git/blobs{/sha}",
	"branches_url": "/branches{/branch}", "collaborators_url": "/collaborators{/collaborator}", "comments_url": "/comments{/number}",
	"commits_url": "/commits{/sha}", "compare_url": "/compare/{base}...{head}", "contents_url": "/contents/{+path}",
	"contributors_url": "/contributors", "deployments_url": "/deployments", "downloads_url": "/downloads", "events_url": "/events",
	"forks_url": "/forks", "git_commits_url": "/git/commits{/sha}", "git_refs_url": "/git/refs{/sha}", "git_tags_url": "/git/tags{/sha}",
	"hooks_url": "/hooks", "issue_comment_url": "/issues/comments{/number}", "issue_events_url": "/issues/events{/number}",
	"issues_url": "/issues{/number}", "keys_url": "/keys{/key_id}", "labels_url": "/labels{/name}", "languages_url": "/languages",
	"merges_url": "/merges", "milestones_url": "/milestones{/number}", "notifications_url": "/notifications{?since,all,participating}",
	"pulls_url": "/pulls{/number}", "releases_url": "/releases{/id}", "stargazers_url": "/stargazers", "statuses_url": "/statuses/{sha}",
	"subscribers_url": "/subscribers", "subscription_url": "/subscription", "tags_url": "/tags", "teams_url": "/teams", "trees_url": "/git/trees{/sha}",
}

// repo is GitHub's repository, as lists, pull requests and webhooks carry it.
func (r *renderer) repo(repo *repo) obj {
	o := r.minimalRepo(repo)
	html := r.repoHTML(repo)
	open := 0
	for _, p := range repo.pulls {
		if p.open {
			open++
		}
	}
	visibility := "public"
	if repo.private {
		visibility = "private"
	}
	host := strings.TrimPrefix(strings.TrimPrefix(r.html, "https://"), "http://")
	maps.Copy(o, obj{
		"git_url": "git://" + host + "/" + r.w.fullName(repo) + ".git", "ssh_url": "git@" + host + ":" + r.w.fullName(repo) + ".git",
		"clone_url": html + ".git", "svn_url": html, "mirror_url": nil, "homepage": nil, "language": nil, "license": nil,
		"forks": 0, "forks_count": 0, "stargazers_count": 0, "watchers": 0, "watchers_count": 0, "size": 1,
		"open_issues": open, "open_issues_count": open, "default_branch": repo.defaultBranch, "is_template": false, "topics": []string{},
		"has_issues": true, "has_projects": true, "has_wiki": true, "has_pages": false, "has_discussions": false, "has_downloads": true,
		"archived": repo.archived, "disabled": false, "visibility": visibility, "allow_forking": true, "web_commit_signoff_required": false,
		"pushed_at": stamp(repo.pushedAt), "created_at": stamp(repo.createdAt), "updated_at": stamp(repo.updatedAt),
	})
	if r.version == "2026-03-10" {
		delete(o, "has_downloads")
	}
	return o
}

// repoOnce is repo for the many places of one answer that hold the same one.
func (r *renderer) repoOnce(repo *repo) json.RawMessage {
	if r.repos == nil {
		r.repos = map[int64]json.RawMessage{}
	}
	if r.repos[repo.id] == nil {
		r.repos[repo.id], _ = json.Marshal(r.repo(repo)) // our own maps always marshal
	}
	return r.repos[repo.id]
}

// fullRepo is GitHub's full-repository, the answer of GET /repos/{owner}/{repo}.
func (r *renderer) fullRepo(repo *repo) obj {
	o := r.repo(repo)
	maps.Copy(o, obj{"network_count": 0, "subscribers_count": 0, "permissions": rights("pull"), "temp_clone_token": ""})
	if owner := r.w.accounts[repo.ownerID]; owner.kind == "Organization" {
		o["organization"] = r.account(owner)
	}
	if parent := r.w.repos[repo.parentID]; parent != nil {
		o["parent"], o["source"] = r.repo(parent), r.repo(parent)
	}
	return o
}

// commit is GitHub's commit: the git object and the accounts behind it.
func (r *renderer) commit(repo *repo, c *commit) obj {
	url := r.repoURL(repo)
	o := obj{
		"sha": c.sha, "node_id": "C_" + c.sha, "url": url + "/commits/" + c.sha, "html_url": r.repoHTML(repo) + "/commit/" + c.sha,
		"comments_url": url + "/commits/" + c.sha + "/comments",
		"commit": obj{
			"author": r.signature(c), "committer": r.signature(c), "message": c.message, "comment_count": 0,
			"tree": obj{"sha": c.tree, "url": url + "/git/trees/" + c.tree}, "url": url + "/git/commits/" + c.sha, "verification": unverified(),
		},
		"author": nil, "committer": nil, "parents": r.parents(repo, c),
	}
	if a := r.w.account(c.author); a != nil {
		o["author"], o["committer"] = r.account(a), r.account(a)
	}
	return o
}

func (r *renderer) parents(repo *repo, c *commit) []obj {
	parents := []obj{}
	for _, p := range c.parents {
		parents = append(parents, obj{"sha": p, "url": r.repoURL(repo) + "/commits/" + p, "html_url": r.repoHTML(repo) + "/commit/" + p})
	}
	return parents
}

func (r *renderer) signature(c *commit) obj {
	return obj{"name": c.author, "email": c.email, "date": stamp(c.when)}
}

func unverified() obj {
	return obj{"verified": false, "reason": "unsigned", "signature": nil, "payload": nil, "verified_at": nil}
}

// hookCommit is the shape that push events carry.
func (r *renderer) hookCommit(repo *repo, c *commit) obj {
	o := obj{
		"id": c.sha, "tree_id": c.tree, "distinct": true, "message": c.message, "timestamp": stamp(c.when),
		"url": r.repoHTML(repo) + "/commit/" + c.sha, "author": r.hookAuthor(c), "committer": r.hookAuthor(c),
	}
	added, removed, modified := []string{}, []string{}, []string{}
	for _, f := range r.s.objects.changedFiles(r.s.objects.firstParentTree(c), c.tree) {
		switch f.status {
		case "added":
			added = append(added, f.path)
		case "removed":
			removed = append(removed, f.path)
		case "renamed":
			added, removed = append(added, f.path), append(removed, f.previous)
		default:
			modified = append(modified, f.path)
		}
	}
	o["added"], o["removed"], o["modified"] = added, removed, modified
	return o
}

func (o *objects) firstParentTree(c *commit) string {
	if len(c.parents) == 0 {
		return ""
	}
	return o.commits[c.parents[0]].tree
}

func (r *renderer) hookAuthor(c *commit) obj {
	return obj{"name": c.author, "email": c.email, "username": c.author, "date": stamp(c.when)}
}

// file is GitHub's diff-entry.
func (r *renderer) file(repo *repo, ref string, f fileChange) obj {
	path := escapePath(f.path)
	o := obj{
		"sha": f.newSHA, "filename": f.path, "status": f.status, "additions": f.additions, "deletions": f.deletions, "changes": f.additions + f.deletions,
		"blob_url": fmt.Sprintf("%s/blob/%s/%s", r.repoHTML(repo), ref, path), "raw_url": fmt.Sprintf("%s/raw/%s/%s", r.repoHTML(repo), ref, path),
		"contents_url": fmt.Sprintf("%s/contents/%s?ref=%s", r.repoURL(repo), path, ref),
	}
	if f.previous != "" {
		o["previous_filename"] = f.previous
	}
	if f.patch != "" {
		o["patch"] = f.patch
	}
	return o
}

func (r *renderer) label(repo *repo, name string) obj {
	l := repo.labels[strings.ToLower(name)]
	return obj{
		"id": l.id, "node_id": nodeID("LA", l.id), "url": r.repoURL(repo) + "/labels/" + escapePath(l.name),
		"name": l.name, "color": l.color, "default": false, "description": "",
	}
}

func (r *renderer) comment(repo *repo, number int, c *comment) obj {
	url := fmt.Sprintf("%s/issues/comments/%d", r.repoURL(repo), c.id)
	return obj{
		"id": c.id, "node_id": nodeID("IC", c.id), "url": url, "html_url": fmt.Sprintf("%s/pull/%d#issuecomment-%d", r.repoHTML(repo), number, c.id),
		"issue_url": fmt.Sprintf("%s/issues/%d", r.repoURL(repo), number), "user": r.user(c.userID), "body": c.body,
		"created_at": stamp(c.createdAt), "updated_at": stamp(c.createdAt), "author_association": r.associationOf(repo, c.userID),
		"performed_via_github_app": nil, "reactions": reactions(url),
	}
}

func reactions(url string) obj {
	return obj{"url": url + "/reactions", "total_count": 0, "+1": 0, "-1": 0, "laugh": 0, "hooray": 0, "confused": 0, "heart": 0, "rocket": 0, "eyes": 0}
}
