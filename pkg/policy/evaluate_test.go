package policy_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/countersign/countersign/pkg/policy"
)

const delegation = `[[delegations]]
app = "renovate"
paths = ["/src/**", "/prod/**", "/.github/**"]
for_owners = ["@acme/platform"]
`

// decision is one row: a snapshot, and whether it is approved.
type decision struct {
	name     string
	snapshot policy.Snapshot
	approved bool
	codes    []policy.Code
}

func decide(t *testing.T, rows []decision) {
	t.Helper()
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			if row.approved {
				onlyCodes(t, mustApprove(t, row.snapshot, row.codes...), row.codes)
				return
			}
			v := mustBlock(t, row.snapshot, row.codes...)
			if v.NextStep == "" {
				t.Error("a blocked verdict says no next step")
			}
			onlyCodes(t, v, row.codes)
		})
	}
}

// onlyCodes: a row without codes means a plain approval, or a plain lack of
// one; with codes, there is no other reason.
func onlyCodes(t *testing.T, v policy.Verdict, codes []policy.Code) {
	t.Helper()
	outcome := policy.CodeMissingApproval
	if v.Conclusion.Approved() {
		outcome = policy.CodeApproved
	} else if len(codes) == 0 && !v.MissingOnly {
		t.Errorf("blocked by more than a missing approval: %v", v.Codes)
	}
	for _, code := range v.Codes {
		if code != outcome && !slices.Contains(codes, code) {
			t.Errorf("code %s was not expected in %v: %s", code, v.Codes, v.NextStep)
		}
	}
	if len(codes) == 0 && !slices.Equal(v.Codes, []policy.Code{outcome}) {
		t.Errorf("codes %v, want %s alone", v.Codes, outcome)
	}
}

func codes(c ...policy.Code) []policy.Code { return c }

func TestOwnerSets(t *testing.T) {
	t.Parallel()
	both := func(mods ...func(*policy.Snapshot)) policy.Snapshot {
		return facts(append([]func(*policy.Snapshot){files("src/a.go", "docs/b.md")}, mods...)...)
	}
	decide(t, []decision{
		{"RG-310 RG-353 no owned path is approved without anybody", facts(files("free.txt")), true, codes(policy.CodeApproved)},
		{"RG-005 no review at all blocks", facts(), false, codes(policy.CodeMissingApproval)},
		{"RG-328 RG-333 one direct owner is enough", facts(approves("alice")), true, nil},
		{"RG-328 RG-334 one team member is enough", facts(approves("bob")), true, nil},
		{"RG-325 a login's case does not matter", facts(review("Alice", "APPROVED", headSHA)), true, nil},
		{"RG-314 RG-328 an approval of one set is none of another", both(approves("bob")), false, nil},
		{"RG-314 all sets approved", both(approves("bob"), approves("dave")), true, nil},
		{"RG-313 a file without an owner adds nothing to approve", facts(files("src/a.go", "free.txt"), approves("bob")), true, nil},
		{"RG-323 an ownerless last rule clears ownership", facts(files("none/x")), true, nil},
		{"RG-493 the last matching rule wins", facts(withCodeowners("* @alice\n/src/ @acme/docs\n"), approves("alice")), false, nil},
		{"RG-336 the author is not excluded by the evaluator", facts(approves("erin"), withCodeowners("* @erin\n")), true, nil},
		{"RG-326 RG-494 a rename needs the old path's owners", facts(rename("docs/a.md", "src/a.md"), approves("bob")), false, nil},
		{"RG-326 RG-494 a rename needs the new path's owners", facts(rename("docs/a.md", "src/a.md"), approves("dave")), false, nil},
		{"RG-326 RG-494 a rename passes with both", facts(rename("docs/a.md", "src/a.md"), approves("bob"), approves("dave")), true, nil},
	})
	t.Run("RG-313 the tree says who may approve, who did, and what is next", func(t *testing.T) {
		t.Parallel()
		v := mustBlock(t, both(approves("bob")))
		groups := v.Pulls[0].Groups
		if len(groups) != 2 {
			t.Fatalf("%d groups, want 2", len(groups))
		}
		docs, platform := groups[0], groups[1]
		if docs.Satisfied || docs.NextStep != "@acme/docs must approve docs/b.md" || docs.Files[0].Line != 2 {
			t.Errorf("docs: %+v", docs)
		}
		if !platform.Satisfied || platform.Approvals[0].Login != "bob" || platform.Approvals[0].Via[0] != "@acme/platform" {
			t.Errorf("platform: %+v", platform)
		}
		if v.NextStep != docs.NextStep || !v.MissingOnly || v.Unsettled {
			t.Errorf("next %q missing only %v unsettled %v", v.NextStep, v.MissingOnly, v.Unsettled)
		}
	})
	t.Run("RG-323 unowned paths are listed", func(t *testing.T) {
		t.Parallel()
		v := mustApprove(t, facts(files("none/x", "free.txt")))
		if got := fmt.Sprint(v.Pulls[0].Unowned); got != "[free.txt none/x]" {
			t.Errorf("unowned %s", got)
		}
	})
}

func rename(from, to string) func(*policy.Snapshot) {
	return pullMod(func(p *policy.PullRequest) {
		p.Files.Items = []policy.ChangedFile{{Path: to, PreviousPath: from, Status: "renamed", Before: blob("x"), After: blob("x")}}
		p.ChangedFiles = 1
	})
}

func TestReviews(t *testing.T) {
	t.Parallel()
	broken := func(mod func(*policy.Review)) policy.Snapshot {
		return facts(approves("bob"), approves("carol"), pullMod(func(p *policy.PullRequest) { mod(&p.Reviews.Items[1]) }))
	}
	decide(t, []decision{
		{"RG-312 RG-329 RG-330 later changes requested cancel the approval", facts(approves("bob"), review("bob", "CHANGES_REQUESTED", headSHA)), false, nil},
		{"RG-330 a dismissal cancels the approval", facts(approves("bob"), review("bob", "DISMISSED", headSHA)), false, nil},
		{"RG-329 RG-330 a later comment does not cancel it", facts(approves("bob"), review("bob", "COMMENTED", headSHA)), true, nil},
		{"RG-329 a pending review is ignored", facts(approves("bob"), review("bob", "PENDING", headSHA)), true, nil},
		{"RG-330 approving again after changes requested counts", facts(review("bob", "CHANGES_REQUESTED", headSHA), approves("bob")), true, nil},
		{"RG-330 one reviewer's refusal is not another's", facts(approves("bob"), review("carol", "CHANGES_REQUESTED", headSHA)), true, nil},
		{"RG-329 the same time is decided by the review id", facts(approves("bob"), review("bob", "CHANGES_REQUESTED", headSHA), pullMod(func(p *policy.PullRequest) {
			p.Reviews.Items[1].SubmittedAt = p.Reviews.Items[0].SubmittedAt
		})), false, nil},
		{"RG-329 time comes before the review id", facts(approves("bob"), review("bob", "CHANGES_REQUESTED", headSHA), pullMod(func(p *policy.PullRequest) {
			p.Reviews.Items[0].SubmittedAt = p.Reviews.Items[1].SubmittedAt.Add(1)
		})), true, nil},
		{"RG-006 RG-331 an approval of an older commit is ignored with a warning", facts(review("bob", "APPROVED", oldSHA)), false, codes(policy.CodeStaleApproval)},
		{"RG-331 a stale approval does not spoil a fresh one", facts(review("bob", "APPROVED", oldSHA), approves("carol")), true, codes(policy.CodeStaleApproval)},
		{"RG-331 the latest opinion decides before its commit is looked at", facts(approves("bob"), review("bob", "APPROVED", oldSHA)), false, codes(policy.CodeStaleApproval)},
		{"RG-332 an unknown review state", broken(func(r *policy.Review) { r.State = "LGTM" }), false, codes(policy.CodeMalformedEvidence)},
		{"RG-332 a review without its author", broken(func(r *policy.Review) { r.Author = nil }), false, codes(policy.CodeMalformedEvidence)},
		{"RG-332 a review without its author's id", broken(func(r *policy.Review) { r.Author.ID = 0 }), false, codes(policy.CodeMalformedEvidence)},
		{"RG-332 a review without its author's login", broken(func(r *policy.Review) { r.Author.Login = "" }), false, codes(policy.CodeMalformedEvidence)},
		{"RG-332 a review without its id", broken(func(r *policy.Review) { r.ID = 0 }), false, codes(policy.CodeMalformedEvidence)},
		{"RG-332 a review without its time", broken(func(r *policy.Review) { r.SubmittedAt = r.SubmittedAt.AddDate(-3000, 0, 0); *r = zeroTime(*r) }), false, codes(policy.CodeMalformedEvidence)},
		{"RG-332 an author that is neither user nor bot", broken(func(r *policy.Review) { r.Author.Type = "Organization" }), false, codes(policy.CodeMalformedEvidence)},
		{"RG-332 a comment needs nothing of that", broken(func(r *policy.Review) { r.State, r.Author, r.ID = "COMMENTED", nil, 5 }), true, nil},
		{"RG-008 the same review twice is contradictory", broken(func(r *policy.Review) { r.ID = 101 }), false, codes(policy.CodeContradictory)},
		{"RG-008 one account with two logins is contradictory", broken(func(r *policy.Review) { r.Author.ID = ids["bob"] }), false, codes(policy.CodeContradictory)},
		{"RG-008 one account as user and as bot is contradictory", broken(func(r *policy.Review) { r.Author.ID, r.Author.Type, r.Author.Login = ids["bob"], "Bot", "bob" }), false, codes(policy.CodeContradictory)},
		{"RG-007 reviews that could not be read in full", facts(approves("bob"), pullMod(func(p *policy.PullRequest) { p.Reviews.State = policy.FactUnknown })), false, codes(policy.CodeEvidenceUnknown)},
	})
	t.Run("RG-350 the 1000th review is read and the 1001st refused", func(t *testing.T) {
		t.Parallel()
		s := facts(approves("bob"))
		p := &s.Pulls[0]
		for len(p.Reviews.Items) < policy.MaxReviews {
			addReview(p, "dave", "COMMENTED", headSHA)
		}
		mustApprove(t, s)
		addReview(p, "dave", "COMMENTED", headSHA)
		mustBlock(t, s, policy.CodeEvidenceLimit)
	})
}

func zeroTime(r policy.Review) policy.Review {
	return policy.Review{ID: r.ID, State: r.State, Author: r.Author, CommitID: r.CommitID}
}

func TestHumans(t *testing.T) {
	t.Parallel()
	rows := []decision{
		{"RG-335 404 on the permission is not eligible", facts(approves("alice"), user("alice", func(u *policy.UserFact) { u.State = policy.FactAbsent })), false, nil},
		{"RG-005 an unknown permission is an error of evidence", facts(approves("alice"), user("alice", func(u *policy.UserFact) { u.State = policy.FactUnknown })), false, codes(policy.CodeEvidenceUnknown)},
		{"RG-333 a permission nobody knows is not one", facts(approves("alice"), user("alice", func(u *policy.UserFact) { u.Permission = "owner" })), false, codes(policy.CodeEvidenceUnknown)},
		{"RG-008 the login belongs to another account now", facts(approves("alice"), user("alice", func(u *policy.UserFact) { u.ID = 999 })), false, nil},
		{"RG-334 a team of another organisation", facts(withCodeowners("/src/ @other/platform\n"), approves("bob")), false, nil},
		{"RG-334 a secret team", facts(approves("bob"), team("acme/platform", func(f *policy.TeamFact) { f.Privacy = "secret" })), false, nil},
		{"RG-335 404 on the team is not eligible", facts(approves("bob"), team("acme/platform", func(f *policy.TeamFact) { f.State = policy.FactAbsent })), false, nil},
		{"RG-005 an unknown team is an error of evidence", facts(approves("bob"), team("acme/platform", func(f *policy.TeamFact) { f.State = policy.FactUnknown })), false, codes(policy.CodeEvidenceUnknown)},
		{"RG-335 404 on the membership is not eligible", facts(approves("dave")), false, nil},
		{"RG-334 a pending member", facts(approves("bob"), membership("acme/platform", "bob", policy.MembershipPending)), false, nil},
		{"RG-005 an unknown membership is an error of evidence", facts(approves("bob"), membership("acme/platform", "bob", policy.MembershipUnknown)), false, codes(policy.CodeEvidenceUnknown)},
		{"RG-005 an unknown fact of one does not spoil another's approval", facts(approves("bob"), approves("carol"), membership("acme/platform", "bob", policy.MembershipUnknown)), true, nil},
		{"RG-334 teams do not exist under a user account", facts(approves("bob"), func(s *policy.Snapshot) { s.Repository.OwnerType = "User" }), false, nil},
		{"RG-338 a bot is nobody's team member", facts(approves("renovate[bot]"), withCodeowners("/src/ @acme/platform\n")), false, nil},
	}
	for permission, want := range map[string]bool{"admin": true, "maintain": true, "write": true, "triage": false, "read": false, "none": false} {
		rows = append(rows, decision{"RG-333 direct owner with permission " + permission, facts(approves("alice"), user("alice", func(u *policy.UserFact) { u.Permission = permission })), want, nil})
	}
	for permission, want := range map[string]bool{"admin": true, "maintain": true, "push": true, "triage": false, "pull": false, "none": false} {
		rows = append(rows, decision{"RG-334 team with permission " + permission, facts(approves("bob"), team("acme/platform", func(f *policy.TeamFact) { f.Permission = permission })), want, nil})
	}
	decide(t, rows)
	t.Run("RG-351 approvals × teams over 250 fail", func(t *testing.T) {
		t.Parallel()
		var rules strings.Builder
		paths := []string{}
		for i := range 125 {
			fmt.Fprintf(&rules, "/d%d/ @acme/t%d @bob\n", i, i)
			paths = append(paths, fmt.Sprintf("d%d/x", i))
		}
		rules.WriteString("/d0/ @acme/t0 @bob @elsewhere/team\n") // a team of another organisation is not looked up
		s := facts(withCodeowners(rules.String()), files(paths...), approves("bob"), approves("alice"))
		for i := range 125 {
			s.Teams[fmt.Sprintf("acme/t%d", i)] = policy.TeamFact{State: policy.FactAbsent}
		}
		mustApprove(t, s)
		addReview(&s.Pulls[0], "carol", "APPROVED", headSHA)
		mustBlock(t, s, policy.CodeEvidenceLimit)
	})
}

func TestAuthorAsOwner(t *testing.T) {
	t.Parallel()
	const allow = "allow_author_as_codeowner = true\n"
	own := withCodeowners("/src/ @erin\n/prod/ @erin\n")
	decide(t, []decision{
		{"RG-337 off by default", facts(own), false, nil},
		{"RG-337 the author counts with the same evidence", facts(own, withPolicy(allow)), true, nil},
		{"RG-337 also on a non-delegable path", facts(own, withPolicy(allow), files("prod/x.tf")), true, nil},
		{"RG-337 the author needs write permission", facts(own, withPolicy(allow), user("erin", func(u *policy.UserFact) { u.Permission = "read" })), false, nil},
		{"RG-337 the author who owns nothing does not count", facts(withPolicy(allow)), false, nil},
		{"RG-337 a stale review of the author takes nothing away", facts(own, withPolicy(allow), review("erin", "APPROVED", oldSHA)), true, codes(policy.CodeStaleApproval)},
		{"RG-337 a bot author never counts", facts(withPolicy(allow+delegation), pullMod(func(p *policy.PullRequest) { p.Author = actor("renovate[bot]") })), false, nil},
		{"RG-337 a deleted author is ignored", facts(own, withPolicy(allow), pullMod(func(p *policy.PullRequest) { p.Author = nil })), false, nil},
	})
}

func TestApps(t *testing.T) {
	t.Parallel()
	app := func(name string) func(mods ...func(*policy.Snapshot)) policy.Snapshot {
		return func(mods ...func(*policy.Snapshot)) policy.Snapshot {
			return facts(append([]func(*policy.Snapshot){withPolicy(delegation), approves(name)}, mods...)...)
		}
	}
	renovate := app("renovate[bot]")
	identity := func(mod func(*policy.AppFact)) func(*policy.Snapshot) {
		return func(s *policy.Snapshot) {
			a := s.Apps["renovate[bot]"]
			mod(&a)
			s.Apps["renovate[bot]"] = a
		}
	}
	two := withPolicy(`[[delegations]]
app = "renovate"
paths = ["/src/a/**"]
for_owners = ["*"]
[[delegations]]
app = "octobot"
paths = ["/src/b/**"]
for_owners = ["*"]
`)
	labelled := withPolicy(`[[delegations]]
app = "renovate"
paths = ["/src/**"]
for_owners = ["@acme/platform"]
required_labels = ["Automation"]
forbidden_labels = ["hold"]
`)
	overlapping := withPolicy(`[[delegations]]
app = "renovate"
paths = ["/src/**"]
for_owners = ["@acme/platform"]
required_labels = ["never-there"]
[[delegations]]
app = "renovate"
paths = ["/src/a.go"]
for_owners = ["@alice"]
`)
	decide(t, []decision{
		{"RG-311 RG-338 RG-340 an enrolled App with a delegation", renovate(), true, nil},
		{"RG-311 an App without a delegation", app("octobot[bot]")(), false, nil},
		{"RG-338 an unenrolled bot", app("mallory[bot]")(pullMod(func(p *policy.PullRequest) { p.Reviews.Items[0].Author.ID = 66 })), false, nil},
		{"RG-338 RG-339 another id under the App's login", renovate(pullMod(func(p *policy.PullRequest) { p.Reviews.Items[0].Author.ID = 66 })), false, codes(policy.CodeAppIdentityMismatch)},
		{"RG-338 RG-339 the App's id under another login", renovate(pullMod(func(p *policy.PullRequest) { p.Reviews.Items[0].Author.Login = "other[bot]" })), false, codes(policy.CodeAppIdentityMismatch)},
		{"RG-338 a user with the App's id and login", renovate(pullMod(func(p *policy.PullRequest) { p.Reviews.Items[0].Author.Type = "User" })), false, codes(policy.CodeEvidenceUnknown)},
		{"RG-338 RG-339 GitHub's account has another id", renovate(identity(func(a *policy.AppFact) { a.ID = 5 })), false, codes(policy.CodeAppIdentityMismatch)},
		{"RG-338 RG-339 GitHub's account has another login", renovate(identity(func(a *policy.AppFact) { a.Login = "x[bot]" })), false, codes(policy.CodeAppIdentityMismatch)},
		{"RG-338 RG-339 GitHub's account is a user", renovate(identity(func(a *policy.AppFact) { a.Type = "User" })), false, codes(policy.CodeAppIdentityMismatch)},
		{"RG-339 GitHub knows no such account", renovate(identity(func(a *policy.AppFact) { a.State = policy.FactAbsent })), false, codes(policy.CodeAppIdentityMismatch)},
		{"RG-005 an unknown identity is an error of evidence", renovate(identity(func(a *policy.AppFact) { a.State = policy.FactUnknown })), false, codes(policy.CodeEvidenceUnknown)},
		{"RG-339 other evidence may still satisfy", renovate(identity(func(a *policy.AppFact) { a.ID = 5 }), approves("bob")), true, codes(policy.CodeAppIdentityMismatch)},
		{"RG-331 an App's approval of an older commit is ignored", facts(withPolicy(delegation), review("renovate[bot]", "APPROVED", oldSHA)), false, codes(policy.CodeStaleApproval)},
		{"RG-340 every path of the set must be covered", renovate(files("src/a.go", "prod/x.tf"), withCodeowners("* @acme/platform\n")), false, nil},
		{"RG-340 different Apps may cover different paths", facts(two, files("src/a/x", "src/b/y"), approves("renovate[bot]"), approves("octobot[bot]")), true, nil},
		{"RG-340 one of the two Apps is not enough", facts(two, files("src/a/x", "src/b/y"), approves("renovate[bot]")), false, nil},
		{"RG-341 a path outside the delegation", renovate(files("docs/x"), withCodeowners("* @acme/platform\n")), false, nil},
		{"RG-341 owners outside the delegation", renovate(withCodeowners("* @alice\n")), false, nil},
		{"RG-341 owners that intersect are enough", renovate(withCodeowners("* @alice @acme/platform\n")), true, nil},
		{"RG-341 a required label is missing", facts(labelled, approves("renovate[bot]")), false, nil},
		{"RG-341 RG-343 labels ignore case", facts(labelled, labels("AUTOMATION"), approves("renovate[bot]")), true, nil},
		{"RG-341 a forbidden label", facts(labelled, labels("automation", "HOLD"), approves("renovate[bot]")), false, nil},
		{"RG-343 a label alone never satisfies", facts(labelled, labels("automation")), false, nil},
		{"RG-343 labels never block a person", facts(labelled, labels("hold"), approves("bob")), true, nil},
		{"RG-342 overlapping delegations are alternatives", facts(overlapping, approves("renovate[bot]")), true, nil},
		{"RG-344 RG-375 a guardrail keeps the App out", renovate(files("prod/x.tf")), false, nil},
		{"RG-344 a guardrail does not keep people out", renovate(files("prod/x.tf"), approves("bob")), true, nil},
		{"RG-326 RG-340 a rename's old path must be covered too", renovate(rename("docs/x", "src/x"), withCodeowners("* @acme/platform\n")), false, nil},
		{"RG-378 a delegation to an unenrolled alias fails", facts(withPolicy(strings.ReplaceAll(delegation, "renovate", "ghost")), approves("bob")), false, codes(policy.CodeUnenrolledApplication)},
		{"RG-379 an App that only the repository names has no standing", facts(withOrg("schema_version = 1\n"), withPolicy(delegation), approves("renovate[bot]")), false, codes(policy.CodeUnenrolledApplication)},
	})
}

func TestBuiltInProtection(t *testing.T) {
	t.Parallel()
	own := withCodeowners("* @acme/platform\n")
	anywhere := "[[delegations]]\napp = \"renovate\"\npaths = [\"*\"]\nfor_owners = [\"*\"]\n"
	builtIn := []string{"CODEOWNERS", ".github/CODEOWNERS", "docs/CODEOWNERS", ".github/countersign.toml", ".github/extra-codeowners.toml",
		"stampbot.toml", ".github/workflows/ci.yml", ".github/workflows/a/b.yml", ".github/actions/x/action.yml"}
	insecure := func(s *policy.Snapshot) { s.Settings.AllowInsecureChanges = true }
	for _, path := range builtIn {
		rows := []decision{
			{"RG-345 no App may approve " + path, facts(own, withPolicy(anywhere), files(path), approves("renovate[bot]")), false, nil},
			{"RG-344 a person may approve " + path, facts(own, withPolicy(anywhere), files(path), approves("bob")), true, nil},
			{"RG-346 the operator may allow " + path, facts(own, withPolicy(anywhere), files(path), approves("renovate[bot]"), insecure), true, codes(policy.CodeInsecureChanges)},
		}
		decide(t, rows)
	}
	open := "allow_delegation_for_policy_file = true\n" + anywhere
	railed := orgPolicy[:strings.Index(orgPolicy, "[guardrails]")] + "[guardrails]\nnon_delegable_paths = [\"/.github/**\"]\n"
	decide(t, []decision{
		{"RG-345 another path is open", facts(own, withPolicy(anywhere), files("stampbot.toml.md"), approves("renovate[bot]")), true, nil},
		{"RG-346 organisation guardrails stay", facts(own, withPolicy(anywhere), files("prod/x"), approves("renovate[bot]"), insecure), false, codes(policy.CodeInsecureChanges)},
		{"RG-347 the policy file itself, and only it", facts(own, withPolicy(open), files(".github/countersign.toml"), approves("renovate[bot]")), true, nil},
		{"RG-347 not the other policy path", facts(own, withPolicy(open), files(".github/extra-codeowners.toml"), approves("renovate[bot]")), false, nil},
		{"RG-347 not workflows", facts(own, withPolicy(open), files(".github/workflows/x.yml"), approves("renovate[bot]")), false, nil},
		{"RG-347 a guardrail still wins", facts(own, withPolicy(open), withOrg(railed), files(".github/countersign.toml"), approves("renovate[bot]")), false, nil},
	})
}

func TestCodeownersFacts(t *testing.T) {
	t.Parallel()
	state := func(state policy.FactState) func(*policy.Snapshot) {
		return withBase(func(b *policy.Base) { b.Codeowners = policy.FileFact{State: state} })
	}
	reported := withBase(func(b *policy.Base) {
		b.CodeownersErrors.Items = []policy.CodeownersError{{Line: 3, Column: 1, Kind: "Unknown owner", Message: "Unknown owner on line 3: make sure @x exists\n\n  x\n  ^"}}
	})
	decide(t, []decision{
		{"RG-316 no CODEOWNERS in an enabled repository", facts(state(policy.FactAbsent), approves("bob")), false, codes(policy.CodeCodeownersMissing)},
		{"RG-005 CODEOWNERS that could not be read", facts(state(policy.FactUnknown), approves("bob")), false, codes(policy.CodeEvidenceUnknown)},
		{"RG-317 any entry of GitHub's errors endpoint", facts(reported, approves("bob")), false, codes(policy.CodeGitHubCodeownersError)},
		{"RG-005 GitHub's errors endpoint could not be read", facts(withBase(func(b *policy.Base) { b.CodeownersErrors.State = policy.FactUnknown }), approves("bob")), false, codes(policy.CodeEvidenceUnknown)},
		{"RG-318 RG-319 a malformed line fails closed though it decides nothing here", facts(withCodeowners(codeowners+"!x @alice\n"), approves("bob")), false, codes(policy.CodeInvalidPattern)},
		{"RG-318 RG-321 an invalid owner", facts(withCodeowners(codeowners+"x alice\n"), approves("bob")), false, codes(policy.CodeInvalidOwner)},
		{"RG-321 a relevant e-mail owner", facts(withCodeowners("* a@example.com @acme/platform\n"), approves("bob")), false, codes(policy.CodeEmailOwner)},
		{"RG-321 an e-mail owner of another path", facts(withCodeowners("/other/ a@example.com\n"+codeowners), approves("bob")), true, nil},
		{"RG-322 over 3 MiB", facts(withCodeowners(strings.Repeat("# padding, nothing but padding, forty bytes\n", 80_000)+codeowners), approves("bob")), false, codes(policy.CodeCodeownersTooLarge)},
		{"RG-324 matching is case-sensitive", facts(files("SRC/a.go")), true, nil},
		{"RG-320 an escaped space", facts(withCodeowners("/src/my\\ file.go @acme/docs # a comment\n"), files("src/my file.go"), approves("dave")), true, nil},
	})
	t.Run("RG-316 without CODEOWNERS no path is called unowned", func(t *testing.T) {
		t.Parallel()
		if v := mustBlock(t, facts(state(policy.FactAbsent), approves("bob"))); len(v.Pulls[0].Unowned) > 0 {
			t.Errorf("unowned %v", v.Pulls[0].Unowned)
		}
	})
	t.Run("RG-317 the report names line, kind and suggestion once", func(t *testing.T) {
		t.Parallel()
		for message, e := range map[string]policy.CodeownersError{
			"GitHub rejects line 3 of .github/CODEOWNERS: Unknown owner: Unknown owner on line 3: make sure @x exists": {Line: 3, Kind: "Unknown owner", Message: "Unknown owner on line 3: make sure @x exists\n\n  x\n  ^", Suggestion: "make sure @x exists"},
			"GitHub rejects line 4 of .github/CODEOWNERS: Invalid pattern: escape it":                                  {Line: 4, Kind: "Invalid pattern", Suggestion: "escape it"},
			"GitHub rejects line 5 of .github/CODEOWNERS: Invalid owner":                                               {Line: 5, Kind: "Invalid owner"},
		} {
			v := mustBlock(t, facts(withBase(func(b *policy.Base) { b.CodeownersErrors.Items = []policy.CodeownersError{e} })))
			if got := v.Pulls[0].Findings[0]; got.Message != message || got.Line != e.Line {
				t.Errorf("line %d\n got %s\nwant %s", got.Line, got.Message, message)
			}
		}
	})
	t.Run("RG-318 a long list of problems is counted, not cut silently", func(t *testing.T) {
		t.Parallel()
		v := mustBlock(t, facts(withCodeowners(strings.Repeat("!x @alice\n", 21))))
		if n := len(v.Pulls[0].Findings); n != 21 {
			t.Errorf("%d findings, want 20 and a count", n)
		}
		if v = mustBlock(t, facts(withCodeowners(strings.Repeat("!x @alice\n", 25)))); !strings.Contains(fmt.Sprint(v.Pulls[0].Findings), "5 more lines that cannot be used") {
			t.Errorf("findings %v", v.Pulls[0].Findings)
		}
	})
	t.Run("RG-318 all malformed lines are reported", func(t *testing.T) {
		t.Parallel()
		v := mustBlock(t, facts(withCodeowners("!a @alice\n\n[b] @alice\nc nobody\n")))
		lines := map[int]bool{}
		for _, f := range v.Pulls[0].Findings {
			lines[f.Line] = true
		}
		if !lines[1] || !lines[3] || !lines[4] {
			t.Errorf("lines reported: %v", lines)
		}
	})
}

func TestChangedFiles(t *testing.T) {
	t.Parallel()
	file := func(mod func(*policy.ChangedFile)) policy.Snapshot {
		return facts(approves("bob"), pullMod(func(p *policy.PullRequest) { mod(&p.Files.Items[0]) }))
	}
	rows := []decision{
		{"RG-007 files that could not be read in full", facts(approves("bob"), pullMod(func(p *policy.PullRequest) { p.Files.State = policy.FactUnknown })), false, codes(policy.CodeEvidenceUnknown)},
		{"RG-007 RG-349 fewer files than the pull request counts", facts(approves("bob"), pullMod(func(p *policy.PullRequest) { p.ChangedFiles = 2 })), false, codes(policy.CodeIncompleteFiles)},
		{"RG-349 more files than the pull request counts", facts(approves("bob"), pullMod(func(p *policy.PullRequest) { p.ChangedFiles = 0 })), false, codes(policy.CodeIncompleteFiles)},
		{"RG-326 a rename without its old path", file(func(f *policy.ChangedFile) { f.Status = "renamed" }), false, codes(policy.CodeMalformedEvidence)},
		{"RG-327 an unknown status", file(func(f *policy.ChangedFile) { f.Status = "moved" }), false, codes(policy.CodeMalformedEvidence)},
		{"RG-008 the same file twice", facts(approves("bob"), files("src/a.go", "src/a.go")), false, codes(policy.CodeContradictory)},
		{"RG-348 RG-352 a size nobody could decide is refused with its bound", facts(approves("bob"), pullMod(func(p *policy.PullRequest) { p.ChangedFiles = policy.MaxChangedFiles + 1 })), false, codes(policy.CodePullTooLarge)},
	}
	for _, path := range []string{"", "/abs", "a//b", "a/./b", "a/../b", "..", " a", "a ", "a\t", `a\b`, "a/", "\u00a0a", "bad\xff"} {
		rows = append(rows, decision{fmt.Sprintf("RG-327 path %q", path), file(func(f *policy.ChangedFile) { f.Path = path }), false, codes(policy.CodeMalformedEvidence)})
		if path != "" {
			rows = append(rows, decision{fmt.Sprintf("RG-327 old path %q", path), file(func(f *policy.ChangedFile) { f.Status, f.PreviousPath = "renamed", path }), false, codes(policy.CodeMalformedEvidence)})
		}
	}
	decide(t, rows)
	t.Run("RG-348 the bound itself is decided, one more is not", func(t *testing.T) {
		t.Parallel()
		s := facts(approves("bob"), pullMod(func(p *policy.PullRequest) {
			p.Files.Items, p.ChangedFiles = make([]policy.ChangedFile, policy.MaxChangedFiles), policy.MaxChangedFiles
			for i := range p.Files.Items {
				p.Files.Items[i] = policy.ChangedFile{Path: "src/" + strconv.Itoa(i), Status: "modified"}
			}
			p.Files.Items[0].Status, p.Files.Items[1].Status = "added", "removed"
		}))
		mustApprove(t, s)
		p := &s.Pulls[0]
		p.Files.Items = append(p.Files.Items, policy.ChangedFile{Path: "src/more", Status: "modified"})
		mustBlock(t, s, policy.CodePullTooLarge)
	})
	t.Run("RG-352 more groups times reviews than the bound are refused", func(t *testing.T) {
		t.Parallel()
		var rules strings.Builder
		paths := make([]string, 50_100)
		for i := range paths {
			paths[i] = "d" + strconv.Itoa(i)
			rules.WriteString("/d" + strconv.Itoa(i) + " @o" + strconv.Itoa(i) + "\n")
		}
		s := facts(withCodeowners(rules.String()), files(paths...))
		for i := range policy.MaxReviews {
			s.Pulls[0].Reviews.Items = append(s.Pulls[0].Reviews.Items, policy.Review{ID: int64(i + 1), State: "DISMISSED", SubmittedAt: now, Author: &policy.Actor{ID: int64(i + 1), Login: "r" + strconv.Itoa(i), Type: "User"}})
		}
		mustBlock(t, s, policy.CodeComplexity)
		s.Pulls[0].Reviews.Items = s.Pulls[0].Reviews.Items[:900]
		if v := mustBlock(t, s, policy.CodeMissingApproval); !v.MissingOnly {
			t.Errorf("codes %v", v.Codes)
		}
	})
	t.Run("RG-327 many malformed paths are counted", func(t *testing.T) {
		t.Parallel()
		for n, want := range map[int]string{20: "", 21: "and 1 more of the same kind", 25: "and 5 more of the same kind"} {
			paths := make([]string, n)
			for i := range paths {
				paths[i] = "/" + strconv.Itoa(i)
			}
			v := mustBlock(t, facts(files(paths...)), policy.CodeMalformedEvidence)
			if last := fmt.Sprint(v.Pulls[0].Findings); strings.Contains(last, "more of the same kind") != (want != "") || !strings.Contains(last, want) {
				t.Errorf("%d: %s", n, last)
			}
		}
	})
	t.Run("RG-321 many e-mail owners are counted once", func(t *testing.T) {
		t.Parallel()
		paths := make([]string, 30)
		for i := range paths {
			paths[i] = "m/" + strconv.Itoa(i)
		}
		if v := mustBlock(t, facts(withCodeowners("* a@example.com\n"), files(paths...)), policy.CodeEmailOwner); len(v.Pulls[0].Findings) != 20 {
			t.Errorf("%d findings", len(v.Pulls[0].Findings))
		}
	})
	t.Run("RG-349 from 3,000 files on a rename may be listed as removed and added", func(t *testing.T) {
		t.Parallel()
		list := func(modified, renamed, counted int) policy.Snapshot {
			return facts(approves("bob"), pullMod(func(p *policy.PullRequest) {
				p.Files.Items, p.ChangedFiles = nil, counted
				for i := range modified {
					p.Files.Items = append(p.Files.Items, policy.ChangedFile{Path: fmt.Sprintf("src/m%d", i), Status: "modified"})
				}
				for i := range renamed {
					p.Files.Items = append(p.Files.Items, policy.ChangedFile{Path: fmt.Sprintf("src/old%d", i), Status: "removed"}, policy.ChangedFile{Path: fmt.Sprintf("src/new%d", i), Status: "added"})
				}
			}))
		}
		mustApprove(t, list(2990, 10, 3000))
		mustApprove(t, list(2990, 10, 3010))
		mustBlock(t, list(2991, 10, 3000), policy.CodeIncompleteFiles)
		mustBlock(t, list(2990, 10, 3011), policy.CodeIncompleteFiles)
		mustBlock(t, list(2980, 10, 2990), policy.CodeIncompleteFiles)
		own := list(2990, 10, 3000)
		own.Pulls[0].Files.Items[0] = policy.ChangedFile{Path: "src/b", PreviousPath: "src/a", Status: "renamed"}
		mustBlock(t, own, policy.CodeIncompleteFiles)
	})
	t.Run("RG-352 more comparisons than the bound are refused with it", func(t *testing.T) {
		t.Parallel()
		paths := make([]string, 30_000)
		for i := range paths {
			paths[i] = fmt.Sprintf("src/%05d.go", i)
		}
		var rules strings.Builder
		for i := range 70 {
			fmt.Fprintf(&rules, "[[requirement]]\nname = \"r%d\"\npaths = [\"*\"]\ncount = 1\n", i)
		}
		mustBlock(t, facts(files(paths...), withPolicy(rules.String()), approves("bob")), policy.CodeComplexity)
		mustApprove(t, facts(files(paths...), withPolicy(rules.String()[:strings.Index(rules.String(), "[[requirement]]\nname = \"r9\"")]), approves("bob")))
	})
	t.Run("RG-348 RG-352 ten thousand files are decided exactly", func(t *testing.T) {
		t.Parallel()
		paths := make([]string, 10_000)
		for i := range paths {
			paths[i] = fmt.Sprintf("src/%05d.go", i)
		}
		s := facts(files(paths...), approves("bob"))
		mustApprove(t, s)
		s.Pulls[0].Files.Items[7777].Path = "docs/one.md"
		if v := mustBlock(t, s); v.NextStep != "@acme/docs must approve docs/one.md" {
			t.Errorf("next step %q", v.NextStep)
		}
	})
}

func TestPolicyFacts(t *testing.T) {
	t.Parallel()
	base := func(one, two policy.FileFact) func(*policy.Snapshot) {
		return withBase(func(b *policy.Base) { b.Policy, b.FallbackPolicy = one, two })
	}
	org := func(mod func(*policy.OrganizationPolicy)) func(*policy.Snapshot) {
		return func(s *policy.Snapshot) { mod(&s.OrganizationPolicy) }
	}
	present := policy.FileFact{State: policy.FactPresent, Text: repoPolicy}
	userAccount := func(s *policy.Snapshot) {
		s.Repository.OwnerType, s.OrganizationPolicy = "User", policy.OrganizationPolicy{Repository: policy.FactAbsent}
	}
	absent, unknown := policy.FileFact{State: policy.FactAbsent}, policy.FileFact{State: policy.FactUnknown}
	decide(t, []decision{
		{"RG-370 the policy path", facts(base(present, absent), approves("bob")), true, nil},
		{"RG-370 the forerunner's path with the same meaning", facts(base(absent, present), approves("bob")), true, nil},
		{"RG-370 both are ambiguous", facts(base(present, present), approves("bob")), false, codes(policy.CodeAmbiguousPolicy)},
		{"RG-005 an unknown policy", facts(base(unknown, absent), approves("bob")), false, codes(policy.CodeEvidenceUnknown)},
		{"RG-005 an unknown fallback policy", facts(base(present, unknown), approves("bob")), false, codes(policy.CodeEvidenceUnknown)},
		{"RG-354 a disabled policy", facts(withRawPolicy("schema_version = 1\nenabled = false\n"), approves("bob")), false, codes(policy.CodeRepositoryPolicyDisabled)},
		{"RG-354 a removed policy", facts(base(absent, absent), approves("bob")), false, codes(policy.CodeRepositoryPolicyDisabled)},
		{"RG-376 a broken policy", facts(withRawPolicy("schema_version = 1\n"), approves("bob")), false, codes(policy.CodeInvalidPolicy)},
		{"RG-356 the organisation's repository is not in the installation", facts(org(func(o *policy.OrganizationPolicy) { o.Repository = policy.FactAbsent }), approves("bob")), false, codes(policy.CodeOrganizationPolicyRepositoryGone)},
		{"RG-354 a disabled policy is the only reason it gives", facts(withRawPolicy("schema_version = 1\nenabled = false\n"), withCodeowners("!\n"), withOrg("x")), false, codes(policy.CodeRepositoryPolicyDisabled)},
		{"RG-354 a disabled policy says nothing of stale approvals", facts(withRawPolicy("schema_version = 1\nenabled = false\n"), review("bob", "APPROVED", oldSHA)), false, codes(policy.CodeRepositoryPolicyDisabled)},
		{"RG-354 so is a removed one", facts(base(absent, absent), withCodeowners("!\n")), false, codes(policy.CodeRepositoryPolicyDisabled)},
		{"a user account needs no policy repository", facts(userAccount, approves("alice")), true, nil},
		{"a user account's policy repository counts where there is one", facts(userAccount, org(func(o *policy.OrganizationPolicy) {
			o.Repository, o.FallbackPolicy = policy.FactPresent, absent
			o.Policy = policy.FileFact{State: policy.FactPresent, Text: "x"}
		}), approves("alice")), false, codes(policy.CodeInvalidPolicy)},
		{"RG-005 a user account's policy repository that could not be read", facts(userAccount, org(func(o *policy.OrganizationPolicy) { o.Repository = policy.FactUnknown }), approves("alice")), false, codes(policy.CodeEvidenceUnknown)},
		{"RG-356 accessible without a file is an empty policy", facts(org(func(o *policy.OrganizationPolicy) { o.Policy = absent }), approves("bob")), true, nil},
		{"RG-005 an unknown organisation repository", facts(org(func(o *policy.OrganizationPolicy) { o.Repository = policy.FactUnknown }), approves("bob")), false, codes(policy.CodeEvidenceUnknown)},
		{"RG-005 an unknown organisation policy", facts(org(func(o *policy.OrganizationPolicy) { o.Policy = unknown }), approves("bob")), false, codes(policy.CodeEvidenceUnknown)},
		{"RG-370 an organisation with both files is ambiguous", facts(org(func(o *policy.OrganizationPolicy) { o.FallbackPolicy = o.Policy }), approves("bob")), false, codes(policy.CodeAmbiguousPolicy)},
		{"RG-370 the organisation's forerunner path", facts(withPolicy(delegation), org(func(o *policy.OrganizationPolicy) { o.FallbackPolicy, o.Policy = o.Policy, absent }), approves("renovate[bot]")), true, nil},
		{"RG-374 a broken organisation policy", facts(withOrg("schema_version = 1\n[apps.x]\nslug = \"x\"\n"), approves("bob")), false, codes(policy.CodeInvalidPolicy)},
	})
	t.Run("RG-354 no policy file is unmanaged, not an error of ours", func(t *testing.T) {
		t.Parallel()
		if v := mustBlock(t, facts(base(absent, absent))); v.Managed {
			t.Error("managed without a policy file")
		}
		if v := mustBlock(t, facts(base(unknown, absent))); !v.Managed || !v.Unsettled {
			t.Errorf("an unreadable policy: managed %v, unsettled %v; want both", v.Managed, v.Unsettled)
		}
		if v := mustBlock(t, facts(withRawPolicy("schema_version = 1\nenabled = false\n"))); !v.Managed {
			t.Error("a disabled policy is still a policy")
		}
	})
	t.Run("a policy file that is too large or not UTF-8 is unsettled: it is read again", func(t *testing.T) {
		t.Parallel()
		for name, text := range map[string]string{"large": repoPolicy + strings.Repeat("# padding padding padding\n", 40_000), "encoding": repoPolicy + "# \xff\n"} {
			if v := mustBlock(t, facts(withRawPolicy(text), approves("bob")), policy.CodeEvidenceUnknown); !v.Unsettled || v.MissingOnly {
				t.Errorf("%s: unsettled %v, missing only %v", name, v.Unsettled, v.MissingOnly)
			}
		}
	})
	t.Run("RG-355 a pull request that edits the policy is judged by the base", func(t *testing.T) {
		t.Parallel()
		s := facts(withCodeowners("* @acme/platform\n"), files(".github/countersign.toml", ".github/CODEOWNERS"), approves("dave"))
		mustBlock(t, s, policy.CodeMissingApproval)
		addReview(&s.Pulls[0], "bob", "APPROVED", headSHA)
		mustApprove(t, s)
	})
}

func TestSharedHead(t *testing.T) {
	t.Parallel()
	two := func(mods ...func(*policy.Snapshot)) policy.Snapshot {
		return facts(append([]func(*policy.Snapshot){func(s *policy.Snapshot) {
			p := pull(9)
			p.BaseRef, p.BaseSHA = "release", base2
			setFiles(&p, "docs/x.md")
			s.Pulls = append(s.Pulls, p)
			s.Bases[base2] = goodBase()
			addReview(&s.Pulls[0], "bob", "APPROVED", headSHA)
		}}, mods...)...)
	}
	second := func(login string) func(*policy.Snapshot) {
		return func(s *policy.Snapshot) { addReview(&s.Pulls[1], login, "APPROVED", headSHA) }
	}
	strict := func(s *policy.Snapshot) {
		b := s.Bases[base2]
		b.Policy.Text = repoPolicy + "[[requirement]]\nname = \"two\"\npaths = [\"*\"]\ncount = 2\n"
		s.Bases[base2] = b
	}
	decide(t, []decision{
		{"RG-257 one of two is not approved", two(), false, codes(policy.CodeMissingApproval)},
		{"RG-257 both are approved", two(second("dave")), true, nil},
		{"RG-257 each by its own base and policy", two(second("dave"), strict), false, nil},
		{"RG-257 an unmanaged pull request on the head is not approved", two(second("dave"), func(s *policy.Snapshot) {
			s.Bases[base2] = policy.Base{Policy: policy.FileFact{State: policy.FactAbsent}, FallbackPolicy: policy.FileFact{State: policy.FactAbsent}}
		}), false, codes(policy.CodeRepositoryPolicyDisabled)},
		{"RG-008 another head", two(second("dave"), func(s *policy.Snapshot) { s.Pulls[1].HeadSHA = oldSHA }), false, codes(policy.CodeContradictory)},
		{"RG-008 the same pull request twice", two(second("dave"), func(s *policy.Snapshot) { s.Pulls[1].Number = 7 }), false, codes(policy.CodeContradictory)},
		{"RG-007 the pull requests on the head are not all known", two(second("dave"), func(s *policy.Snapshot) { s.PullsState = policy.FactUnknown }), false, codes(policy.CodeEvidenceUnknown)},
		{"RG-005 no pull request at all", facts(func(s *policy.Snapshot) { s.Pulls = nil }), false, codes(policy.CodeNoPullRequest)},
		{"RG-005 a base that nobody read", facts(approves("bob"), func(s *policy.Snapshot) { s.Bases = nil }), false, codes(policy.CodeEvidenceUnknown)},
	})
	t.Run("RG-257 what is unsettled of one is unsettled of all, and the first to expire is due", func(t *testing.T) {
		t.Parallel()
		s := two(func(s *policy.Snapshot) { s.Pulls[0].Reviews.State = policy.FactUnknown })
		if v := mustBlock(t, s, policy.CodeEvidenceUnknown); !v.Unsettled || v.MissingOnly {
			t.Errorf("unsettled %v, missing only %v", v.Unsettled, v.MissingOnly)
		}
		release := func(n int, hours time.Duration) func(*policy.Snapshot) {
			return func(s *policy.Snapshot) {
				at := now.Add(-time.Minute)
				s.Pulls[n].Comments.Items = []policy.Comment{
					{ID: 500, Author: actor("carol"), CreatedAt: at, UpdatedAt: at, Body: "/countersign break-glass head=" + headSHA + " until=" + now.Add(hours*time.Hour).Format(time.RFC3339) + " reason=the site is down"},
					{ID: 501, Author: actor("dave"), CreatedAt: at, UpdatedAt: at, Body: "/countersign confirm-break-glass request=500 head=" + headSHA},
				}
			}
		}
		one := two(withPolicy(glass), func(s *policy.Snapshot) { s.Pulls[0].Reviews.Items = nil }, release(0, 1), second("dave"))
		if v := mustApprove(t, one, policy.CodeBreakGlass); !v.BreakGlass || !strings.HasPrefix(policy.Render(v, policy.RenderInput{}).Title, "BREAK-GLASS") {
			t.Errorf("one of two is released: %v", v.Codes)
		}
		one = two(withPolicy(glass), release(1, 1))
		if v := mustApprove(t, one, policy.CodeBreakGlass); !strings.HasPrefix(policy.Render(v, policy.RenderInput{}).Title, "BREAK-GLASS") {
			t.Errorf("the other of two is released: %v", v.Codes)
		}
		one = two(withPolicy(glass), func(s *policy.Snapshot) { s.Pulls[0].Reviews.Items = nil }, release(1, 1))
		if out := policy.Render(mustBlock(t, one), policy.RenderInput{}); strings.Contains(out.Title+out.Summary, "BREAK-GLASS") || strings.Contains(out.Summary, "Released") {
			t.Errorf("one is released, the head is not: %s\n%s", out.Title, out.Summary)
		}
		for _, hours := range [][2]time.Duration{{1, 3}, {3, 1}} {
			v := mustApprove(t, two(withPolicy(glass), func(s *policy.Snapshot) { s.Pulls[0].Reviews.Items = nil }, release(0, hours[0]), release(1, hours[1])), policy.CodeBreakGlass)
			if v.NextDue == nil || !v.NextDue.Equal(now.Add(time.Hour)) || !strings.Contains(v.NextStep, "13:00") {
				t.Errorf("%v: due %v, next %q", hours, v.NextDue, v.NextStep)
			}
		}
	})
	t.Run("RG-257 every pull request is explained, and the title names the one that blocks", func(t *testing.T) {
		t.Parallel()
		v := mustBlock(t, two())
		if !v.Pulls[0].Conclusion.Approved() || v.Pulls[1].Conclusion.Approved() {
			t.Errorf("conclusions %v %v", v.Pulls[0].Conclusion, v.Pulls[1].Conclusion)
		}
		out := policy.Render(v, policy.RenderInput{})
		if want := "Approval required: pull request #9: @acme/docs must approve docs/x.md"; out.Title != want {
			t.Errorf("title %q, want %q", out.Title, want)
		}
		for _, want := range []string{"Pull request 7", "Pull request 9", "<code>release</code>"} {
			if !strings.Contains(out.Text, want) {
				t.Errorf("text lacks %q", want)
			}
		}
	})
}

func TestZeroValuesBlock(t *testing.T) {
	t.Parallel()
	t.Run("RG-005 the zero snapshot and the zero verdict block", func(t *testing.T) {
		t.Parallel()
		mustBlock(t, policy.Snapshot{})
		var v policy.Verdict
		if v.Conclusion.Approved() {
			t.Error("the zero verdict approves")
		}
		if got := policy.Render(v, policy.RenderInput{}).Conclusion; got != "failure" {
			t.Errorf("the zero verdict renders %q", got)
		}
		if policy.Conclusion("success").Approved() {
			t.Error("an unknown conclusion approves")
		}
	})
	t.Run("RG-008 a malformed snapshot blocks", func(t *testing.T) {
		t.Parallel()
		for name, mod := range map[string]func(*policy.Snapshot){
			"base commit": func(s *policy.Snapshot) { s.Pulls[0].BaseSHA = "zz"; s.Bases["zz"] = s.Bases[baseSHA] },
			"login":       func(s *policy.Snapshot) { s.Pulls[0].Author.Login = "" },
			"no name":     func(s *policy.Snapshot) { s.Repository.FullName = "acme/" },
			"no owner":    func(s *policy.Snapshot) { s.Repository.FullName, s.Repository.Owner = "/app", "" },
			"no slash":    func(s *policy.Snapshot) { s.Repository.FullName = "acme" },
			"two slashes": func(s *policy.Snapshot) { s.Repository.FullName = "acme/app/x" },
			"version":     func(s *policy.Snapshot) { s.Version = 2 },
			"head":        func(s *policy.Snapshot) { s.HeadSHA = strings.ToUpper("abcdef") },
			"repository":  func(s *policy.Snapshot) { s.Repository.ID = 0 },
			"route":       func(s *policy.Snapshot) { s.Repository.FullName = "other/app" },
			"owner type":  func(s *policy.Snapshot) { s.Repository.OwnerType = "" },
			"time":        func(s *policy.Snapshot) { s.Now = policy.Snapshot{}.Now },
			"number":      func(s *policy.Snapshot) { s.Pulls[0].Number = 0 },
			"author":      func(s *policy.Snapshot) { s.Pulls[0].Author.ID = 0 },
			"base":        func(s *policy.Snapshot) { s.Pulls[0].BaseRef = "" },
		} {
			v := policy.Evaluate(facts(approves("alice"), mod))
			if v.Conclusion.Approved() || v.Unsettled || strings.HasPrefix(v.NextStep, "nothing") {
				t.Errorf("%s: %s, unsettled %v, next %q", name, v.Conclusion, v.Unsettled, v.NextStep)
			}
		}
		for _, c := range "/:`gAG@ " {
			sha := strings.Repeat(string(c), 40)
			if v := policy.Evaluate(facts(approves("alice"), func(s *policy.Snapshot) {
				s.HeadSHA, s.Pulls[0].HeadSHA, s.Pulls[0].Reviews.Items[0].CommitID = sha, sha, sha
			})); v.Conclusion.Approved() {
				t.Errorf("the head %q is approved", sha)
			}
		}
		for _, sha := range []string{strings.Repeat("0", 40), strings.Repeat("9", 40), strings.Repeat("a", 64), strings.Repeat("f", 64)} {
			mustApprove(t, facts(approves("alice"), func(s *policy.Snapshot) {
				s.HeadSHA, s.Pulls[0].HeadSHA, s.Pulls[0].Reviews.Items[0].CommitID = sha, sha, sha
			}))
		}
		if v := policy.Evaluate(facts(func(s *policy.Snapshot) { s.PullsState = policy.FactUnknown })); !v.Unsettled {
			t.Error("an incomplete list of pull requests is settled")
		}
	})
}
