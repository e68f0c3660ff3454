package githubsim

import (
	"fmt"
	"maps"
	"slices"
)

func (s *Sim) onInstallation(id int64, change func(m *mutation, i *installation) error) error {
	return s.mutate(func(m *mutation) error {
		i := m.w.installs[id]
		if i == nil {
			return fmt.Errorf("no installation %d in this world", id)
		}
		i.updatedAt = m.at
		return change(m, i)
	})
}

// SuspendInstallation suspends an installation: its tokens stop working, new
// ones are refused, no webhook but installation.suspend is sent; it stays listed.
func (s *Sim) SuspendInstallation(id int64) error {
	return s.onInstallation(id, func(m *mutation, i *installation) error {
		m.suspend(i, true)
		return nil
	})
}

func (m *mutation) suspend(i *installation, suspended bool) {
	i.suspendedAt, i.updatedAt = nil, m.at
	action := "unsuspend"
	if suspended {
		i.suspendedAt, action = ptr(m.at), "suspend"
	}
	m.emitInstallation(i, action, i.accountID, nil)
}

// UnsuspendInstallation ends a suspension.
func (s *Sim) UnsuspendInstallation(id int64) error {
	return s.onInstallation(id, func(m *mutation, i *installation) error {
		m.suspend(i, false)
		return nil
	})
}

// DeleteInstallation uninstalls an App.
func (s *Sim) DeleteInstallation(id int64) error {
	return s.onInstallation(id, func(m *mutation, i *installation) error {
		m.emitInstallation(i, "deleted", i.accountID, obj{"repositories": m.installedRepos(i)})
		delete(m.w.installs, id)
		m.s.revokeTokens(id)
		return nil
	})
}

// SetAppPermissions changes what an App asks for; installations keep what they
// granted until AcceptPermissions.
func (s *Sim) SetAppPermissions(appID int64, permissions map[string]string) error {
	return s.mutate(func(m *mutation) error {
		a := m.w.apps[appID]
		if a == nil {
			return fmt.Errorf("no App %d in this world", appID)
		}
		a.permissions = maps.Clone(permissions)
		a.permissions["metadata"] = "read"
		return nil
	})
}

// AcceptPermissions grants what the App asks for now and sends
// installation.new_permissions_accepted.
func (s *Sim) AcceptPermissions(id int64) error {
	return s.onInstallation(id, func(m *mutation, i *installation) error {
		a := m.w.apps[i.appID]
		i.permissions, i.events = maps.Clone(a.permissions), slices.Clone(a.events)
		m.emitInstallation(i, "new_permissions_accepted", i.accountID, nil)
		return nil
	})
}

// GrantPermissions sets what one installation granted, without an event: what a
// test of missing permissions needs.
func (s *Sim) GrantPermissions(id int64, permissions map[string]string) error {
	return s.onInstallation(id, func(m *mutation, i *installation) error {
		i.permissions = maps.Clone(permissions)
		return nil
	})
}

// AddToInstallation adds repositories (names without owner) to an installation
// on selected repositories.
func (s *Sim) AddToInstallation(id int64, names ...string) error {
	return s.changeInstalled(id, names, true)
}

// RemoveFromInstallation takes repositories out of an installation on selected
// repositories.
func (s *Sim) RemoveFromInstallation(id int64, names ...string) error {
	return s.changeInstalled(id, names, false)
}

func (s *Sim) changeInstalled(id int64, names []string, add bool) error {
	return s.onInstallation(id, func(m *mutation, i *installation) error {
		if i.all {
			return fmt.Errorf("installation %d is on all repositories", id)
		}
		var list []*repo
		for _, name := range names {
			r, err := m.repo(m.w.accounts[i.accountID].login + "/" + name)
			if err != nil {
				return err
			}
			list = append(list, r)
		}
		action := "removed"
		for _, r := range list {
			if add {
				i.repos[r.id], action = true, "added"
				continue
			}
			delete(i.repos, r.id)
		}
		m.emitInstallationRepos(i, action, list)
		return nil
	})
}

// RerequestCheck is the "Re-run" button of a check run.
func (s *Sim) RerequestCheck(fullName string, runID int64, by string) error {
	return s.onRun(fullName, runID, by, func(m *mutation, r *repo, c *checkRun, by *account) {
		m.emitRun(r, c, "rerequested", by, nil)
	})
}

// PressCheckAction is a button that a completed check run carries.
func (s *Sim) PressCheckAction(fullName string, runID int64, identifier, by string) error {
	return s.onRun(fullName, runID, by, func(m *mutation, r *repo, c *checkRun, by *account) {
		m.emitRun(r, c, "requested_action", by, obj{"requested_action": obj{"identifier": identifier}})
	})
}

func (s *Sim) onRun(fullName string, runID int64, by string, change func(m *mutation, r *repo, c *checkRun, by *account)) error {
	return s.mutate(func(m *mutation) error {
		r, err := m.repo(fullName)
		if err != nil {
			return err
		}
		c := r.runs[runID]
		if c == nil {
			return fmt.Errorf("no check run %d in %s", runID, fullName)
		}
		u, err := m.user(by)
		if err != nil {
			return err
		}
		change(m, r, c, u)
		return nil
	})
}
