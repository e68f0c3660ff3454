package ghclient

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/countersign/countersign/pkg/githubsim"
)

// visitors is a GitHub with people and an App that they can sign in with.
func visitors(t *testing.T) (*githubsim.Sim, githubsim.Example, *People) {
	t.Helper()
	sim := githubsim.New(githubsim.Options{})
	t.Cleanup(sim.Close)
	e := githubsim.AddExample(sim, githubsim.ExampleOptions{})
	people, err := NewPeople(WebConfig{APIURL: sim.URL()}, SignInConfig{ClientID: e.App.ClientID, ClientSecret: e.App.ClientSecret}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return sim, e, people
}

func TestPeople(t *testing.T) {
	t.Parallel()
	t.Run("the web flow ends in a token, with PKCE, once", func(t *testing.T) {
		t.Parallel()
		_, _, people := visitors(t)
		sum := sha256.Sum256([]byte("verifier"))
		const back = "http://127.0.0.1/auth/callback"
		u := people.AuthorizeURL(back, "state", base64.RawURLEncoding.EncodeToString(sum[:])) + "&login=alice"
		browser := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		code := func() string {
			resp, err := browser.Get(u)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			to, err := url.Parse(resp.Header.Get("Location"))
			if err != nil || to.Query().Get("state") != "state" || !strings.HasPrefix(to.String(), back) {
				t.Fatalf("sent to %v, %v", to, err)
			}
			return to.Query().Get("code")
		}
		first := code()
		token, err := people.Exchange(t.Context(), first, "verifier", back)
		if err != nil {
			t.Fatal(err)
		}
		if who, err := people.Viewer(t.Context(), token); err != nil || who.Login != "alice" {
			t.Errorf("%+v, %v", who, err)
		}
		if _, err := people.Exchange(t.Context(), first, "verifier", back); !errors.Is(err, ErrUnauthorized) {
			t.Errorf("a second exchange: %v", err)
		}
		if _, err := people.Exchange(t.Context(), code(), "another", back); !errors.Is(err, ErrUnauthorized) {
			t.Errorf("another verifier: %v", err)
		}
		if text := fmt.Sprintf("%v %+v %#v %s", token, token, token, token); strings.Contains(text, "ghu_") {
			t.Errorf("the token is printed: %s", text)
		}
	})
	t.Run("a person sees what GitHub shows them", func(t *testing.T) {
		t.Parallel()
		sim, e, people := visitors(t)
		secret := sim.AddRepo("acme", "secret", map[string]string{"a": "b"})
		sim.AddUser("mallory")
		for login, want := range map[string][]string{"grace": {"widgets", ".github", "secret"}, "alice": {"widgets"}, "mallory": nil} {
			token := NewPersonToken(sim.AppUserToken(e.App.ID, login))
			list, err := people.Installations(t.Context(), token)
			if err != nil || len(list) != min(1, len(want)) {
				t.Errorf("%s: installations %v, %v", login, list, err)
				continue
			}
			if want == nil {
				continue
			}
			repos, err := people.Repositories(t.Context(), token, list[0])
			if err != nil || len(repos) != len(want) || slices.Contains(repos, secret) != slices.Contains(want, "secret") {
				t.Errorf("%s: repositories %v, %v; want %v", login, repos, err, want)
			}
		}
		for login, want := range map[string]bool{"alice": true, "carol": false} {
			in, err := people.InTeam(t.Context(), NewPersonToken(sim.AppUserToken(e.App.ID, login)), "acme", "core", login)
			if err != nil || in != want {
				t.Errorf("%s in acme/core: %v, %v", login, in, err)
			}
		}
		if _, err := people.Installations(t.Context(), PersonToken{}); !errors.Is(err, ErrUnauthorized) {
			t.Errorf("nobody: %v", err)
		}
		if _, err := people.Installations(t.Context(), NewPersonToken("ghu_nothing")); !errors.Is(err, ErrUnauthorized) {
			t.Errorf("a token that is unknown: %v", err)
		}
	})
	t.Run("a list that ends too early is an error", func(t *testing.T) {
		t.Parallel()
		s := newScript(t)
		s.answers("GET /user/installations", 200, `{"total_count":2,"installations":[{"id":1},{"id":"x"}]}`)
		people, err := NewPeople(WebConfig{APIURL: s.srv.URL}, SignInConfig{ClientID: "a", ClientSecret: "b"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if list, err := people.Installations(t.Context(), NewPersonToken("t")); !errors.Is(err, ErrMalformed) {
			t.Errorf("%v, %v", list, err)
		}
	})
}

func TestConvertManifest(t *testing.T) {
	t.Parallel()
	const good = `{"id":7,"slug":"gate","name":"Gate","html_url":"https://github.example/apps/gate","client_id":"Iv1","client_secret":"cs","webhook_secret":"ws","pem":%q,"permissions":{},"events":[]}`
	for name, c := range map[string]struct {
		status int
		body   string
		want   error
	}{
		"good":          {201, fmt.Sprintf(good, testKeyPEM()), nil},
		"unknown code":  {404, `{"message":"Not Found"}`, ErrNotFound},
		"no key in it":  {201, fmt.Sprintf(good, "nonsense-secret"), ErrMalformed},
		"not an object": {201, `[]`, ErrMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScript(t)
			s.answers("POST /app-manifests/one-use-code/conversions", c.status, c.body)
			made, err := ConvertManifest(t.Context(), Config{APIURL: s.srv.URL}, nil, "one-use-code")
			if !errors.Is(err, c.want) || c.want == nil && (err != nil || made.ID != 7 || made.ClientSecret != "cs") {
				t.Errorf("%v, %v", made, err)
			}
			if err != nil && (strings.Contains(err.Error(), "one-use-code") || strings.Contains(err.Error(), "nonsense-secret")) {
				t.Errorf("the error tells a secret: %v", err)
			}
			if strings.Contains(fmt.Sprintf("%v %#v", made, made), "cs") && strings.Contains(fmt.Sprintf("%#v", made), `"cs"`) {
				t.Error("credentials print their secrets")
			}
		})
	}
}

func TestWebURL(t *testing.T) {
	t.Parallel()
	for rest, want := range map[string]string{
		"https://api.github.com/": "https://github.com", "": "https://github.com", "https://api.octo.ghe.com/": "https://octo.ghe.com",
		"https://git.example/api/v3/": "https://git.example", "https://git.example/prefix/api/v3": "https://git.example/prefix",
		"http://127.0.0.1:8080": "http://127.0.0.1:8080", "https://proxy.example/": "",
	} {
		if got, err := WebURL(rest); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v; want %q", rest, got, err, want)
		}
	}
}

func TestRequiredChecks(t *testing.T) {
	t.Parallel()
	sim := githubsim.New(githubsim.Options{})
	t.Cleanup(sim.Close)
	e := githubsim.AddExample(sim, githubsim.ExampleOptions{})
	app, err := NewApp(Config{APIURL: sim.URL(), AppID: e.App.ID, PrivateKey: string(e.App.PEM)}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	repo := Repo{Owner: "acme", Name: "widgets"}
	c := app.Client(e.Installation, Permissions{"contents": "read"})
	if got, err := c.RequiredChecks(t.Context(), repo, "main"); err != nil || len(got) != 0 {
		t.Errorf("none: %v, %v", got, err)
	}
	sim.RequireCheck(e.Repository, githubsim.RequiredCheck{Branch: "main", Context: "gate", AppID: 5})
	sim.RequireCheck(e.Repository, githubsim.RequiredCheck{Branch: "main", Context: "lint"})
	sim.RequireCheck(e.Repository, githubsim.RequiredCheck{Branch: "main", Context: "gate", AppID: 6, Ruleset: true})
	sim.RequireCheck(e.Repository, githubsim.RequiredCheck{Branch: "other", Context: "x"})
	got, err := c.RequiredChecks(t.Context(), repo, "main")
	want := []RequiredCheck{{"gate", 5, "branch protection"}, {"lint", 0, "branch protection"}, {"gate", 6, "ruleset"}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
}
