package githubsim

import (
	"cmp"
	"net/http"
)

// updateRepo renames, archives or changes the default branch.
func updateRepo(c *call) answer {
	var ask struct {
		Name          string `json:"name"`
		DefaultBranch string `json:"default_branch"`
		Archived      *bool  `json:"archived"`
		Private       *bool  `json:"private"`
	}
	if e := c.decode(&ask); e != nil {
		return refused(e)
	}
	if ask.DefaultBranch != "" && c.repo.branches[ask.DefaultBranch] == "" {
		return refused(invalid("Repository", "default_branch", "invalid", ""))
	}
	err := c.s.mutateLocked(func(m *mutation) error {
		if ask.Name != "" && ask.Name != c.repo.name {
			m.rename(c.repo, ask.Name)
		}
		if ask.DefaultBranch != "" && ask.DefaultBranch != c.repo.defaultBranch {
			m.changeDefaultBranch(c.repo, ask.DefaultBranch)
		}
		if ask.Archived != nil && *ask.Archived != c.repo.archived {
			m.archive(c.repo, *ask.Archived)
		}
		if ask.Private != nil {
			c.repo.private = *ask.Private
		}
		return nil
	})
	if err != nil {
		return failed(err)
	}
	return ok(c.renderer().fullRepo(c.repo))
}

// putCollaborator grants at once; GitHub would first send an invitation to who
// is not in the organisation.
func putCollaborator(c *call) answer {
	var ask struct {
		Permission string `json:"permission"`
	}
	if e := c.decode(&ask); e != nil {
		return refused(e)
	}
	permission := cmp.Or(ask.Permission, "push")
	if permissionRank[permission] == 0 {
		return refused(invalid("Repository", "permission", "invalid", ""))
	}
	return c.collaborator(permission)
}

func deleteCollaborator(c *call) answer { return c.collaborator("") }

func (c *call) collaborator(permission string) answer {
	u := c.w.account(c.vars["username"])
	if u == nil {
		return refused(errNotFound)
	}
	err := c.s.mutateLocked(func(m *mutation) error {
		m.setCollaborator(c.repo, u, permission)
		return nil
	})
	if err != nil {
		return failed(err)
	}
	return answer{status: http.StatusNoContent}
}

// owner holds a person to being an owner of the organisation; Apps are held to
// the permission of the route.
func (c *call) owner() *refusal {
	if c.who.user == nil {
		return nil
	}
	if o := c.w.account(c.vars["org"]); o == nil || o.members[c.who.user.id] != "admin" {
		return refuse(403, "You must be an organization owner or team maintainer.")
	}
	return nil
}

// ownedTeam is the team of a writing route.
func (c *call) ownedTeam() (*team, *refusal) {
	t, e := c.visibleTeam()
	if e != nil {
		return nil, e
	}
	return t, c.owner()
}

func updateTeam(c *call) answer {
	t, e := c.ownedTeam()
	if e != nil {
		return refused(e)
	}
	var ask struct {
		Name    string `json:"name"`
		Privacy string `json:"privacy"`
	}
	if e := c.decode(&ask); e != nil {
		return refused(e)
	}
	err := c.s.mutateLocked(func(m *mutation) error {
		m.editTeam(t, TeamEdit{Name: ask.Name, Privacy: ask.Privacy})
		return nil
	})
	if err != nil {
		return failed(err)
	}
	return ok(c.renderer().teamFull(t))
}

func putTeamRepo(c *call) answer {
	var ask struct {
		Permission string `json:"permission"`
	}
	if e := c.decode(&ask); e != nil {
		return refused(e)
	}
	return c.teamRepo(cmp.Or(ask.Permission, "push"))
}

func deleteTeamRepo(c *call) answer { return c.teamRepo("") }

func (c *call) teamRepo(permission string) answer {
	t, e := c.ownedTeam()
	if e != nil {
		return refused(e)
	}
	err := c.s.mutateLocked(func(m *mutation) error { return m.setTeamPermission(t, c.repo, permission) })
	if err != nil {
		return failed(err)
	}
	return answer{status: http.StatusNoContent}
}

func suspendInstallation(c *call) answer   { return c.suspend(true) }
func unsuspendInstallation(c *call) answer { return c.suspend(false) }

func (c *call) suspend(suspended bool) answer {
	i := c.installation()
	if i == nil {
		return refused(errNotFound)
	}
	err := c.s.mutateLocked(func(m *mutation) error {
		m.suspend(i, suspended)
		return nil
	})
	if err != nil {
		return failed(err)
	}
	return answer{status: http.StatusNoContent}
}
