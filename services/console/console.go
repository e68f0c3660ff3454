package console

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/countersign/countersign/internal/explain"
	"github.com/countersign/countersign/internal/setup"
	"github.com/countersign/countersign/pkg/daemon"
	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/store"
)

// Run is the service: it serves pages until ctx ends, then lets the requests in flight finish, and returns nil.
func Run(ctx context.Context, rt *daemon.Runtime, cfg Config) error {
	st, err := store.Open(ctx, cfg.Store)
	if err != nil {
		return err
	}
	defer st.Close()
	if err := rt.Registry.Register(st.Metrics()); err != nil {
		return fmt.Errorf("register the metrics of the connection pools: %w", err)
	}
	rt.SetIdentity(daemon.Identity{GitHubAPIURL: cfg.GitHub.APIURL})
	rt.Health.Require("database", st.Ping)
	c, err := New(cfg, Deps{Store: st, Log: rt.Log, Metrics: rt.Registry})
	if err != nil {
		return err
	}
	listener, err := daemon.Listen(ctx, cfg.Listen)
	if err != nil {
		return fmt.Errorf("COUNTERSIGN_CONSOLE_LISTEN: %w", err)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		return rt.Task(ctx, "pages", func(ctx context.Context) error {
			stop := context.AfterFunc(ctx, c.Close) // live pages would hold the drain
			defer stop()
			return daemon.Serve(ctx, listener, c, rt.Log, rt.DrainWithin())
		})
	})
	return g.Wait()
}

// Deps are the console's collaborators. All but Store have a working zero value.
type Deps struct {
	Store   *store.Store
	Log     *slog.Logger
	Metrics prometheus.Registerer
	// Transport reaches GitHub; nil is a transport of its own.
	Transport http.RoundTripper
	Now       func() time.Time
	// LivePause is the time between two looks for a change; zero is a second.
	LivePause time.Duration
	// StandIn is the address of a GitHub stand-in that the pages say they show, "" of a real one.
	StandIn string
}

// Console serves every page. It is safe for concurrent use.
type Console struct {
	Deps
	cfg     Config
	metrics *metrics
	access  *access
	setup   http.Handler
	mux     *http.ServeMux
	web     string // GitHub's pages, without a trailing slash
	beat    pulse
	// decisions are those that were shown last; readers change nothing in them.
	decisions *lru.Cache[decisionAt, *explain.Decision]
	live      chan struct{}
	closing   chan struct{}
	stop      func()
}

// rememberedDecisions is how many decisions are kept read: tens of kilobytes each, a few megabytes for 3,000 files.
const rememberedDecisions = 128

// New wires the pages. It sends nothing.
func New(cfg Config, d Deps) (*Console, error) {
	if d.Log == nil {
		d.Log = slog.New(slog.DiscardHandler)
	}
	if d.Metrics == nil {
		d.Metrics = prometheus.NewRegistry()
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.LivePause <= 0 {
		d.LivePause = time.Second
	}
	web, err := ghclient.WebURL(cfg.GitHub.APIURL)
	if err != nil {
		return nil, err
	}
	m, err := newMetrics(d.Metrics)
	if err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	c := &Console{Deps: d, cfg: cfg, metrics: m, web: web, live: make(chan struct{}, cfg.MaxLive), closing: make(chan struct{})}
	if c.decisions, err = lru.New[decisionAt, *explain.Decision](rememberedDecisions); err != nil {
		return nil, err
	}
	if c.access, err = newAccess(cfg, d, m); err != nil {
		return nil, err
	}
	if c.setup, err = newSetup(cfg, d); err != nil {
		return nil, err
	}
	closed := make(chan struct{}, 1)
	closed <- struct{}{}
	c.stop = func() {
		select {
		case <-closed:
			close(c.closing)
		default:
		}
	}
	c.routes()
	return c, nil
}

// Close ends every live page, so that a drain is not held by them. It may run twice.
func (c *Console) Close() { c.stop() }

func newSetup(cfg Config, d Deps) (http.Handler, error) {
	base := cfg.PublicURL
	if base == "" {
		base = "http://" + cfg.Listen
	}
	return setup.New(setup.Options{
		Enabled: cfg.Setup, GitHub: ghclient.Config{APIURL: cfg.GitHub.APIURL, APIVersion: cfg.GitHub.APIVersion, RequestTimeout: cfg.GitHub.RequestTimeout},
		Path: "/setup", BaseURL: base, ConsoleURL: cfg.PublicURL, Name: "Countersign", Transport: d.Transport, Now: d.Now,
	})
}

func (c *Console) routes() {
	c.mux = http.NewServeMux()
	page := func(pattern, name string, serve func(http.ResponseWriter, *http.Request, viewer)) {
		c.mux.HandleFunc(pattern, c.metrics.counted(name, c.signedIn(serve)))
	}
	page("GET /{$}", "pulls", c.pullsPage)
	page("GET /pull/{owner}/{name}/{number}", "pull", c.pullPage)
	page("GET /pull/{owner}/{name}/{number}/decision/{id}", "decision", c.decisionPage)
	page("GET /pull/{owner}/{name}/{number}/diff", "diff", c.diffPage)
	page("GET /owners", "owners", c.ownersPage)
	page("GET /operations", "operations", c.operationsPage)
	page("GET /policy", "policy", c.policyPage)
	page("POST /policy", "policy", c.policyPage)
	page("GET /live/pulls", "live", c.livePulls)
	page("GET /live/owners", "live", c.liveOwners)
	page("GET /live/operations", "live", c.liveOperations)
	page("GET /live/pull/{owner}/{name}/{number}", "live", c.livePull)
	c.mux.HandleFunc("GET /static/{file}", c.metrics.counted("static", c.staticFile))
	c.mux.HandleFunc("GET /auth/login", c.metrics.counted("auth", c.access.login))
	c.mux.HandleFunc("GET /auth/callback", c.metrics.counted("auth", c.access.callback))
	c.mux.HandleFunc("POST /auth/logout", c.metrics.counted("auth", c.access.logout))
	c.mux.HandleFunc("/setup", c.metrics.counted("setup", c.setup.ServeHTTP))
	c.mux.HandleFunc("/setup/callback", c.metrics.counted("setup", c.setup.ServeHTTP))
	c.mux.HandleFunc("/", c.metrics.counted("other", func(w http.ResponseWriter, r *http.Request) {
		c.problem(w, r, viewer{}, http.StatusNotFound, "There is nothing here.")
	}))
}

// ServeHTTP sets what every answer carries, and refuses what no page may be asked for.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	secure(w.Header(), c.access.https)
	if c.cfg.Open && !c.local(r) {
		http.Error(w, "This console shows everything without sign-in, to this machine only: open it by a loopback address.", http.StatusForbidden)
		return
	}
	if r.Method == http.MethodPost && !sameOrigin(r) {
		http.Error(w, "This form has to be sent from the console's own page.", http.StatusForbidden)
		return
	}
	c.mux.ServeHTTP(w, r)
}

// csp lets nothing in but the console's own style, script and live updates.
const csp = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

func secure(h http.Header, https bool) {
	h.Set("Content-Security-Policy", csp)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
	h.Set("Cache-Control", "no-store")
	if https {
		h.Set("Strict-Transport-Security", "max-age=31536000")
	}
}
