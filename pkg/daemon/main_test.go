package daemon

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// begin starts a service as Main does and returns its exit code when it ends.
func begin(t *testing.T, args []string, signals chan os.Signal, run func(context.Context, *Runtime, example) error) (code chan int, out, stdout *output) {
	t.Helper()
	out, stdout = &output{}, &output{}
	p := process{
		args: append([]string{"--operator-listen=127.0.0.1:0"}, args...), environ: []string{dbURL},
		stdout: stdout, stderr: out, signals: signals,
	}
	code = make(chan int, 1)
	go func() { code <- start(p, "evaluator", run) }()
	return code, out, stdout
}

// Not parallel with each other's globals: start points slog and otel at its own log.
func TestMainExits(t *testing.T) {
	untilStopped := func(ctx context.Context, _ *Runtime, _ example) error {
		<-ctx.Done()
		return ctx.Err()
	}
	for _, test := range []struct {
		name string
		args []string
		run  func(context.Context, *Runtime, example) error
		code int
		says string
	}{
		{"work that ended", nil, func(context.Context, *Runtime, example) error { return nil }, ExitClean, "stopped"},
		{"a failure", nil, func(context.Context, *Runtime, example) error { return errors.New("no such table") }, ExitFailed, "no such table"},
		{"a panic", nil, func(context.Context, *Runtime, example) error { panic("a bug") }, ExitFailed, "a bug"},
		{"a refused configuration", []string{"--poll=soon"}, untilStopped, ExitUsage, "COUNTERSIGN_POLL"},
		{"an unknown flag", []string{"--loudd"}, untilStopped, ExitUsage, "--loud?"},
		{"a base setting that cannot be", []string{"--shutdown-grace=1ms"}, untilStopped, ExitUsage, "COUNTERSIGN_SHUTDOWN_GRACE"},
		{"a log level that is none", []string{"--log-level=loud"}, untilStopped, ExitUsage, "COUNTERSIGN_LOG_LEVEL"},
		{"an endpoint that is none", []string{"--otlp-endpoint=collector:4318"}, untilStopped, ExitUsage, "COUNTERSIGN_OTLP_ENDPOINT"},
		{"an operator address that is none", []string{"--operator-listen=9090"}, untilStopped, ExitUsage, "COUNTERSIGN_OPERATOR_LISTEN"},
	} {
		t.Run(test.name, func(t *testing.T) {
			code, out, _ := begin(t, test.args, nil, test.run)
			if got := <-code; got != test.code {
				t.Errorf("exit %d, want %d", got, test.code)
			}
			if !strings.Contains(out.String(), test.says) {
				t.Errorf("%q is not in:\n%s", test.says, out)
			}
		})
	}

	t.Run("a taken operator address", func(t *testing.T) {
		var lc net.ListenConfig
		ln, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		code, out, _ := begin(t, []string{"--operator-listen=" + ln.Addr().String()}, nil, untilStopped)
		if got := <-code; got != ExitFailed || !strings.Contains(out.String(), "COUNTERSIGN_OPERATOR_LISTEN") {
			t.Errorf("exit %d: %s", got, out)
		}
	})

	t.Run("help and version print and start nothing", func(t *testing.T) {
		never := func(context.Context, *Runtime, example) error { t.Error("started"); return nil }
		code, _, stdout := begin(t, []string{"--help"}, nil, never)
		if got := <-code; got != ExitClean {
			t.Errorf("exit %d", got)
		}
		for _, want := range []string{"--operator-listen", "COUNTERSIGN_DATABASE_URL", "Default 500ms"} {
			if !strings.Contains(stdout.String(), want) {
				t.Errorf("%q is not in the help:\n%s", want, stdout)
			}
		}
		code, _, stdout = begin(t, []string{"--version"}, nil, never)
		if got := <-code; got != ExitClean || !strings.HasPrefix(stdout.String(), "evaluator ") {
			t.Errorf("exit %d: %s", got, stdout)
		}
	})
}

func TestMainStops(t *testing.T) {
	for _, s := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		t.Run("after "+s.String()+" it drains, is not ready meanwhile, and exits 0", func(t *testing.T) {
			signals := make(chan os.Signal, 2)
			running, release := make(chan *Runtime, 1), make(chan struct{})
			code, out, _ := begin(t, nil, signals, func(ctx context.Context, rt *Runtime, _ example) error {
				rt.Health.Require("database", func(context.Context) error { return nil })
				running <- rt
				<-ctx.Done()
				<-release
				return ctx.Err()
			})
			rt := <-running
			base := "http://" + operatorAddress(t, out)
			if got, body := get(t, base+"/health/ready"); got != 200 {
				t.Errorf("while running: %d %s", got, body)
			}
			signals <- s
			eventually(t, "it is not ready", func() bool { _, worst := rt.Health.Ready(t.Context()); return worst == StatusFailed })
			if got, body := get(t, base+"/health/ready"); got != 503 || !strings.Contains(body, "told to stop") {
				t.Errorf("while draining: %d %s", got, body)
			}
			if got, _ := get(t, base+"/health/live"); got != 200 {
				t.Errorf("not live while draining: %d", got)
			}
			select {
			case got := <-code:
				t.Errorf("exit %d before the drain ended", got)
			default:
			}
			close(release)
			if got := <-code; got != ExitClean {
				t.Errorf("exit %d:\n%s", got, out)
			}
		})
	}

	t.Run("work that outlasts the grace exits 1", func(t *testing.T) {
		signals := make(chan os.Signal, 2)
		signals <- syscall.SIGTERM
		release := make(chan struct{})
		begun := time.Now()
		code, out, _ := begin(t, []string{"--shutdown-grace=1s"}, signals, func(context.Context, *Runtime, example) error {
			<-release
			return nil
		})
		got := <-code
		if took := time.Since(begun); got != ExitFailed || took < time.Second || !strings.Contains(out.String(), "has not returned within 1s") {
			t.Errorf("exit %d after %s:\n%s", got, took, out)
		}
		close(release)
	})

	t.Run("a second signal exits 1 at once", func(t *testing.T) {
		signals := make(chan os.Signal, 2)
		signals <- syscall.SIGTERM
		signals <- os.Interrupt
		release := make(chan struct{})
		code, out, _ := begin(t, []string{"--shutdown-grace=10m"}, signals, func(context.Context, *Runtime, example) error {
			<-release
			return nil
		})
		if got := <-code; got != ExitFailed || !strings.Contains(out.String(), "second") {
			t.Errorf("exit %d:\n%s", got, out)
		}
		close(release)
	})

	t.Run("a failure while draining exits 1", func(t *testing.T) {
		signals := make(chan os.Signal, 2)
		signals <- syscall.SIGTERM
		code, out, _ := begin(t, nil, signals, func(ctx context.Context, _ *Runtime, _ example) error {
			<-ctx.Done()
			return errors.New("a lease was left behind")
		})
		if got := <-code; got != ExitFailed || !strings.Contains(out.String(), "a lease was left behind") {
			t.Errorf("exit %d:\n%s", got, out)
		}
	})
}

func TestRuntimeNamesItselfInEveryLine(t *testing.T) {
	t.Parallel()
	rt, out := newRuntime(t, "fanout")
	rt.Log.Info("claimed", KeyGeneration, 3)
	got := out.records(t)[0]
	if got[KeyService] != "fanout" || got[KeyReplica] != "r-1" || got[KeyGeneration] != 3.0 {
		t.Errorf("%v", got)
	}
	if rt.DrainWithin() >= rt.Config.ShutdownGrace || rt.DrainWithin() < rt.Config.ShutdownGrace/2 {
		t.Errorf("drain within %s of a grace of %s", rt.DrainWithin(), rt.Config.ShutdownGrace)
	}
	if _, err := NewRuntime(t.Context(), RuntimeOptions{}); err == nil {
		t.Error("a service without a name")
	}
}

// operatorAddress reads from the log where the operator address is.
func operatorAddress(t *testing.T, out *output) string {
	t.Helper()
	for _, r := range out.records(t) {
		if r["msg"] == "operator address open" {
			return r["address"].(string)
		}
	}
	t.Fatalf("no operator address in:\n%s", out)
	return ""
}
