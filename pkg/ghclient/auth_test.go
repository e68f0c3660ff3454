package ghclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

func TestGraphQLURL(t *testing.T) {
	t.Parallel()
	for rest, want := range map[string]string{
		"https://api.github.com":             "https://api.github.com/graphql",
		"https://api.github.com/":            "https://api.github.com/graphql",
		"https://api.octo-org.ghe.com/":      "https://api.octo-org.ghe.com/graphql",
		"https://github.example/api/v3":      "https://github.example/api/graphql",
		"https://github.example/git/api/v3/": "https://github.example/git/api/graphql",
		"http://127.0.0.1:8080":              "http://127.0.0.1:8080/graphql",
	} {
		if _, got, err := apiURLs(rest, ""); err != nil || got != want {
			t.Errorf("%s: got %s, %v", rest, got, err)
		}
	}
}

func TestTestsSendToLoopbackOnly(t *testing.T) {
	t.Parallel()
	sent := false
	app, err := NewApp(Config{APIURL: "https://api.github.com/", AppID: 7, PrivateKey: testKeyPEM()}, Options{HTTP: roundTripper(func(*http.Request) (*http.Response, error) {
		sent = true
		return nil, errors.New("sent")
	})})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := app.Identity(t.Context()); err == nil || sent || !strings.Contains(err.Error(), "loopback") {
		t.Errorf("got %v, sent %v", err, sent)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestIdentity(t *testing.T) {
	t.Parallel()
	s := newScript(t)
	s.mux.HandleFunc("GET /app", func(w http.ResponseWriter, r *http.Request) {
		claims := jwt.RegisteredClaims{}
		bearer, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		key, _ := jwt.ParseRSAPrivateKeyFromPEM([]byte(testKeyPEM()))
		_, err := jwt.ParseWithClaims(bearer, &claims, func(*jwt.Token) (any, error) { return &key.PublicKey, nil }, jwt.WithValidMethods([]string{"RS256"}))
		life := claims.ExpiresAt.Sub(claims.IssuedAt.Time)
		if err != nil || claims.Issuer != "7" || life > 10*time.Minute || time.Until(claims.IssuedAt.Time) > -30*time.Second {
			write(w, 401, `{"message":"A JSON web token could not be decoded"}`)
			return
		}
		if r.Header.Get("X-GitHub-Api-Version") != "2022-11-28" {
			write(w, 400, `{"message":"version"}`)
			return
		}
		write(w, 200, `{"id":7,"slug":"countersign","name":"Countersign","permissions":{"checks":"write"},"events":["pull_request"]}`)
	})
	got, err := s.app().Identity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := AppIdentity{ID: 7, Slug: "countersign", Name: "Countersign", Permissions: map[string]string{"checks": "write"}, Events: []string{"pull_request"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	_, err = s.app(func(c *Config, _ *Options) { c.AppID = 8 }).Identity(t.Context())
	if !errors.Is(err, ErrUnauthorized) {
		t.Errorf("another App id: got %v", err)
	}
}

// tokenServer exchanges tokens and answers GET /repos/acme/shop only to the newest of them.
type tokenServer struct {
	*script
	exchanges atomic.Int64
	life      time.Duration
	text      func(n int64) string
	revoked   atomic.Int64 // tokens up to this number are refused
	bodies    sync.Map
}

func newTokenServer(t *testing.T) *tokenServer {
	s := &tokenServer{script: newScript(t), life: time.Hour, text: func(n int64) string { return fmt.Sprintf("ghs_%d", n) }}
	s.mux.HandleFunc("POST /app/installations/11/access_tokens", func(w http.ResponseWriter, r *http.Request) {
		n := s.exchanges.Add(1)
		body, _ := io.ReadAll(r.Body)
		s.bodies.Store(n, string(body))
		write(w, 201, tokenBody(s.text(n), time.Now().Add(s.life), EvaluatorPermissions))
	})
	s.mux.HandleFunc("GET /repos/acme/shop", func(w http.ResponseWriter, r *http.Request) {
		var n int64
		for i := int64(1); i <= s.exchanges.Load(); i++ {
			if r.Header.Get("Authorization") == "Bearer "+s.text(i) {
				n = i
			}
		}
		if n <= s.revoked.Load() {
			// What is counted is the address's budget, of 60 an hour; here it is used up.
			write(w, 401, `{"message":"Bad credentials"}`, "X-RateLimit-Limit: 60", "X-RateLimit-Remaining: 0",
				"X-RateLimit-Resource: core", "X-RateLimit-Reset: "+unix(time.Now().Add(time.Hour)))
			return
		}
		write(w, 200, repositoryJSON(101, "shop"))
	})
	return s
}

func TestInstallationToken(t *testing.T) {
	t.Parallel()
	t.Run("RG-244 is narrowed to exactly what the service may do", func(t *testing.T) {
		t.Parallel()
		s := newTokenServer(t)
		if _, err := s.app().Client(testInst, EvaluatorPermissions).Repository(t.Context(), acme); err != nil {
			t.Fatal(err)
		}
		body, _ := s.bodies.Load(int64(1))
		var asked struct{ Permissions map[string]string }
		if err := json.Unmarshal([]byte(body.(string)), &asked); err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"checks": "write", "contents": "read", "members": "read", "pull_requests": "read"}
		if diff := cmp.Diff(want, asked.Permissions); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("RG-245 is cached, apart for other permissions", func(t *testing.T) {
		t.Parallel()
		s := newTokenServer(t)
		app := s.app()
		for range 3 {
			if _, err := app.Client(testInst, EvaluatorPermissions).Repository(t.Context(), acme); err != nil {
				t.Fatal(err)
			}
		}
		if n := s.exchanges.Load(); n != 1 {
			t.Errorf("%d exchanges", n)
		}
		if _, err := app.Client(testInst, FanoutPermissions).Repository(t.Context(), acme); err != nil {
			t.Fatal(err)
		}
		if n := s.exchanges.Load(); n != 2 {
			t.Errorf("%d exchanges after another set of permissions", n)
		}
	})
	t.Run("RG-245 is renewed when less than five minutes are left", func(t *testing.T) {
		t.Parallel()
		for life, want := range map[time.Duration]int64{4*time.Minute + 50*time.Second: 2, 6 * time.Minute: 1} {
			s := newTokenServer(t)
			s.life = life
			client := s.app().Client(testInst, EvaluatorPermissions)
			for range 2 {
				if _, err := client.Repository(t.Context(), acme); err != nil {
					t.Fatal(err)
				}
			}
			if n := s.exchanges.Load(); n != want {
				t.Errorf("life %s: %d exchanges, want %d", life, n, want)
			}
		}
	})
	t.Run("RG-245 concurrent requests share one exchange", func(t *testing.T) {
		t.Parallel()
		s := newTokenServer(t)
		app := s.app()
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if _, err := app.tokens.get(t.Context(), testInst, EvaluatorPermissions); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if n := s.exchanges.Load(); n != 1 {
			t.Errorf("%d exchanges", n)
		}
	})
	t.Run("RG-245 a 401 evicts the token and retries once", func(t *testing.T) {
		t.Parallel()
		s := newTokenServer(t)
		client := s.app().Client(testInst, EvaluatorPermissions)
		s.revoked.Store(1)
		if _, err := client.Repository(t.Context(), acme); err != nil {
			t.Fatal(err)
		}
		if n := s.exchanges.Load(); n != 2 {
			t.Errorf("%d exchanges", n)
		}
		s.revoked.Store(1000)
		before := s.seen("GET /repos/acme/shop")
		if _, err := client.Repository(t.Context(), acme); !errors.Is(err, ErrUnauthorized) {
			t.Errorf("got %v", err)
		}
		if n := s.seen("GET /repos/acme/shop") - before; n != 2 {
			t.Errorf("%d requests for one that is refused twice", n)
		}
		s.revoked.Store(0)
		if _, err := client.Repository(t.Context(), acme); err != nil {
			t.Errorf("the budget of whoever has no token was taken for the installation's: %v", err)
		}
	})
	t.Run("RG-422 the deadline covers the exchange and the retry", func(t *testing.T) {
		t.Parallel()
		s := newScript(t)
		release := make(chan struct{})
		s.mux.HandleFunc("POST /app/installations/11/access_tokens", func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-release:
			case <-r.Context().Done():
			}
		})
		defer close(release)
		client := s.app(func(c *Config, _ *Options) { c.RequestTimeout = 50 * time.Millisecond }).Client(testInst, EvaluatorPermissions)
		if _, err := client.Repository(t.Context(), acme); !errors.Is(err, ErrUnavailable) {
			t.Errorf("a read: got %v", err)
		}
		_, err := client.CreateRun(t.Context(), acme, RunSpec{Name: "x", HeadSHA: shaA, Status: "in_progress"})
		if !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrUnknownOutcome) {
			t.Errorf("a write that was never sent: got %v", err)
		}
	})
	t.Run("a token of the long form", func(t *testing.T) {
		t.Parallel()
		s := newTokenServer(t)
		long := "ghs_7_eyJhbGciOiJSUzI1NiJ9." + strings.Repeat("a", 3000) + ".sig"
		s.text = func(int64) string { return long }
		if _, err := s.app().Client(testInst, EvaluatorPermissions).Repository(t.Context(), acme); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("an account without members to grant", func(t *testing.T) {
		t.Parallel()
		s := newScript(t)
		s.mux.HandleFunc("POST /app/installations/11/access_tokens", func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			if strings.Contains(string(body), "members") {
				write(w, 422, `{"message":"The permissions requested are not granted to this installation."}`)
				return
			}
			write(w, 201, tokenBody("ghs_a", time.Now().Add(time.Hour), EvaluatorPermissions.without("members")))
		})
		s.answers("GET /repos/acme/shop", 200, repositoryJSON(101, "shop"))
		if _, err := s.app().Client(testInst, EvaluatorPermissions).Repository(t.Context(), acme); err != nil {
			t.Error(err)
		}
		if _, err := s.app().Client(testInst, Permissions{"members": "read"}).Repository(t.Context(), acme); err == nil {
			t.Error("a token with nothing that was asked for was taken")
		}
	})
	t.Run("an outage during the early renewal doesn't matter", func(t *testing.T) {
		t.Parallel()
		s := newScript(t)
		exchanges := 0
		s.mux.HandleFunc("POST /app/installations/11/access_tokens", func(w http.ResponseWriter, _ *http.Request) {
			if exchanges++; exchanges > 1 {
				write(w, 502, "<html>")
				return
			}
			write(w, 201, tokenBody("ghs_a", time.Now().Add(4*time.Minute), EvaluatorPermissions))
		})
		s.answers("GET /repos/acme/shop", 200, repositoryJSON(101, "shop"))
		client := s.app().Client(testInst, EvaluatorPermissions)
		for range 2 {
			if _, err := client.Repository(t.Context(), acme); err != nil {
				t.Error(err)
			}
		}
	})
	for _, tt := range []struct {
		name   string
		status int
		body   string
		want   error
	}{
		{"an unknown installation", 404, `{"message":"Not Found"}`, ErrInstallationGone},
		{"a suspended one", 403, `{"message":"This installation has been suspended","status":"403"}`, ErrSuspended},
		{"permissions that were not granted", 422, `{"message":"The permissions requested are not granted to this installation."}`, ErrForbidden},
		{"a bad key", 401, `{"message":"A JSON web token could not be decoded"}`, ErrUnauthorized},
		{"a limit", 429, `{"message":"x"}`, ErrRateLimited},
		{"an outage", 502, `<html>`, ErrUnavailable},
		{"no token", 201, `{"expires_at":"2099-01-01T00:00:00Z"}`, ErrMalformed},
		{"a token with a line break", 201, tokenBody("ghs_a\nb", time.Now().Add(time.Hour), EvaluatorPermissions), ErrMalformed},
		{"an expired token", 201, tokenBody("ghs_a", time.Now().Add(-time.Hour), EvaluatorPermissions), ErrMalformed},
		{"less than was asked for", 201, tokenBody("ghs_a", time.Now().Add(time.Hour), FanoutPermissions), ErrMalformed},
		{"cut short", 201, `{"token":"ghs_a`, ErrMalformed},
	} {
		t.Run("exchange: "+tt.name, func(t *testing.T) {
			t.Parallel()
			s := newScript(t)
			s.answers("POST /app/installations/11/access_tokens", tt.status, tt.body)
			_, err := s.app().Client(testInst, EvaluatorPermissions).Repository(t.Context(), acme)
			for _, sentinel := range sentinels {
				if errors.Is(err, sentinel) != errors.Is(tt.want, sentinel) {
					t.Errorf("%v: Is(%v) = %v", err, sentinel, errors.Is(err, sentinel))
				}
			}
			if n := s.seen("GET"); n != 0 {
				t.Errorf("%d requests without a token", n)
			}
		})
	}
}

// TestRG243_NoSecretIsEmitted plants recognisable secrets and looks for them in everything the package gives out: logs, errors, metrics.
func TestRG243_NoSecretIsEmitted(t *testing.T) {
	t.Parallel()
	t.Run("RG-243 token and key are in no log, error or metric", func(t *testing.T) {
		t.Parallel()
		const planted = "ghs_PLANTED0SECRET0TOKEN0000000000000000"
		var logs bytes.Buffer
		registry := prometheus.NewRegistry()
		s := newScript(t)
		s.answers("POST /app/installations/11/access_tokens", 201, tokenBody(planted, time.Now().Add(time.Hour), EvaluatorPermissions))
		status := 0
		s.mux.HandleFunc("GET /repos/acme/shop", func(w http.ResponseWriter, r *http.Request) {
			// The worst GitHub could do: send our own credential back.
			write(w, status, fmt.Sprintf(`{"message":%q,"errors":[%q]}`, "refused "+r.Header.Get("Authorization"), r.Header.Get("Authorization")))
		})
		clock := &memoryBudget{now: time.Now, fail: nil}
		app := s.app(func(_ *Config, o *Options) {
			o.Log = slog.New(slog.NewJSONHandler(&logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
			o.Metrics, o.Budget = registry, clock
		})
		var texts []string
		for _, status = range []int{200, 301, 400, 401, 403, 404, 409, 422, 500, 502, 429} {
			_, err := app.Client(testInst, EvaluatorPermissions).Repository(t.Context(), acme)
			if err == nil {
				t.Fatalf("%d: no error", status)
			}
			texts = append(texts, err.Error(), fmt.Sprintf("%+v %#v", err, err))
		}
		families, err := registry.Gather()
		if err != nil || len(families) == 0 {
			t.Fatal(families, err)
		}
		texts = append(texts, logs.String(), fmt.Sprint(families), fmt.Sprint(clock.pauses))
		key := strings.Split(testKeyPEM(), "\n")[1]
		for _, text := range texts {
			if strings.Contains(text, planted) || strings.Contains(text, key) || strings.Contains(text, "PLANTED") {
				t.Errorf("a secret in %q", text)
			}
		}
		if logs.Len() == 0 {
			t.Error("nothing was logged, so nothing was shown")
		}
	})
}

func TestCancelledCaller(t *testing.T) {
	t.Parallel()
	s := newScript(t)
	arrived := make(chan struct{}, 2)
	hang := func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		arrived <- struct{}{}
		<-r.Context().Done()
	}
	s.mux.HandleFunc("GET /repos/acme/shop", hang)
	s.mux.HandleFunc("POST /repos/acme/shop/check-runs", hang)
	client := s.client()
	for _, tt := range []struct {
		name string
		call func(context.Context) error
		want []error
		not  error
	}{
		{"a read returns the context's error", func(ctx context.Context) error { _, err := client.Repository(ctx, acme); return err }, []error{context.Canceled}, ErrUnknownOutcome},
		{"a write that was sent has an unknown outcome", func(ctx context.Context) error {
			_, err := client.CreateRun(ctx, acme, RunSpec{Name: "x", HeadSHA: shaA, Status: "in_progress"})
			return err
		}, []error{ErrUnknownOutcome, context.Canceled}, ErrUnavailable},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- tt.call(ctx) }()
		<-arrived
		cancel()
		err := <-done
		for _, want := range tt.want {
			if !errors.Is(err, want) {
				t.Errorf("%s: got %v", tt.name, err)
			}
		}
		if errors.Is(err, tt.not) {
			t.Errorf("%s: got %v", tt.name, err)
		}
	}
}
