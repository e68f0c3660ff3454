package reconciler

import (
	"errors"
	"fmt"
	"time"

	"github.com/countersign/countersign/internal/hook"
	"github.com/countersign/countersign/pkg/daemon"
	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/nudge"
	"github.com/countersign/countersign/pkg/store"
)

// Config is what the reconciler is told by its operator.
type Config struct {
	Store    store.Config
	Nudge    nudge.Config
	GitHub   ghclient.Config
	Identity daemon.IdentityConfig

	Interval      time.Duration `env:"COUNTERSIGN_RECONCILE_INTERVAL" envDefault:"300s" desc:"Time between two scans of every open pull request. A lost webhook is made good within one interval and the recheck age."`
	Recheck       time.Duration `env:"COUNTERSIGN_RECONCILE_RECHECK" envDefault:"900s" desc:"Age from which an unchanged pull request is evaluated again though no event asked for it. Lower costs GitHub requests for every open pull request."`
	RetentionDays int           `env:"COUNTERSIGN_DELIVERY_RETENTION_DAYS" envDefault:"30" desc:"Days that delivery ids and finished heads are kept. A webhook redelivered after them counts as new."`

	LogInterval time.Duration `env:"COUNTERSIGN_DELIVERY_LOG_INTERVAL" envDefault:"60s" desc:"Time between two looks at GitHub's log of the deliveries it made to this App. A webhook that failed or was refused is asked for again within about one interval."`
	LogAsks     int           `env:"COUNTERSIGN_DELIVERY_LOG_ASKS" envDefault:"30" desc:"Redeliveries that are asked for in one interval at the most. GitHub bounds such requests to 80 a minute."`

	DriftHeads int    `env:"COUNTERSIGN_RECONCILE_DRIFT_HEADS" envDefault:"200" desc:"Recently decided heads whose check is compared with its decision in one interval at the most; the next interval goes on where this one ended. An unchanged check costs a conditional request. 0: none."`
	CheckName  string `env:"COUNTERSIGN_CHECK_NAME" envDefault:"Countersign / approval" desc:"name of the managed check run, the one that branch protection requires (RG-290)"`

	// ScanEvery, when not zero, replaces Interval and is not validated: for tests and for the development command.
	ScanEvery time.Duration
}

// Validate refuses values that parse and cannot work.
func (c Config) Validate() error {
	var errs []error
	if c.Interval < hook.Pace(time.Minute) || c.Interval > 24*time.Hour {
		errs = append(errs, fmt.Errorf("COUNTERSIGN_RECONCILE_INTERVAL: %s is outside 60s to 24h", c.Interval)) // RG-427
	}
	if c.Recheck < 0 || c.Recheck > 30*24*time.Hour {
		errs = append(errs, fmt.Errorf("COUNTERSIGN_RECONCILE_RECHECK: %s is outside 0s to 720h", c.Recheck))
	}
	if c.RetentionDays < 1 || c.RetentionDays > 3650 {
		errs = append(errs, fmt.Errorf("COUNTERSIGN_DELIVERY_RETENTION_DAYS: %d is outside 1 to 3650", c.RetentionDays)) // RG-428
	}
	if c.LogInterval < hook.Pace(5*time.Second) || c.LogInterval > time.Hour {
		errs = append(errs, fmt.Errorf("COUNTERSIGN_DELIVERY_LOG_INTERVAL: %s is outside 5s to 1h", c.LogInterval))
	}
	if c.LogAsks < 1 || c.LogAsks > 80 {
		errs = append(errs, fmt.Errorf("COUNTERSIGN_DELIVERY_LOG_ASKS: %d is outside 1 to 80", c.LogAsks))
	}
	if c.DriftHeads < 0 || c.DriftHeads > 10000 {
		errs = append(errs, fmt.Errorf("COUNTERSIGN_RECONCILE_DRIFT_HEADS: %d is outside 0 to 10000", c.DriftHeads))
	}
	return errors.Join(errs...)
}

// every is the time between two scans.
func (c Config) every() time.Duration {
	if c.ScanEvery > 0 {
		return c.ScanEvery
	}
	return c.Interval
}

// logEvery is the time between two looks at the delivery log; a Config built in code means what one read from the environment means.
func (c Config) logEvery() time.Duration {
	if c.LogInterval > 0 {
		return c.LogInterval
	}
	return time.Minute
}

// lease is how long an election lasts without a heartbeat (RG-408).
func (c Config) lease() time.Duration { return max(hook.Pace(300*time.Second), 2*c.every()) }

func (c Config) retention() time.Duration { return time.Duration(c.RetentionDays) * 24 * time.Hour }
