package convert

import (
	"fmt"
	"strings"

	"github.com/countersign/countersign/pkg/policy"
)

// fromExtraCodeowners: the files are read with the same meaning (Differences D5), so they are kept under Countersign's own name.
func fromExtraCodeowners(sources []Source, r *Result) (draft, error) {
	for _, s := range sources {
		kind := policy.DetectPolicyKind([]byte(s.Text))
		var problems []policy.FileProblem
		target := policy.PolicyPath
		switch kind {
		case "organization":
			_, problems = policy.ParseOrganizationPolicy(s.Path, []byte(s.Text))
			target = "organization/" + policy.PolicyPath
			r.note("the file with the Apps belongs into the repository <owner>/.github, at %s", policy.PolicyPath)
		case "repository":
			_, problems = policy.ParseRepositoryPolicy(s.Path, []byte(s.Text))
		default:
			return draft{}, fmt.Errorf("%s is neither a repository's nor an organisation's policy file of extra-codeowners", s.Path)
		}
		if len(problems) > 0 {
			for _, p := range problems {
				r.lost(s.Path, p.Line, false, strings.TrimSpace(p.Key+" "+p.Message), "%s", p.Mend)
			}
			continue
		}
		countSettings(s, r)
		r.Files = append(r.Files, File{Path: target, Text: s.Text})
	}
	r.note("rename the file in one commit: with both %s and %s a check fails (ambiguous_policy)", policy.PolicyPath, policy.FallbackPolicyPath)
	r.note("the default name of the check differs: set COUNTERSIGN_CHECK_NAME, or require the new one")
	return draft{noPolicy: true}, nil
}

// countSettings lists what a file says: every key and every table.
func countSettings(s Source, r *Result) {
	for i, line := range strings.Split(s.Text, "\n") {
		line = strings.TrimSpace(line)
		if key, _, ok := strings.Cut(line, "="); ok && !strings.HasPrefix(line, "#") {
			r.carried(s.Path, i+1, "%s", strings.TrimSpace(key))
		}
	}
}
