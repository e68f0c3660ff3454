package e2e

import (
	"testing"
	"time"

	"github.com/countersign/countersign/pkg/githubsim"
)

// TestMergeQueue plays a queue through every service and the stand-in's webhooks.
func TestMergeQueue(t *testing.T) {
	t.Parallel()
	t.Run("D6 P13 two queued pull requests: the group succeeds, a dismissal revokes it, and a new group without it succeeds", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		sys := b.start(t, 1)
		sim, repo := b.stage.Sim, b.stage.World.Repository
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		wait := func(sha, conclusion string) {
			t.Helper()
			for deadline := time.Now().Add(90 * time.Second); ; time.Sleep(50 * time.Millisecond) {
				c, _ := sim.LatestCheck(repo, sha, b.stage.CheckName)
				if c.Conclusion == conclusion {
					return
				}
				if time.Now().After(deadline) {
					t.Fatalf("the check of %s is %q %q, want %q: %s\n%s", sha, c.Status, c.Conclusion, conclusion, c.Title, c.Summary)
				}
			}
		}
		open := func(file string) (int, int64) {
			t.Helper()
			n, err := sim.OpenPull(repo, githubsim.Pull{Author: "dave", Files: map[string]string{file: "x\n"}})
			must(err)
			review, err := sim.Review(repo, n, "alice", "APPROVED")
			must(err)
			wait(sim.Head(repo, n), "success")
			return n, review
		}
		one, review := open("go.sum")
		two, _ := open("main.go")
		group, err := sim.EnqueueMergeGroup(repo, "main", one, two)
		must(err)
		wait(group.Head, "success")
		must(sim.DismissReview(repo, one, review, "carol"))
		wait(group.Head, "failure")
		wait(sim.Head(repo, one), "failure")
		must(sim.DestroyMergeGroup(repo, group, "invalidated"))
		wait(group.Head, "cancelled")
		again, err := sim.EnqueueMergeGroup(repo, "main", two)
		must(err)
		wait(again.Head, "success")
		for deadline := time.Now().Add(60 * time.Second); b.db.QueryInt("SELECT count(*) FROM decision WHERE head_sha = $1 AND outcome = 'confirmed'", again.Head) == 0; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("the publication is not confirmed")
			}
		}
		must(sim.DestroyMergeGroup(repo, again, "merged"))
		for deadline := time.Now().Add(60 * time.Second); b.db.QueryInt("SELECT count(*) FROM merge_group WHERE state = 'open' OR waiting") != 0; time.Sleep(50 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("a group is still open")
			}
		}
		wait(again.Head, "success")
		b.stop(t, sys)
		b.noLeaseLeft(t)
		b.replayDecisions(t)
	})
}
