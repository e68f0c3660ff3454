package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/countersign/countersign/pkg/githubsim"
)

// stage is a stand-in behind a recorder, with a world on it, and a receiver of
// its webhooks.
type stage struct {
	ctx     context.Context //nolint:containedctx // one run
	version string
	sim     *githubsim.Sim
	server  *httptest.Server
	example githubsim.Example

	mu        sync.Mutex
	exchanges []exchange
	hooks     []hook
}

type hook struct {
	event, action string
	body          []byte
}

func newStage(ctx context.Context, version string) *stage {
	s := &stage{ctx: ctx, version: version}
	s.server = httptest.NewServer(http.HandlerFunc(s.record))
	s.sim = githubsim.New(githubsim.Options{Listen: "-", PublicURL: s.server.URL})
	permissions := map[string]string{
		"checks": "write", "contents": "write", "members": "write", "pull_requests": "write", "issues": "write", "merge_queues": "read", "administration": "write",
	}
	events := append(githubsim.DefaultEvents(), "issue_comment")
	s.example = githubsim.AddExample(s.sim, githubsim.ExampleOptions{App: githubsim.App{
		WebhookURL: s.server.URL + "/receive", WebhookSecret: "contract", Permissions: permissions, Events: events,
	}})
	return s
}

func (s *stage) close() {
	s.sim.Close()
	s.server.Close()
}

// record serves a request and keeps it with its answer. Webhooks come back to the
// same server.
func (s *stage) record(w http.ResponseWriter, r *http.Request) {
	sent, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if r.URL.Path == "/receive" {
		var o struct {
			Action string `json:"action"`
		}
		_ = json.Unmarshal(sent, &o)
		s.mu.Lock()
		s.hooks = append(s.hooks, hook{r.Header.Get("X-GitHub-Event"), o.Action, sent})
		s.mu.Unlock()
		w.WriteHeader(http.StatusAccepted)
		return
	}
	kept := r.Clone(context.Background())
	r.Body = io.NopCloser(bytes.NewReader(sent))
	rec := httptest.NewRecorder()
	s.sim.Handler().ServeHTTP(rec, r)
	for k, v := range rec.Header() {
		w.Header()[k] = v
	}
	w.WriteHeader(rec.Code)
	_, _ = w.Write(rec.Body.Bytes())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.exchanges = append(s.exchanges, exchange{request: kept, sent: sent, status: rec.Code, header: rec.Header(), body: rec.Body.Bytes()})
}

// settle waits for the webhooks and returns what was recorded.
func (s *stage) settle() ([]exchange, []hook, error) {
	ctx, cancel := context.WithTimeout(s.ctx, time.Minute)
	defer cancel()
	if err := s.sim.Settle(ctx); err != nil {
		return nil, nil, fmt.Errorf("wait for webhooks: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.exchanges, s.hooks, nil
}

func (s *stage) jwt(app githubsim.App) string {
	now := time.Now()
	text, err := jwt.NewWithClaims(jwt.SigningMethodRS256, jwt.MapClaims{
		"iss": fmt.Sprint(app.ID), "iat": now.Add(-30 * time.Second).Unix(), "exp": now.Add(5 * time.Minute).Unix(),
	}).SignedString(app.PrivateKey)
	must(err)
	return text
}

// call makes a request and returns the decoded answer; a status other than want
// ends the run.
func (s *stage) call(want int, method, path, token string, body any, header ...string) any {
	var in io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		must(err)
		in = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(s.ctx, method, s.server.URL+path, in)
	must(err)
	req.Header.Set("X-GitHub-Api-Version", s.version)
	req.Header.Set("Accept", "application/vnd.github+json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	must(err)
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	must(err)
	if resp.StatusCode != want {
		must(fmt.Errorf("%s %s: status %d, want %d: %.500s", method, path, resp.StatusCode, want, raw))
	}
	var v any
	_ = json.Unmarshal(raw, &v) // raw media is no JSON
	return v
}

// must ends the run: the run is written for this world, so that an error is a
// mistake in one of them. run recovers it.
func must(err error) {
	if err != nil {
		panic(err) //nolint:forbidigo // recovered in run
	}
}

func number(v any, path ...any) int64 {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			v = asObject(v)[p]
		case int:
			list, _ := v.([]any)
			if p >= len(list) {
				must(fmt.Errorf("no element %d at %v", p, path))
			}
			v = list[p]
		}
	}
	f, is := v.(float64)
	if !is {
		must(fmt.Errorf("no number at %v", path))
	}
	return int64(f)
}
