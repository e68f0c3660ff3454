package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/countersign/countersign/internal/explain"
	"github.com/countersign/countersign/pkg/policy"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/store/storetest"
)

const (
	testHead = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	testBase = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
)

// hostile is what an attacker may call things: markup, direction marks, controls, and more than anybody reads.
var hostile = "<img src=x onerror=alert(1)>\u202e\x1b[2J\n## Forged `code` | cell |\r::error::" + strings.Repeat("ö", 30_000)

// testSnapshot is pull request 7 of acme/api, which core has to approve.
func testSnapshot(codeowners string, files ...string) policy.Snapshot {
	s := policy.Snapshot{
		Version: policy.SnapshotVersion, Now: time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC), HeadSHA: testHead, PullsState: policy.FactPresent,
		Repository: policy.Repository{ID: 10, FullName: "acme/api", Owner: "acme", OwnerType: "Organization"},
		Pulls: []policy.PullRequest{{
			Number: 7, Author: &policy.Actor{ID: 5, Login: "dana", Type: "User"}, BaseRef: "main", BaseSHA: testBase, HeadSHA: testHead, Labels: []string{}, ChangedFiles: len(files),
			Files: policy.FileList{State: policy.FactPresent}, Reviews: policy.ReviewList{State: policy.FactPresent},
		}},
		Bases: map[string]policy.Base{testBase: {
			Codeowners: policy.FileFact{State: policy.FactPresent, Path: ".github/CODEOWNERS", Text: codeowners}, CodeownersErrors: policy.CodeownersErrorList{State: policy.FactPresent},
			Policy:         policy.FileFact{State: policy.FactPresent, Path: policy.PolicyPath, Text: "schema_version = 1\nenabled = true\n"},
			FallbackPolicy: policy.FileFact{State: policy.FactAbsent},
		}},
		OrganizationPolicy: policy.OrganizationPolicy{Repository: policy.FactPresent, Policy: policy.FileFact{State: policy.FactAbsent}, FallbackPolicy: policy.FileFact{State: policy.FactAbsent}},
	}
	for _, f := range files {
		s.Pulls[0].Files.Items = append(s.Pulls[0].Files.Items, policy.ChangedFile{Path: f, Status: "modified"})
	}
	return s
}

// decide plays the services from the event to the confirmed decision.
func decide(t *testing.T, db *storetest.DB, s policy.Snapshot, title string) store.DecisionID {
	t.Helper()
	owner := db.Store(storetest.Owner)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := owner.AcceptDirect(t.Context(), store.Delivery{ID: store.DeliveryID(fmt.Sprint("d", time.Now().UnixNano())), Event: "pull_request", Action: "opened"}, store.DirectWork{
		Installation: 1, AccountLogin: "acme", Repository: 10, FullName: "acme/api", Number: 7, Head: testHead, BaseRef: "main", State: "open", Title: title, AuthorLogin: "dana", Reason: "pull_request.opened",
	})
	must(err)
	inv, err := owner.ClaimInvalidation(t.Context(), "i", time.Minute)
	must(err)
	g, err := owner.AcquireGuard(t.Context(), inv.Head, time.Second)
	must(err)
	defer g.Release()
	must(g.BindRun(t.Context(), inv.Generation, 500, false))
	_, err = owner.CompleteInvalidation(t.Context(), inv, nil)
	must(err)
	ev, err := owner.ClaimEvaluation(t.Context(), "e", time.Minute)
	must(err)
	v := policy.Evaluate(s)
	check := policy.Render(v, policy.RenderInput{})
	id, err := g.RecordIntent(t.Context(), ev, store.Decision{
		Number: 7, FullName: "acme/api", Generation: ev.Rows[0].Generation, DeliveryID: "d1", Reason: "pull_request.opened", EvidenceDigest: policy.Digest(s),
		Evidence: string(s.MarshalCanonical()), Verdict: string(v.MarshalCanonical()), Conclusion: check.Conclusion, Title: check.Title, Summary: check.Summary,
		Explanation: check.Text, RunID: 500, RequestedAt: time.Now(), Standings: explain.Standings(s, v),
	}, []string{"main"})
	must(err)
	must(g.ConfirmPublication(t.Context(), ev, id, 500, []string{"main"}))
	_, err = owner.CompleteEvaluation(t.Context(), ev, nil)
	must(err)
	return id
}

// call runs one invocation.
func call(t *testing.T, args ...string) (code int, out, errOut string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = run(t.Context(), args, strings.NewReader(""), &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

// wants fails unless the output holds every text.
func wants(t *testing.T, got string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(got, text) {
			t.Errorf("no %q in %s", text, got)
		}
	}
}

// decode reads the only JSON value of an output.
func decode[T any](t *testing.T, out string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		t.Fatalf("%v in %q", err, out)
	}
	return v
}

// Not parallel: the commands read the process's environment.
func TestOperate(t *testing.T) {
	db := storetest.New(t)
	t.Setenv("COUNTERSIGN_DATABASE_URL", db.URL(storetest.Owner))
	first := decide(t, db, testSnapshot("# Everything\n* @acme/core\n", "a.go"), "change")
	t.Run("explain", func(t *testing.T) {
		code, out, errOut := call(t, "explain", "Acme/API#7", "--evidence")
		if code != exitFindings {
			t.Fatalf("%d %q %q", code, out, errOut)
		}
		wants(t, out, `acme/api#7 "change" by dana into main`, "approval missing since", "@acme/core must approve a.go", "waits on: @acme/core", "work: nothing waits", "history", "pull changed files: 1")
		_, out, _ = call(t, "explain", "https://github.com/acme/api/pull/7/files", "--json")
		p := decode[explain.Pull](t, out)
		if p.State != store.StateMissing || p.Decision == nil || p.Decision.ID != int64(first) || p.Work.Place != explain.PlaceIdle || len(p.Waiting) != 1 {
			t.Errorf("%+v", p)
		}
		for _, bad := range []string{"acme/api", "acme/api#0", "acme#7", "acme/api#8"} {
			if code, _, errOut := call(t, "explain", bad); code != exitUsage || errOut == "" {
				t.Errorf("%s: %d %q", bad, code, errOut)
			}
		}
	})
	t.Run("why --pull", func(t *testing.T) {
		code, out, errOut := call(t, "why", "--pull", "acme/api#7", "docs/x.md")
		if code != exitFine {
			t.Fatalf("%d %q", code, errOut)
		}
		wants(t, out, "docs/x.md", "CODEOWNERS line 2: * (Everything)", "any one may approve: @acme/core")
	})
	second := decide(t, db, testSnapshot("* @acme/core\n/web/ @acme/web\n", "a.go", "web/x.ts"), "change")
	t.Run("decisions", func(t *testing.T) {
		_, out, _ := call(t, "decisions", "list", "--pull", "acme/api#7", "--json")
		if n := strings.Count(out, "\n"); n != 2 {
			t.Errorf("%d lines: %s", n, out)
		}
		_, out, _ = call(t, "decisions", "list", "--since", "1h", "--limit", "1")
		wants(t, out, fmt.Sprint(second), "acme/api")
		_, out, _ = call(t, "decisions", "show", fmt.Sprint(first))
		wants(t, out, "check failure", "file CODEOWNERS: .github/CODEOWNERS")
		code, out, _ := call(t, "decisions", "diff", fmt.Sprint(first), fmt.Sprint(second))
		if code != exitFindings {
			t.Errorf("%d", code)
		}
		wants(t, out, "group owners @acme/web: (nothing) → missing", "pull changed files: 1 → 2")
		if code, out, _ := call(t, "decisions", "diff", fmt.Sprint(first), fmt.Sprint(first)); code != exitFine || out != "" {
			t.Errorf("%d %q", code, out)
		}
		_, out, _ = call(t, "decisions", "show", fmt.Sprint(first), "--snapshot")
		if s, err := policy.DecodeSnapshot([]byte(out)); err != nil || s.HeadSHA != testHead {
			t.Errorf("%v", err)
		}
	})
	t.Run("I9 replay and verify hold, and find what was changed by hand", func(t *testing.T) {
		if code, out, errOut := call(t, "decisions", "replay"); code != exitFine || !strings.Contains(out, "2 decisions replayed, 0 differ") {
			t.Errorf("%d %q %q", code, out, errOut)
		}
		if code, out, _ := call(t, "decisions", "verify"); code != exitFine || !strings.Contains(out, "2 decisions hold") {
			t.Errorf("%d %q", code, out)
		}
		db.Exec("UPDATE decision SET verdict = replace(verdict, 'blocked', 'approved') WHERE decision_id = $1", first)
		if code, out, _ := call(t, "decisions", "replay", fmt.Sprint(first)); code != exitFindings || !strings.Contains(out, "another verdict") {
			t.Errorf("%d %q", code, out)
		}
		code, out, _ := call(t, "decisions", "verify", "--json")
		if l := decode[verifyLine](t, out); code != exitFindings || len(l.Faults) != 1 || l.Faults[0].Kind != store.ChainChanged || l.Faults[0].Decision != int64(first) {
			t.Errorf("%d %+v", code, l)
		}
		db.Exec("UPDATE decision SET verdict = replace(verdict, 'approved', 'blocked') WHERE decision_id = $1", first)
	})
	t.Run("export", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "out.jsonl")
		if code, _, errOut := call(t, "decisions", "export", "--output", file); code != exitFine {
			t.Fatalf("%d %q", code, errOut)
		}
		text, err := os.ReadFile(file)
		if err != nil || bytes.Count(text, []byte("\n")) != 2 {
			t.Fatalf("%v %s", err, text)
		}
		_, out, _ := call(t, "decisions", "export", fmt.Sprint(first), "--format", "in-toto")
		st := decode[statement](t, out)
		if st.PredicateType != decisionPredicateType || st.Subject[0].Digest["gitCommit"] != testHead || st.Predicate.Decision != int64(first) || len(st.Predicate.Hash) != 64 {
			t.Errorf("%+v", st)
		}
		stored, err := db.Store(storetest.Reader).GetDecision(t.Context(), first)
		if err != nil || st.Predicate.Evidence != stored.Evidence || st.Predicate.Verdict != stored.Verdict {
			t.Errorf("the exported texts are not those that the hash covers: %v", err)
		}
		if code, _, _ := call(t, "decisions", "export", "--output", file); code != exitUsage {
			t.Error("an export was written over another")
		}
	})
	t.Run("simulate", func(t *testing.T) {
		rules := filepath.Join(t.TempDir(), "CODEOWNERS")
		write := func(text string) {
			if err := os.WriteFile(rules, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write("/docs/ @acme/core\n")
		code, out, errOut := call(t, "simulate", rules, "--repository", "acme/api")
		if code != exitFindings {
			t.Fatalf("%d %q %q", code, out, errOut)
		}
		wants(t, out, "acme/api#7: blocked → approved", "1 pull requests: 0 would be blocked, 1 would pass")
		_, out, _ = call(t, "simulate", rules, "--markdown", "--since", "1h")
		wants(t, out, "### Countersign", "| <code>acme/api&#35;7</code> | blocked | approved |")
		write("* @acme/core\n")
		if code, out, _ := call(t, "simulate", rules, "--json"); code != exitFine || decode[simulateLine](t, out).Turned {
			t.Errorf("%d %q", code, out)
		}
		if code, out, _ := call(t, "simulate", rules, "--markdown"); code != exitFine || !strings.Contains(out, "Nothing") {
			t.Errorf("%d %q", code, out)
		}
	})
	t.Run("pause and resume", func(t *testing.T) {
		if code, _, errOut := call(t, "pause", "acme"); code != exitUsage || !strings.Contains(errOut, "--reason") {
			t.Errorf("%d %q", code, errOut)
		}
		if code, _, errOut := call(t, "pause", "octo-org", "--reason", "x"); code != exitUsage || !strings.Contains(errOut, "octo-org") {
			t.Errorf("%d %q", code, errOut)
		}
		if code, out, errOut := call(t, "pause", "acme/api", "--reason", hostile, "--by", "octo"); code != exitFine || !strings.Contains(out, "is paused") {
			t.Errorf("%d %q %q", code, out, errOut)
		}
		_, out, _ := call(t, "pause", "--json")
		if l := decode[pauseLine](t, out); !l.Paused || l.By != "octo" || l.Since.IsZero() {
			t.Errorf("%+v", l)
		}
		for range 2 {
			if code, out, errOut := call(t, "resume", "1"); code != exitFine {
				t.Errorf("%d %q %q", code, out, errOut)
			}
		}
		_, out, _ = call(t, "pause")
		wants(t, out, "nothing is paused")
	})
	t.Run("reevaluate", func(t *testing.T) {
		code, out, errOut := call(t, "reevaluate", "acme/api#7", "--json", "--wait", "1s")
		if code != exitFindings {
			t.Fatalf("%d %q %q", code, out, errOut)
		}
		wants(t, errOut, "being taken back")
		if l := decode[reevaluateLine](t, out); l.Decided || l.State != store.StateRevoking {
			t.Errorf("%+v", l)
		}
		if n := db.QueryInt("SELECT count(*) FROM evaluation WHERE reason = 'operator.reevaluate' AND number = 7"); n != 1 {
			t.Errorf("%d rows", n)
		}
		if code, _, errOut := call(t, "reevaluate", "acme/api"); code != exitFine || db.QueryInt("SELECT count(*) FROM authority WHERE scope = 'repository'") != 1 {
			t.Errorf("%d %q", code, errOut)
		}
	})
	t.Run("retention", func(t *testing.T) {
		_, out, _ := call(t, "retention", "show")
		wants(t, out, "decision", "countersign retention apply only")
		db.Exec("UPDATE head SET published_decision_id = NULL, published_generation = 0")
		if code, out, _ := call(t, "retention", "apply", "--older-than", "0s", "--dry-run"); code != exitFine || !strings.Contains(out, "2 decisions would be removed") {
			t.Errorf("%d %q", code, out)
		}
		if code, out, errOut := call(t, "retention", "apply", "--older-than", "0s"); code != exitFine || !strings.Contains(out, "2 decisions removed") {
			t.Errorf("%d %q %q", code, out, errOut)
		}
		if code, out, _ := call(t, "decisions", "verify"); code != exitFine || !strings.Contains(out, "retention removed those up to 2") {
			t.Errorf("%d %q", code, out)
		}
	})
}

// Not parallel: the commands read the process's environment.
func TestHostileNamesAreShownInertly(t *testing.T) {
	db := storetest.New(t)
	t.Setenv("COUNTERSIGN_DATABASE_URL", db.URL(storetest.Owner))
	s := testSnapshot("* @acme/core\n", "a\u202eb<script>.go", strings.Repeat("ä", 20_000))
	s.Pulls[0].BaseRef = hostile
	s.Pulls[0].Labels = []string{hostile}
	s.Pulls[0].Author.Login = hostile
	s.Pulls[0].Reviews.Items = []policy.Review{{ID: 1, State: hostile, Author: &policy.Actor{ID: 2, Login: hostile, Type: "User"}, CommitID: testHead, SubmittedAt: s.Now}}
	id := fmt.Sprint(decide(t, db, s, hostile))
	db.Exec("UPDATE decision SET reason = $1, title = $1, summary = $1, explanation = $1", hostile)
	db.Exec("UPDATE installation SET account_login = $1, held_at = now(), held_by = $1, held_reason = $1", hostile)
	db.Exec("UPDATE pull SET author_login = $1, base_ref = $1", hostile)
	db.Exec("UPDATE evaluation SET last_error = $1, reason = $1", hostile)
	rules := filepath.Join(t.TempDir(), "CODEOWNERS")
	if err := os.WriteFile(rules, []byte("* @acme/other\n/x/ @acme/core\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"explain", "acme/api#7", "--evidence", "--history", "20"},
		{"why", "--pull", "acme/api#7", "x/\u202ey"}, {"why", "--pull", "acme/api#7", "x/" + strings.Repeat("ö", 30_000), "--json"},
		{"decisions", "list"}, {"decisions", "show", id}, {"decisions", "show", id, "--check"}, {"decisions", "show", id, "--snapshot"},
		{"decisions", "replay", "--all"}, {"decisions", "verify"}, {"decisions", "export"}, {"decisions", "export", "--format", "in-toto"}, {"decisions", "diff", id, id},
		{"simulate", rules, "--all"}, {"simulate", rules, "--markdown"}, {"pause"}, {"resume", "1"}, {"retention", "show"}, {"retention", "apply", "--older-than", "1d"},
		{"reevaluate", "acme/api#7"}, {"explain", hostile}, {"explain", "acme/api#" + hostile}, {"decisions", "show", hostile}, {"pause", hostile, "--reason", "x"}, {"why", hostile},
		{"redeliver", hostile}, {"decisions", "list", "--repository", hostile}, {"decisions", "list", "--since", hostile}, {"policy", "lint", hostile},
	} {
		variants := [][]string{args}
		if c := args[len(args)-1]; !strings.HasPrefix(c, "--") && args[0] != "why" {
			variants = append(variants, append(args[:len(args):len(args)], "--json"))
		}
		for _, args := range variants {
			_, out, errOut := call(t, args...)
			for where, text := range map[string]string{"output": out, "errors": errOut} {
				for line := range strings.Lines(text) {
					if i := strings.IndexFunc(strings.TrimSuffix(line, "\n"), hiddenRune); i >= 0 {
						t.Errorf("%.80q: %s: a hidden character: %.60q", args, where, line[i:])
						break
					}
					if strings.HasPrefix(line, "##") && !strings.HasPrefix(line, "### Countersign") && args[len(args)-1] != "--check" || strings.HasPrefix(line, "::") {
						t.Errorf("%.80q: %s: a forged line: %.60q", args, where, line)
					}
				}
			}
			if args[len(args)-1] == "--markdown" && strings.Contains(out, "<script>") {
				t.Errorf("markup survives in %.300q", out)
			}
		}
	}
}
