package system

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/countersign/countersign/deploy/postgres"
	"github.com/countersign/countersign/pkg/daemon"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/services/console"
	"github.com/countersign/countersign/services/evaluator"
	"github.com/countersign/countersign/services/fanout"
	"github.com/countersign/countersign/services/ingress"
	"github.com/countersign/countersign/services/invalidator"
	"github.com/countersign/countersign/services/reconciler"
)

// Services are the five, in the order in which work flows through them.
var Services = []string{"ingress", "invalidator", "fanout", "evaluator", "reconciler"}

// Options are what a whole system needs. The zero value lacks a database and a GitHub.
type Options struct {
	// RoleURL gives the database URL of a role of deploy/postgres/roles.sql.
	RoleURL func(role string) string
	// Environ are further COUNTERSIGN_ variables for every service, as production would set them.
	Environ map[string]string
	// Replicas is how many of each service run; absent means one.
	Replicas map[string]int
	// Ingress is where the first ingress listens; further replicas take a free port. Nil: a free port of 127.0.0.1.
	Ingress net.Listener
	// Log receives every service's log lines; nil discards them.
	Log io.Writer
	// Apart gives every replica the metrics of the process, for whoever looks at each by itself (Replica.Operator). Otherwise only
	// the first has them, since one page shows all.
	Apart bool
}

// System is a running Countersign.
type System struct {
	opts Options
	ctx  context.Context

	mu       sync.Mutex
	started  int
	replicas []*Replica
	ingress  []string
}

// Replica is one running service.
type Replica struct {
	service string
	url     string
	runtime *daemon.Runtime
	stop    context.CancelFunc
	done    chan struct{}
	err     error
}

// Service is which of Services it is.
func (r *Replica) Service() string { return r.service }

// Operator serves the replica's own health, metrics and identity, as its process would.
func (r *Replica) Operator() http.Handler { return daemon.OperatorHandler(r.runtime) }

// URL is the webhook address of an ingress, without the path; "" of another service.
func (r *Replica) URL() string { return r.url }

// Tell tells the replica to stop, and returns at once; Done is closed when it has.
func (r *Replica) Tell() { r.stop() }

// Done is closed when the replica has ended.
func (r *Replica) Done() <-chan struct{} { return r.done }

// Err is why the replica ended, once Done is closed.
func (r *Replica) Err() error { return r.err }

// Forget leaves a replica out of Ready, Stop and the operator's page: whoever calls it ends the replica.
func (s *System) Forget(r *Replica) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replicas = slices.DeleteFunc(s.replicas, func(x *Replica) bool { return x == r })
}

// Prepare migrates the database behind ownerURL and applies the roles. It may run twice. audit installs the lease grant audit.
func Prepare(ctx context.Context, ownerURL string, audit bool) error {
	if err := store.Migrate(ctx, ownerURL, postgres.RolesSQL, time.Minute); err != nil {
		return err
	}
	if audit {
		return store.InstallGrantAudit(ctx, ownerURL)
	}
	return nil
}

// New is a system in which nothing runs yet.
func New(ctx context.Context, opts Options) *System {
	if opts.Log == nil {
		opts.Log = io.Discard
	}
	return &System{opts: opts, ctx: context.WithoutCancel(ctx)}
}

// Start runs every replica. It returns when all of them were started; Ready tells when they are ready.
func Start(ctx context.Context, opts Options) (*System, error) {
	s := New(ctx, opts)
	for _, service := range Services {
		for range max(1, opts.Replicas[service]) {
			if err := s.StartReplica(service); err != nil {
				return nil, errors.Join(err, s.Stop(ctx))
			}
		}
	}
	return s, nil
}

// StartReplica adds one more replica of a service.
func (s *System) StartReplica(service string) error {
	_, err := s.StartReplicaWith(service, nil)
	return err
}

// StartReplicaWith is StartReplica with variables of this replica alone, which win over Options.Environ.
func (s *System) StartReplicaWith(service string, vars map[string]string) (*Replica, error) {
	start, ok := starters[service]
	if !ok {
		return nil, fmt.Errorf("start %q: not one of %v", service, Services)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.started++
	return start(s, vars)
}

var starters = map[string]func(*System, map[string]string) (*Replica, error){
	"ingress": func(s *System, vars map[string]string) (*Replica, error) {
		listener := s.opts.Ingress
		s.opts.Ingress = nil
		if listener == nil {
			var err error
			if listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
				return nil, err
			}
		}
		r, err := run(s, "ingress", vars, func(c *ingress.Config) { c.Listener = listener }, ingress.Run)
		if err != nil {
			return nil, errors.Join(err, listener.Close())
		}
		r.url = "http://" + listener.Addr().String()
		s.ingress = append(s.ingress, r.url)
		return r, nil
	},
	"invalidator": func(s *System, vars map[string]string) (*Replica, error) {
		return run(s, "invalidator", vars, func(*invalidator.Config) {}, invalidator.Run)
	},
	"fanout": func(s *System, vars map[string]string) (*Replica, error) {
		return run(s, "fanout", vars, func(*fanout.Config) {}, fanout.Run)
	},
	"evaluator": func(s *System, vars map[string]string) (*Replica, error) {
		return run(s, "evaluator", vars, func(*evaluator.Config) {}, evaluator.Run)
	},
	"reconciler": func(s *System, vars map[string]string) (*Replica, error) {
		return run(s, "reconciler", vars, func(*reconciler.Config) {}, reconciler.Run)
	},
}

// run configures one replica from variables and starts it.
func run[C any](s *System, service string, vars map[string]string, adjust func(*C), serve func(context.Context, *daemon.Runtime, C) error) (*Replica, error) {
	type all struct {
		Daemon  daemon.Config
		Service C
	}
	cfg, err := daemon.LoadWith[all](daemon.LoadOptions{Known: Known()}, nil, s.environ(service, s.started, vars))
	if err != nil {
		return nil, fmt.Errorf("configure %s: %w", service, err)
	}
	adjust(&cfg.Service)
	ctx, stop := context.WithCancel(s.ctx)
	rt, err := daemon.NewRuntime(ctx, daemon.RuntimeOptions{
		Service: service, Config: cfg.Daemon, Secrets: daemon.SecretsOf(cfg), Output: s.opts.Log, ProcessMetrics: s.opts.Apart || len(s.replicas) == 0,
	})
	if err != nil {
		stop()
		return nil, fmt.Errorf("start %s: %w", service, err)
	}
	r := &Replica{service: service, runtime: rt, stop: stop, done: make(chan struct{})}
	s.replicas = append(s.replicas, r)
	go func() {
		defer close(r.done)
		r.err = errors.Join(serve(ctx, rt, cfg.Service), rt.Close(context.WithoutCancel(ctx)))
	}()
	return r, nil
}

// Known are every service's configuration structs: in one process, each ignores the others' variables.
func Known() []any {
	return []any{daemon.Config{}, ingress.Config{}, invalidator.Config{}, fanout.Config{}, evaluator.Config{}, reconciler.Config{}, console.Config{}}
}

func (s *System) environ(service string, number int, own map[string]string) []string {
	vars := maps.Clone(s.opts.Environ)
	if vars == nil {
		vars = map[string]string{}
	}
	vars["COUNTERSIGN_DATABASE_URL"] = s.opts.RoleURL("countersign_" + service)
	vars["COUNTERSIGN_OPERATOR_LISTEN"] = ""
	vars["COUNTERSIGN_REPLICA"] = fmt.Sprintf("%s-%d", service, number)
	maps.Copy(vars, own)
	var environ []string
	for _, k := range slices.Sorted(maps.Keys(vars)) {
		environ = append(environ, k+"="+vars[k])
	}
	return environ
}

// IngressURLs are the webhook addresses of the ingress replicas, without the path.
func (s *System) IngressURLs() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.ingress)
}

// Replicas are all that run, in the order of their start.
func (s *System) Replicas() []*Replica {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.replicas)
}

// Operator serves health, metrics and identity of every replica.
func (s *System) Operator() http.Handler {
	s.mu.Lock()
	defer s.mu.Unlock()
	runtimes := make([]*daemon.Runtime, 0, len(s.replicas))
	for _, r := range s.replicas {
		runtimes = append(runtimes, r.runtime)
	}
	return daemon.OperatorHandler(runtimes...)
}

// Ready waits until every replica is ready, or says what is missing when ctx ends.
func (s *System) Ready(ctx context.Context) error {
	for {
		missing := s.missing(ctx)
		if missing == nil {
			return nil
		}
		timer := time.NewTimer(50 * time.Millisecond)
		select {
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("wait until ready: %w", missing)
		case <-timer.C:
		}
	}
}

func (s *System) missing(ctx context.Context) error {
	s.mu.Lock()
	replicas := slices.Clone(s.replicas)
	s.mu.Unlock()
	for _, r := range replicas {
		select {
		case <-r.done:
			return fmt.Errorf("%s ended: %w", r.service, r.err)
		default:
		}
		if findings, worst := r.runtime.Health.Ready(ctx); worst != daemon.StatusOK {
			return fmt.Errorf("%s is not ready: %v", r.service, findings)
		}
	}
	return nil
}

// StopService drains every replica of a service, as a SIGTERM would, and forgets them.
func (s *System) StopService(ctx context.Context, service string) error {
	s.mu.Lock()
	var stopping, staying []*Replica
	for _, r := range s.replicas {
		if service == "" || r.service == service {
			stopping = append(stopping, r)
		} else {
			staying = append(staying, r)
		}
	}
	s.replicas = staying
	s.mu.Unlock()
	for _, r := range stopping {
		r.stop()
	}
	var errs []error
	for _, r := range stopping {
		select {
		case <-r.done:
			if r.err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", r.service, r.err))
			}
		case <-ctx.Done():
			errs = append(errs, fmt.Errorf("%s did not stop: %w", r.service, context.Cause(ctx)))
		}
	}
	return errors.Join(errs...)
}

// Stop drains everything. It may run twice.
func (s *System) Stop(ctx context.Context) error { return s.StopService(ctx, "") }
