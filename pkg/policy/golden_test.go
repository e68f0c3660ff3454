package policy_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/countersign/countersign/pkg/policy"
)

// scenes are snapshots whose whole explanation is kept in testdata/verdict: the
// check as GitHub would show it, then the verdict. A change of words or of
// reasons shows up there in review. go test -run TestGolden -update rewrites.
func scenes() map[string]policy.Snapshot {
	half := "[[delegations]]\napp = \"renovate\"\npaths = [\"/src/a/**\"]\nfor_owners = [\"@acme/platform\"]\n" +
		"[[delegations]]\napp = \"octobot\"\npaths = [\"/src/**\"]\nfor_owners = [\"*\"]\nrequired_labels = [\"auto\"]\nforbidden_labels = [\"hold\"]\n"
	strict := "[[requirement]]\nname = \"two, one of them a person\"\npaths = [\"/src/**\"]\ncount = 2\nhumans_min = 1\n" +
		"[[requirement]]\nname = \"everybody\"\npaths = [\"/src/**\"]\nall_of = [\"@acme/docs\", \"@acme/incident\", \"@alice\"]\noptional = [\"@frank\"]\n" +
		"[[requirement]]\nname = \"unowned\"\npaths = [\"/free/**\"]\ncount = 1\n" +
		"[[requirement]]\nname = \"not touched\"\npaths = [\"/other/**\"]\ncount = 3\n"
	stable := "[approvals]\ncontent_stable = true\nexclude_author = true\nexclude_last_pusher = true\n"
	until := now.Add(time.Hour).Format(time.RFC3339)
	ask := fmt.Sprintf("/countersign break-glass head=%s until=%s reason=the login page is down", headSHA, until)
	yes := fmt.Sprintf("/countersign confirm-break-glass request=500 head=%s", headSHA)
	many := make([]string, 60)
	for i := range many {
		many[i] = fmt.Sprintf("src/%02d.go", i)
	}
	ghosts := func(s *policy.Snapshot) {
		for i := range 25 {
			login := fmt.Sprintf("ghost%02d", i)
			s.Pulls[0].Reviews.Items = append(s.Pulls[0].Reviews.Items, policy.Review{
				ID: int64(700 + i), State: "APPROVED", CommitID: headSHA, SubmittedAt: now, Author: &policy.Actor{ID: int64(7000 + i), Login: login, Type: policy.ActorUser},
			})
			s.Memberships["acme/platform"][login] = policy.MembershipNone
		}
	}
	second := func(s *policy.Snapshot) {
		p := pull(9)
		p.BaseRef, p.BaseSHA = "release", base2
		s.Pulls, s.Bases[base2] = append(s.Pulls, p), policy.Base{Policy: policy.FileFact{State: policy.FactAbsent}, FallbackPolicy: policy.FileFact{State: policy.FactAbsent}}
	}
	return map[string]policy.Snapshot{
		"approved":          facts(files("src/a.go", "docs/b.md", "free.txt"), approves("bob"), approves("alice"), approves("dave")),
		"blocked":           facts(files("src/a.go", "docs/b.md", "free.txt"), rename("docs/old.md", "src/new.md"), approves("alice"), approves("erin"), user("alice", func(u *policy.UserFact) { u.Permission = "read" }), membership("acme/platform", "erin", policy.MembershipPending), review("carol", "APPROVED", oldSHA), review("frank", "CHANGES_REQUESTED", headSHA)),
		"delegation":        facts(withPolicy(half), files("src/a/x.go", "src/b/y.go", "prod/z.tf", "docs/n.md"), approves("renovate[bot]"), approves("octobot[bot]"), labels("hold")),
		"delegation-labels": facts(withPolicy(half), files("src/a/x.go", "src/b/y.go"), approves("octobot[bot]"), labels("auto")),
		"delegation-none":   facts(withPolicy("[[delegations]]\napp = \"octobot\"\npaths = [\"/src/z\"]\nfor_owners = [\"*\"]\n"+half), files("src/b/1", "src/b/2"), approves("renovate[bot]"), approves("octobot[bot]"), labels("hold", "auto")),
		"people":            facts(withPolicy(delegation+"[[requirement]]\nname = \"a person\"\npaths = [\"/src/**\"]\ncount = 1\nhumans_min = 1\n"), approves("renovate[bot]")),
		"app-identity":      facts(withPolicy(delegation), approves("renovate[bot]"), func(s *policy.Snapshot) { s.Apps["renovate[bot]"] = policy.AppFact{State: policy.FactAbsent} }),
		"requirements":      facts(withPolicy(half+strict), files("src/a/x.go", "src/b/y.go", "free/f"), approves("bob"), approves("frank"), approves("renovate[bot]"), labels("x")),
		"requirements-met":  facts(withPolicy(strict), files("src/a/x.go"), approves("bob"), approves("frank"), approves("alice"), approves("dave")),
		"content-stable": facts(withPolicy(stable), files("src/a.go", "docs/b.md"), review("bob", "APPROVED", oldSHA), review("dave", "APPROVED", oldSHA), review("carol", "APPROVED", ""), approves("erin"), approves("alice"),
			older(modified("src/a.go", "before src/a.go", "after src/a.go"), modified("docs/b.md", "x", "y")), pullMod(func(p *policy.PullRequest) { p.LastPusher.Actor = actor("alice") })),
		"break-glass": facts(withPolicy(glass), comment(500, "carol", 20, ask), comment(501, "dave", 10, yes)),
		"break-glass-pending": facts(withPolicy(glass), comment(499, "bob", 21, ask), comment(500, "carol", 20, ask), comment(501, "carol", 10, yes), comment(502, "bob", 9, yes), comment(503, "dave", 30, yes),
			comment(504, "dave", 8, "/countersign break-glass please"), comment(505, "dave", 7, "/countersign confirm-break-glass request=x head="+headSHA), comment(506, "dave", 6, "hello"),
			comment(507, "dave", 6, yes+" thanks"), comment(508, "frank", 5, strings.Replace(ask, headSHA, oldSHA, 1)), comment(509, "frank", 5, strings.Replace(ask, "reason=the login page is down", "reason=why", 1))),
		"shared-head": facts(second, approves("bob")),
		"errors": facts(withCodeowners("!x @alice\n/src/ a@example.com\n"), withPolicy(delegation), withOrg("schema_version = 1\n"), pullMod(func(p *policy.PullRequest) {
			p.Files.Items = append(p.Files.Items, policy.ChangedFile{Path: "src/b.go", Status: "added"})
			p.ChangedFiles = 2
		}), review("bob", "LGTM", headSHA)),
		"broken-policy": facts(withRawPolicy("schema_version = 2\nenabled = \"yes\"\nextra = 1\n")),
		"unknown":       facts(approves("alice"), approves("bob"), user("alice", func(u *policy.UserFact) { u.State = policy.FactUnknown }), team("acme/platform", func(f *policy.TeamFact) { f.Privacy = "" })),
		"health":        facts(withPolicy("ownership_health = true\n"), withCodeowners("/src/ @acme/platform @gone @other/x\n"), team("acme/platform", func(f *policy.TeamFact) { zero := 0; f.Members = &zero })),
		"many":          facts(files(many...), ghosts, withCodeowners("/src/ @acme/platform "+strings.Repeat("@owner-a @owner-b @owner-c @owner-d @owner-e @owner-f @owner-g @owner-h @owner-i @owner-j @owner-k @owner-l @owner-m @owner-n @owner-o @owner-p @owner-q @owner-r @owner-s @owner-t @owner-u ", 1)+"\n")),
	}
}

func TestGolden(t *testing.T) {
	t.Parallel()
	for name, s := range scenes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := policy.Evaluate(s)
			out := policy.Render(v, policy.RenderInput{})
			checkOutput(t, out)
			var pretty bytes.Buffer
			if err := json.Indent(&pretty, v.MarshalCanonical(), "", "  "); err != nil {
				t.Fatal(err)
			}
			got := fmt.Sprintf("%s %s\n\n%s\n\n%s\n%s\n%s\n", out.Status, out.Conclusion, out.Title, out.Summary, out.Text, pretty.String())
			path := filepath.Join("testdata", "verdict", name+".golden")
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("the explanation changed (-want +got); if that is meant, go test ./pkg/policy -run TestGolden -update\n%s", diff)
			}
		})
	}
}
