package policy

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// The longest and the shortest time for which a break-glass release may be
// asked.
const (
	maxBreakGlass = 72 * time.Hour
	minBreakGlass = time.Minute
)

// RepositoryRules is a compiled repository policy.
type RepositoryRules struct {
	// Enabled must be written out; a disabled policy blocks (RG-354, RG-376).
	Enabled bool
	// AllowAuthor counts the author as an owner without a review (RG-337).
	AllowAuthor bool
	// DelegatePolicyFile removes the policy file itself, and nothing else, from
	// the built-in non-delegable paths (RG-347).
	DelegatePolicyFile bool
	Delegations        []Delegation
	Requirements       []Requirement
	// ContentStable, ExcludeAuthor and ExcludeLastPusher are the table
	// [approvals]; all are off by default (D12).
	ContentStable     bool
	ExcludeAuthor     bool
	ExcludeLastPusher bool
	// BreakGlass is nil unless the table [break_glass] is present.
	BreakGlass *BreakGlassRules
	// Health adds ownership health to the verdict.
	Health bool
}

// Delegation lets one enrolled App stand in for owners on some paths.
type Delegation struct {
	App   string
	Paths *PathSet
	// AnyOwner is for_owners = ["*"]; otherwise ForOwners lists them.
	AnyOwner  bool
	ForOwners []Owner
	// RequiredLabels and ForbiddenLabels are lower case.
	RequiredLabels  []string
	ForbiddenLabels []string
	// Line is where the entry is written.
	Line int
}

// Requirement asks for more than one approval of the owners, on some paths.
type Requirement struct {
	Name string
	// Paths selects changed paths; nil selects all. ForOwners keeps those
	// whose effective owners include one of them; Exclude takes paths away.
	Paths     *PathSet
	ForOwners []Owner
	Exclude   *PathSet
	// From are the owners who may approve; empty means the owners that
	// CODEOWNERS names, each owner set by itself.
	From []Owner
	// Count is how many distinct approvers are needed, HumansMin how many of
	// them must be people.
	Count     int
	HumansMin int
	// AllOf are owners that must each be represented by an approver.
	AllOf []Owner
	// Optional are owners that are shown and never required.
	Optional          []Owner
	ExcludeAuthor     bool
	ExcludeLastPusher bool
	Line              int
}

// BreakGlassRules says who may release a pull request in an emergency.
type BreakGlassRules struct {
	// Teams may ask; ConfirmTeams may confirm (Teams, where not given).
	Teams        []Owner
	ConfirmTeams []Owner
	// MaxDuration is the longest time between the request and its expiry.
	MaxDuration time.Duration
}

// ParseRepositoryPolicy reads a repository policy file. The rules are nil when
// there is a problem: a file with a mistake grants nothing.
func ParseRepositoryPolicy(path string, text []byte) (*RepositoryRules, []FileProblem) {
	file, root := openTOML(path, text)
	if root == nil {
		return nil, file.sorted()
	}
	rules := &RepositoryRules{}
	readSchemaVersion(root)
	if _, present := root.values["enabled"]; !present {
		root.used["enabled"] = true
		root.requireMissing("enabled", "write enabled = true or enabled = false")
	}
	rules.Enabled, _ = root.boolean("enabled")
	rules.AllowAuthor, _ = root.boolean("allow_author_as_codeowner")
	rules.DelegatePolicyFile, _ = root.boolean("allow_delegation_for_policy_file")
	rules.Health, _ = root.boolean("ownership_health")
	readApprovals(root, rules)
	readDelegations(root, rules)
	readRequirements(root, rules)
	readBreakGlass(root, rules)
	root.done()
	if len(file.problems) > 0 {
		return nil, file.sorted()
	}
	return rules, nil
}

func readApprovals(root *tomlTable, rules *RepositoryRules) {
	t, ok := root.table("approvals")
	if !ok {
		return
	}
	rules.ContentStable, _ = t.boolean("content_stable")
	rules.ExcludeAuthor, _ = t.boolean("exclude_author")
	rules.ExcludeLastPusher, _ = t.boolean("exclude_last_pusher")
	if rules.ExcludeAuthor && rules.AllowAuthor {
		t.file.problem(t.at("exclude_author"), "contradicts allow_author_as_codeowner = true", "keep one of the two")
	}
	t.done()
}

func readDelegations(root *tomlTable, rules *RepositoryRules) {
	patterns := 0
	for _, t := range root.tables("delegations", maxDelegations) {
		d := readDelegation(t)
		patterns += d.Paths.Len()
		rules.Delegations = append(rules.Delegations, d)
	}
	if patterns > maxDelegationPatterns {
		root.file.problem("delegations", "all entries together have %d paths", "keep at most %d", patterns, maxDelegationPatterns)
	}
}

func readDelegation(t *tomlTable) Delegation {
	d := Delegation{Line: t.file.placeOf(t.key).line}
	alias, given := t.text("app")
	d.App = strings.ToLower(alias)
	switch {
	case t.values["app"] == nil:
		t.requireMissing("app", "write the alias of an App that the organisation policy enrolls")
	case given && !validAlias(d.App):
		t.file.problem(t.at("app"), "%s is not a valid alias", "use an alias of the organisation policy's [apps]", strconv.Quote(clip(alias, 100)))
	}
	d.Paths = t.requiredPaths("paths")
	if owners, ok := t.texts("for_owners", 1, maxOwnersPerEntry); ok {
		if slices.Contains(owners, "*") {
			d.AnyOwner = true
			if len(owners) > 1 {
				t.file.problem(t.at("for_owners"), `"*" stands beside other owners`, `write ["*"] alone, or name the owners`)
			}
		} else {
			d.ForOwners = t.owners("for_owners", owners)
		}
	} else if t.values["for_owners"] == nil {
		t.requireMissing("for_owners", `name the owners the App may stand in for, or write ["*"] for any`)
	}
	d.RequiredLabels = t.labels("required_labels")
	d.ForbiddenLabels = t.labels("forbidden_labels")
	for _, label := range d.RequiredLabels {
		if slices.Contains(d.ForbiddenLabels, label) {
			t.file.problem(t.at("forbidden_labels"), "%s is required and forbidden at once", "keep it in one of the two lists", strconv.Quote(clip(label, 100)))
		}
	}
	t.done()
	return d
}

func readRequirements(root *tomlTable, rules *RepositoryRules) {
	names := map[string]bool{}
	for _, t := range root.tables("requirement", maxRequirements) {
		r := readRequirement(t)
		if names[r.Name] && r.Name != "" {
			t.file.problem(t.at("name"), "the name %s is used twice", "give each requirement its own name", strconv.Quote(clip(r.Name, 100)))
		}
		names[r.Name] = true
		rules.Requirements = append(rules.Requirements, r)
	}
}

func readRequirement(t *tomlTable) Requirement {
	r := Requirement{Line: t.file.placeOf(t.key).line}
	name, _ := t.text("name")
	r.Name = strings.TrimSpace(name)
	if r.Name == "" || len(r.Name) > 100 {
		t.file.problem(t.at("name"), "a requirement needs a name", "give it a name of 1 to 100 characters; the check shows it")
	}
	if t.values["paths"] != nil {
		r.Paths = t.requiredPaths("paths")
	}
	r.ForOwners = t.ownerList("for_owners")
	if t.values["paths"] == nil && t.values["for_owners"] == nil {
		t.file.problem(t.key, "selects nothing", "add paths, for_owners, or both")
	}
	if t.values["exclude"] != nil {
		r.Exclude = t.requiredPaths("exclude")
	}
	r.From = t.ownerList("from")
	r.AllOf = t.ownerList("all_of")
	r.Optional = t.ownerList("optional")
	r.ExcludeAuthor, _ = t.boolean("exclude_author")
	r.ExcludeLastPusher, _ = t.boolean("exclude_last_pusher")
	readCounts(t, &r)
	t.done()
	return r
}

func readCounts(t *tomlTable, r *Requirement) {
	if n, ok := t.integer("count", 0, 50); ok {
		r.Count = int(n)
	}
	if n, ok := t.integer("humans_min", 0, 50); ok {
		r.HumansMin = int(n)
	}
	r.Count = max(r.Count, r.HumansMin)
	if r.Count == 0 && len(r.AllOf) == 0 && len(r.Optional) == 0 {
		t.file.problem(t.key, "requires nothing", "set count, humans_min or all_of, or list optional owners")
	}
	for _, o := range r.Optional {
		if slices.Contains(r.AllOf, o) {
			t.file.problem(t.at("optional"), "%s is required by all_of and optional at once", "keep it in one of the two lists", o.String())
		}
	}
}

func readBreakGlass(root *tomlTable, rules *RepositoryRules) {
	t, ok := root.table("break_glass")
	if !ok {
		return
	}
	b := &BreakGlassRules{Teams: t.teamList("teams"), ConfirmTeams: t.teamList("confirm_teams")}
	if t.values["teams"] == nil {
		t.requireMissing("teams", `name the teams whose members may ask: teams = ["@org/team"]`)
	}
	if b.ConfirmTeams == nil {
		b.ConfirmTeams = b.Teams
	}
	text, given := t.text("max_duration")
	if t.values["max_duration"] == nil {
		t.requireMissing("max_duration", `write the longest release, such as max_duration = "4h"`)
	} else if given {
		d, err := time.ParseDuration(text)
		if err != nil || d < minBreakGlass || d > maxBreakGlass {
			t.file.problem(t.at("max_duration"), "%s is not a duration that is allowed",
				`write one from "1m" to "72h"`, strconv.Quote(clip(text, 50)))
		}
		b.MaxDuration = d
	}
	t.done()
	rules.BreakGlass = b
}

// requiredPaths reads an array of 1 to 100 patterns.
func (t *tomlTable) requiredPaths(name string) *PathSet {
	patterns, ok := t.texts(name, 1, maxPathsPerEntry)
	if !ok {
		if t.values[name] == nil {
			t.requireMissing(name, "list 1 to 100 path patterns, written as in CODEOWNERS")
		}
		return nil
	}
	return compilePaths(t.file, t.at(name), patterns)
}

func (t *tomlTable) ownerList(name string) []Owner {
	texts, _ := t.texts(name, 1, maxOwnersPerEntry)
	return t.owners(name, texts)
}

func (t *tomlTable) teamList(name string) []Owner {
	list := t.ownerList(name)
	for i, o := range list {
		if o.Kind != OwnerTeam {
			t.file.problem(elementKey(t.at(name), i), "%s is not a team", "write @org/team", o.String())
		}
	}
	return list
}

// owners reads CODEOWNERS identities: lower-cased, no duplicates, no e-mail.
func (t *tomlTable) owners(name string, texts []string) []Owner {
	var out []Owner
	for i, s := range texts {
		o, ok := parsePolicyOwner(s)
		switch {
		case !ok:
			t.file.problem(elementKey(t.at(name), i), "%s is not an owner", "write @user or @org/team", strconv.Quote(clip(s, 100)))
		case slices.Contains(out, o):
			t.file.problem(elementKey(t.at(name), i), "%s is listed twice", "remove one", o.String())
		default:
			out = append(out, o)
		}
	}
	return out
}

func (t *tomlTable) labels(name string) []string {
	texts, _ := t.texts(name, 0, maxLabelsPerEntry)
	var out []string
	for i, s := range texts {
		label := strings.ToLower(strings.TrimSpace(s))
		switch {
		case label == "":
			t.file.problem(elementKey(t.at(name), i), "the label is empty", "write the label's name")
		case slices.Contains(out, label):
			t.file.problem(elementKey(t.at(name), i), "%s is listed twice", "remove one; labels ignore case", strconv.Quote(clip(s, 100)))
		default:
			out = append(out, label)
		}
	}
	return out
}

// parsePolicyOwner reads "@user" or "@org/team": an address cannot be told apart
// from anybody's on GitHub, so it is no owner here (RG-321).
func parsePolicyOwner(s string) (Owner, bool) {
	o, ok := ParseOwner(s)
	return o, ok && o.Kind != OwnerEmail
}

// DetectPolicyKind says which kind of policy file text looks like:
// "organization", "repository", or "" when it cannot tell.
func DetectPolicyKind(text []byte) string {
	_, root := openTOML("", text)
	if root == nil {
		return ""
	}
	for _, name := range []string{"enabled", "delegations", "requirement", "approvals", "break_glass",
		"ownership_health", "allow_author_as_codeowner", "allow_delegation_for_policy_file"} {
		if _, ok := root.values[name]; ok {
			return "repository"
		}
	}
	for _, name := range []string{"apps", "guardrails"} {
		if _, ok := root.values[name]; ok {
			return "organization"
		}
	}
	return ""
}
