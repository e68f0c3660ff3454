package githubsim_test

import (
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/countersign/countersign/pkg/githubsim"
)

func TestTheAppsJWT(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other, err := rsa.GenerateKey(rand.Reader, 2048)
	w.do(err)
	forged, err := jwt.NewWithClaims(jwt.SigningMethodRS256, jwt.MapClaims{
		"iss": fmt.Sprint(w.app.ID), "iat": time.Now().Add(-time.Minute).Unix(), "exp": time.Now().Add(time.Minute).Unix(),
	}).SignedString(other)
	w.do(err)
	symmetric, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{
		"iss": fmt.Sprint(w.app.ID), "iat": time.Now().Add(-time.Minute).Unix(), "exp": time.Now().Add(time.Minute).Unix(),
	}).SignedString([]byte("guess"))
	w.do(err)
	in := func(d time.Duration) int64 { return time.Now().Add(d).Unix() }
	for _, c := range []struct {
		name, token, message string
		status               int
	}{
		{"is accepted with the id as text", w.jwt(), "", 200},
		{"is accepted with the id as a number", w.jwt(func(m jwt.MapClaims) { m["iss"] = w.app.ID }), "", 200},
		{"is accepted with the client id", w.jwt(func(m jwt.MapClaims) { m["iss"] = w.app.ClientID }), "", 200},
		{"signed by another key is refused", forged, "could not be decoded", 401},
		{"signed by a symmetric algorithm is refused", symmetric, "could not be decoded", 401},
		{"that is no JWT is refused", "a.b.c", "could not be decoded", 401},
		{"of an unknown issuer names iss", w.jwt(func(m jwt.MapClaims) { m["iss"] = "999" }), "'iss'", 401},
		{"that has expired names exp", w.jwt(func(m jwt.MapClaims) { m["exp"] = in(-time.Second) }), "'exp'", 401},
		{"more than ten minutes ahead names exp", w.jwt(func(m jwt.MapClaims) { m["exp"] = in(11 * time.Minute) }), "too far in the future", 401},
		{"issued in the future names iat", w.jwt(func(m jwt.MapClaims) { m["iat"] = in(time.Minute) }), "'iat'", 401},
		{"without exp names exp", w.jwt(func(m jwt.MapClaims) { delete(m, "exp") }), "'exp'", 401},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := w.get("/app", c.token).want(c.status)
			if c.message != "" && !strings.Contains(r.str("message"), c.message) {
				t.Errorf("message %q, want %q in it", r.str("message"), c.message)
			}
		})
	}
	t.Run("is refused where an installation token is needed", func(t *testing.T) {
		w.get("/repos/acme/widgets", w.jwt()).want(401)
	})
	t.Run("cannot be replaced by an installation token", func(t *testing.T) {
		w.get("/app", w.token()).want(401)
	})
}

func TestInstallationTokens(t *testing.T) {
	t.Parallel()
	now := time.Now()
	var mu sync.Mutex
	w := newWorld(t, func(o *githubsim.Options) {
		o.Now = func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	})
	path := fmt.Sprintf("/app/installations/%d/access_tokens", w.inst)
	mint := func(t *testing.T, body any) reply {
		t.Helper()
		return w.call("POST", path, w.jwt(), body)
	}
	t.Run("have the long form by default, and repositories only when narrowed", func(t *testing.T) {
		r := mint(t, nil).want(201)
		if text := r.str("token"); !strings.HasPrefix(text, fmt.Sprintf("ghs_%d_", w.app.ID)) || strings.Count(text, ".") != 2 || len(text) < 200 {
			t.Errorf("token %q", text)
		}
		if r.at("repositories") != nil || r.str("repository_selection") != "all" {
			t.Errorf("answer %s", r.raw)
		}
	})
	t.Run("have the short form when the switch says so", func(t *testing.T) {
		w.sim.Set(githubsim.Switches{ShortTokens: true})
		defer w.sim.Set(githubsim.Switches{})
		if text := mint(t, nil).want(201).str("token"); len(text) != 40 || !strings.HasPrefix(text, "ghs_") {
			t.Errorf("token %q", text)
		}
	})
	t.Run("narrowed to permissions have no other", func(t *testing.T) {
		token := mint(t, map[string]any{"permissions": map[string]string{"contents": "read"}}).want(201).str("token")
		w.get("/repos/acme/widgets/contents/README.md", token).want(200)
		r := w.get("/repos/acme/widgets/pulls", token).want(403)
		if r.str("message") != "Resource not accessible by integration" || r.str("status") != "403" {
			t.Errorf("answer %s", r.raw)
		}
	})
	t.Run("narrowed to repositories see no other", func(t *testing.T) {
		w.sim.AddRepo("acme", "gears", map[string]string{"a": "b\n"})
		r := mint(t, map[string]any{"repositories": []string{"gears"}}).want(201)
		if r.str("repositories", 0, "full_name") != "acme/gears" || r.str("repository_selection") != "selected" {
			t.Errorf("answer %s", r.raw)
		}
		w.get("/repos/acme/gears", r.str("token")).want(200)
		w.get("/repos/acme/widgets", r.str("token")).want(404)
	})
	for name, c := range map[string]struct {
		body    any
		status  int
		message string
	}{
		"wider than granted are refused":          {map[string]any{"permissions": map[string]string{"checks": "admin"}}, 422, "The permissions requested are not granted to this installation."},
		"for a permission never granted":          {map[string]any{"permissions": map[string]string{"secrets": "read"}}, 422, "The permissions requested are not granted to this installation."},
		"for an unknown repository are refused":   {map[string]any{"repositories": []string{"nowhere"}}, 422, "There is at least one repository"},
		"asked for with a wrong type are refused": {`{"permissions":[]}`, 400, "Problems parsing JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			if r := mint(t, c.body).want(c.status); !strings.Contains(r.str("message"), c.message) {
				t.Errorf("message %s", r.raw)
			}
		})
	}
	t.Run("of an unknown installation are 404", func(t *testing.T) {
		w.call("POST", "/app/installations/1/access_tokens", w.jwt(), nil).want(404)
	})
	t.Run("die after an hour", func(t *testing.T) {
		token := w.token()
		mu.Lock()
		now = now.Add(time.Hour)
		mu.Unlock()
		defer func() { mu.Lock(); now = now.Add(-time.Hour); mu.Unlock() }()
		if r := w.get("/repos/acme/widgets", token).want(401); r.str("message") != "Bad credentials" {
			t.Errorf("message %s", r.raw)
		}
	})
	t.Run("die when they are revoked", func(t *testing.T) {
		token := w.token()
		w.call("DELETE", "/installation/token", token, nil).want(204)
		w.get("/repos/acme/widgets", token).want(401)
		token = w.token()
		w.sim.RevokeTokens(w.inst)
		w.get("/repos/acme/widgets", token).want(401)
	})
	t.Run("lose what the installation loses", func(t *testing.T) {
		token := w.token()
		w.do(w.sim.GrantPermissions(w.inst, map[string]string{"contents": "read"}))
		defer func() { w.do(w.sim.AcceptPermissions(w.inst)) }()
		w.get("/repos/acme/widgets/pulls", token).want(403)
	})
}

func TestASuspendedInstallation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	token := w.token()
	w.do(w.sim.SuspendInstallation(w.inst))
	t.Run("mints no token and says why", func(t *testing.T) {
		r := w.call("POST", fmt.Sprintf("/app/installations/%d/access_tokens", w.inst), w.jwt(), nil).want(403)
		if r.str("message") != "This installation has been suspended" {
			t.Errorf("message %s", r.raw)
		}
	})
	t.Run("is refused with an old token", func(t *testing.T) { w.get("/repos/acme/widgets", token).want(403) })
	t.Run("is still listed", func(t *testing.T) {
		if r := w.get("/app/installations", w.jwt()).want(200); r.at(0, "suspended_at") == nil {
			t.Errorf("suspended_at is null: %s", r.raw)
		}
	})
	t.Run("is sent nothing but the suspension itself", func(t *testing.T) {
		w.settle()
		w.hook.clear()
		w.pull(nil)
		w.settle()
		if names := w.hook.names(); len(names) != 0 {
			t.Errorf("sent %v", names)
		}
		w.do(w.sim.UnsuspendInstallation(w.inst))
		w.settle()
		if names := w.hook.names(); !slices.Equal(names, []string{"installation.unsuspend"}) {
			t.Errorf("sent %v", names)
		}
	})
}

func TestPermissionsOfRoutes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.pull(nil)
	head := w.sim.Head(repoName, n)
	scoped := func(permissions map[string]string) string {
		return w.call("POST", fmt.Sprintf("/app/installations/%d/access_tokens", w.inst), w.jwt(), map[string]any{"permissions": permissions}).want(201).str("token")
	}
	only := map[string]string{}
	for name, level := range githubsim.DefaultPermissions() {
		only[name] = scoped(map[string]string{name: level})
	}
	run := map[string]any{"name": "gate", "head_sha": head}
	for _, c := range []struct {
		method, path string
		body         any
		need         []string // any of them alone is enough
	}{
		{"GET", "/repos/acme/widgets", nil, []string{"metadata", "contents", "checks", "members", "pull_requests", "merge_queues"}},
		{"GET", "/repos/acme/widgets/pulls", nil, []string{"pull_requests"}},
		{"GET", fmt.Sprintf("/repos/acme/widgets/pulls/%d", n), nil, []string{"pull_requests", "contents"}},
		{"GET", fmt.Sprintf("/repos/acme/widgets/pulls/%d/files", n), nil, []string{"pull_requests"}},
		{"GET", fmt.Sprintf("/repos/acme/widgets/pulls/%d/reviews", n), nil, []string{"pull_requests"}},
		{"GET", "/repos/acme/widgets/commits/" + head + "/check-runs", nil, []string{"checks"}},
		{"POST", "/repos/acme/widgets/check-runs", run, []string{"checks"}},
		{"GET", "/repos/acme/widgets/contents/README.md", nil, []string{"contents"}},
		{"GET", "/repos/acme/widgets/codeowners/errors", nil, []string{"contents"}},
		{"GET", "/repos/acme/widgets/git/trees/main", nil, []string{"contents"}},
		{"GET", "/repos/acme/widgets/compare/main...main", nil, []string{"contents"}},
		{"GET", "/orgs/acme/teams/core", nil, []string{"members"}},
		{"GET", "/orgs/acme/teams/core/members", nil, []string{"members"}},
		{"GET", "/users/alice", nil, []string{"metadata", "contents", "checks", "members", "pull_requests", "merge_queues"}},
		{"POST", fmt.Sprintf("/repos/acme/widgets/pulls/%d/reviews", n), map[string]any{"event": "APPROVE"}, nil},
	} {
		t.Run(c.method+" "+c.path, func(t *testing.T) {
			for name, token := range only {
				r := w.call(c.method, c.path, token, c.body)
				if allowed := r.status < 300; allowed != slices.Contains(c.need, name) {
					t.Errorf("with %s alone: %d", name, r.status)
				}
			}
		})
	}
	t.Run("what is accepted is said in a header", func(t *testing.T) {
		r := w.get(fmt.Sprintf("/repos/acme/widgets/pulls/%d", n), w.token()).want(200)
		if got := r.header.Get("X-Accepted-Github-Permissions"); got != "pull_requests=read; contents=read" {
			t.Errorf("X-Accepted-GitHub-Permissions %q", got)
		}
	})
	t.Run("a repository outside the installation is 404", func(t *testing.T) {
		w.sim.AddOrg("octo-org")
		w.sim.AddRepo("octo-org", "secret", map[string]string{"a": "b\n"})
		w.get("/repos/octo-org/secret", w.token()).want(404)
	})
	t.Run("GraphQL says the same with status 200", func(t *testing.T) {
		q := `{ repository(owner: "acme", name: "widgets") { pullRequest(number: 1) { number } } }`
		r := w.graphql(only["contents"], q, nil).want(200)
		if r.str("errors", 0, "message") != "Resource not accessible by integration" || r.str("errors", 0, "type") != "FORBIDDEN" {
			t.Errorf("answer %s", r.raw)
		}
	})
}

func TestAPIVersions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.pull(nil)
	path, token := fmt.Sprintf("/repos/acme/widgets/pulls/%d", n), w.token()
	has := func(r reply, key string) bool { _, is := r.obj()[key]; return is }
	t.Run("2022-11-28 is the default and is named in the answer", func(t *testing.T) {
		r := w.get(path, token).want(200)
		if !has(r, "merge_commit_sha") || !has(r, "assignee") || r.header.Get("X-Github-Api-Version-Selected") != "2022-11-28" {
			t.Errorf("version %s: %s", r.header.Get("X-Github-Api-Version-Selected"), r.raw)
		}
	})
	t.Run("2026-03-10 drops merge_commit_sha, assignee, has_downloads and rate", func(t *testing.T) {
		r := w.get(path, token, "X-GitHub-Api-Version", "2026-03-10").want(200)
		if has(r, "merge_commit_sha") || has(r, "assignee") || at(r.at("base"), "repo", "has_downloads") != nil {
			t.Errorf("still there: %s", r.raw)
		}
		if has(w.get("/rate_limit", token, "X-GitHub-Api-Version", "2026-03-10").want(200), "rate") {
			t.Error("rate is still there")
		}
	})
	t.Run("an unknown version is 400", func(t *testing.T) { w.get(path, token, "X-GitHub-Api-Version", "2020-01-01").want(400) })
	t.Run("Enterprise Server's prefix leads to the same routes", func(t *testing.T) {
		w.get("/api/v3"+path, token).want(200)
		w.call("POST", "/api/graphql", token, map[string]any{"query": "{ rateLimit { cost } }"}).want(200)
	})
}
