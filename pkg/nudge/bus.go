package nudge

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

const (
	// dialTimeout bounds one attempt to reach one server.
	dialTimeout = 2 * time.Second
	// reconnectWait and its jitter keep a fleet from returning in one instant.
	reconnectWait   = 250 * time.Millisecond
	reconnectJitter = 500 * time.Millisecond
	// pingEvery × 2 is how long a silently dead connection goes unnoticed.
	pingEvery = 10 * time.Second
	// closeWithin bounds Close.
	closeWithin = 2 * time.Second
)

// Bus is a service's connection to NATS. It may be down at any time, and comes
// back by itself; nothing waits for it. Safe for concurrent use.
type Bus struct {
	cfg     Config
	name    string
	log     *slog.Logger
	tracer  trace.Tracer
	metrics *metrics

	// ctx ends with Close and stops the background dial.
	ctx  context.Context
	stop context.CancelFunc
	// dialled is closed when nc and js are set, which happens once.
	dialled chan struct{}
	nc      *nats.Conn
	js      jetstream.JetStream
	wg      sync.WaitGroup

	mu sync.Mutex
	// returned is closed and replaced each time the connection comes up.
	returned chan struct{}
	// complaint is why the last attempt failed, logged when it changes or after a minute.
	complaint    string
	complainedAt time.Time
}

// Connect returns a Bus at once, connected or not: NATS is dialled in the
// background, for ever. An error means that the configuration cannot work
// (a malformed URL, an unreadable CA, a seed that is none); its text holds no
// secret. A Config without a URL gives a Bus that is never connected.
//
// ctx bounds nothing but Connect itself; end the Bus with Close.
func Connect(ctx context.Context, cfg Config, o Options) (*Bus, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("connect to nats: %w", err)
	}
	if o.Name == "" {
		return nil, errors.New("connect to nats: no service name")
	}
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("connect to nats: %w", err)
	}
	b := newBus(cfg, o)
	m, err := newMetrics(o.Metrics, b)
	if err != nil {
		return nil, fmt.Errorf("connect to nats: %w", err)
	}
	b.metrics = m
	if cfg.URL == "" {
		b.log.Warn("no nats configured: work is found by polling only")
		return b, nil
	}
	opts, err := b.options()
	if err != nil {
		return nil, fmt.Errorf("connect to nats: %w", err)
	}
	b.wg.Go(func() { b.dial(opts) })
	return b, nil
}

func newBus(cfg Config, o Options) *Bus {
	b := &Bus{
		cfg: cfg, name: o.Name, log: o.Log, tracer: o.Tracer,
		dialled: make(chan struct{}), returned: make(chan struct{}),
	}
	if b.log == nil {
		b.log = slog.New(slog.DiscardHandler)
	}
	if b.tracer == nil {
		b.tracer = noop.NewTracerProvider().Tracer("")
	}
	if b.cfg.WakeTimeout <= 0 {
		b.cfg.WakeTimeout = 500 * time.Millisecond
	}
	b.ctx, b.stop = context.WithCancel(context.Background())
	return b
}

// dial opens the connection. nats.Connect itself blocks for one attempt a
// server, which is why it is not called from Connect; afterwards the library
// retries for ever.
func (b *Bus) dial(opts []nats.Option) {
	nc, err := nats.Connect(b.cfg.URL, opts...)
	if err != nil {
		// RetryOnFailedConnect leaves only misconfiguration here.
		b.log.Error("nats cannot be used: work is found by polling only", "err", err)
		return
	}
	js, err := jetstream.New(nc)
	if err != nil {
		nc.Close()
		b.log.Error("nats cannot be used: work is found by polling only", "err", err)
		return
	}
	b.nc, b.js = nc, js
	close(b.dialled)
}

func (b *Bus) options() ([]nats.Option, error) {
	opts := []nats.Option{
		nats.Name("countersign-" + b.name),
		nats.Timeout(dialTimeout),
		nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(reconnectWait),
		nats.ReconnectJitter(reconnectJitter, reconnectJitter),
		// A rejected user is mended on the server: keep asking.
		nats.IgnoreAuthErrorAbort(),
		nats.PingInterval(pingEvery),
		nats.MaxPingsOutstanding(2),
		// A wake that cannot be sent now is dropped, not kept for later: the poll is sooner.
		nats.ReconnectBufSize(-1),
		nats.CustomInboxPrefix(inboxPrefix(b.name)),
		nats.ConnectHandler(func(*nats.Conn) { b.cameUp() }),
		nats.ReconnectHandler(func(*nats.Conn) { b.cameUp() }),
		nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { b.complain(err) }),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { b.log.Warn("nats connection lost", "err", err) }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { b.log.Warn("nats reported an error", "err", err) }),
	}
	auth, err := authOption(b.cfg)
	if err != nil {
		return nil, err
	}
	if auth != nil {
		opts = append(opts, auth)
	}
	if b.cfg.CAFile != "" {
		pool, err := readCA(b.cfg.CAFile)
		if err != nil {
			return nil, err
		}
		opts = append(opts, nats.Secure(&tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}))
	}
	return opts, nil
}

// authOption proves who we are by signing the server's nonce: neither kind of
// credential is sent.
func authOption(cfg Config) (nats.Option, error) {
	switch {
	case cfg.Credentials != "":
		return nats.UserCredentialBytes([]byte(cfg.Credentials)), nil
	case cfg.NKeySeed != "":
		pair, err := nkeys.FromSeed([]byte(strings.TrimSpace(cfg.NKeySeed)))
		if err != nil {
			return nil, errors.New("COUNTERSIGN_NATS_NKEY_SEED: not an NKey seed; make one with nk -gen user")
		}
		public, err := pair.PublicKey()
		if err != nil {
			return nil, fmt.Errorf("COUNTERSIGN_NATS_NKEY_SEED: %w", err)
		}
		return nats.Nkey(public, pair.Sign), nil
	}
	return nil, nil
}

func readCA(path string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("COUNTERSIGN_NATS_CA_FILE: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("COUNTERSIGN_NATS_CA_FILE: %s holds no PEM certificate", path)
	}
	return pool, nil
}

// Validate refuses what parses and cannot work.
func (c Config) Validate() error {
	var errs []error
	for server := range strings.SplitSeq(c.URL, ",") {
		if server == "" && c.URL == "" {
			break
		}
		u, err := url.Parse(strings.TrimSpace(server))
		if err != nil || u.Host == "" || (u.Scheme != "nats" && u.Scheme != "tls") {
			// Not echoed: it may hold a password.
			errs = append(errs, errors.New("COUNTERSIGN_NATS_URL: not a nats:// or tls:// URL; write for example nats://127.0.0.1:4222"))
		}
	}
	if c.Credentials != "" && c.NKeySeed != "" {
		errs = append(errs, errors.New("COUNTERSIGN_NATS_CREDENTIALS and COUNTERSIGN_NATS_NKEY_SEED are both set; keep the one the server knows"))
	}
	if _, err := c.storage(); err != nil {
		errs = append(errs, err)
	}
	if c.WakeTimeout < 0 || c.WakeTimeout > 5*time.Second {
		errs = append(errs, fmt.Errorf("COUNTERSIGN_NATS_WAKE_TIMEOUT: %s is outside 0 to 5s; it delays every accepted webhook while NATS is slow", c.WakeTimeout))
	}
	return errors.Join(errs...)
}

func (c Config) storage() (jetstream.StorageType, error) {
	switch c.Storage {
	case "", "memory":
		return jetstream.MemoryStorage, nil
	case "file":
		return jetstream.FileStorage, nil
	}
	return 0, fmt.Errorf("COUNTERSIGN_NATS_STORAGE: %q is neither memory nor file", c.Storage)
}

// Connected reports whether NATS is reachable now. A nil Bus is not connected.
func (b *Bus) Connected() bool {
	nc, _ := b.conn()
	return nc != nil && nc.IsConnected()
}

// Check is Connected as a readiness check, to be registered as a preferred one:
// without NATS a service is slower and nothing else (I7).
func (b *Bus) Check(context.Context) error {
	if b.Connected() {
		return nil
	}
	if b == nil || b.cfg.URL == "" {
		return errors.New("COUNTERSIGN_NATS_URL is not set: work is found by polling only, the fast path is unavailable")
	}
	why := "not reached yet"
	if nc, _ := b.conn(); nc != nil && nc.LastError() != nil {
		why = nc.LastError().Error()
	}
	return fmt.Errorf("%w (%s): work is found by polling only, the fast path is unavailable", ErrUnavailable, why)
}

// conn returns the connection, or nil before the background dial has made it.
func (b *Bus) conn() (*nats.Conn, jetstream.JetStream) {
	if b == nil {
		return nil, nil
	}
	select {
	case <-b.dialled:
		return b.nc, b.js
	default:
		return nil, nil
	}
}

// cameUp tells whoever waits on up that the connection is there. The library
// calls it, for the first connection perhaps before dial has stored it.
func (b *Bus) cameUp() {
	select {
	case <-b.dialled:
	case <-b.ctx.Done():
		return
	}
	b.log.Info("nats connected")
	b.mu.Lock()
	defer b.mu.Unlock()
	b.complaint = ""
	close(b.returned)
	b.returned = make(chan struct{})
}

// complain logs why NATS cannot be reached. Attempts come several times a second.
func (b *Bus) complain(err error) {
	if err == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.complaint == err.Error() && time.Since(b.complainedAt) < time.Minute {
		return
	}
	b.complaint, b.complainedAt = err.Error(), time.Now()
	b.log.Warn("nats cannot be reached", "err", err)
}

// up returns a channel that closes the next time the connection comes up.
func (b *Bus) up() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.returned
}

// Close ends the connection, giving what was sent two seconds to leave. It is
// idempotent; a Bus that was closed is not connected. A nil Bus is closed already.
func (b *Bus) Close() {
	if b == nil {
		return
	}
	b.stop()
	b.wg.Wait()
	if nc, _ := b.conn(); nc != nil && !nc.IsClosed() {
		if nc.IsConnected() {
			if err := nc.FlushTimeout(closeWithin); err != nil {
				b.log.Debug("nats flush failed", "err", err)
			}
		}
		nc.Close()
	}
}
