package evaluator

import (
	"errors"
	"fmt"
	"time"

	"github.com/countersign/countersign/pkg/checkrun"
	"github.com/countersign/countersign/pkg/daemon"
	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/nudge"
	"github.com/countersign/countersign/pkg/policy"
	"github.com/countersign/countersign/pkg/store"
)

// Config is the evaluator's configuration.
type Config struct {
	Store    store.Config
	Nudge    nudge.Config
	GitHub   ghclient.Config
	Check    checkrun.Config
	Worker   store.WorkerConfig
	Identity daemon.IdentityConfig
	// MissingApproval and AllowInsecureChanges enter every verdict; replaying a decision uses what was recorded.
	MissingApproval      string        `env:"COUNTERSIGN_MISSING_APPROVAL" envDefault:"failure" desc:"how a missing approval looks: failure, action_required or pending; never what it allows (D10)"`
	AllowInsecureChanges bool          `env:"COUNTERSIGN_ALLOW_INSECURE_CHANGES" envDefault:"false" desc:"let delegated Apps approve workflows, CODEOWNERS and policy files; guardrails stay (RG-346)"`
	RecheckAfter         time.Duration `env:"COUNTERSIGN_RECHECK_AFTER" envDefault:"30s" desc:"how long after a success the evidence is read once more, for replicas that lagged (P5); 0 disables"`
	DetailsURL           string        `env:"COUNTERSIGN_CONSOLE_URL" desc:"base URL of the console for the check's details link; empty links to the pull request (RG-294)"`
}

// Validate refuses what could not work, naming the variable.
func (c Config) Validate() error {
	var own error
	switch policy.Look(c.MissingApproval) {
	case "", policy.LookFailure, policy.LookActionRequired, policy.LookPending:
	default:
		own = fmt.Errorf("COUNTERSIGN_MISSING_APPROVAL is %q: use failure, action_required or pending", c.MissingApproval)
	}
	if c.RecheckAfter < 0 || c.RecheckAfter > time.Hour {
		own = errors.Join(own, fmt.Errorf("COUNTERSIGN_RECHECK_AFTER is %s: use 0 to 1h", c.RecheckAfter))
	}
	return errors.Join(c.Store.Validate(), c.Check.Validate(), c.Worker.Validate(), c.Identity.Validate(), policy.CheckPaths(c.GitHub.PolicyPaths), own)
}

// settings are what enters a snapshot of these.
func (c Config) settings() policy.Settings {
	return policy.Settings{CheckName: c.Check.Name, AllowInsecureChanges: c.AllowInsecureChanges, MissingApproval: policy.Look(c.MissingApproval)}
}
