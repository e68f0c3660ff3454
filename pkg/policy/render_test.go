package policy_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/countersign/countersign/pkg/policy"
)

// crafted are paths that try to leave their line or their <code>.
var crafted = []string{
	"a\n# heading", "a\r\n- item", "a\tb", "x\u2028# y", "x\u2029> y", "\u202egnp.exe", "a\u200bb", "a\u00a0b", "a\u0085b",
	"</code><h1>x</h1>", "`code`", "*bold*", "_it_", "~~x~~", "[x](http://evil.example)", "![x](y)", "<!-- x", "a|b|c", "# x", "- x", "> x", "1. x",
	"&lt;b&gt;", "&#60;b&#62;", "http://evil.example/x", "www.evil.example", "@acme/platform", "#123", ":smile:", "$x$", "a\x00b", "\x1b[31m", "\ufeffx", "```\nx\n```",
	"\U000e0041tag", "\u3164", "\u115f", "\u2066x\u2069",
}

func TestRender(t *testing.T) {
	t.Parallel()
	t.Run("RG-291 only success and failure are decisions, whatever the look", func(t *testing.T) {
		t.Parallel()
		missing, broken := policy.Evaluate(facts()), policy.Evaluate(facts(withCodeowners("!x\n")))
		for _, row := range []struct {
			v                  policy.Verdict
			look               policy.Look
			status, conclusion string
		}{
			{policy.Evaluate(facts(approves("bob"))), policy.LookPending, "completed", "success"},
			{missing, "", "completed", "failure"},
			{missing, policy.LookFailure, "completed", "failure"},
			{missing, policy.LookActionRequired, "completed", "action_required"},
			{missing, policy.LookPending, "in_progress", ""},
			{missing, "neutral", "completed", "failure"},
			{broken, policy.LookActionRequired, "completed", "failure"},
			{broken, policy.LookPending, "completed", "failure"},
			{policy.Verdict{}, policy.LookPending, "completed", "failure"},
		} {
			out := policy.Render(row.v, policy.RenderInput{MissingApproval: row.look})
			if out.Status != row.status || out.Conclusion != row.conclusion {
				t.Errorf("%s with look %q: %s %s", row.v.Conclusion, row.look, out.Status, out.Conclusion)
			}
		}
	})
	t.Run("RG-292 the title says what is to be done next", func(t *testing.T) {
		t.Parallel()
		for want, s := range map[string]policy.Snapshot{
			"Approval required: @acme/platform or @alice must approve src/a.go":                                                             facts(),
			"Approval required: @acme/platform or @alice must approve src/a.go and 2 more files":                                            facts(files("src/a.go", "src/b.go", "src/c.go")),
			"Approved: 1 requirement satisfied by 1 approver":                                                                               facts(approves("bob")),
			"Approved: no changed file has an owner":                                                                                        facts(files("free")),
			"Blocked: there is no CODEOWNERS file at the base commit; add .github/CODEOWNERS, or disable the policy":                        facts(withBase(func(b *policy.Base) { b.Codeowners = policy.FileFact{State: policy.FactAbsent} })),
			"Blocked: the policy at the base commit says enabled = false; set it to true to let Countersign decide":                         facts(withRawPolicy("schema_version = 1\nenabled = false\n")),
			"Blocked: .github/countersign.toml and .github/extra-codeowners.toml both exist at the base commit; delete one of them":         facts(withBase(func(b *policy.Base) { b.FallbackPolicy = b.Policy })),
			"Blocked: .github/countersign.toml:2: enabled: must be a boolean, not an integer; write true or false":                          facts(withRawPolicy("schema_version = 1\nenabled = 1\n")),
			"Blocked: GitHub counts 2 changed files and listed 1; the list is read again":                                                   facts(pullMod(func(p *policy.PullRequest) { p.ChangedFiles = 2 })),
			"Blocked: the permission of @alice on the repository could not be read; it is read again":                                       facts(approves("alice"), user("alice", func(u *policy.UserFact) { u.State = policy.FactUnknown })),
			"Blocked: .github/CODEOWNERS: line 1, column 1: pattern \"!x\": a pattern cannot be negated with !; remove the line, or end w…": facts(withCodeowners("!x\n")),
		} {
			got := policy.Render(policy.Evaluate(s), policy.RenderInput{}).Title
			if cut, found := strings.CutSuffix(want, "…"); found && strings.HasPrefix(got, cut) {
				continue
			}
			if got != want {
				t.Errorf("title\n got %q\nwant %q", got, want)
			}
		}
	})
	t.Run("RG-292 unfinished runs say why", func(t *testing.T) {
		t.Parallel()
		seen := map[string]bool{}
		for _, reason := range []policy.InProgressReason{policy.InProgressEvaluating, policy.InProgressReevaluating, policy.InProgressUncertain} {
			out := policy.RenderInProgress(reason)
			if out.Status != "in_progress" || out.Conclusion != "" || out.Title == "" || out.Summary == "" || seen[out.Title] {
				t.Errorf("%s: %+v", reason, out)
			}
			seen[out.Title] = true
		}
	})
	t.Run("RG-293 title, summary and text stay within GitHub's limits and are cut whole", func(t *testing.T) {
		t.Parallel()
		var rules strings.Builder
		paths := []string{}
		for i := range 300 {
			name := fmt.Sprintf("d%03d_%s", i, strings.Repeat("<é*", 60))
			fmt.Fprintf(&rules, "/%s/ @alice @owner-%d\n", strings.ReplaceAll(name, "*", `?`), i)
			for j := range 5 {
				paths = append(paths, fmt.Sprintf("%s/%d", name, j))
			}
		}
		v := policy.Evaluate(facts(withCodeowners(rules.String()), files(paths...)))
		if n := len(v.Pulls[0].Groups); n != 300 {
			t.Fatalf("%d groups: the decision must use everything", n)
		}
		out := policy.Render(v, policy.RenderInput{})
		checkOutput(t, out)
		if len(out.Text) < 60_000 || !strings.Contains(out.Text, "lines are left out here; the decision used all of them") {
			t.Errorf("text of %d bytes is not cut as expected", len(out.Text))
		}
	})
	t.Run("RG-297 errors, warnings, sets, paths and unowned paths are all there", func(t *testing.T) {
		t.Parallel()
		s := facts(withPolicy(delegation), files("src/a.go", "docs/b.md", "prod/x.tf", "free.txt"), withCodeowners(codeowners+"/.github/ @acme/docs\n"),
			approves("bob"), review("carol", "APPROVED", oldSHA), rename("docs/old.md", "src/new.md"))
		s.Bases[baseSHA] = func() policy.Base {
			b := s.Bases[baseSHA]
			b.CodeownersErrors.Items = []policy.CodeownersError{{Line: 2, Kind: "Unknown owner", Suggestion: "make sure @acme/docs exists"}}
			return b
		}()
		out := policy.Render(policy.Evaluate(s), policy.RenderInput{})
		for _, want := range []string{
			"⛔ Error (<code>github&#95;codeowners&#95;error</code>): GitHub rejects line 2 of .github/CODEOWNERS\\: Unknown owner\\: make sure \\@acme/docs exists",
			"⚠️ Warning (<code>stale&#95;approval&#95;ignored</code>): the approval of carol is for an older commit",
			"### ✅ Owners <code>&#64;acme/platform</code> or <code>&#64;alice</code>", "### ❌ Owners <code>&#64;acme/docs</code>",
			"✅ Approved by <code>bob</code> as <code>&#64;acme/platform</code>",
			"<code>docs/old.md</code> (renamed to <code>src/new.md</code>): line 2, <code>/docs/</code>",
		} {
			if !strings.Contains(out.Text, want) {
				t.Errorf("text lacks %q\n%s", want, out.Text)
			}
		}
		out = policy.Render(policy.Evaluate(facts(files("free.txt", "prod/x.tf"), withPolicy(delegation))), policy.RenderInput{})
		for _, want := range []string{"### Paths without an owner", "- <code>free.txt</code>", "no App may approve it: <code>/prod/&#42;&#42;</code>"} {
			if !strings.Contains(out.Text, want) {
				t.Errorf("text lacks %q\n%s", want, out.Text)
			}
		}
	})
	t.Run("RG-299 insecure mode is in the summary", func(t *testing.T) {
		t.Parallel()
		insecure := func(s *policy.Snapshot) { s.Settings.AllowInsecureChanges = true }
		const want = "switched off the built-in protection"
		if out := policy.Render(policy.Evaluate(facts(insecure)), policy.RenderInput{}); !strings.Contains(out.Summary, want) {
			t.Errorf("summary %q", out.Summary)
		}
		if out := policy.Render(policy.Evaluate(facts()), policy.RenderInput{Insecure: true}); !strings.Contains(out.Summary, want) {
			t.Errorf("summary %q", out.Summary)
		}
		if out := policy.Render(policy.Evaluate(facts()), policy.RenderInput{}); strings.Contains(out.Summary, want) {
			t.Errorf("summary %q", out.Summary)
		}
	})
	t.Run("RG-300 a completed check carries the button", func(t *testing.T) {
		t.Parallel()
		for _, s := range []policy.Snapshot{facts(), facts(approves("bob"))} {
			out := policy.Render(policy.Evaluate(s), policy.RenderInput{})
			if len(out.Actions) != 1 || out.Actions[0].Identifier != "re-evaluate" || len(out.Actions[0].Label) > 20 || len(out.Actions[0].Description) > 40 {
				t.Errorf("actions %+v", out.Actions)
			}
		}
	})
}

func TestCraftedPaths(t *testing.T) {
	t.Parallel()
	t.Run("RG-298 RG-497 a path shows as one inert line wherever it appears", func(t *testing.T) {
		t.Parallel()
		clean := policy.Render(policy.Evaluate(facts(withCodeowners("/src/ @acme/platform\n"), files("src/x", "x"), withPolicy(delegation))), policy.RenderInput{})
		for _, evil := range crafted {
			s := facts(withCodeowners("/src/ @acme/platform\n"), files("src/"+evil, evil), withPolicy(delegation))
			out := policy.Render(policy.Evaluate(s), policy.RenderInput{})
			checkOutput(t, out)
			if v := policy.Evaluate(s); len(v.Pulls[0].Groups) == 0 {
				continue // refused as evidence (RG-327); checkOutput saw the error text
			}
			if got, want := shape(out.Text), shape(clean.Text); got != want {
				t.Errorf("%q changes the layout\n got %s\nwant %s\n%s", evil, got, want, out.Text)
			}
		}
	})
	t.Run("RG-298 names and reasons from people are inert too", func(t *testing.T) {
		t.Parallel()
		for _, evil := range crafted {
			s := facts(withPolicy(glass+"[[requirement]]\nname = \"x\"\npaths = [\"*\"]\ncount = 1\n"),
				approves("bob"), labels(evil), comment(500, "carol", 5, "/countersign break-glass "+evil), pullMod(func(p *policy.PullRequest) {
					p.BaseRef = evil
					p.Reviews.Items[0].Author.Login = "x" + evil
				}))
			checkOutput(t, policy.Render(policy.Evaluate(s), policy.RenderInput{}))
		}
	})
}

// shape is the layout of a text: how each line begins.
func shape(text string) string {
	var b strings.Builder
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimLeft(line, " ")
		switch {
		case strings.HasPrefix(line, "#"):
			b.WriteString(line[:strings.IndexByte(line, ' ')])
		case strings.HasPrefix(line, "- "):
			b.WriteByte('-')
		case line == "":
			b.WriteByte('.')
		default:
			b.WriteByte('x')
		}
	}
	return b.String()
}

// checkOutput holds an output to GitHub's limits and to inertness: the only
// tags are balanced <code>, the only lines are the ones this package begins,
// and nothing is invisible.
func checkOutput(t reporter, out policy.CheckOutput) {
	t.Helper()
	if len(out.Title) > policy.MaxTitleBytes || len(out.Summary) > policy.MaxTextBytes || len(out.Text) > policy.MaxTextBytes {
		t.Fatalf("RG-293: %d, %d and %d bytes", len(out.Title), len(out.Summary), len(out.Text))
	}
	if out.Title == "" || out.Summary == "" || !utf8.ValidString(out.Title+out.Summary+out.Text) {
		t.Fatalf("empty or not UTF-8: %q", out.Title)
	}
	if strings.ContainsAny(out.Title, "\n\r") || hasHidden(out.Title) {
		t.Fatalf("the title has a line break or a hidden character: %q", out.Title)
	}
	for _, block := range []string{out.Summary, out.Text} {
		for line := range strings.SplitSeq(block, "\n") {
			checkLine(t, line)
		}
	}
}

func checkLine(t reporter, line string) {
	t.Helper()
	known := line == ""
	for _, begin := range []string{
		"## ✅ Pull request ", "## ❌ Pull request ", "### ✅ ", "### ❌ ", "### ℹ️ ", "### 🚨 Released", "### Break-glass", "### Paths without an owner",
		"- ⛔ Error (", "- ⚠️ Warning (", "- ℹ️ Note (", "- Missing: ", "- Next: ", "- ✅ ", "- ➖ ", "- 🤖 The App ", "- <code>", "- and ",
		"- ❌ pull request ", "- Asked for by ", "- Reason: ", "- Ends at ", "They require no approval.", "Decided for commit ", "Judged by ", "… ",
		"✅ **Approved.**", "🚨 **Released", "❌ **Approval required.**", "⛔ **Blocked.**", "⚠️ The operator", "This commit is the head of ",
	} {
		known = known || strings.HasPrefix(line, begin)
	}
	if !known {
		t.Fatalf("RG-497: a line this package does not begin: %q", line)
	}
	rest := strings.ReplaceAll(line, "**Approved.**", "")
	for _, own := range []string{"**Released by break-glass, not by its owners.**", "**Approval required.**", "**Blocked.**"} {
		rest = strings.ReplaceAll(rest, own, "")
	}
	depth := 0
	for rest != "" {
		switch {
		case strings.HasPrefix(rest, "<code>"):
			depth++
			rest = rest[len("<code>"):]
		case strings.HasPrefix(rest, "</code>"):
			depth--
			rest = rest[len("</code>"):]
		case rest[0] == '<' || rest[0] == '>':
			t.Fatalf("RG-298: a bare %q in %q", rest[0], line)
		case rest[0] == '\\' && len(rest) > 1 && depth == 0:
			rest = rest[2:]
		case strings.ContainsRune("*_`[]~|", rune(rest[0])):
			t.Fatalf("RG-298: bare Markdown %q in %q", rest[0], line)
		default:
			_, n := utf8.DecodeRuneInString(rest)
			rest = rest[n:]
		}
		if depth < 0 || depth > 1 {
			t.Fatalf("RG-298: unbalanced <code> in %q", line)
		}
	}
	if depth != 0 {
		t.Fatalf("RG-298: <code> is not closed in %q", line)
	}
	if hasHidden(strings.ReplaceAll(line, "\ufe0f", "")) {
		t.Fatalf("RG-298: a hidden character in %q", line)
	}
}

// hasHidden is the test's own list, apart from the one under test.
func hasHidden(s string) bool {
	for _, r := range s {
		switch {
		case r < 0x20, r == 0x7f, r >= 0x80 && r <= 0xa0, r == 0xad, r >= 0x200b && r <= 0x200f, r >= 0x2028 && r <= 0x202f,
			r >= 0x2060 && r <= 0x206f, r == 0xfeff, r == 0x61c, r == 0x180e, r == 0x3164, r == 0x115f, r >= 0xe0000 && r <= 0xe0fff:
			return true
		}
	}
	return false
}

// reporter is what *testing.T, *testing.F's T and *rapid.T have in common.
type reporter interface {
	Helper()
	Fatalf(format string, args ...any)
}
