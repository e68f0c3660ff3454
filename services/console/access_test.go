package console

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/countersign/countersign/pkg/githubsim"
)

// everyPage are the pages of a pull request and the lists, and what tells their changes.
func everyPage(name string, number int, decision int64) []string {
	p := pathOf(name, number)
	return []string{
		"/", "/?repo=acme/" + name, "/?repo=acme/", "/?owner=@acme/core", "/?state=missing", "/?order=oldest", p, p + "?all=1", fmt.Sprintf("%s/decision/%d", p, decision),
		fmt.Sprintf("%s/diff?from=%d&to=%d", p, decision, decision), "/owners", "/operations", "/policy", "/policy?repository=acme/" + name,
	}
}

func TestNobodySeesWhatGitHubHides(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.sim.AddRepo("acme", "vault", map[string]string{"a": "b"})
	shown := w.put("widgets", 1, nil)
	hidden := w.put("vault", 2, func(s *subject) {
		s.title, s.author, s.ref = "hush-title", "hush-author", "hush-branch"
		s.snapshot.Bases[base] = withOwners(s.snapshot.Bases[base], "* @hush-owner\n")
	})
	const secret = "hush"
	alice, bob := w.browser("alice"), w.browser("bob") // bob is an operator
	if _, body := w.get(bob, "/"); !strings.Contains(body, "hush-title") {
		t.Fatalf("the operator does not see it: this test would prove nothing\n%s", body)
	}
	t.Run("no page names a private repository to who cannot see it", func(t *testing.T) {
		for _, path := range append(everyPage("vault", 2, hidden), everyPage("widgets", 1, shown)...) {
			if _, body := w.get(alice, path); strings.Contains(body, secret) || !strings.Contains(path, "vault") && strings.Contains(body, "vault") {
				t.Errorf("%s tells\n%s", path, body)
			}
		}
		resp, err := post(alice, w.srv.URL+"/policy", w.srv.URL, url.Values{"repository": {"acme/vault"}, "file": {"codeowners"}, "text": {"* @alice\n"}})
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if body, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusNotFound || strings.Contains(string(body), secret) {
			t.Errorf("policy: %d\n%s", resp.StatusCode, body)
		}
	})
	t.Run("what is hidden and what does not exist are one answer", func(t *testing.T) {
		p := pathOf("vault", 2)
		for _, pair := range [][2]string{
			{p, pathOf("nowhere", 2)}, {p, pathOf("widgets", 99)}, {fmt.Sprintf("%s/decision/%d", p, hidden), pathOf("nowhere", 2) + "/decision/1"},
			{fmt.Sprintf("%s/decision/%d", pathOf("widgets", 1), hidden), pathOf("widgets", 1) + "/decision/99999"},
			{fmt.Sprintf("%s/diff?from=%d&to=%d", pathOf("widgets", 1), shown, hidden), pathOf("widgets", 1) + "/diff?from=1&to=99999"},
			{"/live" + p, "/live" + pathOf("nowhere", 2)}, {"/operations", "/pull/acme/nowhere/1"},
		} {
			one, first := w.get(alice, pair[0])
			two, second := w.get(alice, pair[1])
			if one.StatusCode != http.StatusNotFound || two.StatusCode != http.StatusNotFound || cutMoment(first) != cutMoment(second) {
				t.Errorf("%s: %d, %s: %d\n%s\n%s", pair[0], one.StatusCode, pair[1], two.StatusCode, first, second)
			}
		}
		if resp, _ := w.get(alice, "/live/operations"); resp.StatusCode != http.StatusNotFound {
			t.Errorf("live operations: %d", resp.StatusCode)
		}
	})
	t.Run("a change of a hidden repository is told to nobody who cannot see it", func(t *testing.T) {
		events, stop := w.follow(t, alice, "/live/pulls?mark=")
		defer stop()
		if e := <-events; !strings.HasPrefix(e, "change ") {
			t.Fatalf("first %q", e)
		}
		w.put("vault", 2, func(s *subject) { s.title = "hush-again" })
		select {
		case e := <-events:
			t.Errorf("told %q of what is hidden", e)
		case <-time.After(500 * time.Millisecond): // dozens of looks
		}
		w.put("widgets", 3, nil)
		if e := <-events; !strings.HasPrefix(e, "change ") {
			t.Errorf("of what is visible told %q", e)
		}
	})
	t.Run("who loses access is told nothing more", func(t *testing.T) {
		carol := w.browser("carol")
		events, stop := w.follow(t, carol, "/live"+pathOf("widgets", 1)+"?mark=")
		defer stop()
		if e := <-events; !strings.HasPrefix(e, "change ") {
			t.Fatalf("first %q", e)
		}
		if err := w.sim.RemoveTeamMember("acme", "docs", "carol"); err != nil {
			t.Fatal(err)
		}
		w.c.access.mu.Lock()
		clear(w.c.access.seen) // the access age is over
		w.c.access.mu.Unlock()
		w.put("widgets", 1, func(s *subject) { s.approve() })
		if e := <-events; e != "bye " {
			t.Errorf("told %q", e)
		}
		if resp, _ := w.get(carol, pathOf("widgets", 1)); resp.StatusCode != http.StatusNotFound {
			t.Errorf("the page: %d", resp.StatusCode)
		}
	})
}

// cutMoment leaves out when a page was read.
func cutMoment(body string) string {
	before, _, _ := strings.Cut(body, `<p class="moment">`)
	return before
}

// follow reads the events of a live page as "name data".
func (w *world) follow(t *testing.T, b *http.Client, path string) (<-chan string, func()) {
	t.Helper()
	w.get(b, "/owners") // sign in: live pages do not send anybody to GitHub
	ctx, cancel := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.srv.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := b.Do(req)
	if err != nil || resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		t.Fatalf("%v %v", resp, err)
	}
	events := make(chan string, 100)
	go func() {
		defer close(events)
		defer resp.Body.Close()
		name := ""
		lines := bufio.NewScanner(resp.Body)
		for lines.Scan() {
			if n, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
				name = n
			}
			if d, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				events <- name + " " + d
			}
		}
	}()
	return events, func() {
		cancel()
		for range events { //nolint:revive // until the reader has ended
		}
	}
}

func post(b *http.Client, to, origin string, form url.Values) (*http.Response, error) {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, to, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if origin != "" {
		req.Header.Set("Origin", origin)
	}
	return b.Do(req)
}

func TestSignIn(t *testing.T) {
	t.Parallel()
	t.Run("the cookie is sealed, for this host, and out of scripts' reach", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, nil)
		b := w.browser("alice")
		resp, body := w.get(b, "/owners?x=1")
		if resp.StatusCode != http.StatusOK || resp.Request.URL.RequestURI() != "/owners?x=1" || !strings.Contains(body, "alice") {
			t.Fatalf("%d at %s\n%s", resp.StatusCode, resp.Request.URL, body)
		}
		u, _ := url.Parse(w.srv.URL)
		for _, c := range b.Jar.Cookies(u) {
			if strings.Contains(c.Value, "ghu_") || strings.Contains(c.Value, "alice") {
				t.Errorf("cookie %s holds something readable: %s", c.Name, c.Value)
			}
		}
	})
	t.Run("cookies carry their marks, over https the host's prefix", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, func(c *Config) { c.PublicURL = "https://console.example" })
		b := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		resp, _ := w.get(b, "/auth/login?to=/owners")
		c := resp.Cookies()
		if len(c) != 1 || c[0].Name != "__Host-countersign-flow" || !c[0].Secure || !c[0].HttpOnly || c[0].SameSite != http.SameSiteLaxMode || c[0].Path != "/" || c[0].Domain != "" {
			t.Errorf("%+v", c)
		}
		to, err := url.Parse(resp.Header.Get("Location"))
		q := to.Query()
		if err != nil || q.Get("code_challenge_method") != "S256" || len(q.Get("code_challenge")) != 43 || len(q.Get("state")) < 32 || q.Get("redirect_uri") != "https://console.example/auth/callback" {
			t.Errorf("%v %v", to, err)
		}
		if got := resp.Header.Get("Strict-Transport-Security"); got == "" {
			t.Error("no HSTS")
		}
	})
	t.Run("a way back that was not begun here signs nobody in", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, nil)
		code := func() string { return w.sim.SignIn(w.ex.App.ID, "alice", "") }
		stop := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		begun := func() (*http.Client, string) {
			jar, _ := cookiejar.New(nil)
			b := &http.Client{Jar: jar, CheckRedirect: stop}
			resp, _ := w.get(b, "/auth/login")
			to, _ := url.Parse(resp.Header.Get("Location"))
			return b, to.Query().Get("state")
		}
		b, state := begun()
		for name, q := range map[string]url.Values{
			"another state": {"code": {code()}, "state": {"x" + state}}, "no state": {"code": {code()}}, "no code": {"state": {state}},
		} {
			if resp, _ := w.get(b, "/auth/callback?"+q.Encode()); resp.StatusCode != http.StatusBadRequest || len(resp.Cookies()) > 0 && resp.Cookies()[0].Value != "" {
				t.Errorf("%s: %d %v", name, resp.StatusCode, resp.Cookies())
			}
		}
		if resp, _ := w.get(&http.Client{CheckRedirect: stop}, "/auth/callback?"+url.Values{"code": {code()}, "state": {state}}.Encode()); resp.StatusCode != http.StatusBadRequest {
			t.Errorf("another browser: %d", resp.StatusCode)
		}
		b, state = begun()
		w.now = w.now.Add(flowLife)
		if resp, _ := w.get(b, "/auth/callback?"+url.Values{"code": {code()}, "state": {state}}.Encode()); resp.StatusCode != http.StatusBadRequest {
			t.Errorf("too late: %d", resp.StatusCode)
		}
	})
	t.Run("a session ends, a changed one is none, and one of another key neither", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, nil)
		b := w.browser("alice")
		w.get(b, "/")
		stay := *b
		stay.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		if resp, _ := w.get(&stay, "/"); resp.StatusCode != http.StatusOK {
			t.Fatalf("signed in: %d", resp.StatusCode)
		}
		u, _ := url.Parse(w.srv.URL)
		for _, c := range b.Jar.Cookies(u) {
			if strings.HasSuffix(c.Name, "session") {
				flipped := []byte(c.Value)
				flipped[len(flipped)/2] ^= 1
				req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, w.srv.URL+"/", nil)
				req.AddCookie(&http.Cookie{Name: c.Name, Value: string(flipped)})
				resp, err := (&http.Client{CheckRedirect: stay.CheckRedirect}).Do(req)
				if err != nil || resp.StatusCode != http.StatusFound {
					t.Errorf("a changed cookie: %v %v", resp, err)
				}
				_ = resp.Body.Close()
				old, _ := newSealer(strings.Repeat("o", 32))
				var s session
				if old.open(c.Name, c.Value, &s) == nil || w.c.access.seal.open("countersign-flow", c.Value, &s) == nil {
					t.Error("another key or another cookie's name opens it")
				}
			}
		}
		w.now = w.now.Add(w.cfg.Session)
		if resp, _ := w.get(&stay, "/"); resp.StatusCode != http.StatusFound {
			t.Errorf("after its end: %d", resp.StatusCode)
		}
		if resp, _ := w.get(&stay, "/live/pulls"); resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("a live page after its end: %d", resp.StatusCode)
		}
	})
	t.Run("a sign-in leads to a page of ours only", func(t *testing.T) {
		t.Parallel()
		for to, want := range map[string]string{
			"/pull/a/b/1?x=1": "/pull/a/b/1?x=1", "": "/", "https://evil.example/": "/", "//evil.example/": "/", `/\evil.example`: "/", "/auth/logout": "/", "/live/pulls": "/", "javascript:alert(1)": "/", "/\tx": "/",
		} {
			if got := ownPath(to); got != want {
				t.Errorf("%q leads to %q", to, got)
			}
		}
	})
	t.Run("signing out takes a form of our own", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, nil)
		b := w.browser("alice")
		w.get(b, "/")
		for _, origin := range []string{"", "https://evil.example", "null"} {
			resp, err := post(b, w.srv.URL+"/auth/logout", origin, nil)
			if err != nil || resp.StatusCode != http.StatusForbidden {
				t.Errorf("from %q: %v %v", origin, resp, err)
			}
			_ = resp.Body.Close()
		}
		resp, err := post(b, w.srv.URL+"/auth/logout", w.srv.URL, nil)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%v %v", resp, err)
		}
		_ = resp.Body.Close()
		b.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		if resp, _ := w.get(b, "/"); resp.StatusCode != http.StatusFound {
			t.Errorf("still signed in: %d", resp.StatusCode)
		}
	})
}

func TestAccessFailsClosed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.put("widgets", 1, func(s *subject) { s.title = "seen-title" })
	b := w.browser("alice")
	if _, body := w.get(b, "/"); !strings.Contains(body, "seen-title") {
		t.Fatalf("alice does not see it\n%s", body)
	}
	t.Run("an answer is used while it is young, whatever GitHub does", func(t *testing.T) {
		w.sim.Inject(githubsim.Fault{Route: "/user/installations", Status: 503, Times: -1})
		if _, body := w.get(b, "/"); !strings.Contains(body, "seen-title") {
			t.Errorf("\n%s", body)
		}
	})
	t.Run("then nothing is shown until GitHub answers", func(t *testing.T) {
		w.now = w.now.Add(w.cfg.AccessAge)
		resp, body := w.get(b, "/")
		if resp.StatusCode != http.StatusServiceUnavailable || strings.Contains(body, "seen-title") {
			t.Errorf("%d\n%s", resp.StatusCode, body)
		}
	})
}

func TestOpenIsForThisMachine(t *testing.T) {
	t.Parallel()
	w := newWorld(t, open)
	for host, want := range map[string]int{"127.0.0.1:8082": 200, "localhost": 200, "[::1]:1": 200, "evil.example": 403, "127.0.0.1.evil.example": 403, "": 403} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.srv.URL+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		if req.Host = host; host == "" {
			req.Host = "0.0.0.0:1"
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil || resp.StatusCode != want {
			t.Errorf("host %q: %v %v, want %d", host, resp, err, want)
		}
		_ = resp.Body.Close()
	}
	for name, change := range map[string]func(*Config){
		"COUNTERSIGN_CONSOLE_LISTEN":      func(c *Config) { c.Listen = "0.0.0.0:8082" },
		"COUNTERSIGN_CONSOLE_SESSION_KEY": func(c *Config) { c.Open, c.SessionKey = false, "short" },
		"COUNTERSIGN_CONSOLE_URL":         func(c *Config) { c.Open, c.PublicURL = false, "http://console.example" },
		"COUNTERSIGN_GITHUB_CLIENT_ID":    func(c *Config) { c.Open, c.SignIn.ClientID = false, "" },
		"COUNTERSIGN_CONSOLE_OPERATORS":   func(c *Config) { c.Operators = "core" },
		"COUNTERSIGN_CONSOLE_ACCESS_AGE":  func(c *Config) { c.AccessAge = time.Hour },
	} {
		cfg := w.cfg
		cfg.Store.URL = "postgres://127.0.0.1/x"
		change(&cfg)
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
