package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// IdentityConfig is how often a service proves to itself that GitHub still
// knows it as the App it is configured to be, and how long such a proof lasts.
type IdentityConfig struct {
	Interval time.Duration `env:"COUNTERSIGN_IDENTITY_PROBE_INTERVAL" envDefault:"30s" desc:"How often the App's identity is read from GitHub."`
	FreshFor time.Duration `env:"COUNTERSIGN_IDENTITY_FRESH_FOR" envDefault:"90s" desc:"How long one proof of the App's identity keeps the service ready. At least twice the interval."`
}

// Validate refuses a freshness that one late probe would exhaust (RG-453).
func (c IdentityConfig) Validate() error {
	if c.Interval <= 0 {
		return fmt.Errorf("COUNTERSIGN_IDENTITY_PROBE_INTERVAL: %s is not above zero; 30s is the default", c.Interval)
	}
	if c.FreshFor < 2*c.Interval {
		return fmt.Errorf("COUNTERSIGN_IDENTITY_FRESH_FOR: %s is less than twice COUNTERSIGN_IDENTITY_PROBE_INTERVAL (%s); give at least %s", c.FreshFor, c.Interval, 2*c.Interval)
	}
	return nil
}

// Probe asks something far away at an interval and lets readiness rest on the
// latest answer: one failed probe changes nothing until the freshness window
// ends, and a later success restores it (RG-473).
type Probe struct {
	name  string
	every time.Duration
	fresh time.Duration
	ask   Check

	mu      sync.Mutex
	proved  time.Time
	lastErr error
}

// NewProbe registers the probe with h as a required check. Nothing is asked until Run.
func NewProbe(h *Health, name string, every, freshFor time.Duration, ask Check) (*Probe, error) {
	if err := (IdentityConfig{Interval: every, FreshFor: freshFor}).Validate(); err != nil {
		return nil, fmt.Errorf("probe %s: %w", name, err)
	}
	p := &Probe{name: name, every: every, fresh: freshFor, ask: ask}
	h.Require(name, p.check)
	return p, nil
}

// NewIdentityProbe proves that GitHub answers to fetch with the App id want (RG-472).
func NewIdentityProbe(h *Health, c IdentityConfig, want int64, fetch func(context.Context) (int64, error)) (*Probe, error) {
	return NewProbe(h, "github_identity", c.Interval, c.FreshFor, func(ctx context.Context) error {
		got, err := fetch(ctx)
		if err != nil {
			return fmt.Errorf("read the App from GitHub: %w", err)
		}
		if got != want {
			return fmt.Errorf("GitHub says the key belongs to App %d, the configuration says %d; mend COUNTERSIGN_GITHUB_APP_ID or the key", got, want)
		}
		return nil
	})
}

// Run probes at once and then at the interval until ctx ends; it returns nil.
func (p *Probe) Run(ctx context.Context) error {
	tick := time.NewTicker(p.every)
	defer tick.Stop()
	for {
		p.once(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (p *Probe) once(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, p.every)
	defer cancel()
	err := p.ask(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lastErr = err
	if err == nil {
		p.proved = time.Now()
	}
}

func (p *Probe) check(context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.proved.IsZero() && time.Since(p.proved) <= p.fresh {
		return nil
	}
	switch {
	case p.lastErr != nil && p.proved.IsZero():
		return fmt.Errorf("never proved: %w", p.lastErr)
	case p.lastErr != nil:
		return fmt.Errorf("last proved %s ago, good for %s: %w", time.Since(p.proved).Round(time.Second), p.fresh, p.lastErr)
	case p.proved.IsZero():
		return errors.New("not proved yet")
	default:
		return fmt.Errorf("last proved %s ago, good for %s", time.Since(p.proved).Round(time.Second), p.fresh)
	}
}
