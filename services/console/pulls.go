package console

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"
	"unicode"

	"github.com/countersign/countersign/internal/explain"
	"github.com/countersign/countersign/pkg/store"
)

// notThere: the row does not exist, or is as good as that for this reader.
func notThere(err error) bool { return errors.Is(err, store.ErrNotFound) || errors.Is(err, errHidden) }

// errHidden: the reader may not see it. It is never told apart from what does not exist.
var errHidden = errors.New("hidden from this reader")

// pageLines is how many pull requests one page lists.
const pageLines = 50

// ages are the choices of the age filter.
var ages = []struct {
	Key, Name string
	Age       time.Duration
}{{"", "any time", 0}, {"1h", "an hour or more", time.Hour}, {"1d", "a day or more", 24 * time.Hour}, {"3d", "three days or more", 72 * time.Hour}, {"1w", "a week or more", 7 * 24 * time.Hour}}

// pullsForm is what the filters say, as the address holds it.
type pullsForm struct {
	Repo, Owner, State, Age, Order string
}

// pullsView is page (a).
type pullsView struct {
	Form    pullsForm
	States  []store.State
	Ages    any
	Lines   []store.PullLine
	Next    string // address of the next page
	Mark    string
	Problem string
}

func (c *Console) pullsFilter(r *http.Request, v viewer) (pullsForm, store.PullFilter) {
	q := r.URL.Query()
	form := pullsForm{Repo: bounded(q.Get("repo")), Owner: bounded(q.Get("owner")), State: bounded(q.Get("state")), Age: bounded(q.Get("age")), Order: bounded(q.Get("order"))}
	f := store.PullFilter{FullName: form.Repo, Owner: form.Owner, Only: v.filter(), Limit: pageLines + 1}
	if slices.Contains(store.States, store.State(form.State)) {
		f.States = []store.State{store.State(form.State)}
	}
	for _, a := range ages {
		if a.Key == form.Age {
			f.OlderThan = a.Age
		}
	}
	if form.Order == string(store.OrderOldest) {
		f.Order = store.OrderOldest
		if len(f.States) == 0 { // who waits longest is asked of those who wait
			f.States = []store.State{store.StateMissing, store.StateBlocked}
		}
	}
	f.After = readCursor(q.Get("after"))
	return form, f
}

// bounded cuts what no name is longer than, and what the database would refuse.
func bounded(s string) string {
	if len(s) > 400 {
		s = s[:400]
	}
	out := make([]rune, 0, len(s))
	for _, r := range s {
		if unicode.IsPrint(r) && r != '\uFFFD' { // no name has others, and they would stand in the form
			out = append(out, r)
		}
	}
	return string(out)
}

func (c *Console) readPulls(r *http.Request, v viewer) (pullsView, error) {
	form, filter := c.pullsFilter(r, v)
	lines, err := c.Store.ListOpen(r.Context(), filter)
	if err != nil {
		return pullsView{}, err
	}
	view := pullsView{Form: form, States: store.States, Ages: ages}
	if len(lines) > pageLines {
		lines = lines[:pageLines]
		q := r.URL.Query()
		q.Set("after", cursorOf(lines[pageLines-1]))
		view.Next = "/?" + q.Encode()
	}
	view.Lines, view.Mark = lines, markOf(lines)
	return view, nil
}

func (c *Console) pullsPage(w http.ResponseWriter, r *http.Request, v viewer) {
	view, err := c.readPulls(r, v)
	if err != nil {
		c.failed(w, r, v, err)
		return
	}
	c.show(w, r, http.StatusOK, "pulls", shell{Title: "Pull requests", Page: "pulls", Viewer: v, Live: "/live/pulls?" + r.URL.RawQuery, Mark: view.Mark, Data: view})
}

// cursor is the place of a line in a list. It holds what the reader was shown, and positions only.
type cursor struct {
	Updated, Since           time.Time
	Installation, Repository int64
	Number                   int
}

func cursorOf(l store.PullLine) string {
	text, _ := json.Marshal(cursor{l.UpdatedAt, l.Since, int64(l.Key.Installation), int64(l.Key.Repository), l.Key.Number}) // plain fields always marshal
	return base64.RawURLEncoding.EncodeToString(text)
}

func readCursor(text string) *store.PullLine {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	var c cursor
	if err != nil || text == "" || json.Unmarshal(raw, &c) != nil || c.Number < 0 || c.Number > 1<<31-1 {
		return nil
	}
	return &store.PullLine{UpdatedAt: c.Updated, Since: c.Since, Key: store.PullKey{Installation: store.InstallationID(c.Installation), Repository: store.RepositoryID(c.Repository), Number: c.Number}}
}

// markOf tells two states of what was shown apart; times that pass by themselves are not part of it.
func markOf(shown any) string {
	text, _ := json.Marshal(shown) // rows of plain fields always marshal
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// ownersView is page (c).
type ownersView struct {
	Lines []store.OwnerLine
	Next  string
	Mark  string
}

func (c *Console) readOwners(r *http.Request, v viewer) (ownersView, error) {
	var after *store.OwnerLine
	q := r.URL.Query()
	if at, err := time.Parse(time.RFC3339Nano, q.Get("oldest")); err == nil && q.Get("after") != "" {
		after = &store.OwnerLine{Owner: bounded(q.Get("after")), Oldest: at}
	}
	lines, err := c.Store.ListOwners(r.Context(), v.filter(), after, pageLines+1)
	if err != nil {
		return ownersView{}, err
	}
	view := ownersView{}
	if len(lines) > pageLines {
		lines = lines[:pageLines]
		last := lines[pageLines-1]
		view.Next = "/owners?" + url.Values{"after": {last.Owner}, "oldest": {last.Oldest.UTC().Format(time.RFC3339Nano)}}.Encode()
	}
	view.Lines, view.Mark = lines, markOf(lines)
	return view, nil
}

func (c *Console) ownersPage(w http.ResponseWriter, r *http.Request, v viewer) {
	view, err := c.readOwners(r, v)
	if err != nil {
		c.failed(w, r, v, err)
		return
	}
	c.show(w, r, http.StatusOK, "owners", shell{Title: "Owners", Page: "owners", Viewer: v, Live: "/live/owners?" + r.URL.RawQuery, Mark: view.Mark, Data: view})
}

// fullName is the repository of a page's address.
func fullName(r *http.Request) string {
	return fmt.Sprintf("%s/%s", bounded(r.PathValue("owner")), bounded(r.PathValue("name")))
}

// explained reads one pull request for a reader; what they may not see does not exist.
func (c *Console) explained(r *http.Request, v viewer) (explain.Pull, error) {
	key, err := c.pullKey(r, v)
	if err != nil {
		return explain.Pull{}, err
	}
	return explain.ReadWith(r.Context(), c.Store, key, c.remembered)
}

// remembered reads a decision once: its evidence and verdict are large, and never change. What does (its outcome) is the history's to show.
func (c *Console) remembered(ctx context.Context, id store.DecisionID, number int) (*explain.Decision, error) {
	at := decisionAt{id, number}
	if d, ok := c.decisions.Get(at); ok {
		return d, nil
	}
	d, err := explain.ReadDecision(ctx, c.Store, id, number)
	if err == nil {
		c.decisions.Add(at, d)
	}
	return d, err
}

// decisionAt is a decision as one pull request sees it.
type decisionAt struct {
	id     store.DecisionID
	number int
}
