package ghclient

import (
	"crypto/rsa"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// Config is how to reach GitHub and who we are there. Service configs embed it.
type Config struct {
	APIURL         string        `env:"COUNTERSIGN_GITHUB_API_URL" envDefault:"https://api.github.com/" desc:"REST base URL. GitHub Enterprise Server: https://HOST/api/v3/. Data residency: https://api.NAME.ghe.com/."`
	GraphQLURL     string        `env:"COUNTERSIGN_GITHUB_GRAPHQL_URL" desc:"GraphQL URL, where a proxy gives it another place than GitHub does. Empty: it follows from the REST base URL."`
	AppID          int64         `env:"COUNTERSIGN_GITHUB_APP_ID" desc:"Numeric id of the GitHub App."`
	PrivateKey     string        `env:"COUNTERSIGN_GITHUB_PRIVATE_KEY" secret:"true" desc:"The App's RSA private key in PEM. A backslash followed by n stands for a line break."`
	APIVersion     string        `env:"COUNTERSIGN_GITHUB_API_VERSION" envDefault:"2022-11-28" desc:"Value of X-GitHub-Api-Version. 2022-11-28 and 2026-03-10 are tested."`
	RequestTimeout time.Duration `env:"COUNTERSIGN_GITHUB_REQUEST_TIMEOUT" envDefault:"20s" desc:"Wall-clock bound of one request, a token exchange and the retry after a 401 included."`
	MaxInFlight    int           `env:"COUNTERSIGN_GITHUB_MAX_IN_FLIGHT" envDefault:"32" desc:"Requests in flight at once in this process, over all installations. GitHub's own bound is 100 for an App."`
	PolicyPaths    []string      `env:"COUNTERSIGN_POLICY_PATHS" envDefault:".github/countersign.toml,.github/extra-codeowners.toml" desc:"Where a policy file is looked for, in this order. Two present files are an error of the policy."`
	OrgRepository  string        `env:"COUNTERSIGN_ORG_POLICY_REPOSITORY" envDefault:".github" desc:"Name of the repository that holds an organization's policy."`
}

// withDefaults fills what a zero Config leaves open, so that a Config built in code means the same as one read from the environment.
func (c Config) withDefaults() Config {
	if c.APIURL == "" {
		c.APIURL = "https://api.github.com/"
	}
	if c.APIVersion == "" {
		c.APIVersion = "2022-11-28"
	}
	if c.RequestTimeout <= 0 {
		c.RequestTimeout = 20 * time.Second
	}
	if c.MaxInFlight <= 0 {
		c.MaxInFlight = 32
	}
	if len(c.PolicyPaths) == 0 {
		c.PolicyPaths = []string{".github/countersign.toml", ".github/extra-codeowners.toml"}
	}
	if c.OrgRepository == "" {
		c.OrgRepository = ".github"
	}
	return c
}

var (
	dateForm = regexp.MustCompile(`^\d{4}-\d{2}-\d{2}$`)
	nameForm = regexp.MustCompile(`^[A-Za-z0-9._-]{1,100}$`)
)

// Validate refuses what cannot work and names the setting and the mend. What was given as a key is in no error.
func (c Config) Validate() error {
	c = c.withDefaults()
	var errs []error
	if c.AppID <= 0 {
		errs = append(errs, errors.New("COUNTERSIGN_GITHUB_APP_ID is not set: give the App's numeric id, shown on its settings page"))
	}
	if _, err := parseKey(c.PrivateKey); err != nil {
		errs = append(errs, err)
	}
	if _, _, err := apiURLs(c.APIURL, c.GraphQLURL); err != nil {
		errs = append(errs, err)
	}
	if !dateForm.MatchString(c.APIVersion) {
		errs = append(errs, fmt.Errorf("COUNTERSIGN_GITHUB_API_VERSION is %q: versions are dates, write 2022-11-28 or 2026-03-10", clip(c.APIVersion)))
	}
	if c.RequestTimeout < 10*time.Millisecond || c.RequestTimeout > 5*time.Minute {
		errs = append(errs, fmt.Errorf("COUNTERSIGN_GITHUB_REQUEST_TIMEOUT is %s: use 10ms to 5m; GitHub itself gives up after 10s", c.RequestTimeout))
	}
	if c.MaxInFlight > 100 {
		errs = append(errs, fmt.Errorf("COUNTERSIGN_GITHUB_MAX_IN_FLIGHT is %d: GitHub allows an App 100 requests at once; use 1 to 100", c.MaxInFlight))
	}
	if !nameForm.MatchString(c.OrgRepository) {
		errs = append(errs, fmt.Errorf("COUNTERSIGN_ORG_POLICY_REPOSITORY is %q: give a repository's name without its owner, such as .github", clip(c.OrgRepository)))
	}
	return errors.Join(errs...)
}

// parseKey reads the App's key. Line breaks may be written as a backslash and n (RG-449). Its errors say what the text looks like
// and hold nothing of it: the parser's own error is dropped, since it has seen the key.
func parseKey(text string) (*rsa.PrivateKey, error) {
	const setting = "COUNTERSIGN_GITHUB_PRIVATE_KEY "
	text = strings.TrimSpace(strings.ReplaceAll(text, `\n`, "\n"))
	switch {
	case text == "":
		return nil, errors.New(setting + "is not set: give the App's private key in PEM, or set COUNTERSIGN_GITHUB_PRIVATE_KEY_FILE to the file that was downloaded from the App's settings page")
	case !strings.Contains(text, "-----BEGIN ") && !strings.Contains(text, "\n") && len(text) < 1024 && strings.ContainsAny(text[:1], "/.~"):
		return nil, errors.New(setting + "holds a path where the key is expected: set COUNTERSIGN_GITHUB_PRIVATE_KEY_FILE instead")
	case !strings.HasPrefix(text, "-----BEGIN "):
		return nil, errors.New(setting + "is not in PEM form: give the downloaded file as it is, header line included; a key in base64 has to be decoded first")
	case strings.HasPrefix(text, "-----BEGIN PUBLIC") || strings.HasPrefix(text, "-----BEGIN CERT"):
		return nil, errors.New(setting + "is not a private key: give the file that GitHub offered for download when the key was generated")
	case strings.Contains(text, "ENCRYPTED"):
		return nil, errors.New(setting + "is encrypted: give it without a passphrase, as GitHub offers it for download")
	case !strings.Contains(text, "\n"):
		return nil, errors.New(setting + "has lost its line breaks: keep them, write each as a backslash followed by n, or set COUNTERSIGN_GITHUB_PRIVATE_KEY_FILE")
	case !strings.Contains(text, "-----END "):
		return nil, errors.New(setting + "is cut short: its END line is missing")
	}
	key, err := jwt.ParseRSAPrivateKeyFromPEM([]byte(text))
	if err != nil || key.N.BitLen() < 2048 {
		return nil, errors.New(setting + "must be the App's RSA private key of at least 2048 bits in PEM, as downloaded from its settings page")
	}
	return key, nil
}

// apiURLs checks the base URL and derives GraphQL's, unless that is given: api.github.com/ → api.github.com/graphql,
// HOST/api/v3/ → HOST/api/graphql.
func apiURLs(rest, query string) (*url.URL, string, error) {
	base, err := apiURL("COUNTERSIGN_GITHUB_API_URL", rest, "https://api.github.com/ or https://HOST/api/v3/")
	if err != nil {
		return nil, "", err
	}
	switch {
	case strings.EqualFold(base.Hostname(), "github.com"):
		return nil, "", errors.New("COUNTERSIGN_GITHUB_API_URL is GitHub's web address: the API is at https://api.github.com/")
	case strings.HasSuffix(strings.TrimSuffix(base.Path, "/"), "/graphql"):
		return nil, "", errors.New("COUNTERSIGN_GITHUB_API_URL is a GraphQL address: give the REST base URL, https://api.github.com/ or https://HOST/api/v3/")
	}
	base.Path = strings.TrimSuffix(base.Path, "/") + "/"
	if query != "" {
		given, err := apiURL("COUNTERSIGN_GITHUB_GRAPHQL_URL", query, "https://api.github.com/graphql or https://HOST/api/graphql")
		if err != nil {
			return nil, "", err
		}
		if given.Host != base.Host {
			return nil, "", errors.New("COUNTERSIGN_GITHUB_GRAPHQL_URL names another host than COUNTERSIGN_GITHUB_API_URL: both have to be one GitHub")
		}
		return base, given.String(), nil
	}
	derived := *base
	if prefix, ok := strings.CutSuffix(base.Path, "/api/v3/"); ok {
		derived.Path = prefix + "/api/graphql"
	} else {
		derived.Path = base.Path + "graphql"
	}
	return base, derived.String(), nil
}

func apiURL(setting, text, examples string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("%s must be a plain URL such as %s", setting, examples)
	}
	if u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())) {
		return nil, fmt.Errorf("%s must use https (http is allowed for a loopback address only)", setting)
	}
	return u, nil
}
