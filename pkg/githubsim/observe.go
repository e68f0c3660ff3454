package githubsim

import (
	"context"
	"slices"
)

// Observer is told of everything that happens in a stand-in, in the order in which it happens. Its methods are called with
// the stand-in's lock held: they must be quick, and must not call the stand-in but through the View they are given, which is
// good until they return. Every moment has a number (View.Moment) that only rises.
type Observer interface {
	// Changed: people changed the world. webhooks are what it made, before any WebhookFault.
	Changed(v View, webhooks []Sent)
	// Run: a check run was made or written, and the write took effect.
	Run(v View, w RunWrite)
	// Lagged: a read of an installation was answered from a world older than the present one (Switches.ReadLag).
	Lagged(now, shown int64)
	// Answered: a receiver answered a webhook, or could not be reached (code 0).
	Answered(v View, one Sent)
}

// Sent is one webhook as an Observer sees it.
type Sent struct {
	AppID         int64
	GUID          string
	Event, Action string
	Code          int    // of the answer
	Body          string // of the answer
}

// RunWrite is one write of a check run that took effect.
type RunWrite struct {
	RepoID  int64
	SHA     string
	Arrived int64 // the moment at which its request reached the stand-in; a fault may have held it since
	Made    bool  // the run is new
	Before  Check
	After   Check
}

// View is a look at the world from within an Observer's method.
type View struct {
	s *Sim
	w *world
}

// Observe sets the observer of everything that happens from now on; nil ends it.
func (s *Sim) Observe(o Observer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.observer = o
}

// Look calls f with a View of the present world.
func (s *Sim) Look(f func(v View)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(View{s, s.world})
}

// Moment is the number of this moment.
func (v View) Moment() int64 { return v.s.moment }

type arrivalKey struct{}

// Arrive notes that a request reached the stand-in now; a front that holds requests back passes the returned context on, so
// that an Observer is told when they arrived.
func (s *Sim) Arrive(ctx context.Context) context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.moment++
	return context.WithValue(ctx, arrivalKey{}, s.moment)
}

// arrived is when a call reached the stand-in, or a front of it. The lock is held.
func (c *call) arrived() int64 {
	if at, ok := c.r.Context().Value(arrivalKey{}).(int64); ok {
		return at
	}
	c.s.moment++
	return c.s.moment
}

// observe tells of a change that has just been made.
func (m *mutation) observe() {
	s := m.s
	s.moment++
	if s.observer == nil || s.muted {
		return
	}
	v := View{s, m.w}
	if m.wrote != nil {
		w := *m.wrote
		w.After = m.w.repos[w.RepoID].runs[w.After.ID].look()
		s.observer.Run(v, w)
		return
	}
	m.w.version = s.moment
	var sent []Sent
	for _, d := range m.outbox {
		sent = append(sent, Sent{AppID: d.appID, GUID: d.guid, Event: d.event, Action: d.action})
	}
	s.observer.Changed(v, sent)
}

// observeAnswer tells what became of a webhook.
func (s *Sim) observeAnswer(d *delivery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.moment++
	if s.observer != nil {
		s.observer.Answered(View{s, s.world}, Sent{AppID: d.appID, GUID: d.guid, Event: d.event, Action: d.action, Code: d.code, Body: d.responseBody})
	}
}

// RepoLook is a repository.
type RepoLook struct {
	ID              int64
	Owner, FullName string
}

// Repos lists the repositories of an account by id.
func (v View) Repos(owner string) (list []RepoLook) {
	a := v.w.account(owner)
	for _, id := range sortedKeys(v.w.repos) {
		if r := v.w.repos[id]; a != nil && r.ownerID == a.id {
			list = append(list, RepoLook{ID: id, Owner: a.login, FullName: v.w.fullName(r)})
		}
	}
	return list
}

// PullLook is a pull request with its reviews.
type PullLook struct {
	PullState
	Author  string
	Heads   []string     // every head it ever had, oldest first
	Reviews []ReviewLook // oldest first
}

// ReviewLook is a review.
type ReviewLook struct {
	ID                  int64
	User, State, Commit string
}

// Pulls lists the pull requests of a repository by number.
func (v View) Pulls(repoID int64) (list []PullLook) {
	r := v.w.repos[repoID]
	if r == nil {
		return nil
	}
	for _, n := range sortedKeys(r.pulls) {
		p := r.pulls[n]
		look := PullLook{PullState: PullState{
			Number: n, Open: p.open, Merged: p.merged, Draft: p.draft, Head: p.headSHA, BaseRef: p.baseRef, Labels: slices.Clone(p.labels), ID: p.id,
		}, Author: v.s.loginIn(v.w, p.authorID), Heads: slices.Clone(p.heads)}
		for _, x := range p.reviews {
			look.Reviews = append(look.Reviews, ReviewLook{ID: x.id, User: v.s.loginIn(v.w, x.userID), State: x.state, Commit: x.commitID})
		}
		list = append(list, look)
	}
	return list
}

func (s *Sim) loginIn(w *world, id int64) string {
	if a := w.accounts[id]; a != nil {
		return a.login
	}
	return ""
}

// File is the content of a file at the tip of a branch; ok is false where there is none.
func (v View) File(repoID int64, branch, path string) (content string, ok bool) {
	r := v.w.repos[repoID]
	if r == nil || v.s.objects.commits[r.branches[branch]] == nil {
		return "", false
	}
	e, ok := v.s.objects.lookup(v.s.objects.commits[r.branches[branch]].tree, path)
	if !ok || e.isTree() {
		return "", false
	}
	return string(v.s.objects.blobs[e.sha]), true
}

// ChangedPaths lists what an open pull request changes, former names of renamed files included.
func (v View) ChangedPaths(repoID int64, number int) (paths []string) {
	r := v.w.repos[repoID]
	for _, c := range v.s.changes(r, r.pulls[number]) {
		paths = append(paths, c.path)
		if c.previous != "" {
			paths = append(paths, c.previous)
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// TeamLook is a team as it stands to one repository.
type TeamLook struct {
	Visible    bool
	Permission string
	Members    map[string]bool // logins of active members
}

// Team looks at a team; ok is false where it does not exist.
func (v View) Team(org, slug string, repoID int64) (look TeamLook, ok bool) {
	o := v.w.account(org)
	if o == nil {
		return TeamLook{}, false
	}
	t := v.w.teamBySlug(o.id, slug)
	if t == nil {
		return TeamLook{}, false
	}
	look = TeamLook{Visible: t.privacy == "closed", Permission: v.w.teamPermission(t, repoID), Members: map[string]bool{}}
	for id := range v.w.teamMembers(t) {
		look.Members[v.s.loginIn(v.w, id)] = true
	}
	return look, true
}

// Permission is what an account may do on a repository: "", pull, triage, push, maintain or admin.
func (v View) Permission(repoID int64, login string) string {
	r, a := v.w.repos[repoID], v.w.account(login)
	if r == nil || a == nil {
		return ""
	}
	return v.w.userPermission(r, a.id)
}

// Latest is what a merge box would show for a name on a commit, by Switches.LatestBy.
func (v View) Latest(repoID int64, sha, name string) (check Check, ok bool) {
	r := v.w.repos[repoID]
	if r == nil {
		return Check{}, false
	}
	return r.latest(sha, name, v.s.switches.LatestBy)
}

// Runs lists the runs of a name on a commit, oldest first.
func (v View) Runs(repoID int64, sha, name string) (list []Check) {
	r := v.w.repos[repoID]
	if r == nil {
		return nil
	}
	for _, id := range r.runsOf[sha] {
		if r.runs[id].name == name {
			list = append(list, r.runs[id].look())
		}
	}
	return list
}

// CheckedHeads lists the commits of a repository that have runs.
func (v View) CheckedHeads(repoID int64) []string {
	if r := v.w.repos[repoID]; r != nil {
		return sortedKeys(r.runsOf)
	}
	return nil
}

// latest is the run of a name that counts.
func (r *repo) latest(sha, name string, by LatestBy) (check Check, ok bool) {
	var all []*checkRun
	for _, id := range r.runsOf[sha] {
		if r.runs[id].name == name {
			all = append(all, r.runs[id])
		}
	}
	for _, c := range latestRuns(all, by) {
		if !ok || c.id > check.ID {
			check, ok = c.look(), true
		}
	}
	return check, ok
}
