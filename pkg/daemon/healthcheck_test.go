package daemon

import (
	"context"
	"net"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestHealthcheck runs `SERVICE healthcheck` beside a service, as a container engine does.
func TestHealthcheck(t *testing.T) {
	var lc net.ListenConfig
	ln, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	ask := func(listen string) (int, string) {
		out := &output{}
		code := start(process{args: []string{"healthcheck"}, environ: []string{"COUNTERSIGN_OPERATOR_LISTEN=" + listen, dbURL}, stdout: out, stderr: out}, "evaluator",
			func(context.Context, *Runtime, example) error { t.Error("a service was started"); return nil })
		return code, out.String()
	}
	t.Run("an address that is none", func(t *testing.T) {
		if code, out := ask("9090"); code != ExitUsage || !strings.Contains(out, "host:port") {
			t.Errorf("exit %d: %s", code, out)
		}
	})
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	t.Run("nothing listens", func(t *testing.T) {
		if code, out := ask("127.0.0.1:" + port); code != ExitFailed {
			t.Errorf("exit %d: %s", code, out)
		}
	})

	// A service on every interface, as in a container: asked on this machine.
	signals := make(chan os.Signal, 2)
	missing := make(chan error, 1)
	code, log, _ := begin(t, []string{"--operator-listen=0.0.0.0:" + port}, signals, func(ctx context.Context, rt *Runtime, _ example) error {
		rt.Health.Require("database", func(context.Context) error {
			select {
			case err := <-missing:
				return err
			default:
				return nil
			}
		})
		<-ctx.Done()
		return nil
	})
	t.Run("ready", func(t *testing.T) {
		var last string
		eventually(t, "the health check says ready", func() bool {
			got, out := ask(":" + port)
			last = out
			return got == ExitClean
		})
		if !strings.Contains(last, `"status":"ready"`) {
			t.Errorf("it prints %s", last)
		}
	})
	t.Run("not ready, naming what is missing", func(t *testing.T) {
		missing <- context.DeadlineExceeded
		if got, out := ask("0.0.0.0:" + port); got != ExitFailed || !strings.Contains(out, "database") {
			t.Errorf("exit %d: %s", got, out)
		}
	})
	signals <- syscall.SIGTERM
	if got := <-code; got != ExitClean {
		t.Errorf("exit %d:\n%s", got, log)
	}
}

func TestCheckHealthEndsWithItsContext(t *testing.T) {
	t.Parallel()
	hung := httptest.NewUnstartedServer(nil) // accepts and never answers
	defer hung.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, _, err := CheckHealth(ctx, hung.Listener.Addr().String()); err == nil {
		t.Error("an answer came from nobody")
	}
}
