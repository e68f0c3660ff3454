package convert_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/countersign/countersign/internal/convert"
)

// converted is the text of one file of a result.
func converted(t *testing.T, r convert.Result, path string) string {
	t.Helper()
	for _, f := range r.Files {
		if f.Path == path {
			return f.Text
		}
	}
	t.Fatalf("no %s among %d files", path, len(r.Files))
	return ""
}

func mustConvert(t *testing.T, kind convert.Kind, sources ...convert.Source) convert.Result {
	t.Helper()
	r, err := convert.Convert(kind, sources)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func lost(r convert.Result) []string {
	var all []string
	for _, l := range r.Lost {
		all = append(all, l.What)
	}
	return all
}

const head = "schema_version = 1\nenabled = true\n"

// body is a policy file below its comments.
func body(text string) string {
	_, after, _ := strings.Cut(text, head)
	return after
}

func TestPolicyBot(t *testing.T) {
	t.Parallel()
	rules := func(policy, rules string) convert.Source {
		return convert.Source{Path: ".policy.yml", Text: "policy:\n  approval:\n" + policy + "approval_rules:\n" + rules}
	}
	const platform = `- name: platform
  if: {changed_files: {paths: ["^infra/.*", '\.tf$'], ignore: ['^infra/docs/']}}
  options: {invalidate_on_push: true}
  requires: {count: 2, teams: ["Acme/Platform"], users: [alice]}
`
	t.Run("a rule by paths is a requirement from its people", func(t *testing.T) {
		t.Parallel()
		r := mustConvert(t, convert.PolicyBot, rules("  - platform\n", platform))
		want := "\n[[requirement]]\nname = \"platform\"\npaths = [\"/infra/\", \"*.tf\"]\nexclude = [\"/infra/docs/\"]\nfrom = [\"@alice\", \"@acme/platform\"]\ncount = 2\nexclude_author = true\n"
		if diff := cmp.Diff(want, body(converted(t, r, ".github/countersign.toml"))); diff != "" || len(r.Lost) != 0 || r.Share() != 1 {
			t.Errorf("%s%v", diff, r.Lost)
		}
	})
	const two = "- name: core\n  options: {invalidate_on_push: true}\n  requires: {count: 1, teams: [acme/core]}\n- name: leads\n  options: {invalidate_on_push: true}\n  requires: {count: 1, users: [bob]}\n"
	t.Run("alternatives that differ in people alone are one requirement", func(t *testing.T) {
		t.Parallel()
		r := mustConvert(t, convert.PolicyBot, rules("  - or: [core, leads]\n", two))
		want := "\n[[requirement]]\nname = \"core or leads\"\npaths = [\"*\"]\nfrom = [\"@acme/core\", \"@bob\"]\ncount = 1\nexclude_author = true\n"
		if diff := cmp.Diff(want, body(converted(t, r, ".github/countersign.toml"))); diff != "" || len(r.Lost) != 0 {
			t.Errorf("%s%v", diff, r.Lost)
		}
	})
	t.Run("rules that must all hold are each a requirement", func(t *testing.T) {
		t.Parallel()
		r := mustConvert(t, convert.PolicyBot, rules("  - and: [core, {or: [leads]}]\n", two))
		if n := strings.Count(converted(t, r, ".github/countersign.toml"), "[[requirement]]"); n != 2 || len(r.Lost) != 0 {
			t.Errorf("%d, %v", n, r.Lost)
		}
	})
	t.Run("alternatives that cannot be said are left out beside one that always applies, which is stricter", func(t *testing.T) {
		t.Parallel()
		r := mustConvert(t, convert.PolicyBot, rules("  - or:\n    - core\n    - trivial\n    - and: [leads, core]\n", two+"- name: trivial\n  if: {has_labels: [trivial]}\n"))
		if len(r.Lost) != 2 || r.Lost[0].Weakens || !strings.Contains(converted(t, r, ".github/countersign.toml"), `from = ["@acme/core"]`) {
			t.Errorf("%+v", r)
		}
	})
	t.Run("defaults and the branch that a policy is on", func(t *testing.T) {
		t.Parallel()
		r := mustConvert(t, convert.PolicyBot, convert.Source{Path: ".policy.yml", Text: "policy: {approval: [core]}\napproval_defaults: {options: {invalidate_on_push: true}}\napproval_rules:\n" +
			"- name: core\n  if: {targets_branch: {pattern: '^main$'}}\n  requires: {count: 1, teams: [acme/core]}\n"})
		if text := converted(t, r, ".github/countersign.toml"); len(r.Lost) != 0 || strings.Contains(text, "content_stable") || len(r.Notes) != 2 {
			t.Errorf("%+v", r)
		}
	})
	for name, source := range map[string]convert.Source{
		"alternatives by condition":      rules("  - or: [infra, small]\n", "- name: infra\n  if: {changed_files: {paths: ['^infra/']}}\n  requires: {count: 1, teams: [acme/infra]}\n"+"- name: small\n  if: {modified_lines: {total: '< 10'}}\n  requires: {count: 1, teams: [acme/all]}\n"),
		"a condition that no path says":  rules("  - x\n", "- name: x\n  if: {has_author_in: {teams: [acme/x]}}\n  requires: {count: 1, teams: [acme/core]}\n"),
		"approval by permission":         rules("  - x\n", "- name: x\n  requires: {count: 1, permissions: [admin]}\n"),
		"approval by anybody":            rules("  - x\n", "- name: x\n  requires: {count: 1}\n"),
		"a regular expression":           rules("  - x\n", "- name: x\n  if: {changed_files: {paths: ['[a-z]+_test']}}\n  requires: {count: 1, teams: [acme/core]}\n"),
		"conditions as requirement":      rules("  - x\n", "- name: x\n  requires: {conditions: {has_status: {statuses: [ci]}}}\n"),
		"a rule that is not there":       rules("  - nobody\n", two),
		"disapproval":                    {Path: ".policy.yml", Text: "policy:\n  approval: [core]\n  disapproval: {requires: {teams: [acme/core]}}\napproval_rules:\n" + two},
		"a policy in another repository": {Path: ".policy.yml", Text: "remote: acme/policies\npath: p.yml\n"},
	} {
		t.Run("what cannot be said is left out, and told: "+name, func(t *testing.T) {
			t.Parallel()
			r := mustConvert(t, convert.PolicyBot, source)
			weakens := false
			for _, l := range r.Lost {
				weakens = weakens || l.Weakens && l.Why != "" && l.Path == ".policy.yml"
			}
			if !weakens || r.Share() == 1 {
				t.Errorf("%+v", r)
			}
		})
	}
	t.Run("what is no policy is an error that names the file", func(t *testing.T) {
		t.Parallel()
		for _, text := range []string{"\t", "[1", "policy: 7"} {
			if _, err := convert.Convert(convert.PolicyBot, []convert.Source{{Path: "p.yml", Text: text}}); err == nil || !strings.Contains(err.Error(), "p.yml") {
				t.Errorf("%q: %v", text, err)
			}
		}
	})
}

func TestGlobs(t *testing.T) {
	t.Parallel()
	rows := map[string]string{
		`^a/b\.go$`: "/a/b.go", `^dir/`: "/dir/", `^dir/.*`: "/dir/", `^dir/.*$`: "/dir/", `\.go$`: "*.go", `.*\.go$`: "*.go", `^.*\.go$`: "*.go",
		`^src/.*\.ts$`: "/src/**/*.ts", `^src/[^/]+\.ts$`: "/src/*.ts", `.*`: "*", `^(a|b)/`: "/a/ /b/", `^a(/x)?/y$`: "/a/y /a/x/y", `/go\.mod$`: "/**/go.mod",
		`^a/.*/b$`: "/a/**/b",
		`foo`:      "", `^foo`: "/foo* /foo*/**", `^[^/]+\.md`: "/*.md* /*.md*/**", `^.*Dockerfile$`: "*Dockerfile", `^go.mod$`: "/go?mod", `foo/.*`: "", `[a-z]+`: "", `(?i)readme`: "", `^a\[b$`: "", `^a b$`: "", `(`: "", `^(a|bb|ccc){9}`: "",
	}
	for expression, want := range rows {
		patterns, ok := convert.Globs(expression)
		if got := strings.Join(patterns, " "); got != want || ok != (want != "") {
			t.Errorf("%s: %q, want %q", expression, got, want)
		}
	}
}

func TestCodeownersPlus(t *testing.T) {
	t.Parallel()
	r := mustConvert(t, convert.CodeownersPlus,
		convert.Source{Path: ".codeowners", Text: "* @Acme/Core # everybody\n**/*.js @acme/web\n& **/models.py @acme/data @alice\n? docs/ @acme/docs\nMakefile @bob\n"},
		convert.Source{Path: "web/.codeowners", Text: "* @acme/web\n*.css @acme/design\nlib/** @carol\n"},
		convert.Source{Path: "codeowners.toml", Text: "min_reviews = 2\nmax_reviews = 3\nignore = [\"vendor\"]\nallow_self_approval = true\n[enforcement]\napproval = true\n[admin_bypass]\nenabled = true\n"})
	wantOwners := "* @acme/core\n/web/ @acme/web\n/**/*.js @acme/web\n/web/lib/ @carol\n/web/*.css @acme/design\n/Makefile @bob\n/vendor/\n"
	if diff := cmp.Diff(wantOwners, converted(t, r, ".github/CODEOWNERS")); diff != "" {
		t.Error(diff)
	}
	wantPolicy := `allow_author_as_codeowner = true

[approvals]
content_stable = true

[[requirement]]
name = "at least 2 reviews"
paths = ["*"]
count = 2

[[requirement]]
name = "also /**/models.py"
paths = ["/**/models.py"]
exclude = ["/vendor/"]
from = ["@acme/data", "@alice"]
count = 1

[[requirement]]
name = "for information: /docs/"
paths = ["/docs/"]
exclude = ["/vendor/"]
optional = ["@acme/docs"]
`
	if diff := cmp.Diff(wantPolicy, body(converted(t, r, ".github/countersign.toml"))); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"max_reviews", "enforcement", "admin_bypass"}, lost(r)); diff != "" {
		t.Error(diff)
	}
	bad := mustConvert(t, convert.CodeownersPlus, convert.Source{Path: ".codeowners", Text: "* @a\n{a,b}.js @b\nx docs@example.com\n&\n"})
	if len(bad.Lost) != 3 || len(bad.Carried) != 1 {
		t.Errorf("%+v", bad)
	}
}

func TestNative(t *testing.T) {
	t.Parallel()
	owners := convert.Source{Path: ".github/CODEOWNERS", Text: "* @acme/core\n/docs/ docs@example.com\n!bad @x\n"}
	ruleset := convert.Source{Path: "ruleset.json", Text: `{"rules":[{"type":"pull_request","parameters":{"required_approving_review_count":2,"dismiss_stale_reviews_on_push":false,
		"require_code_owner_review":true,"require_last_push_approval":true,"required_review_thread_resolution":true}}],"bypass_actors":[{"actor_id":1}]}`}
	r := mustConvert(t, convert.Native, owners, ruleset)
	want := "\n[approvals]\ncontent_stable = true\nexclude_last_pusher = true\n\n[[requirement]]\nname = \"2 approvals of the owners\"\npaths = [\"*\"]\ncount = 2\n"
	if diff := cmp.Diff(want, body(converted(t, r, ".github/countersign.toml"))); diff != "" || len(r.Lost) != 4 {
		t.Errorf("%s%v", diff, lost(r))
	}
	if _, err := convert.Convert(convert.Native, []convert.Source{ruleset}); err == nil {
		t.Error("a ruleset alone was converted")
	}
	classic := mustConvert(t, convert.Native, owners, convert.Source{Path: "p.json", Text: `{"required_pull_request_reviews":{"dismiss_stale_reviews":true,"require_code_owner_reviews":true,"required_approving_review_count":1}}`})
	if body(converted(t, classic, ".github/countersign.toml")) != "" {
		t.Errorf("%+v", classic.Files)
	}
}

func TestExtraCodeowners(t *testing.T) {
	t.Parallel()
	repository := "schema_version = 1\nenabled = true\n\n[[delegations]]\napp = \"renovate\"\npaths = [\"/src/**\"]\nfor_owners = [\"*\"]\n"
	r := mustConvert(t, convert.ExtraCodeowners, convert.Source{Path: ".github/extra-codeowners.toml", Text: repository},
		convert.Source{Path: "org.toml", Text: "schema_version = 1\n[apps.renovate]\nslug = \"renovate\"\napp_id = 77\nbot_user_id = 901\n"})
	if converted(t, r, ".github/countersign.toml") != repository || len(r.Files) != 2 || len(r.Lost) != 0 || r.Share() != 1 {
		t.Errorf("%+v", r)
	}
	bad := mustConvert(t, convert.ExtraCodeowners, convert.Source{Path: "x.toml", Text: "schema_version = 1\nenabled = true\nextra = 1\n"})
	if len(bad.Files) != 0 || len(bad.Lost) == 0 {
		t.Errorf("%+v", bad)
	}
}

// Whatever is in the input, the result is read without a mistake or there is none, and nothing forges a line of it.
func TestHostileInput(t *testing.T) {
	t.Parallel()
	evil := "x\\\"\\u202e\\n[[delegations]]\\napp = 1"
	for _, s := range []struct {
		kind   convert.Kind
		source convert.Source
	}{
		{convert.PolicyBot, convert.Source{Path: ".policy.yml", Text: "policy: {approval: [\"" + evil + "\"]}\napproval_rules: [{name: \"" + evil + "\", requires: {count: 99, teams: [\"a/b\", \"" + evil + "\"]}}]\n"}},
		{convert.CodeownersPlus, convert.Source{Path: ".codeowners", Text: "* @a\n& " + strings.Repeat("ö", 30_000) + " @a\n& \u202ex\" @b\n? y\r @b @b\n"}},
		{convert.Native, convert.Source{Path: "CODEOWNERS", Text: strings.Repeat("/ö\u202e\" @a\n", 3000)}},
	} {
		r, err := convert.Convert(s.kind, []convert.Source{s.source})
		if err != nil {
			if !strings.Contains(err.Error(), "mistake") {
				t.Errorf("%s: %v", s.kind, err)
			}
			continue
		}
		for _, f := range r.Files {
			if strings.Contains(f.Text, "\n[[delegations]]") {
				t.Errorf("%s: a forged table in %s", s.kind, f.Text)
			}
		}
	}
}
