package evaluator

import (
	"context"
	"errors"
	"fmt"

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
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(6)
	for _, t := range needs.Teams {
		group.Go(func() error { return c.readTeam(ctx, t) })
	}
	for _, m := range needs.Memberships {
		group.Go(func() error { return c.readMembership(ctx, m) })
	}
	for _, login := range needs.Users {
		group.Go(func() error { return c.readUser(ctx, login) })
	}
	for _, login := range needs.Apps {
		group.Go(func() error { return c.readApp(ctx, login) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for _, t := range needs.TeamSizes {
		if err := c.readTeamSize(ctx, t); err != nil {
			return err
		}
	}
	c.leaveUnknown(needs)
	return nil
}

func (c *collector) readTeam(ctx context.Context, key policy.TeamKey) error {
	team, err := c.gh.Team(ctx, key.Org, key.Slug)
	if errors.Is(err, ghclient.ErrNotFound) {
		c.setTeam(key, policy.TeamFact{State: policy.FactAbsent})
		return nil
	}
	if err != nil {
		return fmt.Errorf("read team %s: %w", key, err)
	}
	permission, err := c.gh.TeamRepositoryPermission(ctx, key.Org, key.Slug, c.repo)
	if err != nil {
		return fmt.Errorf("read permission of team %s: %w", key, err)
	}
	if permission == "" {
		permission = "none"
	}
	c.setTeam(key, policy.TeamFact{State: policy.FactPresent, ID: team.ID, Privacy: team.Privacy, Permission: permission})
	return nil
}

func (c *collector) setTeam(key policy.TeamKey, fact policy.TeamFact) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.snapshot.Teams[key.String()] = fact
}

func (c *collector) readTeamSize(ctx context.Context, key policy.TeamKey) error {
	members, err := c.gh.TeamMembers(ctx, key.Org, key.Slug)
	if err != nil && !errors.Is(err, ghclient.ErrNotFound) {
		return fmt.Errorf("list members of team %s: %w", key, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(members)
	fact := c.snapshot.Teams[key.String()]
	fact.Members = &n
	c.snapshot.Teams[key.String()] = fact
	return nil
}

func (c *collector) readMembership(ctx context.Context, key policy.MembershipKey) error {
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
	team := key.Team.String()
	if c.snapshot.Memberships[team] == nil {
		c.snapshot.Memberships[team] = map[string]policy.Membership{}
	}
	c.snapshot.Memberships[team][key.Login] = membership
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

// leaveUnknown answers what this release does not read yet: the facts of content-stable approvals, last-pusher exclusion and
// break-glass. An unknown fact blocks (I6), and the check says which policy feature it belongs to.
func (c *collector) leaveUnknown(needs policy.Requirements) {
	for i := range c.snapshot.Pulls {
		p := &c.snapshot.Pulls[i]
		for _, n := range needs.Comments {
			if n == p.Number {
				p.Comments.State = policy.FactUnknown
			}
		}
		for _, n := range needs.LastPushers {
			if n == p.Number {
				p.LastPusher.State = policy.FactUnknown
			}
		}
		for _, n := range needs.BaseChanges {
			if n == p.Number {
				p.BaseChange.State = policy.FactUnknown
			}
		}
		for _, n := range needs.FileContents {
			if n == p.Number {
				p.Files.ContentState = policy.FactUnknown
			}
		}
		for _, k := range needs.OlderHeads {
			if k.Pull == p.Number {
				if p.OlderHeads == nil {
					p.OlderHeads = map[string]policy.FileList{}
				}
				p.OlderHeads[k.SHA] = policy.FileList{State: policy.FactUnknown}
			}
		}
	}
}
