package fanout

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/countersign/countersign/internal/hook"
	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/retry"
	"github.com/countersign/countersign/pkg/store"
)

// resultStopped: the process stops, the row is due at once for whoever takes over. Every other result is retry's.
const resultStopped retry.Result = "stopped"

var results = []retry.Result{retry.Completed, retry.Failed, retry.RateLimited, retry.Parked, retry.Superseded, resultStopped}

// dispose says what an error means for the row: the table that all services share, and what is the fan-out's own. There is no
// entry that gives up (RG-227).
func dispose(err error, attempts int, retryMax time.Duration) retry.Disposition {
	if errors.Is(err, errStopping) || errors.Is(err, context.Canceled) {
		return retry.Disposition{Result: resultStopped}
	}
	d := retry.Of(err, attempts, retryMax)
	if d.Result == retry.RateLimited {
		d.After = max(d.After, longestDelay(err))
	}
	return d
}

// settle does what dispose says. A pass that was completed has deleted its row already. It returns the disposition as it came
// to be, and the database's error when the row could not be given back: its lease then expires by itself.
func (s *Service) settle(ctx context.Context, a store.Authority, failure error) (retry.Disposition, error) {
	d := dispose(failure, a.Attempts, s.cfg.Worker.RetryMax)
	var err error
	// A process that is being stopped still gives its lease back.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	switch d.Result {
	case retry.Completed, retry.Superseded:
		return d, nil
	case retry.Parked:
		// The row counts its parkings apart from other failures, so the store knows the delay.
		d.After, err = s.deps.Store.ParkAuthority(ctx, a, hook.Pace(retry.ParkFirst), s.cfg.InaccessibleRetryMax, failure.Error())
	default:
		err = s.deps.Store.DeferAuthority(ctx, a, d.After, failure.Error(), d.Spend)
	}
	if errors.Is(err, store.ErrLeaseLost) {
		// Also what a write that failed in our eyes and happened in the database looks like: the row is finished, or freed.
		return retry.Disposition{Result: retry.Superseded}, nil
	}
	if err != nil {
		return d, fmt.Errorf("give back %s after %q: %w", a, d.Result, err)
	}
	return d, nil
}

// longestDelay is the longest that any part of the error was told to wait (RG-220): several requests may have been refused.
func longestDelay(err error) (longest time.Duration) {
	var walk func(error)
	walk = func(err error) {
		switch e := err.(type) { //nolint:errorlint // the tree itself is walked
		case nil:
		case *ghclient.RateLimitError:
			longest = max(longest, e.After)
		case interface{ Unwrap() error }:
			walk(e.Unwrap())
		case interface{ Unwrap() []error }:
			for _, one := range e.Unwrap() {
				walk(one)
			}
		}
	}
	walk(err)
	return longest
}

func isNoWork(err error) bool { return errors.Is(err, store.ErrNoWork) }
