package githubsim

import (
	"fmt"
	"maps"
	"slices"
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
	return s.onTeam(org, slug, func(m *mutation, t *team, owner *account) error {
		changes := obj{}
		if e.Privacy != "" && e.Privacy != t.privacy {
			changes["privacy"], t.privacy = obj{"from": t.privacy}, e.Privacy
		}
		if e.Name != "" && e.Name != t.name {
			changes["name"], t.name = obj{"from": t.name}, e.Name
			t.slug = strings.ToLower(strings.ReplaceAll(e.Name, " ", "-"))
		}
		m.emit(event{name: "team", action: "edited", account: owner.id, sender: owner.id}, func(x *renderer) obj {
			return obj{"team": x.team(t), "changes": changes}
		})
		return nil
	})
}

// SetTeamPermission grants a team a permission on a repository of its
// organisation, or with "" takes it away. It sends team.added_to_repository and
// team_add, team.edited, or team.removed_from_repository.
func (s *Sim) SetTeamPermission(org, slug, repoName, permission string) error {
	return s.onTeam(org, slug, func(m *mutation, t *team, owner *account) error {
		r, err := m.repo(org + "/" + repoName)
		if err != nil {
			return err
		}
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
		m.emit(event{name: "team", action: action, repo: r, sender: owner.id}, func(x *renderer) obj {
			o := obj{"team": x.team(t)}
			if action == "edited" {
				o["changes"] = obj{"repository": obj{"permissions": obj{"from": rights(was)}}}
			}
			return o
		})
		if action == "added_to_repository" {
			m.emit(event{name: "team_add", repo: r, sender: owner.id}, func(x *renderer) obj { return obj{"team": x.team(t)} })
		}
		return nil
	})
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
	return s.mutate(func(m *mutation) error {
		r, err := m.repo(fullName)
		if err != nil {
			return err
		}
		u := m.ensureUser(user)
		was := r.collaborators[u.id]
		action := "added"
		to, role := legacyPermission(permission)
		changes := obj{"permission": obj{"to": to}, "role_name": obj{"to": role}}
		switch {
		case permission == "":
			delete(r.collaborators, u.id)
			action, changes = "removed", nil
		case permissionRank[permission] == 0:
			return fmt.Errorf("permission %q: want pull, triage, push, maintain or admin", permission)
		case was != "":
			from, _ := legacyPermission(was)
			action, changes = "edited", obj{"permission": obj{"from": from, "to": to}}
			fallthrough
		default:
			r.collaborators[u.id] = permission
		}
		m.emit(event{name: "member", action: action, repo: r, sender: r.ownerID}, func(x *renderer) obj {
			o := obj{"member": x.account(u)}
			if changes != nil {
				o["changes"] = changes
			}
			return o
		})
		return nil
	})
}

// RequestReview asks users and teams (by slug) for a review.
func (s *Sim) RequestReview(fullName string, number int, users, teams []string, by string) error {
	return s.onPull(fullName, number, by, func(m *mutation, r *repo, p *pull, by *account) error {
		return m.requestReview(r, p, users, teams, by)
	})
}

func (m *mutation) requestReview(r *repo, p *pull, users, teams []string, by *account) error {
	notCollaborator := unprocessableMessage(fmt.Sprintf("Reviews may only be requested from collaborators. One or more of the users or teams you specified is not a collaborator of the %s repository.", m.w.fullName(r)))
	var ids, teamIDs []int64
	for _, login := range users {
		u := m.w.account(login)
		if u != nil && u.id == p.authorID {
			return unprocessableMessage("Review cannot be requested from pull request author.")
		}
		if u == nil || m.w.userPermission(r, u.id) == "" {
			return notCollaborator
		}
		ids = append(ids, u.id)
	}
	for _, slug := range teams {
		t := m.w.teamBySlug(r.ownerID, slug)
		if t == nil || m.w.teamPermission(t, r.id) == "" {
			return notCollaborator
		}
		teamIDs = append(teamIDs, t.id)
	}
	for _, id := range ids {
		if !slices.Contains(p.requestedUsers, id) {
			p.requestedUsers = append(p.requestedUsers, id)
			m.emitPull(r, p, "review_requested", by, obj{"requested_reviewer": userRef(id)})
		}
	}
	for _, id := range teamIDs {
		if !slices.Contains(p.requestedTeams, id) {
			p.requestedTeams = append(p.requestedTeams, id)
			m.emitPull(r, p, "review_requested", by, obj{"requested_team": teamRef(id)})
		}
	}
	p.updatedAt = m.at
	return nil
}

// RemoveReviewRequest takes a user out of the requested reviewers.
func (s *Sim) RemoveReviewRequest(fullName string, number int, user, by string) error {
	return s.onPull(fullName, number, by, func(m *mutation, r *repo, p *pull, by *account) error {
		u, err := m.user(user)
		if err != nil {
			return err
		}
		p.requestedUsers = slices.DeleteFunc(p.requestedUsers, func(id int64) bool { return id == u.id })
		p.updatedAt = m.at
		m.emitPull(r, p, "review_request_removed", by, obj{"requested_reviewer": userRef(u.id)})
		return nil
	})
}

// RenameRepo renames a repository; the old name answers 301 from then on.
func (s *Sim) RenameRepo(fullName, name string) error {
	return s.onRepo(fullName, func(m *mutation, r *repo) error {
		from := r.name
		r.name, r.updatedAt = name, m.at
		m.w.names[strings.ToLower(m.w.fullName(r))] = r.id
		m.emitRepo(r, "renamed", obj{"changes": obj{"repository": obj{"name": obj{"from": from}}}})
		return nil
	})
}

// TransferRepo gives a repository to another account. Installations of the old
// owner lose it; installations on all repositories of the new owner gain it.
func (s *Sim) TransferRepo(fullName, newOwner string) error {
	return s.onRepo(fullName, func(m *mutation, r *repo) error {
		to, err := m.user(newOwner)
		if err != nil {
			return err
		}
		from := m.w.accounts[r.ownerID]
		for _, i := range m.w.installs {
			if i.has(r) {
				m.emitInstallationRepos(i, "removed", []*repo{r})
			}
			delete(i.repos, r.id)
		}
		r.ownerID, r.updatedAt = to.id, m.at
		m.w.names[strings.ToLower(m.w.fullName(r))] = r.id
		for _, t := range m.w.teams {
			delete(t.repos, r.id)
		}
		kind := strings.ToLower(from.kind)
		m.emit(event{name: "repository", action: "transferred", repo: r, sender: to.id}, func(x *renderer) obj {
			shown := any(x.account(from))
			if from.kind == "Organization" {
				shown = x.organization(from)
			}
			return obj{"changes": obj{"owner": obj{"from": obj{kind: shown}}}}
		})
		return nil
	})
}

// SetArchived archives or unarchives a repository.
func (s *Sim) SetArchived(fullName string, archived bool) error {
	return s.onRepo(fullName, func(m *mutation, r *repo) error {
		r.archived, r.updatedAt = archived, m.at
		action := "unarchived"
		if archived {
			action = "archived"
		}
		m.emitRepo(r, action, nil)
		return nil
	})
}

// SetDefaultBranch changes the default branch and sends repository.edited.
func (s *Sim) SetDefaultBranch(fullName, branch string) error {
	return s.onRepo(fullName, func(m *mutation, r *repo) error {
		if r.branches[branch] == "" {
			return fmt.Errorf("default branch of %s: no branch %q", fullName, branch)
		}
		from := r.defaultBranch
		r.defaultBranch, r.updatedAt = branch, m.at
		m.emitRepo(r, "edited", obj{"changes": obj{"default_branch": obj{"from": from}}})
		return nil
	})
}

// DeleteRepo deletes a repository: a fork so deleted leaves null heads behind.
func (s *Sim) DeleteRepo(fullName string) error {
	return s.onRepo(fullName, func(m *mutation, r *repo) error {
		m.emitRepo(r, "deleted", nil)
		maps.DeleteFunc(m.w.names, func(_ string, id int64) bool { return id == r.id })
		delete(m.w.repos, r.id)
		for _, i := range m.w.installs {
			delete(i.repos, r.id)
		}
		for _, base := range m.w.repos {
			for _, p := range base.pulls {
				if p.headRepoID == r.id {
					p.headRepoID = 0
				}
			}
		}
		return nil
	})
}

func (s *Sim) onRepo(fullName string, change func(m *mutation, r *repo) error) error {
	return s.mutate(func(m *mutation) error {
		r, err := m.repo(fullName)
		if err != nil {
			return err
		}
		return change(m, r)
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
