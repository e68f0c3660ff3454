package githubsim

import (
	"fmt"
	"maps"
	"strings"
)

// RenameRepo renames a repository; the old name answers 301 from then on.
func (s *Sim) RenameRepo(fullName, name string) error {
	return s.onRepo(fullName, func(m *mutation, r *repo) error {
		m.rename(r, name)
		return nil
	})
}

func (m *mutation) rename(r *repo, name string) {
	from := r.name
	r.name, r.updatedAt = name, m.at
	m.w.names[strings.ToLower(m.w.fullName(r))] = r.id
	m.emitRepo(r, "renamed", obj{"changes": obj{"repository": obj{"name": obj{"from": from}}}})
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
		m.archive(r, archived)
		return nil
	})
}

func (m *mutation) archive(r *repo, archived bool) {
	r.archived, r.updatedAt = archived, m.at
	action := "unarchived"
	if archived {
		action = "archived"
	}
	m.emitRepo(r, action, nil)
}

// SetDefaultBranch changes the default branch and sends repository.edited.
func (s *Sim) SetDefaultBranch(fullName, branch string) error {
	return s.onRepo(fullName, func(m *mutation, r *repo) error {
		if r.branches[branch] == "" {
			return fmt.Errorf("default branch of %s: no branch %q", fullName, branch)
		}
		m.changeDefaultBranch(r, branch)
		return nil
	})
}

func (m *mutation) changeDefaultBranch(r *repo, branch string) {
	from := r.defaultBranch
	r.defaultBranch, r.updatedAt = branch, m.at
	m.emitRepo(r, "edited", obj{"changes": obj{"default_branch": obj{"from": from}}})
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
