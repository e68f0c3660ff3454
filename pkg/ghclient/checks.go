package ghclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/google/go-github/v66/github"
)

const (
	opFindRun   operation = "checks.find"
	opListRuns  operation = "checks.list"
	opGetRun    operation = "checks.get"
	opCreateRun operation = "checks.create"
	opUpdateRun operation = "checks.update"
)

// GitHub's limits on a check run (RG-293, RG-294).
const (
	maxOutput     = 65535
	maxTitle      = 255
	maxExternalID = 255
)

// ReEvaluateIdentifier is the identifier of the button on a completed check (RG-300, RG-054).
const ReEvaluateIdentifier = "re-evaluate"

// FindRun is the newest run of our App with that name on exactly that commit (RG-295). Runs of other Apps and of other names are ignored
// even if GitHub's filter lets them through; a run of ours on another commit is ErrMalformed. found is false where there is none, and
// where the commit is unknown. Of several, the one with the highest id is taken: that is the one created last.
func (c *Client) FindRun(ctx context.Context, r Repo, sha, name string) (run Run, found bool, err error) {
	runs, err := c.listRuns(ctx, opFindRun, r, sha, name, "latest")
	if errors.Is(err, ErrNotFound) {
		return Run{}, false, nil
	}
	if err != nil || len(runs) == 0 {
		return Run{}, false, err
	}
	return slices.MaxFunc(runs, func(a, b Run) int { return int(a.ID - b.ID) }), true, nil
}

// ListRuns are the runs of our App with that name on exactly that commit: the newest of each suite, or with filterAll all of them.
func (c *Client) ListRuns(ctx context.Context, r Repo, sha, name string, filterAll bool) ([]Run, error) {
	filter := "latest"
	if filterAll {
		filter = "all"
	}
	return c.listRuns(ctx, opListRuns, r, sha, name, filter)
}

func (c *Client) listRuns(ctx context.Context, op operation, r Repo, sha, name, filter string) ([]Run, error) {
	path, err := r.path("commits", sha, "check-runs")
	if err != nil {
		return nil, err
	}
	query := url.Values{"check_name": {name}, "filter": {filter}, "app_id": {strconv.FormatInt(c.app.cfg.AppID, 10)}}
	list := call{op: op, method: http.MethodGet, path: path, query: query, installation: c.installation, perms: c.perms}
	var ours []Run
	listed, total := 0, -1
	err = c.app.each(ctx, list, "check_runs", aliases{repository: r.ID}, func(p *listPage) error {
		count := p.root.at("total_count").count()
		if total >= 0 && total != count {
			p.root.at("total_count").fail("the same count on every page")
		}
		total = count
		listed += len(p.items)
		for _, item := range p.items {
			run := readRun(item)
			if run.AppID != c.app.cfg.AppID || run.Name != name {
				continue
			}
			if run.HeadSHA != sha {
				item.at("head_sha").fail("the commit that was asked for")
			}
			ours = append(ours, run)
		}
		if !p.linked && listed >= total {
			p.next = 0
		}
		if p.next == 0 && listed != total {
			p.root.at("total_count").fail("the number of listed runs")
		}
		return nil
	})
	if err != nil {
		return nil, doing(err, "find the check runs of %s@%s", r.FullName(), sha)
	}
	return ours, nil
}

// GetRun reads a run by id: the proof of what a write did (P2).
func (c *Client) GetRun(ctx context.Context, r Repo, id int64) (Run, error) {
	path, err := r.path("check-runs", strconv.FormatInt(id, 10))
	if err != nil {
		return Run{}, err
	}
	root, err := c.get(ctx, opGetRun, path, nil)
	if err != nil {
		return Run{}, doing(err, "read check run %d of %s", id, r.FullName())
	}
	run := readRun(root)
	if run.ID != id {
		root.at("id").fail("the id that was asked for")
	}
	if root.read.err != nil {
		return Run{}, doing(malformed(opGetRun, root.read.err), "read check run %d of %s", id, r.FullName())
	}
	return run, nil
}

// CreateRun makes a new run. It must not be repeated after ErrUnknownOutcome: find what exists first. The answer must be a run of our
// App, of that name, on that commit.
func (c *Client) CreateRun(ctx context.Context, r Repo, spec RunSpec) (Run, error) {
	what := fmt.Sprintf("create a check run on %s@%s", r.FullName(), spec.HeadSHA)
	if !IsSHA(spec.HeadSHA) {
		return Run{}, doing(&apiError{sentinel: ErrInvalid, op: opCreateRun, text: "the head must be a commit id"}, "%s", what)
	}
	path, err := r.path("check-runs")
	if err != nil {
		return Run{}, err
	}
	output, actions, err := spec.parts(opCreateRun)
	if err != nil {
		return Run{}, doing(err, "%s", what)
	}
	run, err := c.writeRun(ctx, opCreateRun, http.MethodPost, path, github.CreateCheckRunOptions{
		Name: spec.Name, HeadSHA: spec.HeadSHA, DetailsURL: optional(spec.DetailsURL), ExternalID: optional(spec.ExternalID),
		Status: optional(spec.Status), Conclusion: optional(spec.Conclusion), Output: output, Actions: actions,
	})
	if err == nil && (run.HeadSHA != spec.HeadSHA || run.Name != spec.Name) {
		err = doubtful(opCreateRun, errors.New("the answer is about another commit or name"))
	}
	return settled(run, doing(err, "%s", what))
}

// UpdateRun changes a run by its id. The answer must be about that id, else ErrUnknownOutcome and ErrMalformed (RG-296). A nil error says that GitHub accepted the request,
// not that it did it: only GetRun tells (P2). It may run twice.
func (c *Client) UpdateRun(ctx context.Context, r Repo, id int64, spec RunSpec) (Run, error) {
	what := fmt.Sprintf("update check run %d of %s", id, r.FullName())
	path, err := r.path("check-runs", strconv.FormatInt(id, 10))
	if err != nil {
		return Run{}, err
	}
	output, actions, err := spec.parts(opUpdateRun)
	if err != nil {
		return Run{}, doing(err, "%s", what)
	}
	run, err := c.writeRun(ctx, opUpdateRun, http.MethodPatch, path, github.UpdateCheckRunOptions{
		Name: spec.Name, DetailsURL: optional(spec.DetailsURL), ExternalID: optional(spec.ExternalID),
		Status: optional(spec.Status), Conclusion: optional(spec.Conclusion), Output: output, Actions: actions,
	})
	if err == nil && run.ID != id {
		err = doubtful(opUpdateRun, fmt.Errorf("check run %d answered for %d", run.ID, id))
	}
	return settled(run, doing(err, "%s", what))
}

// settled drops a run that comes with an error, so that nobody takes it for the outcome.
func settled(run Run, err error) (Run, error) {
	if err != nil {
		return Run{}, err
	}
	return run, nil
}

func (c *Client) writeRun(ctx context.Context, op operation, method, path string, body any) (Run, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return Run{}, &apiError{sentinel: ErrInvalid, op: op, cause: err}
	}
	got, err := c.app.send(ctx, call{op: op, method: method, path: path, body: text, write: true, installation: c.installation, perms: c.perms})
	if err != nil {
		return Run{}, err
	}
	root, err := parseObject(got.body)
	if err != nil {
		return Run{}, doubtful(op, err)
	}
	run := readRun(root)
	if root.read.err == nil && run.AppID != c.app.cfg.AppID {
		root.at("app.id").fail("our App's id")
	}
	if root.read.err != nil {
		return Run{}, doubtful(op, root.read.err)
	}
	return run, nil
}

// doubtful is a write that GitHub accepted with an answer that isn't the one to such a write: ErrUnknownOutcome and ErrMalformed.
func doubtful(op operation, cause error) error {
	return &apiError{sentinel: ErrUnknownOutcome, op: op, cause: malformed(op, cause)}
}

// parts checks the limits GitHub has, before anything is sent, and builds the nested parts of the body.
func (s RunSpec) parts(op operation) (*github.CheckRunOutput, []*github.CheckRunAction, error) {
	refuse := func(text string) (*github.CheckRunOutput, []*github.CheckRunAction, error) {
		return nil, nil, &apiError{sentinel: ErrInvalid, op: op, text: text}
	}
	switch {
	case s.Name == "" || strings.TrimSpace(s.Name) != s.Name:
		return refuse("the name must not be empty or begin or end with a space")
	case utf8.RuneCountInString(s.Title) > maxTitle:
		return refuse("the title is longer than 255 characters")
	case len(s.Summary) > maxOutput || len(s.Text) > maxOutput:
		return refuse("summary or text is longer than 65535 bytes")
	case len(s.ExternalID) > maxExternalID:
		return refuse("the external id is longer than 255 bytes")
	case s.Title == "" && s.Summary+s.Text != "":
		return refuse("an output needs a title")
	case (s.Status == "completed") != (s.Conclusion != ""):
		return refuse("a conclusion goes with the status completed, and only with it")
	case s.Conclusion == "stale":
		return refuse("only GitHub may set the conclusion stale")
	}
	var output *github.CheckRunOutput
	if s.Title != "" {
		output = &github.CheckRunOutput{Title: &s.Title, Summary: &s.Summary, Text: optional(s.Text)}
	}
	var actions []*github.CheckRunAction
	if s.ReEvaluateAction {
		actions = []*github.CheckRunAction{{Label: "Re-evaluate", Description: "Read all evidence again and decide", Identifier: ReEvaluateIdentifier}}
	}
	return output, actions, nil
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func readRun(item node) Run {
	run := Run{
		ID: item.object().at("id").id(), Name: item.at("name").text(), HeadSHA: item.at("head_sha").sha(),
		Status:     item.at("status").oneOf("queued", "in_progress", "completed", "waiting", "requested", "pending"),
		Conclusion: item.at("conclusion").optionalText(), ExternalID: item.at("external_id").optionalText(),
	}
	if app := item.at("app"); !app.missing() { // null for a run whose App was deleted
		run.AppID = app.object().at("id").id()
	}
	if at := item.at("started_at").instant(); !at.IsZero() {
		run.StartedAt = &at
	}
	if at := item.at("completed_at").instant(); !at.IsZero() {
		run.CompletedAt = &at
	}
	if run.Status == "completed" && run.Conclusion == "" {
		item.at("conclusion").fail("a conclusion, as the status is completed")
	}
	return run
}
