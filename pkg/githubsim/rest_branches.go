package githubsim

import (
	"net/http"
	"slices"
	"strings"
)

// The routes of this file are how a person rehearses over GitHub's own API what
// the verbs of story.go do in Go.

func createRef(c *call) answer {
	var ask struct {
		Ref string `json:"ref"`
		SHA string `json:"sha"`
	}
	if e := c.decode(&ask); e != nil {
		return refused(e)
	}
	branch, is := strings.CutPrefix(ask.Ref, "refs/heads/")
	switch {
	case !is || branch == "":
		return refused(unprocessableMessage("Reference name must start with 'refs/'."))
	case c.repo.branches[branch] != "":
		return refused(unprocessableMessage("Reference already exists"))
	case c.s.objects.commits[ask.SHA] == nil:
		return refused(unprocessableMessage("Object does not exist"))
	}
	return c.moveRef(http.StatusCreated, branch, ask.SHA)
}

func updateRef(c *call) answer {
	var ask struct {
		SHA   string `json:"sha"`
		Force bool   `json:"force"`
	}
	if e := c.decode(&ask); e != nil {
		return refused(e)
	}
	branch := strings.TrimPrefix(c.vars["ref"], "heads/")
	tip := c.repo.branches[branch]
	switch {
	case tip == "":
		return refused(unprocessableMessage("Reference does not exist"))
	case c.s.objects.commits[ask.SHA] == nil:
		return refused(unprocessableMessage("Object does not exist"))
	case !ask.Force && !c.s.objects.ancestor(tip, ask.SHA):
		return refused(unprocessableMessage("Update is not a fast forward"))
	}
	return c.moveRef(http.StatusOK, branch, ask.SHA)
}

func (c *call) moveRef(status int, branch, sha string) answer {
	err := c.s.mutateLocked(func(m *mutation) error {
		m.setBranch(c.repo, branch, sha, c.actor(m))
		return nil
	})
	if err != nil {
		return failed(err)
	}
	return answer{status: status, body: c.ref(branch, sha)}
}

func deleteRef(c *call) answer {
	branch := strings.TrimPrefix(c.vars["ref"], "heads/")
	if c.repo.branches[branch] == "" {
		return refused(unprocessableMessage("Reference does not exist"))
	}
	err := c.s.mutateLocked(func(m *mutation) error {
		m.setBranch(c.repo, branch, "", c.actor(m))
		return nil
	})
	if err != nil {
		return failed(err)
	}
	return answer{status: http.StatusNoContent}
}

// deleteContents removes one file from a branch.
func deleteContents(c *call) answer {
	var ask struct {
		Message, SHA, Branch string
	}
	if e := c.decode(&ask); e != nil {
		return refused(e)
	}
	branch := ask.Branch
	if branch == "" {
		branch = c.repo.defaultBranch
	}
	tip, path := c.repo.branches[branch], c.vars["path"]
	if tip == "" {
		return refused(refuse(404, "Branch "+branch+" not found"))
	}
	old, exists := c.s.objects.lookup(c.s.objects.commits[tip].tree, path)
	if !exists {
		return refused(errNotFound)
	}
	if old.sha != ask.SHA {
		return refused(refuse(409, path+" does not match "+ask.SHA))
	}
	var made *commit
	err := c.s.mutateLocked(func(m *mutation) error {
		by := c.actor(m)
		made = m.commit(tip, ask.Message, by.login, map[string]string{path: Deleted})
		m.setBranch(c.repo, branch, made.sha, by)
		return nil
	})
	if err != nil {
		return failed(err)
	}
	return ok(obj{"content": nil, "commit": c.renderer().gitCommitOf(c.repo, made)})
}

// createPull opens a pull request from a branch that exists: of the repository,
// or "owner:branch" of a fork.
func createPull(c *call) answer {
	var ask struct {
		Title, Head, Base, Body string
		Draft                   bool
	}
	if e := c.decode(&ask); e != nil {
		return refused(e)
	}
	p := Pull{Author: c.login(), Title: ask.Title, Body: ask.Body, Base: ask.Base, Branch: ask.Head, Draft: ask.Draft}
	from := c.repo
	if owner, branch, named := strings.Cut(ask.Head, ":"); named {
		p.Branch = branch
		if !strings.EqualFold(owner, c.w.accounts[c.repo.ownerID].login) {
			p.Fork = owner
			from, _ = c.w.repoNamed(owner + "/" + c.repo.name)
		}
	}
	if from == nil || from.branches[p.Branch] == "" {
		return refused(invalid("PullRequest", "head", "invalid", ""))
	}
	p.Head = from.branches[p.Branch]
	if base := c.repo.branches[p.Base]; base != "" && c.s.objects.ancestor(p.Head, base) {
		return refused(invalid("PullRequest", "", "custom", "No commits between "+p.Base+" and "+p.Branch))
	}
	var n int
	err := c.s.mutateLocked(func(m *mutation) (err error) {
		n, err = m.openPull(c.repo, p)
		return err
	})
	if err != nil {
		return failed(err)
	}
	o := c.renderer().pull(c.repo, c.repo.pulls[n])
	c.header.Set("Location", o["url"].(string)) //nolint:forcetypeassert // just made
	return answer{status: http.StatusCreated, body: o}
}

func (c *call) login() string {
	if c.who.user != nil {
		return c.who.user.login
	}
	return c.who.app.slug + "[bot]"
}

// updateReview changes the body of a review.
func updateReview(c *call) answer {
	v := c.reviewOf()
	if v == nil {
		return refused(errNotFound)
	}
	if !c.is(v.userID) {
		return refused(refuse(403, "You can only edit your own reviews"))
	}
	var ask struct {
		Body string `json:"body"`
	}
	if e := c.decode(&ask); e != nil {
		return refused(e)
	}
	err := c.s.mutateLocked(func(m *mutation) error {
		was := v.body
		v.body, c.pull.updatedAt = ask.Body, m.at
		m.emitReviewEdited(c.repo, c.pull, v, was, c.actor(m))
		return nil
	})
	if err != nil {
		return failed(err)
	}
	return ok(c.renderer().review(c.repo, c.pull, v))
}

func removeRequested(c *call) answer {
	var ask struct {
		Reviewers []string `json:"reviewers"`
		Teams     []string `json:"team_reviewers"`
	}
	if e := c.decode(&ask); e != nil {
		return refused(e)
	}
	err := c.s.mutateLocked(func(m *mutation) error {
		for _, login := range ask.Reviewers {
			u := m.w.account(login)
			if u == nil || !slices.Contains(c.pull.requestedUsers, u.id) {
				continue
			}
			c.pull.requestedUsers = slices.DeleteFunc(c.pull.requestedUsers, func(id int64) bool { return id == u.id })
			m.emitPull(c.repo, c.pull, "review_request_removed", c.actor(m), obj{"requested_reviewer": userRef(u.id)})
		}
		for _, slug := range ask.Teams {
			t := m.w.teamBySlug(c.repo.ownerID, slug)
			if t == nil || !slices.Contains(c.pull.requestedTeams, t.id) {
				continue
			}
			c.pull.requestedTeams = slices.DeleteFunc(c.pull.requestedTeams, func(id int64) bool { return id == t.id })
			m.emitPull(c.repo, c.pull, "review_request_removed", c.actor(m), obj{"requested_team": teamRef(t.id)})
		}
		return nil
	})
	if err != nil {
		return failed(err)
	}
	return ok(c.renderer().pullSimple(c.repo, c.pull))
}

// rerequestRun is the App's own way to ask for a run again.
func rerequestRun(c *call) answer {
	n := c.run()
	if n == nil {
		return refused(errNotFound)
	}
	err := c.s.mutateLocked(func(m *mutation) error {
		m.emitRun(c.repo, n, "rerequested", c.actor(m), nil)
		return nil
	})
	if err != nil {
		return failed(err)
	}
	return answer{status: http.StatusCreated, body: obj{}}
}
