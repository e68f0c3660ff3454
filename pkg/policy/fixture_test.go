package policy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/countersign/countersign/pkg/policy"
)

// The fixture is one organisation, acme, and its repository acme/app: teams
// platform (bob, carol) and docs (dave), the person alice, the App renovate.

const (
	headSHA = "1111111111111111111111111111111111111111"
	oldSHA  = "2222222222222222222222222222222222222222"
	baseSHA = "3333333333333333333333333333333333333333"
	base2   = "4444444444444444444444444444444444444444"
)

var now = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

var ids = map[string]int64{
	"alice": 1, "bob": 2, "carol": 3, "dave": 4, "erin": 5, "frank": 6, "mallory": 66,
	"renovate[bot]": 901, "octobot[bot]": 902,
}

func actor(login string) *policy.Actor {
	kind := policy.ActorUser
	if strings.HasSuffix(login, "[bot]") {
		kind = policy.ActorBot
	}
	return &policy.Actor{ID: ids[strings.ToLower(login)], Login: login, Type: kind}
}

const orgPolicy = `schema_version = 1
[apps.renovate]
slug = "renovate"
app_id = 77
bot_user_id = 901
[apps.octobot]
slug = "octobot"
app_id = 78
bot_user_id = 902
[guardrails]
non_delegable_paths = ["/prod/**"]
`

const repoPolicy = `schema_version = 1
enabled = true
`

const codeowners = `/src/  @acme/platform @alice
/docs/ @acme/docs
/prod/ @acme/platform
/none/
`

// facts is the fixture's snapshot: one pull request #7 by erin that changes
// /src/a.go, nobody has approved, every fact that is ever asked for is known.
func facts(mods ...func(*policy.Snapshot)) policy.Snapshot {
	s := policy.Snapshot{
		Version: policy.SnapshotVersion, Now: now, HeadSHA: headSHA,
		Repository: policy.Repository{ID: 10, FullName: "acme/app", Owner: "acme", OwnerType: "Organization"},
		Settings:   policy.Settings{CheckName: "Countersign / approval"},
		PullsState: policy.FactPresent,
		Bases:      map[string]policy.Base{baseSHA: goodBase()},
		OrganizationPolicy: policy.OrganizationPolicy{
			Repository:     policy.FactPresent,
			Policy:         policy.FileFact{State: policy.FactPresent, Path: policy.PolicyPath, Text: orgPolicy},
			FallbackPolicy: policy.FileFact{State: policy.FactAbsent},
		},
		Teams: map[string]policy.TeamFact{
			"acme/platform": {State: policy.FactPresent, ID: 50, Privacy: "closed", Permission: "push"},
			"acme/docs":     {State: policy.FactPresent, ID: 51, Privacy: "closed", Permission: "maintain"},
			"acme/incident": {State: policy.FactPresent, ID: 52, Privacy: "closed", Permission: "push"},
		},
		Memberships: map[string]map[string]policy.Membership{
			"acme/platform": members("bob", "carol"),
			"acme/docs":     members("dave"),
			"acme/incident": members("carol", "dave", "frank"),
		},
		Users: map[string]policy.UserFact{},
		Apps: map[string]policy.AppFact{
			"renovate[bot]": {State: policy.FactPresent, ID: 901, Login: "renovate[bot]", Type: "Bot"},
			"octobot[bot]":  {State: policy.FactPresent, ID: 902, Login: "octobot[bot]", Type: "Bot"},
		},
		Pulls: []policy.PullRequest{pull(7)},
	}
	for login, id := range ids {
		if !strings.HasSuffix(login, "[bot]") {
			s.Users[login] = policy.UserFact{State: policy.FactPresent, ID: id, Permission: "write"}
		}
	}
	for _, mod := range mods {
		mod(&s)
	}
	return s
}

// members gives everybody's membership in a team that has the given members.
func members(logins ...string) map[string]policy.Membership {
	m := map[string]policy.Membership{}
	for login := range ids {
		if !strings.HasSuffix(login, "[bot]") {
			m[login] = policy.MembershipNone
		}
	}
	for _, login := range logins {
		m[login] = policy.MembershipActive
	}
	return m
}

func goodBase() policy.Base {
	return policy.Base{
		Codeowners:       policy.FileFact{State: policy.FactPresent, Path: ".github/CODEOWNERS", Text: codeowners},
		CodeownersErrors: policy.CodeownersErrorList{State: policy.FactPresent},
		Policy:           policy.FileFact{State: policy.FactPresent, Path: policy.PolicyPath, Text: repoPolicy},
		FallbackPolicy:   policy.FileFact{State: policy.FactAbsent},
	}
}

func pull(number int) policy.PullRequest {
	p := policy.PullRequest{
		Number: number, Author: actor("erin"), BaseRef: "main", BaseSHA: baseSHA, HeadSHA: headSHA,
		Reviews:    policy.ReviewList{State: policy.FactPresent},
		LastPusher: policy.ActorFact{State: policy.FactPresent, Actor: actor("erin")},
		BaseChange: policy.BaseChangeFact{State: policy.FactAbsent},
		Comments:   policy.CommentList{State: policy.FactPresent},
		OlderHeads: map[string]policy.FileList{},
	}
	p.Files = policy.FileList{State: policy.FactPresent, ContentState: policy.FactPresent}
	setFiles(&p, "src/a.go")
	return p
}

func setFiles(p *policy.PullRequest, paths ...string) {
	p.Files.Items = nil
	for _, path := range paths {
		p.Files.Items = append(p.Files.Items, modified(path, "before "+path, "after "+path))
	}
	p.ChangedFiles = len(paths)
}

func modified(path, before, after string) policy.ChangedFile {
	return policy.ChangedFile{Path: path, Status: "modified", Before: blob(before), After: blob(after)}
}

// blob names content by a readable pseudo object id.
func blob(content string) *policy.Blob {
	return &policy.Blob{SHA: fmt.Sprintf("%x", content), Mode: "100644"}
}

// The modifiers below speak of pull request #7, the first.

func files(paths ...string) func(*policy.Snapshot) {
	return func(s *policy.Snapshot) { setFiles(&s.Pulls[0], paths...) }
}

func withPolicy(text string) func(*policy.Snapshot) {
	return func(s *policy.Snapshot) {
		for sha, b := range s.Bases {
			b.Policy.Text = "schema_version = 1\nenabled = true\n" + text
			s.Bases[sha] = b
		}
	}
}

func withRawPolicy(text string) func(*policy.Snapshot) {
	return func(s *policy.Snapshot) {
		b := s.Bases[baseSHA]
		b.Policy.Text = text
		s.Bases[baseSHA] = b
	}
}

func withCodeowners(text string) func(*policy.Snapshot) {
	return func(s *policy.Snapshot) {
		for sha, b := range s.Bases {
			b.Codeowners.Text = text
			s.Bases[sha] = b
		}
	}
}

func withBase(mod func(*policy.Base)) func(*policy.Snapshot) {
	return func(s *policy.Snapshot) {
		b := s.Bases[baseSHA]
		mod(&b)
		s.Bases[baseSHA] = b
	}
}

func withOrg(text string) func(*policy.Snapshot) {
	return func(s *policy.Snapshot) { s.OrganizationPolicy.Policy.Text = text }
}

func labels(names ...string) func(*policy.Snapshot) {
	return func(s *policy.Snapshot) { s.Pulls[0].Labels = names }
}

// review adds a review of #7; each is a minute later than the one before.
func review(login, state, commit string) func(*policy.Snapshot) {
	return func(s *policy.Snapshot) { addReview(&s.Pulls[0], login, state, commit) }
}

func addReview(p *policy.PullRequest, login, state, commit string) {
	n := len(p.Reviews.Items) + 1
	p.Reviews.Items = append(p.Reviews.Items, policy.Review{
		ID: int64(100 + n), State: state, Author: actor(login), CommitID: commit,
		SubmittedAt: now.Add(-time.Hour).Add(time.Duration(n) * time.Minute),
	})
}

func approves(login string) func(*policy.Snapshot) { return review(login, "APPROVED", headSHA) }

func pullMod(mod func(*policy.PullRequest)) func(*policy.Snapshot) {
	return func(s *policy.Snapshot) { mod(&s.Pulls[0]) }
}

func user(login string, mod func(*policy.UserFact)) func(*policy.Snapshot) {
	return func(s *policy.Snapshot) {
		u := s.Users[login]
		mod(&u)
		s.Users[login] = u
	}
}

func team(key string, mod func(*policy.TeamFact)) func(*policy.Snapshot) {
	return func(s *policy.Snapshot) {
		t := s.Teams[key]
		mod(&t)
		s.Teams[key] = t
	}
}

func membership(key, login string, m policy.Membership) func(*policy.Snapshot) {
	return func(s *policy.Snapshot) { s.Memberships[key][login] = m }
}

// mustApprove and mustBlock state the whole conclusion; codes must be there.
func mustApprove(t *testing.T, s policy.Snapshot, codes ...policy.Code) policy.Verdict {
	t.Helper()
	v := policy.Evaluate(s)
	if !v.Conclusion.Approved() {
		t.Fatalf("blocked: %v: %s", v.Codes, v.NextStep)
	}
	wantCodes(t, v, codes)
	wantComplete(t, s)
	return v
}

func mustBlock(t *testing.T, s policy.Snapshot, codes ...policy.Code) policy.Verdict {
	t.Helper()
	v := policy.Evaluate(s)
	if v.Conclusion.Approved() {
		t.Fatalf("approved: %v", v.Codes)
	}
	wantCodes(t, v, codes)
	return v
}

func wantCodes(t *testing.T, v policy.Verdict, codes []policy.Code) {
	t.Helper()
	for _, code := range codes {
		if !slices.Contains(v.Codes, code) {
			t.Errorf("code %s is missing from %v", code, v.Codes)
		}
	}
}

// wantComplete: a verdict that approves never rests on a fact nobody read.
func wantComplete(t *testing.T, s policy.Snapshot) {
	t.Helper()
	if r := policy.Needs(s); !r.Empty() {
		t.Errorf("approved although facts are still wanted: %+v", r)
	}
}
