package policy_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/countersign/countersign/pkg/policy"
)

// large is a pull request of 3,000 files in 60 owner sets with 1,000 reviews
// by 60 people and an App, under a CODEOWNERS of 1,000 rules and a policy that
// uses delegation, a requirement and content-stable approvals.
func large() policy.Snapshot {
	var rules strings.Builder
	rules.WriteString("* @acme/platform\n")
	for i := range 1000 {
		fmt.Fprintf(&rules, "/services/s%03d/ @owner%02d @acme/t%d\n", i, i%60, i%4)
	}
	paths := make([]string, 3000)
	for i := range paths {
		paths[i] = fmt.Sprintf("services/s%03d/internal/package/file_%04d.go", i%1000, i)
	}
	s := facts(withCodeowners(rules.String()), files(paths...), withPolicy("[approvals]\ncontent_stable = true\n"+strings.ReplaceAll(delegation, "/src/**", "/services/**")+
		"[[requirement]]\nname = \"two\"\npaths = [\"/services/s00*/\"]\ncount = 2\n"))
	for i := range 4 {
		key := fmt.Sprintf("acme/t%d", i)
		s.Teams[key] = policy.TeamFact{State: policy.FactPresent, ID: int64(60 + i), Privacy: "closed", Permission: "push"}
		s.Memberships[key] = map[string]policy.Membership{}
	}
	p := &s.Pulls[0]
	p.OlderHeads[oldSHA] = policy.FileList{State: policy.FactPresent, ContentState: policy.FactPresent, Items: p.Files.Items}
	for i := range 1000 {
		n := i % 61
		login, id := fmt.Sprintf("owner%02d", n), int64(2000+n)
		r := policy.Review{ID: int64(i + 1), State: "APPROVED", CommitID: headSHA, SubmittedAt: now.Add(time.Duration(i-2000) * time.Second), Author: &policy.Actor{ID: id, Login: login, Type: policy.ActorUser}}
		switch {
		case n == 60:
			r.Author = actor("renovate[bot]")
		case n < 5:
			r.CommitID = oldSHA
		case i%3 == 0 && i < 900:
			r.State = "COMMENTED"
		}
		p.Reviews.Items = append(p.Reviews.Items, r)
		s.Users[login] = policy.UserFact{State: policy.FactPresent, ID: id, Permission: "write"}
		for k := range 4 {
			s.Memberships[fmt.Sprintf("acme/t%d", k)][login] = policy.MembershipActive
		}
	}
	return s
}

func TestLargePullRequest(t *testing.T) {
	t.Parallel()
	s := large()
	v := policy.Evaluate(s)
	if !v.Conclusion.Approved() || !policy.Needs(s).Empty() || len(v.Pulls[0].Groups) < 60 {
		t.Errorf("the benchmark's pull request: %s, %d groups, %v", v.NextStep, len(v.Pulls[0].Groups), v.Codes)
	}
}

// BenchmarkEvaluate is a whole evaluation: policy files and CODEOWNERS are
// parsed, 3,000 files matched, 1,000 reviews reduced, everything decided and
// explained. docs/performance.md states the result.
func BenchmarkEvaluate(b *testing.B) {
	s := large()
	b.ReportAllocs()
	defer reportCPU(b)()
	for b.Loop() {
		if !policy.Evaluate(s).Conclusion.Approved() {
			b.Fatal("blocked")
		}
	}
}

func BenchmarkRender(b *testing.B) {
	v := policy.Evaluate(large())
	b.ReportAllocs()
	defer reportCPU(b)()
	for b.Loop() {
		policy.Render(v, policy.RenderInput{})
	}
}

func BenchmarkVerdictJSON(b *testing.B) {
	v := policy.Evaluate(large())
	b.ReportAllocs()
	defer reportCPU(b)()
	for b.Loop() {
		v.MarshalCanonical()
	}
}

func BenchmarkDigest(b *testing.B) {
	s := large()
	b.ReportAllocs()
	defer reportCPU(b)()
	for b.Loop() {
		policy.Digest(s)
	}
}

// reportCPU adds the processor time of one operation, which other work on the
// machine does not distort as it does the wall clock.
func reportCPU(b *testing.B) func() {
	b.Helper()
	spent := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	before := spent()
	return func() { b.ReportMetric(float64((spent()-before).Microseconds())/1000/float64(b.N), "cpu-ms/op") }
}
