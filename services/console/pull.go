package console

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/countersign/countersign/internal/explain"
	"github.com/countersign/countersign/pkg/policy"
	"github.com/countersign/countersign/pkg/store"
)

// maxFiles is how many files of one group a page lists unless all are asked for.
const maxFiles = 100

// pullView is page (b).
type pullView struct {
	Pull explain.Pull
	// Tree is the decision that counts, or the last one, marked as no longer counting.
	Tree     *treeView
	Stale    bool
	Evidence []explain.Fact
	All      bool
	// Previous is, for each decision of the history, the one before it.
	Previous map[int64]int64
}

// treeView is a decision's reason tree.
type treeView struct {
	Decision *explain.Decision
	Groups   []groupView
	Unowned  []string
	More     int // unowned paths that are left out
	Findings []policy.Finding
	// Others are the other pull requests on the same head: the check is the conjunction of all (D7).
	Others []policy.PullVerdict
}

// groupView is one owner set or requirement.
type groupView struct {
	policy.GroupVerdict
	ID   string
	Name string
	More int // files that are left out
}

func (c *Console) pullKey(r *http.Request, v viewer) (store.PullKey, error) {
	number, err := strconv.Atoi(r.PathValue("number"))
	if err != nil || number <= 0 || number > 1<<31-1 {
		return store.PullKey{}, errHidden
	}
	key, err := c.Store.FindPull(r.Context(), fullName(r), number)
	if err != nil {
		return store.PullKey{}, err
	}
	if !v.maySee(key.Repository) {
		return store.PullKey{}, errHidden
	}
	return key, nil
}

func (c *Console) pullPage(w http.ResponseWriter, r *http.Request, v viewer) {
	p, err := c.explained(r, v)
	if err != nil {
		c.failed(w, r, v, err)
		return
	}
	all := r.URL.Query().Get("all") == "1"
	view := pullView{Pull: p, All: all, Previous: map[int64]int64{}}
	for i := 1; i < len(p.History); i++ {
		view.Previous[p.History[i-1].ID] = p.History[i].ID
	}
	decision := p.Decision
	if decision == nil {
		decision, view.Stale = p.Last, p.Last != nil
	}
	if decision != nil {
		view.Tree = treeOf(decision, all)
		view.Evidence = evidenceFor(v, decision.Evidence.Facts)
	}
	path := pullPath(p.Repository, p.Number)
	c.show(w, r, http.StatusOK, "pull", shell{
		Title: shown(p.Repository) + " #" + strconv.Itoa(p.Number), Page: "pulls", Viewer: v, Live: "/live" + path, Mark: pullMark(p), Now: p.Work.ReadAt, Data: view,
	})
}

func treeOf(d *explain.Decision, all bool) *treeView {
	t := &treeView{Decision: d, Findings: slices.Clone(d.Verdict.Findings)}
	for _, other := range d.Verdict.Pulls {
		if d.Pull == nil || other.Number != d.Pull.Number {
			t.Others = append(t.Others, other)
		}
	}
	if d.Pull == nil {
		return t
	}
	t.Findings = append(t.Findings, d.Pull.Findings...)
	t.Unowned, t.More = part(d.Pull.Unowned, all)
	for i, g := range d.Pull.Groups {
		one := groupView{GroupVerdict: g, ID: "group-" + strconv.Itoa(i), Name: explain.GroupName(&d.Pull.Groups[i])}
		one.Files, one.More = part(g.Files, all)
		t.Groups = append(t.Groups, one)
	}
	return t
}

// part is the beginning of a list, and how much is left out.
func part[T any](list []T, all bool) ([]T, int) {
	if all || len(list) <= maxFiles {
		return list, 0
	}
	return list[:maxFiles], len(list) - maxFiles
}

// evidenceFor leaves out what is of another repository: the organisation's policy may be where this reader cannot look. That it was read
// stays.
func evidenceFor(v viewer, facts []explain.Fact) []explain.Fact {
	if v.Operator {
		return facts
	}
	kept := slices.Clone(facts)
	for i, f := range kept {
		if strings.HasPrefix(f.Subject, "organisation policy") && f.Says != "there is none" {
			kept[i].Says = "read"
		}
	}
	return kept
}

// pullMark is equal while the page would say the same.
func pullMark(p explain.Pull) string {
	p.Work.ReadAt = time.Time{}
	p.Work.Items = slices.Clone(p.Work.Items)
	for i := range p.Work.Items {
		p.Work.Items[i].LeaseEnds = time.Time{} // renewed while somebody works
	}
	if p.Work.Place == explain.PlaceEvaluating {
		p.Work.Until = time.Time{}
	}
	var decision int64
	if p.Decision != nil {
		decision = p.Decision.ID
	}
	p.Decision, p.Last = nil, nil // fixed by their ids, which the history has
	return markOf([]any{p, decision})
}

// decision reads one decision of the address's pull request; another repository's does not exist.
func (c *Console) decision(r *http.Request, v viewer, text string) (store.PullKey, *explain.Decision, error) {
	key, err := c.pullKey(r, v)
	if err != nil {
		return key, nil, err
	}
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id <= 0 {
		return key, nil, errHidden
	}
	stored, err := c.Store.GetDecision(r.Context(), store.DecisionID(id))
	if err != nil {
		return key, nil, err
	}
	if stored.Head.Repository != key.Repository || stored.Installation != key.Installation {
		return key, nil, errHidden
	}
	d := explain.DecisionOf(stored, key.Number)
	if d.Pull == nil && d.Problem == "" {
		return key, nil, errHidden // it is about other pull requests
	}
	return key, &d, nil
}

// decisionView is one decision of the past.
type decisionView struct {
	Repository string
	Number     int
	Tree       *treeView
	Evidence   []explain.Fact
	All        bool
}

func (c *Console) decisionPage(w http.ResponseWriter, r *http.Request, v viewer) {
	_, d, err := c.decision(r, v, r.PathValue("id"))
	if err != nil {
		c.failed(w, r, v, err)
		return
	}
	number, _ := strconv.Atoi(r.PathValue("number")) // pullKey read it
	all := r.URL.Query().Get("all") == "1"
	c.show(w, r, http.StatusOK, "decision", shell{
		Title: "Decision " + strconv.FormatInt(d.ID, 10), Page: "pulls", Viewer: v,
		Data: decisionView{Repository: strings.ToLower(fullName(r)), Number: number, Tree: treeOf(d, all), Evidence: evidenceFor(v, d.Evidence.Facts), All: all},
	})
}

// diffView is what changed between two decisions.
type diffView struct {
	Repository   string
	Number       int
	Before, Then *explain.Decision
	Changes      []explain.Change
	More         int
	All          bool
	Query        string
}

func (c *Console) diffPage(w http.ResponseWriter, r *http.Request, v viewer) {
	q := r.URL.Query()
	_, before, err := c.decision(r, v, q.Get("from"))
	var after *explain.Decision
	if err == nil {
		_, after, err = c.decision(r, v, q.Get("to"))
	}
	if err != nil {
		c.failed(w, r, v, err)
		return
	}
	if before.ID > after.ID {
		before, after = after, before
	}
	changes := explain.Diff(hideFor(v, *before), hideFor(v, *after))
	number, _ := strconv.Atoi(r.PathValue("number")) // pullKey read it
	view := diffView{Repository: strings.ToLower(fullName(r)), Number: number, Before: before, Then: after, All: q.Get("all") == "1"}
	view.Changes, view.More = part(changes, view.All)
	q.Set("all", "1")
	view.Query = q.Encode()
	c.show(w, r, http.StatusOK, "diff", shell{Title: "What changed", Page: "pulls", Viewer: v, Data: view})
}

func hideFor(v viewer, d explain.Decision) explain.Decision {
	d.Evidence.Facts = evidenceFor(v, d.Evidence.Facts)
	return d
}
