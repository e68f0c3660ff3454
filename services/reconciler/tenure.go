package reconciler

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/countersign/countersign/pkg/daemon"
	"github.com/countersign/countersign/pkg/store"
)

// Why nothing further begins.
var (
	errStopping = errors.New("the process is stopping")
	errLost     = errors.New("the reconciler's lease was lost")
)

// tenure is one elected scan's right to go on: it ends when the process is told to stop, or when the lease is lost.
type tenure struct {
	stopping context.Context //nolint:containedctx // the service's own, kept apart from the one work runs under (RG-421)
	lost     atomic.Bool
	end      func() // stops the heartbeat and waits for it
}

// check says whether another step may begin (RG-420).
func (t *tenure) check() error {
	switch {
	case t.lost.Load():
		return errLost
	case t.stopping.Err() != nil:
		return errStopping
	}
	return nil
}

// beginTenure renews the lease every third of it until end (RG-408). elected is when the election was asked for: the database's
// clock decides, and the local one is used only to stop earlier, before a lease that could not be renewed may be somebody else's.
func (s *Service) beginTenure(stopping, work context.Context, term store.Term, elected time.Time) *tenure {
	ttl := s.cfg.lease()
	t := &tenure{stopping: stopping}
	beats, stop := context.WithCancel(work)
	var beating sync.WaitGroup
	beating.Go(func() {
		trustedUntil := elected.Add(ttl)
		tick := time.NewTicker(ttl / 3)
		defer tick.Stop()
		for {
			select {
			case <-beats.Done():
				return
			case <-tick.C:
			}
			asked := time.Now()
			err := s.deps.Store.RenewTerm(beats, term, ttl)
			switch {
			case err == nil:
				trustedUntil = asked.Add(ttl)
				continue
			case beats.Err() != nil:
				return
			case errors.Is(err, store.ErrLeaseLost), !time.Now().Before(trustedUntil.Add(-ttl / 3)):
				t.lost.Store(true)
				s.metrics.leasesLost.Inc()
			}
			s.deps.Log.WarnContext(work, "lease not renewed", daemon.KeyLeaseToken, int64(term.Token), "lost", t.lost.Load(), daemon.KeyErr, err)
			if t.lost.Load() {
				return
			}
		}
	})
	t.end = func() {
		stop()
		beating.Wait()
	}
	return t
}
