//go:build chaos

package chaos

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/countersign/countersign/internal/hook"
	"github.com/countersign/countersign/internal/rig"
	"github.com/countersign/countersign/pkg/checkrun"
	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/githubsim"
	"github.com/countersign/countersign/pkg/nudge"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/store/storetest"
	"github.com/countersign/countersign/services/evaluator"
	"github.com/countersign/countersign/services/invalidator"
)

// interleaving is one bad order of events that a fence, or the smallest set of overlapping ones, stands against.
type interleaving struct {
	name    string
	removed []hook.Fence
	flag    string // what the observer says when they are gone
	play    func(b *directed)
}

// TestFences plays each interleaving with all fences (nothing is found), without its set (the flag fires), and, where the set
// has several, without all but one of it (nothing is found: each of them alone is enough). One after the other: a fence is
// removed from the whole process.
func TestFences(t *testing.T) { //nolint:paralleltest,tparallel // see above
	for _, i := range interleavings {
		t.Run(i.name, func(t *testing.T) {
			if found := find(t, i); len(found) > 0 {
				t.Errorf("with all fences: %v", found)
			}
			found := find(t, i, i.removed...)
			if !slices.ContainsFunc(found, func(v Violation) bool { return v.Flag == i.flag }) {
				t.Errorf("without %v: found %v, want %s", i.removed, found, i.flag)
			}
			if len(i.removed) == 1 {
				return
			}
			for n, one := range i.removed {
				rest := slices.Delete(slices.Clone(i.removed), n, n+1)
				if found := find(t, i, rest...); len(found) > 0 {
					t.Errorf("%s alone does not hold: without %v: %v", one, rest, found)
				}
			}
		})
	}
}

// find plays an interleaving without some fences and returns what the observer and the oracle found.
func find(t *testing.T, i interleaving, removed ...hook.Fence) (found []Violation) {
	t.Helper()
	done := make(chan struct{})
	t.Run(strings.ReplaceAll(fmt.Sprintf("without %v", removed), " ", "_"), func(t *testing.T) {
		hook.Remove(removed...)
		defer hook.Remove()
		soft := &softTB{TB: t}
		go func() { // a step that a missing fence makes impossible ends the play, not the test
			defer close(done)
			b := newDirected(soft)
			i.play(b)
			found = b.findings()
		}()
		<-done
		if len(removed) == 0 {
			for _, e := range soft.said() {
				t.Error(e)
			}
		}
	})
	return found
}

// softTB keeps complaints: without a fence the oracle has some.
type softTB struct {
	testing.TB
	mu   sync.Mutex
	list []string
}

func (s *softTB) Errorf(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, fmt.Sprintf(format, args...))
}

// Fatalf ends the play.
func (s *softTB) Fatalf(format string, args ...any) {
	s.Errorf(format, args...)
	runtime.Goexit()
}

func (s *softTB) said() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.list)
}

// directed is a rig whose steps are taken by hand, under the observer.
type directed struct {
	*rig.Rig
	o    *observer
	next int
}

func newDirected(tb testing.TB) *directed {
	b := &directed{Rig: rig.New(tb)}
	b.o = newObserver(b.World.App.ID, NewLog())
	b.Sim.Observe(b.o)
	b.changed()
	return b
}

func (b *directed) must(err error) {
	if err != nil {
		b.TB.Fatalf("%v", err)
	}
}

// changed lets the observer look at the world as it is.
func (b *directed) changed() {
	b.Sim.Look(func(v githubsim.View) { b.o.Changed(v, nil) })
}

// accepted: every change so far was answered 2xx.
func (b *directed) accepted() {
	b.Sim.Look(func(v githubsim.View) {
		b.o.mu.Lock()
		defer b.o.mu.Unlock()
		for k, h := range b.o.heads {
			if h.truth == blocked && !h.accepted {
				h.accepted, h.acceptedAt = true, time.Now()
				b.o.lookRevoked(v, k, h)
			}
		}
	})
}

// event stores a delivery about a pull request, as ingress would, and counts it as accepted.
func (b *directed) event(n int, change ...func(*store.DirectWork)) {
	b.Trigger(n, change...)
	b.accepted()
}

// authority stores an authority event; false: it was refused, as it is while a final write is on its way.
func (b *directed) authority(scope store.Scope, wait time.Duration) bool {
	w := store.AuthorityWork{Installation: store.InstallationID(b.World.Installation), AccountLogin: "acme", Scope: scope, Reason: "membership.removed"}
	if scope == store.ScopeRepository {
		w.Repository, w.FullName = store.RepositoryID(b.RepositoryID()), b.World.Repository
	}
	b.next++
	_, err := b.Store(storetest.Ingress).AcceptAuthority(context.Background(), store.Delivery{ID: store.DeliveryID(fmt.Sprintf("authority-%d", b.next)), Event: "membership", Action: "removed"}, w, wait)
	if errors.Is(err, store.ErrGuardTimeout) {
		return false
	}
	b.must(err)
	b.accepted()
	return true
}

func (b *directed) approved(files map[string]string) int {
	n := b.Open(files)
	b.Approve(n, "alice", "carol")
	return n
}

func (b *directed) evaluator(wrap func(evaluator.GitHub) evaluator.GitHub) *evaluator.Worker {
	if wrap == nil {
		wrap = func(g evaluator.GitHub) evaluator.GitHub { return g }
	}
	return evaluator.New(evaluator.Deps{
		Store: b.Store(storetest.Evaluator), Checks: b.checks(), Replica: "evaluator-directed", Tracer: noop.NewTracerProvider().Tracer(""),
		GitHub: func(int64) evaluator.GitHub { return wrap(b.Client(ghclient.EvaluatorPermissions)) },
		Config: evaluator.Config{
			Check:        checkrun.Config{Name: rig.CheckName, WriteTimeout: 2 * time.Second, GuardWait: 3 * time.Second},
			Worker:       store.WorkerConfig{Concurrency: 1, Poll: 50 * time.Millisecond, Lease: time.Minute, RetryMax: time.Minute},
			RecheckAfter: 30 * time.Second,
		},
		Log: b.Logger(), Metrics: prometheus.NewRegistry(),
	})
}

func (b *directed) checks() *checkrun.Manager { return b.ChecksWith(3 * time.Second) }

func (b *directed) step(w *evaluator.Worker) bool {
	did, err := w.Step(context.Background(), nudge.ViaPoll)
	b.must(err)
	return did
}

// invalidate revokes every head that is due, with the invalidator itself.
func (b *directed) invalidate() {
	w := invalidator.New(invalidator.Deps{
		Store: b.Store(storetest.Invalidator), Checks: b.checks(), Replica: "invalidator-directed", Tracer: noop.NewTracerProvider().Tracer(""),
		GitHub: func(int64) invalidator.GitHub { return b.Client(ghclient.InvalidatorPermissions) },
		Worker: store.WorkerConfig{Concurrency: 1, Poll: 50 * time.Millisecond, Lease: time.Minute, RetryMax: time.Minute},
		Log:    b.Logger(), Metrics: prometheus.NewRegistry(),
	})
	for range 20 {
		did, err := w.Step(context.Background(), nudge.ViaPoll)
		b.must(err)
		if !did {
			return
		}
	}
}

// settle works until nothing is due, as if waits had passed.
func (b *directed) settle() {
	w := b.evaluator(nil)
	for range 15 {
		b.Now()
		b.invalidate()
		if !b.step(w) {
			return
		}
	}
}

// facts are pull requests as a listing shows them.
func (b *directed) facts(numbers ...int) (list []store.PullFact) {
	for _, n := range numbers {
		p, err := b.Client(ghclient.FanoutPermissions).Pull(context.Background(), b.Repo(), n)
		b.must(err)
		list = append(list, store.PullFact{Number: n, Head: store.SHA(p.HeadSHA), BaseRef: p.BaseRef, State: "open", UpdatedAt: p.UpdatedAt})
	}
	return list
}

// findings are the flags so far, what does not say the truth, and what the recorded writes tell.
func (b *directed) findings() []Violation {
	var unsettled []string
	b.Sim.Look(func(v githubsim.View) { unsettled = b.o.unsettled(v) })
	db := b.Store(storetest.Reader)
	list, err := db.ListDecisions(context.Background(), store.PullKey{}, 0, 500)
	b.must(err)
	decisions := map[int64]store.StoredDecision{}
	for _, d := range list {
		decisions[int64(d.ID)] = d
	}
	b.o.mu.Lock()
	defer b.o.mu.Unlock()
	for _, u := range unsettled {
		b.o.flag(FlagUnsettled, "%s", u)
	}
	(&stage{observer: b.o}).verifyWrites(decisions)
	return b.o.violation
}

// calls is GitHub with something in between.
type calls struct {
	evaluator.GitHub
	afterEvidence func(e *ghclient.Evidence)
	afterTeam     func()
	update        func(send func() (ghclient.Run, error), spec ghclient.RunSpec) (ghclient.Run, error)
}

func (c calls) Evidence(ctx context.Context, repo ghclient.Repo, number int) (ghclient.Evidence, error) {
	e, err := c.GitHub.Evidence(ctx, repo, number)
	if err == nil && c.afterEvidence != nil {
		c.afterEvidence(&e)
	}
	return e, err
}

func (c calls) TeamsFor(ctx context.Context, org string, slugs []string, repo ghclient.Repo) (map[string]ghclient.TeamFacts, error) {
	facts, err := c.GitHub.TeamsFor(ctx, org, slugs, repo)
	if c.afterTeam != nil {
		c.afterTeam()
	}
	return facts, err
}

func (c calls) UpdateRun(ctx context.Context, repo ghclient.Repo, id int64, spec ghclient.RunSpec) (ghclient.Run, error) {
	send := func() (ghclient.Run, error) { return c.GitHub.UpdateRun(context.WithoutCancel(ctx), repo, id, spec) }
	if c.update != nil {
		return c.update(send, spec)
	}
	return send()
}

func (b *directed) between(c calls) *evaluator.Worker {
	return b.evaluator(func(g evaluator.GitHub) evaluator.GitHub { c.GitHub = g; return c })
}

// once runs f the first time only.
func once(f func()) func() {
	var o sync.Once
	return func() { o.Do(f) }
}

// dismiss takes alice's last approval away.
func (b *directed) dismiss(n int) {
	var id int64
	b.Sim.Look(func(v githubsim.View) {
		for _, p := range v.Pulls(b.RepositoryID()) {
			for _, r := range p.Reviews {
				if p.Number == n && r.User == "alice" {
					id = r.ID
				}
			}
		}
	})
	b.must(b.Sim.DismissReview(b.World.Repository, n, id, "grace"))
}
