package policy

import (
	"slices"
	"strings"
)

// OwnersIn lists the owners that a CODEOWNERS file names, sorted, each once,
// and the first line that names each.
func OwnersIn(c *Codeowners) (owners []Owner, lines map[Owner]int) {
	lines = map[Owner]int{}
	for _, rule := range c.Rules() {
		for _, o := range rule.Owners {
			if _, seen := lines[o]; !seen {
				lines[o] = rule.Line
				owners = append(owners, o)
			}
		}
	}
	slices.SortFunc(owners, compareOwners)
	return owners, lines
}

// Owners lists every owner and team that a repository policy names, sorted,
// each once.
func (r *RepositoryRules) Owners() []Owner {
	var all []Owner
	for _, d := range r.Delegations {
		all = append(all, d.ForOwners...)
	}
	for _, q := range r.Requirements {
		all = slices.Concat(all, q.ForOwners, q.From, q.AllOf, q.Optional)
	}
	if b := r.BreakGlass; b != nil {
		all = slices.Concat(all, b.Teams, b.ConfirmTeams)
	}
	slices.SortFunc(all, compareOwners)
	return slices.Compact(all)
}

// OwnersHealth says which owners cannot approve in a repository now: the
// findings of ownership health for owners that no pull request touches yet.
// teams is keyed by "org/slug" and users by login, both lower case; an owner
// without an entry, and an address, is a finding of its own.
func OwnersHealth(repo Repository, owners []Owner, teams map[string]TeamFact, users map[string]UserFact) []Finding {
	e := &evaluation{s: &Snapshot{Repository: repo, Teams: teams, Users: users}, wants: &wantSet{}}
	p := &pullPlan{}
	for _, o := range owners {
		if o.Kind == OwnerEmail {
			p.fail(warning(CodeEmailOwner, o.String(), "the owner %s is an address, which cannot be matched to a reviewer; name @user or @org/team", o))
			continue
		}
		e.ownerHealth(p, Owner{Kind: o.Kind, Name: strings.ToLower(o.Name)})
	}
	slices.SortFunc(p.findings, compareFindings)
	return p.findings
}
