package evaluator

import (
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/countersign/countersign/internal/rig"
	"github.com/countersign/countersign/pkg/githubsim"
	"github.com/countersign/countersign/pkg/policy"
)

// TestUnreadableEvidence: what waiting does not mend is said in the check, and heals by itself once it is mended.
func TestUnreadableEvidence(t *testing.T) {
	t.Parallel()
	always := func(route string, f githubsim.Fault) func(*bench, int) {
		return func(b *bench, _ int) {
			f.Route, f.Times = route, -1
			b.Sim.Inject(f)
		}
	}
	for name, row := range map[string]struct {
		breaks func(b *bench, n int)
		code   policy.Code
		say    []string // what the check's title and summary say
	}{
		"RG-350 more than 1,000 reviews": {
			breaks: func(b *bench, n int) {
				for range 1001 {
					if _, err := b.Sim.Review(b.World.Repository, n, "bob", "COMMENTED"); err != nil {
						b.TB.Fatal(err)
					}
				}
			},
			code: policy.CodeEvidenceLimit, say: []string{"1000 reviews", "open a new pull request"},
		},
		"the installation does not grant Members: read": {
			breaks: func(b *bench, _ int) {
				without := maps.Clone(githubsim.DefaultPermissions())
				delete(without, "members")
				b.Permit(without)
			},
			code: policy.CodeMissingPermission, say: []string{"who may approve", "Members: read", "installation page"},
		},
		"GitHub forbids the list of files": {
			breaks: always(rig.RouteFiles, githubsim.Fault{Status: http.StatusForbidden}),
			code:   policy.CodeMissingPermission, say: []string{"Pull requests: read"},
		},
		"GitHub forbids the commit's pull requests": {
			breaks: always(rig.RoutePullsOf, githubsim.Fault{Status: http.StatusForbidden}),
			code:   policy.CodeMissingPermission, say: []string{"the pull requests of this commit", "Pull requests: read"},
		},
		"GitHub refuses the list of files as invalid": {
			breaks: always(rig.RouteFiles, githubsim.Fault{Status: http.StatusUnprocessableEntity}),
			code:   policy.CodeEvidenceRefused, say: []string{"the changed files", "operator"},
		},
		"the list of files is too large": {
			breaks: always(rig.RouteFiles, githubsim.Fault{Status: http.StatusRequestEntityTooLarge}),
			code:   policy.CodePullTooLarge, say: []string{"the changed files", "split"},
		},
	} {
		t.Run(name+": the check fails, says why and who mends it, and heals", func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			n := b.approved()
			key := b.ready(n)
			row.breaks(b, n)
			b.step(t)
			c := b.Check(key.SHA)
			if c.Status != "completed" || c.Conclusion != "failure" {
				t.Fatalf("check %s %s: %s\n%s", c.Status, c.Conclusion, c.Title, b.Log)
			}
			for _, want := range row.say {
				if !strings.Contains(c.Title+c.Summary, want) {
					t.Errorf("the check does not say %q:\n%s\n%s", want, c.Title, c.Summary)
				}
			}
			if d := b.decision(t); !strings.Contains(d.Verdict, `"`+string(row.code)+`"`) {
				t.Errorf("verdict without %s: %s", row.code, d.Verdict)
			}
			if got := b.DB.QueryInt("SELECT count(*) FROM evaluation WHERE recheck AND available_at > now() + interval '50 seconds'"); got != 1 {
				t.Error("nobody looks again")
			}
			b.Sim.ResetRequests()
			b.Now()
			b.step(t) // the same again: no new publication, and a later look
			if b.Writes() != 0 || b.DB.QueryInt("SELECT count(*) FROM evaluation WHERE recheck") != 1 {
				t.Errorf("%d writes for the same verdict, %d rows\n%s", b.Writes(), b.DB.QueryInt("SELECT count(*) FROM evaluation WHERE recheck"), b.Log)
			}
			if strings.HasPrefix(name, "RG-350") {
				return // nothing heals that
			}
			b.Sim.ClearFaults()
			b.Permit(githubsim.DefaultPermissions())
			b.Now()
			b.settle(t)
			if b.Successes(key.SHA) != 1 {
				t.Errorf("not decided once it was mended: %+v\n%s", b.Check(key.SHA), b.Log)
			}
		})
	}
	t.Run("an answer that is no evidence is repeated before the check says so", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.approved()
		key := b.ready(n)
		b.Sim.Inject(githubsim.Fault{Route: rig.RouteFiles, Times: -1, Answer: githubsim.AnswerNotJSON})
		for range stubborn {
			b.step(t)
			if c := b.Check(key.SHA); c.Status == "completed" {
				t.Fatalf("decided after the first answers: %+v", c)
			}
			b.Now()
		}
		b.step(t)
		if c := b.Check(key.SHA); c.Conclusion != "failure" || !strings.Contains(c.Summary, "not usable as evidence") {
			t.Errorf("check %s %s: %s", c.Status, c.Conclusion, c.Title)
		}
	})
	t.Run("a success stands while evidence that was readable is refused", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.approved()
		key := b.ready(n)
		b.step(t)
		b.Sim.Inject(githubsim.Fault{Route: rig.RouteFiles, Times: -1, Status: http.StatusForbidden})
		b.Now()
		b.step(t)
		if b.Successes(key.SHA) != 1 || b.DB.QueryInt("SELECT count(*) FROM evaluation WHERE attempts = 1") != 1 {
			t.Errorf("check %+v\n%s", b.Check(key.SHA), b.Log)
		}
	})
	t.Run("without a token nothing can be said, and nothing is", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.approved()
		key := b.ready(n)
		b.step(t)
		b.ready(n)
		b.Permit(map[string]string{"checks": "write", "contents": "read"})
		b.step(t)
		if b.Successes(key.SHA) != 0 || b.DB.QueryInt("SELECT count(*) FROM evaluation WHERE last_error LIKE '%accept the App%'") != 1 {
			t.Errorf("check %+v\n%s", b.Check(key.SHA), b.Log)
		}
	})
}
