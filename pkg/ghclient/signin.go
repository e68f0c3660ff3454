package ghclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

const (
	opSignIn        operation = "oauth.access_token" //nolint:gosec // the name of an operation
	opViewer        operation = "users.get_authenticated"
	opViewerInstall operation = "apps.list_installations_for_user"
	opViewerRepos   operation = "apps.list_repositories_for_user"
)

// WebConfig is how to reach GitHub without the App's key.
type WebConfig struct {
	APIURL         string        `env:"COUNTERSIGN_GITHUB_API_URL" envDefault:"https://api.github.com/" desc:"REST base URL. GitHub Enterprise Server: https://HOST/api/v3/. Data residency: https://api.NAME.ghe.com/."`
	APIVersion     string        `env:"COUNTERSIGN_GITHUB_API_VERSION" envDefault:"2022-11-28" desc:"Value of X-GitHub-Api-Version. 2022-11-28 and 2026-03-10 are tested."`
	RequestTimeout time.Duration `env:"COUNTERSIGN_GITHUB_REQUEST_TIMEOUT" envDefault:"20s" desc:"Wall-clock bound of one request, a token exchange and the retry after a 401 included."`
}

// SignInConfig is how people sign in with the App. It grants the App nothing.
type SignInConfig struct {
	ClientID     string `env:"COUNTERSIGN_GITHUB_CLIENT_ID" desc:"Client id of the GitHub App, for people's sign-in."`
	ClientSecret string `env:"COUNTERSIGN_GITHUB_CLIENT_SECRET" secret:"true" desc:"Client secret of the GitHub App, for people's sign-in."`
}

// PersonToken is what a person let the App do for them. It prints as nothing.
type PersonToken struct{ text string }

// NewPersonToken takes a token's text back from where Reveal's was kept.
func NewPersonToken(text string) PersonToken { return PersonToken{text: text} }

// Reveal is the token's text, to be kept encrypted and nowhere else.
func (t PersonToken) Reveal() string { return t.text }

func (PersonToken) String() string   { return "[token]" }
func (PersonToken) GoString() string { return "[token]" }

// People signs people in by GitHub's web flow for Apps and asks GitHub what they can see. It holds no key of the App.
// https://docs.github.com/apps/creating-github-apps/authenticating-with-a-github-app/generating-a-user-access-token-for-a-github-app
type People struct {
	client *personClient
	signIn SignInConfig
	web    string
}

// NewPeople checks the settings. It sends nothing.
func NewPeople(cfg WebConfig, signIn SignInConfig, transport http.RoundTripper) (*People, error) {
	if signIn.ClientID == "" || signIn.ClientSecret == "" {
		return nil, errors.New("COUNTERSIGN_GITHUB_CLIENT_ID and COUNTERSIGN_GITHUB_CLIENT_SECRET are needed for sign-in: both are on the App's settings page")
	}
	client, err := newPersonClient(Config{APIURL: cfg.APIURL, APIVersion: cfg.APIVersion, RequestTimeout: cfg.RequestTimeout}, transport)
	if err != nil {
		return nil, err
	}
	web, err := WebURL(cfg.APIURL)
	if err != nil {
		return nil, err
	}
	return &People{client: client, signIn: signIn, web: web}, nil
}

// AuthorizeURL is where the browser is sent. challenge is the S256 challenge of RFC 7636; a server that knows no PKCE ignores it.
func (p *People) AuthorizeURL(redirect, state, challenge string) string {
	q := url.Values{"client_id": {p.signIn.ClientID}, "redirect_uri": {redirect}, "state": {state}, "code_challenge": {challenge}, "code_challenge_method": {"S256"}}
	return p.web + "/login/oauth/authorize?" + q.Encode()
}

// WebURL is the address of GitHub's pages, without a trailing slash.
func (p *People) WebURL() string { return p.web }

// Exchange turns the code that came back into the person's token. It works once a code. Errors: ErrUnauthorized for a code or a secret
// that GitHub refuses.
func (p *People) Exchange(ctx context.Context, code, verifier, redirect string) (PersonToken, error) {
	q := url.Values{"client_id": {p.signIn.ClientID}, "client_secret": {p.signIn.ClientSecret}, "code": {code}, "redirect_uri": {redirect}, "code_verifier": {verifier}}
	c := call{op: opSignIn, method: http.MethodPost, target: p.web + "/login/oauth/access_token", body: []byte(q.Encode()), accept: "application/json", form: true}
	got, err := p.client.send(ctx, c, "")
	if err != nil {
		return PersonToken{}, doing(err, "sign in")
	}
	root, err := parseObject(got.body)
	if err != nil {
		return PersonToken{}, malformed(opSignIn, err)
	}
	if root.has("error") { // a refusal is a 200
		return PersonToken{}, doing(&apiError{sentinel: ErrUnauthorized, op: opSignIn, text: clip(root.at("error").optionalText())}, "sign in")
	}
	text := root.at("access_token").text()
	if root.read.err != nil {
		return PersonToken{}, malformed(opSignIn, root.read.err)
	}
	return PersonToken{text: text}, nil
}

// Viewer is who the token is of.
func (p *People) Viewer(ctx context.Context, t PersonToken) (Actor, error) {
	root, err := p.object(ctx, t, opViewer, "user", nil)
	if err != nil {
		return Actor{}, doing(err, "read who signed in")
	}
	who := Actor{ID: root.at("id").id(), Login: root.at("login").text(), Type: root.at("type").text()}
	if root.read.err != nil {
		return Actor{}, malformed(opViewer, root.read.err)
	}
	return who, nil
}

// Installations are the ids of the App's installations in which the person can see something.
func (p *People) Installations(ctx context.Context, t PersonToken) ([]int64, error) {
	ids, err := p.ids(ctx, t, opViewerInstall, "user/installations", "installations")
	return ids, doing(err, "list what the person can see")
}

// Repositories are the ids of an installation's repositories that the person can see. Errors: ErrNotFound for an installation that is gone.
func (p *People) Repositories(ctx context.Context, t PersonToken, installation int64) ([]int64, error) {
	ids, err := p.ids(ctx, t, opViewerRepos, fmt.Sprintf("user/installations/%d/repositories", installation), "repositories")
	return ids, doing(err, "list what the person can see in installation %d", installation)
}

// InTeam reports whether the person is an active member of an organization's team. A team that the person may not know of is one that they
// are not in.
func (p *People) InTeam(ctx context.Context, t PersonToken, org, slug, login string) (bool, error) {
	path, err := segments("orgs", org, "teams", slug, "memberships", login)
	if err != nil {
		return false, err
	}
	root, err := p.object(ctx, t, opTeamMembership, path, nil)
	switch {
	case errors.Is(err, ErrNotFound), errors.Is(err, ErrForbidden):
		return false, nil
	case err != nil:
		return false, doing(err, "ask whether the person is in %s/%s", org, slug)
	}
	return root.at("state").optionalText() == MembershipActive, nil
}

func (p *People) object(ctx context.Context, t PersonToken, op operation, path string, query url.Values) (node, error) {
	if t.text == "" {
		return node{}, &apiError{sentinel: ErrUnauthorized, op: op, text: "nobody has signed in"}
	}
	got, err := p.client.send(ctx, call{op: op, method: http.MethodGet, path: path, query: query}, t.text)
	if err != nil {
		return node{}, err
	}
	root, err := parseObject(got.body)
	if err != nil {
		return node{}, malformed(op, err)
	}
	return root, nil
}

// maxPersonPages bounds a person's list: 10,000 elements. What is longer is an error, not a truncation.
const maxPersonPages = 100

// ids reads a whole list; the count that GitHub gives has to be met.
func (p *People) ids(ctx context.Context, t PersonToken, op operation, path, list string) ([]int64, error) {
	var all []int64
	for page := 1; page <= maxPersonPages; page++ {
		root, err := p.object(ctx, t, op, path, url.Values{"per_page": {strconv.Itoa(perPage)}, "page": {strconv.Itoa(page)}})
		if err != nil {
			return nil, err
		}
		items := root.at(list).list()
		for _, item := range items {
			all = append(all, item.object().at("id").id())
		}
		total := root.at("total_count").count()
		if root.read.err != nil {
			return nil, malformed(op, root.read.err)
		}
		if len(all) >= total || len(items) == 0 {
			return all, nil
		}
	}
	return nil, &apiError{sentinel: ErrTooLarge, op: op, text: fmt.Sprintf("more than %d entries", maxPersonPages*perPage)}
}
