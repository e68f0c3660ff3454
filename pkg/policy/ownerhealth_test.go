package policy_test

import (
	"fmt"
	"testing"

	"github.com/countersign/countersign/pkg/policy"
)

func TestOwnersHealth(t *testing.T) {
	t.Parallel()
	file := policy.ParseCodeowners("CODEOWNERS", []byte("* @alice @acme/platform\n/a @acme/secret @gone a@example.com\n/b @other/x @acme/unread @ALICE\n"))
	owners, lines := policy.OwnersIn(file)
	if got := fmt.Sprint(owners); got != "[@acme/platform @acme/secret @acme/unread @alice @gone @other/x a@example.com]" {
		t.Errorf("owners %s", got)
	}
	if lines[policy.Owner{Kind: policy.OwnerUser, Name: "alice"}] != 1 || lines[policy.Owner{Kind: policy.OwnerUser, Name: "gone"}] != 2 {
		t.Errorf("lines %v", lines)
	}
	s := facts()
	two := 2
	teams := map[string]policy.TeamFact{"acme/platform": {State: policy.FactPresent, Privacy: "closed", Permission: "push", Members: &two}, "acme/secret": {State: policy.FactAbsent}}
	users := map[string]policy.UserFact{"alice": {State: policy.FactPresent, Permission: "write"}, "gone": {State: policy.FactPresent, Permission: "none"}}
	got := map[string]policy.Code{}
	for _, f := range policy.OwnersHealth(s.Repository, owners, teams, users) {
		got[f.Subject] = f.Code
	}
	want := map[string]policy.Code{
		"@acme/secret": policy.CodeOwnerUnresolved, "@acme/unread": policy.CodeOwnerHealthBlind, "@gone": policy.CodeOwnerNoAccess,
		"@other/x": policy.CodeForeignTeam, "a@example.com": policy.CodeEmailOwner,
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("findings\n got %v\nwant %v", got, want)
	}
	rules, problems := policy.ParseRepositoryPolicy("p", []byte(repoPolicy+delegation+glass+"[[requirement]]\nname = \"x\"\npaths = [\"*\"]\nfrom = [\"@alice\"]\ncount = 1\nall_of = [\"@acme/docs\"]\noptional = [\"@bob\"]\n"))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	if got := fmt.Sprint(rules.Owners()); got != "[@acme/docs @acme/incident @acme/platform @alice @bob]" {
		t.Errorf("owners of the policy: %s", got)
	}
}
