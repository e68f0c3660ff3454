package policy

import (
	"fmt"
	"strings"
)

// PolicyPath and FallbackPolicyPath are where a policy file is looked for, at
// the base commit and in the organisation's repository (D5).
const (
	PolicyPath         = ".github/countersign.toml"
	FallbackPolicyPath = ".github/extra-codeowners.toml"
)

// maxListedProblems bounds how many problems of one file a verdict lists.
const maxListedProblems = 20

// builtins are the paths that no App may approve by default (RG-345): what
// decides who approves, and what runs with the repository's rights.
var builtins = mustCompilePaths(
	"/CODEOWNERS", "/.github/CODEOWNERS", "/docs/CODEOWNERS",
	"/"+PolicyPath, "/"+FallbackPolicyPath, "/stampbot.toml",
	"/.github/workflows/**", "/.github/actions/**",
)

// compiledBase is everything read at one base commit, compiled once for all
// pull requests on it.
type compiledBase struct {
	managed        bool
	policyPath     string
	rules          *RepositoryRules // nil when absent or broken
	codeownersPath string
	codeowners     *Codeowners // nil when absent or unknown
	findings       []Finding
}

func (b *compiledBase) fail(f Finding) { b.findings = append(b.findings, f) }

func failure(code Code, subject, format string, args ...any) Finding {
	return Finding{Severity: SeverityError, Code: code, Subject: clip(subject, MaxMessageChars), Message: message(format, args...)}
}

func warning(code Code, subject, format string, args ...any) Finding {
	return Finding{Severity: SeverityWarning, Code: code, Subject: clip(subject, MaxMessageChars), Message: message(format, args...)}
}

func compileBase(base Base, insecure bool) *compiledBase {
	b := &compiledBase{}
	b.readPolicy(base)
	if !b.managed || (b.rules != nil && !b.rules.Enabled) {
		return b
	}
	b.readCodeowners(base)
	if insecure {
		b.fail(warning(CodeInsecureChanges, "", "the operator allows Apps to approve the built-in protected paths (workflows, CODEOWNERS, policy); the organisation's guardrails still hold"))
	}
	return b
}

func (b *compiledBase) readPolicy(base Base) {
	file, findings, present := choosePolicy(base.Policy, base.FallbackPolicy, "the base commit")
	b.findings = append(b.findings, findings...)
	b.managed = present || len(findings) > 0
	switch {
	case len(findings) > 0:
		return
	case !present:
		b.fail(failure(CodeRepositoryPolicyDisabled, PolicyPath,
			"there is no policy file at the base commit; add %s there to let Countersign decide", PolicyPath))
		return
	}
	b.policyPath = file.Path
	rules, problems := ParseRepositoryPolicy(file.Path, []byte(file.Text))
	if len(problems) > 0 {
		b.findings = append(b.findings, problemFindings(problems, "")...)
		return
	}
	b.rules = rules
	if !rules.Enabled {
		b.fail(failure(CodeRepositoryPolicyDisabled, file.Path, "the policy at the base commit says enabled = false; set it to true to let Countersign decide"))
	}
}

// choosePolicy applies D5 to the two paths. present is false when neither
// exists; a finding means that it cannot be decided.
func choosePolicy(policy, fallback FileFact, where string) (file FileFact, findings []Finding, present bool) {
	for _, f := range []struct {
		fact FileFact
		path string
	}{{policy, PolicyPath}, {fallback, FallbackPolicyPath}} {
		if f.fact.State != FactPresent && f.fact.State != FactAbsent {
			findings = append(findings, failure(CodeEvidenceUnknown, f.path, "%s could not be read at %s; it is read again", f.path, where))
		}
	}
	if len(findings) > 0 {
		return FileFact{}, findings, false
	}
	one, two := policy.State == FactPresent, fallback.State == FactPresent
	switch {
	case one && two:
		return FileFact{}, []Finding{failure(CodeAmbiguousPolicy, PolicyPath,
			"%s and %s both exist at %s; delete one of them", PolicyPath, FallbackPolicyPath, where)}, true
	case one:
		policy.Path = PolicyPath
		return policy, nil, true
	case two:
		fallback.Path = FallbackPolicyPath
		return fallback, nil, true
	}
	return FileFact{}, nil, false
}

// problemFindings turns the problems of a policy file into findings. Owner
// says whose file it is, where that is not the repository's own.
func problemFindings(problems []FileProblem, owner string) []Finding {
	var out []Finding
	for i, p := range problems {
		if i == maxListedProblems {
			out = append(out, failure(CodeInvalidPolicy, p.Path, "%s%s has %s", owner, p.Path, count(len(problems)-i, "more mistake")))
			break
		}
		f := failure(p.Code, p.Path, "%s%s", owner, p)
		f.Line = p.Line
		out = append(out, f)
	}
	return out
}

func (b *compiledBase) readCodeowners(base Base) {
	fact := base.Codeowners
	switch fact.State {
	case FactPresent:
	case FactAbsent:
		b.fail(failure(CodeCodeownersMissing, "CODEOWNERS",
			"there is no CODEOWNERS file at the base commit; add .github/CODEOWNERS, or disable the policy"))
		return
	default:
		b.fail(failure(CodeEvidenceUnknown, "CODEOWNERS", "the CODEOWNERS file could not be read at the base commit; it is read again"))
		return
	}
	b.codeownersPath = fact.Path
	b.codeowners = ParseCodeowners(fact.Path, []byte(fact.Text))
	b.readGitHubErrors(base.CodeownersErrors, fact.Path)
	problems := b.codeowners.Problems()
	for i, p := range problems {
		if i == maxListedProblems {
			b.fail(failure(Code(p.Kind), fact.Path, "%s has %s that cannot be used", fact.Path, count(len(problems)-i, "more line")))
			break
		}
		f := failure(Code(p.Kind), fact.Path, "%s: %s", fact.Path, p)
		f.Line = p.Line
		b.fail(f)
	}
}

func (b *compiledBase) readGitHubErrors(list CodeownersErrorList, path string) {
	if list.State != FactPresent {
		b.fail(failure(CodeEvidenceUnknown, path, "GitHub's own check of %s could not be read; it is read again", path))
		return
	}
	for i, e := range list.sorted() {
		if i == maxListedProblems {
			b.fail(failure(CodeGitHubCodeownersError, path, "GitHub reports %s", count(len(list.Items)-i, "more error")))
			break
		}
		text := strings.TrimSpace(e.Kind)
		for _, part := range []string{e.Message, e.Suggestion} {
			// Only the first line: the rest is the source line with a marker.
			if first, _, _ := strings.Cut(strings.TrimSpace(part), "\n"); first != "" && !strings.Contains(text, first) {
				text += ": " + first
			}
		}
		f := failure(CodeGitHubCodeownersError, path, "GitHub rejects line %d of %s: %s", e.Line, path, text)
		f.Line = e.Line
		b.fail(f)
	}
}

// compiledOrganization is the organisation's policy, or why there is none.
type compiledOrganization struct {
	rules    *OrganizationRules // nil when it cannot be known
	findings []Finding
}

func compileOrganization(repo Repository, fact OrganizationPolicy) compiledOrganization {
	route := repo.Owner + "/.github"
	switch {
	case fact.Repository == FactPresent:
	case fact.Repository == FactAbsent && repo.OwnerType == "User":
		// A user account has no organisation that could enroll Apps or set
		// guardrails (decision 0031).
		return compiledOrganization{rules: &OrganizationRules{}}
	case fact.Repository == FactAbsent:
		return compiledOrganization{findings: []Finding{failure(CodeOrganizationPolicyRepositoryGone, route,
			"the repository %s is not in this installation, so its guardrails cannot be read; create it if need be and add it to the App's repositories", route)}}
	default:
		return compiledOrganization{findings: []Finding{failure(CodeEvidenceUnknown, route, "the organisation policy in %s could not be read; it is read again", route)}}
	}
	file, findings, present := choosePolicy(fact.Policy, fact.FallbackPolicy, "the default branch of "+route)
	switch {
	case len(findings) > 0:
		return compiledOrganization{findings: findings}
	case !present:
		return compiledOrganization{rules: &OrganizationRules{}}
	}
	rules, problems := ParseOrganizationPolicy(file.Path, []byte(file.Text))
	return compiledOrganization{rules: rules, findings: problemFindings(problems, fmt.Sprintf("organisation policy of %s: ", route))}
}
