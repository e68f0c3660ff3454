package reconciler

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
	"github.com/countersign/countersign/pkg/store"
)

const (
	// serviceName names the service in logs, leases, metrics and on NATS.
	serviceName = "reconciler"
	// leaseName is the row all replicas are elected by.
	leaseName = "reconciler"
)

// Run is the service: it stands for election and scans until ctx ends, then finishes the step it is at and returns nil.
func Run(ctx context.Context, rt *daemon.Runtime, cfg Config) error {
	st, err := store.Open(ctx, cfg.Store)
	if err != nil {
		return err
	}
	defer st.Close()
	bus, err := nudge.Connect(ctx, cfg.Nudge, nudge.Options{Name: serviceName, Log: rt.Log, Metrics: rt.Registry, Tracer: rt.Tracer})
	if err != nil {
		return err
	}
	defer bus.Close()
	app, err := ghclient.NewApp(cfg.GitHub, ghclient.Options{Log: rt.Log, Metrics: rt.Registry, Budget: st, HTTP: Gated(tracedTransport(rt))})
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
		Store: st, App: app, Waker: bus, Holder: rt.Replica, Log: rt.Log, Metrics: rt.Registry, Tracer: rt.Tracer,
		Client: func(i int64) Client { return app.Client(i, ghclient.ReconcilerPermissions) },
	})
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return rt.Task(ctx, "github_identity", probe.Run) })
	g.Go(func() error { return rt.Task(ctx, "lease_status", s.Observe) })
	g.Go(func() error {
		return rt.Task(ctx, "reconciler", func(ctx context.Context) error { return s.Serve(ctx, bus) })
	})
	return g.Wait()
}

// App lists what the App is installed on; *ghclient.App is one.
type App interface {
	Installations(ctx context.Context) ([]ghclient.Installation, error)
}

// Client is what a scan reads of one installation; *ghclient.Client is one.
type Client interface {
	Repositories(ctx context.Context) ([]ghclient.RepositoryInfo, error)
	OpenPulls(ctx context.Context, r ghclient.Repo, base string, page int) ([]ghclient.Pull, int, error)
}

// Elections is how the lease is held.
type Elections interface {
	ElectDue(ctx context.Context, name, holder string, ttl, every time.Duration) (store.Term, error)
	RenewTerm(ctx context.Context, t store.Term, ttl time.Duration) error
	ResignTerm(ctx context.Context, t store.Term, result string) error
	ReadLease(ctx context.Context, name string) (store.LeaseStatus, error)
}

// Work is what a scan writes.
type Work interface {
	PruneDeliveries(ctx context.Context, age time.Duration, limit int) (int, error)
	PruneHeads(ctx context.Context, age time.Duration, limit int) (int, error)
	KeepInstallation(ctx context.Context, i store.InstallationID, accountLogin string) error
	WakeParked(ctx context.Context, i store.InstallationID, repositories []store.RepositoryID) (int, error)
	EnqueueIdle(ctx context.Context, key store.PullKey, fullName string, fact store.PullFact, olderThan time.Duration) (bool, error)
}

// Store is the part of *store.Store this service uses.
type Store interface {
	Elections
	Work
}

// Waker sends wake-ups; *nudge.Bus is one.
type Waker interface {
	Wake(ctx context.Context, w nudge.Wake) error
}

// Deps are the collaborators of a Service. Store, App, Client, Waker and Holder are required.
type Deps struct {
	Store   Store
	App     App
	Client  func(installation int64) Client
	Waker   Waker
	Holder  string // names this process in the lease
	Log     *slog.Logger
	Metrics prometheus.Registerer
	Tracer  trace.Tracer
}

// Service scans when it is elected. Any number of replicas may run; one Serve a Service.
type Service struct {
	cfg     Config
	deps    Deps
	metrics *metrics
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
		return nil, fmt.Errorf("register metrics of the reconciler: %w", err)
	}
	return &Service{cfg: cfg, deps: d, metrics: m}, nil
}

// Serve attempts a scan at once, then every interval, and whenever a nudge asks for one, until ctx ends (RG-427). bus may be nil.
// What is under way when ctx ends is let finish its step; Serve then returns nil.
func (s *Service) Serve(ctx context.Context, bus *nudge.Bus) error {
	asked := make(chan struct{}, 1)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.listen(ctx, bus, asked) })
	g.Go(func() error {
		tick := time.NewTicker(s.cfg.every())
		defer tick.Stop()
		via, apart := nudge.ViaSweep, time.Duration(0)
		for {
			s.attempt(ctx, via, apart)
			select {
			case <-ctx.Done():
				return nil
			case <-asked:
				via, apart = nudge.ViaNudge, 0
			case <-tick.C:
				// Half an interval's grace: replicas tick at their own times and share one rhythm all the same.
				via, apart = nudge.ViaPoll, s.cfg.every()/2
			}
		}
	})
	return g.Wait()
}

// listen turns nudges into requests to look now. Two that arrive during one scan are one scan after it.
func (s *Service) listen(ctx context.Context, bus *nudge.Bus, asked chan<- struct{}) error {
	if bus == nil {
		<-ctx.Done()
		return nil
	}
	return nudge.Work{
		Bus: bus, Subject: nudge.Reconcile, Service: serviceName, Poll: 24 * time.Hour, // the ticker is the poll
		Log: s.deps.Log, Metrics: s.deps.Metrics,
		Step: func(_ context.Context, via nudge.Via) (bool, error) {
			if via == nudge.ViaNudge {
				select {
				case asked <- struct{}{}:
				default:
				}
			}
			return false, nil
		},
	}.Run(ctx)
}

// attempt stands for election and, when elected, scans. apart is how long ago the last attempt of any replica must be.
// Being told to stop during the election records no attempt and gives the lease back (RG-418).
func (s *Service) attempt(ctx context.Context, via nudge.Via, apart time.Duration) {
	if ctx.Err() != nil {
		return
	}
	// Nothing under way is cancelled by a stop (RG-421): every step is bounded by its own deadline, and looks before it begins.
	work := ghclient.WithLane(context.WithoutCancel(ctx), ghclient.LaneReconcile)
	elected := time.Now()
	term, err := s.deps.Store.ElectDue(work, leaseName, s.deps.Holder, s.cfg.lease(), apart)
	switch {
	case errors.Is(err, store.ErrNoWork):
		s.metrics.elections.WithLabelValues(electionHeld).Inc()
		return
	case err != nil:
		s.metrics.elections.WithLabelValues(electionFailed).Inc()
		s.deps.Log.WarnContext(ctx, "election failed", daemon.KeyErr, err)
		return
	case ctx.Err() != nil:
		s.resignUnused(work, term)
		return
	}
	s.metrics.elections.WithLabelValues(electionElected).Inc()
	s.govern(ctx, work, term, elected, via)
}

// resignUnused gives back a lease under which nothing was begun; failing to is a failed election (RG-418).
func (s *Service) resignUnused(ctx context.Context, term store.Term) {
	if err := s.deps.Store.ResignTerm(ctx, term, ""); err != nil {
		s.metrics.elections.WithLabelValues(electionFailed).Inc()
		s.deps.Log.ErrorContext(ctx, "lease not given back", daemon.KeyLeaseToken, int64(term.Token), daemon.KeyErr, err)
		return
	}
	s.metrics.elections.WithLabelValues(electionReleased).Inc()
}

// govern runs one scan under an elected term and resigns with its result.
func (s *Service) govern(ctx, work context.Context, term store.Term, elected time.Time, via nudge.Via) {
	work, span := s.deps.Tracer.Start(work, "reconcile scan")
	defer span.End()
	began := time.Now()
	t := s.beginTenure(ctx, work, term, elected)
	sc := &scan{service: s, tenure: t}
	result := sc.run(withGate(work, t.check))
	t.end()
	if err := s.deps.Store.ResignTerm(work, term, result); err != nil {
		// The attempt is not on record, so it is not complete for anybody (RG-415, RG-416).
		sc.fail("lease", err)
		result = resultPartial
	}
	s.metrics.recordScan(sc, result, time.Since(began))
	level := slog.LevelInfo
	if result != resultComplete {
		level = slog.LevelWarn
	}
	s.deps.Log.Log(work, level, "reconcile scan",
		daemon.KeyLeaseToken, int64(term.Token), daemon.KeyVia, string(via), daemon.KeyResult, result, "reasons", sc.reasons(),
		"installations", sc.installations, "suspended", sc.suspended, "failed_installations", sc.failedInstallations,
		"repositories", sc.repositories, "pulls", sc.pulls, "queued", sc.queued, "woken", sc.woken,
		"pruned_deliveries", sc.prunedDeliveries, "pruned_heads", sc.prunedHeads, daemon.KeyElapsedMS, time.Since(began).Milliseconds())
}
