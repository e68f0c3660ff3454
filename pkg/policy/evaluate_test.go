package policy_test

import (
	"testing"

	"github.com/countersign/countersign/pkg/policy"
)

const delegation = `[[delegations]]
app = "renovate"
paths = ["/src/**", "/prod/**", "/.github/**"]
for_owners = ["@acme/platform"]
`

func TestOwnerSets(t *testing.T) {
	t.Parallel()
	t.Run("RG-005 no review at all blocks and names who may approve", func(t *testing.T) {
		t.Parallel()
		v := mustBlock(t, facts(), policy.CodeMissingApproval)
		if want := "@acme/platform or @alice must approve src/a.go"; v.NextStep != want {
			t.Errorf("next step %q, want %q", v.NextStep, want)
		}
	})
	t.Run("RG-328 RG-333 one direct owner with write permission is enough", func(t *testing.T) {
		t.Parallel()
		mustApprove(t, facts(approves("alice")))
	})
	t.Run("RG-328 RG-334 one team member is enough", func(t *testing.T) {
		t.Parallel()
		mustApprove(t, facts(approves("bob")))
	})
	t.Run("RG-314 RG-328 distinct sets are independent and all must pass", func(t *testing.T) {
		t.Parallel()
		s := facts(files("src/a.go", "docs/b.md"), approves("bob"))
		v := mustBlock(t, s, policy.CodeMissingApproval)
		if want := "@acme/docs must approve docs/b.md"; v.NextStep != want {
			t.Errorf("next step %q, want %q", v.NextStep, want)
		}
		addReview(&s.Pulls[0], "dave", "APPROVED", headSHA)
		mustApprove(t, s)
	})
	t.Run("RG-340 RG-341 a delegated App stands in for the owners", func(t *testing.T) {
		t.Parallel()
		mustApprove(t, facts(withPolicy(delegation), approves("renovate[bot]")))
	})
	t.Run("RG-344 a guardrail keeps the App out", func(t *testing.T) {
		t.Parallel()
		s := facts(withPolicy(delegation), files("prod/x.tf"), approves("renovate[bot]"))
		mustBlock(t, s, policy.CodeMissingApproval)
		addReview(&s.Pulls[0], "bob", "APPROVED", headSHA)
		mustApprove(t, s)
	})
}
