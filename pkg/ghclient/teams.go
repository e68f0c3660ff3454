package ghclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
)

const (
	opTeam           operation = "teams.get"
	opTeamRepo       operation = "teams.check_repository"
	opTeamMembership operation = "teams.get_membership"
	opTeamMembers    operation = "teams.list_members"
	opUserPermission operation = "repos.get_permission"
	opUser           operation = "users.get"
)

// acceptTeamRepo makes the team-repository check answer with the permission instead of a bare 204.
const acceptTeamRepo = "application/vnd.github.v3.repository+json"

// Team is one team by its slug. A secret team our token may not see is ErrNotFound, as one that doesn't exist: neither makes anybody
// eligible (RG-335).
func (c *Client) Team(ctx context.Context, org, slug string) (Team, error) {
	path, err := segments("orgs", org, "teams", slug)
	if err != nil {
		return Team{}, err
	}
	root, err := c.get(ctx, opTeam, path, nil)
	if err != nil {
		return Team{}, doing(err, "read team %s/%s", org, slug)
	}
	team := Team{ID: root.at("id").id(), Slug: root.at("slug").text(), Privacy: root.at("privacy").oneOf("closed", "secret")}
	if lowerLogin(team.Slug) != lowerLogin(slug) {
		root.at("slug").fail("the slug that was asked for")
	}
	if root.read.err != nil {
		return Team{}, doing(malformed(opTeam, root.read.err), "read team %s/%s", org, slug)
	}
	return team, nil
}

// TeamRepositoryPermission is what the team may do in r: pull, triage, push, maintain or admin, or "" where it has no access (RG-334).
func (c *Client) TeamRepositoryPermission(ctx context.Context, org, slug string, r Repo) (string, error) {
	path, err := segments("orgs", org, "teams", slug, "repos", r.Owner, r.Name)
	if err != nil {
		return "", err
	}
	what := fmt.Sprintf("check the access of team %s/%s to %s", org, slug, r.FullName())
	got, err := c.app.send(ctx, call{op: opTeamRepo, method: http.MethodGet, path: path, accept: acceptTeamRepo,
		installation: c.installation, perms: c.perms, noContent: true})
	if errors.Is(err, ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", doing(err, "%s", what)
	}
	root, err := parseObject(got.body)
	if err != nil { // a bare 204 tells of access but not how much of it
		return "", doing(malformed(opTeamRepo, err), "%s", what)
	}
	repo, ok := RepoFromFullName(root.at("id").id(), root.at("full_name").text())
	if !ok {
		root.at("full_name").fail("owner/name with exactly one slash")
	}
	permission := strongest(root.at("permissions"))
	if root.read.err != nil {
		return "", doing(malformed(opTeamRepo, root.read.err), "%s", what)
	}
	return permission, doing(r.mustBe(opTeamRepo, repo), "%s", what)
}

// strongest is the highest permission of GitHub's set of flags. An unknown flag grants nothing.
func strongest(flags node) string {
	flags.object()
	for _, name := range []string{"admin", "maintain", "push", "triage", "pull"} {
		if flags.has(name) && flags.at(name).flag() {
			return name
		}
	}
	return ""
}

// TeamMembership is whether login belongs to the team, through a child team included: state active, pending or "" (RG-334, RG-335);
// role member or maintainer.
func (c *Client) TeamMembership(ctx context.Context, org, slug, login string) (state, role string, err error) {
	path, err := segments("orgs", org, "teams", slug, "memberships", login)
	if err != nil {
		return "", "", err
	}
	root, err := c.get(ctx, opTeamMembership, path, nil)
	if errors.Is(err, ErrNotFound) {
		return "", "", nil
	}
	if err == nil {
		state = root.at("state").oneOf(MembershipActive, MembershipPending)
		role = root.at("role").oneOf("member", "maintainer")
		if root.read.err != nil {
			err = malformed(opTeamMembership, root.read.err)
		}
	}
	if err != nil {
		return "", "", doing(err, "read the membership of %s in team %s/%s", login, org, slug)
	}
	return state, role, nil
}

// TeamMembers are the team's active members, those of child teams included.
func (c *Client) TeamMembers(ctx context.Context, org, slug string) ([]Actor, error) {
	path, err := segments("orgs", org, "teams", slug, "members")
	if err != nil {
		return nil, err
	}
	var all []Actor
	seen := map[int64]bool{}
	list := call{op: opTeamMembers, method: http.MethodGet, path: path, installation: c.installation, perms: c.perms}
	err = c.app.each(ctx, list, "", aliases{}, func(p *listPage) error {
		for _, item := range p.items {
			if one := readActor(item.object()); !seen[one.ID] { // a member of two child teams may be listed twice
				seen[one.ID] = true
				all = append(all, one)
			}
		}
		return nil
	})
	if err != nil {
		return nil, doing(err, "list the members of team %s/%s", org, slug)
	}
	return all, nil
}

// UserPermission is what login may do in r now: none, read, triage, write, maintain or admin (RG-333). Who isn't a collaborator, or
// doesn't exist, has none (RG-335).
//
// GitHub's permission field folds maintain into write and triage into read; role_name tells them apart but may name a custom role.
// So the flags of user.permissions refine the folded field where they are present. Where the two contradict each other the lesser counts.
func (c *Client) UserPermission(ctx context.Context, r Repo, login string) (string, error) {
	path, err := r.path("collaborators", login, "permission")
	if err != nil {
		return "", err
	}
	root, err := c.get(ctx, opUserPermission, path, nil)
	if errors.Is(err, ErrNotFound) {
		return "none", nil
	}
	if err != nil {
		return "", doing(err, "read the permission of %s in %s", login, r.FullName())
	}
	permission := root.at("permission").oneOf("none", "read", "triage", "write", "maintain", "admin")
	user := root.at("user")
	if !user.missing() && lowerLogin(user.object().at("login").text()) != lowerLogin(login) {
		user.at("login").fail("the login that was asked for")
	}
	set := user.at("permissions")
	if !set.missing() {
		set.object()
	}
	if root.read.err == nil && !set.missing() {
		permission = refine(permission, strongest(set))
	}
	if root.read.err != nil {
		return "", doing(malformed(opUserPermission, root.read.err), "read the permission of %s in %s", login, r.FullName())
	}
	return permission, nil
}

// roles in rising order, and what GitHub's permission field folds each into; flags holds the flag that stands for each.
var (
	roles  = []string{"none", "read", "triage", "write", "maintain", "admin"}
	folded = []string{"none", "read", "read", "write", "write", "admin"}
	flags  = []string{"", "pull", "triage", "push", "maintain", "admin"}
)

func refine(permission, flag string) string {
	by := slices.Index(flags, flag)
	if folded[by] == permission || roles[by] == permission {
		return roles[by]
	}
	return roles[min(by, slices.Index(roles, permission))]
}

// User is an account by its login; a bot's is "slug[bot]" (RG-338). The answer must be about that login.
func (c *Client) User(ctx context.Context, login string) (Actor, error) {
	path, err := segments("users", login)
	if err != nil {
		return Actor{}, err
	}
	root, err := c.get(ctx, opUser, path, nil)
	if err != nil {
		return Actor{}, doing(err, "read account %s", login)
	}
	actor := readActor(root)
	if lowerLogin(actor.Login) != lowerLogin(login) {
		root.at("login").fail("the login that was asked for")
	}
	if root.read.err != nil {
		return Actor{}, doing(malformed(opUser, root.read.err), "read account %s", login)
	}
	return actor, nil
}
