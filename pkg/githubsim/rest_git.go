package githubsim

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

const (
	jsonBlobLimit = 1 << 20   // above it the JSON of contents has no content
	rawBlobLimit  = 100 << 20 // above it nothing is served
)

func getRepo(c *call) answer { return ok(c.renderer().fullRepo(c.repo)) }

// resolve turns a branch, refs/heads/…, heads/…, full or abbreviated SHA or
// refs/pull/N/head into a commit.
func (c *call) resolve(ref string) *commit {
	if ref == "" || ref == "HEAD" {
		ref = c.repo.defaultBranch
	}
	name := strings.TrimPrefix(strings.TrimPrefix(ref, "refs/"), "heads/")
	if sha := c.repo.branches[name]; sha != "" {
		return c.s.objects.commits[sha]
	}
	var number int
	if n, _ := fmt.Sscanf(name, "pull/%d/head", &number); n == 1 && c.repo.pulls[number] != nil {
		return c.s.objects.commits[c.repo.pulls[number].headSHA]
	}
	if found := c.s.objects.commits[strings.ToLower(ref)]; found != nil {
		return found
	}
	if len(ref) >= 7 && len(ref) < 40 && strings.Trim(ref, "0123456789abcdef") == "" {
		for sha, found := range c.s.objects.commits {
			if strings.HasPrefix(sha, ref) {
				return found
			}
		}
	}
	return nil
}

func listBranches(c *call) answer {
	list, x := []obj{}, c.renderer()
	for _, name := range paginate(c, sortedKeys(c.repo.branches)) {
		sha := c.repo.branches[name]
		list = append(list, obj{"name": name, "commit": obj{"sha": sha, "url": x.repoURL(c.repo) + "/commits/" + sha}, "protected": c.repo.protects(name)})
	}
	return ok(list)
}

func getBranch(c *call) answer {
	name := c.vars["branch"]
	sha := c.repo.branches[name]
	if sha == "" {
		return refused(refuse(404, "Branch not found"))
	}
	x := c.renderer()
	url := x.repoURL(c.repo) + "/branches/" + escapePath(name)
	return ok(obj{
		"name": name, "commit": x.commit(c.repo, c.s.objects.commits[sha]), "protected": c.repo.protects(name), "protection_url": url + "/protection",
		"_links":     obj{"self": url, "html": x.repoHTML(c.repo) + "/tree/" + escapePath(name)},
		"protection": c.repo.protection(name),
	})
}

func getRef(c *call) answer {
	ref := strings.TrimPrefix(c.vars["ref"], "heads/")
	sha := c.repo.branches[ref]
	if sha == "" {
		return refused(errNotFound)
	}
	return ok(c.ref(ref, sha))
}

func (c *call) ref(branch, sha string) obj {
	x := c.renderer()
	return obj{
		"ref": "refs/heads/" + branch, "node_id": "REF_" + sha, "url": x.repoURL(c.repo) + "/git/refs/heads/" + escapePath(branch),
		"object": obj{"sha": sha, "type": "commit", "url": x.repoURL(c.repo) + "/git/commits/" + sha},
	}
}

func getBlob(c *call) answer {
	blob, found := c.s.objects.blobs[c.vars["file_sha"]]
	if !found {
		return refused(errNotFound)
	}
	if strings.Contains(c.r.Header.Get("Accept"), "."+mediaRaw) {
		return answer{status: http.StatusOK, raw: slices.Concat([]byte{}, blob), media: "application/vnd.github.raw+json; charset=utf-8"}
	}
	sha := c.vars["file_sha"]
	return ok(obj{
		"sha": sha, "node_id": "B_" + sha, "size": len(blob), "url": c.renderer().repoURL(c.repo) + "/git/blobs/" + sha,
		"content": lineWrapped(blob), "encoding": "base64",
	})
}

func getGitCommit(c *call) answer {
	found := c.s.objects.commits[c.vars["commit_sha"]]
	if found == nil {
		return refused(errNotFound)
	}
	x := c.renderer()
	url := x.repoURL(c.repo)
	return ok(obj{
		"sha": found.sha, "node_id": "C_" + found.sha, "url": url + "/git/commits/" + found.sha, "html_url": x.repoHTML(c.repo) + "/commit/" + found.sha,
		"author": x.signature(found), "committer": x.signature(found), "message": found.message, "parents": x.parents(c.repo, found),
		"tree": obj{"sha": found.tree, "url": url + "/git/trees/" + found.tree}, "verification": unverified(),
	})
}

// getTree answers a tree by its id, a commit or a branch. A recursive one is cut
// after the limit and says truncated.
func getTree(c *call) answer {
	if len(c.repo.branches) == 0 {
		return refused(refuse(409, "Git Repository is empty."))
	}
	tree := c.vars["tree_sha"]
	if _, is := c.s.objects.trees[tree]; !is {
		at := c.resolve(tree)
		if at == nil {
			return refused(errNotFound)
		}
		tree = at.tree
	}
	limit := c.s.switches.TreeLimit
	if limit == 0 {
		limit = 100_000
	}
	url := c.renderer().repoURL(c.repo)
	list, truncated := []obj{}, false
	one := func(path string, e treeEntry) bool {
		if len(list) == limit {
			truncated = true
			return false
		}
		o := obj{"path": path, "mode": "0" + e.mode, "type": "blob", "sha": e.sha, "size": len(c.s.objects.blobs[e.sha]), "url": url + "/git/blobs/" + e.sha}
		switch e.mode {
		case "40000":
			o["type"], o["url"] = "tree", url+"/git/trees/"+e.sha
			delete(o, "size")
		case "160000":
			o["type"], o["mode"] = "commit", e.mode
			delete(o, "size")
			delete(o, "url")
		default:
			o["mode"] = e.mode
		}
		list = append(list, o)
		return true
	}
	if c.r.URL.Query().Has("recursive") { // any value, even 0, is recursive
		c.s.objects.walk(tree, "", one)
	} else {
		for _, e := range c.s.objects.trees[tree] {
			one(e.name, e)
		}
	}
	return ok(obj{"sha": tree, "url": url + "/git/trees/" + tree, "tree": list, "truncated": truncated})
}

func getCommit(c *call) answer {
	found := c.resolve(c.vars["ref"])
	if found == nil {
		return refused(unprocessableMessage("No commit found for SHA: " + c.vars["ref"]))
	}
	x := c.renderer()
	o := x.commit(c.repo, found)
	files := c.s.objects.diff(c.s.objects.firstParentTree(found), found.tree)
	additions, deletions := 0, 0
	for _, f := range files {
		additions, deletions = additions+f.additions, deletions+f.deletions
	}
	o["stats"] = obj{"additions": additions, "deletions": deletions, "total": additions + deletions}
	list := []obj{}
	for i, f := range files {
		if i == 300 {
			break
		}
		list = append(list, x.file(c.repo, found.sha, f))
	}
	o["files"] = list
	return ok(o)
}

// compare lists at most 300 files, on the first page of commits only.
func compare(c *call) answer {
	base, head, two := strings.Cut(c.vars["basehead"], "...")
	if !two {
		return refused(errNotFound)
	}
	from, to := c.resolve(afterColon(base)), c.resolve(afterColon(head))
	if from == nil || to == nil {
		return refused(errNotFound)
	}
	o := c.s.objects
	common := o.commits[o.mergeBase(from.sha, to.sha)]
	if common == nil {
		return refused(refuse(404, fmt.Sprintf("No common ancestor between %s and %s.", base, head)))
	}
	ahead, behind := o.commitsBetween(from.sha, to.sha), o.commitsBetween(to.sha, from.sha)
	status := "diverged"
	switch {
	case from.sha == to.sha:
		status = "identical"
	case len(behind) == 0:
		status = "ahead"
	case len(ahead) == 0:
		status = "behind"
	}
	x := c.renderer()
	html := fmt.Sprintf("%s/compare/%s...%s", x.repoHTML(c.repo), base, head)
	commits := []obj{}
	for _, one := range paginate(c, ahead) {
		commits = append(commits, x.commit(c.repo, one))
	}
	files := []obj{}
	if page, _ := c.paging(); page == 1 {
		for i, f := range o.diff(common.tree, to.tree) {
			if i == 300 {
				break
			}
			files = append(files, x.file(c.repo, to.sha, f))
		}
	}
	return ok(obj{
		"url": fmt.Sprintf("%s/compare/%s...%s", x.repoURL(c.repo), base, head), "html_url": html, "permalink_url": html, "diff_url": html + ".diff", "patch_url": html + ".patch",
		"base_commit": x.commit(c.repo, from), "merge_base_commit": x.commit(c.repo, common), "status": status, "ahead_by": len(ahead), "behind_by": len(behind),
		"total_commits": len(ahead), "commits": commits, "files": files,
	})
}

func afterColon(ref string) string {
	if _, name, found := strings.Cut(ref, ":"); found {
		return name
	}
	return ref
}

// putContents writes one file to a branch: how a person pushes over the API.
func putContents(c *call) answer {
	var ask struct {
		Message string `json:"message"`
		Content string `json:"content"`
		Branch  string `json:"branch"`
		SHA     string `json:"sha"`
	}
	if e := c.decode(&ask); e != nil {
		return refused(e)
	}
	content, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(ask.Content, "\n", ""))
	if err != nil {
		return refused(unprocessableMessage("content is not valid Base64"))
	}
	branch := ask.Branch
	if branch == "" {
		branch = c.repo.defaultBranch
	}
	tip := c.repo.branches[branch]
	if tip == "" {
		return refused(refuse(404, "Branch "+branch+" not found"))
	}
	path := c.vars["path"]
	old, exists := c.s.objects.lookup(c.s.objects.commits[tip].tree, path)
	if exists && old.sha != ask.SHA {
		return refused(refuse(409, path+" does not match "+ask.SHA))
	}
	var made *commit
	err = c.s.mutateLocked(func(m *mutation) error {
		by := c.actor(m)
		made = m.commit(tip, ask.Message, by.login, map[string]string{path: string(content)})
		m.setBranch(c.repo, branch, made.sha, by)
		return nil
	})
	if err != nil {
		return failed(err)
	}
	e, _ := c.s.objects.lookup(made.tree, path)
	entry := c.fileEntry(e, path, branch, false)
	status := http.StatusCreated
	if exists {
		status = http.StatusOK
	}
	x := c.renderer()
	return answer{status: status, body: obj{"content": entry, "commit": x.gitCommitOf(c.repo, made)}}
}

func (r *renderer) gitCommitOf(repo *repo, c *commit) obj {
	url := r.repoURL(repo)
	return obj{
		"sha": c.sha, "node_id": "C_" + c.sha, "url": url + "/git/commits/" + c.sha, "html_url": r.repoHTML(repo) + "/commit/" + c.sha, "author": r.signature(c),
		"committer": r.signature(c), "message": c.message, "parents": r.parents(repo, c), "tree": obj{"sha": c.tree, "url": url + "/git/trees/" + c.tree}, "verification": unverified(),
	}
}

// actor is the account a writing request acts as: the person, or the App's bot.
func (c *call) actor(m *mutation) *account {
	if c.who.user != nil {
		return c.who.user
	}
	return m.w.accounts[c.who.app.botID]
}
