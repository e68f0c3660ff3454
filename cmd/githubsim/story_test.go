package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/countersign/countersign/internal/staging"
	"github.com/countersign/countersign/pkg/daemon"
)

// freeAddress is an address that nobody listened on a moment ago.
func freeAddress(t *testing.T) string {
	t.Helper()
	var lc net.ListenConfig
	ln, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	return ln.Addr().String()
}

// TestStory runs the stand-in as deploy/compose.yaml does, with the secrets that are made for it, and no Countersign.
func TestStory(t *testing.T) {
	t.Parallel()
	o := staging.Options{Given: t.TempDir(), Kept: t.TempDir(), Out: t.TempDir(), StandIn: true}
	if err := staging.Make(o); err != nil {
		t.Fatal(err)
	}
	secrets := filepath.Join(o.Out, staging.StandInHost)
	var ready atomic.Bool
	services := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !ready.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer services.Close()
	listen, operator := freeAddress(t), freeAddress(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		done <- run(ctx, []string{
			"--listen", listen, "--public-url", "https://" + listen, "--tls-cert", filepath.Join(secrets, "tls.crt"), "--tls-key", filepath.Join(secrets, "tls.key"),
			"--app-key-file", filepath.Join(secrets, staging.GivenKey), "--secret-file", filepath.Join(secrets, staging.GivenSecret),
			"--story", "--story-when", services.URL, "--story-patience", "50ms", "--operator-listen", operator,
		}, io.Discard)
	}()
	state := func() *progress {
		p := &progress{}
		response, err := http.Get("http://" + operator + "/story")
		if err != nil {
			return p
		}
		defer func() { _ = response.Body.Close() }()
		if err := json.NewDecoder(response.Body).Decode(p); err != nil {
			t.Error(err)
		}
		return p
	}
	await := func(want string) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); state().State != want; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("the story is %q, want %q", state().State, want)
			}
		}
	}

	await("waiting")
	if code, _, err := daemon.CheckHealth(ctx, operator); err != nil || code != http.StatusOK {
		t.Errorf("the health check says %d, %v", code, err)
	}
	t.Run("it serves HTTPS to those that trust its authority", func(t *testing.T) {
		authority, err := os.ReadFile(filepath.Join(o.Out, "evaluator", staging.GivenCA))
		if err != nil {
			t.Fatal(err)
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(authority)
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
		defer transport.CloseIdleConnections()
		response, err := (&http.Client{Transport: transport}).Get("https://" + listen + "/meta")
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
	})
	t.Run("the story waits for the services, and names the step that is not reached", func(t *testing.T) {
		if got := state().State; got != "waiting" {
			t.Errorf("the story is %s while no service is ready", got)
		}
		ready.Store(true)
		await("failed")
		if got := state(); !strings.Contains(got.Error, "step 1 of 9") || got.Steps != 9 || len(got.Done) != 0 {
			t.Errorf("it tells %d of %d steps: %s", len(got.Done), got.Steps, got.Error)
		}
	})
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestHealthcheckNeedsAnAddress(t *testing.T) {
	t.Parallel()
	if code := healthcheck(t.Context(), nil); code != daemon.ExitUsage {
		t.Errorf("without an address: exit %d", code)
	}
	if code := healthcheck(t.Context(), []string{freeAddress(t)}); code != daemon.ExitFailed {
		t.Errorf("where nothing listens: exit %d", code)
	}
}
