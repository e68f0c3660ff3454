package evaluator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/policy"
)

// maxRounds bounds the conversation with policy.Needs: a round can uncover new questions (an owner who turns out to be a
// team), but not for ever.
const maxRounds = 5

// readFacts asks GitHub what pkg/policy asks for, until it asks for nothing more. What cannot be read is an error and leaves
// the work to be tried again; what GitHub does not have is absent, and absent grants nothing (RG-335).
func (c *collector) readFacts(ctx context.Context) error {
	for range maxRounds {
		needs := policy.Needs(c.snapshot)
		if needs.Empty() {
			return nil
		}
		if err := c.answer(ctx, needs); err != nil {
			return err
		}
	}
	return fmt.Errorf("policy still asks for facts after %d rounds", maxRounds)
}

func (c *collector) answer(ctx context.Context, needs policy.Requirements) error {
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(6)
	for org, slugs := range bySlug(needs.Teams) {
		group.Go(func() error { return c.readTeams(gctx, org, slugs) })
	}
	for _, login := range needs.Users {
		group.Go(func() error { return c.readUser(gctx, login) })
	}
	for _, login := range needs.Apps {
		group.Go(func() error { return c.readApp(gctx, login) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if err := c.readMemberships(ctx, needs.Memberships); err != nil {
		return err
	}
	for _, t := range needs.TeamSizes {
		if err := c.readTeamSize(ctx, t); err != nil {
			return err
		}
	}
	return c.readOptional(ctx, needs)
}

// readMemberships asks one by one, after the teams: what a complete list of members answers costs no request.
func (c *collector) readMemberships(ctx context.Context, keys []policy.MembershipKey) error {
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(6)
	for _, m := range keys {
		group.Go(func() error { return c.readMembership(gctx, m) })
	}
	return group.Wait()
}

// teamsPerRequest is how many teams one request asks about.
const teamsPerRequest = 20

// bySlug groups teams by organisation.
func bySlug(teams []policy.TeamKey) map[string][]string {
	orgs := map[string][]string{}
	for _, t := range teams {
		orgs[t.Org] = append(orgs[t.Org], t.Slug)
	}
	return orgs
}

// readTeams reads privacy, permission and members of an organisation's teams, many in one request. The members answer later
// questions about memberships where they are complete.
func (c *collector) readTeams(ctx context.Context, org string, slugs []string) error {
	for chunk := range slices.Chunk(slugs, teamsPerRequest) {
		teams, err := c.gh.TeamsFor(ctx, org, chunk, c.repo)
		if err != nil {
			return fmt.Errorf("read teams of %s: %w", org, err)
		}
		for _, slug := range chunk {
			c.setTeam(policy.TeamKey{Org: org, Slug: slug}, teams[slug])
		}
	}
	return nil
}

func (c *collector) setTeam(key policy.TeamKey, team ghclient.TeamFacts) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !team.Found {
		c.snapshot.Teams[key.String()] = policy.TeamFact{State: policy.FactAbsent}
		return
	}
	fact := policy.TeamFact{State: policy.FactPresent, ID: team.ID, Privacy: team.Privacy, Permission: cmp.Or(team.Permission, "none")}
	if team.MembersComplete {
		members := make(map[string]bool, len(team.Members))
		for _, m := range team.Members {
			members[strings.ToLower(m.Login)] = true
		}
		c.members[key.String()] = members
	}
	c.snapshot.Teams[key.String()] = fact
}

// knownMembership answers from a complete list of members; a person who is not on it may still have a pending invitation,
// which grants as little.
func (c *collector) knownMembership(key policy.MembershipKey) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	members, complete := c.members[key.Team.String()]
	if complete {
		membership := policy.MembershipNone
		if members[key.Login] {
			membership = policy.MembershipActive
		}
		c.setMembership(key, membership)
	}
	return complete
}

// setMembership is called with mu held.
func (c *collector) setMembership(key policy.MembershipKey, membership policy.Membership) {
	team := key.Team.String()
	if c.snapshot.Memberships[team] == nil {
		c.snapshot.Memberships[team] = map[string]policy.Membership{}
	}
	c.snapshot.Memberships[team][key.Login] = membership
}

func (c *collector) readTeamSize(ctx context.Context, key policy.TeamKey) error {
	n := len(c.members[key.String()])
	if _, complete := c.members[key.String()]; !complete {
		members, err := c.gh.TeamMembers(ctx, key.Org, key.Slug)
		if err != nil && !errors.Is(err, ghclient.ErrNotFound) {
			return fmt.Errorf("list members of team %s: %w", key, err)
		}
		n = len(members)
	}
	fact := c.snapshot.Teams[key.String()]
	fact.Members = &n
	c.snapshot.Teams[key.String()] = fact
	return nil
}

func (c *collector) readMembership(ctx context.Context, key policy.MembershipKey) error {
	if c.knownMembership(key) {
		return nil
	}
	state, _, err := c.gh.TeamMembership(ctx, key.Team.Org, key.Team.Slug, key.Login)
	if err != nil && !errors.Is(err, ghclient.ErrNotFound) {
		return fmt.Errorf("read membership of %s in %s: %w", key.Login, key.Team, err)
	}
	membership := policy.MembershipNone
	switch state {
	case ghclient.MembershipActive:
		membership = policy.MembershipActive
	case ghclient.MembershipPending:
		membership = policy.MembershipPending
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.setMembership(key, membership)
	return nil
}

func (c *collector) readUser(ctx context.Context, login string) error {
	fact := policy.UserFact{State: policy.FactPresent}
	account, err := c.gh.User(ctx, login)
	if err == nil {
		fact.ID = account.ID
		fact.Permission, err = c.gh.UserPermission(ctx, c.repo, login)
	}
	if errors.Is(err, ghclient.ErrNotFound) {
		fact, err = policy.UserFact{State: policy.FactAbsent}, nil
	}
	if err != nil {
		return fmt.Errorf("read permission of %s: %w", login, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.snapshot.Users[login] = fact
	return nil
}

// readApp fetches the bot's identity independently of its review (RG-338): an installation token cannot read another App.
func (c *collector) readApp(ctx context.Context, login string) error {
	account, err := c.gh.User(ctx, login)
	fact := policy.AppFact{State: policy.FactPresent, ID: account.ID, Login: account.Login, Type: account.Type}
	if errors.Is(err, ghclient.ErrNotFound) {
		fact, err = policy.AppFact{State: policy.FactAbsent}, nil
	}
	if err != nil {
		return fmt.Errorf("read identity of %s: %w", login, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.snapshot.Apps[login] = fact
	return nil
}
