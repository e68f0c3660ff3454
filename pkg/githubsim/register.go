package githubsim

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"
)

// What GitHub does with a person's browser: registering an App from a manifest, and signing in with an App. The stand-in asks for no
// confirmation and knows no password: whoever posts a manifest has confirmed it, and a person is whom the request names.

// pendingCode is a code on its way through the browser.
type pendingCode struct {
	manifest  *manifest // of an App to be made
	appID     int64     // of a sign-in
	userID    int64
	redirect  string
	challenge string // PKCE, S256
	expires   time.Time
}

// manifest is what GitHub reads of an App's manifest.
type manifest struct {
	Name string `json:"name"`
	URL  string `json:"url"`
	Hook struct {
		URL    string `json:"url"`
		Active bool   `json:"active"`
	} `json:"hook_attributes"`
	Redirect    string            `json:"redirect_url"`
	Callbacks   []string          `json:"callback_urls"`
	Permissions map[string]string `json:"default_permissions"`
	Events      []string          `json:"default_events"`

	owner string
}

const (
	manifestLife = time.Hour        // GitHub: all three steps within an hour
	signInLife   = 10 * time.Minute // GitHub: a code ends after ten minutes
	maxAppName   = 34
)

// RegisterManifest is a person who confirms the manifest of a new App on GitHub's page; it returns the code that the browser comes back
// with. owner is the organisation or the user who is to own the App.
func (s *Sim) RegisterManifest(owner string, text []byte) (code string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := &manifest{owner: owner}
	switch {
	case json.Unmarshal(text, m) != nil:
		return "", errors.New("the manifest is not JSON")
	case m.URL == "" || m.Redirect == "":
		return "", errors.New("the manifest lacks url or redirect_url")
	case m.Name == "" || len([]rune(m.Name)) > maxAppName:
		return "", errors.New("name is missing or too long (maximum is 34 characters)")
	case s.world.appBySlug(slugOf(m.Name)) != nil:
		return "", errors.New("name has already been taken")
	}
	return s.newCode(&pendingCode{manifest: m, redirect: m.Redirect, expires: s.now().Add(manifestLife)}), nil
}

func (s *Sim) newCode(p *pendingCode) string {
	code := hex.EncodeToString(randomBytes(20))
	s.codes[code] = p
	return code
}

// takeCode uses a code up; nil when it is unknown, used or too old.
func (s *Sim) takeCode(code string) *pendingCode {
	p := s.codes[code]
	delete(s.codes, code)
	if p == nil || !s.now().Before(p.expires) {
		return nil
	}
	return p
}

var notSlug = regexp.MustCompile(`[^a-z0-9]+`)

func slugOf(name string) string {
	return strings.Trim(notSlug.ReplaceAllString(strings.ToLower(name), "-"), "-")
}

// convertManifest makes the App and shows its secrets, once. It needs no credential: the code is one.
func convertManifest(c *call) answer {
	p := c.s.takeCode(c.vars["code"])
	if p == nil || p.manifest == nil {
		return refused(errNotFound)
	}
	m := p.manifest
	made := completed(App{
		Slug: slugOf(m.Name), Name: m.Name, Owner: m.owner, WebhookURL: m.Hook.URL, WebhookSecret: hex.EncodeToString(randomBytes(20)),
		Permissions: m.Permissions, Events: m.Events,
	})
	if !m.Hook.Active {
		made.WebhookURL = ""
	}
	err := c.s.mutateLocked(func(x *mutation) error { made = x.addApp(made); return nil })
	if err != nil {
		return failed(err)
	}
	o := c.renderer().app(c.s.world.apps[made.ID])
	o["client_secret"], o["webhook_secret"], o["pem"] = made.ClientSecret, made.WebhookSecret, string(made.PEM)
	return answer{status: http.StatusCreated, body: o}
}

// browserPage serves what GitHub serves to a browser in these round trips.
func (s *Sim) browserPage(w http.ResponseWriter, r *http.Request, path string) bool {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case r.Method == http.MethodPost && path == "/settings/apps/new":
		s.registerPage(w, r, "app-owner")
	case r.Method == http.MethodPost && len(parts) == 5 && parts[0] == "organizations" && strings.Join(parts[2:], "/") == "settings/apps/new":
		s.registerPage(w, r, parts[1])
	case r.Method == http.MethodGet && path == "/login/oauth/authorize":
		s.authorizePage(w, r)
	case r.Method == http.MethodPost && path == "/login/oauth/access_token":
		s.exchange(w, r)
	default:
		return false
	}
	return true
}

func (s *Sim) registerPage(w http.ResponseWriter, r *http.Request, owner string) {
	code, err := s.RegisterManifest(owner, []byte(r.FormValue("manifest")))
	if err != nil {
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		return
	}
	s.mu.Lock()
	back := s.codes[code].redirect
	s.mu.Unlock()
	sendBack(w, r, back, code, r.URL.Query().Get("state"))
}

// sendBack redirects the browser with its code.
func sendBack(w http.ResponseWriter, r *http.Request, to, code, state string) {
	u, err := url.Parse(to)
	if err != nil {
		http.Error(w, "the redirect is no URL", http.StatusUnprocessableEntity)
		return
	}
	q := u.Query()
	q.Set("code", code)
	if state != "" {
		q.Set("state", state)
	}
	u.RawQuery = q.Encode()
	http.Redirect(w, r, u.String(), http.StatusFound)
}
