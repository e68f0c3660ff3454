package ghclient

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/countersign/countersign/internal/hook"
)

// Options are the collaborators of an App. All have a working zero value.
type Options struct {
	HTTP    http.RoundTripper // nil: a transport of our own, traced
	Log     *slog.Logger
	Metrics prometheus.Registerer
	Now     func() time.Time
	Budget  BudgetStore          // nil: a pause is known to this process only
	Traces  trace.TracerProvider // makes a span of each request of the own transport; nil: none
}

// BudgetStore is the durable pause of an installation, which all replicas of all services see (RG-144, RG-145).
type BudgetStore interface {
	// PausedUntil is the time before which the installation must not be asked; the zero time if it may.
	PausedUntil(ctx context.Context, installation int64) (time.Time, error)
	// Pause extends the pause to at least d from now. It never shortens one. It may run twice.
	Pause(ctx context.Context, installation int64, d time.Duration, reason string) error
}

// App speaks to GitHub as the App and hands out clients of its installations. It is safe for concurrent use.
type App struct {
	cfg        Config
	rest       *url.URL // ends in a slash
	query      string   // GraphQL's URL
	http       http.RoundTripper
	log        *slog.Logger
	now        func() time.Time
	metrics    *metrics
	signer     *signer
	tokens     *tokens
	budgets    *budgets
	gate       *gate
	flights    *flights
	validators *validators
	hints      *hints
	lacks      lacking
}

// Client speaks to GitHub as one installation, with a token narrowed to what the service may do. It is safe for concurrent use.
type Client struct {
	app          *App
	installation int64
	perms        Permissions
}

// NewApp checks the configuration. It sends nothing.
func NewApp(cfg Config, opts Options) (*App, error) {
	cfg = cfg.withDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	rest, query, err := apiURLs(cfg.APIURL, cfg.GraphQLURL)
	if err != nil {
		return nil, err
	}
	signer, err := newSigner(cfg.AppID, cfg.PrivateKey)
	if err != nil {
		return nil, err
	}
	if opts.HTTP == nil {
		own := http.DefaultTransport.(*http.Transport).Clone()
		own.MaxIdleConnsPerHost = cfg.MaxInFlight
		if opts.Traces == nil {
			opts.Traces = noop.NewTracerProvider()
		}
		opts.HTTP = otelhttp.NewTransport(own, otelhttp.WithTracerProvider(opts.Traces),
			otelhttp.WithPropagators(propagation.NewCompositeTextMapPropagator())) // our trace ids are not GitHub's business
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.Now == nil {
		opts.Now = hook.Now
	}
	a := &App{
		cfg: cfg, rest: rest, query: query, http: opts.HTTP, log: opts.Log, now: opts.Now, signer: signer,
		metrics: newMetrics(opts.Metrics), gate: newGate(cfg.MaxInFlight),
		flights: &flights{last: map[string]*flight{}}, validators: newValidators(), hints: newHints(),
	}
	a.budgets = &budgets{store: opts.Budget, now: a.now, log: a.log, metrics: a.metrics, ledgers: map[int64]*ledger{}}
	a.budgets.expose(opts.Metrics)
	a.tokens = &tokens{app: a, held: map[string]token{}}
	return a, nil
}

// Client is the client of one installation; it costs nothing until it is used.
func (a *App) Client(installation int64, p Permissions) *Client {
	if p == nil {
		p = Permissions{} // nil would mean the App itself
	}
	return &Client{app: a, installation: installation, perms: p}
}

// Installation is the id this client speaks for.
func (c *Client) Installation() int64 { return c.installation }
