package ghclient

import (
	"slices"
	"strings"
)

// The authority events of spec section D: what changes who may approve, rather than what was approved.

const branchPrefix = "refs/heads/"

func (d *decoder) push(root node) {
	d.inRepository(root)
	push := &PushRef{
		Ref:     root.at("ref").text(),
		Before:  root.at("before").optionalSHA(),
		After:   root.at("after").optionalSHA(),
		Deleted: root.at("deleted").flag(),
	}
	forced, ok := root.at("forced").boolean()
	push.Forced = forced || !ok // unknown is the conservative answer (RG-074)
	push.Branch, _ = strings.CutPrefix(push.Ref, branchPrefix)
	if push.Branch == push.Ref {
		push.Branch = ""
	}
	push.CommitsComplete, push.TouchesPolicy, push.Commits = pushedPaths(root.lenient(), d.paths)
	d.event.Push = push
}

// oldCommitCap is the number of commits older servers list at most; from there on a list without a count may be cut.
const oldCommitCap = 20

// pushedPaths reports whether the listed commits are the whole push (RG-074) and whether one of them touches a policy path.
// Every doubt makes the list incomplete: an element of the wrong type, a missing path list, a count above the list's length,
// and a list as long as a server's cap when no count is given.
func pushedPaths(root node, paths []string) (complete, touches bool, commits int) {
	list, ok := root.at("commits").elements()
	if !ok {
		return false, false, 0
	}
	complete = true
	for _, commit := range list {
		for _, kind := range []string{"added", "modified", "removed"} {
			changed, ok := commit.at(kind).elements()
			complete = complete && ok
			for _, path := range changed {
				text, ok := path.value.str()
				complete = complete && ok
				touches = touches || ok && slices.Contains(paths, text)
			}
		}
	}
	counted := false
	for _, name := range []string{"distinct_size", "size"} {
		if !root.has(name) {
			continue
		}
		counted = true
		if n, ok := root.at(name).integer(); !ok || n < 0 || n > int64(len(list)) {
			complete = false
		}
	}
	if !counted && len(list) >= oldCommitCap {
		complete = false
	}
	return complete, touches, len(list)
}

func (d *decoder) team(root node) {
	d.installationID(root)
	if d.event.Name == "team_add" { // repository scope, so the repository is what matters (RG-076)
		d.event.Repository = repoRef(root.at("repository"))
	}
	if team := root.at("team").lenient(); !team.missing() {
		d.event.Team = &TeamRef{ID: team.at("id").optionalID(), Slug: team.at("slug").optionalText()}
	}
}

func (d *decoder) organization(root node) {
	d.installationID(root)
	d.event.PreviousAccount = strings.ToLower(root.at("changes").at("login").at("from").optionalText())
}

func (d *decoder) repository(root node) {
	d.inRepository(root)
	changes := root.at("changes")
	owner, name, _ := strings.Cut(d.event.Repository.FullName, "/")
	switch d.event.Action {
	case "renamed":
		from := changes.at("repository").at("name").at("from").text()
		d.event.PreviousName = owner + "/" + strings.ToLower(from)
	case "transferred":
		former := changes.at("owner").at("from")
		for _, kind := range []string{"organization", "user"} {
			if login := former.at(kind).at("login").optionalText(); login != "" {
				d.event.PreviousAccount = strings.ToLower(login)
				d.event.PreviousName = d.event.PreviousAccount + "/" + name
				break
			}
		}
	case "edited":
		d.event.DefaultBranchChanged = changes.has("default_branch")
	}
}

func (d *decoder) installation(root node) {
	d.installationID(root)
	d.event.Added = wellFormedRepos(root.at("repositories"))
}

func (d *decoder) installationRepositories(root node) {
	d.installationID(root)
	if d.event.Action == "added" {
		d.event.Added = wellFormedRepos(root.at("repositories_added"))
		return
	}
	// RG-084: a removal list that can't be read is not refused, it is acted on as if the policy repository were in it.
	list, ok := root.at("repositories_removed").elements()
	repos := wellFormedRepos(root.at("repositories_removed"))
	removed := &RemovedRepos{WellFormed: ok && len(list) > 0 && len(repos) == len(list)}
	for _, repo := range repos {
		removed.Names = append(removed.Names, repo.FullName)
		removed.IDs = append(removed.IDs, repo.ID)
		d.event.OrgPolicy = d.event.OrgPolicy || d.isOrgPolicy(repo.FullName)
	}
	d.event.Removed = removed
}

func (d *decoder) installationTarget(root node) {
	d.installationID(root)
	d.event.PreviousAccount = strings.ToLower(root.at("changes").at("login").at("from").optionalText())
	if login := root.at("account").at("login").optionalText(); login != "" {
		d.event.AccountLogin = strings.ToLower(login)
	}
}

func wellFormedRepos(list node) []RepoRef {
	items, _ := list.elements()
	var repos []RepoRef
	for _, item := range items {
		one := item.lenient()
		if repo := repoRef(one); one.read.err == nil {
			repos = append(repos, repo)
		}
	}
	return repos
}
