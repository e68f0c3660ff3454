package githubsim

import (
	"crypto/rsa"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// world is everything that GitHub knows, apart from git objects (which never
// change) and from what belongs to the transport: tokens, budgets, deliveries.
type world struct {
	accounts map[int64]*account
	logins   map[string]int64 // lower-cased login → id
	apps     map[int64]*app
	installs map[int64]*installation
	teams    map[int64]*team
	repos    map[int64]*repo
	names    map[string]int64 // lower-cased owner/name → id, former names included
	version  int64            // the moment of the last change that people made
}

type account struct {
	id        int64
	login     string
	kind      string // User, Organization, Bot
	appID     int64  // of a Bot
	members   map[int64]string
	createdAt time.Time
}

type app struct {
	id           int64
	slug, name   string
	clientID     string
	clientSecret string
	ownerID      int64
	key          *rsa.PrivateKey
	hookURL      string
	hookSecret   string
	permissions  map[string]string
	events       []string
	botID        int64
	createdAt    time.Time
}

type installation struct {
	id          int64
	appID       int64
	accountID   int64
	all         bool
	repos       map[int64]bool
	permissions map[string]string
	events      []string
	suspendedAt *time.Time
	createdAt   time.Time
	updatedAt   time.Time
}

type team struct {
	id, orgID, parentID int64
	slug, name          string
	privacy             string           // closed (visible) or secret
	members             map[int64]string // user → member or maintainer
	pending             map[int64]bool
	repos               map[int64]string // repository → pull triage push maintain admin
}

type repo struct {
	id, ownerID   int64
	name          string
	private       bool
	archived      bool
	parentID      int64 // fork of
	defaultBranch string
	branches      map[string]string
	collaborators map[int64]string
	labels        map[string]*label
	pulls         map[int]*pull
	comments      map[int][]*comment
	runs          map[int64]*checkRun
	runsOf        map[string][]int64 // head SHA → run ids, oldest first
	suites        map[suiteKey]*checkSuite
	queues        map[string][]*queueEntry // base branch → what waits in its merge queue, in order
	activity      []activity               // oldest first; entries are never written to
	required      []RequiredCheck          // entries are never written to
	lastNumber    int
	createdAt     time.Time
	updatedAt     time.Time
	pushedAt      time.Time
}

type label struct {
	id          int64
	name, color string
}

type comment struct {
	id, userID int64
	body       string
	createdAt  time.Time
}

// activity is one line of a repository's log of its branches.
type activity struct {
	id                 int64
	kind               string // push force_push branch_creation branch_deletion pr_merge merge_queue_merge
	ref, before, after string
	actorID            int64
	at                 time.Time
}

// baseChange is one time that a pull request was given another base branch.
type baseChange struct {
	id        int64
	from, to  string
	actorID   int64
	automatic bool // by GitHub, because the old base was merged and deleted
	at        time.Time
}

type pull struct {
	id             int64
	number         int
	title, body    string
	authorID       int64 // 0: the account was deleted
	open           bool
	merged         bool
	draft          bool
	headRepoID     int64 // 0: the fork was deleted
	headRef        string
	headSHA        string
	heads          []string // every head it ever had, oldest first
	baseRef        string
	baseSHA        string       // as recorded at open, at a head push and at a retarget
	baseChanges    []baseChange // oldest first; entries are never written to
	labels         []string
	reviews        []*review
	requestedUsers []int64
	requestedTeams []int64
	createdAt      time.Time
	updatedAt      time.Time
	closedAt       *time.Time
	mergedAt       *time.Time
	mergedBy       int64
	mergeSHA       string
}

type review struct {
	id          int64
	userID      int64 // 0: the account was deleted
	state       string
	body        string
	commitID    string
	submittedAt time.Time
	onBehalfOf  []int64
}

type suiteKey struct {
	appID int64
	sha   string
}

type checkSuite struct {
	id        int64
	appID     int64
	sha       string
	createdAt time.Time
	updatedAt time.Time
}

type checkRun struct {
	id, appID, suiteID   int64
	name, sha            string
	status, conclusion   string
	externalID, details  string
	startedAt            *time.Time
	completedAt          *time.Time
	title, summary, text string
	hasOutput            bool
	annotations          []annotation
	actions              []runAction
}

type annotation struct {
	Path      string `json:"path"`
	StartLine int    `json:"start_line"`
	EndLine   int    `json:"end_line"`
	Level     string `json:"annotation_level"`
	Message   string `json:"message"`
	Title     string `json:"title"`
}

type runAction struct {
	Label       string `json:"label"`
	Description string `json:"description"`
	Identifier  string `json:"identifier"`
}

func newWorld() *world {
	return &world{
		accounts: map[int64]*account{}, logins: map[string]int64{}, apps: map[int64]*app{},
		installs: map[int64]*installation{}, teams: map[int64]*team{}, repos: map[int64]*repo{}, names: map[string]int64{},
	}
}

// clone copies the world deeply enough that no change of one shows in the other.
// Keys, times and strings are shared; they are never written to.
func (w *world) clone() *world {
	c := &world{
		accounts: make(map[int64]*account, len(w.accounts)), logins: maps.Clone(w.logins),
		apps: make(map[int64]*app, len(w.apps)), installs: make(map[int64]*installation, len(w.installs)),
		teams: make(map[int64]*team, len(w.teams)), repos: make(map[int64]*repo, len(w.repos)), names: maps.Clone(w.names), version: w.version,
	}
	for id, a := range w.accounts {
		d := *a
		d.members = maps.Clone(a.members)
		c.accounts[id] = &d
	}
	for id, a := range w.apps {
		d := *a
		d.permissions, d.events = maps.Clone(a.permissions), slices.Clone(a.events)
		c.apps[id] = &d
	}
	for id, i := range w.installs {
		d := *i
		d.repos, d.permissions, d.events = maps.Clone(i.repos), maps.Clone(i.permissions), slices.Clone(i.events)
		c.installs[id] = &d
	}
	for id, t := range w.teams {
		d := *t
		d.members, d.pending, d.repos = maps.Clone(t.members), maps.Clone(t.pending), maps.Clone(t.repos)
		c.teams[id] = &d
	}
	for id, r := range w.repos {
		c.repos[id] = r.clone()
	}
	return c
}

func (r *repo) clone() *repo {
	d := *r
	d.branches, d.collaborators = maps.Clone(r.branches), maps.Clone(r.collaborators)
	d.labels = maps.Clone(r.labels) // a label is replaced, never written to
	d.comments = cloneEach(r.comments, slices.Clone)
	d.activity, d.required = slices.Clone(r.activity), slices.Clone(r.required)
	d.runsOf = cloneEach(r.runsOf, slices.Clone)
	d.pulls = cloneEach(r.pulls, (*pull).clone)
	d.runs = cloneEach(r.runs, func(c *checkRun) *checkRun { e := *c; return &e })
	d.suites = cloneEach(r.suites, func(c *checkSuite) *checkSuite { e := *c; return &e })
	return &d
}

func (p *pull) clone() *pull {
	d := *p
	d.baseChanges = slices.Clone(p.baseChanges)
	d.heads, d.labels = slices.Clone(p.heads), slices.Clone(p.labels)
	d.requestedUsers, d.requestedTeams = slices.Clone(p.requestedUsers), slices.Clone(p.requestedTeams)
	d.reviews = make([]*review, len(p.reviews))
	for i, r := range p.reviews {
		e := *r
		d.reviews[i] = &e
	}
	return &d
}

func cloneEach[K comparable, V any](m map[K]V, one func(V) V) map[K]V {
	c := make(map[K]V, len(m))
	for k, v := range m {
		c[k] = one(v)
	}
	return c
}

func (w *world) account(login string) *account {
	return w.accounts[w.logins[strings.ToLower(login)]]
}

// repoNamed finds a repository by its present name; a former name answers moved.
func (w *world) repoNamed(fullName string) (r *repo, moved bool) {
	r = w.repos[w.names[strings.ToLower(fullName)]]
	if r == nil {
		return nil, false
	}
	return r, !strings.EqualFold(w.fullName(r), fullName)
}

func (w *world) fullName(r *repo) string {
	return w.accounts[r.ownerID].login + "/" + r.name
}

func (w *world) teamBySlug(orgID int64, slug string) *team {
	for _, t := range w.teams {
		if t.orgID == orgID && strings.EqualFold(t.slug, slug) {
			return t
		}
	}
	return nil
}

func (w *world) appBySlug(slug string) *app {
	for _, a := range w.apps {
		if strings.EqualFold(a.slug, slug) {
			return a
		}
	}
	return nil
}

// has reports whether the installation covers the repository.
func (i *installation) has(r *repo) bool {
	return r.ownerID == i.accountID && (i.all || i.repos[r.id])
}

// teamMembers lists the members of a team and of its child teams: a member of a
// child is a member of the parent. The value is the role in that team.
func (w *world) teamMembers(t *team) map[int64]string {
	all := map[int64]string{}
	for _, child := range w.teams {
		if child.parentID == t.id {
			for id := range w.teamMembers(child) {
				all[id] = "member"
			}
		}
	}
	maps.Copy(all, t.members)
	return all
}

// teamPermission is what the team may do on the repository: its own grant or,
// when larger, the one of a parent. "" is no access.
func (w *world) teamPermission(t *team, repoID int64) string {
	best := t.repos[repoID]
	if parent := w.teams[t.parentID]; parent != nil {
		best = larger(best, w.teamPermission(parent, repoID))
	}
	return best
}

var permissionRank = map[string]int{"": 0, "pull": 1, "triage": 2, "push": 3, "maintain": 4, "admin": 5}

func larger(a, b string) string {
	if permissionRank[b] > permissionRank[a] {
		return b
	}
	return a
}

// userPermission is the largest right of an account on a repository: owner,
// collaborator, team, and read for everybody where the repository is public.
func (w *world) userPermission(r *repo, userID int64) string {
	best := r.collaborators[userID]
	if r.ownerID == userID {
		best = "admin"
	}
	owner := w.accounts[r.ownerID]
	if owner.kind == "Organization" && owner.members[userID] == "admin" {
		best = "admin"
	}
	for _, t := range w.teams {
		if t.orgID != r.ownerID {
			continue
		}
		if granted := w.teamPermission(t, r.id); granted != "" {
			if _, in := w.teamMembers(t)[userID]; in {
				best = larger(best, granted)
			}
		}
	}
	if best == "" && !r.private {
		best = "pull"
	}
	return best
}

// sortedKeys lists the keys of a map in order, so that answers are stable.
func sortedKeys[K int | int64 | string, V any](m map[K]V) []K {
	return slices.Sorted(maps.Keys(m))
}

func nodeID(kind string, id int64) string { return fmt.Sprintf("%s_kwDO%010d", kind, id) }
