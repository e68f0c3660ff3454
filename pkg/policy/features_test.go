package policy_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/countersign/countersign/pkg/policy"
)

func requirement(body string) func(*policy.Snapshot) {
	return withPolicy("[[requirement]]\nname = \"extra\"\n" + body)
}

func TestRequirements(t *testing.T) {
	t.Parallel()
	two := requirement("paths = [\"/src/**\"]\ncount = 2\n")
	from := requirement("paths = [\"/src/**\"]\nfrom = [\"@acme/docs\", \"@alice\"]\ncount = 2\n")
	allOf := requirement("paths = [\"/src/**\"]\nall_of = [\"@acme/docs\", \"@acme/incident\"]\n")
	allOfApp := withPolicy(delegation + "[[requirement]]\nname = \"both\"\npaths = [\"*\"]\nall_of = [\"@acme/platform\", \"@acme/docs\"]\n")
	humans := withPolicy(delegation + "[[requirement]]\nname = \"people\"\npaths = [\"/src/**\"]\ncount = 2\nhumans_min = 1\n")
	apps := withPolicy(delegation + "[[requirement]]\nname = \"two\"\npaths = [\"/src/**\"]\ncount = 2\n")
	excluding := requirement("paths = [\"/src/**\"]\nexclude = [\"/src/gen/**\"]\ncount = 2\n")
	forOwners := requirement("for_owners = [\"@acme/docs\"]\ncount = 2\n")
	unowned := requirement("paths = [\"/free/**\"]\ncount = 1\n")
	unownedFrom := requirement("paths = [\"/free/**\"]\ncount = 1\nfrom = [\"@alice\"]\n")
	optional := requirement("paths = [\"/src/**\"]\noptional = [\"@acme/docs\"]\n")
	noAuthor := requirement("paths = [\"/src/**\"]\ncount = 1\nexclude_author = true\n")
	noPusher := requirement("paths = [\"/src/**\"]\ncount = 1\nexclude_last_pusher = true\n")
	bobAuthor := pullMod(func(p *policy.PullRequest) { p.Author = actor("bob") })
	pusher := func(fact policy.ActorFact) func(*policy.Snapshot) {
		return pullMod(func(p *policy.PullRequest) { p.LastPusher = fact })
	}
	decide(t, []decision{
		{"count: one approver of two", facts(two, approves("bob")), false, nil},
		{"count: two distinct approvers", facts(two, approves("bob"), approves("alice")), true, nil},
		{"count: the same person twice is one", facts(two, approves("bob"), approves("bob")), false, nil},
		{"count: an outsider is none", facts(two, approves("bob"), approves("dave")), false, nil},
		{"count: other paths are not concerned", facts(two, files("docs/x"), approves("dave")), true, nil},
		{"count: each owner set by itself", facts(requirement("paths = [\"*\"]\ncount = 2\n"), files("src/a.go", "docs/x"), approves("bob"), approves("alice"), approves("dave")), false, nil},
		{"from: others may be asked than CODEOWNERS names", facts(from, approves("alice"), approves("dave")), true, nil},
		{"from: the owners' own approval is still needed", facts(from, withCodeowners("/src/ @carol\n"), approves("alice"), approves("dave")), false, nil},
		{"from: the owners do not count for it", facts(from, approves("bob"), approves("carol")), false, nil},
		{"all_of: one of two teams", facts(allOf, approves("bob"), approves("frank")), false, nil},
		{"all_of: both teams by two people", facts(allOf, approves("bob"), approves("frank"), approves("dave")), true, nil},
		{"all_of: one person may stand for both", facts(allOf, approves("bob"), approves("dave")), true, nil},
		{"all_of: does not replace the owners", facts(allOf, approves("dave")), false, nil},
		{"all_of: an App stands for the owner that delegated every path to it", facts(allOfApp, approves("renovate[bot]"), approves("dave")), true, nil},
		{"all_of: an App stands for nobody else", facts(allOfApp, approves("renovate[bot]"), approves("bob")), false, nil},
		{"all_of: an App that was delegated a part of the paths stands for nobody", facts(allOfApp, files("src/a.go", "prod/x"), approves("renovate[bot]"), approves("alice"), approves("dave")), false, nil},
		{"humans_min: an App and a person", facts(humans, approves("renovate[bot]"), approves("bob")), true, nil},
		{"humans_min: an App alone", facts(humans, approves("renovate[bot]")), false, nil},
		{"an App counts as one approver", facts(apps, approves("renovate[bot]"), approves("bob")), true, nil},
		{"an App that covers a part does not count", facts(apps, withCodeowners("* @acme/platform\n"), files("src/a", "src/b"), approves("renovate[bot]"), approves("bob"), withOrg(orgPolicy[:strings.Index(orgPolicy, "[guardrails]")]+"[guardrails]\nnon_delegable_paths = [\"/src/b\"]\n")), false, nil},
		{"exclude: an excluded path", facts(excluding, files("src/gen/x.go"), approves("bob")), true, nil},
		{"exclude: the others still", facts(excluding, files("src/gen/x.go", "src/a.go"), approves("bob")), false, nil},
		{"for_owners: selects by owner", facts(forOwners, files("docs/x"), approves("dave")), false, nil},
		{"for_owners: other owners", facts(forOwners, approves("bob")), true, nil},
		{"a requirement on unowned paths needs from", facts(unowned, files("free/x"), approves("alice")), false, nil},
		{"a requirement on unowned paths with from", facts(unownedFrom, files("free/x"), approves("alice")), true, nil},
		{"a requirement on unowned paths, nobody approved", facts(unownedFrom, files("free/x")), false, nil},
		{"RG-344 RG-345 no App approves a protected path that nobody owns", facts(withPolicy(strings.ReplaceAll(delegation, "@acme/platform", "*")+"[[requirement]]\nname = \"x\"\npaths = [\"/.github/**\"]\nfrom = [\"@alice\"]\ncount = 1\n"),
			files(".github/workflows/ci.yml"), approves("renovate[bot]")), false, nil},
		{"optional: never blocks", facts(optional, approves("bob")), true, nil},
		{"exclude_author: the author's own approval", facts(noAuthor, bobAuthor, approves("bob")), false, nil},
		{"exclude_author: somebody else's", facts(noAuthor, bobAuthor, approves("carol")), true, nil},
		{"exclude_last_pusher: the pusher's approval", facts(noPusher, pusher(policy.ActorFact{State: policy.FactPresent, Actor: actor("bob")}), approves("bob")), false, nil},
		{"exclude_last_pusher: somebody else's", facts(noPusher, pusher(policy.ActorFact{State: policy.FactPresent, Actor: actor("bob")}), approves("carol")), true, nil},
		{"RG-005 exclude_last_pusher: an unknown pusher", facts(noPusher, pusher(policy.ActorFact{State: policy.FactUnknown}), approves("carol")), false, codes(policy.CodeEvidenceUnknown)},
		{"RG-005 exclude_last_pusher: a pusher GitHub does not name", facts(noPusher, pusher(policy.ActorFact{State: policy.FactAbsent}), approves("carol")), false, codes(policy.CodeEvidenceUnknown)},
		{"exclude_author: nobody is excluded where the account is gone", facts(noAuthor, pullMod(func(p *policy.PullRequest) { p.Author = nil }), approves("bob")), true, nil},
		{"RG-005 exclude_last_pusher: a pusher without an account", facts(noPusher, pusher(policy.ActorFact{State: policy.FactPresent}), approves("carol")), false, codes(policy.CodeEvidenceUnknown)},
		{"RG-005 exclude_last_pusher: a pusher without an id", facts(noPusher, pusher(policy.ActorFact{State: policy.FactPresent, Actor: &policy.Actor{Login: "x"}}), approves("carol")), false, codes(policy.CodeEvidenceUnknown)},
		{"RG-005 exclude_last_pusher: a name that was not settled", facts(noPusher, pusher(policy.ActorFact{State: policy.FactUnknown, Actor: actor("erin")}), approves("carol")), false, codes(policy.CodeEvidenceUnknown)},
		{"exclude_author for all sets holds for requirements", facts(withPolicy("[approvals]\nexclude_author = true\n[[requirement]]\nname = \"x\"\npaths = [\"*\"]\nfrom = [\"@acme/docs\"]\ncount = 1\n"),
			pullMod(func(p *policy.PullRequest) { p.Author = actor("dave") }), approves("bob"), approves("dave")), false, nil},
		{"exclude_last_pusher for all sets holds for requirements", facts(withPolicy("[approvals]\nexclude_last_pusher = true\n[[requirement]]\nname = \"x\"\npaths = [\"*\"]\nfrom = [\"@acme/docs\"]\ncount = 1\n"),
			pullMod(func(p *policy.PullRequest) { p.LastPusher.Actor = actor("dave") }), approves("bob"), approves("dave")), false, nil},
		{"exclude_author for all sets", facts(withPolicy("[approvals]\nexclude_author = true\n"), bobAuthor, approves("bob")), false, nil},
		{"exclude_last_pusher for all sets", facts(withPolicy("[approvals]\nexclude_last_pusher = true\n"), pusher(policy.ActorFact{State: policy.FactPresent, Actor: actor("bob")}), approves("bob")), false, nil},
		{"RG-336 neither is excluded by default", facts(bobAuthor, pusher(policy.ActorFact{State: policy.FactPresent, Actor: actor("bob")}), approves("bob")), true, nil},
	})
	t.Run("the check says what to do where GitHub names no pusher", func(t *testing.T) {
		t.Parallel()
		if v := mustBlock(t, facts(noPusher, pusher(policy.ActorFact{State: policy.FactAbsent}), approves("carol"))); !strings.Contains(v.NextStep, "push again") {
			t.Errorf("next step %q", v.NextStep)
		}
		if v := mustBlock(t, facts(noPusher, pusher(policy.ActorFact{State: policy.FactUnknown}), approves("carol"))); strings.Contains(v.NextStep, "push again") {
			t.Errorf("next step %q", v.NextStep)
		}
	})
	t.Run("the check explains a count", func(t *testing.T) {
		t.Parallel()
		v := mustBlock(t, facts(two, approves("bob")))
		g := v.Pulls[0].Groups[1]
		if g.Name != "extra" || g.Required != 2 || !strings.Contains(g.Missing, "has 1 of 2") {
			t.Errorf("group %+v", g)
		}
		if v.NextStep != g.NextStep || !strings.Contains(v.NextStep, "1 more approver") {
			t.Errorf("next step %q", v.NextStep)
		}
	})
	t.Run("the check shows an optional owner", func(t *testing.T) {
		t.Parallel()
		v := mustApprove(t, facts(optional, approves("bob"), approves("dave")))
		out := policy.Render(v, policy.RenderInput{})
		if g := v.Pulls[0].Groups[1]; g.Kind != policy.GroupOptional || !g.Satisfied {
			t.Errorf("group %+v", g)
		}
		if v := mustApprove(t, facts(optional, approves("bob"))); v.Pulls[0].Groups[1].Satisfied {
			t.Error("nobody optional approved and it says so")
		}
		if !strings.Contains(out.Text, "for information") || !strings.Contains(out.Text, "<code>dave</code> as <code>&#64;acme/docs</code>") {
			t.Errorf("text:\n%s", out.Text)
		}
	})
}

// older gives #7 an older head on which it changed the given files.
func older(files ...policy.ChangedFile) func(*policy.Snapshot) {
	return pullMod(func(p *policy.PullRequest) {
		p.OlderHeads[oldSHA] = policy.FileList{State: policy.FactPresent, ContentState: policy.FactPresent, Items: files}
	})
}

func TestContentStableApprovals(t *testing.T) {
	t.Parallel()
	const stableOn = "[approvals]\ncontent_stable = true\n"
	on := withPolicy(stableOn)
	noID := modified("src/a.go", "before src/a.go", "x")
	noID.After = &policy.Blob{Mode: "100644"}
	noMode := modified("src/a.go", "before src/a.go", "x")
	noMode.After = &policy.Blob{SHA: "1"}
	stale := review("bob", "APPROVED", oldSHA)
	same := modified("src/a.go", "before src/a.go", "after src/a.go")
	other := modified("docs/x", "before docs/x", "another text")
	mode := same
	mode.After = &policy.Blob{SHA: same.After.SHA, Mode: "100755"}
	renamed := policy.ChangedFile{Path: "src/b.go", PreviousPath: "src/a.go", Status: "renamed", Before: blob("x"), After: blob("y")}
	split := []policy.ChangedFile{{Path: "src/a.go", Status: "removed", Before: blob("x")}, {Path: "src/b.go", Status: "added", After: blob("y")}}
	noBlob := same
	noBlob.After = nil
	baseChange := func(fact policy.BaseChangeFact) func(*policy.Snapshot) {
		return pullMod(func(p *policy.PullRequest) { p.BaseChange = fact })
	}
	stateOf := func(state, content policy.FactState) func(*policy.Snapshot) {
		return pullMod(func(p *policy.PullRequest) {
			p.OlderHeads[oldSHA] = policy.FileList{State: state, ContentState: content, Items: []policy.ChangedFile{same}}
		})
	}
	side := func(mod func(*policy.ChangedFile)) func(*policy.Snapshot) {
		f := policy.ChangedFile{Path: "src/a.go", PreviousPath: "src/z.go", Status: "renamed", Before: blob("x"), After: blob("y")}
		mod(&f)
		return older(f)
	}
	unknown := codes(policy.CodeEvidenceUnknown)
	decide(t, []decision{
		{"RG-007 a renamed file without its content before", facts(on, stale, side(func(f *policy.ChangedFile) { f.Before = nil })), false, unknown},
		{"RG-007 a renamed file without its content after", facts(on, stale, side(func(f *policy.ChangedFile) { f.After = nil })), false, unknown},
		{"RG-007 a modified file without its content before", facts(on, stale, side(func(f *policy.ChangedFile) { f.Status, f.PreviousPath, f.Before = "modified", "", nil })), false, unknown},
		{"RG-007 an added file without its content", facts(on, stale, side(func(f *policy.ChangedFile) { f.Status, f.PreviousPath, f.After = "added", "", nil })), false, unknown},
		{"RG-007 a removed file without its content", facts(on, stale, side(func(f *policy.ChangedFile) { f.Status, f.PreviousPath, f.Before = "removed", "", nil })), false, unknown},
		{"RG-007 a file of an older head that is malformed", facts(on, stale, side(func(f *policy.ChangedFile) { f.Path = "../x" })), false, unknown},
		{"RG-008 a path added twice at an older head", facts(on, stale, older(same, same)), false, unknown},
		{"RG-008 a path removed twice at an older head", facts(on, stale, older(policy.ChangedFile{Path: "src/q", Status: "removed", Before: blob("1")}, policy.ChangedFile{Path: "src/q", Status: "removed", Before: blob("2")})), false, unknown},
		{"a file replaced by a rename and added again is one path", facts(on, stale, pullMod(func(p *policy.PullRequest) {
			p.Files.Items = []policy.ChangedFile{{Path: "src/a.go", Status: "added", After: blob("new")}, {Path: "src/b.go", PreviousPath: "src/a.go", Status: "renamed", Before: blob("x"), After: blob("x")}}
			p.ChangedFiles = 2
		}), older(policy.ChangedFile{Path: "src/a.go", Status: "modified", Before: blob("x"), After: blob("new")}, policy.ChangedFile{Path: "src/b.go", Status: "copied", After: blob("x")})), true, nil},
		{"an unchanged file is none", facts(on, stale, older(same, policy.ChangedFile{Path: "src/u", Status: "unchanged"})), true, nil},
		{"a requirement compares each owner set by itself", facts(withPolicy(stableOn+"[[requirement]]\nname = \"x\"\npaths = [\"*\"]\ncount = 1\n"),
			files("src/a.go", "docs/x"), stale, approves("dave"), older(same, other)), true, nil},
		{"a requirement with from compares all its paths", facts(withPolicy(stableOn+"[[requirement]]\nname = \"x\"\npaths = [\"*\"]\nfrom = [\"@frank\"]\ncount = 1\n"),
			files("src/a.go", "docs/x"), approves("bob"), approves("dave"), review("frank", "APPROVED", oldSHA), older(same, other)), false, nil},
		{"a requirement compares only what it selects", facts(withPolicy(stableOn+"[[requirement]]\nname = \"x\"\npaths = [\"/src/**\"]\nfrom = [\"@frank\"]\ncount = 1\n"),
			files("src/a.go", "docs/x"), approves("bob"), approves("dave"), review("frank", "APPROVED", oldSHA), older(same, other)), true, nil},
		{"a file that was removed and is changed now", facts(on, stale, older(policy.ChangedFile{Path: "src/a.go", Status: "removed", Before: same.Before})), false, nil},
		{"a file that was changed and is removed now", facts(on, stale, older(same), pullMod(func(p *policy.PullRequest) { p.Files.Items[0].Status, p.Files.Items[0].After = "removed", nil })), false, nil},
		{"content without its mode is not compared", facts(on, stale, older(noMode), pullMod(func(p *policy.PullRequest) { *p.Files.Items[0].After = policy.Blob{SHA: "1"} })), false, nil},
		{"content without its object id is not compared", facts(on, stale, older(noID), pullMod(func(p *policy.PullRequest) { *p.Files.Items[0].After = policy.Blob{Mode: "100644"} })), false, nil},
		{"a change of base branch at an unknown time", facts(on, stale, older(same), baseChange(policy.BaseChangeFact{State: policy.FactPresent})), false, nil},
		{"RG-331 off by default", facts(stale, older(same)), false, codes(policy.CodeStaleApproval)},
		{"unchanged content keeps the approval", facts(on, stale, older(same)), true, nil},
		{"another owner's content does not matter", facts(on, files("src/a.go", "docs/x"), stale, older(same, other), approves("dave")), true, nil},
		{"each owner set by itself", facts(on, files("src/a.go", "docs/x"), stale, review("dave", "APPROVED", oldSHA), older(same, other)), false, nil},
		{"changed content after", facts(on, stale, older(modified("src/a.go", "before src/a.go", "old"))), false, nil},
		{"changed content before", facts(on, stale, older(modified("src/a.go", "old", "after src/a.go"))), false, nil},
		{"a changed mode", facts(on, stale, older(mode)), false, nil},
		{"a file more at the new head", facts(on, stale, older()), false, nil},
		{"a file more at the old head", facts(on, stale, older(same, modified("src/z.go", "1", "2"))), false, nil},
		{"a file more at the old head that others own", facts(on, stale, older(same, other)), true, nil},
		{"whether GitHub noticed a rename does not matter", facts(on, stale, older(split...), pullMod(func(p *policy.PullRequest) {
			p.Files.Items = []policy.ChangedFile{renamed}
		})), true, nil},
		{"a change of base branch resets", facts(on, stale, older(same), baseChange(policy.BaseChangeFact{State: policy.FactPresent, At: now})), false, nil},
		{"a change of base branch before the approval does not", facts(on, stale, older(same), baseChange(policy.BaseChangeFact{State: policy.FactPresent, At: now.Add(-2 * time.Hour)})), true, nil},
		{"RG-005 an unknown change of base branch", facts(on, stale, older(same), baseChange(policy.BaseChangeFact{State: policy.FactUnknown})), false, codes(policy.CodeEvidenceUnknown)},
		{"RG-005 an unknown older head", facts(on, stale, stateOf(policy.FactUnknown, policy.FactPresent)), false, codes(policy.CodeEvidenceUnknown)},
		{"RG-007 an older head without its content", facts(on, stale, stateOf(policy.FactPresent, policy.FactUnknown)), false, codes(policy.CodeEvidenceUnknown)},
		{"RG-007 a blob that is missing", facts(on, stale, older(noBlob)), false, codes(policy.CodeEvidenceUnknown)},
		{"an older head that is gone", facts(on, stale, stateOf(policy.FactAbsent, policy.FactPresent)), false, codes(policy.CodeMissingApproval)},
		{"a review whose commit GitHub forgot", facts(on, review("bob", "APPROVED", ""), older(same)), false, codes(policy.CodeMissingApproval)},
		{"RG-330 a later refusal still cancels it", facts(on, stale, older(same), review("bob", "CHANGES_REQUESTED", headSHA)), false, nil},
		{"eligibility is judged now", facts(on, stale, older(same), membership("acme/platform", "bob", policy.MembershipNone)), false, nil},
		{"RG-005 an unknown older head of an outsider is no error", facts(on, review("dave", "APPROVED", oldSHA), stateOf(policy.FactUnknown, policy.FactUnknown)), false, codes(policy.CodeMissingApproval)},
		{"an App's approval too", facts(withPolicy("[approvals]\ncontent_stable = true\n"+delegation), review("renovate[bot]", "APPROVED", oldSHA), older(same)), true, nil},
		{"a requirement looks at its own paths", facts(withPolicy("[approvals]\ncontent_stable = true\n[[requirement]]\nname = \"x\"\npaths = [\"/src/**\"]\nfrom = [\"@acme/docs\"]\ncount = 1\n"),
			approves("bob"), review("dave", "APPROVED", oldSHA), older(same)), true, nil},
	})
	t.Run("the check says that the approval is of an older commit", func(t *testing.T) {
		t.Parallel()
		v := mustApprove(t, facts(on, stale, older(same)))
		a := v.Pulls[0].Groups[0].Approvals[0]
		if !a.ContentStable || a.CommitID != oldSHA {
			t.Errorf("approval %+v", a)
		}
		if out := policy.Render(v, policy.RenderInput{}); !strings.Contains(out.Text, "unchanged since") {
			t.Errorf("text:\n%s", out.Text)
		}
	})
	t.Run("the check says what changed", func(t *testing.T) {
		t.Parallel()
		v := mustBlock(t, facts(on, stale, older(modified("src/a.go", "before src/a.go", "old"))))
		if r := v.Pulls[0].Groups[0].Rejected[0]; r.Code != policy.CodeContentChanged || !strings.Contains(r.Reason, "src/a.go changed") {
			t.Errorf("rejected %+v", r)
		}
	})
}

const glass = "[break_glass]\nteams = [\"@acme/incident\"]\nmax_duration = \"4h\"\n"

// comment adds a comment by login, minutes before now.
func comment(id int64, login string, minutesAgo int, body string) func(*policy.Snapshot) {
	return pullMod(func(p *policy.PullRequest) {
		at := now.Add(-time.Duration(minutesAgo) * time.Minute)
		p.Comments.Items = append(p.Comments.Items, policy.Comment{ID: id, Author: actor(login), Body: body, CreatedAt: at, UpdatedAt: at})
	})
}

func TestBreakGlass(t *testing.T) {
	t.Parallel()
	on := withPolicy(glass)
	form := func(head, until, reason string) string {
		return fmt.Sprintf("/countersign break-glass head=%s until=%s reason=%s", head, until, reason)
	}
	until := now.Add(time.Hour).Format(time.RFC3339)
	ask := form(headSHA, until, "the login page is down")
	yes := fmt.Sprintf("/countersign confirm-break-glass request=500 head=%s", headSHA)
	request, confirm := comment(500, "carol", 20, ask), comment(501, "dave", 10, yes)
	last := func(mod func(*policy.Comment)) func(*policy.Snapshot) {
		return pullMod(func(p *policy.PullRequest) { mod(&p.Comments.Items[len(p.Comments.Items)-1]) })
	}
	with := func(body string) policy.Snapshot { return facts(on, comment(500, "carol", 20, body), confirm) }
	decide(t, []decision{
		{"off by default", facts(request, confirm), false, nil},
		{"a confirmed request releases", facts(on, request, confirm), true, codes(policy.CodeBreakGlass)},
		{"a request alone does not", facts(on, request), false, nil},
		{"a confirmation alone does not", facts(on, confirm), false, nil},
		{"nobody confirms for themselves", facts(on, request, comment(501, "carol", 10, yes)), false, nil},
		{"an outsider cannot ask", facts(on, comment(500, "bob", 20, ask), confirm), false, nil},
		{"an outsider cannot confirm", facts(on, request, comment(501, "bob", 10, yes)), false, nil},
		{"a pending member cannot ask", facts(on, request, confirm, membership("acme/incident", "carol", policy.MembershipPending)), false, nil},
		{"RG-005 an unknown membership", facts(on, request, confirm, membership("acme/incident", "carol", policy.MembershipUnknown)), false, codes(policy.CodeEvidenceUnknown)},
		{"RG-005 an unknown membership of the second person", facts(on, request, confirm, membership("acme/incident", "dave", policy.MembershipUnknown)), false, codes(policy.CodeEvidenceUnknown)},
		{"RG-005 comments that could not be read", facts(on, request, confirm, pullMod(func(p *policy.PullRequest) { p.Comments.State = policy.FactUnknown })), false, codes(policy.CodeEvidenceUnknown)},
		{"an edited request", facts(on, confirm, request, last(func(c *policy.Comment) { c.UpdatedAt = c.UpdatedAt.Add(time.Second) })), false, nil},
		{"an edited confirmation", facts(on, request, confirm, last(func(c *policy.Comment) { c.UpdatedAt = c.UpdatedAt.Add(time.Second) })), false, nil},
		{"a deleted account", facts(on, confirm, request, last(func(c *policy.Comment) { c.Author = nil })), false, nil},
		{"a bot cannot ask", facts(on, confirm, request, last(func(c *policy.Comment) { c.Author.Type = "Bot" })), false, nil},
		{"RG-006 a request for another head", with(form(oldSHA, until, "the login page is down")), false, nil},
		{"RG-006 a confirmation for another head", facts(on, request, comment(501, "dave", 10, strings.Replace(yes, headSHA, oldSHA, 1))), false, nil},
		{"RG-006 an expired request", with(form(headSHA, now.Format(time.RFC3339), "the login page is down")), false, nil},
		{"a second before expiry", with(form(headSHA, now.Add(time.Second).Format(time.RFC3339), "the login page is down")), true, codes(policy.CodeBreakGlass)},
		{"longer than the policy allows", with(form(headSHA, now.Add(4*time.Hour).Format(time.RFC3339), "the login page is down")), false, nil},
		{"a reason of 9 characters", with(form(headSHA, until, "it's down")), false, nil},
		{"a reason of 10 characters", with(form(headSHA, until, "site down!")), true, codes(policy.CodeBreakGlass)},
		{"a reason of 500 characters", with(form(headSHA, until, strings.Repeat("x", 500))), true, codes(policy.CodeBreakGlass)},
		{"a reason of 501 characters", with(form(headSHA, until, strings.Repeat("x", 501))), false, nil},
		{"a confirmation of 0500", facts(on, request, comment(501, "dave", 10, strings.Replace(yes, "500", "0500", 1))), false, nil},
		{"a confirmation of no number", facts(on, request, comment(501, "dave", 10, strings.Replace(yes, "500", "", 1))), false, nil},
		{"a request without an id", facts(on, comment(0, "carol", 20, ask), comment(501, "dave", 10, strings.Replace(yes, "500", "0", 1))), false, nil},
		{"a request by an account without an id", facts(on, confirm, request, last(func(c *policy.Comment) { c.Author.ID = 0 })), false, nil},
		{"a request by an account without a login", facts(on, confirm, request, last(func(c *policy.Comment) { c.Author.Login = "" }), membership("acme/incident", "", policy.MembershipActive)), false, nil},
		{"a request without a time", facts(on, confirm, request, last(func(c *policy.Comment) { c.CreatedAt, c.UpdatedAt = time.Time{}, time.Time{} })), false, nil},
		{"a confirmation without a time", facts(on, request, confirm, last(func(c *policy.Comment) { c.CreatedAt, c.UpdatedAt = time.Time{}, time.Time{} })), false, nil},
		{"a time with an offset", with(form(headSHA, "2026-03-04T14:00:00+01:00", "the login page is down")), true, codes(policy.CodeBreakGlass)},
		{"a request from the future", facts(on, confirm, comment(500, "carol", -1, ask)), false, nil},
		{"a confirmation older than the request", facts(on, comment(500, "carol", 5, ask), comment(501, "dave", 10, yes)), false, nil},
		{"a confirmation with an older number than the request", facts(on, request, comment(499, "dave", 10, yes)), false, nil},
		{"a warning does not keep a release away", facts(on, request, confirm, func(s *policy.Snapshot) { s.Settings.AllowInsecureChanges = true }), true, codes(policy.CodeBreakGlass, policy.CodeInsecureChanges)},
		{"a confirmation of another request", facts(on, request, comment(501, "dave", 10, strings.Replace(yes, "500", "499", 1))), false, nil},
		{"no reason", with(form(headSHA, until, "")), false, nil},
		{"too short a reason", with(form(headSHA, until, "because")), false, nil},
		{"something around the form", with("please\n" + ask), false, nil},
		{"something after the form's line", with(ask + "\nthanks"), false, nil},
		{"another order", with(fmt.Sprintf("/countersign break-glass until=%s head=%s reason=the login page is down", until, headSHA)), false, nil},
		{"a short head", with(form(headSHA[:12], until, "the login page is down")), false, nil},
		{"no time", with(form(headSHA, "soon", "the login page is down")), false, nil},
		{"white space at the ends", with("  " + ask + " \r\n"), true, codes(policy.CodeBreakGlass)},
		{"a comment listed twice counts for nothing", facts(on, request, request, confirm), false, nil},
		{"RG-008 evidence that is at fault still blocks", facts(on, request, confirm, pullMod(func(p *policy.PullRequest) { p.ChangedFiles = 9 })), false, codes(policy.CodeIncompleteFiles)},
		{"CODEOWNERS that is at fault still blocks", facts(on, request, confirm, withCodeowners("!\n")), false, codes(policy.CodeInvalidPattern)},
		{"an unknown fact about an approval does not matter to a release", facts(on, request, confirm, approves("bob"), membership("acme/platform", "bob", policy.MembershipUnknown)), true, codes(policy.CodeBreakGlass)},
		{"a team of another organisation releases nothing", facts(withPolicy(strings.Replace(glass, "@acme/", "@other/", 1)), request, confirm), false, nil},
		{"confirm_teams: another team confirms", facts(withPolicy(glass+"confirm_teams = [\"@acme/platform\"]\n"), request, comment(501, "bob", 10, yes)), true, codes(policy.CodeBreakGlass)},
		{"confirm_teams: the first team does not", facts(withPolicy(glass+"confirm_teams = [\"@acme/platform\"]\n"), request, confirm), false, nil},
	})
	t.Run("never silent: title, warning, verdict and expiry", func(t *testing.T) {
		t.Parallel()
		v := mustApprove(t, facts(on, request, confirm), policy.CodeBreakGlass)
		b := v.Pulls[0].BreakGlass
		if !v.BreakGlass || b.RequestedBy != "carol" || b.ConfirmedBy != "dave" || b.RequestID != 500 || b.ConfirmID != 501 || b.Reason != "the login page is down" {
			t.Errorf("break glass %+v", b)
		}
		if v.NextDue == nil || !v.NextDue.Equal(now.Add(time.Hour)) {
			t.Errorf("next due %v", v.NextDue)
		}
		out := policy.Render(v, policy.RenderInput{})
		if want := "nothing until 2026-03-04 13:00 UTC, when the break-glass release ends"; v.NextStep != want || v.Pulls[0].NextStep != want {
			t.Errorf("next step %q", v.NextStep)
		}
		if out.Conclusion != "success" || !strings.HasPrefix(out.Title, "BREAK-GLASS until 2026-03-04 13:00 UTC: released by carol and dave") {
			t.Errorf("%s %q", out.Conclusion, out.Title)
		}
		s := facts(on, request, confirm)
		s.Now = *v.NextDue
		mustBlock(t, s)
	})
	t.Run("nobody can push others' comments out of view", func(t *testing.T) {
		t.Parallel()
		s := facts(on, request, confirm)
		for i := range 50 {
			comment(int64(600+i), "bob", 5, ask)(&s)
			comment(int64(700+i), "bob", 5, yes)(&s)
		}
		mustApprove(t, s, policy.CodeBreakGlass)
		s = facts(on, request, confirm)
		for i := range 4 {
			comment(int64(600+i), "carol", 5, ask)(&s)
		}
		mustApprove(t, s, policy.CodeBreakGlass)
		comment(610, "carol", 5, ask)(&s)
		mustBlock(t, s, policy.CodeMissingApproval)
	})
	t.Run("many people's comments are bounded, and need no more look-ups", func(t *testing.T) {
		t.Parallel()
		crowd := func(n int) policy.Snapshot {
			s := facts(on, request, confirm)
			for i := range n {
				at := now.Add(-5 * time.Minute)
				s.Pulls[0].Comments.Items = append(s.Pulls[0].Comments.Items, policy.Comment{
					ID: int64(600 + i), Author: &policy.Actor{ID: int64(8000 + i), Login: fmt.Sprintf("x%d", i), Type: "User"}, Body: ask, CreatedAt: at, UpdatedAt: at,
				})
				s.Memberships["acme/incident"][fmt.Sprintf("x%d", i)] = policy.MembershipNone
			}
			return s
		}
		mustApprove(t, crowd(98), policy.CodeBreakGlass)
		mustBlock(t, crowd(99), policy.CodeMissingApproval)
		if n := len(policy.Needs(strippedButComments(crowd(500))).Memberships); n > 100 {
			t.Errorf("%d memberships are asked for", n)
		}
	})
	t.Run("more comments than the bound are not searched, and that is said", func(t *testing.T) {
		t.Parallel()
		s := facts(on, request, confirm)
		p := &s.Pulls[0]
		for id := int64(1000); len(p.Comments.Items) < 10_000; id++ {
			p.Comments.Items = append(p.Comments.Items, policy.Comment{ID: id, Author: actor("erin"), Body: "hello", CreatedAt: now, UpdatedAt: now})
		}
		mustApprove(t, s, policy.CodeBreakGlass)
		p.Comments.Items = append(p.Comments.Items, policy.Comment{ID: 1, Author: actor("erin"), Body: "hello", CreatedAt: now, UpdatedAt: now})
		if v := mustBlock(t, s); !strings.Contains(v.Pulls[0].BreakGlass.Missing, "more than 10000 comments") {
			t.Errorf("missing %q", v.Pulls[0].BreakGlass.Missing)
		}
	})
	t.Run("owners' approvals make the release unnecessary", func(t *testing.T) {
		t.Parallel()
		v := mustApprove(t, facts(on, request, confirm, approves("bob")))
		if v.BreakGlass || v.NextDue != nil {
			t.Errorf("break glass %v, due %v", v.BreakGlass, v.NextDue)
		}
	})
	t.Run("a pending request says exactly what confirms it", func(t *testing.T) {
		t.Parallel()
		v := mustBlock(t, facts(on, request))
		b := v.Pulls[0].BreakGlass
		if !strings.HasSuffix(b.Missing, yes) || v.NextDue == nil {
			t.Errorf("missing %q, due %v", b.Missing, v.NextDue)
		}
	})
	t.Run("the longest of two confirmed requests counts, also the older one", func(t *testing.T) {
		t.Parallel()
		v := mustApprove(t, facts(on, request, confirm,
			comment(502, "frank", 9, form(headSHA, now.Add(time.Minute).Format(time.RFC3339), "still not back up")),
			comment(503, "dave", 8, strings.Replace(yes, "500", "502", 1))))
		if !v.NextDue.Equal(now.Add(time.Hour)) || v.Pulls[0].BreakGlass.RequestedBy != "carol" || v.Pulls[0].BreakGlass.ConfirmID != 501 {
			t.Errorf("%+v", v.Pulls[0].BreakGlass)
		}
	})
	t.Run("the longest of two confirmed requests counts", func(t *testing.T) {
		t.Parallel()
		later := now.Add(2 * time.Hour)
		v := mustApprove(t, facts(on, request, confirm,
			comment(502, "frank", 9, form(headSHA, later.Format(time.RFC3339), "still not back up")),
			comment(503, "dave", 8, strings.Replace(yes, "500", "502", 1))))
		if !v.NextDue.Equal(later) || v.Pulls[0].BreakGlass.RequestedBy != "frank" {
			t.Errorf("%+v", v.Pulls[0].BreakGlass)
		}
	})
}

func TestOwnershipHealth(t *testing.T) {
	t.Parallel()
	on := withPolicy("ownership_health = true\n")
	size := func(n int) func(*policy.Snapshot) {
		return team("acme/platform", func(f *policy.TeamFact) { f.Members = &n })
	}
	rows := []struct {
		name  string
		mod   func(*policy.Snapshot)
		owner string
		code  policy.Code
	}{
		{"a user that does not exist", user("alice", func(u *policy.UserFact) { u.State = policy.FactAbsent }), "@alice", policy.CodeOwnerUnresolved},
		{"a user without write access", user("alice", func(u *policy.UserFact) { u.Permission = "read" }), "@alice", policy.CodeOwnerNoAccess},
		{"a user nobody could read", user("alice", func(u *policy.UserFact) { u.State = policy.FactUnknown }), "@alice", policy.CodeOwnerHealthBlind},
		{"a team that does not exist", team("acme/platform", func(f *policy.TeamFact) { f.State = policy.FactAbsent }), "@acme/platform", policy.CodeOwnerUnresolved},
		{"a secret team", team("acme/platform", func(f *policy.TeamFact) { f.Privacy = "secret" }), "@acme/platform", policy.CodeTeamSecret},
		{"a read-only team", team("acme/platform", func(f *policy.TeamFact) { f.Permission = "pull" }), "@acme/platform", policy.CodeTeamReadOnly},
		{"a team nobody could read", team("acme/platform", func(f *policy.TeamFact) { f.State = policy.FactUnknown }), "@acme/platform", policy.CodeOwnerHealthBlind},
		{"an empty team", size(0), "@acme/platform", policy.CodeTeamEmpty},
		{"a foreign team", withCodeowners("/src/ @other/team @alice\n"), "@other/team", policy.CodeForeignTeam},
		{"the author is the only owner", withCodeowners("/src/ @erin\n"), "@erin", policy.CodeOnlyOwnerAuthor},
		{"the author is the only member of the only team", func(s *policy.Snapshot) {
			size(1)(s)
			membership("acme/platform", "erin", policy.MembershipActive)(s)
			withCodeowners("/src/ @acme/platform\n")(s)
		}, "@acme/platform", policy.CodeOnlyOwnerAuthor},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			v := policy.Evaluate(facts(on, size(2), row.mod))
			found := false
			for _, f := range v.Pulls[0].Findings {
				if f.Code == row.code {
					found = found || f.Subject == row.owner
					if f.Severity == policy.SeverityError {
						t.Errorf("health blocks: %+v", f)
					}
				}
			}
			if !found {
				t.Errorf("no %s about %s in %+v", row.code, row.owner, v.Pulls[0].Findings)
			}
			if v := policy.Evaluate(facts(size(2), row.mod)); len(v.Pulls[0].Findings) > 0 {
				t.Errorf("health is off and says %+v", v.Pulls[0].Findings)
			}
			with, without := policy.Evaluate(facts(on, size(2), row.mod, approves("carol"))), policy.Evaluate(facts(size(2), row.mod, approves("carol")))
			if with.Conclusion != without.Conclusion {
				t.Error("health changed the conclusion")
			}
		})
	}
	t.Run("healthy owners are not mentioned", func(t *testing.T) {
		t.Parallel()
		if v := mustApprove(t, facts(on, size(2), approves("bob"))); len(v.Pulls[0].Findings) > 0 {
			t.Errorf("findings %+v", v.Pulls[0].Findings)
		}
	})
}
