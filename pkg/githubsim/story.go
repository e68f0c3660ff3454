package githubsim

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// The verbs of this file and of story_authority.go are what people do on
// GitHub. Each changes the world under the lock, sends the webhooks GitHub
// sends for it, and returns an error where GitHub refuses or where a name is
// unknown; then nothing changed.

func (m *mutation) repo(fullName string) (*repo, error) {
	r, _ := m.w.repoNamed(fullName)
	if r == nil {
		return nil, fmt.Errorf("no repository %q in this world", fullName)
	}
	return r, nil
}

func (m *mutation) user(login string) (*account, error) {
	a := m.w.account(login)
	if a == nil {
		return nil, fmt.Errorf("no account %q in this world", login)
	}
	return a, nil
}

// onPull runs one change of one pull request.
func (s *Sim) onPull(fullName string, number int, actor string, change func(m *mutation, r *repo, p *pull, by *account) error) error {
	return s.mutate(func(m *mutation) error {
		r, err := m.repo(fullName)
		if err != nil {
			return err
		}
		p := r.pulls[number]
		if p == nil {
			return fmt.Errorf("no pull request %s#%d in this world", fullName, number)
		}
		by, err := m.user(cmp.Or(actor, m.loginOf(p.authorID), m.w.accounts[r.ownerID].login))
		if err != nil {
			return err
		}
		return change(m, r, p, by)
	})
}

func (m *mutation) loginOf(id int64) string {
	if a := m.w.accounts[id]; a != nil {
		return a.login
	}
	return ""
}

// Push adds a commit with files to the head branch of a pull request and
// returns the new head.
func (s *Sim) Push(fullName string, number int, author string, files map[string]string) (sha string, err error) {
	err = s.onPull(fullName, number, author, func(m *mutation, r *repo, p *pull, by *account) error {
		head, err := m.headRepo(p)
		if err != nil {
			return err
		}
		sha = m.commit(p.headSHA, fmt.Sprintf("Change %d files", len(files)), by.login, files).sha
		m.setBranch(head, p.headRef, sha, by)
		return nil
	})
	return sha, err
}

// ForcePush moves the head branch of a pull request to any known commit, such
// as a head it had earlier.
func (s *Sim) ForcePush(fullName string, number int, author, sha string) error {
	return s.onPull(fullName, number, author, func(m *mutation, r *repo, p *pull, by *account) error {
		head, err := m.headRepo(p)
		if err != nil {
			return err
		}
		if m.s.objects.commits[sha] == nil {
			return fmt.Errorf("force-push %s#%d: no commit %s", fullName, number, sha)
		}
		m.setBranch(head, p.headRef, sha, by)
		return nil
	})
}

func (m *mutation) headRepo(p *pull) (*repo, error) {
	if r := m.w.repos[p.headRepoID]; r != nil {
		return r, nil
	}
	return nil, fmt.Errorf("push to #%d: the head repository was deleted", p.number)
}

// PushBase adds a commit with files to a branch and returns the new tip. A
// branch that does not exist is made from the default branch.
func (s *Sim) PushBase(fullName, branch, author string, files map[string]string) (sha string, err error) {
	err = s.mutate(func(m *mutation) error {
		r, err := m.repo(fullName)
		if err != nil {
			return err
		}
		by := m.ensureUser(cmp.Or(author, m.w.accounts[r.ownerID].login))
		parent := cmp.Or(r.branches[branch], r.branches[r.defaultBranch])
		sha = m.commit(parent, fmt.Sprintf("Change %d files on %s", len(files), branch), by.login, files).sha
		m.setBranch(r, branch, sha, by)
		return nil
	})
	return sha, err
}

// SetBranch moves or, with an empty sha, deletes a branch.
func (s *Sim) SetBranch(fullName, branch, sha, author string) error {
	return s.mutate(func(m *mutation) error {
		r, err := m.repo(fullName)
		if err != nil {
			return err
		}
		if sha != "" && m.s.objects.commits[sha] == nil {
			return fmt.Errorf("set branch %s of %s: no commit %s", branch, fullName, sha)
		}
		m.setBranch(r, branch, sha, m.ensureUser(cmp.Or(author, m.w.accounts[r.ownerID].login)))
		return nil
	})
}

// setBranch moves a branch, logs it, sends push, and carries every open pull
// request with that head branch to the new commit (pull_request.synchronize).
func (m *mutation) setBranch(r *repo, branch, sha string, by *account) {
	m.setBranchAs(r, branch, sha, by, "")
}

func (m *mutation) setBranchAs(r *repo, branch, sha string, by *account, kind string) {
	before := cmp.Or(r.branches[branch], zeroSHA)
	after := cmp.Or(sha, zeroSHA)
	if before == after {
		return
	}
	if sha == "" {
		delete(r.branches, branch)
	} else {
		r.branches[branch] = sha
	}
	r.pushedAt, r.updatedAt = m.at, m.at
	r.activity = append(r.activity, activity{
		id: m.s.nextBigID(), kind: cmp.Or(kind, m.activityKind(before, after)), ref: "refs/heads/" + branch, before: before, after: after, actorID: by.id, at: m.at,
	})
	m.emitPush(r, branch, before, after, by)
	for _, id := range sortedKeys(m.w.repos) {
		base := m.w.repos[id]
		for _, n := range sortedKeys(base.pulls) {
			p := base.pulls[n]
			if !p.open || p.headRepoID != r.id || p.headRef != branch || p.headSHA == after {
				continue
			}
			if sha == "" {
				m.closePull(base, p, by)
				continue
			}
			p.headSHA, p.updatedAt, p.baseSHA = sha, m.at, cmp.Or(base.branches[p.baseRef], p.baseSHA)
			p.heads = append(p.heads, sha)
			m.emitPull(base, p, "synchronize", by, obj{"before": before, "after": after})
		}
	}
	if sha == "" {
		m.baseDeleted(r, branch, before, by)
	}
}

func (m *mutation) activityKind(before, after string) string {
	switch {
	case before == zeroSHA:
		return "branch_creation"
	case after == zeroSHA:
		return "branch_deletion"
	case !m.s.objects.ancestor(before, after):
		return "force_push"
	}
	return "push"
}

// baseDeleted is what happens to the pull requests on a deleted base branch: where
// the branch had been merged they move to what it was merged into, else they close.
func (m *mutation) baseDeleted(r *repo, branch, tip string, by *account) {
	into := ""
	for _, n := range sortedKeys(r.pulls) {
		if p := r.pulls[n]; p.merged && p.headRepoID == r.id && p.headRef == branch && p.headSHA == tip {
			into = p.baseRef
		}
	}
	for _, n := range sortedKeys(r.pulls) {
		p := r.pulls[n]
		switch {
		case !p.open || p.baseRef != branch:
		case r.branches[into] != "":
			m.changeBase(r, p, into, by, true)
		default:
			m.closePull(r, p, by)
		}
	}
}

// ClosePull closes a pull request without merging it.
func (s *Sim) ClosePull(fullName string, number int, by string) error {
	return s.onPull(fullName, number, by, func(m *mutation, r *repo, p *pull, by *account) error {
		if !p.open {
			return fmt.Errorf("close %s#%d: it is not open", fullName, number)
		}
		m.closePull(r, p, by)
		return nil
	})
}

func (m *mutation) closePull(r *repo, p *pull, by *account) {
	p.baseSHA = m.s.liveBase(r, p)
	p.open, p.closedAt, p.updatedAt = false, ptr(m.at), m.at
	m.emitPull(r, p, "closed", by, nil)
}

// ReopenPull reopens a pull request that was closed without a merge.
func (s *Sim) ReopenPull(fullName string, number int, by string) error {
	return s.onPull(fullName, number, by, func(m *mutation, r *repo, p *pull, by *account) error {
		return m.reopen(r, p, fullName, number, by)
	})
}

func (m *mutation) reopen(r *repo, p *pull, fullName string, number int, by *account) error {
	if p.open || p.merged {
		return unprocessable(fmt.Sprintf("Can not reopen %s#%d: it is open or merged", fullName, number))
	}
	p.open, p.closedAt, p.updatedAt = true, nil, m.at
	p.baseSHA = cmp.Or(r.branches[p.baseRef], p.baseSHA)
	m.emitPull(r, p, "reopened", by, nil)
	return nil
}

// MergePull merges a pull request with a merge commit and returns its SHA. The
// stand-in checks no protection rule: what may be merged is the user's matter.
func (s *Sim) MergePull(fullName string, number int, by string) (sha string, err error) {
	err = s.onPull(fullName, number, by, func(m *mutation, r *repo, p *pull, by *account) error {
		sha, err = m.merge(r, p, by)
		return err
	})
	return sha, err
}

func (m *mutation) merge(r *repo, p *pull, by *account) (string, error) {
	tip := r.branches[p.baseRef]
	if !p.open || tip == "" {
		return "", unprocessable("Pull Request is not mergeable")
	}
	sha := m.mergeOnto(r, p, tip, by).sha
	m.markMerged(r, p, sha, by)
	m.setBranchAs(r, p.baseRef, sha, by, "pr_merge")
	return sha, nil
}

// markMerged closes a pull request as merged by a commit and sends its event.
func (m *mutation) markMerged(r *repo, p *pull, sha string, by *account) {
	p.baseSHA = r.branches[p.baseRef]
	p.open, p.merged, p.closedAt, p.mergedAt, p.updatedAt = false, true, ptr(m.at), ptr(m.at), m.at
	p.mergedBy, p.mergeSHA = by.id, sha
	m.emitPull(r, p, "closed", by, nil)
}

// mergeOnto makes the merge commit of a pull request on top of tip. What the
// pull request changes wins; conflicts are not looked for.
func (m *mutation) mergeOnto(r *repo, p *pull, tip string, by *account) *commit {
	o := m.s.objects
	files := map[string]string{}
	for _, f := range m.s.changes(r, p) {
		if f.previous != "" {
			files[f.previous] = Deleted
		}
		files[f.path] = Deleted
		if e, ok := o.lookup(o.commits[p.headSHA].tree, f.path); ok {
			files[f.path] = o.content(e)
		}
	}
	return o.putCommit(commit{
		tree: o.write(o.commits[tip].tree, files), parents: []string{tip, p.headSHA}, when: m.at, author: by.login,
		email: strings.ToLower(by.login) + "@users.noreply.github.example", message: fmt.Sprintf("Merge pull request #%d from %s", p.number, p.headRef),
	})
}

// content is what write takes to make the entry again.
func (o *objects) content(e treeEntry) string {
	switch e.mode {
	case "100755":
		return Executable(string(o.blobs[e.sha]))
	case "120000":
		return Symlink(string(o.blobs[e.sha]))
	case "160000":
		return Submodule(e.sha)
	}
	return string(o.blobs[e.sha])
}

// Retarget changes the base branch of a pull request.
func (s *Sim) Retarget(fullName string, number int, base, by string) error {
	return s.onPull(fullName, number, by, func(m *mutation, r *repo, p *pull, by *account) error {
		return m.retarget(r, p, base, by)
	})
}

func (m *mutation) retarget(r *repo, p *pull, base string, by *account) error {
	if _, ok := r.branches[base]; !ok {
		return invalid("PullRequest", "base", "invalid", "")
	}
	m.changeBase(r, p, base, by, false)
	return nil
}

func (m *mutation) changeBase(r *repo, p *pull, base string, by *account, automatic bool) {
	from := obj{"ref": obj{"from": p.baseRef}, "sha": obj{"from": m.s.baseSHA(r, p)}}
	p.baseChanges = append(p.baseChanges, baseChange{id: m.s.nextBigID(), from: p.baseRef, to: base, actorID: by.id, automatic: automatic, at: m.at})
	p.baseRef, p.baseSHA, p.updatedAt = base, r.branches[base], m.at
	m.emitPull(r, p, "edited", by, obj{"changes": obj{"base": from}})
}

// Retitle changes the title of a pull request.
func (s *Sim) Retitle(fullName string, number int, title, by string) error {
	return s.onPull(fullName, number, by, func(m *mutation, r *repo, p *pull, by *account) error {
		from := p.title
		p.title, p.updatedAt = title, m.at
		m.emitPull(r, p, "edited", by, obj{"changes": obj{"title": obj{"from": from}}})
		return nil
	})
}

// SetDraft turns a pull request into a draft or makes it ready for review.
func (s *Sim) SetDraft(fullName string, number int, draft bool, by string) error {
	return s.onPull(fullName, number, by, func(m *mutation, r *repo, p *pull, by *account) error {
		if p.draft == draft {
			return nil
		}
		p.draft, p.updatedAt = draft, m.at
		action := "ready_for_review"
		if draft {
			action = "converted_to_draft"
		}
		m.emitPull(r, p, action, by, nil)
		return nil
	})
}

// Label puts a label on a pull request, making it in the repository if need be.
func (s *Sim) Label(fullName string, number int, name, by string) error {
	return s.onPull(fullName, number, by, func(m *mutation, r *repo, p *pull, by *account) error {
		m.label(r, p, name, by)
		return nil
	})
}

func (m *mutation) label(r *repo, p *pull, name string, by *account) {
	key := strings.ToLower(name)
	if r.labels[key] == nil {
		r.labels[key] = &label{id: m.s.nextID(), name: name, color: "ededed"}
		m.emit(event{name: "label", action: "created", repo: r, sender: by.id}, func(x *renderer) obj { return obj{"label": x.label(r, name)} })
	}
	name = r.labels[key].name
	if slices.Contains(p.labels, name) {
		return
	}
	p.labels, p.updatedAt = append(p.labels, name), m.at
	m.emitLabel(r, p, "labeled", name, by)
}

// Unlabel takes a label off a pull request.
func (s *Sim) Unlabel(fullName string, number int, name, by string) error {
	return s.onPull(fullName, number, by, func(m *mutation, r *repo, p *pull, by *account) error {
		return m.unlabel(r, p, name, by)
	})
}

func (m *mutation) unlabel(r *repo, p *pull, name string, by *account) error {
	i := slices.IndexFunc(p.labels, func(l string) bool { return strings.EqualFold(l, name) })
	if i < 0 {
		return fmt.Errorf("unlabel %s#%d: it has no label %q", m.w.fullName(r), p.number, name)
	}
	name = p.labels[i]
	p.labels, p.updatedAt = slices.Delete(p.labels, i, i+1), m.at
	m.emitLabel(r, p, "unlabeled", name, by)
	return nil
}

// Comment adds a comment to the conversation of a pull request.
func (s *Sim) Comment(fullName string, number int, user, body string) error {
	return s.onPull(fullName, number, user, func(m *mutation, r *repo, p *pull, by *account) error {
		m.comment(r, p, by, body)
		return nil
	})
}

func (m *mutation) comment(r *repo, p *pull, by *account, body string) *comment {
	c := &comment{id: m.s.nextBigID(), userID: by.id, body: body, createdAt: m.at}
	r.comments[p.number], p.updatedAt = append(r.comments[p.number], c), m.at
	m.emit(event{name: "issue_comment", action: "created", repo: r, sender: by.id}, func(x *renderer) obj {
		return obj{"comment": x.comment(r, p.number, c), "issue": x.issue(r, p)}
	})
	return c
}
