package githubsim

import (
	"cmp"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Contents with a meaning of their own in a map of files.
const (
	// Deleted removes the file.
	Deleted        = "\x00deleted"
	executableMark = "\x00executable\x00"
	symlinkMark    = "\x00symlink\x00"
	submoduleMark  = "\x00submodule\x00"

	zeroSHA = "0000000000000000000000000000000000000000"
)

// Executable marks a file's content as mode 100755.
func Executable(content string) string { return executableMark + content }

// Symlink is the content of a symbolic link to target.
func Symlink(target string) string { return symlinkMark + target }

// Submodule is the content of a submodule at a commit.
func Submodule(sha string) string { return submoduleMark + sha }

// App describes a GitHub App. Zero fields get a usable default, so App{} is one.
type App struct {
	ID            int64             // 0: the next free id
	Slug          string            // "": countersign
	Name          string            // "": the slug
	Owner         string            // login of the owner; "": a user "app-owner"
	PrivateKey    *rsa.PrivateKey   // nil: generated
	WebhookURL    string            // "": no webhooks are sent
	WebhookSecret string            // "": webhooks are not signed, as on GitHub
	Permissions   map[string]string // nil: DefaultPermissions
	Events        []string          // nil: DefaultEvents

	// Set by AddApp.
	PEM          []byte // the private key, PKCS #1
	ClientID     string
	ClientSecret string // for people who sign in with the App
	BotID        int64  // user id of slug[bot]
}

// DefaultPermissions is what Countersign's App asks for.
func DefaultPermissions() map[string]string {
	return map[string]string{"checks": "write", "contents": "read", "members": "read", "metadata": "read", "pull_requests": "read", "merge_queues": "read"}
}

// DefaultEvents is what Countersign's App subscribes to.
func DefaultEvents() []string {
	return []string{
		"check_run", "label", "member", "membership", "merge_group", "organization", "pull_request", "pull_request_review",
		"push", "repository", "team", "team_add",
	}
}

// AddApp registers an App and its bot user and returns it completed. The key is
// returned once, here; the stand-in keeps only what it needs to verify.
func (s *Sim) AddApp(a App) App {
	a = completed(a)
	s.build(func(m *mutation) { a = m.addApp(a) })
	return a
}

// completed gives every zero field its default, as far as that needs no world.
func completed(a App) App {
	a.Slug = cmp.Or(a.Slug, "countersign")
	a.Name = cmp.Or(a.Name, a.Slug)
	if a.PrivateKey == nil {
		key, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			misuse("generate key: %v", err)
		}
		a.PrivateKey = key
	}
	a.PEM = pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(a.PrivateKey)})
	if a.Permissions == nil {
		a.Permissions = DefaultPermissions()
	}
	a.Permissions = maps.Clone(a.Permissions)
	a.Permissions["metadata"] = "read" // mandatory for every App
	if a.Events == nil {
		a.Events = DefaultEvents()
	}
	a.ClientSecret = hex.EncodeToString(randomBytes(20))
	return a
}

func (m *mutation) addApp(a App) App {
	if a.ID == 0 {
		a.ID = m.s.nextID()
	}
	if m.w.apps[a.ID] != nil || m.w.appBySlug(a.Slug) != nil {
		misuse("AddApp: id %d or slug %q is taken", a.ID, a.Slug)
	}
	a.ClientID = fmt.Sprintf("Iv23li%014d", a.ID)
	bot := m.addAccount(a.Slug+"[bot]", "Bot")
	bot.appID, a.BotID = a.ID, bot.id
	m.w.apps[a.ID] = &app{
		id: a.ID, slug: a.Slug, name: a.Name, clientID: a.ClientID, clientSecret: a.ClientSecret, ownerID: m.ensureUser(cmp.Or(a.Owner, "app-owner")).id, key: a.PrivateKey,
		hookURL: a.WebhookURL, hookSecret: a.WebhookSecret, permissions: maps.Clone(a.Permissions), events: slices.Clone(a.Events), botID: bot.id, createdAt: m.at,
	}
	return a
}

// SetWebhook changes where an App's webhooks go and how they are signed.
func (s *Sim) SetWebhook(appID int64, url, secret string) {
	s.build(func(m *mutation) {
		a := m.w.apps[appID]
		if a == nil {
			misuse("SetWebhook: no App %d", appID)
		}
		a.hookURL, a.hookSecret = url, secret
	})
}

// build runs a change that cannot fail but by a mistake of the caller, which
// panics: a scenario that names what does not exist is wrong as it stands.
func (s *Sim) build(change func(m *mutation)) {
	_ = s.mutate(func(m *mutation) error { change(m); return nil })
}

func (m *mutation) addAccount(login, kind string) *account {
	if m.w.account(login) != nil {
		misuse("the login %q is taken", login)
	}
	a := &account{id: m.s.nextID(), login: login, kind: kind, createdAt: m.at}
	if kind == "Organization" {
		a.members = map[int64]string{}
	}
	m.w.accounts[a.id], m.w.logins[strings.ToLower(login)] = a, a.id
	return a
}

func (m *mutation) ensureUser(login string) *account {
	if a := m.w.account(login); a != nil {
		return a
	}
	return m.addAccount(login, "User")
}

// AddUser adds a user account and returns its id.
func (s *Sim) AddUser(login string) (id int64) {
	s.build(func(m *mutation) { id = m.addAccount(login, "User").id })
	return id
}

// AddOrg adds an organisation; members who do not exist yet are created. The
// owners of an organisation are set by SetOrgRole.
func (s *Sim) AddOrg(login string, members ...string) (id int64) {
	s.build(func(m *mutation) {
		org := m.addAccount(login, "Organization")
		for _, name := range members {
			org.members[m.ensureUser(name).id] = "member"
		}
		id = org.id
	})
	return id
}

// AddRepo adds a private repository of an account with one commit of files on
// its default branch main, and returns its id. No files make an empty repository.
func (s *Sim) AddRepo(owner, name string, files map[string]string) (id int64) {
	s.build(func(m *mutation) {
		o := m.w.account(owner)
		if o == nil {
			misuse("AddRepo: no account %q", owner)
		}
		r := m.addRepo(o, name)
		if len(files) > 0 {
			r.branches["main"] = m.commit("", "Initial commit", o.login, files).sha
		}
		id = r.id
		for _, i := range m.w.installs {
			if i.accountID == o.id && i.all {
				m.emitInstallationRepos(i, "added", []*repo{r})
			}
		}
	})
	return id
}

func (m *mutation) addRepo(owner *account, name string) *repo {
	full := strings.ToLower(owner.login + "/" + name)
	if taken, moved := m.w.repoNamed(full); taken != nil && !moved {
		misuse("the repository %s exists", full)
	}
	r := &repo{
		id: m.s.nextID(), ownerID: owner.id, name: name, private: true, defaultBranch: "main",
		branches: map[string]string{}, collaborators: map[int64]string{}, labels: map[string]*label{}, pulls: map[int]*pull{}, comments: map[int][]*comment{},
		runs: map[int64]*checkRun{}, runsOf: map[string][]int64{}, suites: map[suiteKey]*checkSuite{}, createdAt: m.at, updatedAt: m.at, pushedAt: m.at,
	}
	m.w.repos[r.id], m.w.names[full] = r, r.id
	return r
}

// commit adds a commit on top of parent ("" for none) that writes files.
func (m *mutation) commit(parent, message, author string, files map[string]string) *commit {
	c := commit{message: message, author: author, email: strings.ToLower(author) + "@users.noreply.github.example", when: m.at}
	tree := ""
	if parent != "" {
		c.parents, tree = []string{parent}, m.s.objects.commits[parent].tree
	}
	c.tree = m.s.objects.write(tree, files)
	return m.s.objects.putCommit(c)
}

// SetPublic makes a repository public or private, without an event.
func (s *Sim) SetPublic(fullName string, public bool) {
	s.build(func(m *mutation) { m.mustRepo(fullName).private = !public })
}

func (m *mutation) mustRepo(fullName string) *repo {
	r, err := m.repo(fullName)
	if err != nil {
		misuse("%v", err)
	}
	return r
}

// Team describes a team. Members who do not exist yet are created and join the
// organisation.
type Team struct {
	Org, Slug string
	Name      string            // "": the slug
	Privacy   string            // closed (visible) or secret; "": closed
	Parent    string            // slug of the parent team
	Repos     map[string]string // repository name (without owner) → pull, triage, push, maintain or admin
	Members   []string
}

// AddTeam adds a team without an event and returns its id.
func (s *Sim) AddTeam(t Team) (id int64) {
	s.build(func(m *mutation) {
		org := m.w.account(t.Org)
		if org == nil || org.kind != "Organization" {
			misuse("AddTeam: no organisation %q", t.Org)
		}
		n := &team{
			id: s.nextID(), orgID: org.id, slug: t.Slug, name: cmp.Or(t.Name, t.Slug), privacy: cmp.Or(t.Privacy, "closed"),
			members: map[int64]string{}, pending: map[int64]bool{}, repos: map[int64]string{},
		}
		if t.Parent != "" {
			n.parentID = m.mustTeam(t.Org, t.Parent).id
		}
		for name, permission := range t.Repos {
			n.repos[m.mustRepo(t.Org+"/"+name).id] = mustPermission(permission)
		}
		for _, login := range t.Members {
			u := m.ensureUser(login)
			n.members[u.id] = "member"
			org.members[u.id] = cmp.Or(org.members[u.id], "member")
		}
		m.w.teams[n.id], id = n, n.id
	})
	return id
}

func mustPermission(p string) string {
	if permissionRank[p] == 0 {
		misuse("permission %q: want pull, triage, push, maintain or admin", p)
	}
	return p
}

func (m *mutation) mustTeam(org, slug string) *team {
	t, err := m.team(org, slug)
	if err != nil {
		misuse("%v", err)
	}
	return t
}

// AddInstallation installs an App on an account, on the named repositories (of
// that account, without owner) or, when none is named, on all; it sends
// installation.created and returns the installation's id.
func (s *Sim) AddInstallation(appID int64, account string, repos ...string) (id int64) {
	s.build(func(m *mutation) {
		a, owner := m.w.apps[appID], m.w.account(account)
		if a == nil || owner == nil {
			misuse("AddInstallation: no App %d or no account %q", appID, account)
		}
		i := &installation{
			id: s.nextID(), appID: appID, accountID: owner.id, all: len(repos) == 0, repos: map[int64]bool{},
			permissions: maps.Clone(a.permissions), events: slices.Clone(a.events), createdAt: m.at, updatedAt: m.at,
		}
		for _, name := range repos {
			i.repos[m.mustRepo(owner.login+"/"+name).id] = true
		}
		m.w.installs[i.id], id = i, i.id
		m.emitInstallation(i, "created", owner.id, obj{"repositories": m.installedRepos(i), "requester": nil})
	})
	return id
}

// AddCommits puts n empty commits on a branch, without events: history to walk.
func (s *Sim) AddCommits(fullName, branch string, n int) {
	s.build(func(m *mutation) {
		r := m.mustRepo(fullName)
		for i := range n {
			r.branches[branch] = m.commit(r.branches[branch], fmt.Sprintf("Commit %d", i+1), m.w.accounts[r.ownerID].login, nil).sha
		}
	})
}

// Pull describes a pull request to open.
type Pull struct {
	Author string // created when unknown
	Title  string // "": "Change N files"
	Body   string
	Base   string // "": the default branch
	Branch string // head branch; "": "patch-<number>"
	Fork   string // login of the fork's owner; "": the head is in the same repository
	Draft  bool
	Labels []string
	Files  map[string]string // what the head commit writes on top of the base branch
	Head   string            // SHA to use as the head instead of a new commit with Files
}

// OpenPull pushes the head branch and opens a pull request. It sends push (for
// a head in the same repository) and pull_request.opened, and returns the number.
func (s *Sim) OpenPull(fullName string, p Pull) (number int, err error) {
	err = s.mutate(func(m *mutation) error {
		r, err := m.repo(fullName)
		if err != nil {
			return err
		}
		number, err = m.openPull(r, p)
		return err
	})
	return number, err
}

func (m *mutation) openPull(r *repo, p Pull) (int, error) {
	base := cmp.Or(p.Base, r.defaultBranch)
	tip, ok := r.branches[base]
	if !ok {
		return 0, invalid("PullRequest", "base", "invalid", "")
	}
	author := m.ensureUser(cmp.Or(p.Author, "octocat"))
	number := r.lastNumber + 1
	branch := cmp.Or(p.Branch, fmt.Sprintf("patch-%d", number))
	title := cmp.Or(p.Title, fmt.Sprintf("Change %d files", len(p.Files)))
	headRepo := r
	if p.Fork != "" {
		headRepo = m.fork(r, p.Fork)
	}
	before := headRepo.branches[branch]
	head := p.Head
	if head == "" {
		head = m.commit(cmp.Or(before, tip), title, author.login, p.Files).sha
	}
	if m.s.objects.commits[head] == nil {
		return 0, invalid("PullRequest", "head", "invalid", "")
	}
	for _, other := range r.pulls {
		if other.open && other.headRepoID == headRepo.id && other.headRef == branch && other.baseRef == base {
			return 0, invalid("PullRequest", "", "custom", fmt.Sprintf("A pull request already exists for %s:%s.", m.w.accounts[headRepo.ownerID].login, branch))
		}
	}
	if before != head {
		m.setBranch(headRepo, branch, head, author)
	}
	r.lastNumber = number
	n := &pull{
		id: m.s.nextBigID(), number: number, title: title, body: p.Body, authorID: author.id, open: true, draft: p.Draft, headRepoID: headRepo.id, headRef: branch,
		headSHA: head, heads: []string{head}, baseRef: base, baseSHA: tip, createdAt: m.at, updatedAt: m.at,
	}
	r.pulls[number] = n
	m.emitPull(r, n, "opened", author, nil)
	for _, name := range p.Labels {
		m.label(r, n, name, author)
	}
	return number, nil
}

func (m *mutation) fork(r *repo, owner string) *repo {
	o := m.ensureUser(owner)
	if f, _ := m.w.repoNamed(o.login + "/" + r.name); f != nil {
		return f
	}
	f := m.addRepo(o, r.name)
	f.parentID, f.branches, f.private = r.id, maps.Clone(r.branches), r.private
	return f
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails on the platforms Go supports
	return b
}

func ptr(t time.Time) *time.Time { return &t }
