package fanout

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/countersign/countersign/internal/hook"
	"github.com/countersign/countersign/pkg/daemon"
	"github.com/countersign/countersign/pkg/store"
)

// hold renews the row's lease every third of it (RG-275) until release is called, which waits for that to end. The returned
// ctx is cancelled with store.ErrLeaseLost as its cause when the lease was lost, or when it can no longer be proved to be ours.
// The database decides; the local clock is used only to stop earlier.
func (s *Service) hold(ctx context.Context, a store.Authority) (held context.Context, release func()) {
	held, cancel := context.WithCancelCause(ctx)
	trustedUntil := time.Now().Add(s.cfg.Worker.Lease)
	var renewing sync.WaitGroup
	renewing.Go(func() {
		tick := time.NewTicker(max(s.cfg.Worker.Lease/3, hook.Pace(time.Second)))
		defer tick.Stop()
		for {
			select {
			case <-held.Done():
				return
			case <-tick.C:
			}
			asked := time.Now()
			err := s.deps.Store.RenewAuthority(held, a, s.cfg.Worker.Lease)
			switch {
			case err == nil:
				trustedUntil = asked.Add(s.cfg.Worker.Lease)
			case errors.Is(err, store.ErrLeaseLost):
				cancel(err)
				return
			case held.Err() != nil:
				return
			case !time.Now().Before(trustedUntil.Add(-s.cfg.Worker.Lease / 3)):
				// The next try would come too late.
				cancel(fmt.Errorf("%w: not renewed in time: %w", store.ErrLeaseLost, err))
				return
			default:
				s.deps.Log.WarnContext(held, "lease not renewed", daemon.KeyLeaseToken, int64(a.Token), daemon.KeyErr, err)
			}
		}
	})
	return held, func() {
		cancel(nil)
		renewing.Wait()
	}
}
