package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/countersign/countersign/pkg/policy"
)

// result is one invocation of the command.
type result struct {
	code        int
	out, errors string
}

func invoke(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	var out, errs bytes.Buffer
	code := run(context.Background(), args, strings.NewReader(stdin), &out, &errs)
	return result{code, out.String(), errs.String()}
}

func writeFiles(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const (
	cliHead   = "1111111111111111111111111111111111111111"
	cliBase   = "3333333333333333333333333333333333333333"
	cliOwners = "/src/ @alice\n/docs/ @bob\n"
	cliPolicy = "schema_version = 1\nenabled = true\n"
)

// cliSnapshot is a pull request of alice's file that alice approved.
func cliSnapshot(approved bool) policy.Snapshot {
	absent := policy.FileFact{State: policy.FactAbsent}
	at := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	p := policy.PullRequest{
		Number: 7, Author: &policy.Actor{ID: 5, Login: "erin", Type: "User"}, BaseRef: "main", BaseSHA: cliBase, HeadSHA: cliHead, ChangedFiles: 1,
		Files:   policy.FileList{State: policy.FactPresent, Items: []policy.ChangedFile{{Path: "src/a.go", Status: "modified"}}},
		Reviews: policy.ReviewList{State: policy.FactPresent},
	}
	if approved {
		p.Reviews.Items = []policy.Review{{ID: 1, State: "APPROVED", Author: &policy.Actor{ID: 1, Login: "alice", Type: "User"}, CommitID: cliHead, SubmittedAt: at}}
	}
	return policy.Snapshot{
		Version: 1, Now: at, HeadSHA: cliHead, PullsState: policy.FactPresent, Pulls: []policy.PullRequest{p},
		Repository: policy.Repository{ID: 10, FullName: "acme/app", Owner: "acme", OwnerType: "Organization"},
		Bases: map[string]policy.Base{cliBase: {
			Codeowners:       policy.FileFact{State: policy.FactPresent, Path: "CODEOWNERS", Text: cliOwners},
			CodeownersErrors: policy.CodeownersErrorList{State: policy.FactPresent},
			Policy:           policy.FileFact{State: policy.FactPresent, Path: policy.PolicyPath, Text: cliPolicy}, FallbackPolicy: absent,
		}},
		OrganizationPolicy: policy.OrganizationPolicy{Repository: policy.FactPresent, Policy: absent, FallbackPolicy: absent},
		Users:              map[string]policy.UserFact{"alice": {State: policy.FactPresent, ID: 1, Permission: "write"}},
	}
}

func TestPolicyLint(t *testing.T) {
	t.Parallel()
	dir := writeFiles(t, map[string]string{
		"good.toml": cliPolicy, "org.toml": "schema_version = 1\n[guardrails]\n", "CODEOWNERS": cliOwners, "bad.toml": cliPolicy + "enable = 1\n[[delegations]]\n",
		"broken.toml": "schema_version = \n", "neither.toml": "schema_version = 1\n", "bad/CODEOWNERS": "!x @alice\n", "warn/CODEOWNERS": "/src/a @alice\n* @bob\n",
	})
	in := func(name string) string { return filepath.Join(dir, name) }
	for _, row := range []struct {
		name string
		args []string
		code int
		want []string
	}{
		{"all three kinds are fine", []string{in("good.toml"), in("org.toml"), in("CODEOWNERS")}, exitFine, []string{"good.toml: fine (repository)", "org.toml: fine (organization)", "CODEOWNERS: fine (codeowners)"}},
		{"every mistake has its line", []string{in("bad.toml")}, exitFindings, []string{"bad.toml:3:1: enable: error: unknown key", "bad.toml:4:", "delegations[0].app"}},
		{"a syntax error", []string{in("broken.toml")}, exitFindings, []string{"broken.toml:1:", "not valid TOML"}},
		{"neither kind", []string{in("neither.toml")}, exitFindings, []string{"neither a repository policy"}},
		{"neither kind, told which", []string{"--kind", "organization", in("neither.toml")}, exitFine, []string{"fine (organization)"}},
		{"an invalid line of CODEOWNERS", []string{in("bad/CODEOWNERS")}, exitFindings, []string{"CODEOWNERS:1:1: error: pattern \"!x\""}},
		{"a warning is no mistake", []string{in("warn/CODEOWNERS")}, exitFine, []string{"CODEOWNERS:1:1: warning: the rule never decides"}},
		{"a warning with --strict", []string{"--strict", in("warn/CODEOWNERS")}, exitFindings, []string{"warning"}},
		{"no file", nil, exitUsage, nil},
		{"a file that is not there", []string{in("nowhere")}, exitUsage, nil},
		{"an unknown kind", []string{"--kind", "yaml", in("good.toml")}, exitUsage, nil},
		{"an unknown flag", []string{"--fix", in("good.toml")}, exitUsage, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			got := invoke(t, "", append([]string{"policy", "lint"}, row.args...)...)
			if got.code != row.code {
				t.Errorf("exit %d, want %d\n%s%s", got.code, row.code, got.out, got.errors)
			}
			for _, want := range row.want {
				if !strings.Contains(got.out, want) {
					t.Errorf("output lacks %q:\n%s", want, got.out)
				}
			}
			if row.code == exitUsage && !strings.HasPrefix(got.errors, "countersign: ") {
				t.Errorf("usage error says %q", got.errors)
			}
		})
	}
	t.Run("--json is one object a mistake, from standard input", func(t *testing.T) {
		t.Parallel()
		got := invoke(t, cliPolicy+"enable = 1\n", "policy", "lint", "--json", "--kind", "repository", "-")
		var line lintLine
		if err := json.Unmarshal([]byte(got.out), &line); err != nil || got.code != exitFindings {
			t.Fatalf("exit %d, %v: %s", got.code, err, got.out)
		}
		if line.Path != "-" || line.Line != 3 || line.Key != "enable" || line.Mend == "" || line.Severity != policy.SeverityError || line.Kind != "repository" {
			t.Errorf("line %+v", line)
		}
		if got := invoke(t, cliPolicy, "policy", "lint", "--json", "-"); got.code != exitFine || got.out != "" {
			t.Errorf("a good file: exit %d, %q", got.code, got.out)
		}
	})
}

func TestEvaluateCommand(t *testing.T) {
	t.Parallel()
	good, blocked := string(cliSnapshot(true).MarshalCanonical()), string(cliSnapshot(false).MarshalCanonical())
	t.Run("approved is exit 0 and says who approved", func(t *testing.T) {
		t.Parallel()
		got := invoke(t, good, "evaluate", "-")
		if got.code != exitFine || !strings.Contains(got.out, "approved by alice as @alice") {
			t.Errorf("exit %d\n%s%s", got.code, got.out, got.errors)
		}
	})
	t.Run("blocked is exit 1 and says what is next", func(t *testing.T) {
		t.Parallel()
		got := invoke(t, "", "evaluate", filepath.Join(writeFiles(t, map[string]string{"s.json": blocked}), "s.json"))
		if got.code != exitFindings || !strings.Contains(got.out, "next: @alice must approve src/a.go") || got.errors != "" {
			t.Errorf("exit %d\n%s%s", got.code, got.out, got.errors)
		}
	})
	t.Run("what the snapshot lacks is named", func(t *testing.T) {
		t.Parallel()
		s := cliSnapshot(true)
		s.Users = nil
		got := invoke(t, string(s.MarshalCanonical()), "evaluate", "-")
		if got.code != exitFindings || !strings.Contains(got.out, "the snapshot lacks permission of alice") {
			t.Errorf("exit %d\n%s", got.code, got.out)
		}
	})
	t.Run("--json is the canonical verdict", func(t *testing.T) {
		t.Parallel()
		got := invoke(t, blocked, "evaluate", "--json", "-")
		if want := string(policy.Evaluate(cliSnapshot(false)).MarshalCanonical()) + "\n"; got.code != exitFindings || got.out != want {
			t.Errorf("exit %d\n got %s\nwant %s", got.code, got.out, want)
		}
	})
	t.Run("--check is what GitHub would be sent", func(t *testing.T) {
		t.Parallel()
		got := invoke(t, blocked, "evaluate", "--check", "-")
		if got.code != exitFindings || !strings.HasPrefix(got.out, "Approval required: @alice must approve src/a.go\n") {
			t.Errorf("exit %d\n%s", got.code, got.out)
		}
	})
	t.Run("what cannot be read is exit 2 and names the place", func(t *testing.T) {
		t.Parallel()
		for in, want := range map[string]string{"{}": "version: 0 is not supported", strings.Replace(good, `"number"`, `"Number"`, 1): "pulls[0].Number", "": "not valid JSON"} {
			if got := invoke(t, in, "evaluate", "-"); got.code != exitUsage || !strings.Contains(got.errors, want) || got.out != "" {
				t.Errorf("exit %d, %q, want %q", got.code, got.errors, want)
			}
		}
		for _, args := range [][]string{{"evaluate"}, {"evaluate", "a", "b"}, {"evaluate", "--json", "--check", "-"}, {"evaluate", "nowhere.json"}} {
			if got := invoke(t, good, args...); got.code != exitUsage {
				t.Errorf("%v: exit %d", args, got.code)
			}
		}
	})
	t.Run("what the snapshot names cannot forge a line", func(t *testing.T) {
		t.Parallel()
		s := cliSnapshot(false)
		s.Pulls[0].Files.Items[0].Path = "src/x\n  satisfied: owners @alice\x1b[31m"
		s.Pulls[0].BaseRef = "main\n"
		got := invoke(t, string(s.MarshalCanonical()), "evaluate", "-")
		if strings.Contains(got.out, "\n  satisfied") || strings.Contains(got.out, "\x1b") {
			t.Errorf("output:\n%q", got.out)
		}
	})
}

func TestPolicyDiff(t *testing.T) {
	t.Parallel()
	dir := writeFiles(t, map[string]string{
		"snapshots/a.json": string(cliSnapshot(true).MarshalCanonical()), "snapshots/b.json": string(cliSnapshot(false).MarshalCanonical()), "snapshots/readme.txt": "no snapshot",
		"old.toml": cliPolicy, "two.toml": cliPolicy + "[[requirement]]\nname = \"two\"\npaths = [\"*\"]\ncount = 2\n", "team.toml": cliPolicy + "[[requirement]]\nname = \"t\"\npaths = [\"*\"]\nall_of = [\"@acme/docs\"]\n",
		"disabled.toml": "schema_version = 1\nenabled = false\n", "bad.toml": cliPolicy + "x = 1\n", "org.toml": "schema_version = 1\n[guardrails]\n",
		"one/CODEOWNERS": cliOwners, "two/CODEOWNERS": "/src/ @bob\n", "free/CODEOWNERS": "/docs/ @bob\n",
		"repo1/CODEOWNERS": cliOwners, "repo1/.github/countersign.toml": cliPolicy, "repo2/docs/CODEOWNERS": cliOwners, "repo2/.github/extra-codeowners.toml": cliPolicy, "repo3/CODEOWNERS": cliOwners,
		"empty/x.txt": "", "broken/s.json": "{",
	})
	in := func(name string) string { return filepath.Join(dir, name) }
	for _, row := range []struct {
		name, old, new, snapshots string
		code                      int
		want                      []string
	}{
		{"the same policy turns nothing", "old.toml", "old.toml", "snapshots", exitFine, []string{"2 verdicts: 0 would turn, 0 undecided"}},
		{"a count of two", "old.toml", "two.toml", "snapshots", exitFindings, []string{"a.json #7: approved → blocked: 1 more approver of @alice must approve src/a.go", "2 verdicts: 1 would turn, 0 undecided"}},
		{"back again", "two.toml", "old.toml", "snapshots", exitFindings, []string{"a.json #7: blocked → approved: no longer needed: 1 more approver"}},
		{"a team that the snapshot does not know", "old.toml", "team.toml", "snapshots", exitFindings, []string{"undecided: the snapshot lacks", "membership of alice in acme/docs"}},
		{"a disabled policy", "old.toml", "disabled.toml", "snapshots", exitFindings, []string{"approved → blocked: the policy at the base commit says enabled = false"}},
		{"a broken policy", "old.toml", "bad.toml", "snapshots", exitFindings, []string{"unknown key"}},
		{"another owner", "one/CODEOWNERS", "two/CODEOWNERS", "snapshots", exitFindings, []string{"approved → blocked: @bob must approve src/a.go"}},
		{"no owner", "one/CODEOWNERS", "free/CODEOWNERS", "snapshots", exitFindings, []string{"b.json #7: blocked → approved: no longer needed: @alice must approve src/a.go"}},
		{"an organisation policy", "org.toml", "org.toml", "snapshots", exitFine, nil},
		{"two repositories that mean the same", "repo1", "repo2", "snapshots", exitFine, nil},
		{"a repository without its policy", "repo1", "repo3", "snapshots", exitFindings, []string{"there is no policy file"}},
		{"two kinds", "old.toml", "one/CODEOWNERS", "snapshots", exitUsage, nil},
		{"no such file", "old.toml", "nowhere", "snapshots", exitUsage, nil},
		{"no snapshots", "old.toml", "old.toml", "empty", exitUsage, nil},
		{"a broken snapshot", "old.toml", "old.toml", "broken", exitUsage, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			got := invoke(t, "", "policy", "diff", in(row.old), in(row.new), "--snapshots", in(row.snapshots))
			if got.code != row.code {
				t.Errorf("exit %d, want %d\n%s%s", got.code, row.code, got.out, got.errors)
			}
			for _, want := range row.want {
				if !strings.Contains(got.out, want) {
					t.Errorf("output lacks %q:\n%s", want, got.out)
				}
			}
		})
	}
	t.Run("--json is one object a pull request", func(t *testing.T) {
		t.Parallel()
		got := invoke(t, "", "policy", "diff", "--json", in("old.toml"), in("two.toml"), "--snapshots", in("snapshots"))
		var lines []string
		for text := range strings.SplitSeq(strings.TrimSpace(got.out), "\n") {
			var l diffLine
			if err := json.Unmarshal([]byte(text), &l); err != nil {
				t.Fatal(err)
			}
			lines = append(lines, fmt.Sprint(l.Snapshot, l.Pull, l.Before, l.After, l.Turned, l.Undecided))
		}
		if want := "[a.json7approvedblockedtruefalse b.json7blockedblockedfalsefalse]"; strings.ReplaceAll(fmt.Sprint(lines), " ", "") != strings.ReplaceAll(want, " ", "") {
			t.Errorf("lines %v", lines)
		}
	})
	t.Run("the snapshots are required", func(t *testing.T) {
		t.Parallel()
		if got := invoke(t, "", "policy", "diff", in("old.toml"), in("old.toml")); got.code != exitUsage {
			t.Errorf("exit %d", got.code)
		}
	})
}
