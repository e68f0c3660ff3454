package store

import (
	"context"
	"sync"
)

// guardTurns are taken in this process before a guard's connection is: of many that wait for one head one does so in Postgres, and
// one installation, whose guards may all have to wait for an authority event, never has every connection (P10). They bound
// connections and nothing else; the locks in Postgres are the guard.
type guardTurns struct {
	share int // guard connections that one installation may have

	mu            sync.Mutex // guards the maps and the waiters' counts
	heads         map[HeadKey]*line
	installations map[InstallationID]*line
}

// line is a place where so many may stand at once.
type line struct {
	places chan struct{}
	users  int // holders and waiters
}

func newGuardTurns(guardConns int32) *guardTurns {
	conns := max(int(guardConns), 1)
	return &guardTurns{share: max(conns-conns/4, 1), heads: map[HeadKey]*line{}, installations: map[InstallationID]*line{}}
}

// take waits for the head's turn and then for the installation's share. leave gives both back; call it once.
func (t *guardTurns) take(ctx context.Context, key HeadKey) (leave func(), err error) {
	leaveHead, err := stand(ctx, t, t.heads, key, 1)
	if err != nil {
		return nil, err
	}
	leaveInstallation, err := stand(ctx, t, t.installations, key.Installation, t.share)
	if err != nil {
		leaveHead()
		return nil, err
	}
	return func() {
		leaveInstallation()
		leaveHead()
	}, nil
}

func stand[K comparable](ctx context.Context, t *guardTurns, lines map[K]*line, key K, places int) (leave func(), err error) {
	t.mu.Lock()
	l := lines[key]
	if l == nil {
		l = &line{places: make(chan struct{}, places)}
		lines[key] = l
	}
	l.users++
	t.mu.Unlock()
	gone := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(lines, key)
		}
	}
	select {
	case l.places <- struct{}{}:
	case <-ctx.Done():
		gone()
		return nil, ctx.Err()
	}
	return func() {
		<-l.places
		gone()
	}, nil
}
