package checkrun

import (
	"context"

	"go.opentelemetry.io/otel/trace"
)

// startSpan begins a span below the caller's, with the caller's provider: what is done for a trigger is part of its trace.
func startSpan(ctx context.Context, name string) (context.Context, trace.Span) {
	return trace.SpanFromContext(ctx).TracerProvider().Tracer("github.com/countersign/countersign/pkg/checkrun").Start(ctx, name)
}
