package githubsim

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"
)

func getSelf(c *call) answer {
	if c.who.user == nil {
		return refused(errForbidden)
	}
	return ok(c.renderer().publicUser(c.who.user))
}

func getUser(c *call) answer {
	a := c.w.account(c.vars["username"])
	if a == nil {
		return refused(errNotFound)
	}
	return ok(c.renderer().publicUser(a))
}

// visibleTeam finds the team of a route: 404 outside the installation's
// organisation and without the permission.
func (c *call) visibleTeam() (*team, *refusal) {
	o := c.w.account(c.vars["org"])
	if o == nil {
		return nil, errNotFound
	}
	if c.who.user == nil {
		if i := c.w.installs[c.who.token.installID]; i == nil || i.accountID != o.id {
			return nil, errNotFound
		}
	} else if o.members[c.who.user.id] == "" {
		return nil, errNotFound
	}
	t := c.w.teamBySlug(o.id, c.vars["team_slug"])
	if t == nil || t.privacy == "secret" && c.s.switches.SecretTeamsHidden && c.who.user == nil {
		return nil, errNotFound
	}
	return t, nil
}

func getTeam(c *call) answer {
	t, e := c.visibleTeam()
	if e != nil {
		return refused(e)
	}
	return ok(c.renderer().teamFull(t))
}

func listTeamMembers(c *call) answer {
	t, e := c.visibleTeam()
	if e != nil {
		return refused(e)
	}
	members := c.w.teamMembers(t)
	role := cmp.Or(c.query("role"), "all")
	var ids []int64
	for _, id := range sortedKeys(members) {
		if role == "all" || role == members[id] {
			ids = append(ids, id)
		}
	}
	list, x := []obj{}, c.renderer()
	for _, id := range paginate(c, ids) {
		if a := c.w.accounts[id]; a != nil {
			o := x.account(a)
			o["role"], o["inherited"] = members[id], t.members[id] == ""
			list = append(list, o)
		}
	}
	return ok(list)
}

func getTeamMembership(c *call) answer {
	t, e := c.visibleTeam()
	if e != nil {
		return refused(e)
	}
	u := c.w.account(c.vars["username"])
	if u == nil {
		return refused(errNotFound)
	}
	role, state := c.w.teamMembers(t)[u.id], "active"
	if role == "" && t.pending[u.id] {
		role, state = "member", "pending"
	}
	if role == "" {
		return refused(errNotFound)
	}
	return ok(c.membership(t, u, role, state))
}

func (c *call) membership(t *team, u *account, role, state string) obj {
	url := fmt.Sprintf("%s/organizations/%d/team/%d/memberships/%s", c.renderer().api, t.orgID, t.id, u.login)
	return obj{"state": state, "role": role, "url": url}
}

func putTeamMembership(c *call) answer {
	t, e := c.ownedTeam()
	if e != nil {
		return refused(e)
	}
	u := c.w.account(c.vars["username"])
	if u == nil {
		return refused(errNotFound)
	}
	err := c.s.mutateLocked(func(m *mutation) error {
		t.members[u.id] = "member"
		m.emitMembership(t, u, "added")
		return nil
	})
	if err != nil {
		return failed(err)
	}
	return ok(c.membership(t, u, "member", "active"))
}

func deleteTeamMembership(c *call) answer {
	t, e := c.ownedTeam()
	if e != nil {
		return refused(e)
	}
	u := c.w.account(c.vars["username"])
	if u == nil || t.members[u.id] == "" {
		return refused(errNotFound)
	}
	err := c.s.mutateLocked(func(m *mutation) error {
		delete(t.members, u.id)
		m.emitMembership(t, u, "removed")
		return nil
	})
	if err != nil {
		return failed(err)
	}
	return answer{status: http.StatusNoContent}
}

// getTeamRepo answers 204 for access, or the repository with the team's
// permissions when that media type is asked for; 404 for none.
func getTeamRepo(c *call) answer {
	t, e := c.visibleTeam()
	if e != nil {
		return refused(e)
	}
	granted := c.w.teamPermission(t, c.repo.id)
	if granted == "" {
		return refused(errNotFound)
	}
	if !strings.Contains(c.r.Header.Get("Accept"), "repository+json") {
		return answer{status: http.StatusNoContent}
	}
	o := c.renderer().repo(c.repo)
	_, role := legacyPermission(granted)
	o["permissions"], o["role_name"] = rights(granted), role
	return ok(o)
}

// getPermission answers 200 with permission none for who has no access.
func getPermission(c *call) answer {
	u := c.w.account(c.vars["username"])
	if u == nil {
		return refused(refuse(404, c.vars["username"]+" is not a user"))
	}
	granted := c.w.userPermission(c.repo, u.id)
	permission, role := legacyPermission(granted)
	o := c.renderer().account(u)
	o["permissions"], o["role_name"] = rights(granted), role
	return ok(obj{"permission": permission, "role_name": role, "user": o})
}
