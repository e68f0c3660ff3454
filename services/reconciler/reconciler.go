package reconciler

import (
	"context"
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
	if err := rt.Registry.Register(st.Metrics()); err != nil {
		return fmt.Errorf("register the metrics of the connection pools: %w", err)
	}
	bus, err := nudge.Connect(ctx, cfg.Nudge, nudge.Options{Name: serviceName, Log: rt.Log, Metrics: rt.Registry, Tracer: rt.Tracer})
	if err != nil {
		return err
	}
	defer bus.Close()
	app, err := ghclient.NewApp(cfg.GitHub, ghclient.Options{Log: rt.Log, Metrics: rt.Registry, Budget: st, HTTP: Gated(tracedTransport(rt))})
	if err != nil {
		return err
	}
	rt.SetIdentity(daemon.Identity{GitHubAPIURL: cfg.GitHub.APIURL, AppID: cfg.GitHub.AppID, CheckName: cfg.CheckName, OrganizationRepository: cfg.GitHub.OrgRepository})
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

// App is what is asked with the App's own credential: what it is installed on, and GitHub's log of what it was sent;
// *ghclient.App is one.
type App interface {
	Installations(ctx context.Context) ([]ghclient.Installation, error)
	Deliveries(ctx context.Context, cursor string) ([]ghclient.Delivery, string, error)
	Redeliver(ctx context.Context, id int64) error
}

// Client is what a scan reads of one installation; *ghclient.Client is one.
type Client interface {
	Repositories(ctx context.Context) ([]ghclient.RepositoryInfo, error)
	OpenPulls(ctx context.Context, r ghclient.Repo, base string, page int) ([]ghclient.Pull, int, error)
	FindRun(ctx context.Context, r ghclient.Repo, sha, name string) (run ghclient.Run, found bool, err error)
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
	MarkInstallations(ctx context.Context, present, suspended []store.InstallationID) (store.Presence, error)
	MarkRepositories(ctx context.Context, i store.InstallationID, present []store.RepositoryID) (store.Presence, error)
	WakeParked(ctx context.Context, i store.InstallationID, repositories []store.RepositoryID) (int, error)
	EnqueueIdle(ctx context.Context, key store.PullKey, fullName string, fact store.PullFact, olderThan time.Duration) (bool, error)
}

// Gaps is what the walk over GitHub's delivery log reads and writes.
type Gaps interface {
	ReadLogPosition(ctx context.Context) (store.LogPosition, error)
	KeepLogPosition(ctx context.Context, p store.LogPosition) error
	RecordLog(ctx context.Context, log []store.LoggedDelivery) (store.GapCount, error)
	SettleGaps(ctx context.Context) (map[store.GapState]int, error)
	TakeGap(ctx context.Context, recovered time.Time) (store.Gap, error)
	GapNotAsked(ctx context.Context, g store.Gap, expired, spend bool, delay time.Duration, cause string) error
	ReadGapBacklog(ctx context.Context) (store.GapBacklog, error)
	PruneGaps(ctx context.Context, age time.Duration, limit int) (int, error)
}

// Decided is what the comparison of decided heads reads and writes.
type Decided interface {
	NextDecided(ctx context.Context, window, rest time.Duration, limit int) ([]store.DecidedHead, error)
	KeepDriftCursor(ctx context.Context, d store.DecidedHead) error
	RevokeDrift(ctx context.Context, d store.DecidedHead) (bool, error)
}

// Store is the part of *store.Store this service uses.
type Store interface {
	Elections
	Work
	Gaps
	Decided
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
	if cfg.CheckName == "" {
		cfg.CheckName = "Countersign / approval"
	}
	if cfg.LogAsks == 0 {
		cfg.LogAsks = 30
	}
	m, err := newMetrics(d.Metrics)
	if err != nil {
		return nil, fmt.Errorf("register metrics of the reconciler: %w", err)
	}
	return &Service{cfg: cfg, deps: d, metrics: m}, nil
}

// Serve attempts each of its duties at once, then every interval of the duty, and whenever a nudge asks for it, until ctx ends
// (RG-427). bus may be nil. What is under way when ctx ends is let finish its step; Serve then returns nil.
func (s *Service) Serve(ctx context.Context, bus *nudge.Bus) error {
	duties := s.duties()
	asked := make([]chan struct{}, len(duties))
	g, ctx := errgroup.WithContext(ctx)
	for n, d := range duties {
		asked[n] = make(chan struct{}, 1)
		g.Go(func() error {
			s.attend(ctx, d, asked[n])
			return nil
		})
	}
	g.Go(func() error { return s.listen(ctx, bus, asked) })
	return g.Wait()
}

// listen turns nudges into requests to look now. Two that arrive during one scan are one scan after it.
func (s *Service) listen(ctx context.Context, bus *nudge.Bus, asked []chan struct{}) error {
	if bus == nil {
		<-ctx.Done()
		return nil
	}
	return nudge.Work{
		Bus: bus, Subject: nudge.Reconcile, Service: serviceName, Poll: 24 * time.Hour, // the ticker is the poll
		Log: s.deps.Log, Metrics: s.deps.Metrics,
		Step: func(_ context.Context, via nudge.Via) (bool, error) {
			for _, duty := range asked {
				if via == nudge.ViaNudge {
					select {
					case duty <- struct{}{}:
					default:
					}
				}
			}
			return false, nil
		},
	}.Run(ctx)
}
