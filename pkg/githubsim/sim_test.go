package githubsim_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"go.uber.org/goleak"

	"github.com/countersign/countersign/pkg/githubsim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a small organisation with one App installed on it.
type world struct {
	t    *testing.T
	sim  *githubsim.Sim
	app  githubsim.App
	inst int64
	hook *receiver
	wire bool // requests go over a connection
}

// testKey is one key for all worlds: making one takes a while.
var testKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

const codeowners = "* @acme/core\n/docs/ @acme/docs\n"

func newWorld(t *testing.T, opts ...func(*githubsim.Options)) *world {
	t.Helper()
	var o githubsim.Options
	for _, f := range opts {
		f(&o)
	}
	w := &world{t: t, sim: githubsim.New(o), hook: newReceiver(t)}
	t.Cleanup(w.sim.Close)
	w.app = w.sim.AddApp(githubsim.App{Slug: "countersign", PrivateKey: testKey(), WebhookURL: w.hook.url, WebhookSecret: "the-secret-of-the-webhook-0123456789"})
	w.sim.AddOrg("acme", "alice", "bob", "carol")
	w.sim.AddRepo("acme", "widgets", map[string]string{
		"README.md": "# widgets\n", ".github/CODEOWNERS": codeowners, "src/main.go": "package main\n", "docs/index.md": "# docs\n",
	})
	w.sim.AddTeam(githubsim.Team{Org: "acme", Slug: "core", Repos: map[string]string{"widgets": "push"}, Members: []string{"alice", "bob"}})
	w.sim.AddTeam(githubsim.Team{Org: "acme", Slug: "docs", Repos: map[string]string{"widgets": "push"}, Members: []string{"carol"}})
	w.inst = w.sim.AddInstallation(w.app.ID, "acme")
	return w
}

const repoName = "acme/widgets"

func (w *world) pull(files map[string]string) int {
	w.t.Helper()
	if files == nil {
		files = map[string]string{"src/main.go": "package main // changed\n"}
	}
	n, err := w.sim.OpenPull(repoName, githubsim.Pull{Author: "dave", Files: files})
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}

func (w *world) do(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) settle() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 20*time.Second)
	defer cancel()
	w.do(w.sim.Settle(ctx))
}

// jwt is the App's JWT with claims changed by edit.
func (w *world) jwt(edit ...func(jwt.MapClaims)) string {
	w.t.Helper()
	now := time.Now()
	claims := jwt.MapClaims{"iss": fmt.Sprint(w.app.ID), "iat": now.Add(-time.Minute).Unix(), "exp": now.Add(5 * time.Minute).Unix()}
	for _, f := range edit {
		f(claims)
	}
	text, err := jwt.NewWithClaims(jwt.SigningMethodRS256, claims).SignedString(w.app.PrivateKey)
	w.do(err)
	return text
}

func (w *world) token() string {
	w.t.Helper()
	r := w.call("POST", fmt.Sprintf("/app/installations/%d/access_tokens", w.inst), w.jwt(), nil)
	if r.status != http.StatusCreated {
		w.t.Fatalf("mint token: %d %s", r.status, r.raw)
	}
	return r.str("token")
}

// reply is one answer of the stand-in.
type reply struct {
	t      *testing.T
	status int
	header http.Header
	raw    []byte
	err    error
}

func (r reply) obj() map[string]any {
	r.t.Helper()
	var o map[string]any
	if err := json.Unmarshal(r.raw, &o); err != nil {
		r.t.Fatalf("not an object: %v: %s", err, r.raw)
	}
	return o
}

func (r reply) list() []map[string]any {
	r.t.Helper()
	var o []map[string]any
	if err := json.Unmarshal(r.raw, &o); err != nil {
		r.t.Fatalf("not a list: %v: %s", err, r.raw)
	}
	return o
}

// at walks keys and indices into a JSON body.
func at(v any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, ok := v.(map[string]any)
			if !ok {
				return nil
			}
			v = m[p]
		case int:
			l, ok := v.([]any)
			if !ok || p >= len(l) {
				return nil
			}
			v = l[p]
		}
	}
	return v
}

func (r reply) at(path ...any) any {
	r.t.Helper()
	var v any
	if err := json.Unmarshal(r.raw, &v); err != nil {
		r.t.Fatalf("not JSON: %v: %s", err, r.raw)
	}
	return at(v, path...)
}

func (r reply) str(path ...any) string {
	r.t.Helper()
	return fmt.Sprint(r.at(path...))
}

func (r reply) id(path ...any) int64 {
	r.t.Helper()
	f, ok := r.at(path...).(float64)
	if !ok {
		r.t.Fatalf("no number at %v: %s", path, r.raw)
	}
	return int64(f)
}

func (r reply) want(status int) reply {
	r.t.Helper()
	if r.err != nil || r.status != status {
		r.t.Fatalf("status %d (%v), want %d: %.600s", r.status, r.err, status, r.raw)
	}
	return r
}

// noRetry keeps the transport from repeating a request on its own.
var client = &http.Client{
	Transport:     &http.Transport{DisableKeepAlives: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

func (w *world) call(method, path, token string, body any, header ...string) reply {
	w.t.Helper()
	var in io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		in = bytes.NewReader([]byte(b))
	default:
		raw, err := json.Marshal(b)
		w.do(err)
		in = bytes.NewReader(raw)
	}
	url := path
	if path[0] == '/' {
		url = w.sim.URL() + path
	}
	req, err := http.NewRequestWithContext(w.t.Context(), method, url, in)
	w.do(err)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	if !w.wire {
		return w.direct(req)
	}
	resp, err := client.Do(req)
	if err != nil {
		return reply{t: w.t, err: err}
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	return reply{t: w.t, status: resp.StatusCode, header: resp.Header, raw: raw, err: err}
}

// direct calls the handler without a connection, which is what most tests need.
func (w *world) direct(req *http.Request) (r reply) {
	if req.Body == nil {
		req.Body = http.NoBody
	}
	req.RequestURI = req.URL.RequestURI()
	rec := httptest.NewRecorder()
	defer func() {
		if p := recover(); p != nil {
			r = reply{t: w.t, err: fmt.Errorf("connection closed: %v", p)}
		}
	}()
	w.sim.Handler().ServeHTTP(rec, req)
	return reply{t: w.t, status: rec.Code, header: rec.Header(), raw: rec.Body.Bytes()}
}

func (w *world) get(path, token string, header ...string) reply {
	w.t.Helper()
	return w.call("GET", path, token, nil, header...)
}

func (w *world) graphql(token, query string, variables map[string]any) reply {
	w.t.Helper()
	return w.call("POST", "/graphql", token, map[string]any{"query": query, "variables": variables})
}

// bench makes one request and minds only its status.
func (w *world) bench(b *testing.B, path, token string) {
	b.Helper()
	req := httptest.NewRequest(http.MethodGet, path, nil)
	req.Header.Set("Authorization", "Bearer "+token)
	rec := httptest.NewRecorder()
	w.sim.Handler().ServeHTTP(rec, req)
	if rec.Code != http.StatusOK {
		b.Fatalf("status %d", rec.Code)
	}
}

func jsonOf(raw []byte, into any) error { return json.Unmarshal(raw, into) }

func contains(text, part string) bool { return strings.Contains(text, part) }

// receiver is a webhook endpoint that keeps what it got.
type receiver struct {
	url    string
	mu     sync.Mutex
	got    []hook
	status int
	block  chan struct{}
}

type hook struct {
	header http.Header
	body   []byte
}

func (h hook) name() string {
	var o struct {
		Action string `json:"action"`
	}
	_ = json.Unmarshal(h.body, &o)
	if o.Action == "" {
		return h.header.Get("X-Github-Event")
	}
	return h.header.Get("X-Github-Event") + "." + o.Action
}

func (h hook) at(path ...any) any {
	var v any
	_ = json.Unmarshal(h.body, &v)
	return at(v, path...)
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{status: http.StatusAccepted}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		r.mu.Lock()
		status, block := r.status, r.block
		r.got = append(r.got, hook{req.Header, body})
		r.mu.Unlock()
		if block != nil {
			<-block
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, `{"accepted":true}`)
	}))
	t.Cleanup(server.Close)
	r.url = server.URL
	return r
}

func (r *receiver) answer(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = status
}

func (r *receiver) hooks() []hook {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]hook(nil), r.got...)
}

func (r *receiver) names() []string {
	var names []string
	for _, h := range r.hooks() {
		names = append(names, h.name())
	}
	return names
}

func (r *receiver) clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got = nil
}
