package ingress

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/countersign/countersign/pkg/store"
)

// guardKey is what an authority event waits for: the guard of its installation, or of one repository.
type guardKey struct {
	installation store.InstallationID
	repository   store.RepositoryID
}

// turns keeps authority events from holding every database connection while they wait for a publication guard (P10): one at a
// time waits for one guard, and together they take at most half of the pool. The others wait here, where waiting is free.
// Without this a burst of team changes in one busy installation would answer the pull requests of all others with 503.
type turns struct {
	conns *semaphore.Weighted

	mu sync.Mutex
	// waiting holds a one-place queue for each guard somebody is at, and how many are.
	waiting map[guardKey]*turn
}

type turn struct {
	place chan struct{}
	users int
}

func newTurns(poolConns int32) *turns {
	return &turns{conns: semaphore.NewWeighted(max(1, int64(poolConns)/2)), waiting: map[guardKey]*turn{}}
}

// take waits for the turn at a guard until ctx ends, which is store.ErrGuardTimeout: the guard was not obtained in time.
func (t *turns) take(ctx context.Context, key guardKey) (done func(), err error) {
	own := t.enter(key)
	select {
	case own.place <- struct{}{}:
	case <-ctx.Done():
		t.leave(key, own)
		return nil, store.ErrGuardTimeout
	}
	if err := t.conns.Acquire(ctx, 1); err != nil {
		<-own.place
		t.leave(key, own)
		return nil, store.ErrGuardTimeout
	}
	return func() {
		t.conns.Release(1)
		<-own.place
		t.leave(key, own)
	}, nil
}

func (t *turns) enter(key guardKey) *turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	own := t.waiting[key]
	if own == nil {
		own = &turn{place: make(chan struct{}, 1)}
		t.waiting[key] = own
	}
	own.users++
	return own
}

func (t *turns) leave(key guardKey, own *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	own.users--
	if own.users == 0 {
		delete(t.waiting, key)
	}
}
