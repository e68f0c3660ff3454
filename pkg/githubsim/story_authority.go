package githubsim

import (
	"fmt"
	"strings"
)

func (m *mutation) team(org, slug string) (*team, error) {
	o := m.w.account(org)
	if o == nil {
		return nil, fmt.Errorf("no organisation %q in this world", org)
	}
	t := m.w.teamBySlug(o.id, slug)
	if t == nil {
		return nil, fmt.Errorf("no team %s/%s in this world", org, slug)
	}
	return t, nil
}

func (s *Sim) onTeam(org, slug string, change func(m *mutation, t *team, owner *account) error) error {
	return s.mutate(func(m *mutation) error {
		t, err := m.team(org, slug)
		if err != nil {
			return err
		}
		return change(m, t, m.w.accounts[t.orgID])
	})
}

// AddTeamMember makes a user an active member of a team (and of its
// organisation) and sends membership.added.
func (s *Sim) AddTeamMember(org, slug, user string) error {
	return s.onTeam(org, slug, func(m *mutation, t *team, owner *account) error {
		u := m.ensureUser(user)
		t.members[u.id] = "member"
		delete(t.pending, u.id)
		if owner.members[u.id] == "" {
			owner.members[u.id] = "member"
		}
		m.emitMembership(t, u, "added")
		return nil
	})
}

// InviteTeamMember leaves a user's membership pending: no webhook is sent.
func (s *Sim) InviteTeamMember(org, slug, user string) error {
	return s.onTeam(org, slug, func(m *mutation, t *team, _ *account) error {
		t.pending[m.ensureUser(user).id] = true
		return nil
	})
}

// RemoveTeamMember ends a membership and sends membership.removed.
func (s *Sim) RemoveTeamMember(org, slug, user string) error {
	return s.onTeam(org, slug, func(m *mutation, t *team, _ *account) error {
		u, err := m.user(user)
		if err != nil {
			return err
		}
		if t.members[u.id] == "" {
			return fmt.Errorf("remove team member: %s is not in %s/%s", user, org, slug)
		}
		delete(t.members, u.id)
		m.emitMembership(t, u, "removed")
		return nil
	})
}

// TeamEdit says what of a team changes; empty fields stay.
type TeamEdit struct {
	Privacy string
	Name    string // the slug follows the name
}

// EditTeam changes a team and sends team.edited.
func (s *Sim) EditTeam(org, slug string, e TeamEdit) error {
	return s.onTeam(org, slug, func(m *mutation, t *team, _ *account) error {
		m.editTeam(t, e)
		return nil
	})
}

func (m *mutation) editTeam(t *team, e TeamEdit) {
	changes := obj{}
	if e.Privacy != "" && e.Privacy != t.privacy {
		changes["privacy"], t.privacy = obj{"from": t.privacy}, e.Privacy
	}
	if e.Name != "" && e.Name != t.name {
		changes["name"], t.name = obj{"from": t.name}, e.Name
		t.slug = strings.ToLower(strings.ReplaceAll(e.Name, " ", "-"))
	}
	m.emit(event{name: "team", action: "edited", account: t.orgID, sender: t.orgID}, func(x *renderer) obj {
		return obj{"team": x.team(t), "changes": changes}
	})
}

// SetTeamPermission grants a team a permission on a repository of its
// organisation, or with "" takes it away. It sends team.added_to_repository and
// team_add, team.edited, or team.removed_from_repository.
func (s *Sim) SetTeamPermission(org, slug, repoName, permission string) error {
	return s.onTeam(org, slug, func(m *mutation, t *team, _ *account) error {
		r, err := m.repo(org + "/" + repoName)
		if err != nil {
			return err
		}
		return m.setTeamPermission(t, r, permission)
	})
}

func (m *mutation) setTeamPermission(t *team, r *repo, permission string) error {
	was := t.repos[r.id]
	action := "edited"
	switch {
	case permission == "":
		delete(t.repos, r.id)
		action = "removed_from_repository"
	case permissionRank[permission] == 0:
		return fmt.Errorf("permission %q: want pull, triage, push, maintain or admin", permission)
	default:
		t.repos[r.id] = permission
		if was == "" {
			action = "added_to_repository"
		}
	}
	m.emit(event{name: "team", action: action, repo: r, sender: t.orgID}, func(x *renderer) obj {
		o := obj{"team": x.team(t)}
		if action == "edited" {
			o["changes"] = obj{"repository": obj{"permissions": obj{"from": rights(was)}}}
		}
		return o
	})
	if action == "added_to_repository" {
		m.emit(event{name: "team_add", repo: r, sender: t.orgID}, func(x *renderer) obj { return obj{"team": x.team(t)} })
	}
	return nil
}

// DeleteTeam removes a team and sends team.deleted.
func (s *Sim) DeleteTeam(org, slug string) error {
	return s.onTeam(org, slug, func(m *mutation, t *team, owner *account) error {
		m.emit(event{name: "team", action: "deleted", account: owner.id, sender: owner.id}, func(x *renderer) obj { return obj{"team": x.team(t)} })
		delete(m.w.teams, t.id)
		return nil
	})
}

// SetOrgRole makes a user a member or admin (owner) of an organisation, or with
// "" removes the user from it and from its teams.
func (s *Sim) SetOrgRole(org, user, role string) error {
	return s.mutate(func(m *mutation) error {
		o, err := m.user(org)
		if err != nil {
			return err
		}
		u := m.ensureUser(user)
		action := "member_added"
		if role == "" {
			action = "member_removed"
			delete(o.members, u.id)
			for _, t := range m.w.teams {
				if t.orgID == o.id {
					delete(t.members, u.id)
				}
			}
		} else {
			o.members[u.id] = role
		}
		m.emit(event{name: "organization", action: action, account: o.id, sender: o.id}, func(x *renderer) obj {
			url := fmt.Sprintf("%s/orgs/%s/memberships/%s", x.api, o.login, u.login)
			shown := role
			if shown == "" {
				shown = "member"
			}
			return obj{"membership": obj{"url": url, "state": "active", "role": shown, "organization_url": x.api + "/orgs/" + o.login, "user": x.account(u)}}
		})
		return nil
	})
}

// SetCollaborator grants a user a permission on a repository, or with "" takes
// it away. It sends member.added, member.edited or member.removed.
func (s *Sim) SetCollaborator(fullName, user, permission string) error {
	return s.onRepo(fullName, func(m *mutation, r *repo) error {
		if permission != "" && permissionRank[permission] == 0 {
			return fmt.Errorf("permission %q: want pull, triage, push, maintain or admin", permission)
		}
		m.setCollaborator(r, m.ensureUser(user), permission)
		return nil
	})
}

func (m *mutation) setCollaborator(r *repo, u *account, permission string) {
	was := r.collaborators[u.id]
	to, role := legacyPermission(permission)
	action, changes := "added", obj{"permission": obj{"to": to}, "role_name": obj{"to": role}}
	switch {
	case permission == "":
		delete(r.collaborators, u.id)
		action, changes = "removed", nil
	case was != "":
		from, _ := legacyPermission(was)
		action, changes = "edited", obj{"permission": obj{"from": from, "to": to}}
	}
	if permission != "" {
		r.collaborators[u.id] = permission
	}
	m.emit(event{name: "member", action: action, repo: r, sender: r.ownerID}, func(x *renderer) obj {
		o := obj{"member": x.account(u)}
		if changes != nil {
			o["changes"] = changes
		}
		return o
	})
}

// DeleteUser deletes an account: what it wrote stays, with user null.
func (s *Sim) DeleteUser(login string) error {
	return s.mutate(func(m *mutation) error {
		u, err := m.user(login)
		if err != nil {
			return err
		}
		delete(m.w.logins, strings.ToLower(login))
		delete(m.w.accounts, u.id)
		for _, t := range m.w.teams {
			delete(t.members, u.id)
		}
		for _, r := range m.w.repos {
			delete(r.collaborators, u.id)
		}
		for _, o := range m.w.accounts {
			delete(o.members, u.id)
		}
		return nil
	})
}

// RenameOrg renames an organisation (or a user) and sends
// installation_target.renamed. Old repository names answer 301.
func (s *Sim) RenameOrg(login, name string) error {
	return s.mutate(func(m *mutation) error {
		a, err := m.user(login)
		if err != nil {
			return err
		}
		if taken := m.w.account(name); taken != nil && taken != a {
			return fmt.Errorf("rename %s: the login %q is taken", login, name)
		}
		delete(m.w.logins, strings.ToLower(a.login))
		from := a.login
		a.login = name
		m.w.logins[strings.ToLower(name)] = a.id
		for _, r := range m.w.repos {
			if r.ownerID == a.id {
				m.w.names[strings.ToLower(m.w.fullName(r))] = r.id
			}
		}
		for _, i := range m.w.installs {
			if i.accountID == a.id {
				m.emitTargetRenamed(i, a, from)
			}
		}
		return nil
	})
}
