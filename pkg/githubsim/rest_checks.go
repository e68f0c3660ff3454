package githubsim

import (
	"fmt"
	"net/http"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// runBody is the body of POST and PATCH check-runs. A nil field was not sent.
type runBody struct {
	Name        *string    `json:"name"`
	HeadSHA     *string    `json:"head_sha"`
	DetailsURL  *string    `json:"details_url"`
	ExternalID  *string    `json:"external_id"`
	Status      *string    `json:"status"`
	Conclusion  *string    `json:"conclusion"`
	StartedAt   *time.Time `json:"started_at"`
	CompletedAt *time.Time `json:"completed_at"`
	Output      *struct {
		Title       *string      `json:"title"`
		Summary     *string      `json:"summary"`
		Text        *string      `json:"text"`
		Annotations []annotation `json:"annotations"`
	} `json:"output"`
	Actions []runAction `json:"actions"`
}

const (
	maxOutput      = 65_535
	maxActions     = 3
	maxAnnotations = 50
	maxSameName    = 1000 // of one name in one suite; then the oldest go
)

var runStatuses = []string{"queued", "in_progress", "completed", "waiting", "requested", "pending"}

var runConclusions = []string{"action_required", "cancelled", "failure", "neutral", "success", "skipped", "timed_out"}

// check refuses what GitHub refuses.
func (b *runBody) check() *refusal {
	if b.Status != nil && !slices.Contains(runStatuses, *b.Status) {
		return invalidRequest(fmt.Sprintf("%s is not a member of [\"queued\", \"in_progress\", \"completed\"].", *b.Status))
	}
	if b.Conclusion != nil && !slices.Contains(runConclusions, *b.Conclusion) {
		return invalidRequest(fmt.Sprintf("%s is not a conclusion that can be set.", *b.Conclusion)) // stale is GitHub's own
	}
	if b.Status != nil && *b.Status == "completed" && b.Conclusion == nil {
		return invalidRequest(`"conclusion" wasn't supplied.`)
	}
	if len(b.Actions) > maxActions {
		return invalidRequest(fmt.Sprintf("No more than %d items are allowed; %d were supplied.", maxActions, len(b.Actions)))
	}
	for _, a := range b.Actions {
		if utf8.RuneCountInString(a.Label) > 20 || utf8.RuneCountInString(a.Identifier) > 20 || utf8.RuneCountInString(a.Description) > 40 {
			return invalidRequest("An action's label and identifier have at most 20 characters, its description at most 40.")
		}
	}
	return b.checkOutput()
}

func (b *runBody) checkOutput() *refusal {
	if b.Output == nil {
		return nil
	}
	if b.Output.Title == nil || b.Output.Summary == nil {
		return invalidRequest(`"title", "summary" weren't supplied.`)
	}
	if len(b.Output.Annotations) > maxAnnotations {
		return invalidRequest(fmt.Sprintf("No more than %d items are allowed; %d were supplied.", maxAnnotations, len(b.Output.Annotations)))
	}
	for field, text := range map[string]*string{"summary": b.Output.Summary, "text": b.Output.Text} {
		if text != nil && utf8.RuneCountInString(*text) > maxOutput {
			return invalid("CheckRun", field, "custom", fmt.Sprintf("%s exceeds a maximum length of %d characters", field, maxOutput))
		}
	}
	return nil
}

func (c *call) appOnly() *refusal {
	if c.who.user != nil {
		return refuse(403, "You must authenticate via a GitHub App.")
	}
	return nil
}

func createCheckRun(c *call) answer {
	if e := c.appOnly(); e != nil {
		return refused(e)
	}
	var b runBody
	if e := c.decode(&b); e != nil {
		return refused(e)
	}
	if b.Name == nil || *b.Name == "" || b.HeadSHA == nil {
		return refused(invalidRequest(`"name", "head_sha" weren't supplied.`))
	}
	if e := b.check(); e != nil {
		return refused(e)
	}
	if c.s.objects.commits[*b.HeadSHA] == nil {
		return refused(unprocessableMessage("No commit found for SHA: " + *b.HeadSHA))
	}
	var n *checkRun
	err := c.s.mutateLocked(func(m *mutation) error {
		n = &checkRun{id: m.s.nextBigID(), appID: c.who.app.id, name: *b.Name, sha: *b.HeadSHA, status: "queued"}
		n.suiteID = m.suiteFor(c.repo, n.appID, n.sha).id
		c.repo.runs[n.id] = n
		c.repo.runsOf[n.sha] = append(c.repo.runsOf[n.sha], n.id)
		b.apply(n, m.at)
		if n.startedAt == nil {
			n.startedAt = ptr(m.at)
		}
		m.dropOldest(c.repo, n)
		m.wrote = &RunWrite{RepoID: c.repo.id, SHA: n.sha, Arrived: c.arrival, Made: true, After: n.look()}
		m.emitRun(c.repo, n, "created", c.actor(m), nil)
		if n.status == "completed" {
			m.emitRun(c.repo, n, "completed", c.actor(m), nil)
		}
		return nil
	})
	if err != nil {
		return failed(err)
	}
	o := c.renderer().checkRun(c.repo, n)
	c.header.Set("Location", o["url"].(string)) //nolint:forcetypeassert // just made
	return answer{status: http.StatusCreated, body: o}
}

// apply writes what a body sets. A conclusion completes the run.
func (b *runBody) apply(n *checkRun, at time.Time) {
	set := func(to *string, from *string) {
		if from != nil {
			*to = *from
		}
	}
	set(&n.name, b.Name)
	set(&n.details, b.DetailsURL)
	set(&n.externalID, b.ExternalID)
	set(&n.status, b.Status)
	if b.StartedAt != nil {
		n.startedAt = ptr(b.StartedAt.UTC().Truncate(time.Second))
	}
	switch {
	case b.Conclusion != nil:
		n.status, n.conclusion = "completed", *b.Conclusion
		n.completedAt = ptr(at)
		if b.CompletedAt != nil {
			n.completedAt = ptr(b.CompletedAt.UTC().Truncate(time.Second))
		}
	case n.status != "completed":
		n.conclusion, n.completedAt = "", nil
	}
	if b.Output != nil {
		n.hasOutput = true
		n.title, n.summary = *b.Output.Title, *b.Output.Summary
		n.text = ""
		set(&n.text, b.Output.Text)
		n.annotations = append(n.annotations, b.Output.Annotations...)
	}
	if b.Actions != nil {
		n.actions = b.Actions
	}
}

func (m *mutation) suiteFor(r *repo, appID int64, sha string) *checkSuite {
	key := suiteKey{appID, sha}
	if r.suites[key] == nil {
		r.suites[key] = &checkSuite{id: m.s.nextBigID(), appID: appID, sha: sha, createdAt: m.at}
	}
	r.suites[key].updatedAt = m.at
	return r.suites[key]
}

// dropOldest keeps at most 1,000 runs of one name in a suite.
func (m *mutation) dropOldest(r *repo, n *checkRun) {
	var same []int64
	for _, id := range r.runsOf[n.sha] {
		if o := r.runs[id]; o.appID == n.appID && o.name == n.name {
			same = append(same, id)
		}
	}
	for len(same) > maxSameName {
		gone := same[0]
		same = same[1:]
		delete(r.runs, gone)
		r.runsOf[n.sha] = slices.DeleteFunc(r.runsOf[n.sha], func(id int64) bool { return id == gone })
	}
}

func (c *call) run() *checkRun {
	id, _ := strconv.ParseInt(c.vars["check_run_id"], 10, 64)
	return c.repo.runs[id]
}

func getCheckRun(c *call) answer {
	n := c.run()
	if n == nil {
		return refused(errNotFound)
	}
	return ok(c.renderer().checkRun(c.repo, n))
}

// updateCheckRun is for the App that made the run alone. What happens when a
// completed run is moved back is Switches.ReopenRun.
func updateCheckRun(c *call) answer {
	if e := c.appOnly(); e != nil {
		return refused(e)
	}
	n := c.run()
	if n == nil {
		return refused(errNotFound)
	}
	if n.appID != c.who.app.id {
		return refused(refuse(403, fmt.Sprintf("Invalid app_id `%d` - check run can only be modified by the GitHub App that created it.", c.who.app.id)))
	}
	var b runBody
	if e := c.decode(&b); e != nil {
		return refused(e)
	}
	if e := b.check(); e != nil {
		return refused(e)
	}
	reopens := n.status == "completed" && b.Status != nil && *b.Status != "completed" && b.Conclusion == nil
	if reopens {
		switch c.s.switches.ReopenRun {
		case ReopenIgnored:
			return ok(c.renderer().checkRun(c.repo, n))
		case ReopenRefused:
			return refused(invalid("CheckRun", "status", "invalid", "a completed check run cannot be reopened"))
		}
	}
	completes := b.Conclusion != nil && (n.status != "completed" || n.conclusion != *b.Conclusion)
	err := c.s.mutateLocked(func(m *mutation) error {
		m.wrote = &RunWrite{RepoID: c.repo.id, SHA: n.sha, Arrived: c.arrival, Before: n.look(), After: n.look()}
		b.apply(n, m.at)
		m.suiteFor(c.repo, n.appID, n.sha)
		if completes {
			m.emitRun(c.repo, n, "completed", c.actor(m), nil)
		}
		return nil
	})
	if err != nil {
		return failed(err)
	}
	return ok(c.renderer().checkRun(c.repo, n))
}

// listCheckRuns is {total_count, check_runs} of a commit, newest first, with
// filter=latest by default.
func listCheckRuns(c *call) answer {
	at := c.resolve(c.vars["ref"])
	if at == nil {
		return refused(unprocessableMessage("No commit found for SHA: " + c.vars["ref"]))
	}
	var all []*checkRun
	for _, id := range c.repo.runsOf[at.sha] {
		all = append(all, c.repo.runs[id])
	}
	return c.runs(all)
}

func listSuiteRuns(c *call) answer {
	suite, _ := strconv.ParseInt(c.vars["check_suite_id"], 10, 64)
	var all []*checkRun
	for _, id := range sortedKeys(c.repo.runs) {
		if n := c.repo.runs[id]; n.suiteID == suite {
			all = append(all, n)
		}
	}
	if all == nil {
		return refused(errNotFound)
	}
	return c.runs(all)
}

func (c *call) runs(all []*checkRun) answer {
	q := c.r.URL.Query()
	all = slices.DeleteFunc(all, func(n *checkRun) bool {
		return q.Get("check_name") != "" && q.Get("check_name") != n.name ||
			q.Get("app_id") != "" && q.Get("app_id") != strconv.FormatInt(n.appID, 10) ||
			q.Get("status") != "" && q.Get("status") != n.status
	})
	if q.Get("filter") != "all" {
		all = latestRuns(all, c.s.switches.LatestBy)
	}
	sort.Slice(all, func(i, j int) bool { return all[i].id > all[j].id })
	list, x := []obj{}, c.renderer()
	for _, n := range paginate(c, all) {
		list = append(list, x.checkRun(c.repo, n))
	}
	return ok(obj{"total_count": len(all), "check_runs": list})
}

// latestRuns keeps one run of each App and name.
func latestRuns(all []*checkRun, by LatestBy) []*checkRun {
	type key struct {
		app  int64
		name string
	}
	best := map[key]*checkRun{}
	for _, n := range all {
		k := key{n.appID, n.name}
		if old := best[k]; old == nil || newer(n, old, by) {
			best[k] = n
		}
	}
	list := make([]*checkRun, 0, len(best))
	for _, n := range best {
		list = append(list, n)
	}
	return list
}

func newer(a, b *checkRun, by LatestBy) bool {
	if by == LatestByCompletedAt {
		switch {
		case (a.completedAt == nil) != (b.completedAt == nil):
			return a.completedAt != nil
		case a.completedAt != nil && !a.completedAt.Equal(*b.completedAt):
			return a.completedAt.After(*b.completedAt)
		}
	}
	return a.id > b.id
}

func listCheckSuites(c *call) answer {
	at := c.resolve(c.vars["ref"])
	if at == nil {
		return refused(unprocessableMessage("No commit found for SHA: " + c.vars["ref"]))
	}
	var all []*checkSuite
	for key, s := range c.repo.suites {
		if key.sha == at.sha && (c.query("app_id") == "" || c.query("app_id") == strconv.FormatInt(key.appID, 10)) {
			all = append(all, s)
		}
	}
	sort.Slice(all, func(i, j int) bool { return all[i].id < all[j].id })
	list, x := []obj{}, c.renderer()
	for _, s := range paginate(c, all) {
		list = append(list, x.suite(c.repo, s))
	}
	return ok(obj{"total_count": len(all), "check_suites": list})
}

func listAnnotations(c *call) answer {
	n := c.run()
	if n == nil {
		return refused(errNotFound)
	}
	list, x := []obj{}, c.renderer()
	for _, a := range paginate(c, n.annotations) {
		list = append(list, obj{
			"path": a.Path, "start_line": a.StartLine, "end_line": a.EndLine, "start_column": nil, "end_column": nil, "annotation_level": a.Level,
			"title": stringOrNil(a.Title), "message": a.Message, "raw_details": nil, "blob_href": x.repoURL(c.repo) + "/git/blobs/" + strings.Repeat("0", 40),
		})
	}
	return ok(list)
}
