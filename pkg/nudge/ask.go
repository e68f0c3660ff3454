package nudge

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/proto"

	nudgev1 "github.com/countersign/countersign/proto/nudge/v1"
)

const (
	// askAtMost bounds a request whose ctx has no deadline, and one reset (RG-139: 8 s at most).
	askAtMost = 8 * time.Second
	// askGroup is the queue group: one invalidator gets each request.
	askGroup = "invalidator"
)

// AskInvalidate asks one invalidator to reset a head now and waits for its
// answer until ctx's deadline, or eight seconds without one. Call it after the
// commit of the row q names. It may run twice for one delivery: the generation
// fences the second.
//
// ErrUnavailable: NATS is down. ErrNoResponder: no invalidator listens. Both
// return at once. context.DeadlineExceeded: no answer in time; the invalidator may
// still do it. Whatever the error, the durable pass does the work.
func (b *Bus) AskInvalidate(ctx context.Context, q InvalidateRequest) (InvalidateReply, error) {
	reply, err := b.ask(ctx, q)
	if b != nil {
		b.metrics.asked.WithLabelValues(askResult(reply, err)).Inc()
	}
	if err != nil {
		return InvalidateReply{}, fmt.Errorf("ask for the reset of a head: %w", err)
	}
	return reply, nil
}

func (b *Bus) ask(ctx context.Context, q InvalidateRequest) (InvalidateReply, error) {
	nc, _ := b.conn()
	if nc == nil || !nc.IsConnected() {
		return InvalidateReply{}, ErrUnavailable
	}
	ctx, cancel := context.WithTimeout(ctx, askAtMost)
	defer cancel()
	ctx, span := b.tracer.Start(ctx, "nudge ask invalidate", trace.WithSpanKind(trace.SpanKindClient))
	defer span.End()
	if q.Traceparent == "" {
		q.Traceparent = traceparent(ctx)
	}
	data, err := proto.Marshal(&nudgev1.InvalidateRequest{
		DeliveryId:     q.DeliveryID,
		InstallationId: q.InstallationID,
		RepositoryId:   q.RepositoryID,
		PullNumber:     int64(q.PullNumber),
		HeadSha:        q.HeadSHA,
		HeadGeneration: q.HeadGeneration,
		Traceparent:    q.Traceparent,
	})
	if err != nil {
		return InvalidateReply{}, fmt.Errorf("encode: %w", err)
	}
	msg, err := nc.RequestWithContext(ctx, askInvalidate, data)
	if err != nil {
		span.SetStatus(codes.Error, "no answer")
		return InvalidateReply{}, askError(err)
	}
	var m nudgev1.InvalidateReply
	if err := proto.Unmarshal(msg.Data, &m); err != nil {
		return InvalidateReply{}, fmt.Errorf("decode the answer: %w", err)
	}
	return InvalidateReply{Outcome: outcomeOf(m.GetOutcome()), QueuedLiveHead: m.GetQueuedLiveHead()}, nil
}

func askError(err error) error {
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return ErrNoResponder
	case errors.Is(err, nats.ErrConnectionClosed), errors.Is(err, nats.ErrDisconnected),
		errors.Is(err, nats.ErrReconnectBufExceeded), errors.Is(err, nats.ErrConnectionReconnecting):
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return err
}

func askResult(reply InvalidateReply, err error) string {
	switch {
	case err == nil:
		return reply.Outcome.String()
	case errors.Is(err, ErrUnavailable):
		return "unavailable"
	case errors.Is(err, ErrNoResponder):
		return "no_responder"
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case errors.Is(err, context.Canceled):
		return "cancelled"
	default:
		return "error"
	}
}

var wireOutcomes = map[Outcome]nudgev1.InvalidateOutcome{
	OutcomeFailed:      nudgev1.InvalidateOutcome_INVALIDATE_OUTCOME_FAILED,
	OutcomeReset:       nudgev1.InvalidateOutcome_INVALIDATE_OUTCOME_RESET,
	OutcomeNothing:     nudgev1.InvalidateOutcome_INVALIDATE_OUTCOME_NOTHING,
	OutcomeSuperseded:  nudgev1.InvalidateOutcome_INVALIDATE_OUTCOME_SUPERSEDED,
	OutcomeRateLimited: nudgev1.InvalidateOutcome_INVALIDATE_OUTCOME_RATE_LIMITED,
}

// outcomeOf reads an answer; one that this version does not know claims nothing.
func outcomeOf(o nudgev1.InvalidateOutcome) Outcome {
	for ours, wire := range wireOutcomes {
		if wire == o {
			return ours
		}
	}
	return OutcomeFailed
}

// ServeInvalidate answers requests with reset, at most concurrency at once, each
// within eight seconds, as one of the queue group. It needs no connection: it
// starts answering when NATS is there. An error or a panic of reset is answered
// OutcomeFailed, and so is a request for which there is no room.
//
// stop answers nothing new, waits for the resets that run and is idempotent; it
// is called by itself when ctx ends, which does not cancel a running reset. Call
// it before Close. A nil Bus serves nothing.
func (b *Bus) ServeInvalidate(ctx context.Context, concurrency int, reset func(context.Context, InvalidateRequest) (InvalidateReply, error)) (stop func(), err error) {
	if reset == nil || concurrency < 1 {
		return nil, errors.New("serve invalidate: a handler and a concurrency above zero are required")
	}
	if b == nil {
		return func() {}, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	s := &server{bus: b, reset: reset, queue: make(chan *nats.Msg, 4*concurrency)}
	var wg sync.WaitGroup
	wg.Go(func() { s.subscribe(ctx) })
	for range concurrency {
		wg.Go(func() { s.work(ctx) })
	}
	return func() {
		cancel()
		wg.Wait()
	}, nil
}

// server is one ServeInvalidate.
type server struct {
	bus   *Bus
	reset func(context.Context, InvalidateRequest) (InvalidateReply, error)
	// queue holds the requests that wait for a worker. The subscription never
	// blocks on it: a full queue is answered at once, and ingress goes on.
	queue chan *nats.Msg
}

// subscribe is subscribed from the first connection until ctx ends.
func (s *server) subscribe(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-s.bus.ctx.Done():
		return
	case <-s.bus.dialled:
	}
	sub, err := s.bus.nc.QueueSubscribe(askInvalidate, askGroup, func(msg *nats.Msg) {
		select {
		case s.queue <- msg:
		default:
			s.respond(msg, InvalidateReply{}, "busy")
		}
	})
	if err != nil {
		s.bus.log.Error("the fast path is not served", "err", err)
		return
	}
	<-ctx.Done()
	if err := sub.Unsubscribe(); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
		s.bus.log.Warn("unsubscribe from the fast path failed", "err", err)
	}
}

func (s *server) work(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			s.refuseQueued()
			return
		case msg := <-s.queue:
			s.handle(ctx, msg)
		}
	}
}

// refuseQueued answers what nobody will work any more, so that ingress need not wait for its deadline.
func (s *server) refuseQueued() {
	for {
		select {
		case msg := <-s.queue:
			s.respond(msg, InvalidateReply{}, "stopping")
		default:
			return
		}
	}
}

func (s *server) handle(ctx context.Context, msg *nats.Msg) {
	var m nudgev1.InvalidateRequest
	if err := proto.Unmarshal(msg.Data, &m); err != nil {
		s.bus.log.Warn("unreadable fast-path request", "err", err)
		s.respond(msg, InvalidateReply{}, "unreadable")
		return
	}
	q := InvalidateRequest{
		DeliveryID:     m.GetDeliveryId(),
		InstallationID: m.GetInstallationId(),
		RepositoryID:   m.GetRepositoryId(),
		PullNumber:     int(m.GetPullNumber()),
		HeadSHA:        m.GetHeadSha(),
		HeadGeneration: m.GetHeadGeneration(),
		Traceparent:    m.GetTraceparent(),
	}
	ctx, cancel := context.WithTimeout(withTraceparent(context.WithoutCancel(ctx), q.Traceparent), askAtMost)
	defer cancel()
	ctx, span := s.bus.tracer.Start(ctx, "nudge serve invalidate", trace.WithSpanKind(trace.SpanKindServer))
	defer span.End()
	reply, err := s.call(ctx, q)
	if err != nil {
		span.SetStatus(codes.Error, "reset failed")
		s.bus.log.Warn("fast reset failed", "delivery_id", q.DeliveryID, "head_sha", q.HeadSHA, "generation", q.HeadGeneration, "err", err)
		// An error and an answer never travel together.
		reply = InvalidateReply{Outcome: OutcomeFailed}
	}
	s.respond(msg, reply, reply.Outcome.String())
}

func (s *server) call(ctx context.Context, q InvalidateRequest) (reply InvalidateReply, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic in fast reset: %v", p)
			s.bus.log.Error("fast reset panicked", "err", err, "stack", string(debug.Stack()))
		}
	}()
	return s.reset(ctx, q)
}

func (s *server) respond(msg *nats.Msg, reply InvalidateReply, result string) {
	s.bus.metrics.served.WithLabelValues(result).Inc()
	data, err := proto.Marshal(&nudgev1.InvalidateReply{Outcome: wireOutcomes[reply.Outcome], QueuedLiveHead: reply.QueuedLiveHead})
	if err == nil {
		err = msg.Respond(data)
	}
	if err != nil {
		s.bus.log.Debug("fast-path answer not sent", "err", err)
	}
}
