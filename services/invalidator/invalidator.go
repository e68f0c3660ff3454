package invalidator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"

	"github.com/countersign/countersign/pkg/checkrun"
	"github.com/countersign/countersign/pkg/daemon"
	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/nudge"
	"github.com/countersign/countersign/pkg/policy"
	"github.com/countersign/countersign/pkg/retry"
	"github.com/countersign/countersign/pkg/store"
)

// GitHub is what the invalidator asks of an installation.
type GitHub interface {
	checkrun.GitHub
	Pull(ctx context.Context, repo ghclient.Repo, number int) (ghclient.Pull, error)
	PullsOfCommit(ctx context.Context, repo ghclient.Repo, sha string) ([]ghclient.PullSummary, error)
	File(ctx context.Context, repo ghclient.Repo, ref, path string) (ghclient.File, error)
	Repositories(ctx context.Context) ([]ghclient.RepositoryInfo, error)
	MergedInto(ctx context.Context, repo ghclient.Repo, branch, sha string) (bool, error)
}

// Deps are what a Worker works with.
type Deps struct {
	Store   *store.Store
	Bus     *nudge.Bus
	GitHub  func(installation int64) GitHub
	Checks  *checkrun.Manager
	Worker  store.WorkerConfig
	Replica string // the lease holder's name
	Tracer  trace.Tracer
	Log     *slog.Logger
	Metrics prometheus.Registerer
}

// Worker revokes heads. Safe for concurrent use.
type Worker struct {
	Deps
	metrics *metrics
	backlog backlogMetrics
	shares  *store.Shares
}

// New returns a Worker.
func New(d Deps) *Worker {
	return &Worker{Deps: d, metrics: newMetrics(d.Metrics), backlog: newBacklogMetrics(d.Metrics), shares: store.NewShares(d.Worker.Concurrency)}
}

// Run opens what the invalidator needs and works until ctx ends; then it lets running passes finish.
func Run(ctx context.Context, rt *daemon.Runtime, cfg Config) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	s, err := store.Open(ctx, cfg.Store)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := rt.Registry.Register(s.Metrics()); err != nil {
		return fmt.Errorf("register the metrics of the connection pools: %w", err)
	}
	bus, err := nudge.Connect(ctx, cfg.Nudge, nudge.Options{Name: rt.Service, Log: rt.Log, Metrics: rt.Registry, Tracer: rt.Tracer})
	if err != nil {
		return err
	}
	defer bus.Close()
	app, err := ghclient.NewApp(cfg.GitHub, ghclient.Options{Log: rt.Log, Metrics: rt.Registry, Budget: s, Traces: rt.TracerProvider})
	if err != nil {
		return err
	}
	rt.Health.Require("database", s.Ping)
	rt.Health.Prefer("nats", bus.Check)
	rt.SetIdentity(daemon.Identity{GitHubAPIURL: cfg.GitHub.APIURL, AppID: cfg.GitHub.AppID, CheckName: cfg.Check.Name, OrganizationRepository: cfg.GitHub.OrgRepository})
	probe, err := daemon.NewIdentityProbe(rt.Health, cfg.Identity, cfg.GitHub.AppID, func(ctx context.Context) (int64, error) {
		id, err := app.Identity(ctx)
		return id.ID, err
	})
	if err != nil {
		return err
	}
	w := New(Deps{
		Store: s, Bus: bus, Worker: cfg.Worker, Replica: rt.Replica, Tracer: rt.Tracer, Log: rt.Log, Metrics: rt.Registry,
		GitHub: func(installation int64) GitHub { return app.Client(installation, ghclient.InvalidatorPermissions) },
		Checks: checkrun.New(cfg.Check, rt.Log, rt.Registry),
	})
	stop, err := bus.ServeInvalidate(ctx, cfg.FastPathConcurrency, w.Fast)
	if err != nil {
		return fmt.Errorf("serve the fast path: %w", err)
	}
	defer stop()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return rt.Task(ctx, "github_identity", probe.Run) })
	g.Go(func() error { return rt.Task(ctx, "backlog", w.Observe) })
	g.Go(func() error { return rt.Task(ctx, "invalidate", w.Loop(rt).Run) })
	return g.Wait()
}

// Loop is the durable pass as a work loop.
func (w *Worker) Loop(rt *daemon.Runtime) nudge.Work {
	return nudge.Work{
		Bus: w.Bus, Subject: nudge.Invalidate, Service: "invalidator", Poll: w.Worker.Poll, Concurrency: w.Worker.Concurrency,
		Grace: rt.DrainWithin(), Step: w.Step, Log: w.Log, Metrics: w.Metrics,
	}
}

// Step claims one due head and revokes it. did is false when nothing was due.
func (w *Worker) Step(ctx context.Context, via nudge.Via) (did bool, err error) {
	drawing, share := w.shares.Begin(ctx)
	defer share.End()
	inv, err := w.Store.ClaimInvalidation(drawing, w.Replica, w.Worker.Lease)
	if errors.Is(err, store.ErrNoWork) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	share.Took(inv.Head.Installation, inv.Lane)
	ctx, span := w.Tracer.Start(daemon.WithTraceparent(ctx, inv.Traceparent), "invalidate")
	defer span.End()
	w.metrics.wait.WithLabelValues(inv.Lane.String()).Observe(max(0, time.Since(inv.RequestedAt).Seconds()))
	w.metrics.attempts.WithLabelValues(inv.Lane.String()).Observe(float64(inv.Attempts + 1))
	started := time.Now()
	outcome, err := w.pass(ctx, inv)
	w.settle(ctx, inv, outcome, via, started, err)
	return true, nil
}

// outcome is what one pass found and did.
type outcome struct {
	proof      checkrun.Proof
	candidates int
	due        int
}

// pass is the revocation of one head generation. Its lease is kept while it runs; what it may not trust any more it stops.
func (w *Worker) pass(ctx context.Context, inv store.Invalidation) (outcome, error) {
	held, stop := store.KeepLease(ctx, w.Worker.Lease, func(ctx context.Context) error {
		return w.Store.RenewInvalidation(ctx, inv, w.Worker.Lease)
	})
	defer stop()
	out, err := w.revoke(ghclient.WithLane(held, ghclient.LaneRevocation), inv)
	return out, store.LeaseError(held, err)
}

func (w *Worker) revoke(held context.Context, inv store.Invalidation) (outcome, error) {
	gh := w.GitHub(int64(inv.Head.Installation))
	repo, ok := ghclient.RepoFromFullName(int64(inv.Head.Repository), inv.FullName)
	if !ok {
		return outcome{}, fmt.Errorf("repository %d has no route %q", inv.Head.Repository, inv.FullName)
	}
	if inv.Group != nil {
		return w.groupPass(held, gh, repo, inv)
	}
	if onlyClosed(inv.Seen) {
		return w.closedPass(held, gh, repo, inv)
	}
	// Revoke first, look afterwards: whatever the listing says, the old result must not stand meanwhile.
	out := outcome{}
	var err error
	if out.proof, err = w.reset(held, gh, repo, inv); err != nil {
		return out, err
	}
	found, err := w.candidates(held, gh, repo, inv)
	if err != nil {
		return out, err
	}
	if found.ended() && out.proof != checkrun.ProofNone {
		if err := w.cancel(held, gh, repo, inv); err != nil {
			return out, err
		}
	}
	return w.complete(held, inv, out, found)
}

// closedPass handles a head on which everything we know of was closed: only a merged pull request keeps its success (D13),
// so GitHub is asked before anything is written.
func (w *Worker) closedPass(ctx context.Context, gh GitHub, repo ghclient.Repo, inv store.Invalidation) (outcome, error) {
	found, err := w.candidates(ctx, gh, repo, inv)
	if errors.Is(err, ghclient.ErrTooLarge) || errors.Is(err, ghclient.ErrMalformed) {
		// A listing that will not get better must not keep an old success: in doubt it is revoked.
		proof, resetErr := w.reset(ctx, gh, repo, inv)
		return outcome{proof: proof}, errors.Join(err, resetErr)
	}
	if err != nil {
		return outcome{}, err
	}
	if found.mergedOnly() {
		return w.finishMerged(ctx, gh, repo, inv, found)
	}
	out := outcome{}
	if out.proof, err = w.reset(ctx, gh, repo, inv); err != nil {
		return out, err
	}
	if found.ended() && out.proof != checkrun.ProofNone {
		if err := w.cancel(ctx, gh, repo, inv); err != nil {
			return out, err
		}
	}
	return w.complete(ctx, inv, out, found)
}

// finishMerged keeps a completed run as it is and ends an unfinished one (RG-200).
func (w *Worker) finishMerged(ctx context.Context, gh GitHub, repo ghclient.Repo, inv store.Invalidation, found candidateSet) (outcome, error) {
	out := outcome{proof: checkrun.ProofNone}
	run, exists, err := gh.FindRun(ctx, repo, string(inv.Head.SHA), w.Checks.Name())
	if err != nil {
		return out, err
	}
	if exists && run.Status != "completed" {
		if out.proof, err = w.reset(ctx, gh, repo, inv); err != nil {
			return out, err
		}
		if err := w.cancel(ctx, gh, repo, inv); err != nil {
			return out, err
		}
	}
	return w.complete(ctx, inv, out, found)
}

func onlyClosed(seen []store.SeenPull) bool {
	for _, p := range seen {
		if p.State != "closed" {
			return false
		}
	}
	return len(seen) > 0
}

// reset takes the guard for the proof alone, so that listing candidates blocks nobody.
func (w *Worker) reset(ctx context.Context, gh GitHub, repo ghclient.Repo, inv store.Invalidation) (checkrun.Proof, error) {
	guard, err := w.Store.AcquireGuard(ctx, inv.Head, w.Checks.GuardWait())
	if err != nil {
		return "", err
	}
	defer guard.Release()
	return w.Checks.Reset(ctx, gh, guard, w.request(guard, repo, inv))
}

func (w *Worker) cancel(ctx context.Context, gh GitHub, repo ghclient.Repo, inv store.Invalidation) error {
	return w.cancelWith(ctx, gh, repo, inv, checkrun.Texts{Title: "Closed", Summary: "No open pull request has this commit as its head."})
}

func (w *Worker) cancelWith(ctx context.Context, gh GitHub, repo ghclient.Repo, inv store.Invalidation, texts checkrun.Texts) error {
	guard, err := w.Store.AcquireGuard(ctx, inv.Head, w.Checks.GuardWait())
	if err != nil {
		return err
	}
	defer guard.Release()
	req := w.request(guard, repo, inv)
	req.Texts = texts
	return w.Checks.Cancel(ctx, gh, guard, req)
}

func (w *Worker) request(guard *store.Guard, repo ghclient.Repo, inv store.Invalidation) checkrun.ResetRequest {
	return checkrun.ResetRequest{
		Repo: repo, Generation: inv.Generation, Texts: reevaluating(),
		Hold: func(ctx context.Context) error { return guard.HoldsInvalidation(ctx, inv) },
	}
}

func reevaluating() checkrun.Texts {
	out := policy.RenderInProgress(policy.InProgressReevaluating)
	return checkrun.Texts{Title: out.Title, Summary: out.Summary}
}

func (w *Worker) complete(ctx context.Context, inv store.Invalidation, out outcome, found candidateSet) (outcome, error) {
	due, err := w.Store.CompleteInvalidation(ctx, inv, found.open)
	out.candidates, out.due = len(found.open), due
	if err != nil {
		return out, err
	}
	if due > 0 {
		_ = w.Bus.Wake(ctx, nudge.Wake{ // P9: due now; a lost wake is found by polling (I7)
			Subject: nudge.Evaluate, InstallationID: int64(inv.Head.Installation), RepositoryID: int64(inv.Head.Repository),
			HeadSHA: string(inv.Head.SHA), AtLeastGeneration: int64(inv.Generation),
		})
	}
	return out, nil
}

// settle frees what a failed pass held, and says in one line what the pass came to.
func (w *Worker) settle(ctx context.Context, inv store.Invalidation, out outcome, via nudge.Via, started time.Time, err error) {
	if errors.Is(err, ghclient.ErrMoved) {
		w.reroute(ctx, inv)
	}
	d := retry.Of(err, inv.Attempts, w.Worker.RetryMax)
	if d.Result == retry.Parked {
		d.After = retry.Aging(time.Since(inv.RequestedAt), inv.Attempts, w.Worker.RetryMax)
	}
	if d.After > 0 {
		if deferErr := w.Store.DeferInvalidation(context.WithoutCancel(ctx), inv, d.After, err.Error(), d.Spend); deferErr != nil &&
			!errors.Is(deferErr, store.ErrLeaseLost) && !errors.Is(deferErr, store.ErrSuperseded) {
			w.Log.WarnContext(ctx, "defer invalidation failed", "err", deferErr) // the lease ends by itself
		}
	}
	w.metrics.invalidations.WithLabelValues(string(d.Result)).Inc()
	if d.Result == retry.Completed {
		daemon.ObserveTraced(ctx, w.metrics.seconds.WithLabelValues(inv.Lane.String()), time.Since(inv.RequestedAt).Seconds())
	}
	if errors.Is(err, store.ErrLeaseLost) {
		w.metrics.leasesLost.Inc()
	}
	attrs := []any{
		"repo", inv.FullName, "head_sha", string(inv.Head.SHA), "generation", int64(inv.Generation), "lease_token", int64(inv.Token),
		"attempt", inv.Attempts, "via", string(via), "proof", string(out.proof), "candidates", out.candidates, "due", out.due,
		"result", string(d.Result), "elapsed_ms", time.Since(started).Milliseconds(),
	}
	level := slog.LevelInfo
	if err != nil {
		attrs = append(attrs, "err", err.Error(), "retry_after_ms", d.After.Milliseconds())
		if d.Result == retry.Failed || d.Result == retry.Parked {
			level = slog.LevelWarn
		}
	}
	w.Log.Log(ctx, level, "head invalidation ended", attrs...)
}

// reroute asks which name the repository id has now; the id is the identity, the name only a route (D2).
func (w *Worker) reroute(ctx context.Context, inv store.Invalidation) {
	repos, err := w.GitHub(int64(inv.Head.Installation)).Repositories(ctx)
	if err != nil {
		w.Log.WarnContext(ctx, "look for a moved repository failed", "repo", inv.FullName, "err", err)
		return
	}
	for _, r := range repos {
		if r.ID == int64(inv.Head.Repository) {
			if err := w.Store.SetRoute(ctx, inv.Head.Installation, inv.Head.Repository, r.FullName()); err != nil {
				w.Log.WarnContext(ctx, "record a moved repository failed", "repo", inv.FullName, "err", err)
			}
			return
		}
	}
}
