package ghclient

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

const opTeams operation = "graphql.teams"

// teamsPerQuery keeps one query below a thousand nodes a team and GitHub's patience.
const teamsPerQuery = 20

// TeamFacts is what a policy needs to know of a team: whether it can be an owner in a repository, and who may speak for it.
type TeamFacts struct {
	Team
	Found      bool   // false: no such team, or a secret one; nobody is eligible by it (RG-335)
	Permission string // pull, triage, push, maintain or admin; "" none (RG-334)
	Members    []Actor
	// MembersComplete reports that Members are all active members, those of child teams included. Where it is false (more than 100)
	// ask TeamMembership for each login that matters.
	MembersComplete bool
}

// TeamsFor reads the facts of several teams of one organization in one request (for up to 20 teams), keyed by the slugs as given.
// What GraphQL shows is taken; what it doesn't show is not taken for absent: a permission it doesn't list is asked for by REST, because
// a wrong "none" would block a pull request for no reason anybody could see.
func (c *Client) TeamsFor(ctx context.Context, org string, slugs []string, r Repo) (map[string]TeamFacts, error) {
	facts := make(map[string]TeamFacts, len(slugs))
	for batch := range slices.Chunk(slices.Compact(slices.Sorted(slices.Values(slugs))), teamsPerQuery) {
		if err := c.teamBatch(ctx, org, batch, r, facts); err != nil {
			return nil, doing(err, "read %d teams of %s", len(slugs), org)
		}
	}
	return facts, nil
}

func (c *Client) teamBatch(ctx context.Context, org string, slugs []string, r Repo, facts map[string]TeamFacts) error {
	if c.app.lacks.has(featureTeams, c.app.now()) {
		return c.teamsOneByOne(ctx, org, slugs, r, facts)
	}
	variables := map[string]any{"org": org, "repo": r.Name}
	tolerated := []string{"organization"}
	for i, slug := range slugs {
		variables[fmt.Sprintf("t%d", i)] = slug
		tolerated = append(tolerated, fmt.Sprintf("organization.t%d", i))
	}
	data, err := c.query(ctx, opTeams, teamsQuery(len(slugs)), variables, tolerated...)
	if errors.Is(err, ErrInvalid) {
		c.app.lacks.note(featureTeams, c.app.now().Add(featureMemory))
		c.app.log.InfoContext(ctx, "github cannot read teams by graphql; they are read one by one", "err", err.Error())
		return c.teamsOneByOne(ctx, org, slugs, r, facts)
	}
	if err != nil {
		return err
	}
	for i, slug := range slugs {
		item := data.at("organization").at(fmt.Sprintf("t%d", i))
		if item.missing() {
			facts[slug] = TeamFacts{}
			continue
		}
		one := readTeamFacts(item.object(), slug, r)
		if item.read.err != nil {
			return malformed(opTeams, item.read.err)
		}
		if one.Permission == "" {
			if one.Permission, err = c.TeamRepositoryPermission(ctx, org, slug, r); err != nil {
				return err
			}
		}
		facts[slug] = one
	}
	return nil
}

func readTeamFacts(item node, slug string, r Repo) TeamFacts {
	one := TeamFacts{Found: true, Team: Team{ID: item.at("databaseId").id(), Slug: item.at("slug").text()}}
	switch item.at("privacy").oneOf("VISIBLE", "SECRET") {
	case "VISIBLE":
		one.Privacy = "closed"
	case "SECRET":
		one.Privacy = "secret"
	}
	if lowerLogin(one.Slug) != lowerLogin(slug) {
		item.at("slug").fail("the slug that was asked for")
	}
	words := map[string]string{"ADMIN": "admin", "MAINTAIN": "maintain", "WRITE": "push", "TRIAGE": "triage", "READ": "pull"}
	for _, edge := range item.at("repositories").at("edges").list() {
		repo, ok := RepoFromFullName(edge.object().at("node").object().at("databaseId").id(), edge.at("node").at("nameWithOwner").text())
		if !ok || r.mustBe(opTeams, repo) != nil {
			continue
		}
		one.Permission = words[edge.at("permission").oneOf("ADMIN", "MAINTAIN", "WRITE", "TRIAGE", "READ")]
	}
	members := item.at("members")
	for _, member := range members.at("nodes").list() {
		actor := member.who()
		if actor.ID == 0 {
			member.at("databaseId").fail("a positive integer")
		}
		one.Members = append(one.Members, actor)
	}
	one.MembersComplete = members.at("totalCount").count() == len(one.Members)
	return one
}

// teamsOneByOne is the same by REST, for servers that don't know the fields: three requests a team.
func (c *Client) teamsOneByOne(ctx context.Context, org string, slugs []string, r Repo, facts map[string]TeamFacts) error {
	for _, slug := range slugs {
		team, err := c.Team(ctx, org, slug)
		if errors.Is(err, ErrNotFound) {
			facts[slug] = TeamFacts{}
			continue
		}
		if err != nil {
			return err
		}
		one := TeamFacts{Team: team, Found: true, MembersComplete: true}
		if one.Permission, err = c.TeamRepositoryPermission(ctx, org, slug, r); err != nil {
			return err
		}
		if one.Members, err = c.TeamMembers(ctx, org, slug); err != nil {
			return err
		}
		facts[slug] = one
	}
	return nil
}
