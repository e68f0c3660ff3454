package githubsim

import "fmt"

// checkRun is GitHub's check-run.
func (r *renderer) checkRun(repo *repo, c *checkRun) obj {
	url := fmt.Sprintf("%s/check-runs/%d", r.repoURL(repo), c.id)
	html := fmt.Sprintf("%s/runs/%d", r.repoHTML(repo), c.id)
	details := c.details
	if details == "" {
		details = html
	}
	o := obj{
		"id": c.id, "node_id": nodeID("CR", c.id), "head_sha": c.sha, "name": c.name, "external_id": c.externalID, "url": url, "html_url": html,
		"details_url": details, "status": c.status, "conclusion": stringOrNil(c.conclusion), "started_at": stampOrNil(c.startedAt), "completed_at": stampOrNil(c.completedAt),
		"output": obj{
			"title": outputText(c, c.title), "summary": outputText(c, c.summary), "text": outputText(c, c.text),
			"annotations_count": len(c.annotations), "annotations_url": url + "/annotations",
		},
		"check_suite": obj{"id": c.suiteID}, "app": r.app(r.w.apps[c.appID]), "pull_requests": r.pullsOnHead(repo, c.sha),
	}
	if r.hook {
		o["check_suite"] = r.hookSuite(repo, repo.suites[suiteKey{c.appID, c.sha}])
	}
	return o
}

func outputText(c *checkRun, text string) any {
	if !c.hasOutput {
		return nil
	}
	return stringOrNil(text)
}

// headBranch is the branch whose tip a commit is; null for a fork's.
func headBranch(repo *repo, sha string) any {
	for _, name := range sortedKeys(repo.branches) {
		if repo.branches[name] == sha {
			return name
		}
	}
	return nil
}

// suiteState sums the runs of a suite as GitHub does: unfinished while one is,
// else the worst conclusion.
func suiteState(repo *repo, s *checkSuite) (status string, conclusion any) {
	worst := ""
	found := false
	for _, id := range repo.runsOf[s.sha] {
		c := repo.runs[id]
		if c == nil || c.appID != s.appID {
			continue
		}
		found = true
		if c.status != "completed" {
			return c.status, nil
		}
		if worst == "" || conclusionRank[c.conclusion] > conclusionRank[worst] {
			worst = c.conclusion
		}
	}
	if !found {
		return "queued", nil
	}
	return "completed", worst
}

var conclusionRank = map[string]int{"skipped": 1, "neutral": 2, "success": 3, "stale": 4, "cancelled": 5, "action_required": 6, "timed_out": 7, "failure": 8}

func (r *renderer) suite(repo *repo, s *checkSuite) obj {
	status, conclusion := suiteState(repo, s)
	url := fmt.Sprintf("%s/check-suites/%d", r.repoURL(repo), s.id)
	runs := 0
	for _, id := range repo.runsOf[s.sha] {
		if c := repo.runs[id]; c != nil && c.appID == s.appID {
			runs++
		}
	}
	return obj{
		"id": s.id, "node_id": nodeID("CS", s.id), "head_branch": headBranch(repo, s.sha), "head_sha": s.sha, "status": status, "conclusion": conclusion,
		"url": url, "before": zeroSHA, "after": s.sha, "pull_requests": r.pullsOnHead(repo, s.sha), "app": r.app(r.w.apps[s.appID]),
		"created_at": stamp(s.createdAt), "updated_at": stamp(s.updatedAt), "check_runs_url": url + "/check-runs", "latest_check_runs_count": runs,
		"head_commit": r.suiteCommit(r.s.objects.commits[s.sha]), "repository": r.minimalRepo(repo), "rerequestable": true, "runs_rerequestable": true,
	}
}

func (r *renderer) suiteCommit(c *commit) obj {
	who := obj{"name": c.author, "email": c.email}
	return obj{"id": c.sha, "tree_id": c.tree, "message": c.message, "timestamp": stamp(c.when), "author": who, "committer": who}
}

// hookSuite is the shorter form inside check_run events.
func (r *renderer) hookSuite(repo *repo, s *checkSuite) obj {
	o := r.suite(repo, s)
	delete(o, "repository")
	delete(o, "latest_check_runs_count")
	delete(o, "check_runs_url")
	delete(o, "head_commit")
	return o
}
