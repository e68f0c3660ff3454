package policy_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/countersign/countersign/pkg/policy"
)

// stripped is s as the collector has it before it asks Needs: no fact that
// Needs can name.
func stripped(s policy.Snapshot) policy.Snapshot {
	s = deep(s)
	s.Teams, s.Memberships, s.Users, s.Apps = map[string]policy.TeamFact{}, map[string]map[string]policy.Membership{}, map[string]policy.UserFact{}, map[string]policy.AppFact{}
	for i := range s.Pulls {
		p := &s.Pulls[i]
		p.LastPusher, p.BaseChange, p.Comments = policy.ActorFact{}, policy.BaseChangeFact{}, policy.CommentList{}
		p.OlderHeads = map[string]policy.FileList{}
		p.Files.ContentState = policy.FactMissing
	}
	return s
}

// strippedButComments keeps the comments.
func strippedButComments(s policy.Snapshot) policy.Snapshot {
	out := stripped(s)
	for i := range out.Pulls {
		out.Pulls[i].Comments = s.Pulls[i].Comments
	}
	return out
}

// fetch answers what is wanted from the world, with "unknown" for what the
// world does not say.
func fetch(into *policy.Snapshot, world policy.Snapshot, want policy.Requirements) {
	for _, k := range append(slices.Clone(want.Teams), want.TeamSizes...) {
		f, ok := world.Teams[k.String()]
		if !ok {
			f.State = policy.FactUnknown
		}
		if f.Members == nil {
			unknown := -1
			f.Members = &unknown
		}
		into.Teams[k.String()] = f
	}
	for _, k := range want.Memberships {
		m, ok := world.Memberships[k.Team.String()][k.Login]
		if !ok {
			m = policy.MembershipUnknown
		}
		if into.Memberships[k.Team.String()] == nil {
			into.Memberships[k.Team.String()] = map[string]policy.Membership{}
		}
		into.Memberships[k.Team.String()][k.Login] = m
	}
	for _, login := range want.Users {
		into.Users[login] = orUnknown(world.Users, login, policy.UserFact{State: policy.FactUnknown})
	}
	for _, login := range want.Apps {
		into.Apps[login] = orUnknown(world.Apps, login, policy.AppFact{State: policy.FactUnknown})
	}
	for i := range into.Pulls {
		fetchPull(&into.Pulls[i], &world.Pulls[i], want)
	}
}

func fetchPull(p, from *policy.PullRequest, want policy.Requirements) {
	if slices.Contains(want.Comments, p.Number) {
		p.Comments = from.Comments
	}
	if slices.Contains(want.LastPushers, p.Number) {
		p.LastPusher = from.LastPusher
	}
	if slices.Contains(want.BaseChanges, p.Number) {
		p.BaseChange = from.BaseChange
	}
	if slices.Contains(want.FileContents, p.Number) {
		p.Files.ContentState = from.Files.ContentState
	}
	for _, k := range want.OlderHeads {
		if k.Pull == p.Number {
			p.OlderHeads[k.SHA] = orUnknown(from.OlderHeads, k.SHA, policy.FileList{State: policy.FactUnknown})
		}
	}
}

func orUnknown[V any](m map[string]V, key string, unknown V) V {
	if v, ok := m[key]; ok {
		return v
	}
	return unknown
}

func TestNeeds(t *testing.T) {
	t.Parallel()
	platform, docs := policy.TeamKey{Org: "acme", Slug: "platform"}, policy.TeamKey{Org: "acme", Slug: "docs"}
	onHead := []policy.OlderHeadKey{{Pull: 7, SHA: oldSHA}}
	for _, row := range []struct {
		name string
		s    policy.Snapshot
		want policy.Requirements
	}{
		{"nobody approved: nothing", facts(), policy.Requirements{}},
		{"nothing is owned: nothing", facts(files("free.txt"), approves("bob")), policy.Requirements{}},
		{"a direct owner: the permission, and the team he might be in", facts(approves("alice")),
			policy.Requirements{Teams: []policy.TeamKey{platform}, Memberships: []policy.MembershipKey{{Team: platform, Login: "alice"}}, Users: []string{"alice"}}},
		{"somebody else: the team", facts(approves("bob")),
			policy.Requirements{Teams: []policy.TeamKey{platform}, Memberships: []policy.MembershipKey{{Team: platform, Login: "bob"}}}},
		{"somebody else where only a person owns: nothing", facts(withCodeowners("* @alice\n"), approves("bob")), policy.Requirements{}},
		{"a stale approval: nothing", facts(review("bob", "APPROVED", oldSHA)), policy.Requirements{}},
		{"a cancelled approval: nothing", facts(approves("bob"), review("bob", "DISMISSED", headSHA)), policy.Requirements{}},
		{"teams of touched sets only", facts(files("docs/x"), approves("dave")),
			policy.Requirements{Teams: []policy.TeamKey{docs}, Memberships: []policy.MembershipKey{{Team: docs, Login: "dave"}}}},
		{"a team of another organisation: nothing", facts(withCodeowners("* @other/team\n"), approves("bob")), policy.Requirements{}},
		{"a bot without a delegation: nothing", facts(approves("renovate[bot]")), policy.Requirements{}},
		{"a delegated bot: its identity", facts(withPolicy(delegation), approves("renovate[bot]")), policy.Requirements{Apps: []string{"renovate[bot]"}}},
		{"a delegated bot where it may not: nothing", facts(withPolicy(delegation), files("prod/x"), approves("renovate[bot]")), policy.Requirements{}},
		{"an excluded author: nothing about them", facts(withPolicy("[approvals]\nexclude_author = true\n"), approves("erin")), policy.Requirements{}},
		{"an excluded pusher: who that is, and the team", facts(withPolicy("[approvals]\nexclude_last_pusher = true\n"), approves("bob")),
			policy.Requirements{LastPushers: []int{7}, Teams: []policy.TeamKey{platform}, Memberships: []policy.MembershipKey{{Team: platform, Login: "bob"}}}},
		{"content-stable: what was approved, and by whom", facts(withPolicy("[approvals]\ncontent_stable = true\n"), review("bob", "APPROVED", oldSHA)),
			policy.Requirements{BaseChanges: []int{7}, FileContents: []int{7}, OlderHeads: onHead, Teams: []policy.TeamKey{platform}, Memberships: []policy.MembershipKey{{Team: platform, Login: "bob"}}}},
		{"content-stable, where the first group is satisfied without it and a requirement is not: what was approved",
			facts(withPolicy("[approvals]\ncontent_stable = true\n[[requirement]]\nname = \"two\"\npaths = [\"*\"]\ncount = 2\n"), approves("bob"), review("carol", "APPROVED", oldSHA)),
			policy.Requirements{BaseChanges: []int{7}, FileContents: []int{7}, OlderHeads: onHead, Teams: []policy.TeamKey{platform},
				Memberships: []policy.MembershipKey{{Team: platform, Login: "bob"}, {Team: platform, Login: "carol"}}}},
		{"content-stable, an approval of this head: nothing more", facts(withPolicy("[approvals]\ncontent_stable = true\n"), approves("bob")),
			policy.Requirements{Teams: []policy.TeamKey{platform}, Memberships: []policy.MembershipKey{{Team: platform, Login: "bob"}}}},
		{"break-glass: the comments", facts(withPolicy(glass)), policy.Requirements{Comments: []int{7}}},
		{"break-glass where evidence is at fault: nothing", facts(withPolicy(glass), pullMod(func(p *policy.PullRequest) { p.Author.ID = 0 })), policy.Requirements{}},
		{"break-glass where nothing is owned: nothing", facts(withPolicy(glass), files("free.txt")), policy.Requirements{}},
		{"an optional owner: what informs", facts(withCodeowners("* @alice\n"), requirement("paths = [\"*\"]\noptional = [\"@acme/docs\"]\n"), approves("dave")),
			policy.Requirements{Teams: []policy.TeamKey{docs}, Memberships: []policy.MembershipKey{{Team: docs, Login: "dave"}}}},
		{"a disabled policy: nothing", facts(withRawPolicy("schema_version = 1\nenabled = false\n"), approves("bob")), policy.Requirements{}},
		{"health: owners and sizes, without any approval", facts(withPolicy("ownership_health = true\n")),
			policy.Requirements{Users: []string{"alice"}, Teams: []policy.TeamKey{platform}, TeamSizes: []policy.TeamKey{platform}}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(row.want, policy.Needs(stripped(row.s))); diff != "" {
				t.Errorf("needs (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("what is satisfied already asks for nothing more", func(t *testing.T) {
		t.Parallel()
		s := facts(approves("bob"), approves("carol"))
		delete(s.Memberships["acme/platform"], "bob")
		mustApprove(t, s)
		delete(s.Memberships["acme/platform"], "carol")
		mustBlock(t, s, policy.CodeEvidenceUnknown)
		if r := policy.Needs(s); len(r.Memberships) != 2 {
			t.Errorf("needs %+v", r)
		}
	})
	t.Run("a complete snapshot needs nothing", func(t *testing.T) {
		t.Parallel()
		if r := policy.Needs(facts(approves("alice"), approves("bob"))); !r.Empty() {
			t.Errorf("needs %+v", r)
		}
	})
	t.Run("what a satisfied group looked for and another one needs is asked for", func(t *testing.T) {
		t.Parallel()
		world := facts(withPolicy("[approvals]\ncontent_stable = true\n[[requirement]]\nname = \"two\"\npaths = [\"*\"]\ncount = 2\n"), approves("bob"), review("carol", "APPROVED", oldSHA))
		s := stripped(world)
		fetch(&s, world, policy.Requirements{BaseChanges: []int{7}, Teams: []policy.TeamKey{platform}, Memberships: []policy.MembershipKey{{Team: platform, Login: "bob"}, {Team: platform, Login: "carol"}}})
		if want := policy.Needs(s); len(want.OlderHeads) != 1 || len(want.FileContents) != 1 {
			t.Errorf("wants %+v: the first group is satisfied by bob, and the requirement needs carol's older approval", want)
		}
	})
	t.Run("three rounds of asking are enough, and decide as if everything were known", func(t *testing.T) {
		t.Parallel()
		seen := &share{}
		rapid.Check(t, func(t *rapid.T) {
			world, _ := genSnapshot(t)
			for i := range world.Pulls {
				if rare(t, "unknown comments") {
					world.Pulls[i].Comments = policy.CommentList{State: policy.FactUnknown}
				}
			}
			s := stripped(world)
			rounds := 0
			for want := policy.Needs(s); !want.Empty(); want = policy.Needs(s) {
				if rounds++; rounds > 3 {
					t.Fatalf("a fourth round wants %+v", want)
				}
				fetch(&s, world, want)
			}
			got, all := policy.Evaluate(s), policy.Evaluate(world)
			seen.see(all)
			if got.Conclusion != all.Conclusion || got.NextStep != all.NextStep {
				t.Fatalf("asked: %s %s\nknown: %s %s", got.Conclusion, got.NextStep, all.Conclusion, all.NextStep)
			}
		})
		seen.enough(t)
	})
}
