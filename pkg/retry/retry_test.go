package retry

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/store"
)

func TestOf(t *testing.T) {
	t.Parallel()
	limit := &ghclient.RateLimitError{After: 77 * time.Second, Kind: "secondary"}
	for _, row := range []struct {
		name     string
		err      error
		attempts int
		want     Disposition
	}{
		{"nothing went wrong", nil, 3, Disposition{Result: Completed}},
		{"RG-277 a newer generation", fmt.Errorf("x: %w", store.ErrSuperseded), 3, Disposition{Result: Superseded}},
		{"RG-277 a lost lease", fmt.Errorf("x: %w", store.ErrLeaseLost), 3, Disposition{Result: Superseded}},
		{"RG-277 a refused fence", &store.FenceError{Fence: store.FenceEpoch}, 3, Disposition{Result: Superseded}},
		{"a lost lease that was noticed by a cancelled request", fmt.Errorf("%w, noticed by: %w", store.ErrLeaseLost, context.Canceled), 3, Disposition{Result: Superseded}},
		{"a stop spends nothing and is due at once", fmt.Errorf("x: %w", context.Canceled), 3, Disposition{Result: Deferred, After: time.Second}},
		{"RG-197 RG-270 a rate limit waits as long as GitHub says and spends nothing", fmt.Errorf("x: %w", limit), 3, Disposition{Result: RateLimited, After: 77 * time.Second}},
		{"RG-197 RG-270 a rate limit without a delay", fmt.Errorf("x: %w", ghclient.ErrRateLimited), 3, Disposition{Result: RateLimited, After: time.Minute}},
		{"RG-228 P14 not found parks", fmt.Errorf("x: %w", ghclient.ErrNotFound), 0, Disposition{Result: Parked, After: ParkFirst, Spend: true}},
		{"RG-228 P14 a suspended installation parks", ghclient.ErrSuspended, 1, Disposition{Result: Parked, After: 2 * ParkFirst, Spend: true}},
		{"RG-228 P14 an installation that is gone parks", ghclient.ErrInstallationGone, 2, Disposition{Result: Parked, After: 4 * ParkFirst, Spend: true}},
		{"RG-228 P14 what is forbidden parks, at the most so long", ghclient.ErrForbidden, 60, Disposition{Result: Parked, After: ParkCeiling, Spend: true}},
		{"RG-196 RG-269 GitHub does not answer: backoff from a second", ghclient.ErrUnavailable, 0, Disposition{Result: Failed, After: time.Second, Spend: true}},
		{"RG-196 RG-269 a write of unknown outcome: backoff doubles", ghclient.ErrUnknownOutcome, 3, Disposition{Result: Failed, After: 8 * time.Second, Spend: true}},
		{"RG-188 an answer that is malformed: backoff", ghclient.ErrMalformed, 2, Disposition{Result: Failed, After: 4 * time.Second, Spend: true}},
		{"RG-227 whatever nobody thought of is tried for ever, at the most so rarely", errors.New("boom"), 1 << 20, Disposition{Result: Failed, After: time.Minute, Spend: true}},
		{"a deadline is a failure, not a stop", context.DeadlineExceeded, 0, Disposition{Result: Failed, After: time.Second, Spend: true}},
		{"a guard that was not free is a failure", store.ErrGuardTimeout, 0, Disposition{Result: Failed, After: time.Second, Spend: true}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			if got := Of(row.err, row.attempts, time.Minute); got != row.want {
				t.Errorf("got %+v, want %+v", got, row.want)
			}
		})
	}
}

func TestAging(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name     string
		waited   time.Duration
		attempts int
		want     time.Duration
	}{
		{"P14 fresh: ordinary backoff, because GitHub answers 404 for what it does not know yet", 0, 0, time.Second},
		{"P14 half of what it has waited", 10 * time.Minute, 3, 5 * time.Minute},
		{"P14 failures of another kind before it do not count", 20 * time.Second, 30, time.Minute},
		{"P14 at the most six hours", 30 * 24 * time.Hour, 3, ParkCeiling},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			if got := Aging(row.waited, row.attempts, time.Minute); got != row.want {
				t.Errorf("got %s, want %s", got, row.want)
			}
		})
	}
}

func TestPark(t *testing.T) {
	t.Parallel()
	t.Run("RG-228 doubles from 300 s to its ceiling, for ever", func(t *testing.T) {
		t.Parallel()
		last := time.Duration(0)
		for n := range 100 {
			got := Park(n, 6*time.Hour)
			if got < last || got < ParkFirst || got > 6*time.Hour {
				t.Fatalf("%d: %s after %s", n, got, last)
			}
			last = got
		}
		if last != 6*time.Hour || Park(1, 6*time.Hour) != 10*time.Minute {
			t.Errorf("ends at %s", last)
		}
	})
}
