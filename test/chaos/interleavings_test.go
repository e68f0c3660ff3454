//go:build chaos

package chaos

import (
	"context"
	"time"

	"github.com/countersign/countersign/internal/hook"
	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/githubsim"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/store/storetest"
)

var interleavings = []interleaving{
	{
		"evidence from before an accepted dismissal is published after its revocation",
		[]hook.Fence{hook.Lease, hook.HeadGeneration, hook.PullGeneration, hook.Invalidated, hook.RunBinding}, FlagSuccess,
		func(b *directed) {
			n := b.approved(nil)
			b.event(n)
			b.invalidate()
			meanwhile := once(func() {
				b.dismiss(n)
				b.event(n)
				b.invalidate()
			})
			b.step(b.between(calls{afterEvidence: func(*ghclient.Evidence) { meanwhile() }}))
			b.settle()
		},
	},
	{
		"evidence from before an accepted change of a team is published after it",
		[]hook.Fence{hook.Epoch, hook.AuthorityPending}, FlagSuccess,
		func(b *directed) {
			n := b.approved(nil)
			b.event(n)
			b.invalidate()
			meanwhile := once(func() {
				b.must(b.Sim.RemoveTeamMember("acme", "core", "alice"))
				b.authority(store.ScopeInstallation, time.Second)
			})
			b.step(b.between(calls{afterTeam: meanwhile}))
			b.DB.Exec("DELETE FROM authority") // as the fan-out would, after it had
			b.event(n)                         // queued it
			b.settle()
		},
	},
	{
		"a team changes, and is accepted, while a final write is on its way",
		[]hook.Fence{hook.Guard}, FlagSuccess,
		func(b *directed) {
			n := b.approved(nil)
			b.event(n)
			b.invalidate()
			b.step(b.between(calls{update: func(send func() (ghclient.Run, error), spec ghclient.RunSpec) (ghclient.Run, error) {
				if spec.Conclusion == "success" {
					b.must(b.Sim.RemoveTeamMember("acme", "core", "alice"))
					b.authority(store.ScopeInstallation, 200*time.Millisecond)
				}
				return send()
			}}))
			b.authority(store.ScopeInstallation, time.Second) // the redelivery
			b.DB.Exec("DELETE FROM authority")
			b.event(n)
			b.settle()
		},
	},
	{
		"P1 a final write arrives after everything its writer knew of was revoked",
		[]hook.Fence{hook.RunBinding}, FlagSuccess,
		func(b *directed) {
			n := b.approved(nil)
			b.event(n)
			b.invalidate()
			var late func() (ghclient.Run, error)
			b.step(b.between(calls{update: func(send func() (ghclient.Run, error), spec ghclient.RunSpec) (ghclient.Run, error) {
				if spec.Conclusion == "success" {
					late = send
					return ghclient.Run{}, ghclient.ErrUnknownOutcome
				}
				return send()
			}}))
			b.dismiss(n)
			b.event(n)
			b.invalidate()
			_, _ = late()
			b.settle()
		},
	},
	{
		"P1 P11 a writer dies with its write on the way, and another publishes for the same generation",
		[]hook.Fence{hook.Intent}, FlagSuccess,
		func(b *directed) {
			n := b.approved(nil)
			b.event(n)
			b.invalidate()
			b.must(firstSuccess(b))
			b.event(n) // again in progress, generation 2
			b.invalidate()
			late := b.diesWhilePublishing()
			b.dismiss(n) // GitHub shows it; its webhook is still on the way
			b.settle()
			b.event(n)
			b.invalidate()
			late()
			b.settle()
		},
	},
	{
		"P2 GitHub answers a reset 200 and changes nothing",
		[]hook.Fence{hook.Proof}, FlagSuccess,
		func(b *directed) {
			b.Sim.Set(githubsim.Switches{ReopenRun: githubsim.ReopenIgnored})
			n := b.approved(nil)
			b.event(n)
			b.settle()
			b.dismiss(n)
			b.event(n)
			b.invalidate()
			b.recorded(b.Key(n))
			b.settle()
		},
	},
	{
		"P4 an event about one of two pull requests on a head",
		[]hook.Fence{hook.OneHead}, FlagSuccess,
		func(b *directed) {
			a, other := b.shared()
			b.event(a)
			b.event(other)
			b.settle()
			b.event(a)
			b.Invalidate() // nothing but this event queues anything
			b.step(b.evaluator(nil))
		},
	},
	{
		"P5 GitHub's read is older than the dismissal that it told of",
		[]hook.Fence{hook.Watermark}, FlagSuccess,
		func(b *directed) {
			n := b.approved(nil)
			b.event(n)
			b.settle()
			old, err := b.Client(ghclient.EvaluatorPermissions).Evidence(context.Background(), b.Repo(), n)
			b.must(err)
			b.dismiss(n)
			b.event(n, b.dismissed(n))
			b.invalidate()
			b.step(b.between(calls{afterEvidence: func(e *ghclient.Evidence) { *e = old }}))
			b.settle()
		},
	},
	{
		"P5 GitHub's read of a team is old, and no event tells",
		[]hook.Fence{hook.Recheck}, FlagUnsettled,
		func(b *directed) {
			n := b.approved(nil)
			b.event(n)
			b.invalidate()
			b.step(b.between(calls{afterTeam: once(func() { b.must(b.Sim.RemoveTeamMember("acme", "core", "alice")) })}))
			b.settle()
		},
	},
	{
		"P7 a push leaves a successful head",
		[]hook.Fence{hook.Leaving}, FlagUnsettled,
		func(b *directed) {
			n := b.approved(nil)
			b.event(n)
			b.settle()
			before := store.SHA(b.Sim.Head(b.World.Repository, n))
			_, err := b.Sim.Push(b.World.Repository, n, "dave", map[string]string{"go.sum": "two\n"})
			b.must(err)
			b.event(n, func(w *store.DirectWork) { w.Before = before })
			b.settle()
		},
	},
	{
		"a page of a fan-out is recorded by a holder that lost its lease to a newer pass",
		[]hook.Fence{hook.PageFence}, FlagUnsettled,
		func(b *directed) {
			one, two := b.twoSettled()
			b.authority(store.ScopeRepository, time.Second)
			stale := b.claimAuthority()
			b.must(b.page(stale, 2, one))
			b.DB.Exec("UPDATE authority SET expires_at = now() - interval '1 second'")
			b.must(b.page(b.claimAuthority(), 0, two))
			b.settle()
			b.must(b.Sim.RemoveTeamMember("acme", "core", "alice"))
			b.authority(store.ScopeRepository, time.Second)
			fresh := b.claimAuthority()
			_ = b.page(stale, 0, two)
			if b.page(fresh, 2, one) == nil {
				fresh.Page = 2
				_ = b.page(fresh, 0, two)
			}
			b.settle()
		},
	},
	{
		"I5 an older evaluation completes when a newer event is waiting",
		[]hook.Fence{hook.Lease, hook.HeadGeneration, hook.RowGeneration}, FlagUnsettled,
		func(b *directed) {
			n := b.approved(nil)
			b.event(n)
			b.Invalidate()
			ev, err := b.Store(storetest.Evaluator).ClaimEvaluation(context.Background(), "older", time.Minute)
			b.must(err)
			b.event(n)
			_, _ = b.Store(storetest.Evaluator).CompleteEvaluation(context.Background(), ev, nil)
			b.Invalidate() // finds nothing to queue, as on the head of a fork that GitHub does not list
			for range 5 {
				b.Now()
				b.step(b.evaluator(nil))
			}
		},
	},
}
