package githubsim

import (
	"fmt"
	"net/http"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// listPulls is newest first unless asked otherwise.
func listPulls(c *call) answer {
	q := c.r.URL.Query()
	state := q.Get("state")
	var all []*pull
	for _, n := range sortedKeys(c.repo.pulls) {
		p := c.repo.pulls[n]
		shown := state == "all" || (state == "closed") == !p.open
		if !shown || q.Get("base") != "" && q.Get("base") != p.baseRef {
			continue
		}
		if head := q.Get("head"); head != "" && head != c.headLabel(p) {
			continue
		}
		all = append(all, p)
	}
	if q.Get("sort") == "updated" {
		sort.SliceStable(all, func(i, j int) bool { return all[i].updatedAt.Before(all[j].updatedAt) })
	}
	direction := q.Get("direction")
	if direction == "desc" || direction == "" && (q.Get("sort") == "" || q.Get("sort") == "created") {
		slices.Reverse(all)
	}
	list, x := []obj{}, c.renderer()
	for _, p := range paginate(c, all) {
		list = append(list, x.pullSimple(c.repo, p))
	}
	return ok(list)
}

func (c *call) headLabel(p *pull) string {
	if r := c.w.repos[p.headRepoID]; r != nil {
		return c.w.accounts[r.ownerID].login + ":" + p.headRef
	}
	return ""
}

func getPull(c *call) answer {
	accept := c.r.Header.Get("Accept")
	if strings.Contains(accept, ".diff") || strings.Contains(accept, ".patch") {
		return c.pullDiff()
	}
	return ok(c.renderer().pull(c.repo, c.pull))
}

// pullDiff refuses above 300 files, as GitHub does.
func (c *call) pullDiff() answer {
	files := c.s.changes(c.repo, c.pull)
	if len(files) > 300 {
		e := refuse(406, "Sorry, the diff exceeded the maximum number of files (300). Consider using 'List pull requests files' API or locally cloning the repository instead.")
		e.errors = []obj{{"resource": "PullRequest", "field": "diff", "code": "too_large"}}
		return refused(e)
	}
	var out strings.Builder
	for _, f := range files {
		was := f.path
		if f.previous != "" {
			was = f.previous
		}
		fmt.Fprintf(&out, "diff --git a/%s b/%s\n%s\n", was, f.path, f.patch)
	}
	return answer{status: http.StatusOK, raw: []byte(out.String()), media: "application/vnd.github.v3.diff; charset=utf-8"}
}

func listPullFiles(c *call) answer {
	files := c.s.changes(c.repo, c.pull)
	limit := c.s.switches.PullFilesLimit
	if limit == 0 {
		limit = 3000
	}
	files = files[:min(limit, len(files))]
	list, x := []obj{}, c.renderer()
	for _, f := range paginate(c, files) {
		list = append(list, x.file(c.repo, c.pull.headSHA, f))
	}
	return ok(list)
}

func listPullCommits(c *call) answer {
	commits := c.s.pullCommits(c.repo, c.pull)
	commits = commits[:min(250, len(commits))]
	list, x := []obj{}, c.renderer()
	for _, one := range paginate(c, commits) {
		list = append(list, x.commit(c.repo, one))
	}
	return ok(list)
}

// listCommitPulls is what commits/{sha}/pulls says: for a commit of the default
// branch the merged pull request that brought it, otherwise the open and merged
// ones that contain it; never those of a fork.
func listCommitPulls(c *call) answer {
	at := c.resolve(c.vars["commit_sha"])
	if at == nil {
		return refused(unprocessableMessage("No commit found for SHA: " + c.vars["commit_sha"]))
	}
	onDefault := c.s.objects.ancestor(at.sha, c.repo.branches[c.repo.defaultBranch])
	list, x := []obj{}, c.renderer()
	var all []*pull
	for _, n := range sortedKeys(c.repo.pulls) {
		p := c.repo.pulls[n]
		if p.headRepoID != c.repo.id || !p.open && !p.merged || onDefault && !p.merged {
			continue
		}
		if p.mergeSHA == at.sha || c.s.objects.ancestor(at.sha, p.headSHA) && !c.s.objects.ancestor(at.sha, c.s.liveBase(c.repo, p)) {
			all = append(all, p)
		}
	}
	for _, p := range paginate(c, all) {
		list = append(list, x.pullSimple(c.repo, p))
	}
	return ok(list)
}

// updatePull changes title, state or base.
func updatePull(c *call) answer {
	var ask struct {
		Title *string `json:"title"`
		State *string `json:"state"`
		Base  *string `json:"base"`
	}
	if e := c.decode(&ask); e != nil {
		return refused(e)
	}
	full, number := c.w.fullName(c.repo), c.pull.number
	err := c.s.mutateLocked(func(m *mutation) error {
		by := c.actor(m)
		if ask.Title != nil && *ask.Title != c.pull.title {
			from := c.pull.title
			c.pull.title, c.pull.updatedAt = *ask.Title, m.at
			m.emitPull(c.repo, c.pull, "edited", by, obj{"changes": obj{"title": obj{"from": from}}})
		}
		if ask.Base != nil && *ask.Base != c.pull.baseRef {
			if err := m.retarget(c.repo, c.pull, *ask.Base, by); err != nil {
				return err
			}
		}
		switch {
		case ask.State == nil:
		case *ask.State == "closed" && c.pull.open:
			m.closePull(c.repo, c.pull, by)
		case *ask.State == "open" && !c.pull.open:
			return m.reopen(c.repo, c.pull, full, number, by)
		}
		return nil
	})
	if err != nil {
		return failed(err)
	}
	return ok(c.renderer().pull(c.repo, c.pull))
}

func mergePull(c *call) answer {
	var ask struct {
		SHA string `json:"sha"`
	}
	if e := c.decode(&ask); e != nil {
		return refused(e)
	}
	if ask.SHA != "" && ask.SHA != c.pull.headSHA {
		return refused(refuse(409, "Head branch was modified. Review and try the merge again."))
	}
	if !c.pull.open {
		return refused(refuse(405, "Pull Request is not mergeable"))
	}
	var sha string
	err := c.s.mutateLocked(func(m *mutation) (err error) {
		sha, err = m.merge(c.repo, c.pull, c.actor(m))
		return err
	})
	if err != nil {
		return failed(err)
	}
	return ok(obj{"sha": sha, "merged": true, "message": "Pull Request successfully merged"})
}

func listReviews(c *call) answer {
	var all []*review
	for _, v := range c.pull.reviews {
		if v.state == "PENDING" && !c.is(v.userID) {
			continue // seen by its author only
		}
		all = append(all, v)
	}
	list, x := []obj{}, c.renderer()
	for _, v := range paginate(c, all) {
		list = append(list, x.review(c.repo, c.pull, v))
	}
	return ok(list)
}

func (c *call) is(userID int64) bool {
	if c.who.user != nil {
		return c.who.user.id == userID
	}
	return c.who.app != nil && c.who.app.botID == userID
}

func (c *call) reviewOf() *review {
	id, _ := strconv.ParseInt(c.vars["review_id"], 10, 64)
	v := findReview(c.pull, id)
	if v == nil || v.state == "PENDING" && !c.is(v.userID) {
		return nil
	}
	return v
}

func getReview(c *call) answer {
	v := c.reviewOf()
	if v == nil {
		return refused(errNotFound)
	}
	return ok(c.renderer().review(c.repo, c.pull, v))
}

var reviewEvents = map[string]string{"APPROVE": "APPROVED", "REQUEST_CHANGES": "CHANGES_REQUESTED", "COMMENT": "COMMENTED", "": "PENDING"}

func createReview(c *call) answer {
	var ask struct {
		Event    string `json:"event"`
		Body     string `json:"body"`
		CommitID string `json:"commit_id"`
	}
	if e := c.decode(&ask); e != nil {
		return refused(e)
	}
	state, known := reviewEvents[ask.Event]
	if !known {
		return refused(unprocessable("Variable $event of type PullRequestReviewEvent was provided invalid value"))
	}
	if ask.Body == "" && (state == "CHANGES_REQUESTED" || state == "COMMENTED") {
		return refused(unprocessable("Body is required"))
	}
	if ask.CommitID != "" && !slices.Contains(c.pull.heads, ask.CommitID) && c.s.objects.commits[ask.CommitID] == nil {
		return refused(unprocessable("commitOID is not part of the pull request"))
	}
	var v *review
	err := c.s.mutateLocked(func(m *mutation) error {
		id, err := m.review(c.repo, c.pull, c.actor(m), state, ask.Body, ask.CommitID)
		v = findReview(c.pull, id)
		return err
	})
	if err != nil {
		return failed(err)
	}
	return ok(c.renderer().review(c.repo, c.pull, v))
}

// submitReview turns a pending review into one of the others.
func submitReview(c *call) answer {
	var ask struct {
		Event string `json:"event"`
		Body  string `json:"body"`
	}
	if e := c.decode(&ask); e != nil {
		return refused(e)
	}
	v, state := c.reviewOf(), reviewEvents[ask.Event]
	if v == nil {
		return refused(errNotFound)
	}
	if v.state != "PENDING" || state == "PENDING" || state == "" {
		return refused(unprocessable("Can not submit a review that is not pending"))
	}
	err := c.s.mutateLocked(func(m *mutation) error {
		v.state, v.submittedAt, c.pull.updatedAt = state, m.at, m.at
		if ask.Body != "" {
			v.body = ask.Body
		}
		m.answerRequests(c.pull, v)
		m.emitReview(c.repo, c.pull, v, "submitted", c.actor(m))
		return nil
	})
	if err != nil {
		return failed(err)
	}
	return ok(c.renderer().review(c.repo, c.pull, v))
}

func dismissReview(c *call) answer {
	v := c.reviewOf()
	if v == nil {
		return refused(errNotFound)
	}
	var ask struct {
		Message string `json:"message"`
	}
	if e := c.decode(&ask); e != nil {
		return refused(e)
	}
	if ask.Message == "" {
		return refused(invalidRequest(`"message" wasn't supplied.`))
	}
	err := c.s.mutateLocked(func(m *mutation) error { return m.dismiss(c.repo, c.pull, v.id, c.actor(m)) })
	if err != nil {
		return failed(err)
	}
	return ok(c.renderer().review(c.repo, c.pull, v))
}

func getRequested(c *call) answer {
	users, teams := c.renderer().requested(c.pull)
	return ok(obj{"users": users, "teams": teams})
}

func requestReviewers(c *call) answer {
	var ask struct {
		Reviewers []string `json:"reviewers"`
		Teams     []string `json:"team_reviewers"`
	}
	if e := c.decode(&ask); e != nil {
		return refused(e)
	}
	err := c.s.mutateLocked(func(m *mutation) error { return m.requestReview(c.repo, c.pull, ask.Reviewers, ask.Teams, c.actor(m)) })
	if err != nil {
		return failed(err)
	}
	return answer{status: http.StatusCreated, body: c.renderer().pullSimple(c.repo, c.pull)}
}

func listComments(c *call) answer {
	list, x := []obj{}, c.renderer()
	for _, one := range paginate(c, c.repo.comments[c.pull.number]) {
		list = append(list, x.comment(c.repo, c.pull.number, one))
	}
	return ok(list)
}

func createComment(c *call) answer {
	var ask struct {
		Body string `json:"body"`
	}
	if e := c.decode(&ask); e != nil {
		return refused(e)
	}
	var made *comment
	err := c.s.mutateLocked(func(m *mutation) error {
		made = m.comment(c.repo, c.pull, c.actor(m), ask.Body)
		return nil
	})
	if err != nil {
		return failed(err)
	}
	return answer{status: http.StatusCreated, body: c.renderer().comment(c.repo, c.pull.number, made)}
}

func addLabels(c *call) answer {
	var ask struct {
		Labels []string `json:"labels"`
	}
	if e := c.decode(&ask); e != nil {
		return refused(e)
	}
	err := c.s.mutateLocked(func(m *mutation) error {
		for _, name := range ask.Labels {
			m.label(c.repo, c.pull, name, c.actor(m))
		}
		return nil
	})
	if err != nil {
		return failed(err)
	}
	return ok(c.renderer().labels(c.repo, c.pull))
}

func removeLabel(c *call) answer {
	err := c.s.mutateLocked(func(m *mutation) error { return m.unlabel(c.repo, c.pull, c.vars["name"], c.actor(m)) })
	if err != nil {
		return refused(refuse(404, "Label does not exist"))
	}
	return ok(c.renderer().labels(c.repo, c.pull))
}
