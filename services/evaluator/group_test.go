package evaluator

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/githubsim"
	"github.com/countersign/countersign/pkg/policy"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/store/storetest"
)

// queued opens a pull request with files of its own, which acme/core owns, approves it where asked, and lets it be decided.
func (b *bench) queued(t *testing.T, file string, approve bool) (number int, review int64) {
	t.Helper()
	n := b.Open(map[string]string{file: "x\n"})
	if approve {
		id, err := b.Sim.Review(b.World.Repository, n, "alice", "APPROVED")
		if err != nil {
			t.Fatal(err)
		}
		review = id
	}
	b.Trigger(n)
	return n, review
}

// branch makes a branch at the tip of main.
func (b *bench) branch(t *testing.T, name string) {
	t.Helper()
	tip, err := b.Sim.PushBase(b.World.Repository, "main", "alice", map[string]string{"README.md": "again\n"})
	if err == nil {
		err = b.Sim.SetBranch(b.World.Repository, name, tip, "alice")
	}
	if err != nil {
		t.Fatal(err)
	}
}

// impatient makes what could be a lagging read the result.
func (b *bench) impatient() {
	b.DB.Exec("UPDATE merge_group SET requested_at = now() - interval '1 hour', available_at = least(available_at, now())")
}

// work invalidates and evaluates until nothing is due, without patience for groups.
func (b *bench) work(t *testing.T) {
	t.Helper()
	for range 3 {
		b.settle(t)
		b.DB.Exec("UPDATE merge_group SET available_at = now() WHERE waiting AND NOT recheck AND available_at > now()")
		b.DB.Exec("UPDATE evaluation SET available_at = now() WHERE NOT recheck AND available_at > now()")
	}
}

func (b *bench) wantGroup(t *testing.T, key store.HeadKey, conclusion string, texts ...string) {
	t.Helper()
	c := b.Check(key.SHA)
	if c.Conclusion != conclusion {
		t.Errorf("the group's check is %q %q: %s\n%s\n%s", c.Status, c.Conclusion, c.Title, c.Text, b.Log)
	}
	for _, text := range texts {
		if !strings.Contains(c.Title+c.Summary+c.Text, text) {
			t.Errorf("%q is not in %s\n%s\n%s", text, c.Title, c.Summary, c.Text)
		}
	}
	if conclusion != "success" && b.Successes(key.SHA) != 0 {
		t.Errorf("%d successes are left", b.Successes(key.SHA))
	}
}

func TestMergeGroupMembers(t *testing.T) {
	t.Parallel()
	t.Run("D6 P13 a group of approved members succeeds, each explained, and the evidence replays", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		one, _ := b.queued(t, "go.sum", true)
		two, _ := b.queued(t, "main.go", true)
		_, key := b.Enqueue(githubsim.GroupOptions{}, one, two)
		b.work(t)
		b.wantGroup(t, key, "success", "merge group of 2 pull requests", "pull request 1 at", "pull request 2 at")
		d, err := b.Store(storetest.Reader).PublishedDecision(t.Context(), key)
		if err != nil || d.Reason != "merge_group.checks_requested" || d.DeliveryID == "" || d.Number != two {
			t.Fatalf("decision %+v, %v", d, err)
		}
		s, err := policy.DecodeSnapshot([]byte(d.Evidence))
		if err != nil || string(policy.Evaluate(s).MarshalCanonical()) != d.Verdict || len(s.MergeGroup.Members) != 2 {
			t.Errorf("the recorded evidence does not replay: %v", err)
		}
		if got := b.DB.QueryInt("SELECT count(*) FROM merge_group_member"); got != 2 {
			t.Errorf("%d members are recorded", got)
		}
	})
	t.Run("D6 P13 a member that the ref does not name blocks the group", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		hidden, _ := b.queued(t, "go.sum", false)
		two, _ := b.queued(t, "main.go", true)
		g, key := b.Enqueue(githubsim.GroupOptions{}, hidden, two)
		if ghclient.MergeQueuePull(g.HeadRef) != two {
			t.Fatalf("the ref is %s", g.HeadRef)
		}
		b.work(t)
		b.wantGroup(t, key, "failure", "acme/core")
	})
	t.Run("D6 P13 a group answers for the group it is stacked on too", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		bad, _ := b.queued(t, "go.sum", false)
		good, _ := b.queued(t, "main.go", true)
		first, firstKey := b.Enqueue(githubsim.GroupOptions{}, bad)
		second, key := b.Enqueue(githubsim.GroupOptions{On: &first}, good)
		b.work(t)
		b.wantGroup(t, firstKey, "failure")
		b.wantGroup(t, key, "failure", "merge group of 2 pull requests")
		// GitHub builds the second again without the first: a new head is a new group.
		b.Destroy(first, "dequeued")
		b.Destroy(second, "invalidated")
		_, again := b.Enqueue(githubsim.GroupOptions{}, good)
		b.work(t)
		b.wantGroup(t, again, "success", "merge group of 1 pull request")
		b.wantGroup(t, key, "")
	})
	t.Run("P13 a member that goes into another branch is no member", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.branch(t, "release")
		n, _ := b.queued(t, "go.sum", true)
		_, key := b.Enqueue(githubsim.GroupOptions{}, n)
		if err := b.Sim.Retarget(b.World.Repository, n, "release", "dave"); err != nil {
			t.Fatal(err)
		}
		b.Trigger(n)
		b.impatient()
		b.work(t)
		b.wantGroup(t, key, "failure", "goes into release")
	})
	t.Run("P13 a pull request that shares a member's commit and goes elsewhere decides nothing", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.branch(t, "release")
		n, _ := b.queued(t, "go.sum", true)
		if _, err := b.Sim.OpenPull(b.World.Repository, githubsim.Pull{Author: "dave", Branch: "copy", Base: "release", Head: b.Sim.Head(b.World.Repository, n)}); err != nil {
			t.Fatal(err)
		}
		_, key := b.Enqueue(githubsim.GroupOptions{}, n)
		b.work(t)
		b.wantGroup(t, key, "success", "merge group of 1 pull request")
	})
	t.Run("P13 in a queue that squashes, GitHub's queue proves the members", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		one, _ := b.queued(t, "go.sum", true)
		two, _ := b.queued(t, "main.go", true)
		first, firstKey := b.Enqueue(githubsim.GroupOptions{Squash: true}, one)
		_, key := b.Enqueue(githubsim.GroupOptions{Squash: true, On: &first}, two)
		b.work(t)
		b.wantGroup(t, firstKey, "success", "merge group of 1 pull request")
		b.wantGroup(t, key, "success", "merge group of 2 pull requests")
	})
	for _, squash := range []bool{true, false} {
		t.Run("P13 without the queue, squashed members are not proved, and merged ones are: squash "+strconv.FormatBool(squash), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			n, _ := b.queued(t, "go.sum", true)
			if err := b.Sim.GrantPermissions(b.World.Installation, map[string]string{"checks": "write", "contents": "read", "members": "read", "metadata": "read", "pull_requests": "read"}); err != nil {
				t.Fatal(err)
			}
			_, key := b.Enqueue(githubsim.GroupOptions{Squash: squash}, n)
			b.work(t)
			b.impatient()
			b.work(t)
			if squash {
				b.wantGroup(t, key, "failure", "it cannot be read", "lacks merge")
			} else {
				b.wantGroup(t, key, "success", "by the group's commits alone", "lacks merge")
			}
		})
	}
	t.Run("P13 P4 a pull request opened on the group's own head publishes nothing without the group", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.branch(t, "lenient")
		bad, _ := b.queued(t, "go.sum", false)
		_, key := b.Enqueue(githubsim.GroupOptions{}, bad)
		rider, err := b.Sim.OpenPull(b.World.Repository, githubsim.Pull{Author: "dave", Branch: "rider", Base: "lenient", Head: string(key.SHA)})
		if err != nil {
			t.Fatal(err)
		}
		b.Approve(rider, "alice", "carol")
		b.Trigger(rider)
		b.work(t)
		b.wantGroup(t, key, "failure", "pull request 1 at")
	})
}

func TestMergeGroupChanges(t *testing.T) {
	t.Parallel()
	// succeeded stages a group of one approved pull request that has succeeded.
	succeeded := func(t *testing.T) (b *bench, n int, review int64, g githubsim.MergeGroup, key store.HeadKey) {
		t.Helper()
		b = setup(t)
		n, review = b.queued(t, "go.sum", true)
		g, key = b.Enqueue(githubsim.GroupOptions{}, n)
		b.work(t)
		b.wantGroup(t, key, "success")
		return b, n, review, g, key
	}
	t.Run("D6 P13 I4 a dismissal revokes the group's success, and then blocks it", func(t *testing.T) {
		t.Parallel()
		b, n, review, _, key := succeeded(t)
		generation := b.Head(key).Generation
		if err := b.Sim.DismissReview(b.World.Repository, n, review, "carol"); err != nil {
			t.Fatal(err)
		}
		b.Trigger(n)
		if h := b.Head(key); h.Generation != generation+1 || h.InvalidatedGeneration != generation {
			t.Fatalf("the accepted event did not raise the group: %+v", h)
		}
		b.Invalidate()
		if b.Successes(key.SHA) != 0 {
			t.Error("the success stands after the revocation")
		}
		b.work(t)
		b.wantGroup(t, key, "failure", "acme/core")
	})
	t.Run("P13 a member that is pushed while it is queued takes the group's success away", func(t *testing.T) {
		t.Parallel()
		b, n, _, _, key := succeeded(t)
		before := b.Key(n).SHA
		if _, err := b.Sim.Push(b.World.Repository, n, "dave", map[string]string{"go.sum": "y\n"}); err != nil {
			t.Fatal(err)
		}
		b.Trigger(n, func(w *store.DirectWork) { w.Before = before })
		b.Invalidate()
		if b.Successes(key.SHA) != 0 {
			t.Error("the success stands after the push")
		}
		b.Approve(n, "alice") // of the new head: the old one is what is inside
		b.Trigger(n)
		b.Invalidate()
		b.impatient()
		b.work(t)
		b.wantGroup(t, key, "failure", "has moved to")
	})
	t.Run("P13 I4 a team's change and a policy push reach the groups of their pull requests", func(t *testing.T) {
		t.Parallel()
		b, n, _, _, key := succeeded(t)
		generation := b.Head(key).Generation
		s := b.Store(storetest.Ingress)
		if _, err := s.AcceptAuthority(t.Context(), store.Delivery{ID: "team", Event: "membership", Action: "removed"}, store.AuthorityWork{
			Installation: key.Installation, AccountLogin: "acme", Scope: store.ScopeRepository, Repository: key.Repository, FullName: b.World.Repository, Reason: "membership.removed",
		}, 0); err != nil {
			t.Fatal(err)
		}
		a, err := b.Store(storetest.Fanout).ClaimAuthority(t.Context(), "fanout", 1e11)
		if err != nil {
			t.Fatal(err)
		}
		fact := store.PullFact{Number: n, Head: b.Key(n).SHA, BaseRef: "main", State: "open"}
		if err := b.Store(storetest.Fanout).AdvancePage(t.Context(), a, b.World.Repository, []store.PullFact{fact}, 0); err != nil {
			t.Fatal(err)
		}
		if h := b.Head(key); h.Generation != generation+1 {
			t.Errorf("generation %d after %d", h.Generation, generation)
		}
		b.work(t)
		b.wantGroup(t, key, "success")
	})
	t.Run("D6 D13 a merged group keeps its success whichever event comes first", func(t *testing.T) {
		t.Parallel()
		b, n, _, g, key := succeeded(t)
		if err := b.Sim.DestroyMergeGroup(b.World.Repository, g, "merged"); err != nil {
			t.Fatal(err)
		}
		b.Trigger(n) // pull_request.closed, before merge_group.destroyed
		b.keepMerged(t)
		b.AcceptGroup(g, "merged")
		b.keepMerged(t)
		if b.Successes(key.SHA) != 1 {
			t.Errorf("%+v", b.Check(key.SHA))
		}
		if got := b.DB.QueryInt("SELECT count(*) FROM merge_group WHERE waiting OR state = 'open'"); got != 0 {
			t.Errorf("%d groups are left", got)
		}
	})
	t.Run("D6 a group whose branch is gone ends, though nobody told", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n, _ := b.queued(t, "go.sum", true)
		g, key := b.Enqueue(githubsim.GroupOptions{}, n)
		if err := b.Sim.DestroyMergeGroup(b.World.Repository, g, "dequeued"); err != nil { // and no webhook arrives
			t.Fatal(err)
		}
		b.work(t)
		if got := b.DB.QueryText("SELECT state FROM merge_group"); got != "open" {
			t.Errorf("it is %s at once: the read may lag", got)
		}
		b.impatient()
		b.work(t)
		if got := b.DB.QueryText("SELECT state || ' ' || ended_reason FROM merge_group"); got != "ended gone" || b.Successes(key.SHA) != 0 {
			t.Errorf("it is %s, with %d successes", got, b.Successes(key.SHA))
		}
	})
}

// keepMerged plays the invalidator's pass for heads whose pull requests or group were merged: nothing is reset.
func (b *bench) keepMerged(t *testing.T) {
	t.Helper()
	s := b.Store(storetest.Invalidator)
	for {
		inv, err := s.ClaimInvalidation(t.Context(), "invalidator-1", 1e11)
		if err != nil {
			return
		}
		if inv.Group != nil && inv.Group.State == store.GroupOpen {
			if !inv.Group.AnyClosed {
				t.Error("the group does not know that a member was closed")
			}
			if err := s.EndMergedGroup(t.Context(), inv); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.CompleteInvalidation(t.Context(), inv, nil); err != nil {
			t.Fatal(err)
		}
	}
}

func TestMergeGroupRaces(t *testing.T) {
	t.Parallel()
	race := func(change func(b *bench, n int, review int64, g githubsim.MergeGroup)) func(t *testing.T) {
		return func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			n, review := b.queued(t, "go.sum", true)
			b.work(t)
			g, key := b.Enqueue(githubsim.GroupOptions{}, n)
			b.Invalidate()
			b.w = b.worker(func(gh GitHub) GitHub {
				return &hooked{GitHub: gh, beforeFinalRead: func() { change(b, n, review, g) }}
			})
			b.step(t)
			if b.Successes(key.SHA) != 0 {
				t.Fatalf("published across the change: %+v", b.Check(key.SHA))
			}
			if got := b.DB.QueryInt("SELECT count(*) FROM decision WHERE head_sha = $1 AND outcome = 'confirmed'", key.SHA); got != 0 {
				t.Errorf("%d decisions are confirmed", got)
			}
		}
	}
	t.Run("P13 RG-247 a member moves between snapshot and publication", race(func(b *bench, n int, _ int64, _ githubsim.MergeGroup) {
		if _, err := b.Sim.Push(b.World.Repository, n, "dave", map[string]string{"go.sum": "y\n"}); err != nil { // its webhook is on the way
			b.TB.Error(err)
		}
	}))
	t.Run("P13 a member's dismissal is accepted between snapshot and publication", race(func(b *bench, n int, review int64, _ githubsim.MergeGroup) {
		if err := b.Sim.DismissReview(b.World.Repository, n, review, "carol"); err != nil {
			b.TB.Error(err)
		}
		b.Trigger(n)
	}))
	t.Run("P13 the group is destroyed between snapshot and publication", race(func(b *bench, _ int, _ int64, g githubsim.MergeGroup) {
		b.Destroy(g, "dequeued")
	}))
	t.Run("P13 an installation-wide change of authority comes between snapshot and publication", race(func(b *bench, _ int, _ int64, _ githubsim.MergeGroup) {
		b.DB.Exec("UPDATE installation SET authority_epoch = authority_epoch + 1")
	}))
	t.Run("P13 P5 a member whose own trigger is not visible yet makes the group wait", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n, review := b.queued(t, "go.sum", true)
		b.work(t)
		before, err := b.Client(ghclient.EvaluatorPermissions).Evidence(t.Context(), b.Repo(), n)
		if err != nil {
			t.Fatal(err)
		}
		_, key := b.Enqueue(githubsim.GroupOptions{}, n)
		b.w = b.worker(func(g GitHub) GitHub { return stale{GitHub: g, evidence: &before} })
		b.Trigger(n, func(w *store.DirectWork) {
			w.Watermark = store.Watermark{Head: w.Head, UpdatedAt: before.Pull.UpdatedAt, ReviewID: review, ReviewState: "DISMISSED"}
		})
		b.work(t)
		if b.Successes(key.SHA) != 0 {
			t.Error("decided by an approval that was dismissed")
		}
	})
}

// queueless answers with another view of the merge queue.
type queueless struct {
	GitHub
	change func(*ghclient.MergeQueue)
}

func (q queueless) MergeQueue(ctx context.Context, repo ghclient.Repo, base, ref string) (ghclient.MergeQueue, error) {
	queue, err := q.GitHub.MergeQueue(ctx, repo, base, ref)
	q.change(&queue)
	return queue, err
}

func TestMergeQueueContradictions(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		squash bool
		change func(*ghclient.MergeQueue)
		want   string
	}{
		"an entry is missing":                   {true, func(q *ghclient.MergeQueue) { q.Entries = q.Entries[1:] }, "has no entry for commit"},
		"an entry has no pull request":          {true, func(q *ghclient.MergeQueue) { q.Entries[0].Pull = 0 }, "does not say which pull requests"},
		"an entry stands on nothing":            {true, func(q *ghclient.MergeQueue) { q.Entries[1].BaseSHA = "" }, "does not say which pull requests"},
		"the queue names another pull request":  {false, func(q *ghclient.MergeQueue) { q.Entries[0].Pull = 3 }, "which GitHub's merge queue names"},
		"an entry claims another one's commits": {true, func(q *ghclient.MergeQueue) { q.Entries[1].BaseSHA = q.Entries[0].BaseSHA; q.Entries[0].Pull = 3 }, "which GitHub's merge queue names"},
	} {
		t.Run("P13 members are not proved where "+name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			one, _ := b.queued(t, "go.sum", true)
			two, _ := b.queued(t, "main.go", true)
			b.queued(t, "other.go", true)
			b.work(t)
			_, key := b.Enqueue(githubsim.GroupOptions{Squash: row.squash}, one, two)
			b.w = b.worker(func(g GitHub) GitHub { return queueless{g, row.change} })
			b.impatient()
			b.work(t)
			b.wantGroup(t, key, "failure", row.want)
		})
	}
}
