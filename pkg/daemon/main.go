package daemon

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"syscall"
	"time"

	"go.opentelemetry.io/otel"
)

// The exit codes of every process.
const (
	// ExitClean: the work ended, or the process was told to stop and drained in time.
	ExitClean = 0
	// ExitFailed: the service failed, did not drain within its grace, or was told twice to stop.
	ExitFailed = 1
	// ExitUsage: the configuration was refused; nothing was started.
	ExitUsage = 2
)

// Main runs one service and exits. run is called with a loaded configuration
// and with the operator address already serving; it returns when its work ended
// or when ctx ended and it has drained.
//
// SIGTERM or SIGINT ends ctx and makes the service not ready; run then has
// COUNTERSIGN_SHUTDOWN_GRACE to return. A second signal exits at once.
//
// Called as `SERVICE healthcheck`, it asks the process that already runs here whether it is ready, and exits 0 or 1.
func Main[C any](service string, run func(ctx context.Context, rt *Runtime, cfg C) error) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	os.Exit(start(process{os.Args[1:], os.Environ(), os.Stdout, os.Stderr, signals}, service, run))
}

// process is what Main takes from the operating system.
type process struct {
	args, environ  []string
	stdout, stderr io.Writer
	signals        <-chan os.Signal
}

// start is Main without the exit. After ExitFailed run may still be running.
func start[C any](p process, service string, run func(context.Context, *Runtime, C) error) int {
	var all struct {
		Daemon  Config
		Service C
	}
	if len(p.args) > 0 && p.args[0] == healthcheckArg {
		return healthcheck(p)
	}
	if slices.Contains(p.args, "--version") || slices.Contains(p.args, "-version") {
		v := CurrentVersion()
		fmt.Fprintf(p.stdout, "%s %s %s %s\n", service, v.Version, v.Revision, v.Go)
		return ExitClean
	}
	err := load(&all, LoadOptions{}, p.args, p.environ)
	switch {
	case errors.Is(err, flag.ErrHelp):
		if err := writeUsage(p.stdout, service, all); err != nil {
			fmt.Fprintln(p.stderr, err)
			return ExitFailed
		}
		return ExitClean
	case err != nil:
		fmt.Fprintf(p.stderr, "%s: the configuration is refused:\n%s\n", service, err)
		return ExitUsage
	}

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	rt, err := NewRuntime(ctx, RuntimeOptions{
		Service: service, Config: all.Daemon, Secrets: SecretsOf(all), Output: p.stderr, ProcessMetrics: true,
	})
	if err != nil {
		fmt.Fprintf(p.stderr, "%s: %s\n", service, err)
		return ExitFailed
	}
	takeGlobals(rt)
	return supervise(ctx, cancel, p.signals, rt, func(ctx context.Context) error { return run(ctx, rt, all.Service) })
}

// takeGlobals points what libraries write on their own to this service's log,
// so that it is redacted too.
func takeGlobals(rt *Runtime) {
	slog.SetDefault(rt.Log)
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		rt.Log.Warn("telemetry failed", KeyErr, err)
	}))
}

// supervise runs the service beside its operator address until it ends or is
// told to stop. The operator address closes last: a drain is watched there.
func supervise(ctx context.Context, cancel context.CancelFunc, signals <-chan os.Signal, rt *Runtime, run func(context.Context) error) int {
	stopOperator, operatorEnded, err := serveOperator(ctx, cancel, rt)
	if err != nil {
		rt.Log.Error("start failed", KeyErr, fmt.Errorf("COUNTERSIGN_OPERATOR_LISTEN: %w", err))
		return ExitFailed
	}
	rt.Log.Info("starting", "version", rt.Version.Version, "revision", rt.Version.Revision)
	done := make(chan error, 1)
	go func() { done <- recovered(ctx, run) }()

	err = await(done, signals, rt, cancel)
	stopOperator()
	if errors.Is(err, errStillRunning) {
		// Nothing is waited for and nothing the work uses is closed under it: the process goes.
		rt.Log.Error("stopped before the work had ended", KeyErr, err)
		return ExitFailed
	}
	cancel()
	err = errors.Join(err, <-operatorEnded, rt.Close(context.Background()))
	if err != nil {
		rt.Log.Error("failed", KeyErr, err)
		return ExitFailed
	}
	rt.Log.Info("stopped")
	return ExitClean
}

// errStillRunning ends a process whose service did not return.
var errStillRunning = errors.New("the service has not returned")

// await returns the service's error: nil after a drain that was asked for.
func await(done <-chan error, signals <-chan os.Signal, rt *Runtime, cancel context.CancelFunc) error {
	select {
	case err := <-done:
		return err
	case s := <-signals:
		rt.Log.Info("stopping", "signal", s.String(), "grace", rt.Config.ShutdownGrace.String())
	}
	rt.Health.Stopping()
	cancel()
	grace := time.NewTimer(rt.Config.ShutdownGrace)
	defer grace.Stop()
	select {
	case err := <-done:
		if errors.Is(err, context.Canceled) {
			return nil
		}
		return err
	case s := <-signals:
		return fmt.Errorf("%w and a second %s came", errStillRunning, s)
	case <-grace.C:
		return fmt.Errorf("%w within %s", errStillRunning, rt.Config.ShutdownGrace)
	}
}

// recovered turns a panic of the service's own goroutine into its error, so
// that the exit code says "failed" and not "usage".
func recovered(ctx context.Context, run func(context.Context) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return run(ctx)
}

// serveOperator opens the operator address. When it fails later, the service is
// stopped: it would run unseen. ended yields that failure, or nil after stop.
func serveOperator(ctx context.Context, stopService context.CancelFunc, rt *Runtime) (stop context.CancelFunc, ended <-chan error, err error) {
	result := make(chan error, 1)
	if rt.Config.OperatorListen == "" {
		result <- nil
		return func() {}, result, nil
	}
	ln, err := Listen(ctx, rt.Config.OperatorListen)
	if err != nil {
		return nil, nil, err
	}
	rt.Log.Info("operator address open", "address", ln.Addr().String())
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		err := Serve(serving, ln, OperatorHandler(rt), rt.Log, time.Second)
		if serving.Err() == nil {
			stopService()
		}
		result <- err
	}()
	return stop, result, nil
}
