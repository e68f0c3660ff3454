package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"

	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/policy"
)

// factSource is what a simulation asks GitHub about people.
type factSource interface {
	TeamsFor(ctx context.Context, org string, slugs []string, r ghclient.Repo) (map[string]ghclient.TeamFacts, error)
	TeamMembership(ctx context.Context, org, slug, login string) (state, role string, err error)
	TeamMembers(ctx context.Context, org, slug string) ([]ghclient.Actor, error)
	User(ctx context.Context, login string) (ghclient.Actor, error)
	UserPermission(ctx context.Context, r ghclient.Repo, login string) (string, error)
}

// factSources makes one client an installation, allowed to read members and the repository's collaborators.
func factSources() (func(installation int64) factSource, error) {
	cfg, err := settings[liveConfig](githubSettings(os.Environ()))
	if err != nil {
		return nil, err
	}
	app, err := ghclient.NewApp(cfg.GitHub, ghclient.Options{})
	if err != nil {
		return nil, fmt.Errorf("set up the GitHub client: %w", err)
	}
	clients := map[int64]factSource{}
	return func(installation int64) factSource {
		if clients[installation] == nil {
			clients[installation] = app.Client(installation, ghclient.Permissions{"members": "read"})
		}
		return clients[installation]
	}, nil
}

// maxFactRounds bounds the conversation with policy.Needs.
const maxFactRounds = 5

// fillFacts gives s with what it lacks about teams, people and Apps, as GitHub answers now. What else the rules ask for (comments,
// who pushed last, older heads) is left missing. s itself does not change.
func fillFacts(ctx context.Context, source factSource, s policy.Snapshot) (policy.Snapshot, error) {
	s = withOwnMaps(s)
	repo, ok := ghclient.RepoFromFullName(s.Repository.ID, s.Repository.FullName)
	if !ok {
		return s, fmt.Errorf("the evidence names no repository: %s", quoted(s.Repository.FullName))
	}
	for range maxFactRounds {
		n := policy.Needs(s)
		if len(n.Teams)+len(n.TeamSizes)+len(n.Memberships)+len(n.Users)+len(n.Apps) == 0 {
			break
		}
		for _, ask := range []func(context.Context, factSource, ghclient.Repo, *policy.Snapshot, policy.Requirements) error{fillTeams, fillMemberships, fillAccounts} {
			if err := ask(ctx, source, repo, &s, n); err != nil {
				return s, err
			}
		}
	}
	return s, nil
}

func withOwnMaps(s policy.Snapshot) policy.Snapshot {
	s.Teams, s.Users, s.Apps = maps.Clone(s.Teams), maps.Clone(s.Users), maps.Clone(s.Apps)
	members := make(map[string]map[string]policy.Membership, len(s.Memberships))
	for team, of := range s.Memberships {
		members[team] = maps.Clone(of)
	}
	s.Memberships = members
	if s.Teams == nil {
		s.Teams = map[string]policy.TeamFact{}
	}
	if s.Users == nil {
		s.Users = map[string]policy.UserFact{}
	}
	if s.Apps == nil {
		s.Apps = map[string]policy.AppFact{}
	}
	return s
}

func fillTeams(ctx context.Context, source factSource, repo ghclient.Repo, s *policy.Snapshot, n policy.Requirements) error {
	for _, key := range n.Teams {
		teams, err := source.TeamsFor(ctx, key.Org, []string{key.Slug}, repo)
		if err != nil {
			return fmt.Errorf("ask GitHub about the team %s: %w", key, err)
		}
		fact := policy.TeamFact{State: policy.FactAbsent}
		if t := teams[key.Slug]; t.Found {
			fact = policy.TeamFact{State: policy.FactPresent, ID: t.ID, Privacy: t.Privacy, Permission: cmp.Or(t.Permission, "none")}
		}
		s.Teams[key.String()] = fact
	}
	for _, key := range n.TeamSizes {
		members, err := source.TeamMembers(ctx, key.Org, key.Slug)
		if err != nil && !errors.Is(err, ghclient.ErrNotFound) {
			return fmt.Errorf("ask GitHub about the members of %s: %w", key, err)
		}
		fact, size := s.Teams[key.String()], len(members)
		fact.Members = &size
		s.Teams[key.String()] = fact
	}
	return nil
}

func fillMemberships(ctx context.Context, source factSource, _ ghclient.Repo, s *policy.Snapshot, n policy.Requirements) error {
	for _, key := range n.Memberships {
		state, _, err := source.TeamMembership(ctx, key.Team.Org, key.Team.Slug, key.Login)
		if err != nil && !errors.Is(err, ghclient.ErrNotFound) {
			return fmt.Errorf("ask GitHub about %s in %s: %w", key.Login, key.Team, err)
		}
		membership := policy.MembershipNone
		switch state {
		case ghclient.MembershipActive:
			membership = policy.MembershipActive
		case ghclient.MembershipPending:
			membership = policy.MembershipPending
		}
		team := key.Team.String()
		if s.Memberships[team] == nil {
			s.Memberships[team] = map[string]policy.Membership{}
		}
		s.Memberships[team][key.Login] = membership
	}
	return nil
}

func fillAccounts(ctx context.Context, source factSource, repo ghclient.Repo, s *policy.Snapshot, n policy.Requirements) error {
	for _, login := range n.Users {
		fact := policy.UserFact{State: policy.FactPresent}
		account, err := source.User(ctx, login)
		if err == nil {
			fact.ID = account.ID
			fact.Permission, err = source.UserPermission(ctx, repo, login)
		}
		if errors.Is(err, ghclient.ErrNotFound) {
			fact, err = policy.UserFact{State: policy.FactAbsent}, nil
		}
		if err != nil {
			return fmt.Errorf("ask GitHub about %s: %w", login, err)
		}
		s.Users[login] = fact
	}
	for _, login := range n.Apps {
		account, err := source.User(ctx, login)
		fact := policy.AppFact{State: policy.FactPresent, ID: account.ID, Login: account.Login, Type: account.Type}
		if errors.Is(err, ghclient.ErrNotFound) {
			fact, err = policy.AppFact{State: policy.FactAbsent}, nil
		}
		if err != nil {
			return fmt.Errorf("ask GitHub about %s: %w", login, err)
		}
		s.Apps[login] = fact
	}
	return nil
}
