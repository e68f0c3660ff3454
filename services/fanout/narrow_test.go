package fanout

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/store/storetest"
)

// narrowBundle is a repository with rules and two pull requests, decided or not, and a branch that is pushed to.
type narrowBundle struct {
	*simBundle
	client                 *ghclient.Client
	invalidator, evaluator *store.Store
	tip                    string
	github                 func(GitHub) GitHub
}

func setupNarrow(t *testing.T) *narrowBundle {
	t.Helper()
	b := &narrowBundle{simBundle: setupSim(t), github: func(g GitHub) GitHub { return g }}
	b.invalidator, b.evaluator = b.db.Store(storetest.Invalidator), b.db.Store(storetest.Evaluator)
	app, err := ghclient.NewApp(b.config(), ghclient.Options{Budget: b.fanout})
	if err != nil {
		t.Fatal(err)
	}
	b.client = app.Client(int64(b.installation), ghclient.EvaluatorPermissions)
	b.push("CODEOWNERS", "* @alice\n")
	b.service, err = New(testConfig(), Deps{
		Store: b.fanout, Waker: b.wakes, Holder: "fanout-1",
		GitHub: func(i store.InstallationID) GitHub { return b.github(app.Client(int64(i), ghclient.FanoutPermissions)) },
	})
	if err != nil {
		t.Fatal(err)
	}
	b.openPulls(2, "main")
	return b
}

// push pushes one file to main and returns the work that its webhook asks for.
func (b *narrowBundle) push(path, text string) store.AuthorityWork {
	b.t.Helper()
	before := b.tip
	tip, err := b.sim.PushBase("acme/api", "main", "alice", map[string]string{path: text})
	if err != nil {
		b.t.Fatal(err)
	}
	b.tip = tip
	return store.AuthorityWork{Scope: store.ScopeBase, BaseRef: "main", Reason: "push", Before: store.SHA(before), After: store.SHA(tip)}
}

// settle revokes what waits and decides each pull request, as the services that follow do; stop says after which step it dies.
func (b *narrowBundle) settle(stop string, numbers ...int) {
	b.t.Helper()
	ctx := b.t.Context()
	for _, n := range numbers {
		evidence, err := b.client.Evidence(ctx, ghclient.Repo{ID: int64(b.repository), Owner: "acme", Name: "api"}, n)
		if err != nil {
			b.t.Fatal(err)
		}
		_, err = b.ingress.AcceptDirect(ctx, store.Delivery{ID: store.DeliveryID(fmt.Sprint("pull", n, time.Now().UnixNano())), Event: "pull_request", Action: "edited"}, store.DirectWork{
			Installation: b.installation, AccountLogin: "acme", Repository: b.repository, FullName: "acme/api", Number: n, Head: store.SHA(evidence.Pull.HeadSHA),
			BaseRef: "main", State: "open", Reason: "pull_request.edited", Watermark: store.Watermark{UpdatedAt: evidence.Pull.UpdatedAt},
		})
		if err != nil {
			b.t.Fatal(err)
		}
		inv, err := b.invalidator.ClaimInvalidation(ctx, "invalidator-1", time.Minute)
		if err != nil {
			b.t.Fatal(err)
		}
		if _, err := b.invalidator.CompleteInvalidation(ctx, inv, nil); err != nil {
			b.t.Fatal(err)
		}
		if stop == "revoked" {
			continue
		}
		b.publish(stop, evidence)
	}
}

func (b *narrowBundle) publish(stop string, evidence ghclient.Evidence) {
	b.t.Helper()
	ctx, must := b.t.Context(), func(err error) {
		b.t.Helper()
		if err != nil {
			b.t.Fatal(err)
		}
	}
	ev, err := b.evaluator.ClaimEvaluation(ctx, "evaluator-1", time.Minute)
	must(err)
	guard, err := b.evaluator.AcquireGuard(ctx, ev.Head, time.Second)
	must(err)
	defer guard.Release()
	run := int64(500 + evidence.Pull.Number)
	must(guard.BindRun(ctx, ev.Generation, run, false))
	id, err := guard.RecordIntent(ctx, ev, store.Decision{
		Number: evidence.Pull.Number, FullName: "acme/api", Generation: ev.Rows[0].Generation, Reason: "x", Evidence: "{}", Verdict: "{}", Conclusion: "success",
		Title: "t", RunID: run, RequestedAt: time.Now(), Bases: []store.Basis{{
			Number: evidence.Pull.Number, Head: ev.Head.SHA, BaseRef: evidence.Pull.BaseRef, Rules: evidence.RulesDigest(), Change: evidence.Pull.ChangeDigest(),
		}},
	}, []string{"main"})
	must(err)
	if stop == "intended" {
		return
	}
	must(guard.ConfirmPublication(ctx, ev, id, run, []string{"main"}))
	if stop == "confirmed" {
		return
	}
	_, err = b.evaluator.CompleteEvaluation(ctx, ev, nil)
	must(err)
}

// considered is how often a reason was counted.
func (b *narrowBundle) considered(reason why) int {
	return int(testutil.ToFloat64(b.service.metrics.considered.WithLabelValues(string(reason))))
}

func (b *narrowBundle) wantWhy(want map[why]int) {
	b.t.Helper()
	for _, reason := range whys {
		if got := b.considered(reason); got != want[reason] {
			b.t.Errorf("%s: %d pull requests, want %d", reason, got, want[reason])
		}
	}
}

func TestNarrowing(t *testing.T) {
	t.Parallel()
	t.Run("P15 a base push that changes nothing that decides queues nothing, and says why", func(t *testing.T) {
		t.Parallel()
		b := setupNarrow(t)
		b.settle("", 1, 2)
		b.authority("1", b.push("README.md", "# more\n"))
		b.drain(b.service)
		b.wantText("1:1 2:1", headGenerations)
		b.wantInt(0, "SELECT count(*) FROM authority")
		b.wantInt(0, "SELECT count(*) FROM evaluation")
		b.wantWhy(map[why]int{whyKept: 2})
	})
	for _, row := range []struct{ name, path, text string }{
		{"CODEOWNERS", "CODEOWNERS", "* @bob\n"},
		{"a CODEOWNERS in a place that comes first", ".github/CODEOWNERS", "* @alice\n"},
		{"the policy", ".github/countersign.toml", "schema_version = 1\nenabled = true\n"},
		{"the policy's other path", ".github/extra-codeowners.toml", "schema_version = 1\nenabled = true\n"},
	} {
		t.Run("P15 a base push that changes a rule queues every pull request of the base: "+row.name, func(t *testing.T) {
			t.Parallel()
			b := setupNarrow(t)
			b.settle("", 1, 2)
			b.authority("1", b.push(row.path, row.text))
			b.drain(b.service)
			b.wantText("1:2 2:2", headGenerations)
			b.wantWhy(map[why]int{whyRules: 2})
		})
	}
	for _, stop := range []string{"revoked", "intended", "confirmed"} {
		t.Run("P15 what is not settled is queued: only "+stop, func(t *testing.T) {
			t.Parallel()
			b := setupNarrow(t)
			b.settle("", 1)
			b.settle(stop, 2)
			b.authority("1", b.push("README.md", "# more\n"))
			b.drain(b.service)
			b.wantText("1:1 2:2", headGenerations)
			b.wantWhy(map[why]int{whyKept: 1, whyUndecided: 1})
		})
	}
	t.Run("P15 a push that brings in commits of a branch queues that pull request: what it changes is another change", func(t *testing.T) {
		t.Parallel()
		b := setupNarrow(t)
		first := b.sim.Head("acme/api", 1)
		if _, err := b.sim.Push("acme/api", 1, "alice", map[string]string{"second.go": "package second\n"}); err != nil {
			t.Fatal(err)
		}
		b.settle("", 1, 2)
		if err := b.sim.SetBranch("acme/api", "main", first, "alice"); err != nil {
			t.Fatal(err)
		}
		b.authority("1", store.AuthorityWork{Scope: store.ScopeBase, BaseRef: "main", Reason: "push", Before: store.SHA(b.tip), After: store.SHA(first)})
		b.drain(b.service)
		b.wantInt(2, "SELECT h.generation FROM pull p JOIN head h USING (installation_id, repository_id, head_sha) WHERE number = 1")
		b.wantInt(1, "SELECT h.generation FROM pull p JOIN head h USING (installation_id, repository_id, head_sha) WHERE number = 2")
		b.wantWhy(map[why]int{whyKept: 1, whyChange: 1})
	})
	t.Run("P15 P5 a read that does not show the push proves nothing", func(t *testing.T) {
		t.Parallel()
		b := setupNarrow(t)
		b.settle("", 1, 2)
		w := b.push("README.md", "# more\n")
		w.After = store.SHA(sha(99)) // a push that the replica has not seen
		b.authority("1", w)
		b.drain(b.service)
		b.wantText("1:2 2:2", headGenerations)
		b.wantWhy(map[why]int{whyTip: 2})
	})
	t.Run("P15 pushes that merge are compared at the last of them, whichever was delivered first", func(t *testing.T) {
		t.Parallel()
		b := setupNarrow(t)
		b.settle("", 1, 2)
		one, two := b.push("README.md", "# 1\n"), b.push("README.md", "# 2\n")
		b.authority("2", two)
		b.authority("1", one)
		b.drain(b.service)
		b.wantText("1:1 2:1", headGenerations)
	})
	t.Run("P15 pushes whose order is not known, and forced ones, queue everything", func(t *testing.T) {
		t.Parallel()
		b := setupNarrow(t)
		b.settle("", 1, 2)
		one := b.push("README.md", "# 1\n")
		b.push("README.md", "# 2\n") // its webhook is lost
		three := b.push("README.md", "# 3\n")
		b.authority("1", one)
		b.authority("3", three)
		b.drain(b.service)
		b.wantText("1:2 2:2", headGenerations)
		b.wantWhy(map[why]int{whyUnordered: 2})
	})
	t.Run("P15 a policy push that is accepted between the read of the rules and the recording is not passed over", func(t *testing.T) {
		t.Parallel()
		b := setupNarrow(t)
		b.settle("", 1, 2)
		var late []func()
		b.github = func(g GitHub) GitHub { return hookedGitHub{g, &late} }
		late = append(late, func() { b.authority("2", b.push("CODEOWNERS", "* @bob\n")) })
		b.authority("1", b.push("README.md", "# more\n"))
		b.drain(b.service)
		b.wantText("1:2 2:2", headGenerations)
		b.wantInt(0, "SELECT count(*) FROM authority")
	})
	t.Run("P15 an event for a pull request between the look and the recording is kept beside the push", func(t *testing.T) {
		t.Parallel()
		b := setupNarrow(t)
		b.settle("", 1, 2)
		var late []func()
		b.github = func(g GitHub) GitHub { return hookedGitHub{g, &late} }
		late = append(late, func() { b.settle("revoked", 2) })
		b.authority("1", b.push("README.md", "# more\n"))
		b.drain(b.service)
		b.wantText("1:1 2:3", headGenerations)
		b.wantInt(1, "SELECT count(*) FROM evaluation WHERE number = 2")
	})
}

// hookedGitHub lets something happen after the rules and the changes were read, once each.
type hookedGitHub struct {
	GitHub
	late *[]func()
}

func (h hookedGitHub) Changes(ctx context.Context, r ghclient.Repo, numbers []int) (map[int]ghclient.Pull, error) {
	found, err := h.GitHub.Changes(ctx, r, numbers)
	if len(*h.late) > 0 {
		next := (*h.late)[0]
		*h.late = (*h.late)[1:]
		next()
	}
	return found, err
}
