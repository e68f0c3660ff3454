package ingress

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/countersign/countersign/pkg/daemon"
	"github.com/countersign/countersign/pkg/nudge"
	"github.com/countersign/countersign/pkg/store"
)

// The bounds of one connection. They are tighter than the operator address's: strangers connect here.
const (
	headerTimeout = 5 * time.Second
	readTimeout   = 9 * time.Second // headers and body; GitHub has given up by then
	writeTimeout  = readTimeout + 2*answerWithin
	idleTimeout   = 60 * time.Second
	maxHeaders    = 16 << 10
)

// Run serves webhooks until ctx ends, then finishes those in flight within the grace and returns nil. It returns an error
// when the database cannot be opened (a database that was never migrated is named so, RG-442), the address is taken, or a
// request was still running at the end of the grace. NATS may be away: that degrades readiness (D15).
func Run(ctx context.Context, rt *daemon.Runtime, cfg Config) error {
	rt.SetIdentity(daemon.Identity{AppID: cfg.AppID, PolicyPath: cfg.PolicyPaths[0], OrganizationRepository: cfg.OrgRepository})
	st, err := store.Open(ctx, cfg.Store)
	if err != nil {
		return err
	}
	defer st.Close()
	if err := rt.Registry.Register(st.Metrics()); err != nil {
		return fmt.Errorf("register the metrics of the connection pools: %w", err)
	}
	bus, err := nudge.Connect(ctx, cfg.Nudge, nudge.Options{Name: "ingress", Log: rt.Log, Metrics: rt.Registry, Tracer: rt.Tracer})
	if err != nil {
		return err
	}
	defer bus.Close()
	server, err := New(Deps{Store: st, Bus: bus, Config: cfg, Log: rt.Log, Metrics: rt.Registry, Tracer: rt.Tracer})
	if err != nil {
		return err
	}
	ln := cfg.Listener
	if ln == nil {
		if ln, err = daemon.Listen(ctx, cfg.Listen); err != nil {
			return fmt.Errorf("COUNTERSIGN_INGRESS_LISTEN: %w", err)
		}
	}
	rt.Health.Require("database", st.Ping)
	rt.Health.Prefer("nats", bus.Check)
	rt.Log.Info("receiving webhooks", "address", ln.Addr().String(), "route", Route, "webhook_keys", len(server.secrets))
	return rt.Task(ctx, "webhooks", func(ctx context.Context) error {
		return serve(ctx, ln, server, rt.Log, rt.DrainWithin())
	})
}

// serve answers on ln until ctx ends, then drains. It owns ln. A request's context is not a child of ctx, so that requests
// outlive it by the drain: one whose rows are being committed is answered.
func serve(ctx context.Context, ln net.Listener, handler http.Handler, log *slog.Logger, drain time.Duration) error {
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaders,
		// net/http's own complaints are about strangers' bytes; no access log is kept (RG-478).
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(ln) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve webhooks on %s: %w", ln.Addr(), err)
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	err := server.Shutdown(stop)
	if err != nil {
		err = errors.Join(fmt.Errorf("drain webhooks within %s: %w", drain, err), server.Close())
	}
	if ended := <-failed; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	return err
}
