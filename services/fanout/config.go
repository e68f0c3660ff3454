package fanout

import (
	"errors"
	"fmt"
	"time"

	"github.com/countersign/countersign/internal/hook"
	"github.com/countersign/countersign/pkg/daemon"
	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/nudge"
	"github.com/countersign/countersign/pkg/retry"
	"github.com/countersign/countersign/pkg/store"
)

// Config is what the fan-out is told by its operator.
type Config struct {
	Store    store.Config
	Nudge    nudge.Config
	GitHub   ghclient.Config
	Identity daemon.IdentityConfig

	Workers              int           `env:"COUNTERSIGN_FANOUT_WORKERS" envDefault:"4" desc:"Authority changes worked at once by one process. GitHub's rate limit is the real bound, not this."`
	Lease                time.Duration `env:"COUNTERSIGN_FANOUT_LEASE" envDefault:"2m" desc:"How long a pass belongs to a process that has stopped renewing it. Shorter: a crash is noticed sooner; longer: a slow database interrupts fewer passes."`
	Poll                 time.Duration `env:"COUNTERSIGN_FANOUT_POLL" envDefault:"500ms" desc:"Mean time between looks at the queue without a nudge."`
	RetryMax             time.Duration `env:"COUNTERSIGN_FANOUT_RETRY_MAX" envDefault:"1m" desc:"Longest wait before a failed pass is tried again. Until it succeeds, what it covers is not published."`
	InaccessibleRetryMax time.Duration `env:"COUNTERSIGN_AUTHORITY_INACCESSIBLE_RETRY_MAX" envDefault:"6h" desc:"Longest wait before a repository or installation that cannot be reached is tried again. An event about it ends the wait at once."`
}

// Validate refuses values that parse and cannot work.
func (c Config) Validate() error {
	var errs []error
	if c.Workers < 1 || c.Workers > 64 {
		errs = append(errs, fmt.Errorf("COUNTERSIGN_FANOUT_WORKERS: %d is outside 1 to 64", c.Workers))
	}
	for _, d := range []struct {
		name        string
		got         time.Duration
		least, most time.Duration
	}{
		{"COUNTERSIGN_FANOUT_LEASE", c.Lease, hook.Pace(30 * time.Second), time.Hour},                                        // RG-276
		{"COUNTERSIGN_FANOUT_POLL", c.Poll, hook.Pace(50 * time.Millisecond), time.Minute},                                   // RG-276
		{"COUNTERSIGN_FANOUT_RETRY_MAX", c.RetryMax, hook.Pace(5 * time.Second), time.Hour},                                  // RG-269
		{"COUNTERSIGN_AUTHORITY_INACCESSIBLE_RETRY_MAX", c.InaccessibleRetryMax, hook.Pace(retry.ParkFirst), 24 * time.Hour}, // RG-228
	} {
		if d.got < d.least || d.got > d.most {
			errs = append(errs, fmt.Errorf("%s: %s is outside %s to %s", d.name, d.got, d.least, d.most))
		}
	}
	return errors.Join(errs...)
}
