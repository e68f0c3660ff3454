package chaos

import (
	"slices"
	"strings"

	"github.com/countersign/countersign/pkg/githubsim"
)

// truth is what somebody who sees everything says of one commit.
type truth int

const (
	free    truth = iota // no pull request ever had it: nothing is required
	kept                 // its pull requests are merged: what it has stays
	blocked              // a success here lets somebody merge what must not be merged
	allowed
)

func (t truth) String() string { return [...]string{"free", "kept", "blocked", "allowed"}[t] }

// judge says the truth about every commit of a repository that a pull request has or had. It is written from the rules in
// docs/policy.md for the part of them that the world of this package uses, shares nothing with pkg/policy, and is meant to be
// read in one go.
func judge(v githubsim.View, repo githubsim.RepoLook, enrolled string) map[string]truth {
	all := map[string]truth{}
	open := map[string]bool{}
	merged, left := map[string]bool{}, map[string]bool{}
	for _, p := range v.Pulls(repo.ID) {
		for _, sha := range p.Heads {
			left[sha] = left[sha] || sha != p.Head || !p.Open && !p.Merged
		}
		switch {
		case p.Open:
			verdict := allowed
			if !approved(v, repo, p, enrolled) {
				verdict = blocked
			}
			if !open[p.Head] || verdict == blocked { // one blocked pull request blocks the commit
				all[p.Head] = verdict
			}
			open[p.Head] = true
		case p.Merged:
			merged[p.Head] = true
		}
	}
	for sha := range left {
		if left[sha] && !open[sha] {
			all[sha] = blocked // nobody asks for it any more: whoever returns to it must be judged anew
		}
	}
	for sha := range merged {
		if !open[sha] {
			all[sha] = kept
		}
	}
	return all
}

// approved: the policy at the tip of the base is enabled, its CODEOWNERS has no owner that cannot own, and every owner set
// of what the pull request changes has its approval.
func approved(v githubsim.View, repo githubsim.RepoLook, p githubsim.PullLook, enrolled string) bool {
	policy, _ := v.File(repo.ID, p.BaseRef, policyAt)
	if !strings.Contains(policy, "enabled = true") {
		return false
	}
	owners, ok := v.File(repo.ID, p.BaseRef, ownersAt)
	if !ok {
		return false
	}
	rules, sound := parse(v, repo, owners)
	if !sound {
		return false
	}
	sets := map[string][]string{} // owners, joined → paths
	for _, path := range v.ChangedPaths(repo.ID, p.Number) {
		if set := rules.ownersOf(path); len(set) > 0 {
			key := strings.Join(set, " ")
			sets[key] = append(sets[key], path)
		}
	}
	yes := approvers(p)
	for key, paths := range sets {
		set := strings.Fields(key)
		if !slices.ContainsFunc(yes, func(who string) bool {
			return slices.ContainsFunc(set, func(o string) bool { return standsFor(v, repo, who, o) })
		}) &&
			!byDelegate(yes, enrolled, repo, set, paths) {
			return false
		}
	}
	return true
}

// approvers are those whose last word on this exact head is an approval.
func approvers(p githubsim.PullLook) (who []string) {
	last := map[string]githubsim.ReviewLook{}
	for _, r := range p.Reviews {
		if r.State == "APPROVED" || r.State == "CHANGES_REQUESTED" || r.State == "DISMISSED" {
			last[r.User] = r
		}
	}
	for user, r := range last {
		if r.State == "APPROVED" && r.Commit == p.Head {
			who = append(who, user)
		}
	}
	return who
}

func mayWrite(permission string) bool {
	return permission == "push" || permission == "maintain" || permission == "admin"
}

// standsFor: a person for themselves where they may write, and for a visible team that may write and that they are in.
func standsFor(v githubsim.View, repo githubsim.RepoLook, who, owner string) bool {
	org, slug, isTeam := strings.Cut(owner[1:], "/")
	if !isTeam {
		return strings.EqualFold(who, org) && mayWrite(v.Permission(repo.ID, who))
	}
	t, ok := v.Team(org, slug, repo.ID)
	return ok && t.Visible && mayWrite(t.Permission) && t.Members[who]
}

// byDelegate: renovate is enrolled and approved, and the set is of core's lock file alone.
func byDelegate(yes []string, enrolled string, repo githubsim.RepoLook, set, paths []string) bool {
	return strings.Contains(enrolled, `slug = "renovate"`) && slices.Contains(yes, "renovate[bot]") &&
		slices.Contains(set, "@"+repo.Owner+"/core") && !slices.ContainsFunc(paths, func(p string) bool { return p != "go.sum" })
}

type rule struct {
	pattern string
	owners  []string
}

type rules []rule

// parse reads a CODEOWNERS file; sound is false where GitHub reports an owner that cannot own.
func parse(v githubsim.View, repo githubsim.RepoLook, text string) (list rules, sound bool) {
	for _, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		for _, owner := range words[1:] {
			org, slug, isTeam := strings.Cut(owner[1:], "/")
			if t, ok := v.Team(org, slug, repo.ID); isTeam && !(ok && t.Visible && mayWrite(t.Permission)) {
				return nil, false
			}
			if !isTeam && !mayWrite(v.Permission(repo.ID, org)) {
				return nil, false
			}
		}
		owners := slices.Clone(words[1:])
		slices.Sort(owners)
		list = append(list, rule{words[0], owners})
	}
	return list, true
}

// ownersOf is what the last rule that matches says; patterns are "*", "/directory/" and "/file".
func (r rules) ownersOf(path string) []string {
	for _, one := range slices.Backward(r) {
		p := one.pattern
		if p == "*" || "/"+path == p || strings.HasSuffix(p, "/") && strings.HasPrefix("/"+path, p) {
			return one.owners
		}
	}
	return nil
}
