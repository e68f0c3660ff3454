package chaos

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/countersign/countersign/pkg/githubsim"
)

// key names a commit of a repository.
type key struct {
	repo int64
	sha  string
}

func (k key) String() string { return fmt.Sprintf("%d@%s", k.repo, short(k.sha)) }

// Violation is one thing that must not be.
type Violation struct {
	Flag string // of flags
	What string
}

// The flags of issue and documentation; the set is closed.
const (
	FlagSuccess   = "success_while_blocked"
	FlagReturned  = "success_returned"
	FlagLost      = "event_lost"
	FlagUnsettled = "never_settled"
	FlagTwice     = "published_twice"
	FlagOracle    = "oracle"  // the database's invariants, chain and leases
	FlagReplay    = "replay"  // a decision's evidence gives another verdict
	FlagCrash     = "crashed" // a service ended by itself
)

// headWatch is what the observer knows of one commit.
type headWatch struct {
	truth   truth
	since   int64 // the moment of the last change of truth
	changed time.Time
	waiting map[string]bool // webhooks of the change that blocked it, not answered 2xx yet
	dropped bool            // one of them was lost on the way
	success bool            // the effective run says success now
	was     bool            // it did when the truth turned to blocked

	accepted   bool
	acceptedAt time.Time
	revoked    int64 // the moment at which, accepted and blocked, it was not successful; 0: not yet

	window   string // the window that a success stands in, "" for none
	windowAt time.Time
}

// write is one write of the managed check, as it took effect.
type write struct {
	moment, arrived int64
	key             key
	run             int64
	status          string
	conclusion      string
	external        string
	before          string // external id before the write
	counts          bool   // the run is the one that a merge box shows
}

// Windows are the durations that were measured, by name.
type Windows map[string][]time.Duration

// observer implements githubsim.Observer. The stand-in's lock orders its calls; mu is for who reads the result.
type observer struct {
	app       int64
	log       *Log
	lagging   bool
	mu        sync.Mutex
	heads     map[key]*headWatch
	writes    []write
	violation []Violation
	windows   Windows
	lags      []lag
	accepted  map[string]bool // GUIDs that were answered 2xx with work queued
	failed    map[string]bool // GUIDs that were sent and not answered 2xx
	sent      map[string]bool
	lastRun   time.Time
}

type lag struct{ now, shown int64 }

func newObserver(app int64, log *Log) *observer {
	return &observer{
		app: app, log: log, heads: map[key]*headWatch{}, windows: Windows{}, accepted: map[string]bool{}, failed: map[string]bool{}, sent: map[string]bool{},
	}
}

func (o *observer) flag(flag, format string, args ...any) {
	v := Violation{flag, fmt.Sprintf(format, args...)}
	o.violation = append(o.violation, v)
	o.log.Printf("VIOLATION %s: %s", v.Flag, v.What)
}

// Changed computes the truth anew.
func (o *observer) Changed(v githubsim.View, webhooks []githubsim.Sent) {
	o.mu.Lock()
	defer o.mu.Unlock()
	waiting := map[string]bool{}
	for _, s := range webhooks {
		if s.AppID == o.app && s.Event != "check_run" {
			waiting[s.GUID] = true
			o.sent[s.GUID] = true
		}
	}
	for _, org := range organizations {
		repos := v.Repos(org)
		enrolled := ""
		for _, r := range repos {
			if strings.HasSuffix(r.FullName, "/.github") {
				enrolled, _ = v.File(r.ID, "main", policyAt)
			}
		}
		for _, r := range repos {
			if strings.HasSuffix(r.FullName, "/.github") {
				continue
			}
			for sha, t := range judge(v, r, enrolled) {
				o.turn(v, key{r.ID, sha}, t, waiting)
			}
		}
	}
}

// turn notes what the truth of a commit is now.
func (o *observer) turn(v githubsim.View, k key, t truth, waiting map[string]bool) {
	h := o.heads[k]
	if h == nil {
		h = &headWatch{}
		o.heads[k] = h
	}
	if h.truth == t {
		return
	}
	o.endWindow(h)
	o.log.Printf("truth %s %s → %s", k, h.truth, t)
	check, _ := v.Latest(k.repo, k.sha, CheckName)
	*h = headWatch{truth: t, since: v.Moment(), changed: time.Now(), success: check.Conclusion == "success"}
	if t == blocked {
		h.was = h.success
		h.waiting = map[string]bool{}
		for guid := range waiting {
			h.waiting[guid] = true
		}
	}
}

// Answered: a webhook was accepted, or was not.
func (o *observer) Answered(v githubsim.View, s githubsim.Sent) {
	if s.AppID != o.app {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if s.Code < 200 || s.Code > 299 {
		o.failed[s.GUID] = true
		o.log.Printf("webhook %s %s.%s answered %d", s.GUID[:8], s.Event, s.Action, s.Code)
		return
	}
	delete(o.failed, s.GUID)
	if strings.Contains(s.Body, `"queued":true`) {
		o.accepted[s.GUID] = true
	}
	for k, h := range o.heads {
		if h.truth != blocked || !h.waiting[s.GUID] {
			continue
		}
		delete(h.waiting, s.GUID)
		if len(h.waiting) == 0 && !h.accepted {
			h.accepted, h.acceptedAt = true, time.Now()
			o.lookRevoked(v, k, h)
		}
	}
}

// lookRevoked notes that an accepted block is in force on GitHub.
func (o *observer) lookRevoked(v githubsim.View, k key, h *headWatch) {
	if h.truth != blocked || !h.accepted || h.revoked != 0 || h.success {
		return
	}
	h.revoked = v.Moment()
	if h.was {
		o.windows["change_to_revoked"] = append(o.windows["change_to_revoked"], time.Since(h.changed))
		o.windows["accepted_to_revoked"] = append(o.windows["accepted_to_revoked"], time.Since(h.acceptedAt))
	}
}

// Run: a write of a check run took effect.
func (o *observer) Run(v githubsim.View, w githubsim.RunWrite) {
	if w.After.Name != CheckName || w.After.AppID != o.app {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	k := key{w.RepoID, w.SHA}
	o.lastRun = time.Now()
	check, _ := v.Latest(k.repo, k.sha, CheckName)
	o.writes = append(o.writes, write{
		counts: check.ID == w.After.ID,
		moment: v.Moment(), arrived: w.Arrived, key: k, run: w.After.ID, status: w.After.Status, conclusion: w.After.Conclusion,
		external: w.After.ExternalID, before: w.Before.ExternalID,
	})
	o.log.Printf("run %d of %s: %s %s %q", w.After.ID, k, w.After.Status, w.After.Conclusion, w.After.ExternalID)
	h := o.heads[k]
	if h == nil {
		h = &headWatch{}
		o.heads[k] = h
	}
	was := h.success
	h.success = check.Conclusion == "success"
	if !h.success {
		o.endWindow(h)
		o.lookRevoked(v, k, h)
		return
	}
	if !was && h.truth == blocked && h.revoked != 0 {
		o.judgeSuccess(k, h, w, check)
	}
}

// judgeSuccess: a success came about on a commit whose block was accepted and in force. Two reasons excuse it, both measured.
func (o *observer) judgeSuccess(k key, h *headWatch, w githubsim.RunWrite, check githubsim.Check) {
	switch {
	case w.Arrived < h.revoked:
		h.window = "request_on_the_wire"
	case o.readLagged(h.since):
		h.window = "lagging_read"
	default:
		o.flag(FlagSuccess, "%s: run %d says success (%q) though it is blocked since moment %d, accepted, and revoked at %d; the request arrived at %d",
			k, check.ID, check.ExternalID, h.since, h.revoked, w.Arrived)
		return
	}
	h.windowAt = time.Now()
	o.log.Printf("window %s on %s", h.window, k)
}

// readLagged: GitHub itself answered, after the change, with the world before it.
func (o *observer) readLagged(since int64) bool {
	for _, l := range o.lags {
		if l.now >= since && l.shown < since {
			return true
		}
	}
	return false
}

func (o *observer) endWindow(h *headWatch) {
	if h.window != "" {
		o.windows[h.window] = append(o.windows[h.window], time.Since(h.windowAt))
		h.window = ""
	}
}

// Lagged notes a read that showed an older world.
func (o *observer) Lagged(now, shown int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if n := len(o.lags); n > 0 && o.lags[n-1].shown == shown {
		o.lags[n-1].now = now
		return
	}
	o.lags = append(o.lags, lag{now, shown})
}

// unsettled lists what the checks do not say yet.
func (o *observer) unsettled(v githubsim.View) (list []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for k, h := range o.heads {
		check, ok := v.Latest(k.repo, k.sha, CheckName)
		switch {
		case h.truth == allowed && check.Conclusion != "success",
			h.truth == blocked && check.Conclusion == "success",
			h.truth == blocked && o.open(v, k) && check.Conclusion != "failure":
			list = append(list, fmt.Sprintf("%s is %s and its check says %s (exists %t)", k, h.truth, state(check), ok))
		}
	}
	return list
}

func (o *observer) open(v githubsim.View, k key) bool {
	for _, p := range v.Pulls(k.repo) {
		if p.Open && p.Head == k.sha {
			return true
		}
	}
	return false
}

func state(c githubsim.Check) string {
	if c.Conclusion != "" {
		return c.Conclusion
	}
	return c.Status
}

// decisionOf reads a decision's id out of a run's external id.
func decisionOf(external string) (int64, bool) {
	id, err := strconv.ParseInt(external, 10, 64)
	return id, err == nil
}

// generationOf reads the head generation out of the external id of a run that carries no decision.
func generationOf(external string) (int64, bool) {
	rest, ok := strings.CutPrefix(external, "countersign:pending:")
	if !ok {
		return 0, false
	}
	_, generation, ok := strings.Cut(rest, ":")
	n, err := strconv.ParseInt(generation, 10, 64)
	return n, ok && err == nil
}
