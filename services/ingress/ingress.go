package ingress

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"golang.org/x/time/rate"

	"github.com/countersign/countersign/internal/hook"
	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/nudge"
	"github.com/countersign/countersign/pkg/store"
)

// Route is the one path of the public listener.
const Route = "/webhooks/github"

// answerWithin is when the answer must leave, counted from the request's arrival: GitHub waits 10 s.
const answerWithin = 9 * time.Second

// Store is where deliveries become rows. *store.Store is one.
type Store interface {
	AcceptBatch(ctx context.Context, b *store.DirectBatch) ([]store.DirectOutcome, error)
	AcceptMergeGroup(ctx context.Context, d store.Delivery, w store.GroupWork) (store.Acceptance, error)
	AcceptKnownPull(ctx context.Context, d store.Delivery, w store.DirectWork) (a store.Acceptance, known bool, err error)
	AcceptKnownHead(ctx context.Context, d store.Delivery, w store.HeadWork) (a store.Acceptance, number int, known bool, err error)
	AcceptAuthority(ctx context.Context, d store.Delivery, w store.AuthorityWork, guardWait time.Duration) (store.Acceptance, error)
}

// Bus wakes services and asks for a reset. *nudge.Bus is one, a nil one too: it is unavailable.
type Bus interface {
	Wake(ctx context.Context, w nudge.Wake) error
	AskInvalidate(ctx context.Context, q nudge.InvalidateRequest) (nudge.InvalidateReply, error)
}

// Deps are what a Server works with. Store and Bus are required.
type Deps struct {
	Store  Store
	Bus    Bus
	Config Config
	// Log receives one line a request; nil discards them.
	Log *slog.Logger
	// Metrics receives the countersign_ingress_* metrics; nil keeps them private.
	Metrics prometheus.Registerer
	// Tracer makes one span a request; nil makes none.
	Tracer trace.Tracer
}

// Server answers webhooks. It is safe for concurrent use. It starts a goroutine for each of the few commits under way at once,
// which ends when nothing waits to be committed.
type Server struct {
	store   Store
	bus     Bus
	cfg     Config
	secrets [][]byte
	self    ghclient.AppIdentity
	limits  *limits
	turns   *turns
	batches *batcher
	log     *slog.Logger
	metrics *metrics
	tracer  trace.Tracer
	// crowded spaces out the lines about refused load: under a flood one a second says as much as each.
	crowded rate.Sometimes
}

// New builds a Server. It does not Validate: without a secret every POST is answered 503 (RG-031).
func New(d Deps) (*Server, error) {
	if d.Store == nil || d.Bus == nil {
		return nil, errors.New("new ingress: a store and a bus are required")
	}
	m, err := newMetrics(d.Metrics)
	if err != nil {
		return nil, err
	}
	s := &Server{
		store: d.Store, bus: d.Bus, cfg: d.Config, secrets: d.Config.secrets(), self: ghclient.AppIdentity{ID: d.Config.AppID},
		limits: newLimits(d.Config), turns: newTurns(d.Config.Store.MaxConns), log: d.Log, metrics: m, tracer: d.Tracer,
		crowded: rate.Sometimes{First: 1, Interval: time.Second},
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.batches = newBatcher(s.store, d.Config.Store.MaxConns, m, s.log)
	if s.tracer == nil {
		s.tracer = noop.NewTracerProvider().Tracer("")
	}
	return s, nil
}

// delivery is one request on its way through the server.
type delivery struct {
	began    time.Time
	id       string // X-GitHub-Delivery
	event    string // X-GitHub-Event
	sign     string // X-Hub-Signature-256
	form     bool   // the body is declared to be a form
	action   string
	work     Work
	accepted store.Acceptance
	fastPath string // result label; "" when there was none
	reset    bool   // the fast path reset a check, or queued a live head
	woken    bool
}

// ServeHTTP answers one request: 202 when it is durable or asks for nothing, otherwise why not. It never answers 2xx before
// the work is committed (I1), and leaves one log line. It may run twice for one delivery id: the second is a duplicate.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.metrics.inFlight.Inc()
	defer s.metrics.inFlight.Dec()
	// The sender's own trace context is a stranger's: the delivery begins its own trace.
	ctx, span := s.tracer.Start(r.Context(), "webhook", trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindServer))
	defer span.End()
	d := &delivery{began: time.Now()}
	done, err := s.guarded(ctx, w, r, d)
	span.SetAttributes(attribute.String("event", eventLabel(d.event)), attribute.String("result", string(done.result)))
	if err != nil {
		span.SetStatus(codes.Error, string(done.result))
	}
	s.metrics.finished(ctx, d, done.result)
	s.report(ctx, d, done, err)
	done.write(w)
}

// guarded is receive with a panic turned into its answer: a bug must not be a silent broken connection.
func (s *Server) guarded(ctx context.Context, w http.ResponseWriter, r *http.Request, d *delivery) (done answer, err error) {
	defer func() {
		if p := recover(); p != nil {
			s.log.ErrorContext(ctx, "webhook handler panicked", "panic", p, "stack", string(debug.Stack()))
			done, err = refuse(errPanicked)
		}
	}()
	if err := s.receive(ctx, w, r, d); err != nil {
		return refuse(err)
	}
	return acknowledge(d), nil
}

// receive is the story of one delivery. An error is its refusal; nil is 202.
func (s *Server) receive(ctx context.Context, w http.ResponseWriter, r *http.Request, d *delivery) error {
	release, err := s.limits.admit()
	if err != nil {
		return err
	}
	defer release()
	if err := d.readEnvelope(r, len(s.secrets) > 0); err != nil {
		return err
	}
	event, err := s.readEvent(w, r, d)
	if err != nil {
		return err
	}
	// From here on the sender may leave: GitHub does not send a delivery twice by itself, so what arrived whole is kept.
	ctx = context.WithoutCancel(ctx)
	d.work = Classify(event)
	if d.work.Why != "" {
		return nil
	}
	if err := s.accept(ctx, d); err != nil && !hook.Removed(hook.Commit) {
		return err
	}
	s.announce(ctx, d)
	s.fastReset(ctx, d)
	return nil
}

// readEvent reads the body, proves its signature, and only then parses it (RG-020, RG-023).
func (s *Server) readEvent(w http.ResponseWriter, r *http.Request, d *delivery) (ghclient.Event, error) {
	body, release, err := s.limits.readBody(w, r)
	defer release()
	if err != nil {
		return ghclient.Event{}, err
	}
	s.metrics.bodyBytes.Observe(float64(len(body)))
	if err := ghclient.VerifySignature(s.secrets, d.sign, body); err != nil {
		return ghclient.Event{}, err
	}
	event, err := ghclient.DecodeEvent(d.event, body, s.self, s.cfg.OrgRepository, s.cfg.PolicyPaths)
	d.action = event.Action
	if err != nil {
		return d.forgive(event, err)
	}
	return event, storable(event)
}
