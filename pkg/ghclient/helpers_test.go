package ghclient

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	testAppID = 7
	testInst  = 11
	shaA      = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	shaB      = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
)

var (
	acme       = Repo{ID: 101, Owner: "acme", Name: "shop"}
	testKeyPEM = sync.OnceValue(func() string {
		key, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			panic(err)
		}
		return string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
	})
)

// script is a GitHub of a few fixed answers, for what no state is needed for: refusals, odd headers, malformed bodies.
type script struct {
	t   *testing.T
	mux *http.ServeMux
	srv *httptest.Server

	mu    sync.Mutex
	calls []string // "METHOD path?query", in order of arrival, token exchanges included
}

func newScript(t *testing.T) *script {
	t.Helper()
	s := &script{t: t, mux: http.NewServeMux()}
	s.srv = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.calls = append(s.calls, strings.TrimSuffix(r.Method+" "+r.URL.Path+"?"+r.URL.RawQuery, "?"))
		s.mu.Unlock()
		s.mux.ServeHTTP(w, r)
	}))
	t.Cleanup(s.srv.Close)
	return s
}

// answers installs a fixed answer. header is in lines of "Name: value".
func (s *script) answers(pattern string, status int, body string, header ...string) {
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) { write(w, status, body, header...) })
}

func write(w http.ResponseWriter, status int, body string, header ...string) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		w.Header().Set(name, value)
	}
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body))
}

// tokens makes the exchange answer a token that says how many there were.
func (s *script) tokens() {
	n := 0
	s.mux.HandleFunc("POST /app/installations/{id}/access_tokens", func(w http.ResponseWriter, _ *http.Request) {
		n++
		write(w, 201, tokenBody(fmt.Sprintf("ghs_test%d", n), time.Now().Add(time.Hour), EvaluatorPermissions))
	})
}

func tokenBody(text string, expires time.Time, p Permissions) string {
	var granted []string
	for name, level := range p {
		granted = append(granted, fmt.Sprintf("%q:%q", name, level))
	}
	return fmt.Sprintf(`{"token":%q,"expires_at":%q,"permissions":{%s,"metadata":"read"},"repository_selection":"all"}`,
		text, expires.UTC().Format(time.RFC3339), strings.Join(granted, ","))
}

func (s *script) config() Config {
	return Config{APIURL: s.srv.URL, AppID: testAppID, PrivateKey: testKeyPEM(), RequestTimeout: 5 * time.Second}
}

func (s *script) app(opts ...func(*Config, *Options)) *App {
	s.t.Helper()
	cfg, o := s.config(), Options{}
	own := http.DefaultTransport.(*http.Transport).Clone()
	s.t.Cleanup(own.CloseIdleConnections)
	o.HTTP = own
	for _, opt := range opts {
		opt(&cfg, &o)
	}
	app, err := NewApp(cfg, o)
	if err != nil {
		s.t.Fatal(err)
	}
	return app
}

// client is a client of the test installation; it answers the token exchange.
func (s *script) client(opts ...func(*Config, *Options)) *Client {
	s.t.Helper()
	s.tokens()
	return s.app(opts...).Client(testInst, EvaluatorPermissions)
}

func (s *script) seen(prefix string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, c := range s.calls {
		if strings.HasPrefix(c, prefix) {
			n++
		}
	}
	return n
}

// memoryBudget is a BudgetStore that remembers what it was told.
type memoryBudget struct {
	mu     sync.Mutex
	now    func() time.Time
	until  map[int64]time.Time
	pauses []string
	fail   error
}

func (m *memoryBudget) PausedUntil(_ context.Context, installation int64) (time.Time, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.until[installation], m.fail
}

func (m *memoryBudget) Pause(_ context.Context, installation int64, d time.Duration, reason string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.until == nil {
		m.until = map[int64]time.Time{}
	}
	m.until[installation] = m.now().Add(d)
	m.pauses = append(m.pauses, fmt.Sprintf("%d %s %s", installation, d, reason))
	return m.fail
}
