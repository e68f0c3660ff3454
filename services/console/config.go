package console

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/store"
)

// Config is what the console is told by its operator.
type Config struct {
	Store  store.Config
	GitHub ghclient.WebConfig
	SignIn ghclient.SignInConfig

	Listen     string        `env:"COUNTERSIGN_CONSOLE_LISTEN" envDefault:"127.0.0.1:8082" desc:"Address that the console's pages are served on. TLS is terminated in front of it."`
	PublicURL  string        `env:"COUNTERSIGN_CONSOLE_URL" desc:"base URL of the console for the check's details link; empty links to the pull request (RG-294)"`
	SessionKey string        `env:"COUNTERSIGN_CONSOLE_SESSION_KEY" secret:"true" desc:"Seals people's sessions: 32 random characters or more, the same in every replica. Changing it signs everybody out."`
	Operators  string        `env:"COUNTERSIGN_CONSOLE_OPERATORS" desc:"Team whose members see everything, operations included, as ORG/TEAM. Empty: nobody does."`
	AccessAge  time.Duration `env:"COUNTERSIGN_CONSOLE_ACCESS_AGE" envDefault:"2m" desc:"How long GitHub's answer about what a person can see is used. Somebody who loses access is shown what they could see for at most so long."`
	Session    time.Duration `env:"COUNTERSIGN_CONSOLE_SESSION" envDefault:"8h" desc:"How long a sign-in lasts. GitHub's own token ends after 8h as well."`
	Open       bool          `env:"COUNTERSIGN_CONSOLE_OPEN" envDefault:"false" desc:"Show everything to everybody who can connect, without sign-in. Allowed for a loopback address only."`
	Setup      bool          `env:"COUNTERSIGN_CONSOLE_SETUP" envDefault:"false" desc:"Serve /setup, which registers a GitHub App and shows its credentials once. Switch it off again (RG-476)."`
	MaxLive    int           `env:"COUNTERSIGN_CONSOLE_MAX_LIVE" envDefault:"500" desc:"Pages that are kept up to date at once; further ones are static until reloaded."`
}

// Validate refuses what could not work or would show too much, naming the variable.
func (c Config) Validate() error {
	errs := []error{c.Store.Validate()}
	host, _, err := net.SplitHostPort(c.Listen)
	switch {
	case err != nil:
		errs = append(errs, fmt.Errorf("COUNTERSIGN_CONSOLE_LISTEN: %q is not host:port; write for example 127.0.0.1:8082", c.Listen))
	case c.Open && !loopback(host):
		errs = append(errs, fmt.Errorf("COUNTERSIGN_CONSOLE_OPEN shows everything without sign-in and COUNTERSIGN_CONSOLE_LISTEN is %q: listen on 127.0.0.1, or leave COUNTERSIGN_CONSOLE_OPEN out", c.Listen))
	}
	if !c.Open {
		errs = append(errs, c.validateSignIn())
	}
	if c.Operators != "" {
		if org, team, ok := strings.Cut(c.Operators, "/"); !ok || org == "" || team == "" || strings.Contains(team, "/") {
			errs = append(errs, fmt.Errorf("COUNTERSIGN_CONSOLE_OPERATORS is %q: write ORG/TEAM", c.Operators))
		}
	}
	if c.AccessAge < time.Second || c.AccessAge > 15*time.Minute {
		errs = append(errs, fmt.Errorf("COUNTERSIGN_CONSOLE_ACCESS_AGE: %s is outside 1s to 15m", c.AccessAge))
	}
	if c.Session < time.Minute || c.Session > 24*time.Hour {
		errs = append(errs, fmt.Errorf("COUNTERSIGN_CONSOLE_SESSION: %s is outside 1m to 24h", c.Session))
	}
	if c.MaxLive < 0 || c.MaxLive > 100_000 {
		errs = append(errs, fmt.Errorf("COUNTERSIGN_CONSOLE_MAX_LIVE: %d is outside 0 to 100000", c.MaxLive))
	}
	return errors.Join(errs...)
}

func (c Config) validateSignIn() error {
	var errs []error
	u, err := url.Parse(c.PublicURL)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())) {
		errs = append(errs, errors.New("COUNTERSIGN_CONSOLE_URL is needed for sign-in: give the https address under which people reach the console"))
	}
	if len(c.SessionKey) < 32 {
		errs = append(errs, errors.New("COUNTERSIGN_CONSOLE_SESSION_KEY has to have 32 characters or more: take the output of openssl rand -base64 48"))
	}
	if c.SignIn.ClientID == "" || c.SignIn.ClientSecret == "" {
		errs = append(errs, errors.New("COUNTERSIGN_GITHUB_CLIENT_ID and COUNTERSIGN_GITHUB_CLIENT_SECRET are needed for sign-in: both are on the App's settings page"))
	}
	return errors.Join(errs...)
}

func loopback(host string) bool {
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
