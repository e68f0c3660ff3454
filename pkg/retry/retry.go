// Package retry is the one table that says what becomes of claimed work when it ends in an error: every service asks it, so
// that a rate limit, a lost lease or a vanished repository means the same everywhere.
//
// It decides; it writes nothing and waits for nothing.
package retry

import (
	"context"
	"errors"
	"time"

	"github.com/countersign/countersign/internal/hook"
	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/store"
)

// Result is what became of the work; the set is closed and is a metric label.
type Result string

// The results.
const (
	Completed   Result = "completed"
	Superseded  Result = "superseded"   // somebody newer has it: write nothing (RG-277)
	RateLimited Result = "rate_limited" // GitHub said when to come back; no attempt is spent (RG-197, RG-270)
	Deferred    Result = "deferred"     // something else must happen first: pending authority (RG-273), a replica that lags (P5), a stop
	Parked      Result = "parked"       // the target cannot be reached: long backoff, woken by a new event (P14, RG-228)
	Failed      Result = "failed"       // bounded exponential backoff, for ever (RG-196, RG-269)
)

// Results are all of them.
var Results = []Result{Completed, Superseded, RateLimited, Deferred, Parked, Failed}

// The backoff of a target that is gone or closed to us (RG-228).
const (
	ParkFirst   = 5 * time.Minute
	ParkCeiling = 6 * time.Hour
)

// Disposition says what to do with the row.
type Disposition struct {
	Result Result
	After  time.Duration
	Spend  bool // counts as an attempt
}

// Of maps an error to its disposition. attempts is how many were spent before; ceiling caps ordinary backoff.
func Of(err error, attempts int, ceiling time.Duration) Disposition {
	var limit *ghclient.RateLimitError
	switch {
	case err == nil:
		return Disposition{Result: Completed}
	case errors.Is(err, store.ErrSuperseded), errors.Is(err, store.ErrLeaseLost):
		return Disposition{Result: Superseded}
	case errors.Is(err, context.Canceled):
		// The process stops, and the row is as good as it was: whoever takes over need not wait.
		return Disposition{Result: Deferred, After: hook.Pace(time.Second)}
	case errors.As(err, &limit):
		return Disposition{Result: RateLimited, After: limit.After}
	case errors.Is(err, ghclient.ErrRateLimited):
		return Disposition{Result: RateLimited, After: hook.Pace(time.Minute)}
	case Unreachable(err): // the work of one head ages instead (Aging)
		return Disposition{Result: Parked, After: Park(attempts, ParkCeiling), Spend: true}
	default:
		return Disposition{Result: Failed, After: store.Backoff(attempts, ceiling), Spend: true}
	}
}

// Unreachable: the repository, installation or permission is not there for us; asking again soon costs and gains nothing.
func Unreachable(err error) bool {
	for _, target := range []error{ghclient.ErrNotFound, ghclient.ErrSuspended, ghclient.ErrInstallationGone, ghclient.ErrForbidden} {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// Aging is the delay of one head's work whose target cannot be reached: ordinary backoff while the trigger is fresh, because
// GitHub answers 404 and 403 for what it does not know yet and an older result may stand meanwhile, then half of what it has
// waited already, at most ParkCeiling (P14). It does not count failures of another kind: after an outage, one 404 must not
// put a revocation off for hours.
func Aging(waited time.Duration, attempts int, ceiling time.Duration) time.Duration {
	return max(store.Backoff(attempts, ceiling), min(waited/2, ParkCeiling))
}

// Park doubles from ParkFirst to ceiling.
func Park(attempts int, ceiling time.Duration) time.Duration {
	d := hook.Pace(ParkFirst)
	for range attempts {
		if d >= ceiling {
			break
		}
		d *= 2
	}
	return min(d, ceiling)
}
