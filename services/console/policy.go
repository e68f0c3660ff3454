package console

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/countersign/countersign/pkg/policy"
	"github.com/countersign/countersign/pkg/store"
)

// The bounds of one look at what a changed file would decide.
const (
	maxPolicyForm = 4 << 20 // CODEOWNERS itself is at most 3 MiB
	maxWhatIf     = 200
	whatIfLimit   = 20 * time.Second
)

// The files that page (e) can change.
const (
	fileCodeowners   = "codeowners"
	filePolicy       = "policy"
	fileOrganization = "organization"
)

// policyView is page (e).
type policyView struct {
	Repository, File, Text string
	Problem                string
	Mistakes               []policy.FileProblem
	Done                   bool
	Looked, Left           int
	Opened, Closed, Kept   int
	Turns                  []turn
}

// turn is one pull request whose verdict would be another.
type turn struct {
	Number        int
	Title         string
	Open          bool
	Before, After policy.Conclusion
	NextStep      string
	// Unsettled: the new text asks for facts that nobody read at the time.
	Unsettled bool
}

func (c *Console) policyPage(w http.ResponseWriter, r *http.Request, v viewer) {
	view := policyView{Repository: bounded(r.URL.Query().Get("repository")), File: fileCodeowners}
	status := http.StatusOK
	if r.Method == http.MethodPost {
		r.Body = http.MaxBytesReader(w, r.Body, maxPolicyForm)
		if err := r.ParseForm(); err != nil {
			c.problem(w, r, v, http.StatusRequestEntityTooLarge, "The text is too long: a policy file has at most a few megabytes.")
			return
		}
		view = policyView{Repository: strings.ToLower(strings.TrimSpace(bounded(r.PostForm.Get("repository")))), File: r.PostForm.Get("file"), Text: r.PostForm.Get("text")}
		err := c.whatIf(r.Context(), v, &view)
		switch {
		case notThere(err):
			status, view.Problem = http.StatusNotFound, "There is no such repository here, or you cannot see it on GitHub."
		case errors.Is(err, context.DeadlineExceeded):
			status, view.Problem = http.StatusServiceUnavailable, "It took too long. Try countersign simulate, which has more time."
		case err != nil:
			c.failed(w, r, v, err)
			return
		case len(view.Mistakes) > 0:
			status = http.StatusUnprocessableEntity
		}
	}
	c.show(w, r, status, "policy", shell{Title: "Policy", Page: "policy", Viewer: v, Data: view})
}

// whatIf decides the repository's open pull requests and the recent closed ones again, on the evidence of their last decision and with
// one file changed.
func (c *Console) whatIf(ctx context.Context, v viewer, view *policyView) error {
	repo, err := c.Store.FindRepository(ctx, view.Repository)
	if err != nil {
		return err
	}
	if !v.maySee(repo.Repository) {
		return errHidden
	}
	if view.Mistakes = mistakes(view.File, view.Text); len(view.Mistakes) > 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, whatIfLimit)
	defer cancel()
	latest, err := c.Store.ListLatestDecisions(ctx, repo.Installation, repo.Repository, maxWhatIf+1)
	if err != nil {
		return err
	}
	if len(latest) > maxWhatIf {
		view.Left, latest = len(latest)-maxWhatIf, latest[:maxWhatIf]
	}
	for _, l := range latest {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		d, err := c.Store.GetDecision(ctx, l.Decision)
		if err != nil {
			return err
		}
		view.add(l, d.Evidence)
	}
	view.Done = true
	return nil
}

func mistakes(file, text string) []policy.FileProblem {
	switch file {
	case filePolicy:
		_, problems := policy.ParseRepositoryPolicy(policy.PolicyPath, []byte(text))
		return problems
	case fileOrganization:
		_, problems := policy.ParseOrganizationPolicy(policy.PolicyPath, []byte(text))
		return problems
	case fileCodeowners:
		var list []policy.FileProblem
		for _, p := range policy.ParseCodeowners(".github/CODEOWNERS", []byte(text)).Problems() {
			list = append(list, policy.FileProblem{Line: p.Line, Message: p.Message, Mend: p.Mend})
		}
		return list
	}
	return []policy.FileProblem{{Message: "this is no file that decides", Mend: "choose one of the list"}}
}

// add decides one pull request again. Evidence that this release cannot read is left out of the count.
func (p *policyView) add(l store.LatestDecision, evidence string) {
	snapshot, err := policy.DecodeSnapshot([]byte(evidence))
	if err != nil {
		p.Left++
		return
	}
	p.Looked++
	before := pullOf(policy.Evaluate(snapshot), l.Number)
	verdict := policy.Evaluate(changed(snapshot, p.File, p.Text))
	after := pullOf(verdict, l.Number)
	switch {
	case before.Conclusion.Approved() == after.Conclusion.Approved():
		p.Kept++
		return
	case after.Conclusion.Approved():
		p.Opened++
	default:
		p.Closed++
	}
	p.Turns = append(p.Turns, turn{
		Number: l.Number, Title: l.Title, Open: l.Open, Before: before.Conclusion, After: after.Conclusion, NextStep: after.NextStep, Unsettled: verdict.Unsettled,
	})
}

func pullOf(v policy.Verdict, number int) policy.PullVerdict {
	for _, p := range v.Pulls {
		if p.Number == number {
			return p
		}
	}
	return policy.PullVerdict{Conclusion: v.Conclusion, NextStep: v.NextStep}
}

// changed is the snapshot with one file's text exchanged. GitHub's own errors of CODEOWNERS are of the old text, so they are dropped with it.
func changed(s policy.Snapshot, file, text string) policy.Snapshot {
	fact := policy.FileFact{State: policy.FactPresent, Path: policy.PolicyPath, Text: text}
	if file == fileOrganization {
		s.OrganizationPolicy = policy.OrganizationPolicy{Repository: policy.FactPresent, Policy: fact, FallbackPolicy: policy.FileFact{State: policy.FactAbsent}}
		return s
	}
	bases := make(map[string]policy.Base, len(s.Bases))
	for sha, b := range s.Bases {
		if file == filePolicy {
			b.Policy, b.FallbackPolicy = fact, policy.FileFact{State: policy.FactAbsent}
		} else {
			path := b.Codeowners.Path
			if path == "" {
				path = policy.CodeownersLocations()[0]
			}
			b.Codeowners = policy.FileFact{State: policy.FactPresent, Path: path, Text: text}
			b.CodeownersErrors = policy.CodeownersErrorList{State: policy.FactPresent}
		}
		bases[sha] = b
	}
	s.Bases = bases
	return s
}
