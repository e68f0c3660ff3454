package ghclient

import (
	"context"
	"sync"
)

// flights lets identical reads share one request, without ever handing out an answer older than the question: a caller joins a
// request only while it has not been sent. Whoever comes later shares the next one, which starts when the first has ended. So
// there is at most one identical read on the wire, and what a worker reads after its claim was read after its claim (I2).
type flights struct {
	mu   sync.Mutex // guards last and every flight's sent, waiters and next
	last map[string]*flight
}

type flight struct {
	sent    bool
	waiters int
	next    *flight
	run     func(ctx context.Context, sent func()) (answer, error)
	ctx     context.Context
	cancel  context.CancelFunc
	done    chan struct{} // closed after got and err are set
	got     answer
	err     error
}

// do runs fn, or shares the outcome of an identical one that has not been sent yet. fn must call sent immediately before it sends.
// fn goes on while anybody waits for it; it is cancelled when the last caller has left.
func (f *flights) do(ctx context.Context, key string, fn func(ctx context.Context, sent func()) (answer, error)) (answer, error, bool) {
	f.mu.Lock()
	current := f.last[key]
	shared := false
	switch {
	case current == nil:
		current = newFlight(ctx, fn)
		f.last[key] = current
		go f.fly(key, current)
	case !current.sent:
		shared = true
	default:
		if current.next == nil || current.next.ctx.Err() != nil {
			current.next = newFlight(ctx, fn)
		} else {
			shared = true
		}
		current = current.next
	}
	current.waiters++
	f.mu.Unlock()

	select {
	case <-current.done:
		return current.got, current.err, shared
	case <-ctx.Done():
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if current.waiters--; current.waiters == 0 {
		// Closed to newcomers before it is cancelled, or one of them would inherit a cancellation that isn't theirs.
		current.sent = true
		current.cancel()
	}
	return answer{}, ctx.Err(), shared
}

func newFlight(ctx context.Context, fn func(context.Context, func()) (answer, error)) *flight {
	detached, cancel := context.WithCancel(context.WithoutCancel(ctx))
	return &flight{run: fn, ctx: detached, cancel: cancel, done: make(chan struct{})}
}

func (f *flights) fly(key string, current *flight) {
	for current != nil {
		f.runOne(current)
		f.mu.Lock()
		current.sent = true
		current.cancel()
		next := current.next
		if next != nil && next.waiters == 0 {
			next.cancel()
			next = nil
		}
		if next == nil {
			delete(f.last, key)
		} else {
			f.last[key] = next
		}
		close(current.done)
		current = next
		f.mu.Unlock()
	}
}

func (f *flights) runOne(current *flight) {
	current.got, current.err = current.run(current.ctx, func() {
		f.mu.Lock()
		current.sent = true
		f.mu.Unlock()
	})
}
