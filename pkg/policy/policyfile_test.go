package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/countersign/countersign/pkg/policy"
)

// mistake is one row: a file, and where each of its problems is. Want holds
// "line key" for every problem; empty means that the file is valid.
type mistake struct {
	name string
	text string
	want []string
}

func checkMistakes(t *testing.T, parse func(path string, text []byte) []policy.FileProblem, rows []mistake) {
	t.Helper()
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			problems := parse("policy.toml", []byte(row.text))
			var got []string
			for _, p := range problems {
				got = append(got, fmt.Sprintf("%d %s", p.Line, p.Key))
				if p.Message == "" || p.Mend == "" || p.Code == "" || p.Path != "policy.toml" {
					t.Errorf("a problem without message, mend, code or file: %+v", p)
				}
				if len(p.String()) > policy.MaxMessageChars {
					t.Errorf("RG-496: a message of %d bytes", len(p.String()))
				}
			}
			if strings.Join(got, "; ") != strings.Join(row.want, "; ") {
				t.Errorf("problems\n got %q\nwant %q\n%v", got, row.want, problems)
			}
		})
	}
}

func parseRepo(path string, text []byte) []policy.FileProblem {
	rules, problems := policy.ParseRepositoryPolicy(path, text)
	if (rules == nil) != (len(problems) > 0) {
		panic("rules and problems at once")
	}
	return problems
}

func parseOrg(path string, text []byte) []policy.FileProblem {
	rules, problems := policy.ParseOrganizationPolicy(path, text)
	if (rules == nil) != (len(problems) > 0) {
		panic("rules and problems at once")
	}
	return problems
}

const head = "schema_version = 1\nenabled = true\n"

func quoted(n int, format string) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = fmt.Sprintf(format, i)
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

func TestRepositoryPolicyFile(t *testing.T) {
	t.Parallel()
	d := func(body string) string { return head + "[[delegations]]\n" + body }
	good := "app = \"x\"\npaths = [\"a\"]\nfor_owners = [\"@a\"]\n"
	many := func(n int) string { return head + strings.Repeat("[[delegations]]\n"+good, n) }
	patterns := func(n int) string {
		return head + strings.Repeat("[[delegations]]\napp = \"x\"\nfor_owners = [\"*\"]\npaths = "+quoted(100, `"/p%d"`)+"\n", n)
	}
	req := func(body string) string { return head + "[[requirement]]\n" + body }
	checkMistakes(t, parseRepo, []mistake{
		{"RG-376 the smallest file", head, nil},
		{"RG-371 no schema_version", "enabled = true\n", []string{"1 schema_version"}},
		{"RG-371 schema_version 2", "schema_version = 2\nenabled = true\n", []string{"1 schema_version"}},
		{"RG-371 schema_version as a string", "schema_version = \"1\"\nenabled = true\n", []string{"1 schema_version"}},
		{"RG-371 schema_version as a boolean", "enabled = true\nschema_version = true\n", []string{"2 schema_version"}},
		{"RG-371 schema_version as a float", "schema_version = 1.0\nenabled = true\n", []string{"1 schema_version"}},
		{"RG-376 enabled is missing", "schema_version = 1\n", []string{"1 enabled"}},
		{"RG-376 enabled as a string", "schema_version = 1\nenabled = \"true\"\n", []string{"2 enabled"}},
		{"RG-376 enabled as an integer", "schema_version = 1\nenabled = 1\n", []string{"2 enabled"}},
		{"RG-372 an unknown key at the top", head + "enable = true\n", []string{"3 enable"}},
		{"RG-372 an unknown key in a delegation", d(good + "owners = []\n"), []string{"7 delegations[0].owners"}},
		{"RG-372 an unknown key in approvals", head + "[approvals]\nstrict = true\n", []string{"4 approvals.strict"}},
		{"RG-372 an unknown key in a requirement", req("name = \"x\"\npaths = [\"a\"]\ncount = 1\nreviewers = 2\n"), []string{"7 requirement[0].reviewers"}},
		{"RG-372 an unknown key in break_glass", head + "[break_glass]\nteams = [\"@a/b\"]\nmax_duration = \"1h\"\nwho = 1\n", []string{"6 break_glass.who"}},
		{"RG-372 an unknown table", head + "[apps.x]\nslug = \"x\"\n", []string{"3 apps"}},
		{"RG-379 a repository cannot enroll Apps nor set guardrails", head + "[apps.x]\nslug = \"x\"\napp_id = 1\nbot_user_id = 2\n[guardrails]\nnon_delegable_paths = []\n", []string{"3 apps", "7 guardrails"}},
		{"all problems are reported, each at its line", "schema_version = 1\n\nenabled = 3\nfoo = 1\n[[delegations]]\napp = \"x\"\npaths = [\"a\"]\nfor_owners = [\"@a\"]\n[[delegations]]\napp = \"-\"\npaths = [\n  \"ok\",\n  \"!no\",\n]\nfor_owners = [\"a\"]\n",
			[]string{"3 enabled", "4 foo", "10 delegations[1].app", "13 delegations[1].paths[1]", "15 delegations[1].for_owners[0]"}},
		{"a syntax error names its line", head + "[[delegations]\n", []string{"3 "}},
		{"a repeated key is an error of syntax", head + "enabled = false\n", []string{"3 enabled"}},
		{"not UTF-8", head + "# \xff\n", []string{"0 "}},
		{"over 1,000,000 bytes", head + strings.Repeat("# padding padding padding padding padding padding\n", 20_001), []string{"0 "}},
		{"RG-377 100 delegations", many(100), nil},
		{"RG-377 101 delegations", many(101), []string{"3 delegations"}},
		{"RG-377 1,000 patterns", patterns(10), nil},
		{"RG-377 1,001 patterns", patterns(10) + "[[delegations]]\n" + good, []string{"3 delegations"}},
		{"RG-377 no paths", d("app = \"x\"\nfor_owners = [\"@a\"]\n"), []string{"3 delegations[0].paths"}},
		{"RG-377 empty paths", d("app = \"x\"\npaths = []\nfor_owners = [\"@a\"]\n"), []string{"5 delegations[0].paths"}},
		{"RG-377 101 paths", d("app = \"x\"\nfor_owners = [\"*\"]\npaths = " + quoted(101, `"/p%d"`) + "\n"), []string{"6 delegations[0].paths"}},
		{"RG-377 no for_owners", d("app = \"x\"\npaths = [\"a\"]\n"), []string{"3 delegations[0].for_owners"}},
		{"RG-377 empty for_owners", d("app = \"x\"\npaths = [\"a\"]\nfor_owners = []\n"), []string{"6 delegations[0].for_owners"}},
		{"RG-377 101 for_owners", d("app = \"x\"\npaths = [\"a\"]\nfor_owners = " + quoted(101, `"@o%d"`) + "\n"), []string{"6 delegations[0].for_owners"}},
		{"RG-377 a star beside others", d("app = \"x\"\npaths = [\"a\"]\nfor_owners = [\"*\", \"@a\"]\n"), []string{"6 delegations[0].for_owners"}},
		{"RG-377 a star twice", d("app = \"x\"\npaths = [\"a\"]\nfor_owners = [\"*\", \"*\"]\n"), []string{"6 delegations[0].for_owners"}},
		{"RG-377 the same owner in another case", d("app = \"x\"\npaths = [\"a\"]\nfor_owners = [\"@A/b\", \"@a/B\"]\n"), []string{"6 delegations[0].for_owners[1]"}},
		{"RG-377 an e-mail owner", d("app = \"x\"\npaths = [\"a\"]\nfor_owners = [\"a@example.com\"]\n"), []string{"6 delegations[0].for_owners[0]"}},
		{"RG-377 50 labels", d(good + "required_labels = " + quoted(50, `"l%d"`) + "\n"), nil},
		{"RG-377 51 labels", d(good + "required_labels = " + quoted(51, `"l%d"`) + "\n"), []string{"7 delegations[0].required_labels"}},
		{"RG-377 51 forbidden labels", d(good + "forbidden_labels = " + quoted(51, `"l%d"`) + "\n"), []string{"7 delegations[0].forbidden_labels"}},
		{"RG-377 a label required and forbidden", d(good + "required_labels = [\"A\"]\nforbidden_labels = [\"a\"]\n"), []string{"8 delegations[0].forbidden_labels"}},
		{"RG-377 an empty label", d(good + "required_labels = [\" \"]\n"), []string{"7 delegations[0].required_labels[0]"}},
		{"RG-377 a label that is a number", d(good + "required_labels = [1]\n"), []string{"7 delegations[0].required_labels[0]"}},
		{"RG-319 patterns that mean nothing", d("app = \"x\"\nfor_owners = [\"*\"]\npaths = [\"\", \"!a\", \"[a]\", \"#a\", \"/\", \"a//b\", \"./a\", \"../a\", \"a\\\\\", \"***\", \"ok\"]\n"),
			[]string{"6 delegations[0].paths[0]", "6 delegations[0].paths[1]", "6 delegations[0].paths[2]", "6 delegations[0].paths[3]", "6 delegations[0].paths[4]", "6 delegations[0].paths[5]", "6 delegations[0].paths[6]", "6 delegations[0].paths[7]", "6 delegations[0].paths[8]", "6 delegations[0].paths[9]"}},
		{"delegations that are no tables", head + "delegations = [1]\n", []string{"3 delegations[0]"}},
		{"delegations that are one table", head + "[delegations]\n", []string{"3 delegations"}},
		{"inline tables keep their lines", head + "delegations = [\n  { app = \"x\", paths = [\"a\"],\n    for_owners = [\"@a\"], what = 1 },\n]\n", []string{"5 delegations[0].what"}},
		{"a full requirement", req("name = \"x\"\npaths = [\"a\"]\nfor_owners = [\"@a\"]\nexclude = [\"a/b\"]\nfrom = [\"@b\"]\ncount = 2\nhumans_min = 1\nall_of = [\"@c\"]\noptional = [\"@d\"]\nexclude_author = true\nexclude_last_pusher = true\n"), nil},
		{"a requirement without a name", req("paths = [\"a\"]\ncount = 1\n"), []string{"3 requirement[0].name"}},
		{"a requirement that selects nothing", req("name = \"x\"\ncount = 1\n"), []string{"3 requirement[0]"}},
		{"a requirement that requires nothing", req("name = \"x\"\npaths = [\"a\"]\n"), []string{"3 requirement[0]"}},
		{"a requirement with a count of zero", req("name = \"x\"\npaths = [\"a\"]\ncount = 0\n"), []string{"3 requirement[0]"}},
		{"a requirement with a name of 100 characters", req("name = \"" + strings.Repeat("n", 100) + "\"\npaths = [\"a\"]\ncount = 1\n"), nil},
		{"a requirement with a name of 101 characters", req("name = \"" + strings.Repeat("n", 101) + "\"\npaths = [\"a\"]\ncount = 1\n"), []string{"4 requirement[0].name"}},
		{"two requirements without a name", req("paths = [\"a\"]\ncount = 1\n[[requirement]]\npaths = [\"a\"]\ncount = 1\n"), []string{"3 requirement[0].name", "6 requirement[1].name"}},
		{"an App that is a number", d("app = 1\npaths = [\"a\"]\nfor_owners = [\"@a\"]\n"), []string{"4 delegations[0].app"}},
		{"a negative count", req("name = \"x\"\npaths = [\"a\"]\ncount = -1\n"), []string{"3 requirement[0]", "6 requirement[0].count"}},
		{"an owner required and optional", req("name = \"x\"\npaths = [\"a\"]\nall_of = [\"@a\"]\noptional = [\"@A\"]\n"), []string{"7 requirement[0].optional"}},
		{"two requirements of one name", req("name = \"x\"\npaths = [\"a\"]\ncount = 1\n[[requirement]]\nname = \"x\"\npaths = [\"a\"]\ncount = 1\n"), []string{"8 requirement[1].name"}},
		{"break_glass without teams", head + "[break_glass]\nmax_duration = \"1h\"\n", []string{"3 break_glass.teams"}},
		{"break_glass with a person", head + "[break_glass]\nteams = [\"@a\"]\nmax_duration = \"1h\"\n", []string{"4 break_glass.teams[0]"}},
		{"break_glass without a bound", head + "[break_glass]\nteams = [\"@a/b\"]\n", []string{"3 break_glass.max_duration"}},
		{"break_glass for too long", head + "[break_glass]\nteams = [\"@a/b\"]\nmax_duration = \"73h\"\n", []string{"5 break_glass.max_duration"}},
		{"break_glass for no duration", head + "[break_glass]\nteams = [\"@a/b\"]\nmax_duration = \"soon\"\n", []string{"5 break_glass.max_duration"}},
		{"an author who counts and is excluded", head + "allow_author_as_codeowner = true\n[approvals]\nexclude_author = true\n", []string{"5 approvals.exclude_author"}},
	})
}

func TestOrganizationPolicyFile(t *testing.T) {
	t.Parallel()
	const v1 = "schema_version = 1\n"
	app := func(alias, slug string, id, bot int) string {
		return fmt.Sprintf("[apps.%s]\nslug = %q\napp_id = %d\nbot_user_id = %d\n", alias, slug, id, bot)
	}
	apps := func(n int) string {
		text := v1
		for i := range n {
			text += app(fmt.Sprintf("a%d", i), fmt.Sprintf("s%d", i), i+1, 1000+i)
		}
		return text
	}
	checkMistakes(t, parseOrg, []mistake{
		{"RG-370 the fixture's file", orgPolicy, nil},
		{"RG-371 no schema_version", "", []string{"1 schema_version"}},
		{"RG-372 an unknown key at the top", v1 + "enabled = true\n", []string{"2 enabled"}},
		{"RG-372 an unknown key in an App", v1 + app("x", "x", 1, 2) + "note = \"\"\n", []string{"6 apps.x.note"}},
		{"RG-372 an unknown key in the guardrails", v1 + "[guardrails]\npaths = []\n", []string{"3 guardrails.paths"}},
		{"RG-373 50 aliases", apps(50), nil},
		{"RG-373 51 aliases", apps(51), []string{"2 apps"}},
		{"RG-373 aliases of every allowed form", v1 + app("a", "a", 1, 11) + app("A-b_9", "b", 2, 12) + app("9x", "c", 3, 13), nil},
		{"RG-373 an alias with an outer hyphen", v1 + app("x-", "x", 1, 2), []string{"2 apps.x-"}},
		{"RG-373 an alias with an outer underscore", v1 + app("_x", "x", 1, 2), []string{"2 apps._x"}},
		{"RG-373 an alias with a space", v1 + app(`"a b"`, "x", 1, 2), []string{"2 apps.a b"}},
		{"RG-373 aliases that are one after lower-casing", v1 + app("X", "x", 1, 11) + app("x", "y", 2, 12), []string{"6 apps.x"}},
		{"RG-374 everything is required", v1 + "[apps.x]\n", []string{"2 apps.x.app_id", "2 apps.x.bot_user_id", "2 apps.x.slug"}},
		{"RG-374 a slug with an underscore", v1 + app("x", "a_b", 1, 2), []string{"3 apps.x.slug"}},
		{"RG-374 a slug with an outer hyphen", v1 + app("x", "-a", 1, 2), []string{"3 apps.x.slug"}},
		{"RG-374 a slug that is a number", v1 + "[apps.x]\nslug = 1\napp_id = 1\nbot_user_id = 2\n", []string{"3 apps.x.slug"}},
		{"RG-374 an empty slug", v1 + app("x", "", 1, 2), []string{"3 apps.x.slug"}},
		{"RG-373 an empty alias", v1 + app(`""`, "x", 1, 2), []string{"2 apps."}},
		{"RG-374 the same slug in another case", v1 + app("x", "s", 1, 11) + app("y", "S", 2, 12), []string{"7 apps.y.slug"}},
		{"RG-374 the same app_id", v1 + app("x", "s", 1, 11) + app("y", "t", 1, 12), []string{"8 apps.y.app_id"}},
		{"RG-374 the same bot_user_id", v1 + app("x", "s", 1, 11) + app("y", "t", 2, 11), []string{"9 apps.y.bot_user_id"}},
		{"RG-374 app_id zero", v1 + app("x", "s", 0, 11), []string{"4 apps.x.app_id"}},
		{"RG-374 app_id negative", v1 + app("x", "s", -1, 11), []string{"4 apps.x.app_id"}},
		{"RG-374 app_id as a boolean", v1 + "[apps.x]\nslug = \"x\"\napp_id = true\nbot_user_id = 2\n", []string{"4 apps.x.app_id"}},
		{"RG-374 bot_user_id as a string", v1 + "[apps.x]\nslug = \"x\"\napp_id = 1\nbot_user_id = \"2\"\n", []string{"5 apps.x.bot_user_id"}},
		{"RG-375 100 guardrails", v1 + "[guardrails]\nnon_delegable_paths = " + quoted(100, `"/p%d"`) + "\n", nil},
		{"RG-375 101 guardrails", v1 + "[guardrails]\nnon_delegable_paths = " + quoted(101, `"/p%d"`) + "\n", []string{"3 guardrails.non_delegable_paths"}},
		{"RG-375 a guardrail that means nothing", v1 + "[guardrails]\nnon_delegable_paths = [\"/ok\", \"a//b\"]\n", []string{"3 guardrails.non_delegable_paths[1]"}},
		{"apps that are no table", v1 + "apps = []\n", []string{"2 apps"}},
		{"an App that is no table", v1 + "[apps]\nx = 1\n", []string{"3 apps.x"}},
		{"dotted keys keep their lines", v1 + "apps.x.slug = \"x\"\napps.x.app_id = 1\napps.x.bot_user_id = false\n", []string{"4 apps.x.bot_user_id"}},
	})
}

// TestHostilePolicyFiles: each of these once cost time or memory that grew with
// the square of the file; the test's own time limit is what it would exceed.
func TestHostilePolicyFiles(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 400_000)
	for name, text := range map[string]string{
		"a key of many parts": strings.Repeat("a.", 20_000) + "a = 1\n", "a table of many parts": "[" + strings.Repeat("a.", 20_000) + "a]\n",
		"a long key with many values": long + " = [" + strings.Repeat("1,", 200_000) + "]\n", "arrays in arrays": "a = " + strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000) + "\n",
		"tables in tables": "a = " + strings.Repeat("{a = ", 5_000) + "1" + strings.Repeat("}", 5_000) + "\n", "a long alias": "schema_version = 1\n[apps." + long + "]\n",
		"a long version": "schema_version = \"" + long + "\"\n", "many tables": strings.Repeat("[[a]]\n[a.b]\n", 5_000), "many unknown keys": func() string {
			var b strings.Builder
			for i := range 20_000 {
				fmt.Fprintf(&b, "k%d = 1\n", i)
			}
			return b.String()
		}(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, p := range append(parseRepo("p.toml", []byte(text)), parseOrg("p.toml", []byte(text))...) {
				if len(p.String()) > policy.MaxMessageChars || len(p.Key) > 200 {
					t.Fatalf("RG-496: a problem of %d bytes", len(p.String()))
				}
			}
		})
	}
}

func TestPolicyKind(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		repoPolicy: "repository", orgPolicy: "organization", "schema_version = 1\n": "", "not toml": "",
		"schema_version = 1\n[[delegations]]\n": "repository", "schema_version = 1\n[guardrails]\n": "organization",
	} {
		if got := policy.DetectPolicyKind([]byte(text)); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}
