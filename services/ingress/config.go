package ingress

import (
	"errors"
	"fmt"
	"math"
	"net"
	"strings"
	"time"

	"github.com/countersign/countersign/pkg/nudge"
	"github.com/countersign/countersign/pkg/store"
)

const (
	// MaxBody is the largest webhook body read (RG-026, RG-027). GitHub itself sends at most 25 MiB, which no mapped event nears.
	MaxBody = 10 << 20
	// minBodyMemory is what the buffer of the largest body has grown to.
	minBodyMemory = 16 << 20
	// minSecret is the least length of a webhook secret in bytes (RG-449).
	minSecret = 32
	// The bounds of the fast path (RG-139); GitHub gives up on a delivery after 10 s.
	minFastPath = 100 * time.Millisecond
	maxFastPath = 8 * time.Second
)

// Config is what ingress takes. It has no field for a GitHub key on purpose (D3).
type Config struct {
	Store store.Config
	Nudge nudge.Config

	Listen string `env:"COUNTERSIGN_INGRESS_LISTEN" envDefault:"127.0.0.1:8081" desc:"Address on which webhooks are received, at POST /webhooks/github. Put a TLS-terminating proxy that bounds request rate before it."`
	// Listener, when set, is used instead of opening Listen; Run owns it. For a process that has to know the address first.
	Listener net.Listener `env:"-"`

	WebhookSecret   string        `env:"COUNTERSIGN_WEBHOOK_SECRET" secret:"true" desc:"Secret of the App's webhook, at least 32 bytes."`
	PreviousSecret  string        `env:"COUNTERSIGN_WEBHOOK_SECRET_PREVIOUS" secret:"true" desc:"The secret before the last rotation, accepted too. Unset it once GitHub signs with the new one."`
	FastPathTimeout time.Duration `env:"COUNTERSIGN_FAST_PATH_TIMEOUT" envDefault:"5s" desc:"Longest an accepted delivery waits for the immediate reset of its head, and an authority event for the publication guard: 100ms to 8s."`

	AppID         int64    `env:"COUNTERSIGN_GITHUB_APP_ID" desc:"Numeric id of the GitHub App."`
	PolicyPaths   []string `env:"COUNTERSIGN_POLICY_PATHS" envDefault:".github/countersign.toml,.github/extra-codeowners.toml" desc:"Where a policy file is looked for, in this order. Two present files are an error of the policy."`
	OrgRepository string   `env:"COUNTERSIGN_ORG_POLICY_REPOSITORY" envDefault:".github" desc:"Name of the repository that holds an organization's policy."`

	RequestRate  float64 `env:"COUNTERSIGN_INGRESS_REQUEST_RATE" envDefault:"200" desc:"Requests a second, over all senders, that a replica takes up; more are answered 429. 0: no bound."`
	RequestBurst int     `env:"COUNTERSIGN_INGRESS_REQUEST_BURST" envDefault:"400" desc:"Requests above the rate that are taken up at once."`
	MaxInFlight  int64   `env:"COUNTERSIGN_INGRESS_MAX_IN_FLIGHT" envDefault:"256" desc:"Requests a replica works on at once; more are answered 429."`
	BodyMemory   int64   `env:"COUNTERSIGN_INGRESS_BODY_MEMORY" envDefault:"134217728" desc:"Bytes that the bodies being received may take together; a request for which none is left is answered 429. At least 16 MiB."`
}

// Validate refuses what parses and cannot work, naming the variable and the mend; a secret's value is in no error.
func (c Config) Validate() error {
	return errors.Join(c.validateSecrets(), c.validateIdentity(), c.validateLimits())
}

func (c Config) validateSecrets() error {
	var errs []error
	if c.WebhookSecret == "" {
		errs = append(errs, errors.New("COUNTERSIGN_WEBHOOK_SECRET: not set, so no webhook could be accepted; set it, or COUNTERSIGN_WEBHOOK_SECRET_FILE, to the secret of the App's webhook"))
	}
	for _, s := range []struct{ name, value string }{
		{"COUNTERSIGN_WEBHOOK_SECRET", c.WebhookSecret},
		{"COUNTERSIGN_WEBHOOK_SECRET_PREVIOUS", c.PreviousSecret},
	} {
		if s.value != "" && len(s.value) < minSecret {
			errs = append(errs, fmt.Errorf("%s: %d bytes are too few; use at least %d random bytes, for example openssl rand -hex 32", s.name, len(s.value), minSecret))
		}
	}
	return errors.Join(errs...)
}

func (c Config) validateIdentity() error {
	var errs []error
	if c.AppID <= 0 {
		errs = append(errs, errors.New("COUNTERSIGN_GITHUB_APP_ID: not a positive number; give the App's id from its settings page"))
	}
	if c.OrgRepository == "" || strings.Contains(c.OrgRepository, "/") {
		errs = append(errs, fmt.Errorf("COUNTERSIGN_ORG_POLICY_REPOSITORY: %q is not the name of a repository; give it without the owner, for example .github", c.OrgRepository))
	}
	if len(c.PolicyPaths) == 0 {
		errs = append(errs, errors.New("COUNTERSIGN_POLICY_PATHS: empty; give at least one path, for example .github/countersign.toml"))
	}
	for _, path := range c.PolicyPaths {
		if path == "" || strings.HasPrefix(path, "/") || strings.TrimSpace(path) != path {
			errs = append(errs, fmt.Errorf("COUNTERSIGN_POLICY_PATHS: %q is not a path from the root of a repository; write for example .github/countersign.toml", path))
		}
	}
	return errors.Join(errs...)
}

func (c Config) validateLimits() error {
	var errs []error
	if _, _, err := net.SplitHostPort(c.Listen); err != nil && c.Listener == nil {
		errs = append(errs, fmt.Errorf("COUNTERSIGN_INGRESS_LISTEN: %q is not host:port; write for example 127.0.0.1:8081", c.Listen))
	}
	if c.FastPathTimeout < minFastPath || c.FastPathTimeout > maxFastPath {
		errs = append(errs, fmt.Errorf("COUNTERSIGN_FAST_PATH_TIMEOUT: %s is outside %s to %s; GitHub waits 10s for an answer", c.FastPathTimeout, minFastPath, maxFastPath))
	}
	if !(c.RequestRate >= 0) || math.IsInf(c.RequestRate, 0) {
		errs = append(errs, fmt.Errorf("COUNTERSIGN_INGRESS_REQUEST_RATE: %v is not a rate; write requests a second, or 0 for no bound", c.RequestRate))
	}
	if c.RequestRate > 0 && c.RequestBurst < 1 {
		errs = append(errs, fmt.Errorf("COUNTERSIGN_INGRESS_REQUEST_BURST: %d would refuse every request; write at least 1", c.RequestBurst))
	}
	if c.MaxInFlight < 1 {
		errs = append(errs, fmt.Errorf("COUNTERSIGN_INGRESS_MAX_IN_FLIGHT: %d would refuse every request; write at least 1", c.MaxInFlight))
	}
	if c.BodyMemory < minBodyMemory {
		errs = append(errs, fmt.Errorf("COUNTERSIGN_INGRESS_BODY_MEMORY: %d would refuse the largest body that is allowed; write at least %d", c.BodyMemory, minBodyMemory))
	}
	return errors.Join(errs...)
}

// secrets are the webhook secrets in force, newest first.
func (c Config) secrets() [][]byte {
	var all [][]byte
	for _, s := range []string{c.WebhookSecret, c.PreviousSecret} {
		if s != "" {
			all = append(all, []byte(s))
		}
	}
	return all
}
