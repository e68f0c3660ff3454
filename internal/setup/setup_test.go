package setup

import (
	"encoding/json"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/githubsim"
)

// visit is a browser, the page under test, and a GitHub.
type visit struct {
	t       *testing.T
	sim     *githubsim.Sim
	page    *httptest.Server
	browser *http.Client
	now     time.Time
}

func newVisit(t *testing.T, change func(*Options)) *visit {
	t.Helper()
	v := &visit{t: t, sim: githubsim.New(githubsim.Options{}), now: time.Now()}
	t.Cleanup(v.sim.Close)
	var h *Handler
	v.page = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.ServeHTTP(w, r) }))
	t.Cleanup(v.page.Close)
	o := Options{Enabled: true, GitHub: ghclient.Config{APIURL: v.sim.URL()}, Path: "/setup", BaseURL: v.page.URL, Name: "Gate", Now: func() time.Time { return v.now }}
	if change != nil {
		change(&o)
	}
	var err error
	if h, err = New(o); err != nil {
		t.Fatal(err)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	v.browser = &http.Client{Jar: jar}
	return v
}

func (v *visit) get(path string) (*http.Response, string) {
	v.t.Helper()
	resp, err := v.browser.Get(v.page.URL + path)
	return v.read(resp, err)
}

func (v *visit) read(resp *http.Response, err error) (*http.Response, string) {
	v.t.Helper()
	if err != nil {
		v.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		v.t.Fatal(err)
	}
	return resp, string(body)
}

const filled = "/setup?name=Gate&org=acme&webhook=https%3A%2F%2Fcountersign.example%2Fwebhooks%2Fgithub"

var (
	actionForm   = regexp.MustCompile(`<form method="post" action="([^"]+)"`)
	manifestForm = regexp.MustCompile(`name="manifest" value="([^"]+)"`)
)

// confirm presses the button of the page, which leads to GitHub and back.
func (v *visit) confirm(body string) (*http.Response, string) {
	v.t.Helper()
	action, manifest := actionForm.FindStringSubmatch(body), manifestForm.FindStringSubmatch(body)
	if action == nil || manifest == nil {
		v.t.Fatalf("no form to press in\n%s", body)
	}
	resp, err := v.browser.PostForm(html.UnescapeString(action[1]), url.Values{"manifest": {html.UnescapeString(manifest[1])}})
	return v.read(resp, err)
}

func TestSetup(t *testing.T) {
	t.Parallel()
	t.Run("RG-476 both routes are 404 unless enabled", func(t *testing.T) {
		t.Parallel()
		v := newVisit(t, func(o *Options) { o.Enabled = false })
		for _, path := range []string{"/setup", "/setup/callback", filled} {
			if resp, _ := v.get(path); resp.StatusCode != http.StatusNotFound {
				t.Errorf("%s: %d", path, resp.StatusCode)
			}
		}
	})
	t.Run("RG-476 without a store the credentials are shown once, escaped, and are not retained", func(t *testing.T) {
		t.Parallel()
		v := newVisit(t, nil)
		_, body := v.get(filled)
		resp, shown := v.confirm(body)
		if resp.StatusCode != http.StatusOK || resp.Header.Get("Cache-Control") != "no-store" || !strings.Contains(shown, "-----BEGIN RSA PRIVATE KEY-----") {
			t.Fatalf("%d %v\n%s", resp.StatusCode, resp.Header, shown)
		}
		again, body := v.read(v.browser.Get(resp.Request.URL.String()))
		if again.StatusCode != http.StatusBadRequest || strings.Contains(body, "PRIVATE KEY") {
			t.Errorf("a second visit: %d\n%s", again.StatusCode, body)
		}
	})
	t.Run("RG-476 what GitHub answers is escaped", func(t *testing.T) {
		t.Parallel()
		w := httptest.NewRecorder()
		h := &Handler{web: "https://github.example"}
		h.show(w, http.StatusOK, view{Made: &ghclient.AppCredentials{Name: "<script>alert(1)</script>", WebhookSecret: `"><img src=x>`, HTMLURL: "javascript:alert(1)"}, Lacks: []string{"<b>x"}})
		for _, bad := range []string{"<script>alert", "<img", "<b>x", `href="javascript:`} {
			if strings.Contains(w.Body.String(), bad) {
				t.Errorf("%s is not escaped", bad)
			}
		}
	})
	t.Run("RG-476 a bad state, a late one, another browser's, and a failed exchange are 400, a missing query 422", func(t *testing.T) {
		t.Parallel()
		for name, c := range map[string]struct {
			status int
			spoil  func(*visit, url.Values)
		}{
			"forged":         {400, func(_ *visit, q url.Values) { q.Set("state", q.Get("state")+"A") }},
			"of another key": {400, func(v *visit, q url.Values) { s, _ := newState([]byte("other"), v.now, StateLife); q.Set("state", s) }},
			"too late":       {400, func(v *visit, _ url.Values) { v.now = v.now.Add(StateLife) }},
			"another browser": {400, func(v *visit, _ url.Values) {
				v.browser = &http.Client{}
			}},
			"code refused": {400, func(_ *visit, q url.Values) { q.Set("code", "nothing") }},
			"no code":      {422, func(_ *visit, q url.Values) { q.Del("code") }},
			"no state":     {422, func(_ *visit, q url.Values) { q.Del("state") }},
		} {
			v := newVisit(t, nil)
			_, body := v.get(filled)
			u, err := url.Parse(html.UnescapeString(actionForm.FindStringSubmatch(body)[1]))
			if err != nil {
				t.Fatal(err)
			}
			code, err := v.sim.RegisterManifest("acme", []byte(html.UnescapeString(manifestForm.FindStringSubmatch(body)[1])))
			if err != nil {
				t.Fatal(err)
			}
			q := url.Values{"code": {code}, "state": {u.Query().Get("state")}}
			c.spoil(v, q)
			if resp, body := v.get("/setup/callback?" + q.Encode()); resp.StatusCode != c.status || strings.Contains(body, "PRIVATE KEY") {
				t.Errorf("%s: %d, want %d\n%s", name, resp.StatusCode, c.status, body)
			}
		}
	})
	t.Run("RG-477 the manifest is of a private App with the permissions and events that are needed", func(t *testing.T) {
		t.Parallel()
		v := newVisit(t, func(o *Options) { o.ConsoleURL = "https://console.example" })
		_, body := v.get(filled)
		var m map[string]any
		if err := json.Unmarshal([]byte(html.UnescapeString(manifestForm.FindStringSubmatch(body)[1])), &m); err != nil {
			t.Fatal(err)
		}
		want := map[string]any{
			"name": "Gate", "url": "https://console.example", "public": false, "description": "Decides whether the owners of a change approved it.",
			"hook_attributes": map[string]any{"url": "https://countersign.example/webhooks/github", "active": true},
			"redirect_url":    v.page.URL + "/setup/callback", "callback_urls": []any{"https://console.example/auth/callback"},
			"default_permissions": map[string]any{"checks": "write", "contents": "read", "members": "read", "metadata": "read", "pull_requests": "read", "merge_queues": "read"},
			"default_events": []any{"check_run", "label", "member", "membership", "merge_group", "organization", "pull_request", "pull_request_review",
				"push", "repository", "team", "team_add"},
		}
		if diff := cmp.Diff(want, m); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
	t.Run("what is typed wrongly is said, and leads nowhere", func(t *testing.T) {
		t.Parallel()
		v := newVisit(t, nil)
		for query, want := range map[string]string{
			"org=a/b&name=x&webhook=https://h/":      "not a login",
			"name=&webhook=https://h/":               "1 to 34",
			"name=x&webhook=javascript:alert(1)":     "not a URL",
			"name=x&webhook=https://user:pass@host/": "not a URL",
		} {
			if resp, body := v.get("/setup?" + query); resp.StatusCode != 422 || !strings.Contains(body, want) || strings.Contains(body, "<form method=\"post\"") {
				t.Errorf("%s: %d\n%s", query, resp.StatusCode, body)
			}
		}
	})
	t.Run("the policy of the page lets nothing in and its form go to GitHub only", func(t *testing.T) {
		t.Parallel()
		v := newVisit(t, nil)
		resp, _ := v.get("/setup")
		csp := resp.Header.Get("Content-Security-Policy")
		if !strings.Contains(csp, "default-src 'none'") || !strings.Contains(csp, "form-action 'self' "+v.sim.URL()+";") || strings.Contains(csp, "unsafe") {
			t.Errorf("%s", csp)
		}
	})
}

func TestLacksNamesEach(t *testing.T) {
	t.Parallel()
	made := ghclient.AppCredentials{Permissions: ghclient.AppPermissions(), Events: ghclient.NeededEvents()}
	delete(made.Permissions, "members")
	if diff := cmp.Diff([]string{"the permission members: read", "the event issue_comment", "the event merge_group"}, Lacks(made, true)); diff != "" {
		t.Error(diff)
	}
}

func TestFolder(t *testing.T) {
	t.Parallel()
	made := ghclient.AppCredentials{ID: 7, PEM: "key", WebhookSecret: "hook", ClientSecret: "client", ClientID: "Iv1"}
	t.Run("files are new, of mode 0600, and named by the settings", func(t *testing.T) {
		t.Parallel()
		dir := filepath.Join(t.TempDir(), "made")
		f, err := Reserve(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Fill(made, "https://host.example/api/v3/"); err != nil {
			t.Fatal(err)
		}
		f.Release()
		for name, want := range map[string]string{KeyFile: "key", WebhookFile: "hook\n", ClientSecretFile: "client\n"} {
			text, err := os.ReadFile(filepath.Join(dir, name))
			info, serr := os.Stat(filepath.Join(dir, name))
			if err != nil || serr != nil || string(text) != want || info.Mode().Perm() != 0o600 {
				t.Errorf("%s: %q %v %v", name, text, err, info)
			}
		}
		list, err := Settings(dir)
		if err != nil || !slices.Contains(list, "COUNTERSIGN_GITHUB_APP_ID=7") || !slices.Contains(list, "COUNTERSIGN_GITHUB_API_URL=https://host.example/api/v3/") || len(list) != 6 {
			t.Errorf("%q, %v", list, err)
		}
	})
	t.Run("what exists is not touched, and nothing is left behind", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, ClientSecretFile), []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Reserve(dir); err == nil || !strings.Contains(err.Error(), ClientSecretFile) {
			t.Fatalf("got %v", err)
		}
		list, err := os.ReadDir(dir)
		if text, _ := os.ReadFile(filepath.Join(dir, ClientSecretFile)); err != nil || len(list) != 1 || string(text) != "mine" {
			t.Errorf("%v %v %q", list, err, text)
		}
	})
}
