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

// setBranch moves a branch, sends push, and carries every open pull request
// with that head branch to the new commit (pull_request.synchronize).
func (m *mutation) setBranch(r *repo, branch, sha string, by *account) {
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
}

// ReviewOf describes a review to submit.
type ReviewOf struct {
	User   string // may be an App's bot, "slug[bot]"
	State  string // APPROVED, CHANGES_REQUESTED, COMMENTED or PENDING
	Body   string
	Commit string // "": the present head
}

// Review submits a review of the present head and returns its id. An author
// cannot approve or request changes on their own pull request.
func (s *Sim) Review(fullName string, number int, user, state string) (id int64, err error) {
	return s.SubmitReview(fullName, number, ReviewOf{User: user, State: state})
}

// SubmitReview is Review with every detail.
func (s *Sim) SubmitReview(fullName string, number int, v ReviewOf) (id int64, err error) {
	err = s.onPull(fullName, number, v.User, func(m *mutation, r *repo, p *pull, by *account) error {
		id, err = m.review(r, p, by, v.State, v.Body, v.Commit)
		return err
	})
	return id, err
}

func (m *mutation) review(r *repo, p *pull, by *account, state, body, commitID string) (int64, error) {
	switch state {
	case "APPROVED", "CHANGES_REQUESTED", "COMMENTED", "PENDING":
	default:
		return 0, fmt.Errorf("review state %q: want APPROVED, CHANGES_REQUESTED, COMMENTED or PENDING", state)
	}
	if by.id == p.authorID && state == "APPROVED" {
		return 0, unprocessable("Can not approve your own pull request")
	}
	if by.id == p.authorID && state == "CHANGES_REQUESTED" {
		return 0, unprocessable("Can not request changes on your own pull request")
	}
	if state == "PENDING" && slices.ContainsFunc(p.reviews, func(v *review) bool { return v.userID == by.id && v.state == "PENDING" }) {
		return 0, unprocessable("User can only have one pending review per pull request")
	}
	v := &review{id: m.s.nextBigID(), userID: by.id, state: state, body: body, commitID: cmp.Or(commitID, p.headSHA), submittedAt: m.at}
	p.reviews = append(p.reviews, v)
	if state == "PENDING" {
		return v.id, nil
	}
	p.updatedAt = m.at
	m.answerRequests(p, v)
	m.emitReview(r, p, v, "submitted", by)
	return v.id, nil
}

// answerRequests takes the reviewer, and the teams asked for that the reviewer
// belongs to, out of the requested reviewers: such teams are onBehalfOf.
func (m *mutation) answerRequests(p *pull, v *review) {
	p.requestedUsers = slices.DeleteFunc(p.requestedUsers, func(id int64) bool { return id == v.userID })
	p.requestedTeams = slices.DeleteFunc(p.requestedTeams, func(id int64) bool {
		t := m.w.teams[id]
		if t == nil || m.w.teamMembers(t)[v.userID] == "" {
			return false
		}
		v.onBehalfOf = append(v.onBehalfOf, id)
		return true
	})
}

// DismissReview dismisses a review in place, keeping its id and time.
func (s *Sim) DismissReview(fullName string, number int, reviewID int64, by string) error {
	return s.onPull(fullName, number, by, func(m *mutation, r *repo, p *pull, by *account) error {
		return m.dismiss(r, p, reviewID, by)
	})
}

func (m *mutation) dismiss(r *repo, p *pull, reviewID int64, by *account) error {
	v := findReview(p, reviewID)
	if v == nil {
		return fmt.Errorf("no review %d on #%d", reviewID, p.number)
	}
	if v.state != "APPROVED" && v.state != "CHANGES_REQUESTED" {
		return unprocessable("Can not dismiss a " + strings.ToLower(strings.ReplaceAll(v.state, "_", " ")) + " pull request review")
	}
	v.state, p.updatedAt = "DISMISSED", m.at
	m.emitReview(r, p, v, "dismissed", by)
	return nil
}

func findReview(p *pull, id int64) *review {
	i := slices.IndexFunc(p.reviews, func(v *review) bool { return v.id == id })
	if i < 0 {
		return nil
	}
	return p.reviews[i]
}

// EditReview changes the body of a review; state and time stay.
func (s *Sim) EditReview(fullName string, number int, reviewID int64, body string) error {
	return s.onPull(fullName, number, "", func(m *mutation, r *repo, p *pull, _ *account) error {
		v := findReview(p, reviewID)
		if v == nil {
			return fmt.Errorf("no review %d on #%d", reviewID, p.number)
		}
		was := v.body
		v.body, p.updatedAt = body, m.at
		by := m.w.accounts[v.userID]
		if by == nil {
			by = m.w.accounts[r.ownerID]
		}
		m.emitReviewEdited(r, p, v, was, by)
		return nil
	})
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
	c := o.putCommit(commit{
		tree: o.write(o.commits[tip].tree, files), parents: []string{tip, p.headSHA}, when: m.at, author: by.login,
		email: strings.ToLower(by.login) + "@users.noreply.github.example", message: fmt.Sprintf("Merge pull request #%d from %s", p.number, p.headRef),
	})
	p.baseSHA = tip
	p.open, p.merged, p.closedAt, p.mergedAt, p.updatedAt = false, true, ptr(m.at), ptr(m.at), m.at
	p.mergedBy, p.mergeSHA = by.id, c.sha
	m.emitPull(r, p, "closed", by, nil)
	m.setBranch(r, p.baseRef, c.sha, by)
	return c.sha, nil
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
	tip, ok := r.branches[base]
	if !ok {
		return invalid("PullRequest", "base", "invalid", "")
	}
	from := obj{"ref": obj{"from": p.baseRef}, "sha": obj{"from": m.s.baseSHA(r, p)}}
	p.baseRef, p.baseSHA, p.updatedAt = base, tip, m.at
	m.emitPull(r, p, "edited", by, obj{"changes": obj{"base": from}})
	return nil
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
