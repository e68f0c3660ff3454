package fanout

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"golang.org/x/sync/errgroup"

	"github.com/countersign/countersign/pkg/daemon"
	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/nudge"
	"github.com/countersign/countersign/pkg/retry"
	"github.com/countersign/countersign/pkg/store"
)

// serviceName names the service in logs, leases, metrics and on NATS.
const serviceName = "fanout"

// Run is the service: it works authority changes until ctx ends, then lets the passes that run reach the end of their page,
// gives their leases back, and returns nil.
func Run(ctx context.Context, rt *daemon.Runtime, cfg Config) error {
	st, err := store.Open(ctx, cfg.Store)
	if err != nil {
		return err
	}
	defer st.Close()
	if err := rt.Registry.Register(st.Metrics()); err != nil {
		return fmt.Errorf("register the metrics of the connection pools: %w", err)
	}
	bus, err := nudge.Connect(ctx, cfg.Nudge, nudge.Options{Name: serviceName, Log: rt.Log, Metrics: rt.Registry, Tracer: rt.Tracer})
	if err != nil {
		return err
	}
	defer bus.Close()
	app, err := ghclient.NewApp(cfg.GitHub, ghclient.Options{Log: rt.Log, Metrics: rt.Registry, Budget: st, Traces: rt.TracerProvider})
	if err != nil {
		return err
	}
	rt.SetIdentity(daemon.Identity{GitHubAPIURL: cfg.GitHub.APIURL, AppID: cfg.GitHub.AppID, OrganizationRepository: cfg.GitHub.OrgRepository})
	rt.Health.Require("database", st.Ping)
	rt.Health.Prefer("nats", bus.Check)
	probe, err := daemon.NewIdentityProbe(rt.Health, cfg.Identity, cfg.GitHub.AppID, func(ctx context.Context) (int64, error) {
		id, err := app.Identity(ctx)
		return id.ID, err
	})
	if err != nil {
		return err
	}
	s, err := New(cfg, Deps{
		Store: st, Waker: bus, Holder: rt.Replica, Log: rt.Log, Metrics: rt.Registry, Tracer: rt.Tracer,
		GitHub: func(i store.InstallationID) GitHub { return app.Client(int64(i), ghclient.FanoutPermissions) },
	})
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return rt.Task(ctx, "github_identity", probe.Run) })
	g.Go(func() error { return rt.Task(ctx, "backlog", s.Observe) })
	g.Go(func() error {
		return rt.Task(ctx, "fanout", func(ctx context.Context) error { return s.Serve(ctx, bus, rt.DrainWithin()) })
	})
	return g.Wait()
}

// GitHub is what a pass reads of one installation; *ghclient.Client is one.
type GitHub interface {
	Repositories(ctx context.Context) ([]ghclient.RepositoryInfo, error)
	Repository(ctx context.Context, r ghclient.Repo) (ghclient.RepositoryInfo, error)
	OpenPulls(ctx context.Context, r ghclient.Repo, base string, page int) ([]ghclient.Pull, int, error)
	BaseRules(ctx context.Context, r ghclient.Repo, branch string) (ghclient.BaseRules, error)
	Changes(ctx context.Context, r ghclient.Repo, numbers []int) (map[int]ghclient.Pull, error)
}

// Claims is how a row is held and given back.
type Claims interface {
	ClaimAuthority(ctx context.Context, holder string, ttl time.Duration) (store.Authority, error)
	RenewAuthority(ctx context.Context, a store.Authority, ttl time.Duration) error
	DeferAuthority(ctx context.Context, a store.Authority, delay time.Duration, cause string, spend bool) error
	ParkAuthority(ctx context.Context, a store.Authority, first, most time.Duration, cause string) (time.Duration, error)
}

// Passes is what a pass writes.
type Passes interface {
	SplitInstallation(ctx context.Context, a store.Authority, repos []store.RepositoryRef) error
	AdvancePage(ctx context.Context, a store.Authority, fullName string, pulls []store.PullFact, next int) error
	ReadBases(ctx context.Context, a store.Authority, numbers []int) (map[int]store.Basis, error)
	AdvancePageNarrowed(ctx context.Context, a store.Authority, fullName string, pulls []store.PullFact, rests map[int]store.Basis, next int) (kept []int, err error)
	FinishAuthority(ctx context.Context, a store.Authority) error
}

// Store is the part of *store.Store this service uses.
type Store interface {
	Claims
	Passes
	ReadAuthorityBacklog(ctx context.Context) (store.AuthorityBacklog, error)
}

// Waker sends wake-ups; *nudge.Bus is one.
type Waker interface {
	Wake(ctx context.Context, w nudge.Wake) error
}

// Deps are the collaborators of a Service. Store, GitHub, Waker and Holder are required.
type Deps struct {
	Store   Store
	GitHub  func(store.InstallationID) GitHub
	Waker   Waker
	Holder  string // names this process in leases
	Log     *slog.Logger
	Metrics prometheus.Registerer
	Tracer  trace.Tracer
}

// Service works authority rows. It is safe for concurrent use; any number of replicas may run.
type Service struct {
	cfg     Config
	deps    Deps
	metrics *metrics
	shares  *store.Shares
}

// New puts a Service together; it starts nothing. cfg is not validated here, so that tests may use shorter times.
func New(cfg Config, d Deps) (*Service, error) {
	if d.Log == nil {
		d.Log = slog.New(slog.DiscardHandler)
	}
	if d.Tracer == nil {
		d.Tracer = noop.NewTracerProvider().Tracer("")
	}
	if cfg.GitHub.OrgRepository == "" {
		cfg.GitHub.OrgRepository = ".github" // a Config built in code means what one read from the environment means
	}
	m, err := newMetrics(d.Metrics)
	if err != nil {
		return nil, fmt.Errorf("register metrics of the fan-out: %w", err)
	}
	return &Service{cfg: cfg, deps: d, metrics: m, shares: store.NewShares(cfg.Worker.Concurrency)}, nil
}

// Serve works until ctx ends; grace bounds what still runs then. bus may be nil: the queue is then found by polling alone (I7).
func (s *Service) Serve(ctx context.Context, bus *nudge.Bus, grace time.Duration) error {
	return nudge.Work{
		Bus: bus, Subject: nudge.Fanout, Service: serviceName, Poll: s.cfg.Worker.Poll, Concurrency: s.cfg.Worker.Concurrency, Grace: grace,
		Log: s.deps.Log, Metrics: s.deps.Metrics,
		Step: func(step context.Context, via nudge.Via) (bool, error) { return s.step(step, ctx.Done(), via) },
	}.Run(ctx)
}

// Step works one row that is due, for callers that drive a Service by hand, and reports whether there was one. It may run beside
// others. The only errors are the database's.
func (s *Service) Step(ctx context.Context, via nudge.Via) (did bool, err error) {
	return s.step(ctx, ctx.Done(), via)
}

// step claims one row and works it. stopping ends the pass after the page it is at. The only errors are the database's.
func (s *Service) step(ctx context.Context, stopping <-chan struct{}, via nudge.Via) (did bool, err error) {
	began := time.Now()
	drawing, share := s.shares.Begin(ctx)
	defer share.End()
	a, err := s.deps.Store.ClaimAuthority(drawing, s.deps.Holder, s.cfg.Worker.Lease)
	if isNoWork(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	share.Took(a.Installation, a.Lane)
	ctx, span := s.deps.Tracer.Start(daemon.WithTraceparent(ctx, a.Traceparent), "fanout pass", trace.WithSpanKind(trace.SpanKindConsumer))
	defer span.End()
	s.metrics.claimed(a)
	p := &pass{service: s, authority: a, github: s.deps.GitHub(a.Installation), stopping: stopping, why: map[why]int{}}
	failure := p.run(ghclient.WithLane(ctx, ghclient.LaneFanout))
	d, err := s.settle(ctx, a, failure)
	s.metrics.record(p, d, time.Since(began))
	if errors.Is(failure, store.ErrLeaseLost) {
		s.metrics.leasesLost.Inc()
	}
	s.log(ctx, p, d, via, failure, time.Since(began))
	return true, err
}

// log is the one line of a pass.
func (s *Service) log(ctx context.Context, p *pass, d retry.Disposition, via nudge.Via, failure error, took time.Duration) {
	a, level := p.authority, slog.LevelInfo
	attrs := []any{
		"installation", int64(a.Installation), "scope", string(a.Scope), daemon.KeyRepo, p.fullName(), "base_ref", a.BaseRef,
		daemon.KeyDeliveryID, string(a.DeliveryID), "reason", a.Reason, daemon.KeyGeneration, int64(a.PassGeneration),
		daemon.KeyEpoch, int64(a.Epoch), daemon.KeyLeaseToken, int64(a.Token), daemon.KeyAttempt, a.Attempts,
		daemon.KeyVia, string(via), "pages", p.pages, "pulls", p.pulls, "repositories", p.repositories,
		daemon.KeyResult, string(d.Result), daemon.KeyElapsedMS, took.Milliseconds(),
	}
	for _, reason := range whys {
		if n := p.why[reason]; n > 0 {
			attrs = append(attrs, "pulls_"+string(reason), n)
		}
	}
	if p.skipped != "" {
		attrs = append(attrs, "skipped", p.skipped)
	}
	if failure != nil {
		attrs = append(attrs, daemon.KeyErr, failure, "retry_after_ms", d.After.Milliseconds())
		if d.Result == retry.Failed || d.Result == retry.Parked {
			level = slog.LevelWarn
		}
	}
	s.deps.Log.Log(ctx, level, "authority pass", attrs...)
}

// wake tells a service that a committed row has work. A wake that is not sent costs one poll (I7).
func (s *Service) wake(ctx context.Context, w nudge.Wake) {
	if err := s.deps.Waker.Wake(ctx, w); err != nil {
		s.deps.Log.DebugContext(ctx, "wake not sent", daemon.KeyErr, err)
	}
}
