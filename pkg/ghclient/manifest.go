package ghclient

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

const opConvert operation = "apps.convert_manifest"

// AppPermissions is what the App asks for: what the services need together, merge queues, and metadata, which every App has (RG-477).
// GitHub's words for them: https://docs.github.com/apps/sharing-github-apps/registering-a-github-app-from-a-manifest
func AppPermissions() Permissions {
	all := maps.Clone(EvaluatorPermissions)
	all["merge_queues"], all["metadata"] = "read", "read"
	return all
}

// NeededEvents are those without which a change is found by the reconciler only, late.
func NeededEvents() []string {
	return []string{"check_run", "label", "member", "membership", "organization", "pull_request", "pull_request_review", "push", "repository", "team", "team_add"}
}

// WantedEvents are those without which one feature is missing, and which.
func WantedEvents() map[string]string {
	return map[string]string{"merge_group": "merge queues are not evaluated", "issue_comment": "break-glass comments are not noticed"}
}

// Manifest is an App to be registered, in the form GitHub's page for it reads.
type Manifest struct {
	Name         string      `json:"name"`
	URL          string      `json:"url"`
	Hook         HookSetting `json:"hook_attributes"`
	RedirectURL  string      `json:"redirect_url"`
	CallbackURLs []string    `json:"callback_urls,omitempty"`
	Description  string      `json:"description"`
	Public       bool        `json:"public"`
	Permissions  Permissions `json:"default_permissions"`
	Events       []string    `json:"default_events"`
}

// HookSetting is where the App's webhooks go.
type HookSetting struct {
	URL    string `json:"url"`
	Active bool   `json:"active"`
}

// NewManifest is a private App with exactly the permissions and events that the services need (RG-477). breakGlass adds comments.
func NewManifest(name, home, webhook, redirect string, breakGlass bool) Manifest {
	events := append(NeededEvents(), "merge_group")
	if breakGlass {
		events = append(events, "issue_comment")
	}
	slices.Sort(events)
	return Manifest{
		Name: name, URL: home, Hook: HookSetting{URL: webhook, Active: true}, RedirectURL: redirect, Description: "Decides whether the owners of a change approved it.",
		Permissions: AppPermissions(), Events: events,
	}
}

// AppCredentials are what GitHub hands out once, when an App is registered. String and GoString show no secret.
type AppCredentials struct {
	ID            int64
	Slug, Name    string
	HTMLURL       string
	ClientID      string
	ClientSecret  string
	WebhookSecret string
	PEM           string
	Permissions   map[string]string
	Events        []string
}

func (c AppCredentials) String() string {
	return fmt.Sprintf("App %d (%s), secrets hidden", c.ID, c.Slug)
}
func (c AppCredentials) GoString() string { return c.String() }

// ConvertManifest exchanges the code that GitHub sends a person back with for the App's credentials. It needs no App yet: of cfg only the
// address, the version and the bound are used. It works once a code and within the hour. Errors: ErrNotFound for a code that is unknown,
// used or too old, ErrMalformed for an answer that lacks a credential; the code and what was answered are in none of them.
func ConvertManifest(ctx context.Context, cfg Config, transport http.RoundTripper, code string) (AppCredentials, error) {
	path, err := segments("app-manifests", code, "conversions")
	if err != nil {
		return AppCredentials{}, err
	}
	p, err := newPersonClient(cfg, transport)
	if err != nil {
		return AppCredentials{}, err
	}
	got, err := p.send(ctx, call{op: opConvert, method: http.MethodPost, path: path, write: true}, "")
	if err != nil {
		return AppCredentials{}, doing(err, "exchange the code for the App's credentials")
	}
	made, err := readCredentials(got.body)
	if err != nil {
		return AppCredentials{}, malformed(opConvert, err)
	}
	return made, nil
}

func readCredentials(body []byte) (AppCredentials, error) {
	root, err := parseObject(body)
	if err != nil {
		return AppCredentials{}, err
	}
	c := AppCredentials{
		ID: root.at("id").id(), Slug: root.at("slug").text(), Name: root.at("name").text(), HTMLURL: root.at("html_url").text(),
		ClientID: root.at("client_id").text(), ClientSecret: root.at("client_secret").text(), WebhookSecret: root.at("webhook_secret").optionalText(),
		PEM: root.at("pem").text(), Permissions: root.at("permissions").stringMap(),
	}
	for _, event := range root.at("events").list() {
		c.Events = append(c.Events, event.text())
	}
	if _, err := parseKey(c.PEM); err != nil && root.read.err == nil {
		root.at("pem").fail("an RSA private key in PEM")
	}
	return c, root.read.err
}

// personClient makes requests without the App's key: as nobody, or with a person's token. Nothing is cached, so that nothing of one person
// can be shown to another.
type personClient struct {
	app *App
}

func newPersonClient(cfg Config, transport http.RoundTripper) (*personClient, error) {
	cfg = cfg.withDefaults()
	rest, query, err := apiURLs(cfg.APIURL, cfg.GraphQLURL)
	if err != nil {
		return nil, err
	}
	if transport == nil {
		transport = http.DefaultTransport.(*http.Transport).Clone()
	}
	return &personClient{app: &App{cfg: cfg, rest: rest, query: query, http: transport, now: time.Now}}, nil
}

func (p *personClient) send(ctx context.Context, c call, credential string) (answer, error) {
	bounded, cancel := context.WithTimeoutCause(ctx, p.app.cfg.RequestTimeout, errDeadline)
	defer cancel()
	req, err := p.app.request(bounded, c, credential)
	if err != nil {
		return answer{}, err
	}
	if credential == "" {
		req.Header.Del("Authorization")
	}
	got, err := p.app.roundTrip(req, c)
	switch {
	case err != nil:
		return answer{}, err
	case got.status < 200 || got.status > 299:
		return got, classify(c, got, p.app.now())
	}
	return got, wellFormed(c, got)
}

// WebURL is the address of GitHub's pages that belongs to a REST base URL: https://api.github.com/ → https://github.com,
// https://HOST/api/v3/ → https://HOST, https://api.NAME.ghe.com/ → https://NAME.ghe.com. It has no trailing slash.
func WebURL(rest string) (string, error) {
	base, _, err := apiURLs(Config{APIURL: rest}.withDefaults().APIURL, "")
	if err != nil {
		return "", err
	}
	web := url.URL{Scheme: base.Scheme, Host: base.Host}
	switch prefix, own := strings.CutSuffix(base.Path, "/api/v3/"); {
	case own:
		web.Path = prefix
	case strings.HasPrefix(base.Host, "api."):
		web.Host = strings.TrimPrefix(base.Host, "api.")
	case !loopback(base.Hostname()):
		return "", errors.New("COUNTERSIGN_GITHUB_API_URL does not tell where GitHub's pages are: use https://api.github.com/, https://HOST/api/v3/ or https://api.NAME.ghe.com/")
	}
	return strings.TrimSuffix(web.String(), "/"), nil
}
