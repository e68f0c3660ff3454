package store

import (
	"context"
	"fmt"
	"time"

	"github.com/countersign/countersign/internal/hook"
)

// WorkerConfig is what every service that claims rows shares.
type WorkerConfig struct {
	Concurrency int           `env:"COUNTERSIGN_WORKER_CONCURRENCY" envDefault:"8" desc:"rows worked at once by this process, 1 to 64; a quarter of them is kept for what an event asked for, and one for a second installation"`
	Poll        time.Duration `env:"COUNTERSIGN_WORKER_POLL" envDefault:"500ms" desc:"mean time between looks at Postgres without a nudge, 50ms to 60s (RG-276)"`
	Lease       time.Duration `env:"COUNTERSIGN_WORKER_LEASE" envDefault:"120s" desc:"how long a claim is held without renewal, 30s to 1h; renewed at a third of it (RG-275, RG-276)"`
	RetryMax    time.Duration `env:"COUNTERSIGN_WORKER_RETRY_MAX" envDefault:"60s" desc:"cap of the exponential backoff of failed work, 5s to 1h (RG-269)"`
}

// Validate holds the ranges of RG-269 and RG-276.
func (c WorkerConfig) Validate() error {
	switch {
	case c.Concurrency < 1 || c.Concurrency > 64:
		return fmt.Errorf("COUNTERSIGN_WORKER_CONCURRENCY is %d: use 1 to 64", c.Concurrency)
	case c.Poll < hook.Pace(50*time.Millisecond) || c.Poll > time.Minute:
		return fmt.Errorf("COUNTERSIGN_WORKER_POLL is %s: use 50ms to 60s", c.Poll)
	case c.Lease < hook.Pace(30*time.Second) || c.Lease > time.Hour:
		return fmt.Errorf("COUNTERSIGN_WORKER_LEASE is %s: use 30s to 1h", c.Lease)
	case c.RetryMax < hook.Pace(5*time.Second) || c.RetryMax > time.Hour:
		return fmt.Errorf("COUNTERSIGN_WORKER_RETRY_MAX is %s: use 5s to 1h", c.RetryMax)
	}
	return nil
}

// Backoff is the delay before the next try after attempts failed ones: 2^attempts seconds, at least one, at most ceiling (RG-196, RG-269).
func Backoff(attempts int, ceiling time.Duration) time.Duration {
	if attempts > 30 {
		return ceiling
	}
	return min(hook.Pace(max(time.Second, time.Duration(1<<max(attempts, 0))*time.Second)), ceiling)
}

// KeepLease renews a lease every third of ttl until the returned stop is called, and cancels the returned context as soon as
// the lease can no longer be trusted: when renew says it is lost (its error is the context's cause), or when no renewal
// succeeded within ttl less a margin, counted from before each attempt. The local clock can only stop work earlier than the
// database would; it never prolongs anything. Call stop exactly once, before the lease is released.
func KeepLease(ctx context.Context, ttl time.Duration, renew func(ctx context.Context) error) (held context.Context, stop func()) {
	held, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		keep(held, cancel, ttl, renew, done)
	}()
	return held, func() {
		close(done)
		<-finished
		cancel(context.Canceled)
	}
}

// LeaseError is err, unless the lease that KeepLease kept in held was lost: then err is only how that was noticed, a cancelled
// request for example, and the answer is ErrLeaseLost or ErrSuperseded. Call it before stop. A nil err stays nil.
func LeaseError(held context.Context, err error) error {
	if cause := context.Cause(held); err != nil && !isLost(err) && isLost(cause) {
		return fmt.Errorf("%w, noticed by: %w", cause, err)
	}
	return err
}

func keep(ctx context.Context, cancel context.CancelCauseFunc, ttl time.Duration, renew func(context.Context) error, done <-chan struct{}) {
	margin := ttl / 10
	trustedUntil := time.Now().Add(ttl - margin)
	every := max(ttl/3, 10*time.Millisecond)
	for {
		wait := min(every, time.Until(trustedUntil))
		timer := time.NewTimer(max(wait, 0))
		select {
		case <-done:
			timer.Stop()
			return
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		asked := time.Now()
		bounded, stop := context.WithDeadline(ctx, trustedUntil)
		err := renew(bounded)
		stop()
		switch {
		case err == nil:
			trustedUntil = asked.Add(ttl - margin)
		case isLost(err):
			cancel(err)
			return
		case !time.Now().Before(trustedUntil):
			cancel(fmt.Errorf("lease was not renewed in time (%w): %w", err, ErrLeaseLost))
			return
		}
	}
}
