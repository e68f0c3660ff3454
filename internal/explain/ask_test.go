package explain_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/countersign/countersign/internal/explain"
	"github.com/countersign/countersign/pkg/policy"
)

func blocked(groups ...policy.GroupVerdict) *policy.PullVerdict {
	return &policy.PullVerdict{Conclusion: policy.ConclusionBlocked, Groups: groups}
}

func owners(names ...string) policy.GroupVerdict {
	return policy.GroupVerdict{Kind: policy.GroupOwners, Owners: names}
}

func TestAsk(t *testing.T) {
	t.Parallel()
	rows := map[string]struct {
		verdict *policy.PullVerdict
		want    []string
	}{
		"nothing":                         {nil, nil},
		"approved":                        {&policy.PullVerdict{Conclusion: policy.ConclusionApproved, Groups: []policy.GroupVerdict{owners("@a")}}, nil},
		"one owner of two sets":           {blocked(owners("@a", "@b"), owners("@b", "@c")), []string{"@b"}},
		"who must approve anyhow":         {blocked(owners("@a", "@b"), owners("@a"), owners("@c")), []string{"@a", "@c"}},
		"each of all_of":                  {blocked(policy.GroupVerdict{Kind: policy.GroupRequirement, Owners: []string{"@a", "@b"}, AllOf: []string{"@a", "@b"}}), []string{"@a", "@b"}},
		"never the author":                {blocked(owners("@Dana", "@b"), owners("@dana")), []string{"@b"}},
		"not for what is satisfied":       {blocked(policy.GroupVerdict{Kind: policy.GroupOwners, Owners: []string{"@a"}, Satisfied: true}), nil},
		"not for what is information":     {blocked(policy.GroupVerdict{Kind: policy.GroupOptional, Owners: []string{"@a"}}), nil},
		"of several, the first by name":   {blocked(owners("@b", "@a")), []string{"@a"}},
		"the smallest, not the greediest": {blocked(owners("@a", "@x"), owners("@a", "@y"), owners("@b", "@x"), owners("@b", "@y"), owners("@a", "@z"), owners("@b", "@z")), []string{"@a", "@b"}},
	}
	for name, r := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(r.want, explain.Ask(r.verdict, "dana")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Whoever is asked is enough.
func TestAskIsEnough(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var groups []policy.GroupVerdict
		for range rapid.IntRange(1, 8).Draw(t, "groups") {
			var names []string
			for range rapid.IntRange(1, 4).Draw(t, "owners") {
				names = append(names, fmt.Sprintf("@o%02d", rapid.IntRange(0, 20).Draw(t, "owner")))
			}
			groups = append(groups, owners(names...))
		}
		asked := explain.Ask(blocked(groups...), "dana")
		missing := func(asked []string) int {
			n := 0
			for _, g := range groups {
				if !slices.ContainsFunc(g.Owners, func(o string) bool { return slices.Contains(asked, strings.ToLower(o)) }) {
					n++
				}
			}
			return n
		}
		if missing(asked) != 0 {
			t.Fatalf("%v is not enough for %v", asked, groups)
		}
	})
}
