package policy_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/countersign/countersign/pkg/policy"
)

// FuzzPolicyTOML: no file makes the parsers panic, a file with a problem gives
// no rules, and every problem names file, place, message and mend in bounds.
func FuzzPolicyTOML(f *testing.F) {
	for _, seed := range []string{
		repoPolicy, orgPolicy, repoPolicy + delegation, repoPolicy + glass, head + "[[requirement]]\nname = \"x\"\npaths = [\"a\"]\ncount = 2\n",
		head + "delegations = [ { app = \"x\", paths = [\"a\"], for_owners = [\"*\"] } ]\n", "a.b.c = 1\n[a.b]\n", "[[a]]\n[[a.b]]\n[a.b.c]\nd = [[1, [2]], {e = 1}]\n",
		"\xff", "a = '''\n\n'''\nb = \"\"\"\\\n\"\"\"\n", "a = 1979-05-27T07:32:00Z\n", "\"\" = 1\n'a.b'.\"c\\u0000\" = 2\n", "[\"a[0]\"]\nx=1\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		repo, one := policy.ParseRepositoryPolicy("p.toml", text)
		org, two := policy.ParseOrganizationPolicy("p.toml", text)
		if (repo == nil) != (len(one) > 0) || (org == nil) != (len(two) > 0) {
			t.Fatal("rules and problems at once, or neither")
		}
		for _, p := range append(one, two...) {
			if p.Path == "" || p.Message == "" || p.Mend == "" || p.Line < 0 || p.Line > bytes.Count(text, []byte("\n"))+1 || len(p.String()) > policy.MaxMessageChars {
				t.Fatalf("problem %+v", p)
			}
		}
		policy.DetectPolicyKind(text)
		if repo == nil {
			return
		}
		// Whatever is accepted decides the same twice, and never without owners.
		s := facts(withRawPolicy(string(text)))
		a, b := policy.Evaluate(s), policy.Evaluate(s)
		if !bytes.Equal(a.MarshalCanonical(), b.MarshalCanonical()) {
			t.Fatal("two verdicts of one snapshot")
		}
		if a.Conclusion.Approved() && !repo.AllowAuthor {
			t.Fatal("approved although nobody approved")
		}
	})
}

// FuzzSnapshotJSON: no document makes the decoder or the evaluator panic; what
// is accepted has a canonical form that decides the same; what nobody approved
// is not approved.
func FuzzSnapshotJSON(f *testing.F) {
	for _, s := range []policy.Snapshot{
		{}, facts(), facts(approves("bob")), facts(withPolicy(delegation), approves("renovate[bot]"), labels("x")), facts(rename("docs/a", "src/a"), approves("bob")),
		facts(withPolicy(glass), comment(500, "carol", 5, "/countersign break-glass head="+headSHA+" until=2026-03-04T13:00:00Z reason=the site is down")),
		facts(withPolicy("[approvals]\ncontent_stable = true\n"), review("bob", "APPROVED", oldSHA), older(modified("src/a.go", "a", "b"))),
	} {
		f.Add(s.MarshalCanonical())
	}
	f.Add([]byte(`{"version":1,"version":1}`))
	f.Add([]byte(`[[[[`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := policy.DecodeSnapshot(data)
		if err != nil {
			if policy.Evaluate(s).Conclusion.Approved() {
				t.Fatal("approved after an error")
			}
			return
		}
		v := policy.Evaluate(s)
		canonical := s.MarshalCanonical()
		again, err := policy.DecodeSnapshot(canonical)
		if err != nil {
			t.Fatalf("the canonical form is refused: %v", err)
		}
		if !bytes.Equal(v.MarshalCanonical(), policy.Evaluate(again).MarshalCanonical()) || !bytes.Equal(canonical, again.MarshalCanonical()) {
			t.Fatal("the canonical form decides differently")
		}
		policy.Needs(s)
		checkMessages(t, v.Findings, v.NextStep)
		out := policy.Render(v, policy.RenderInput{})
		checkOutput(t, out)
		if (out.Conclusion == "success") != v.Conclusion.Approved() {
			t.Fatalf("%s rendered as %s", v.Conclusion, out.Conclusion)
		}
	})
}

// FuzzRender: whatever paths, names, labels and comments hold, the check stays
// inert and in bounds.
func FuzzRender(f *testing.F) {
	for _, evil := range crafted {
		f.Add(evil, evil, evil)
	}
	f.Add(strings.Repeat("<", 3000), "login", "until=never")
	f.Fuzz(func(t *testing.T, path, name, body string) {
		s := facts(withCodeowners("* @acme/platform\n"), files("src/"+path, path), withPolicy(delegation+glass), labels(name), approves("bob"),
			review("renovate[bot]", "APPROVED", oldSHA), comment(500, "carol", 5, "/countersign break-glass "+body), comment(501, "dave", 4, body),
			pullMod(func(p *policy.PullRequest) {
				p.BaseRef, p.Reviews.Items[0].Author.Login, p.Author.Login = path+name, name, name
			}))
		v := policy.Evaluate(s)
		checkMessages(t, v.Findings, v.NextStep)
		checkOutput(t, policy.Render(v, policy.RenderInput{}))
		// A verdict can also come from a file: every string of it is foreign.
		group := policy.GroupVerdict{
			Kind: policy.GroupRequirement, Name: name, Owners: []string{name, path}, AllOf: []string{path}, Missing: body, NextStep: body,
			Files:     []policy.FileVerdict{{Path: path, RenamedTo: name, Line: 1, Pattern: body, NonDelegable: path}},
			Approvals: []policy.ApprovalVerdict{{Login: name, Via: []string{path}, CommitID: body, ContentStable: true, Paths: []string{path}}},
			Rejected:  []policy.RejectedApproval{{Login: name, Code: policy.Code(path), Reason: body}}, Delegates: []policy.DelegateVerdict{{Alias: name, Why: body}},
		}
		foreign := policy.Verdict{
			HeadSHA: name, NextStep: body, Findings: []policy.Finding{{Severity: policy.SeverityError, Code: policy.Code(name), Message: body}},
			Pulls: []policy.PullVerdict{{
				BaseRef: path, BaseSHA: name, PolicyPath: path, CodeownersPath: body, NextStep: body, Groups: []policy.GroupVerdict{group}, Unowned: []string{path, name},
				BreakGlass: &policy.BreakGlassVerdict{Active: true, RequestedBy: name, ConfirmedBy: path, Reason: body, Rejected: []policy.RejectedComment{{Login: name, Reason: body}}},
			}},
		}
		one, two := policy.Render(foreign, policy.RenderInput{}), policy.Render(foreign, policy.RenderInput{})
		checkOutput(t, one)
		if fmt.Sprint(one) != fmt.Sprint(two) {
			t.Fatal("two checks of one verdict")
		}
	})
}
