package explain

import (
	"fmt"
	"time"

	"github.com/countersign/countersign/pkg/store"
)

// Place names where the work of a pull request is. The set is closed.
type Place string

// The places, in the order in which they are looked for: the first that holds is told.
const (
	PlaceGone        Place = "gone"         // GitHub no longer lists the repository or the installation
	PlaceRateLimited Place = "rate_limited" // GitHub asked to be left alone until a moment
	PlaceRetrying    Place = "retrying"     // the last try failed, the next is due at a moment
	PlaceRevoking    Place = "revoking"     // an earlier result is being taken back
	PlaceHeld        Place = "held"         // an operator paused the installation
	PlaceAuthority   Place = "authority"    // a change of teams, members or a base branch is being spread first
	PlaceEvaluating  Place = "evaluating"   // a worker reads the evidence now
	PlacePublishing  Place = "publishing"   // a decision is being written to GitHub
	PlaceQueued      Place = "queued"
	PlaceIdle        Place = "idle" // nothing waits
)

// Work is where the work of a pull request is now, and the numbers its fences compare.
type Work struct {
	Place Place `json:"place"`
	// Says is one sentence, in plain words.
	Says string `json:"says"`
	// Until is when the place ends by itself, zero where that is not known.
	Until time.Time `json:"until,omitzero"`
	// ReadAt is the database's clock at the reading.
	ReadAt time.Time `json:"read_at"`
	Items  []Item    `json:"items"`
	Fences Fences    `json:"fences"`
	Groups []string  `json:"merge_groups,omitempty"`
}

// Item is one row of work.
type Item struct {
	Queue       string    `json:"queue"`
	Scope       string    `json:"scope,omitempty"`
	BaseRef     string    `json:"base_ref,omitempty"`
	Lane        string    `json:"lane"`
	Reason      string    `json:"reason,omitempty"`
	DeliveryID  string    `json:"delivery_id,omitempty"`
	RequestedAt time.Time `json:"requested_at"`
	AvailableAt time.Time `json:"available_at,omitzero"`
	Parked      bool      `json:"parked,omitempty"`
	Recheck     bool      `json:"recheck,omitempty"`
	Attempts    int       `json:"attempts,omitempty"`
	LastError   string    `json:"last_error,omitempty"`
	Holder      string    `json:"holder,omitempty"`
	LeaseEnds   time.Time `json:"lease_ends,omitzero"`
	Ahead       int       `json:"ahead,omitempty"`
}

// Fences are the numbers of the head that a publication compares.
type Fences struct {
	Generation  int64 `json:"generation"`
	Invalidated int64 `json:"invalidated_generation"`
	Published   int64 `json:"published_generation"`
	RunID       int64 `json:"check_run_id,omitempty"`
	// RunProved: the bound run was read unfinished for the newest generation.
	RunProved bool  `json:"run_proved"`
	Intent    int64 `json:"unconfirmed_decision_id,omitempty"`
	Drifted   bool  `json:"drifted,omitempty"`
}

func workOf(row store.PullRow) Work {
	w, f := row.Work, row.Work.Fence
	out := Work{
		ReadAt: w.Now, Items: []Item{},
		Fences: Fences{
			Generation: int64(f.Generation), Invalidated: int64(f.Invalidated), Published: int64(f.Published), RunID: f.RunID,
			RunProved: f.RunID != 0 && f.RunGeneration == f.Generation, Intent: int64(f.Intent), Drifted: f.Drifted,
		},
	}
	for _, g := range w.Groups {
		out.Groups = append(out.Groups, string(g))
	}
	for _, i := range w.Items {
		out.Items = append(out.Items, Item{
			Queue: i.Queue, Scope: i.Scope, BaseRef: i.BaseRef, Lane: i.Lane.String(), Reason: i.Reason, DeliveryID: string(i.DeliveryID), RequestedAt: i.RequestedAt,
			AvailableAt: i.AvailableAt, Parked: i.Parked, Recheck: i.Recheck, Attempts: i.Attempts, LastError: i.LastErr, Holder: i.Holder, LeaseEnds: i.LeaseEnds, Ahead: i.Ahead,
		})
	}
	out.Place, out.Says, out.Until = placeOf(w)
	return out
}

// placeOf finds the first thing that keeps the work, or says what it does.
func placeOf(w store.Work) (Place, string, time.Time) {
	next, waits := firstItem(w.Items)
	p := w.Pause
	switch {
	case !p.GoneAt.IsZero():
		return PlaceGone, "GitHub no longer lists this repository or installation; the work is parked and wakes when it returns", time.Time{}
	case !waits && w.Fence.Intent != 0:
		return PlacePublishing, "a decision is being written to GitHub", time.Time{}
	case !waits:
		return PlaceIdle, idleWords(w), idleUntil(w)
	case !p.Until.IsZero():
		return PlaceRateLimited, fmt.Sprintf("GitHub's rate limit (%s) pauses this installation until %s", p.Reason, clock(p.Until)), p.Until
	}
	working := next.Holder != "" && next.LeaseEnds.After(w.Now)
	if next.Attempts > 0 && !working && next.AvailableAt.After(w.Now) {
		return PlaceRetrying, fmt.Sprintf("the last try failed (%s); it is tried again at %s", next.LastErr, clock(next.AvailableAt)), next.AvailableAt
	}
	if next.Queue == "revocation" {
		return PlaceRevoking, "an earlier result is being taken back before anything new is decided" + behind(next), time.Time{}
	}
	if !p.HeldAt.IsZero() {
		return PlaceHeld, fmt.Sprintf("%s paused this installation at %s: %s", nobody(p.HeldBy), clock(p.HeldAt), nobody(p.HeldReason)), time.Time{}
	}
	switch {
	case next.Queue == "authority":
		return PlaceAuthority, fmt.Sprintf("a change (%s) that may decide about many pull requests is being spread first", next.Reason), time.Time{}
	case working:
		return PlaceEvaluating, "the evidence is being read and decided now", next.LeaseEnds
	case next.AvailableAt.After(w.Now):
		return PlaceQueued, "it is looked at again at " + clock(next.AvailableAt), next.AvailableAt
	default:
		return PlaceQueued, "an evaluation is queued" + behind(next), time.Time{}
	}
}

// firstItem is the row that the work waits for first; a recheck of what is decided is not waited for.
func firstItem(items []store.WorkItem) (store.WorkItem, bool) {
	for _, i := range items {
		if !i.Recheck {
			return i, true
		}
	}
	return store.WorkItem{}, false
}

func idleWords(w store.Work) string {
	if at := idleUntil(w); !at.IsZero() {
		return "nothing waits; a recheck is due at " + clock(at)
	}
	return "nothing waits"
}

func idleUntil(w store.Work) time.Time {
	for _, i := range w.Items {
		if i.Recheck {
			return i.AvailableAt
		}
	}
	return time.Time{}
}

func behind(i store.WorkItem) string {
	switch i.Ahead {
	case 0:
		return ""
	case 1:
		return ", behind one other of its installation"
	default:
		return fmt.Sprintf(", behind %d others of its installation", i.Ahead)
	}
}

func nobody(s string) string {
	if s == "" {
		return "somebody"
	}
	return s
}

func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }
