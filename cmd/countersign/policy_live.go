package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/countersign/countersign/pkg/daemon"
	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/policy"
)

// ownerSource is what a live check asks GitHub.
type ownerSource interface {
	TeamsFor(ctx context.Context, org string, slugs []string, r ghclient.Repo) (map[string]ghclient.TeamFacts, error)
	UserPermission(ctx context.Context, r ghclient.Repo, login string) (string, error)
}

// liveConfig is the App's credentials, from the same variables as a service's.
type liveConfig struct {
	GitHub ghclient.Config
}

// githubSettings keeps what concerns GitHub: the command stands beside a service's settings and reads no others.
func githubSettings(environ []string) []string {
	var kept []string
	for _, kv := range environ {
		if !strings.HasPrefix(kv, "COUNTERSIGN_") || strings.HasPrefix(kv, "COUNTERSIGN_GITHUB_") {
			kept = append(kept, kv)
		}
	}
	return kept
}

// newOwnerSource is the client of one installation, allowed to read members only.
func newOwnerSource(environ []string, installation int64) (ownerSource, error) {
	cfg, err := daemon.Load[liveConfig](nil, githubSettings(environ))
	if err != nil {
		return nil, err
	}
	app, err := ghclient.NewApp(cfg.GitHub, ghclient.Options{})
	if err != nil {
		return nil, fmt.Errorf("set up the GitHub client: %w", err)
	}
	return app.Client(installation, ghclient.Permissions{"members": "read"}), nil
}

// liveLint asks GitHub about every owner that the files name, and returns one
// line an owner and file where something is wrong.
func liveLint(c context.Context, options lintOptions, names []string, texts [][]byte) ([]lintLine, error) {
	repo, ok := ghclient.RepoFromFullName(0, options.repository)
	if !ok || options.installation <= 0 {
		return nil, errors.New("--live needs --repository owner/name and --installation ID")
	}
	source, err := newOwnerSource(os.Environ(), options.installation)
	if err != nil {
		return nil, err
	}
	var all []policy.Owner
	where := make([]map[policy.Owner]int, len(names))
	for i, name := range names {
		where[i] = ownersOfFile(name, texts[i], options.kind)
		for o := range where[i] {
			all = append(all, o)
		}
	}
	teams, users, err := readOwners(c, source, repo, all)
	if err != nil {
		return nil, err
	}
	identity := policy.Repository{FullName: options.repository, Owner: repo.Owner, OwnerType: "Organization"}
	var lines []lintLine
	for i, name := range names {
		owners := make([]policy.Owner, 0, len(where[i]))
		for o := range where[i] {
			owners = append(owners, o)
		}
		for _, f := range policy.OwnersHealth(identity, owners, teams, users) {
			owner, _ := policy.ParseOwner(f.Subject)
			message, mend, _ := strings.Cut(f.Message, "; ")
			lines = append(lines, lintLine{Severity: policy.SeverityError, Kind: "live", FileProblem: policy.FileProblem{
				Path: name, Line: where[i][owner], Column: min(where[i][owner], 1), Code: f.Code, Message: message, Mend: mend,
			}})
		}
	}
	return lines, nil
}

// ownersOfFile lists the owners that a file names, with the line of the first
// mention where that is known.
func ownersOfFile(name string, text []byte, kind string) map[policy.Owner]int {
	if kind == "" {
		kind = kindOfFile(name, text)
	}
	switch kind {
	case kindCodeowners:
		_, lines := policy.OwnersIn(policy.ParseCodeowners(name, text))
		return lines
	case kindRepository:
		lines := map[policy.Owner]int{}
		if rules, _ := policy.ParseRepositoryPolicy(name, text); rules != nil {
			for _, o := range rules.Owners() {
				lines[o] = 0
			}
		}
		return lines
	default:
		return nil
	}
}

// readOwners reads what GitHub says of each owner: a team's privacy, access and
// size, a user's permission.
func readOwners(ctx context.Context, source ownerSource, repo ghclient.Repo, owners []policy.Owner) (map[string]policy.TeamFact, map[string]policy.UserFact, error) {
	teams, users, slugs := map[string]policy.TeamFact{}, map[string]policy.UserFact{}, []string{}
	for _, o := range owners {
		org, slug, _ := strings.Cut(o.Name, "/")
		switch {
		case o.Kind == policy.OwnerTeam && strings.EqualFold(org, repo.Owner):
			slugs = append(slugs, slug)
		case o.Kind == policy.OwnerUser && users[o.Name].State == policy.FactMissing:
			permission, err := source.UserPermission(ctx, repo, o.Name)
			if err != nil {
				return nil, nil, fmt.Errorf("ask GitHub about %s: %w", o, err)
			}
			users[o.Name] = policy.UserFact{State: policy.FactPresent, Permission: permission}
		}
	}
	if len(slugs) == 0 {
		return teams, users, nil
	}
	found, err := source.TeamsFor(ctx, repo.Owner, slugs, repo)
	if err != nil {
		return nil, nil, fmt.Errorf("ask GitHub about the teams of %s: %w", repo.Owner, err)
	}
	for _, slug := range slugs {
		teams[strings.ToLower(repo.Owner)+"/"+slug] = teamFact(found[slug])
	}
	return teams, users, nil
}

func teamFact(t ghclient.TeamFacts) policy.TeamFact {
	if !t.Found {
		return policy.TeamFact{State: policy.FactAbsent}
	}
	members := len(t.Members)
	fact := policy.TeamFact{State: policy.FactPresent, ID: t.ID, Privacy: t.Privacy, Permission: t.Permission, Members: &members}
	if fact.Permission == "" {
		fact.Permission = "none"
	}
	return fact
}
