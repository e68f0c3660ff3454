//go:build chaos

package chaos

import (
	"context"
	"strconv"
	"time"

	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/githubsim"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/store/storetest"
)

// firstSuccess settles and says whether there is a success to lose.
func firstSuccess(b *directed) error {
	b.settle()
	return nil
}

// recorded: our own record says that the head is revoked; GitHub must agree.
func (b *directed) recorded(key store.HeadKey) {
	h := b.Head(key)
	if h.InvalidatedGeneration != h.Generation || !h.RunProved() {
		return
	}
	b.Sim.Look(func(v githubsim.View) {
		b.o.mu.Lock()
		defer b.o.mu.Unlock()
		if check, _ := v.Latest(int64(key.Repository), string(key.SHA), CheckName); check.Conclusion == "success" {
			b.o.flag(FlagSuccess, "%s: generation %d is recorded as revoked, and GitHub shows a success", key, h.Generation)
		}
	})
}

// shared opens two pull requests on one head; the second is approved by nobody.
func (b *directed) shared() (approved, other int) {
	_, err := b.Sim.PushBase(b.World.Repository, "release", "", map[string]string{"RELEASE": "1\n"})
	b.must(err)
	approved = b.approved(nil)
	other, err = b.Sim.OpenPull(b.World.Repository, githubsim.Pull{Author: "erin", Base: "release", Branch: "again", Head: b.Sim.Head(b.World.Repository, approved)})
	b.must(err)
	return approved, other
}

// dismissed says in the trigger which review was dismissed.
func (b *directed) dismissed(n int) func(*store.DirectWork) {
	var id int64
	b.Sim.Look(func(v githubsim.View) {
		for _, p := range v.Pulls(b.RepositoryID()) {
			for _, r := range p.Reviews {
				if p.Number == n && r.State == "DISMISSED" {
					id = r.ID
				}
			}
		}
	})
	return func(w *store.DirectWork) { w.Watermark.ReviewID, w.Watermark.ReviewState = id, "DISMISSED" }
}

// diesWhilePublishing claims the head, records an intent of success and dies with its request on the way; late lets it arrive.
func (b *directed) diesWhilePublishing() (late func()) {
	ctx := context.Background()
	s := b.Store(storetest.Evaluator)
	ev, err := s.ClaimEvaluation(ctx, "dies", time.Minute)
	b.must(err)
	guard, err := s.AcquireGuard(ctx, ev.Head, time.Second)
	b.must(err)
	id, err := guard.RecordIntent(ctx, ev, store.Decision{
		Number: ev.Rows[0].Number, FullName: ev.FullName, Generation: ev.Rows[0].Generation, Reason: "pull_request.edited", EvidenceDigest: "d",
		Evidence: "{}", Verdict: "{}", Conclusion: "success", Title: "t", Summary: "s", Explanation: "e", RunID: ev.RunID, RequestedAt: time.Now(),
	}, []string{"main"})
	b.must(err)
	guard.Release()
	b.DB.Exec("UPDATE head SET evaluation_expires_at = now() - interval '1 second' WHERE evaluation_expires_at IS NOT NULL")
	gh, repo := b.Client(ghclient.EvaluatorPermissions), b.Repo()
	return func() {
		_, _ = gh.UpdateRun(ctx, repo, ev.RunID, ghclient.RunSpec{
			Name: CheckName, HeadSHA: string(ev.Head.SHA), Status: "completed", Conclusion: "success", ExternalID: strconv.FormatInt(int64(id), 10), Title: "t", Summary: "s",
		})
	}
}

// twoSettled are two successful pull requests.
func (b *directed) twoSettled() (one, two int) {
	one, two = b.approved(map[string]string{"go.sum": "one\n", "docs/index.md": "one\n"}), b.approved(map[string]string{"go.sum": "two\n", "docs/index.md": "two\n"})
	b.event(one)
	b.event(two)
	b.settle()
	return one, two
}

func (b *directed) claimAuthority() store.Authority {
	a, err := b.Store(storetest.Fanout).ClaimAuthority(context.Background(), "fanout-directed", time.Minute)
	b.must(err)
	return a
}

// page records one page of a pass.
func (b *directed) page(a store.Authority, next int, numbers ...int) error {
	return b.Store(storetest.Fanout).AdvancePage(context.Background(), a, b.World.Repository, b.facts(numbers...), next)
}
