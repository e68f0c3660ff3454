package invalidator

import (
	"context"
	"errors"
	"testing"

	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/githubsim"
	"github.com/countersign/countersign/pkg/store"
)

// green makes a group of one pull request on the head of which a success was reported.
func (b *bench) green(t *testing.T) (n int, g githubsim.MergeGroup, key store.HeadKey) {
	t.Helper()
	n = b.Open(nil)
	g, err := b.Sim.EnqueueMergeGroup(b.World.Repository, "main", n)
	if err != nil {
		t.Fatal(err)
	}
	gh := b.Client(ghclient.EvaluatorPermissions)
	run, err := gh.CreateRun(t.Context(), b.Repo(), ghclient.RunSpec{Name: b.Checks().Name(), HeadSHA: g.Head, Status: "in_progress", Title: "t", Summary: "s"})
	if err != nil {
		t.Fatal(err)
	}
	key = b.AcceptGroup(g, "")
	b.drain(t)
	if h := b.Head(key); h.RunID != run.ID || !h.RunProved() {
		t.Fatalf("the stage is not set: %+v", h)
	}
	spec := ghclient.RunSpec{Name: b.Checks().Name(), HeadSHA: g.Head, Status: "completed", Conclusion: "success", Title: "t", Summary: "s"}
	if _, err := gh.UpdateRun(t.Context(), b.Repo(), run.ID, spec); err != nil {
		t.Fatal(err)
	}
	return n, g, key
}

// unmergeable cannot say whether a group was merged.
type unmergeable struct{ GitHub }

func (unmergeable) MergedInto(context.Context, ghclient.Repo, string, string) (bool, error) {
	return false, errors.New("no answer")
}

// asPublished makes the row say what the stage did behind the protocol's back.
func (b *bench) asPublished(key store.HeadKey) {
	b.DB.Exec("UPDATE head SET run_generation = 0 WHERE head_sha = $1", key.SHA)
}

func TestMergeGroups(t *testing.T) {
	t.Parallel()
	t.Run("D6 P2 a group that left the queue loses its success, and its run is ended", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		_, g, key := b.green(t)
		b.asPublished(key)
		b.Destroy(g, "dequeued")
		b.drain(t)
		if c := b.Check(key.SHA); c.Conclusion != "cancelled" || b.Successes(key.SHA) != 0 {
			t.Errorf("check %+v", c)
		}
		if h := b.Head(key); h.InvalidatedGeneration != h.Generation {
			t.Errorf("head %+v", h)
		}
	})
	t.Run("D6 D13 a merged group keeps its success, also where a member's close comes first", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n, g, key := b.green(t)
		b.asPublished(key)
		b.member(t, key, n)
		if err := b.Sim.DestroyMergeGroup(b.World.Repository, g, "merged"); err != nil {
			t.Fatal(err)
		}
		b.Trigger(n)
		b.drain(t)
		if got := b.DB.QueryText("SELECT state || ' ' || ended_reason FROM merge_group"); got != "ended merged" {
			t.Errorf("the group is %s", got)
		}
		b.AcceptGroup(g, "merged")
		b.drain(t)
		if b.Successes(key.SHA) != 1 {
			t.Errorf("check %+v", b.Check(key.SHA))
		}
	})
	for name, said := range map[string]bool{"also where the group was said to be merged": true, "and is not merged": false} {
		t.Run("D6 I2 the close of a member revokes its group, "+name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			n, g, key := b.green(t)
			b.asPublished(key)
			b.member(t, key, n)
			if said {
				b.AcceptGroup(g, "merged") // GitHub's branches do not show it
			}
			if err := b.Sim.ClosePull(b.World.Repository, n, "dave"); err != nil {
				t.Fatal(err)
			}
			b.Trigger(n)
			b.drain(t)
			if b.Successes(key.SHA) != 0 {
				t.Errorf("check %+v", b.Check(key.SHA))
			}
		})
	}
	t.Run("D6 I4 what GitHub cannot be asked is revoked", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n, _, key := b.green(t)
		b.asPublished(key)
		b.member(t, key, n)
		b.DB.Exec("UPDATE pull SET state = 'closed' WHERE number = $1", n)
		b.Trigger(n)
		b.DB.Exec("UPDATE pull SET state = 'closed' WHERE number = $1", n)
		b.w = b.worker("invalidator-1", func(g GitHub) GitHub { return unmergeable{g} })
		b.drain(t)
		if b.Successes(key.SHA) != 0 {
			t.Errorf("check %+v", b.Check(key.SHA))
		}
	})
}

// member records a member as the evaluator does.
func (b *bench) member(t *testing.T, key store.HeadKey, number int) {
	t.Helper()
	b.Trigger(number)
	b.drain(t)
	b.DB.Exec("INSERT INTO merge_group_member (installation_id, repository_id, group_sha, number, head_sha) VALUES ($1, $2, $3, $4, $5)",
		key.Installation, key.Repository, key.SHA, number, b.Key(number).SHA)
}
