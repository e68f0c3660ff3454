package ghclient

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/propagation"
)

// Config is how to reach GitHub and who we are there. Service configs embed it.
type Config struct {
	APIURL         string        `env:"COUNTERSIGN_GITHUB_API_URL" envDefault:"https://api.github.com/" desc:"REST base URL. GitHub Enterprise Server: https://HOST/api/v3/. The GraphQL URL follows from it."`
	AppID          int64         `env:"COUNTERSIGN_GITHUB_APP_ID" desc:"Numeric id of the GitHub App."`
	PrivateKey     string        `env:"COUNTERSIGN_GITHUB_PRIVATE_KEY" secret:"true" desc:"The App's RSA private key in PEM. A backslash followed by n stands for a line break."`
	APIVersion     string        `env:"COUNTERSIGN_GITHUB_API_VERSION" envDefault:"2022-11-28" desc:"Value of X-GitHub-Api-Version. 2022-11-28 and 2026-03-10 are tested."`
	RequestTimeout time.Duration `env:"COUNTERSIGN_GITHUB_REQUEST_TIMEOUT" envDefault:"20s" desc:"Wall-clock bound of one request, a token exchange and the retry after a 401 included."`
	MaxInFlight    int           `env:"COUNTERSIGN_GITHUB_MAX_IN_FLIGHT" envDefault:"32" desc:"Requests in flight at once in this process, over all installations. GitHub's own bound is 100 for an App."`
	PolicyPaths    []string      `env:"COUNTERSIGN_POLICY_PATHS" envDefault:".github/countersign.toml,.github/extra-codeowners.toml" desc:"Where a policy file is looked for, in this order. Two present files are an error of the policy."`
	OrgRepository  string        `env:"COUNTERSIGN_ORG_POLICY_REPOSITORY" envDefault:".github" desc:"Name of the repository that holds an organization's policy."`
}

// withDefaults fills what a zero Config leaves open, so that a Config built in code means the same as one read from the environment.
func (c Config) withDefaults() Config {
	if c.APIURL == "" {
		c.APIURL = "https://api.github.com/"
	}
	if c.APIVersion == "" {
		c.APIVersion = "2022-11-28"
	}
	if c.RequestTimeout <= 0 {
		c.RequestTimeout = 20 * time.Second
	}
	if c.MaxInFlight <= 0 {
		c.MaxInFlight = 32
	}
	if len(c.PolicyPaths) == 0 {
		c.PolicyPaths = []string{".github/countersign.toml", ".github/extra-codeowners.toml"}
	}
	if c.OrgRepository == "" {
		c.OrgRepository = ".github"
	}
	return c
}

// Options are the collaborators of an App. All have a working zero value.
type Options struct {
	HTTP    http.RoundTripper // nil: a transport of our own, traced
	Log     *slog.Logger
	Metrics prometheus.Registerer
	Now     func() time.Time
	Budget  BudgetStore // nil: a pause is known to this process only
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
	rest, query, err := apiURLs(cfg.APIURL)
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
		opts.HTTP = otelhttp.NewTransport(own, otelhttp.WithPropagators(propagation.NewCompositeTextMapPropagator())) // our trace ids are not GitHub's business
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	a := &App{
		cfg: cfg, rest: rest, query: query, http: opts.HTTP, log: opts.Log, now: opts.Now, signer: signer,
		metrics: newMetrics(opts.Metrics), gate: newGate(cfg.MaxInFlight),
		flights: &flights{last: map[string]*flight{}}, validators: newValidators(), hints: newHints(),
	}
	a.budgets = &budgets{store: opts.Budget, now: a.now, log: a.log, metrics: a.metrics, ledgers: map[int64]*ledger{}}
	a.tokens = &tokens{app: a, held: map[string]token{}}
	return a, nil
}

// apiURLs checks the base URL and derives GraphQL's: api.github.com/ → api.github.com/graphql, HOST/api/v3/ → HOST/api/graphql.
func apiURLs(text string) (*url.URL, string, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, "", fmt.Errorf("COUNTERSIGN_GITHUB_API_URL must be a plain URL such as https://api.github.com/ or https://HOST/api/v3/")
	}
	if u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())) {
		return nil, "", fmt.Errorf("COUNTERSIGN_GITHUB_API_URL must use https (http is allowed for a loopback address only)")
	}
	u.Path = strings.TrimSuffix(u.Path, "/") + "/"
	query := *u
	if prefix, ok := strings.CutSuffix(u.Path, "/api/v3/"); ok {
		query.Path = prefix + "/api/graphql"
	} else {
		query.Path = u.Path + "graphql"
	}
	return u, query.String(), nil
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
