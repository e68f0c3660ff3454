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
	Worker   store.WorkerConfig
	Identity daemon.IdentityConfig

	InaccessibleRetryMax time.Duration `env:"COUNTERSIGN_AUTHORITY_INACCESSIBLE_RETRY_MAX" envDefault:"6h" desc:"Longest wait before a repository or installation that cannot be reached is tried again. An event about it ends the wait at once."`
}

// Validate refuses values that parse and cannot work.
func (c Config) Validate() error {
	errs := []error{c.Worker.Validate()}
	if got := c.InaccessibleRetryMax; got < hook.Pace(retry.ParkFirst) || got > 24*time.Hour { // RG-228
		errs = append(errs, fmt.Errorf("COUNTERSIGN_AUTHORITY_INACCESSIBLE_RETRY_MAX: %s is outside %s to %s", got, retry.ParkFirst, 24*time.Hour))
	}
	return errors.Join(errs...)
}
