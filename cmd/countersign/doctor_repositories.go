package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/policy"
)

// repositoryLines looks at the policy files of every installation's repositories and at what their default branches require.
func (g doctorGitHub) repositoryLines(ctx context.Context, limit int) []doctorLine {
	var lines []doctorLine
	for _, i := range g.installations {
		if i.SuspendedAt != nil || limit <= 0 {
			continue
		}
		client := g.app.Client(i.ID, ghclient.Permissions{"contents": "read"})
		name := fmt.Sprintf("installation %d (%s)", i.ID, i.AccountLogin)
		list, err := client.Repositories(ctx)
		if err != nil {
			lines = append(lines, fail(name, err, "")...)
			continue
		}
		left, silent := 0, 0
		for _, r := range list {
			switch {
			case r.Archived:
				continue
			case limit == 0:
				left++
				continue
			}
			limit--
			found := g.repositoryLine(ctx, client, r)
			if found == nil {
				silent++
			}
			lines = append(lines, found...)
		}
		if silent > 0 {
			lines = append(lines, doctorLine{Result: doctorOK, Check: name, Says: fmt.Sprintf("%d repositories have no policy file on their default branch: they are not gated", silent)})
		}
		if left > 0 {
			lines = append(lines, doctorLine{Result: doctorWarn, Check: name, Says: fmt.Sprintf("%d repositories were not looked at", left), Mend: "give --repositories a larger number"})
		}
	}
	return lines
}

// repositoryLine is nil for a repository without a policy file.
func (g doctorGitHub) repositoryLine(ctx context.Context, client *ghclient.Client, r ghclient.RepositoryInfo) []doctorLine {
	if r.DefaultBranch == "" {
		return nil
	}
	files, err := g.policyFiles(ctx, client, r)
	switch name := r.FullName(); {
	case err != nil:
		return fail("policy "+name, err, "")
	case len(files) == 0:
		return nil
	case len(files) > 1:
		return []doctorLine{{Result: doctorFail, Check: "policy " + name, Says: "both " + files[0].Path + " and " + files[1].Path + " exist: every check fails with ambiguous_policy", Mend: "remove one of them"}}
	case strings.EqualFold(r.Name, g.config.OrgRepository):
		_, problems := policy.ParseOrganizationPolicy(files[0].Path, files[0].Text)
		return policyLines(name, "the organization's policy can be used", problems)
	}
	rules, problems := policy.ParseRepositoryPolicy(files[0].Path, files[0].Text)
	lines := policyLines(r.FullName(), files[0].Path+" can be used", problems)
	if len(problems) > 0 {
		return lines
	}
	if rules != nil && !rules.Enabled {
		return []doctorLine{{Result: doctorWarn, Check: "policy " + r.FullName(), Says: files[0].Path + " says enabled = false: every check fails with repository_policy_disabled", Mend: "write enabled = true, or remove the file"}}
	}
	required, err := client.RequiredChecks(ctx, r.Repo, r.DefaultBranch)
	if err != nil {
		return append(lines, fail("required check "+r.FullName(), err, "")...)
	}
	return append(lines, requiredLine(r, g.checkName, g.identity.ID, required))
}

func (g doctorGitHub) policyFiles(ctx context.Context, client *ghclient.Client, r ghclient.RepositoryInfo) (files []ghclient.File, err error) {
	for _, path := range g.config.PolicyPaths {
		file, err := client.File(ctx, r.Repo, r.DefaultBranch, path)
		switch {
		case errors.Is(err, ghclient.ErrNotFound), errors.Is(err, ghclient.ErrConflict): // an empty repository has no files
			continue
		case err != nil:
			return nil, err
		}
		files = append(files, file)
	}
	return files, nil
}

func policyLines(name, fine string, problems []policy.FileProblem) []doctorLine {
	if len(problems) == 0 {
		return []doctorLine{{Result: doctorOK, Check: "policy " + name, Says: fine}}
	}
	var lines []doctorLine
	for _, p := range problems {
		lines = append(lines, doctorLine{Result: doctorFail, Check: "policy " + name, Says: fmt.Sprintf("%s:%d:%d: %s", p.Path, p.Line, p.Column, p.Message), Mend: p.Mend})
	}
	return lines
}

// requiredLine says whether the branch requires our check, and from whom it takes it.
func requiredLine(r ghclient.RepositoryInfo, name string, appID int64, required []ghclient.RequiredCheck) doctorLine {
	line := doctorLine{Check: "required check " + r.FullName()}
	loose, foreign := "", int64(0)
	for _, c := range required {
		switch {
		case c.Context != name:
		case c.AppID == appID:
			line.Result, line.Says = doctorOK, fmt.Sprintf("%s requires %q from this App, by %s", r.DefaultBranch, name, c.Source)
			return line
		case c.AppID == 0:
			loose = c.Source
		default:
			foreign = c.AppID
		}
	}
	switch {
	case foreign != 0:
		line.Result, line.Says = doctorFail, fmt.Sprintf("%s requires %q from another App (%d): ours never satisfies it", r.DefaultBranch, name, foreign)
		line.Mend = "choose this App as the source of the check"
	case loose != "":
		line.Result, line.Says = doctorWarn, fmt.Sprintf("%s requires %q from any source, by %s: whoever may write checks or statuses can satisfy it", r.DefaultBranch, name, loose)
		line.Mend = "choose this App as the source of the check"
	default:
		line.Result, line.Says = doctorWarn, fmt.Sprintf("%s does not require %q: nobody is held to it yet", r.DefaultBranch, name)
		line.Mend = "require it by a ruleset or branch protection, with this App as its source, once you trust it"
	}
	return line
}
