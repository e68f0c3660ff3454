// Package rig is a bench for tests of the services that speak to GitHub: the stand-in with the example world, a database of
// its own under the roles of production, real clients, and triggers as ingress would store them. Faults are the stand-in's.
package rig

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/countersign/countersign/pkg/checkrun"
	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/githubsim"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/store/storetest"
)

// CheckName is the managed check's name.
const CheckName = "Countersign / approval"

// Routes of the stand-in that faults name.
const (
	RouteRuns    = "/repos/{owner}/{repo}/check-runs"
	RouteRun     = "/repos/{owner}/{repo}/check-runs/{check_run_id}"
	RouteRunsOf  = "/repos/{owner}/{repo}/commits/{ref+}/check-runs"
	RoutePullsOf = "/repos/{owner}/{repo}/commits/{commit_sha}/pulls"
	RoutePull    = "/repos/{owner}/{repo}/pulls/{number}"
	RouteFiles   = "/repos/{owner}/{repo}/pulls/{number}/files"
	RouteGraphQL = "/graphql"
	RouteToken   = "/app/installations/{installation_id}/access_tokens"
)

// appKey is the App's key, made once a process: making one takes longer than most tests.
var appKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

// Rig is one test's world.
type Rig struct {
	opened int // pull requests of Open
	TB     testing.TB
	DB     *storetest.DB
	Sim    *githubsim.Sim
	World  githubsim.Example
	Log    *LogBuffer

	mu    sync.Mutex
	next  int
	tests map[storetest.Role]*store.Store
	app   *ghclient.App
	repo  int64
	// timeout bounds a request of app; 0 is 20 s.
	timeout time.Duration
	ahead   atomic.Int64 // of GitHub's clock before ours
}

// New builds the world; the oracle ends the test.
func New(tb testing.TB) *Rig {
	tb.Helper()
	r := &Rig{TB: tb, DB: storetest.New(tb), Log: &LogBuffer{}, tests: map[storetest.Role]*store.Store{}}
	tb.Cleanup(func() { storetest.CheckInvariants(tb, r.DB) })
	r.Sim = githubsim.New(githubsim.Options{Now: func() time.Time { return time.Now().Add(time.Duration(r.ahead.Load())) }})
	tb.Cleanup(r.Sim.Close)
	r.World = githubsim.AddExample(r.Sim, githubsim.ExampleOptions{App: githubsim.App{PrivateKey: appKey()}})
	r.RepositoryID()
	return r
}

// Store opens the database as a role, once.
func (r *Rig) Store(role storetest.Role) *store.Store {
	r.TB.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tests[role] == nil {
		r.tests[role] = r.DB.Store(role)
	}
	return r.tests[role]
}

// Logger writes to Log.
func (r *Rig) Logger() *slog.Logger { return slog.New(slog.NewJSONHandler(r.Log, nil)) }

// Client is a real client of the world's installation, with its budget in the database.
func (r *Rig) Client(p ghclient.Permissions) *ghclient.Client {
	r.TB.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.app == nil {
		app, err := ghclient.NewApp(ghclient.Config{
			APIURL: r.Sim.URL() + "/", AppID: r.World.App.ID, PrivateKey: string(r.World.App.PEM), APIVersion: "2022-11-28",
			RequestTimeout: cmp.Or(r.timeout, 20*time.Second), MaxInFlight: 16, PolicyPaths: []string{".github/countersign.toml", ".github/extra-codeowners.toml"}, OrgRepository: ".github",
		}, ghclient.Options{Log: r.Logger(), Metrics: prometheus.NewRegistry()})
		if err != nil {
			r.TB.Fatalf("client: %v", err)
		}
		r.app = app
	}
	return r.app.Client(r.World.Installation, p)
}

// Checks is a manager of the managed check.
func (r *Rig) Checks() *checkrun.Manager { return r.ChecksWith(6 * time.Second) }

// ChecksWith is a manager that waits so long for a guard.
func (r *Rig) ChecksWith(guardWait time.Duration) *checkrun.Manager {
	return checkrun.New(checkrun.Config{Name: CheckName, WriteTimeout: 5 * time.Second, GuardWait: guardWait}, r.Logger(), prometheus.NewRegistry())
}

// Repo is the example repository's route and identity.
func (r *Rig) Repo() ghclient.Repo {
	repo, _ := ghclient.RepoFromFullName(r.RepositoryID(), r.World.Repository)
	return repo
}

// RepositoryID is the example repository's id.
func (r *Rig) RepositoryID() int64 {
	r.TB.Helper()
	if r.repo != 0 {
		return r.repo
	}
	info, err := r.Client(ghclient.FanoutPermissions).Repository(context.Background(), ghclient.Repo{Owner: "acme", Name: "widgets"})
	if err != nil {
		r.TB.Fatalf("read the example repository: %v", err)
	}
	r.repo = info.ID
	return info.ID
}

// Open opens a pull request that @acme/core and @acme/docs own; files replaces what it changes.
func (r *Rig) Open(files map[string]string) int {
	r.TB.Helper()
	if files == nil {
		r.mu.Lock()
		r.opened++ // equal contents in the same second are one commit, and two pull requests would share their head
		files = map[string]string{"go.sum": fmt.Sprintf("example.com/x v%d\n", r.opened), "docs/index.md": "# again\n"}
		r.mu.Unlock()
	}
	number, err := r.Sim.OpenPull(r.World.Repository, githubsim.Pull{Author: "dave", Files: files})
	if err != nil {
		r.TB.Fatalf("open a pull request: %v", err)
	}
	return number
}

// Approve submits approvals.
func (r *Rig) Approve(number int, logins ...string) {
	r.TB.Helper()
	for _, login := range logins {
		if _, err := r.Sim.Review(r.World.Repository, number, login, "APPROVED"); err != nil {
			r.TB.Fatalf("approve: %v", err)
		}
	}
}

// Key is the head a pull request has now.
func (r *Rig) Key(number int) store.HeadKey {
	return store.HeadKey{Installation: store.InstallationID(r.World.Installation), Repository: store.RepositoryID(r.RepositoryID()), SHA: store.SHA(r.Sim.Head(r.World.Repository, number))}
}

// Trigger stores a delivery about a pull request as it is now, as ingress would.
func (r *Rig) Trigger(number int, change ...func(*store.DirectWork)) (store.DeliveryID, store.Acceptance) {
	r.TB.Helper()
	state, ok := r.Sim.PullState(r.World.Repository, number)
	if !ok {
		r.TB.Fatalf("no pull request %d", number)
	}
	w := store.DirectWork{
		Installation: store.InstallationID(r.World.Installation), AccountLogin: "acme", Repository: store.RepositoryID(r.RepositoryID()),
		FullName: r.World.Repository, Number: number, Head: store.SHA(state.Head), BaseRef: state.BaseRef, State: "open", AuthorLogin: "dave",
		Reason: "pull_request.edited",
	}
	if !state.Open {
		w.State, w.Merged = "closed", state.Merged
	}
	pull, err := r.Client(ghclient.FanoutPermissions).Pull(context.Background(), r.Repo(), number)
	if err == nil { // a repository of the test's own has no watermark
		w.Watermark = store.Watermark{Head: w.Head, UpdatedAt: pull.UpdatedAt}
	}
	for _, c := range change {
		c(&w)
	}
	r.mu.Lock()
	r.next++
	id := store.DeliveryID(fmt.Sprintf("delivery-%d", r.next))
	r.mu.Unlock()
	a, err := r.Store(storetest.Ingress).AcceptDirect(context.Background(), store.Delivery{ID: id, Event: "pull_request", Action: "edited"}, w)
	if err != nil {
		r.TB.Fatalf("accept: %v", err)
	}
	return id, a
}

// Check is the effective managed check of a head, as the stand-in's "latest" shows it.
func (r *Rig) Check(sha store.SHA) githubsim.Check {
	check, _ := r.Sim.LatestCheck(r.World.Repository, string(sha), CheckName)
	return check
}

// Successes counts runs of the managed name on a head that say success, in any reading.
func (r *Rig) Successes(sha store.SHA) int {
	n := 0
	for _, c := range r.Sim.Checks(r.World.Repository, string(sha)) {
		if c.Name == CheckName && c.Conclusion == "success" {
			n++
		}
	}
	return n
}

// Writes counts requests to GitHub since the last ResetRequests that write a check run.
func (r *Rig) Writes() int {
	n := 0
	for _, q := range r.Sim.Requests() {
		if (q.Method == "POST" && q.Route == RouteRuns) || (q.Method == "PATCH" && q.Route == RouteRun) {
			n++
		}
	}
	return n
}

// Head reads a head's row.
func (r *Rig) Head(key store.HeadKey) store.HeadState {
	r.TB.Helper()
	h, err := r.Store(storetest.Reader).GetHead(context.Background(), key)
	if err != nil {
		r.TB.Fatalf("read head: %v", err)
	}
	return h
}

// Now makes everything that waits due, as if time had passed.
func (r *Rig) Now() {
	r.DB.Exec("UPDATE evaluation SET available_at = now() WHERE available_at > now()")
	r.DB.Exec("UPDATE head SET invalidation_available_at = now() WHERE invalidation_available_at > now()")
	r.DB.Exec("UPDATE installation SET paused_until = NULL")
}

// Pass lets time pass at GitHub: what happens next has another second.
func (r *Rig) Pass(d time.Duration) { r.ahead.Add(int64(d)) }

// LogBuffer is a log that a test reads while services write it.
type LogBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write appends.
func (l *LogBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// String is everything written so far.
func (l *LogBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// Invalidate plays the invalidator's durable pass for every head that is due: reset by the one protocol, then completion.
func (r *Rig) Invalidate() {
	r.TB.Helper()
	ctx := context.Background()
	s := r.Store(storetest.Invalidator)
	for range 20 {
		inv, err := s.ClaimInvalidation(ctx, "invalidator-rig", time.Minute)
		if errors.Is(err, store.ErrNoWork) {
			return
		}
		if err != nil {
			r.TB.Fatalf("claim invalidation: %v", err)
		}
		r.reset(inv)
		if _, err := s.CompleteInvalidation(ctx, inv, nil); err != nil {
			r.TB.Fatalf("complete invalidation: %v", err)
		}
	}
	r.TB.Fatal("invalidations do not end")
}

func (r *Rig) reset(inv store.Invalidation) {
	r.TB.Helper()
	ctx := context.Background()
	guard, err := r.Store(storetest.Invalidator).AcquireGuard(ctx, inv.Head, 5*time.Second)
	if err != nil {
		r.TB.Fatalf("guard: %v", err)
	}
	defer guard.Release()
	_, err = r.Checks().Reset(ctx, r.Client(ghclient.InvalidatorPermissions), guard, checkrun.ResetRequest{
		Repo: r.Repo(), Generation: inv.Generation, Texts: checkrun.Texts{Title: "t", Summary: "s"},
		Hold: func(ctx context.Context) error { return guard.HoldsInvalidation(ctx, inv) },
	})
	if err != nil {
		r.TB.Fatalf("reset: %v", err)
	}
}

// Publish plays the evaluator for one pull request whose head was invalidated: it claims, and publishes the conclusion through
// the one protocol.
func (r *Rig) Publish(number int, conclusion string) store.DecisionID {
	r.TB.Helper()
	ctx := context.Background()
	s := r.Store(storetest.Evaluator)
	r.Now()
	ev, err := s.ClaimEvaluation(ctx, "evaluator-rig", time.Minute)
	if err != nil {
		r.TB.Fatalf("claim evaluation: %v", err)
	}
	gh := r.Client(ghclient.EvaluatorPermissions)
	if !ev.RunProved() {
		r.firstRun(ev)
	}
	id, err := r.Checks().Publish(ctx, gh, s, checkrun.Publication{
		Repo: r.Repo(), Evaluation: ev, BaseRefs: []string{"main"}, Texts: checkrun.Texts{Title: "t", Summary: "s"},
		Decision: store.Decision{
			Number: number, FullName: ev.FullName, Generation: ev.Rows[0].Generation, Reason: "test", Evidence: "{}", Verdict: "{}",
			Conclusion: conclusion, Title: "t", Summary: "s", RequestedAt: time.Now(),
		},
		FinalRead: func(context.Context) error { return nil },
	})
	if err != nil {
		r.TB.Fatalf("publish: %v", err)
	}
	if _, err := s.CompleteEvaluation(ctx, ev, nil); err != nil {
		r.TB.Fatalf("complete evaluation: %v", err)
	}
	return id
}

func (r *Rig) firstRun(ev store.Evaluation) {
	r.TB.Helper()
	ctx := context.Background()
	guard, err := r.Store(storetest.Evaluator).AcquireGuard(ctx, ev.Head, 5*time.Second)
	if err != nil {
		r.TB.Fatalf("guard: %v", err)
	}
	defer guard.Release()
	_, err = r.Checks().Reset(ctx, r.Client(ghclient.EvaluatorPermissions), guard, checkrun.ResetRequest{
		Repo: r.Repo(), Generation: ev.Generation, Texts: checkrun.Texts{Title: "t", Summary: "s"},
		Hold:   func(ctx context.Context) error { return guard.HoldsEvaluation(ctx, ev) },
		Create: func(context.Context) (bool, error) { return true, nil },
	})
	if err != nil {
		r.TB.Fatalf("first run: %v", err)
	}
}
