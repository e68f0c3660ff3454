package setup

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/countersign/countersign/pkg/ghclient"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("setup").Parse(pageText))

// StateLife is how long a person may take at GitHub (RG-476).
const StateLife = 600 * time.Second

const cookieName = "countersign_setup"

// Options are what the page needs. Enabled false answers 404 to everything (RG-476).
type Options struct {
	Enabled bool
	GitHub  ghclient.Config
	// Path is where the page is; Path + "/callback" is where GitHub sends the browser back to.
	Path string
	// BaseURL is the scheme and host under which the browser reaches us.
	BaseURL string
	// ConsoleURL is the console's base URL, whose sign-in comes back to it; "" without a console.
	ConsoleURL string
	// Org, Name and Webhook fill the form.
	Org, Name, Webhook string
	BreakGlass         bool
	// Key signs states; nil is a key of this process.
	Key []byte
	Now func() time.Time
	// Store keeps the credentials and returns where. Nil shows them once instead.
	Store func(ghclient.AppCredentials) (where string, err error)
	// Transport makes the exchange; nil is a transport of its own.
	Transport http.RoundTripper
}

// Handler serves the page and the way back. No request is logged: the way back has a one-use code in its query (RG-478).
type Handler struct {
	Options
	web string
}

// New checks the options. It sends nothing.
func New(o Options) (*Handler, error) {
	web, err := ghclient.WebURL(o.GitHub.APIURL)
	if err != nil {
		return nil, err
	}
	if o.Key == nil {
		o.Key = []byte(randomText())
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Handler{Options: o, web: web}, nil
}

// view is what the template shows.
type view struct {
	Nonce, Path, Org, Name, Webhook string
	Problem                         string
	Manifest                        *ghclient.Manifest
	ManifestJSON, Action            string
	Made                            *ghclient.AppCredentials
	StoredIn                        string
	Lacks                           []string
}

func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	callback := r.URL.Path == h.Path+"/callback"
	switch {
	case !h.Enabled || !callback && r.URL.Path != h.Path:
		http.NotFound(w, r)
	case r.Method != http.MethodGet:
		w.Header().Set("Allow", http.MethodGet)
		http.Error(w, "use GET", http.StatusMethodNotAllowed)
	case callback:
		h.back(w, r)
	default:
		h.form(w, r)
	}
}

// The forms that GitHub allows; what is more is GitHub's to refuse.
var orgForm = regexp.MustCompile(`^[A-Za-z0-9](?:[A-Za-z0-9-]{0,38})$`)

// form asks, and with an answer shows the button that posts the manifest to GitHub.
func (h *Handler) form(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	v := view{Path: h.Path, Org: h.Org, Name: h.Name, Webhook: h.Webhook}
	if !q.Has("webhook") {
		h.show(w, http.StatusOK, v)
		return
	}
	v.Org, v.Name, v.Webhook = strings.TrimSpace(q.Get("org")), strings.TrimSpace(q.Get("name")), strings.TrimSpace(q.Get("webhook"))
	if v.Problem = problem(v); v.Problem != "" {
		h.show(w, http.StatusUnprocessableEntity, v)
		return
	}
	m := h.manifest(v)
	body, err := json.Marshal(m)
	if err != nil {
		v.Problem = "the manifest cannot be written"
		h.show(w, http.StatusInternalServerError, v)
		return
	}
	token, nonce := newState(h.Key, h.Now(), StateLife)
	http.SetCookie(w, &http.Cookie{
		Name: cookieName, Value: nonce, Path: h.Path, MaxAge: int(StateLife.Seconds()), HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: strings.HasPrefix(h.BaseURL, "https:"),
	})
	v.Manifest, v.ManifestJSON, v.Action = &m, string(body), h.web+"/settings/apps/new?state="+url.QueryEscape(token)
	if v.Org != "" {
		v.Action = h.web + "/organizations/" + v.Org + "/settings/apps/new?state=" + url.QueryEscape(token)
	}
	h.show(w, http.StatusOK, v)
}

func problem(v view) string {
	hook, err := url.Parse(v.Webhook)
	switch {
	case v.Org != "" && !orgForm.MatchString(v.Org):
		return "the organization is not a login: give its name as it stands in github.com/NAME"
	case v.Name == "" || len([]rune(v.Name)) > 34:
		return "the name of an App has 1 to 34 characters"
	case err != nil || hook.Host == "" || hook.User != nil || hook.Scheme != "https" && hook.Scheme != "http":
		return "the webhook address is not a URL: give where GitHub reaches ingress, such as https://countersign.example/webhooks/github"
	}
	return ""
}

func (h *Handler) manifest(v view) ghclient.Manifest {
	hook, _ := url.Parse(v.Webhook) // checked by problem
	home := (&url.URL{Scheme: hook.Scheme, Host: hook.Host}).String()
	if h.ConsoleURL != "" {
		home = h.ConsoleURL
	}
	m := ghclient.NewManifest(v.Name, home, v.Webhook, h.BaseURL+h.Path+"/callback", h.BreakGlass)
	if h.ConsoleURL != "" {
		m.CallbackURLs = []string{strings.TrimSuffix(h.ConsoleURL, "/") + "/auth/callback"}
	}
	return m
}

// back is where GitHub sends the browser: it exchanges the code and stores or shows what comes out.
func (h *Handler) back(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	v := view{Path: h.Path}
	nonce := ""
	if c, err := r.Cookie(cookieName); err == nil {
		nonce = c.Value
	}
	status := http.StatusOK
	switch code, token := q.Get("code"), q.Get("state"); {
	case code == "" || token == "":
		status, v.Problem = http.StatusUnprocessableEntity, "GitHub sent no code or no state: start again"
	case checkState(h.Key, h.Now(), token, nonce) != nil:
		status, v.Problem = http.StatusBadRequest, errState.Error()
	default:
		status = h.convert(r.Context(), code, &v)
	}
	http.SetCookie(w, &http.Cookie{Name: cookieName, Path: h.Path, MaxAge: -1, HttpOnly: true, SameSite: http.SameSiteLaxMode})
	h.show(w, status, v)
}

func (h *Handler) convert(ctx context.Context, code string, v *view) int {
	made, err := ghclient.ConvertManifest(ctx, h.GitHub, h.Transport, code)
	if err != nil {
		v.Problem = "GitHub did not hand out the credentials (" + err.Error() + "): a code works once and within the hour; start again"
		return http.StatusBadRequest
	}
	v.Lacks = Lacks(made, h.BreakGlass)
	if h.Store != nil {
		if v.StoredIn, err = h.Store(made); err != nil {
			v.Problem = fmt.Sprintf("the App %s is registered, and its credentials could not be stored (%v): delete it at %s, or generate a new key there", made.Name, err, made.HTMLURL)
			return http.StatusInternalServerError
		}
	}
	v.Made = &made
	return http.StatusOK
}

// Lacks names each permission and event that was asked for and not given.
func Lacks(made ghclient.AppCredentials, breakGlass bool) []string {
	var lacks []string
	for _, name := range slices.Sorted(maps.Keys(ghclient.AppPermissions())) {
		want, got := ghclient.AppPermissions()[name], made.Permissions[name]
		if got != want && got != "write" && got != "admin" {
			lacks = append(lacks, "the permission "+name+": "+want)
		}
	}
	for _, event := range ghclient.NewManifest("", "", "", "", breakGlass).Events {
		if !slices.Contains(made.Events, event) {
			lacks = append(lacks, "the event "+event)
		}
	}
	return lacks
}

func (h *Handler) show(w http.ResponseWriter, status int, v view) {
	v.Nonce = randomText()
	head := w.Header()
	head.Set("Content-Type", "text/html; charset=utf-8")
	head.Set("Cache-Control", "no-store")
	head.Set("Content-Security-Policy", "default-src 'none'; style-src 'nonce-"+v.Nonce+"'; form-action 'self' "+h.web+"; base-uri 'none'; frame-ancestors 'none'")
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Referrer-Policy", "no-referrer")
	w.WriteHeader(status)
	_ = page.Execute(w, v) // the reader has gone: nobody is left to tell
}
