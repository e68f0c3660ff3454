package explain_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/countersign/countersign/internal/explain"
	"github.com/countersign/countersign/pkg/policy"
	"github.com/countersign/countersign/pkg/store"
)

const headSHA = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

// snapshot is one pull request of acme/api that core and @alice have to approve.
func snapshot(change func(*policy.Snapshot)) policy.Snapshot {
	const base = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
	s := policy.Snapshot{
		Version: policy.SnapshotVersion, Now: time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC), HeadSHA: headSHA, PullsState: policy.FactPresent,
		Repository: policy.Repository{ID: 10, FullName: "acme/api", Owner: "acme", OwnerType: "Organization"},
		Pulls: []policy.PullRequest{{
			Number: 7, Author: &policy.Actor{ID: 5, Login: "dana", Type: "User"}, BaseRef: "main", BaseSHA: base, HeadSHA: headSHA, Labels: []string{}, ChangedFiles: 2,
			Files:   policy.FileList{State: policy.FactPresent, Items: []policy.ChangedFile{{Path: "a.go", Status: "modified"}, {Path: "web/x.ts", Status: "modified"}}},
			Reviews: policy.ReviewList{State: policy.FactPresent},
		}},
		Bases: map[string]policy.Base{base: {
			Codeowners:       policy.FileFact{State: policy.FactPresent, Path: ".github/CODEOWNERS", Text: "* @acme/core\n/web/ @alice @acme/web\n"},
			CodeownersErrors: policy.CodeownersErrorList{State: policy.FactPresent},
			Policy:           policy.FileFact{State: policy.FactPresent, Path: policy.PolicyPath, Text: "schema_version = 1\nenabled = true\n"},
			FallbackPolicy:   policy.FileFact{State: policy.FactAbsent},
		}},
		OrganizationPolicy: policy.OrganizationPolicy{Repository: policy.FactPresent, Policy: policy.FileFact{State: policy.FactAbsent}, FallbackPolicy: policy.FileFact{State: policy.FactAbsent}},
		Teams:              map[string]policy.TeamFact{"acme/core": {State: policy.FactPresent, ID: 1, Privacy: "secret", Permission: "push"}},
		Users:              map[string]policy.UserFact{},
	}
	if change != nil {
		change(&s)
	}
	return s
}

// approved adds alice's approval of the head.
func approved(s *policy.Snapshot) {
	s.Pulls[0].Reviews.Items = []policy.Review{{ID: 9, State: "APPROVED", Author: &policy.Actor{ID: 6, Login: "alice", Type: "User"}, CommitID: headSHA, SubmittedAt: s.Now.Add(-time.Hour)}}
	s.Users["alice"] = policy.UserFact{State: policy.FactPresent, ID: 6, Permission: "write"}
}

func decisionOf(t *testing.T, s policy.Snapshot) explain.Decision {
	t.Helper()
	d := explain.DecisionOf(store.StoredDecision{ChainLink: store.ChainLink{
		Head:     store.HeadKey{SHA: store.SHA(s.HeadSHA)},
		Decision: store.Decision{Number: 7, Evidence: string(s.MarshalCanonical()), Verdict: string(policy.Evaluate(s).MarshalCanonical()), Conclusion: "failure"},
	}}, 0)
	if d.Problem != "" {
		t.Fatal(d.Problem)
	}
	return d
}

func TestStandings(t *testing.T) {
	t.Parallel()
	standing := func(change func(*policy.Snapshot)) []store.Standing {
		s := snapshot(change)
		return explain.Standings(s, policy.Evaluate(s))
	}
	waiting := func(s []store.Standing) string {
		var names []string
		for _, w := range s[0].Waiting {
			names = append(names, w.Owner+" "+w.Problem)
		}
		return strings.Join(names, ",")
	}
	t.Run("what only lacks approvals waits on each owner, with what ails it", func(t *testing.T) {
		t.Parallel()
		got := standing(nil)
		if len(got) != 1 || got[0].State != store.StateMissing || waiting(got) != "@acme/core team_secret,@acme/web ,@alice " {
			t.Errorf("%+v", got)
		}
	})
	t.Run("an approval ends the waiting for its set", func(t *testing.T) {
		t.Parallel()
		if got := standing(approved); waiting(got) != "@acme/core team_secret" {
			t.Errorf("%+v", got)
		}
	})
	t.Run("what has to be mended first is blocked", func(t *testing.T) {
		t.Parallel()
		got := standing(func(s *policy.Snapshot) {
			for sha, b := range s.Bases {
				b.Codeowners.State = policy.FactAbsent
				s.Bases[sha] = b
			}
		})
		if got[0].State != store.StateBlocked || got[0].NextStep == "" {
			t.Errorf("%+v", got)
		}
	})
	t.Run("nothing owned is approved", func(t *testing.T) {
		t.Parallel()
		got := standing(func(s *policy.Snapshot) {
			for sha, b := range s.Bases {
				b.Codeowners.Text = "/docs/ @acme/core\n"
				s.Bases[sha] = b
			}
		})
		if got[0].State != store.StateApproved || len(got[0].Waiting) != 0 {
			t.Errorf("%+v", got)
		}
	})
	t.Run("a member of a merge group stands where its own head does", func(t *testing.T) {
		t.Parallel()
		if got := standing(func(s *policy.Snapshot) { s.HeadSHA = strings.Repeat("c", 40) }); len(got) != 0 {
			t.Errorf("%+v", got)
		}
	})
}

func TestDiff(t *testing.T) {
	t.Parallel()
	before, after := decisionOf(t, snapshot(nil)), decisionOf(t, snapshot(approved))
	if d := explain.Diff(before, before); len(d) != 0 {
		t.Errorf("a decision differs from itself: %+v", d)
	}
	var got []string
	for _, c := range explain.Diff(before, after) {
		got = append(got, c.What+": "+c.Subject)
	}
	want := []string{"group: owners @acme/web @alice", "approval: alice for owners @acme/core", "approval: alice for owners @acme/web @alice", "review: review 9 of alice", "user: alice"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestEvidence(t *testing.T) {
	t.Parallel()
	e := decisionOf(t, snapshot(approved)).Evidence
	for _, want := range []explain.Fact{
		{Kind: explain.FactTeam, Subject: "@acme/core", Says: "secret, push permission"},
		{Kind: explain.FactUser, Subject: "alice", Says: "write permission"},
		{Kind: explain.FactReview, Subject: "review 9 of alice", Says: "APPROVED of commit " + headSHA, At: e.ReadAt.Add(-time.Hour)},
		{Kind: explain.FactPull, Subject: "changed files", Says: "2"},
	} {
		found := false
		for _, f := range e.Facts {
			found = found || f == want
		}
		if !found {
			t.Errorf("no %+v in %+v", want, e.Facts)
		}
	}
}

func TestUnreadableDecision(t *testing.T) {
	t.Parallel()
	d := explain.DecisionOf(store.StoredDecision{ChainLink: store.ChainLink{Decision: store.Decision{Evidence: "{}", Verdict: `{"version":99}`}}}, 7)
	if d.Problem == "" || d.Conclusion.Approved() {
		t.Errorf("%+v", d)
	}
}

func TestPlace(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	evaluation := store.WorkItem{Queue: "evaluation", AvailableAt: now, RequestedAt: now}
	with := func(change func(*store.WorkItem)) store.WorkItem {
		i := evaluation
		change(&i)
		return i
	}
	rows := map[string]struct {
		work store.Work
		want explain.Place
		says string
	}{
		"nothing":         {store.Work{}, explain.PlaceIdle, "nothing waits"},
		"a recheck":       {store.Work{Items: []store.WorkItem{with(func(i *store.WorkItem) { i.Recheck = true })}}, explain.PlaceIdle, "recheck is due"},
		"queued":          {store.Work{Items: []store.WorkItem{with(func(i *store.WorkItem) { i.Ahead = 3 })}}, explain.PlaceQueued, "behind 3 others"},
		"later":           {store.Work{Items: []store.WorkItem{with(func(i *store.WorkItem) { i.AvailableAt = now.Add(time.Minute) })}}, explain.PlaceQueued, "12:01:00"},
		"failed":          {store.Work{Items: []store.WorkItem{with(func(i *store.WorkItem) { i.Attempts, i.LastErr, i.AvailableAt = 2, "boom", now.Add(time.Minute) })}}, explain.PlaceRetrying, "boom"},
		"being evaluated": {store.Work{Items: []store.WorkItem{with(func(i *store.WorkItem) { i.Holder, i.LeaseEnds = "e1", now.Add(time.Minute) })}}, explain.PlaceEvaluating, ""},
		"authority":       {store.Work{Items: []store.WorkItem{{Queue: "authority", Reason: "team.edited"}, evaluation}}, explain.PlaceAuthority, "team.edited"},
		"revoking":        {store.Work{Items: []store.WorkItem{{Queue: "revocation"}, evaluation}, Pause: store.Pause{HeldAt: now}}, explain.PlaceRevoking, ""},
		"held":            {store.Work{Items: []store.WorkItem{evaluation}, Pause: store.Pause{HeldAt: now, HeldBy: "octo", HeldReason: "release"}}, explain.PlaceHeld, "octo paused"},
		"rate limited":    {store.Work{Items: []store.WorkItem{{Queue: "revocation"}}, Pause: store.Pause{Until: now.Add(time.Minute), Reason: "primary"}}, explain.PlaceRateLimited, "primary"},
		"gone":            {store.Work{Items: []store.WorkItem{evaluation}, Pause: store.Pause{GoneAt: now}}, explain.PlaceGone, ""},
		"publishing":      {store.Work{Fence: store.HeadFence{Intent: 4}}, explain.PlacePublishing, ""},
	}
	for name, r := range rows {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r.work.Now = now
			if place, says, _ := explain.PlaceOf(r.work); place != r.want || !strings.Contains(says, r.says) {
				t.Errorf("%s: %s", place, says)
			}
		})
	}
}
