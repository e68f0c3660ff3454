package nudge_test

import (
	"context"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/countersign/countersign/pkg/nudge"
	"github.com/countersign/countersign/pkg/nudge/nudgetest"
)

func TestTraceContextTravels(t *testing.T) {
	t.Parallel()
	ns := nudgetest.New(t)
	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	connect := func(service string) *nudge.Bus {
		bus, err := nudge.Connect(t.Context(), ns.Config(service), nudge.Options{Name: service, Tracer: provider.Tracer(service)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(bus.Close)
		nudgetest.WaitConnected(t, bus)
		return bus
	}
	ingress, invalidator := connect("ingress"), connect("invalidator")
	handler := make(chan trace.SpanContext, 1)
	stop, err := invalidator.ServeInvalidate(t.Context(), 1, func(ctx context.Context, _ nudge.InvalidateRequest) (nudge.InvalidateReply, error) {
		select {
		case handler <- trace.SpanContextFromContext(ctx):
		default:
		}
		return nudge.InvalidateReply{Outcome: nudge.OutcomeReset}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	var table rows
	stopWork := runWork(t, nudge.Work{Bus: invalidator, Subject: nudge.Invalidate, Service: "invalidator", Poll: never, Step: table.step})
	defer stopWork()
	awaitStream(t, ingress, nudge.Invalidate)
	askUntilServed(t, ingress, nudge.InvalidateRequest{})
	<-handler

	ctx, root := provider.Tracer("test").Start(t.Context(), "webhook")
	want := root.SpanContext().TraceID()
	if err := ingress.Wake(ctx, nudge.Wake{Subject: nudge.Invalidate}); err != nil {
		t.Fatal(err)
	}
	if _, err := ingress.AskInvalidate(ctx, nudge.InvalidateRequest{}); err != nil {
		t.Fatal(err)
	}
	root.End()
	if got := (<-handler).TraceID(); got != want {
		t.Errorf("the reset ran in trace %s, want %s", got, want)
	}
	nudgetest.Eventually(t, "the receipt is a span of the webhook's trace", func() bool {
		for _, s := range spans.Ended() {
			if s.Name() == "nudge receive" && s.SpanContext().TraceID() == want && s.Parent().IsRemote() {
				return true
			}
		}
		return false
	})
}
