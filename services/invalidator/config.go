package invalidator

import (
	"errors"

	"github.com/countersign/countersign/pkg/checkrun"
	"github.com/countersign/countersign/pkg/daemon"
	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/nudge"
	"github.com/countersign/countersign/pkg/policy"
	"github.com/countersign/countersign/pkg/store"
)

// Config is the invalidator's configuration; its zero value does not start.
type Config struct {
	Store    store.Config
	Nudge    nudge.Config
	GitHub   ghclient.Config
	Check    checkrun.Config
	Worker   store.WorkerConfig
	Identity daemon.IdentityConfig
	// FastPathConcurrency bounds the resets that run for ingress at once; one more is answered as failed and left to the pass.
	FastPathConcurrency int `env:"COUNTERSIGN_FAST_PATH_CONCURRENCY" envDefault:"8" desc:"fast resets at once in one invalidator, 1 to 64"`
}

// Validate refuses what could not work, naming the variable.
func (c Config) Validate() error {
	var bounds error
	if c.FastPathConcurrency < 1 || c.FastPathConcurrency > 64 {
		bounds = errors.New("COUNTERSIGN_FAST_PATH_CONCURRENCY must be 1 to 64")
	}
	return errors.Join(c.Store.Validate(), c.Check.Validate(), c.Worker.Validate(), c.Identity.Validate(), policy.CheckPaths(c.GitHub.PolicyPaths), bounds)
}

// policyPaths are the files whose presence at the base makes a repository managed (D5).
func policyPaths() []string { return []string{policy.PolicyPath, policy.FallbackPolicyPath} }
