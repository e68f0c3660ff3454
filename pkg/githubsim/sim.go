package githubsim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Options configures a stand-in. The zero value serves on a free loopback port.
type Options struct {
	// Listen is the TCP address to serve on; empty means 127.0.0.1 and a free
	// port. "-" opens no port: use Handler, and set PublicURL.
	Listen string
	// PublicURL is the scheme and host written into the url fields of answers
	// and into Link headers. Empty means the address served on.
	PublicURL string
	// Now is the clock of every timestamp, token expiry and rate limit. Nil
	// means time.Now. Answers carry whole seconds, as GitHub's do.
	Now func() time.Time
	// Enterprise is the GitHub Enterprise Server version to pretend, such as
	// "3.17.2"; empty pretends github.com. Its url fields begin with /api/v3, its
	// webhooks name it, and it has no rate limits unless Switches.RateLimit sets one.
	Enterprise string
	// APIVersions are the REST API versions served; nil is both that github.com
	// has, and 2022-11-28 alone with Enterprise.
	APIVersions []string
	// WithoutGraphQL removes fields from the GraphQL schema, "Type.field", as an
	// older server has not got them.
	WithoutGraphQL []string
	// DeliveryConcurrency is the number of webhooks sent at once. 0 means 1: in
	// the order of the changes. GitHub promises no order.
	DeliveryConcurrency int
	// DeliveryTimeout is how long a receiver may take; 0 means GitHub's 10 s.
	DeliveryTimeout time.Duration
	// FirstID is where ids begin; 0 is 1000. A stand-in that is started again knows nothing of its former world: with another
	// FirstID its accounts, repositories and installations are not taken for those.
	FirstID int64
	// HostURLs writes the host that a request asked for into url fields and Link headers, for a stand-in behind several fronts.
	HostURLs bool
	// Log receives one line a delivery that failed; nil discards.
	Log *slog.Logger
}

// Sim is one stand-in. All methods are safe for concurrent use.
type Sim struct {
	opts   Options
	now    func() time.Time
	log    *slog.Logger
	routes []*route
	gql    *graphqlSchema

	server   *http.Server
	listener net.Listener
	url      string

	mu       sync.Mutex // guards everything below, and all of world and objects
	world    *world
	objects  *objects
	past     []pastWorld // for ReadLag, oldest first
	reads    int64       // GET requests and GraphQL queries answered so far
	ids      int64
	bigIDs   int64
	tokens   map[string]*token
	codes    map[string]*pendingCode // one-use codes of a browser's round trip
	signer   []byte                  // key of the long token form
	switches Switches
	faults   []*Fault
	requests []Request
	budgets  map[budgetKey]*budget
	inFlight map[int64]int         // requests of an installation
	content  map[int64][]time.Time // when an installation created content, oldest first
	muted    bool                  // changes send no webhooks: see lie
	observer Observer
	moment   int64 // rises with everything that happens: see Observer

	hooks *dispatcher
}

// New starts a stand-in. It panics when the address cannot be listened on: that
// is a mistake in the test or the command line, met at start-up only.
func New(opts Options) *Sim {
	s := &Sim{
		opts:    opts,
		now:     opts.Now,
		log:     opts.Log,
		world:   newWorld(),
		objects: newObjects(),
		ids:     cmp.Or(opts.FirstID, 1000),
		bigIDs:  3_000_000_000 + opts.FirstID,
		tokens:  map[string]*token{},
		codes:   map[string]*pendingCode{},
		signer:  randomBytes(32),
		budgets: map[budgetKey]*budget{}, inFlight: map[int64]int{}, content: map[int64][]time.Time{},
	}
	if s.now == nil {
		s.now = time.Now
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.routes = routeTable()
	s.gql = mustGraphQLSchema(opts.WithoutGraphQL...)
	if s.opts.APIVersions == nil {
		s.opts.APIVersions = []string{defaultAPIVersion}
		if opts.Enterprise == "" {
			s.opts.APIVersions = append(s.opts.APIVersions, laterAPIVersion)
		}
	}
	s.hooks = newDispatcher(s)
	if err := s.listen(); err != nil {
		misuse("%v", err)
	}
	return s
}

func (s *Sim) listen() error {
	s.url = strings.TrimSuffix(s.opts.PublicURL, "/")
	if s.opts.Listen == "-" {
		s.url = cmp.Or(s.url, "http://github.invalid")
		return nil
	}
	ln, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", cmp.Or(s.opts.Listen, "127.0.0.1:0"))
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	s.listener = ln
	s.url = cmp.Or(s.url, "http://"+ln.Addr().String())
	s.server = &http.Server{Handler: s.Handler(), ReadHeaderTimeout: 10 * time.Second}
	go func() {
		if err := s.server.Serve(ln); err != nil && !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("stand-in stopped serving", "err", err)
		}
	}()
	return nil
}

// URL is the root to give to a client as API URL, without a trailing slash. The
// same server also answers under URL()+"/api/v3" and URL()+"/api/graphql", the
// paths of GitHub Enterprise Server.
func (s *Sim) URL() string { return s.url }

// Handler is the stand-in without a listener, for mounting elsewhere.
func (s *Sim) Handler() http.Handler { return http.HandlerFunc(s.serve) }

// Close stops the server and the webhook sender, dropping what is not yet sent.
// It may be called twice.
func (s *Sim) Close() {
	s.hooks.close()
	if s.server != nil {
		_ = s.server.Close()
	}
}

// Settle waits until every webhook enqueued so far was sent and answered, or
// failed. Held webhooks (HoldWebhooks) do not count.
func (s *Sim) Settle(ctx context.Context) error { return s.hooks.settle(ctx) }

// time in whole seconds, UTC: the resolution of GitHub's timestamps, which is
// why two reviews can carry the same submitted_at.
func (s *Sim) tick() time.Time { return s.now().UTC().Truncate(time.Second) }

// nextID returns a fresh id; ids rise with time, as GitHub's do. The lock is held.
func (s *Sim) nextID() int64 {
	s.ids++
	return s.ids
}

// nextBigID is for what GitHub numbers beyond 32 bits: pull requests, reviews,
// comments, check runs and deliveries. In GraphQL their databaseId is null.
func (s *Sim) nextBigID() int64 {
	s.bigIDs++
	return s.bigIDs
}

// mutate runs one change of the world under the lock, remembering what was
// before it when reads lag, and hands the webhooks it made to the sender.
func (s *Sim) mutate(change func(m *mutation) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mutateLocked(change)
}

func (s *Sim) mutateLocked(change func(m *mutation) error) error {
	s.rememberPast()
	m := &mutation{s: s, w: s.world, at: s.tick()}
	if err := change(m); err != nil {
		return err
	}
	m.observe()
	if !s.muted {
		s.hooks.enqueue(m.outbox...)
	}
	return nil
}

// mutation is one change in progress: the world, its time and the webhooks that
// it causes. It is used with the lock held only.
type mutation struct {
	s      *Sim
	w      *world
	at     time.Time
	outbox []*delivery
	wrote  *RunWrite // set where the change is the write of a check run
}

// pastWorld is the world before a write that reads do not show yet.
type pastWorld struct {
	world *world
	until int64 // number of the last read that still sees it
}

func (s *Sim) rememberPast() {
	if s.switches.ReadLag > 0 {
		s.past = append(s.past, pastWorld{world: s.world.clone(), until: s.reads + int64(s.switches.ReadLag)})
	}
}

// readWorld is the world that the next read shows: the present one, or the one
// before the oldest write that is still invisible.
func (s *Sim) readWorld() *world {
	s.reads++
	for len(s.past) > 0 && s.past[0].until < s.reads {
		s.past = s.past[1:]
	}
	if len(s.past) > 0 {
		if s.observer != nil && s.past[0].world.version != s.world.version {
			s.observer.Lagged(s.moment, s.past[0].world.version)
		}
		return s.past[0].world
	}
	return s.world
}
