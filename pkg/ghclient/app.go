package ghclient

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Config is how to reach GitHub and who we are there. Service configs embed it.
type Config struct {
	APIURL         string        `env:"COUNTERSIGN_GITHUB_API_URL" envDefault:"https://api.github.com/" desc:"REST base URL. GitHub Enterprise Server: https://HOST/api/v3/. The GraphQL URL follows from it."`
	AppID          int64         `env:"COUNTERSIGN_GITHUB_APP_ID" desc:"Numeric id of the GitHub App."`
	PrivateKey     string        `env:"COUNTERSIGN_GITHUB_PRIVATE_KEY" secret:"true" desc:"The App's RSA private key in PEM. A backslash followed by n stands for a line break."`
	APIVersion     string        `env:"COUNTERSIGN_GITHUB_API_VERSION" envDefault:"2022-11-28" desc:"Value of X-GitHub-Api-Version. 2022-11-28 and 2026-03-10 are tested."`
	RequestTimeout time.Duration `env:"COUNTERSIGN_GITHUB_REQUEST_TIMEOUT" envDefault:"20s" desc:"Wall-clock bound of one request, a token exchange and the retry after a 401 included."`
	MaxInFlight    int           `env:"COUNTERSIGN_GITHUB_MAX_IN_FLIGHT" envDefault:"32" desc:"Requests in flight at once in this process, over all installations. GitHub's own bound is 100 for an App."`
	PolicyPaths    []string      `env:"COUNTERSIGN_POLICY_PATHS" envDefault:".github/countersign.toml,.github/extra-codeowners.toml" desc:"Where a policy file is looked for, in this order. Two present files are an error of the policy."`
}

// Options are the collaborators of an App. All but Budget have a working zero value.
type Options struct {
	HTTP    http.RoundTripper
	Log     *slog.Logger
	Metrics prometheus.Registerer
	Now     func() time.Time
	Budget  BudgetStore
}

// BudgetStore is the durable pause of an installation, which all replicas of all services see (RG-144, RG-145).
type BudgetStore interface {
	// PausedUntil is the time before which the installation must not be asked; the zero time if it may.
	PausedUntil(ctx context.Context, installation int64) (time.Time, error)
	// Pause extends the pause to at least d from now. It never shortens one. It may run twice.
	Pause(ctx context.Context, installation int64, d time.Duration, reason string) error
}

// App speaks to GitHub as the App and hands out clients of its installations. It is safe for concurrent use.
type App struct{ cfg Config }

// Client speaks to GitHub as one installation, with a token narrowed to what the service may do. It is safe for concurrent use.
type Client struct{ app *App }

var errNotBuilt = errors.New("ghclient: not built yet")

// NewApp checks the configuration. It sends nothing.
func NewApp(cfg Config, opts Options) (*App, error) { return &App{cfg: cfg}, nil }

// Client is the client of one installation; it costs nothing until it is used.
func (a *App) Client(installation int64, p Permissions) *Client { return &Client{app: a} }

func (a *App) Identity(ctx context.Context) (AppIdentity, error)         { return AppIdentity{}, errNotBuilt }
func (a *App) Installations(ctx context.Context) ([]Installation, error) { return nil, errNotBuilt }

func (c *Client) Repository(ctx context.Context, r Repo) (RepositoryInfo, error) {
	return RepositoryInfo{}, errNotBuilt
}
func (c *Client) Repositories(ctx context.Context) ([]RepositoryInfo, error) { return nil, errNotBuilt }
func (c *Client) Pull(ctx context.Context, r Repo, number int) (Pull, error) {
	return Pull{}, errNotBuilt
}
func (c *Client) OpenPulls(ctx context.Context, r Repo, base string, page int) (pulls []Pull, next int, err error) {
	return nil, 0, errNotBuilt
}
func (c *Client) PullsOfCommit(ctx context.Context, r Repo, sha string) ([]PullSummary, error) {
	return nil, errNotBuilt
}
func (c *Client) Evidence(ctx context.Context, r Repo, number int) (Evidence, error) {
	return Evidence{}, errNotBuilt
}
func (c *Client) ChangedFiles(ctx context.Context, r Repo, number, want int) ([]ChangedFile, error) {
	return nil, errNotBuilt
}
func (c *Client) File(ctx context.Context, r Repo, ref, path string) (File, error) {
	return File{}, errNotBuilt
}
func (c *Client) CodeownersErrors(ctx context.Context, r Repo, ref string) ([]CodeownersError, error) {
	return nil, errNotBuilt
}
func (c *Client) Team(ctx context.Context, org, slug string) (Team, error) {
	return Team{}, errNotBuilt
}
func (c *Client) TeamRepositoryPermission(ctx context.Context, org, slug string, r Repo) (string, error) {
	return "", errNotBuilt
}
func (c *Client) TeamMembership(ctx context.Context, org, slug, login string) (state, role string, err error) {
	return "", "", errNotBuilt
}
func (c *Client) TeamMembers(ctx context.Context, org, slug string) ([]Actor, error) {
	return nil, errNotBuilt
}
func (c *Client) UserPermission(ctx context.Context, r Repo, login string) (string, error) {
	return "", errNotBuilt
}
func (c *Client) User(ctx context.Context, login string) (Actor, error) { return Actor{}, errNotBuilt }
func (c *Client) FindRun(ctx context.Context, r Repo, sha, name string) (run Run, found bool, err error) {
	return Run{}, false, errNotBuilt
}
func (c *Client) ListRuns(ctx context.Context, r Repo, sha, name string, filterAll bool) ([]Run, error) {
	return nil, errNotBuilt
}
func (c *Client) GetRun(ctx context.Context, r Repo, id int64) (Run, error) {
	return Run{}, errNotBuilt
}
func (c *Client) CreateRun(ctx context.Context, r Repo, spec RunSpec) (Run, error) {
	return Run{}, errNotBuilt
}
func (c *Client) UpdateRun(ctx context.Context, r Repo, id int64, spec RunSpec) (Run, error) {
	return Run{}, errNotBuilt
}
