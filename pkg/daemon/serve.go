package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Listen opens addr (host:port; port 0 takes a free one).
func Listen(ctx context.Context, addr string) (net.Listener, error) {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
	return ln, nil
}

// Serve answers requests on ln until ctx ends, then lets those in flight finish
// within drain and closes the rest. It returns nil after a clean drain. It
// writes no access log (RG-478): what net/http itself complains about goes to
// log at debug level. It owns ln.
func Serve(ctx context.Context, ln net.Listener, handler http.Handler, log *slog.Logger, drain time.Duration) error {
	if handler == nil {
		// net/http would serve its default mux, on which libraries put pprof and more.
		return errors.Join(fmt.Errorf("serve %s: no handler", ln.Addr()), ln.Close())
	}
	server := &http.Server{
		Handler: handler,
		// A slow sender may hold a connection, not for long.
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      90 * time.Second, // above a 30 s CPU profile
		IdleTimeout:       60 * time.Second,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		// Requests outlive ctx by the drain; a handler's ctx ends with its connection.
		BaseContext: func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(ln) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve %s: %w", ln.Addr(), err)
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	err := server.Shutdown(stop)
	if err != nil {
		err = errors.Join(fmt.Errorf("drain %s within %s: %w", ln.Addr(), drain, err), server.Close())
	}
	<-failed // http.ErrServerClosed: Serve has returned and leaks nothing.
	return err
}
