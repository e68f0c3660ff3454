package evaluator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"

	"github.com/countersign/countersign/internal/hook"
	"github.com/countersign/countersign/pkg/checkrun"
	"github.com/countersign/countersign/pkg/daemon"
	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/nudge"
	"github.com/countersign/countersign/pkg/retry"
	"github.com/countersign/countersign/pkg/store"
)

// GitHub is what the evaluator asks of an installation: the check run's protocol and the evidence.
type GitHub interface {
	checkrun.GitHub
	Pulls
	Facts
	Optional
}

// Pulls are the reads about pull requests.
type Pulls interface {
	Pull(ctx context.Context, repo ghclient.Repo, number int) (ghclient.Pull, error)
	PullState(ctx context.Context, repo ghclient.Repo, number int) (ghclient.Pull, error)
	PullsOfCommit(ctx context.Context, repo ghclient.Repo, sha string) ([]ghclient.PullSummary, error)
	Evidence(ctx context.Context, repo ghclient.Repo, number int) (ghclient.Evidence, error)
	ChangedFiles(ctx context.Context, repo ghclient.Repo, number, want int) ([]ghclient.ChangedFile, error)
	File(ctx context.Context, repo ghclient.Repo, ref, path string) (ghclient.File, error)
	Repository(ctx context.Context, repo ghclient.Repo) (ghclient.RepositoryInfo, error)
	Repositories(ctx context.Context) ([]ghclient.RepositoryInfo, error)
}

// Facts are the reads about who may approve.
type Facts interface {
	TeamsFor(ctx context.Context, org string, slugs []string, repo ghclient.Repo) (map[string]ghclient.TeamFacts, error)
	TeamMembership(ctx context.Context, org, slug, login string) (state, role string, err error)
	TeamMembers(ctx context.Context, org, slug string) ([]ghclient.Actor, error)
	UserPermission(ctx context.Context, repo ghclient.Repo, login string) (string, error)
	User(ctx context.Context, login string) (ghclient.Actor, error)
}

// Optional are the reads that only opt-in policies and merge groups need.
type Optional interface {
	Comments(ctx context.Context, repo ghclient.Repo, number int) ([]ghclient.Comment, error)
	LastPush(ctx context.Context, pull ghclient.Pull) (ghclient.Push, error)
	BaseChange(ctx context.Context, repo ghclient.Repo, number int) (at time.Time, changed bool, err error)
	Compare(ctx context.Context, repo ghclient.Repo, base, head string) (ghclient.Comparison, error)
	MergeQueue(ctx context.Context, repo ghclient.Repo, base, groupRef string) (ghclient.MergeQueue, error)
	ChangedContent(ctx context.Context, repo ghclient.Repo, base, head string) ([]ghclient.ContentChange, error)
}

// Deps are what a Worker works with.
type Deps struct {
	Store   *store.Store
	Bus     *nudge.Bus
	GitHub  func(installation int64) GitHub
	Checks  *checkrun.Manager
	Config  Config
	Replica string
	Tracer  trace.Tracer
	Log     *slog.Logger
	Metrics prometheus.Registerer
}

// Worker evaluates heads. Safe for concurrent use.
type Worker struct {
	Deps
	metrics *metrics
	backlog backlogMetrics
	shares  *store.Shares
}

// New returns a Worker.
func New(d Deps) *Worker {
	return &Worker{Deps: d, metrics: newMetrics(d.Metrics), backlog: newBacklogMetrics(d.Metrics), shares: store.NewShares(d.Config.Worker.Concurrency)}
}

// Run opens what the evaluator needs and works until ctx ends; then it lets running evaluations finish.
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
	queues := ghclient.NewMergeQueueReadiness()
	rt.Health.Prefer("merge_queues", queues.Check)
	rt.SetIdentity(daemon.Identity{GitHubAPIURL: cfg.GitHub.APIURL, AppID: cfg.GitHub.AppID, CheckName: cfg.Check.Name, OrganizationRepository: cfg.GitHub.OrgRepository})
	probe, err := daemon.NewIdentityProbe(rt.Health, cfg.Identity, cfg.GitHub.AppID, func(ctx context.Context) (int64, error) {
		id, err := app.Identity(ctx)
		if err == nil {
			queues.Saw(id)
		}
		return id.ID, err
	})
	if err != nil {
		return err
	}
	w := New(Deps{
		Store: s, Bus: bus, Config: cfg, Replica: rt.Replica, Tracer: rt.Tracer, Log: rt.Log, Metrics: rt.Registry,
		GitHub: func(installation int64) GitHub { return app.Client(installation, ghclient.EvaluatorPermissions) },
		Checks: checkrun.New(cfg.Check, rt.Log, rt.Registry),
	})
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return rt.Task(ctx, "github_identity", probe.Run) })
	g.Go(func() error { return rt.Task(ctx, "backlog", w.Observe) })
	g.Go(func() error { return rt.Task(ctx, "evaluate", w.Loop(rt).Run) })
	return g.Wait()
}

// Loop is the evaluator's work loop.
func (w *Worker) Loop(rt *daemon.Runtime) nudge.Work {
	return nudge.Work{
		Bus: w.Bus, Subject: nudge.Evaluate, Service: "evaluator", Poll: w.Config.Worker.Poll, Concurrency: w.Config.Worker.Concurrency,
		Grace: rt.DrainWithin(), Step: w.Step, Log: w.Log, Metrics: w.Metrics,
	}
}

// Step claims one head with its waiting evaluations and works it. did is false when nothing was due.
func (w *Worker) Step(ctx context.Context, via nudge.Via) (did bool, err error) {
	drawing, share := w.shares.Begin(ctx)
	defer share.End()
	// Merge groups first: they are few, and everybody behind them in the queue waits.
	ev, err := w.Store.ClaimMergeGroup(ctx, w.Replica, w.Config.Worker.Lease)
	if errors.Is(err, store.ErrNoWork) {
		ev, err = w.Store.ClaimEvaluation(drawing, w.Replica, w.Config.Worker.Lease)
	}
	if errors.Is(err, store.ErrNoWork) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	share.Took(ev.Head.Installation, laneOf(ev))
	if len(ev.Rows) == 0 && ev.Group == nil { // taken away between the claim's two statements; the lease is all there is
		_, err := w.Store.CompleteEvaluation(ctx, ev, nil)
		return true, ignoreLost(err)
	}
	ctx, span := w.Tracer.Start(daemon.WithTraceparent(ctx, ev.Trigger().Traceparent), "evaluate")
	defer span.End()
	w.metrics.claimed(ev)
	started := time.Now()
	outcome, err := w.evaluateHeld(ctx, ev)
	w.settle(ctx, ev, outcome, via, started, err)
	return true, nil
}

// evaluateHeld keeps the lease while it evaluates, and no longer: a panic must not leave a renewal behind, or nobody could
// ever claim the head again.
func (w *Worker) evaluateHeld(ctx context.Context, ev store.Evaluation) (outcome, error) {
	ctx = ghclient.WithLane(ctx, budgetLane(ev.Trigger().Lane))
	held, stop := store.KeepLease(ctx, w.Config.Worker.Lease, func(ctx context.Context) error {
		return w.Store.RenewEvaluation(ctx, ev, w.Config.Worker.Lease)
	})
	defer stop()
	out, err := w.evaluate(held, ev)
	return out, store.LeaseError(held, err)
}

// laneOf is the lane a claimed head was drawn from.
func laneOf(ev store.Evaluation) store.Lane {
	if len(ev.Rows) == 0 {
		return store.LaneInteractive
	}
	return ev.Rows[0].Lane
}

// budgetLane is what an evaluation's requests count as when slots or budget are short.
func budgetLane(l store.Lane) ghclient.Lane {
	switch l {
	case store.LaneInteractive:
		return ghclient.LaneFresh
	case store.LaneFanout:
		return ghclient.LaneFanout
	}
	return ghclient.LaneReconcile
}

// settle frees what an unfinished evaluation held, and says in one line what it came to.
func (w *Worker) settle(ctx context.Context, ev store.Evaluation, out outcome, via nudge.Via, started time.Time, err error) {
	if errors.Is(err, ghclient.ErrMoved) {
		w.reroute(ctx, ev)
	}
	d := w.disposition(ev, err)
	if d.After > 0 {
		var deferErr error
		if heldByAuthority(err) && ev.Group == nil { // a group's row has a due time of its own
			deferErr = w.Store.AwaitAuthority(context.WithoutCancel(ctx), ev, d.After, err.Error())
		} else {
			deferErr = w.Store.DeferEvaluation(context.WithoutCancel(ctx), ev, d.After, err.Error(), d.Spend)
		}
		if ignoreLost(deferErr) != nil {
			w.Log.WarnContext(ctx, "defer evaluation failed", "err", deferErr) // the lease ends by itself
		}
	}
	w.observe(ctx, ev, out, d.Result, err)
	row := ev.Trigger()
	attrs := []any{
		"repo", ev.FullName, "pr", row.Number, "head_sha", string(ev.Head.SHA), "generation", int64(ev.Generation), "epoch", int64(ev.Epoch),
		"lease_token", int64(ev.Token), "delivery_id", string(row.DeliveryID), "reason", row.Reason, "attempt", row.Attempts, "rows", len(ev.Rows),
		"via", string(via), "outcome", string(out.did), "conclusion", out.conclusion, "decision_id", int64(out.decision), "result", string(d.Result),
		"elapsed_ms", time.Since(started).Milliseconds(),
	}
	level := slog.LevelInfo
	if err != nil {
		attrs = append(attrs, "err", err.Error(), "retry_after_ms", d.After.Milliseconds())
		if d.Result == retry.Failed || d.Result == retry.Parked {
			level = slog.LevelWarn
		}
	}
	w.Log.Log(ctx, level, "evaluation ended", attrs...)
}

// disposition is retry.Of, with the two waits that spend no attempt: authority that is pending, or began meanwhile (RG-273),
// and a read that lags (P5). What has lagged for long is asked for less often: it may never appear.
func (w *Worker) disposition(ev store.Evaluation, err error) retry.Disposition {
	poll := w.Config.Worker.Poll
	switch {
	case heldByAuthority(err):
		return retry.Disposition{Result: retry.Deferred, After: max(hook.Pace(5*time.Second), 10*poll)}
	case errors.Is(err, errMembersPending):
		return retry.Disposition{Result: retry.Deferred, After: max(hook.Pace(500*time.Millisecond), poll)}
	case errors.Is(err, errLagging):
		waited := ev.ClaimedAt.Sub(ev.Trigger().RequestedAt) / 4
		return retry.Disposition{Result: retry.Deferred, After: max(hook.Pace(time.Second), 2*poll, min(waited, w.Config.Worker.RetryMax))}
	}
	row := ev.Trigger()
	d := retry.Of(err, row.Attempts, w.Config.Worker.RetryMax)
	if errors.Is(err, checkrun.ErrRefused) {
		d.Result = retry.Parked // each try appends a decision: less and less often
	}
	if d.Result == retry.Parked {
		d.After = retry.Aging(ev.ClaimedAt.Sub(row.RequestedAt), row.Attempts, w.Config.Worker.RetryMax)
	}
	return d
}

// heldByAuthority reports whether a fan-out that is pending, or began meanwhile, is what stopped the evaluation.
func heldByAuthority(err error) bool {
	var fence *store.FenceError
	return errors.Is(err, errAuthorityPending) ||
		errors.As(err, &fence) && (fence.Fence == store.FenceAuthorityPending || fence.Fence == store.FenceEpoch)
}

func ignoreLost(err error) error {
	if errors.Is(err, store.ErrLeaseLost) || errors.Is(err, store.ErrSuperseded) {
		return nil
	}
	return err
}

// reroute asks which name the repository id has now; the id is the identity, the name only a route (D2).
func (w *Worker) reroute(ctx context.Context, ev store.Evaluation) {
	repos, err := w.GitHub(int64(ev.Head.Installation)).Repositories(ctx)
	if err != nil {
		w.Log.WarnContext(ctx, "look for a moved repository failed", "repo", ev.FullName, "err", err)
		return
	}
	for _, r := range repos {
		if r.ID == int64(ev.Head.Repository) {
			if err := w.Store.SetRoute(ctx, ev.Head.Installation, ev.Head.Repository, r.FullName()); err != nil {
				w.Log.WarnContext(ctx, "record a moved repository failed", "repo", ev.FullName, "err", err)
			}
			return
		}
	}
}
