package policy_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/countersign/countersign/pkg/policy"
)

// rules is a repository policy as data, so that a property can narrow it.
type rules struct {
	allowAuthor, contentStable, excludeAuthor, excludePusher, breakGlass, health bool
	delegations                                                                  []delegationRule
	requirements                                                                 []requirementRule
	guardrails                                                                   []string
}

type delegationRule struct {
	app                             string
	paths, owners, required, barred []string
}

type requirementRule struct {
	paths, exclude, owners, from, allOf, optional []string
	count, humans                                 int
	excludeAuthor, excludePusher                  bool
}

func list(key string, values []string) string {
	if len(values) == 0 {
		return ""
	}
	quoted := make([]string, len(values))
	for i, v := range values {
		quoted[i] = fmt.Sprintf("%q", v)
	}
	return key + " = [" + strings.Join(quoted, ", ") + "]\n"
}

func onlyIf(key string, on bool) string {
	if on {
		return key + " = true\n"
	}
	return ""
}

// toml writes the repository policy.
func (r rules) toml() string {
	var b strings.Builder
	b.WriteString("schema_version = 1\nenabled = true\n" + onlyIf("allow_author_as_codeowner", r.allowAuthor) + onlyIf("ownership_health", r.health))
	b.WriteString("[approvals]\n" + onlyIf("content_stable", r.contentStable) + onlyIf("exclude_author", r.excludeAuthor) + onlyIf("exclude_last_pusher", r.excludePusher))
	if r.breakGlass {
		b.WriteString(glass)
	}
	for _, d := range r.delegations {
		b.WriteString("[[delegations]]\napp = \"" + d.app + "\"\n" + list("paths", d.paths) + list("for_owners", d.owners) +
			list("required_labels", d.required) + list("forbidden_labels", d.barred))
	}
	for i, q := range r.requirements {
		fmt.Fprintf(&b, "[[requirement]]\nname = \"r%d\"\ncount = %d\nhumans_min = %d\n", i, q.count, q.humans)
		b.WriteString(list("paths", q.paths) + list("exclude", q.exclude) + list("for_owners", q.owners) + list("from", q.from) + list("all_of", q.allOf) +
			list("optional", q.optional) + onlyIf("exclude_author", q.excludeAuthor) + onlyIf("exclude_last_pusher", q.excludePusher))
	}
	return b.String()
}

func (r rules) orgTOML() string {
	return orgPolicy[:strings.Index(orgPolicy, "[guardrails]")] + "[guardrails]\n" + list("non_delegable_paths", r.guardrails)
}

var (
	people      = []string{"alice", "bob", "carol", "dave", "erin", "frank"}
	bots        = []string{"renovate[bot]", "octobot[bot]"}
	genOwners   = []string{"@alice", "@bob", "@erin", "@acme/platform", "@acme/docs", "@acme/incident", "@other/team"}
	genPaths    = []string{"src/a.go", "src/b.go", "src/gen/x.go", "docs/a.md", "docs/b.md", "prod/x.tf", "free.txt", ".github/workflows/ci.yml"}
	genPatterns = []string{"*", "/src/", "/src/gen/**", "*.go", "/docs/*", "/prod/**", "/src/a.go", ".github/**"}
	genTeams    = []string{"acme/platform", "acme/docs", "acme/incident"}
)

func some(t *rapid.T, name string, from []string, low, high int) []string {
	return rapid.SliceOfNDistinct(rapid.SampledFrom(from), low, min(high, len(from)), rapid.ID[string]).Draw(t, name)
}

func maybe(t *rapid.T, name string) bool { return rapid.Bool().Draw(t, name) }

// rare is true about one time in eight.
func rare(t *rapid.T, name string) bool { return rapid.IntRange(0, 7).Draw(t, name) == 0 }

func genRules(t *rapid.T) rules {
	r := rules{
		contentStable: maybe(t, "content stable"), excludeAuthor: rare(t, "exclude author"), excludePusher: rare(t, "exclude pusher"),
		breakGlass: maybe(t, "break glass"), health: rare(t, "health"), guardrails: some(t, "guardrails", genPatterns, 0, 1),
	}
	r.allowAuthor = !r.excludeAuthor && maybe(t, "allow author")
	for range rapid.IntRange(0, 3).Draw(t, "delegations") {
		r.delegations = append(r.delegations, genDelegation(t))
	}
	for range rapid.IntRange(0, 2).Draw(t, "requirements") {
		r.requirements = append(r.requirements, genRequirement(t))
	}
	return r
}

func genDelegation(t *rapid.T) delegationRule {
	d := delegationRule{app: rapid.SampledFrom([]string{"renovate", "octobot"}).Draw(t, "app"), paths: some(t, "paths", genPatterns, 1, 3), owners: []string{"*"}}
	if maybe(t, "named owners") {
		d.owners = some(t, "for owners", genOwners, 1, 3)
	}
	if rare(t, "required") {
		d.required = []string{"auto"}
	}
	if rare(t, "forbidden") {
		d.barred = []string{"hold"}
	}
	return d
}

func genRequirement(t *rapid.T) requirementRule {
	q := requirementRule{
		paths: some(t, "requirement paths", genPatterns, 1, 2), exclude: some(t, "exclude", genPatterns, 0, 1), owners: some(t, "requirement owners", genOwners, 0, 2),
		count: rapid.IntRange(0, 2).Draw(t, "count"), from: some(t, "from", genOwners, 0, 3), humans: rapid.IntRange(0, 1).Draw(t, "humans"),
		excludeAuthor: rare(t, "requirement excludes author"), excludePusher: rare(t, "requirement excludes pusher"),
	}
	all := some(t, "all of or optional", genOwners, 0, 3)
	for _, o := range all {
		if maybe(t, "optional") {
			q.optional = append(q.optional, o)
		} else {
			q.allOf = append(q.allOf, o)
		}
	}
	if q.count == 0 && q.humans == 0 && len(all) == 0 {
		q.count = 1
	}
	return q
}

// genSnapshot draws a snapshot of one or two pull requests with mostly known
// facts, and the policy that it has.
func genSnapshot(t *rapid.T) (policy.Snapshot, rules) {
	r := genRules(t)
	s := facts()
	s.Bases[baseSHA] = genBase(t, r)
	s.OrganizationPolicy.Policy.Text = r.orgTOML()
	for _, key := range genTeams {
		f := s.Teams[key]
		f.Permission = rapid.SampledFrom([]string{"push", "push", "admin", "pull"}).Draw(t, "team permission")
		if rare(t, "secret") {
			f.Privacy = "secret"
		}
		s.Teams[key] = f
		for _, login := range people {
			s.Memberships[key][login] = rapid.SampledFrom([]policy.Membership{policy.MembershipActive, policy.MembershipActive, policy.MembershipNone, policy.MembershipPending}).Draw(t, "membership")
		}
	}
	for _, login := range people {
		u := s.Users[login]
		u.Permission = rapid.SampledFrom([]string{"write", "admin", "write", "read"}).Draw(t, "user permission")
		s.Users[login] = u
	}
	s.Pulls = []policy.PullRequest{genPull(t, 7)}
	if rare(t, "two pulls") {
		s.Pulls = append(s.Pulls, genPull(t, 9))
	}
	return s, r
}

func genBase(t *rapid.T, r rules) policy.Base {
	b := goodBase()
	var lines strings.Builder
	for range rapid.IntRange(1, 4).Draw(t, "rules") {
		lines.WriteString(rapid.SampledFrom(genPatterns).Draw(t, "pattern") + " " + strings.Join(some(t, "owners", genOwners, 0, 3), " ") + "\n")
	}
	b.Codeowners.Text, b.Policy.Text = lines.String(), r.toml()
	return b
}

func genPull(t *rapid.T, number int) policy.PullRequest {
	p := pull(number)
	p.Author = actor(rapid.SampledFrom(people).Draw(t, "author"))
	p.LastPusher.Actor = actor(rapid.SampledFrom(people).Draw(t, "pusher"))
	p.Labels = some(t, "labels", []string{"auto", "hold", "other"}, 0, 2)
	p.Files.Items = genFiles(t)
	p.ChangedFiles = len(p.Files.Items)
	if maybe(t, "base change") {
		p.BaseChange = policy.BaseChangeFact{State: policy.FactPresent, At: now.Add(-time.Duration(rapid.IntRange(0, 120).Draw(t, "base change at")) * time.Minute)}
	}
	p.OlderHeads[oldSHA] = policy.FileList{State: policy.FactPresent, ContentState: policy.FactPresent, Items: slices.Clone(p.Files.Items)}
	if maybe(t, "older differs") {
		p.OlderHeads[oldSHA] = policy.FileList{State: policy.FactPresent, ContentState: policy.FactPresent, Items: genFiles(t)}
	}
	for range rapid.IntRange(0, 6).Draw(t, "reviews") {
		who := rapid.SampledFrom(append(bots, people...)).Draw(t, "reviewer")
		state := rapid.SampledFrom([]string{"APPROVED", "APPROVED", "APPROVED", "CHANGES_REQUESTED", "DISMISSED", "COMMENTED"}).Draw(t, "state")
		addReview(&p, who, state, rapid.SampledFrom([]string{headSHA, headSHA, oldSHA}).Draw(t, "commit"))
	}
	if maybe(t, "asked") {
		genGlass(t, &p)
	}
	return p
}

func genFiles(t *rapid.T) []policy.ChangedFile {
	var out []policy.ChangedFile
	for _, path := range some(t, "changed", genPaths, 1, 4) {
		f := modified(path, "before", rapid.SampledFrom([]string{"one", "two"}).Draw(t, "content"))
		if rare(t, "renamed") {
			f.Status, f.PreviousPath = "renamed", "old/"+path
		}
		out = append(out, f)
	}
	return out
}

func genGlass(t *rapid.T, p *policy.PullRequest) {
	asker, other := rapid.SampledFrom(people).Draw(t, "asker"), rapid.SampledFrom(people).Draw(t, "confirmer")
	at := now.Add(-20 * time.Minute)
	p.Comments.Items = append(p.Comments.Items,
		policy.Comment{ID: 500, Author: actor(asker), CreatedAt: at, UpdatedAt: at, Body: fmt.Sprintf("/countersign break-glass head=%s until=%s reason=the site is down",
			rapid.SampledFrom([]string{headSHA, headSHA, oldSHA}).Draw(t, "glass head"), now.Add(time.Duration(rapid.IntRange(-1, 3).Draw(t, "hours"))*time.Hour).Format(time.RFC3339))},
		policy.Comment{ID: 501, Author: actor(other), CreatedAt: at, UpdatedAt: at, Body: "/countersign confirm-break-glass request=500 head=" + headSHA})
}
