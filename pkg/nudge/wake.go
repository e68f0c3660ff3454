package nudge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	nudgev1 "github.com/countersign/countersign/proto/nudge/v1"
)

// Wake sends w, best effort: it returns within COUNTERSIGN_NATS_WAKE_TIMEOUT and
// at once when NATS is down (ErrUnavailable). Call it after the commit; an error
// is for a debug log and never for the caller's own result, because the row is
// found by polling (I7). It is not stopped by ctx: the commit stands even when
// whoever asked for it has gone. It may run twice. A nil Bus is unavailable.
func (b *Bus) Wake(ctx context.Context, w Wake) error {
	if !slices.Contains(Subjects(), w.Subject) {
		return fmt.Errorf("wake: %q is not a subject of the stream", w.Subject)
	}
	err := b.send(ctx, w)
	if b != nil {
		b.metrics.wakes.WithLabelValues(string(w.Subject), wakeResult(err)).Inc()
	}
	if err != nil {
		return fmt.Errorf("wake %s: %w", w.Subject, err)
	}
	return nil
}

func (b *Bus) send(ctx context.Context, w Wake) error {
	nc, js := b.conn()
	if nc == nil || !nc.IsConnected() {
		return ErrUnavailable
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), b.cfg.WakeTimeout)
	defer cancel()
	ctx, span := b.tracer.Start(ctx, "nudge wake", trace.WithSpanKind(trace.SpanKindProducer),
		trace.WithAttributes(attribute.String("messaging.destination.name", string(w.Subject))))
	defer span.End()
	if w.Traceparent == "" {
		w.Traceparent = traceparent(ctx)
	}
	data, err := proto.Marshal(&nudgev1.Wake{
		Subject:           string(w.Subject),
		InstallationId:    w.InstallationID,
		RepositoryId:      w.RepositoryID,
		PullNumber:        int64(w.PullNumber),
		HeadSha:           w.HeadSHA,
		AtLeastGeneration: w.AtLeastGeneration,
		Traceparent:       w.Traceparent,
		SentAt:            timestamppb.Now(),
	})
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	// One attempt: the bound is shorter than the library's pause before a second.
	_, err = js.PublishMsg(ctx, &nats.Msg{Subject: string(w.Subject), Data: data}, jetstream.WithRetryAttempts(0))
	if err != nil {
		span.SetStatus(codes.Error, wakeResult(err))
	}
	return err
}

func wakeResult(err error) string {
	switch {
	case err == nil:
		return "sent"
	case errors.Is(err, ErrUnavailable), errors.Is(err, nats.ErrConnectionClosed),
		errors.Is(err, nats.ErrReconnectBufExceeded), errors.Is(err, nats.ErrConnectionReconnecting):
		return "unavailable"
	case errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, nats.ErrNoResponders):
		// No service that consumes has started yet.
		return "no_stream"
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	default:
		return "failed"
	}
}

// readWake decodes a message of the stream. A message that is not a Wake still
// wakes: what it says is a hint.
func readWake(data []byte) (Wake, error) {
	var m nudgev1.Wake
	if err := proto.Unmarshal(data, &m); err != nil {
		return Wake{}, fmt.Errorf("decode wake: %w", err)
	}
	w := Wake{
		Subject:           Subject(m.GetSubject()),
		InstallationID:    m.GetInstallationId(),
		RepositoryID:      m.GetRepositoryId(),
		PullNumber:        int(m.GetPullNumber()),
		HeadSHA:           m.GetHeadSha(),
		AtLeastGeneration: m.GetAtLeastGeneration(),
		Traceparent:       m.GetTraceparent(),
	}
	if m.GetSentAt().IsValid() {
		w.SentAt = m.GetSentAt().AsTime()
	}
	return w, nil
}

// observe records the receipt of one message.
func (b *Bus) observe(subject Subject, data []byte, result string) {
	b.metrics.received.WithLabelValues(string(subject), result).Inc()
	w, err := readWake(data)
	if err != nil {
		b.log.Warn("unreadable wake", "subject", string(subject), "err", err)
		return
	}
	if !w.SentAt.IsZero() {
		b.metrics.delay.WithLabelValues(string(subject)).Observe(max(0, time.Since(w.SentAt).Seconds()))
	}
	_, span := b.tracer.Start(withTraceparent(context.Background(), w.Traceparent), "nudge receive",
		trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithAttributes(attribute.String("messaging.destination.name", string(subject)), attribute.String("result", result)))
	span.End()
}

// w3c carries trace context; tracestate and baggage do not travel.
var w3c = propagation.TraceContext{}

func traceparent(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	w3c.Inject(ctx, carrier)
	return carrier["traceparent"]
}

func withTraceparent(ctx context.Context, s string) context.Context {
	ctx = trace.ContextWithSpanContext(ctx, trace.SpanContext{})
	return w3c.Extract(ctx, propagation.MapCarrier{"traceparent": s})
}
