package reconciler

import (
	"context"
	"net/http"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"

	"github.com/countersign/countersign/pkg/daemon"
)

// gateKey carries the question whether a request may still begin.
type gateKey struct{}

// withGate makes every request under ctx that goes through a Gated transport ask check first. The GitHub client reads a list
// of many pages in one call; this is how nothing begins between two of its pages either (RG-420), while a request that is on
// its way is never cancelled (RG-421).
func withGate(ctx context.Context, check func() error) context.Context {
	return context.WithValue(ctx, gateKey{}, check)
}

// Gated wraps the transport that the client of a reconciler is given.
func Gated(next http.RoundTripper) http.RoundTripper { return gate{next} }

type gate struct{ next http.RoundTripper }

// RoundTrip refuses a request that may not begin any more; nothing was sent then.
func (g gate) RoundTrip(r *http.Request) (*http.Response, error) {
	if check, ok := r.Context().Value(gateKey{}).(func() error); ok {
		if err := check(); err != nil {
			return nil, err
		}
	}
	return g.next.RoundTrip(r)
}

func tracedTransport(rt *daemon.Runtime) http.RoundTripper {
	own := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // the standard library's own
	return otelhttp.NewTransport(own, otelhttp.WithTracerProvider(rt.TracerProvider), otelhttp.WithMeterProvider(rt.MeterProvider))
}
