package ingress

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/countersign/countersign/pkg/store"
)

// panicking is a store with a bug.
type panicking struct{ *fakeStore }

func (panicking) AcceptBatch(context.Context, *store.DirectBatch) ([]store.DirectOutcome, error) {
	panic("a bug")
}

// leaving is a store that takes so long that the sender leaves, and fails like a database when its context ends.
type leaving struct {
	*fakeStore
	leave context.CancelFunc
}

func (l leaving) AcceptBatch(ctx context.Context, b *store.DirectBatch) ([]store.DirectOutcome, error) {
	l.leave()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return l.fakeStore.AcceptBatch(ctx, b)
}

func TestLimits(t *testing.T) {
	t.Parallel()
	t.Run("requests above the rate are 429, before anything of them is read", func(t *testing.T) {
		t.Parallel()
		b, st := fake(t, func(c *Config) { c.RequestRate, c.RequestBurst = 0.001, 3 })
		for range 3 {
			b.deliver("pull_request", pullRequest("opened", 7, headA, "open")).want(t, http.StatusAccepted)
		}
		for range 50 {
			r := b.deliver("pull_request", pullRequest("opened", 7, headA, "open")).want(t, http.StatusTooManyRequests)
			if r.header.Get("Retry-After") == "" {
				t.Error("no Retry-After")
			}
		}
		if st.stored() != 3 {
			t.Errorf("stored %d deliveries, want 3", st.stored())
		}
		if n := b.counted("none", resultLimited); n != 50 {
			t.Errorf("counted %v refusals, want 50", n)
		}
		if n := strings.Count(b.log.String(), "webhooks refused for load"); n < 1 || n > 10 {
			t.Errorf("%d lines about load, want a few", n)
		}
	})
	t.Run("requests above the number in flight are 429, and places are given back", func(t *testing.T) {
		t.Parallel()
		b, _ := fake(t, func(c *Config) { c.MaxInFlight = 1 })
		reader, writer := io.Pipe()
		req := httptest.NewRequest(http.MethodPost, Route, reader)
		req.Header.Set("X-GitHub-Delivery", "d1")
		req.Header.Set("X-GitHub-Event", "push")
		var wg sync.WaitGroup
		wg.Go(func() { b.server.ServeHTTP(httptest.NewRecorder(), req) })
		if _, err := writer.Write([]byte("{")); err != nil { // returns when the server reads: the request is in flight
			t.Fatal(err)
		}
		b.deliver("team", base("edited", nil)).want(t, http.StatusTooManyRequests)
		writer.CloseWithError(errors.New("gone"))
		wg.Wait()
		b.deliver("team", base("edited", nil)).want(t, http.StatusAccepted)
	})
	t.Run("bodies share one budget of memory, which is given back", func(t *testing.T) {
		t.Parallel()
		l := newLimits(Config{BodyMemory: 64 << 10})
		read := func(n int) (func(), error) {
			_, release, err := l.readBody(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, Route, strings.NewReader(strings.Repeat("x", n))))
			return release, err
		}
		small, err := read(100)
		if err != nil {
			t.Fatal(err)
		}
		large, err := read(60 << 10)
		if !errors.Is(err, errMemory) {
			t.Fatalf("a body above what is left: %v, want %v", err, errMemory)
		}
		large()
		small()
		if release, err := read(60 << 10); err != nil {
			t.Errorf("after everything was given back: %v", err)
		} else {
			release()
		}
	})
}

func TestTurns(t *testing.T) {
	t.Parallel()
	t.Run("P10 events that wait for one guard leave connections for the others", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			turns := newTurns(4)
			wait := func(k guardKey, d time.Duration) (func(), error) {
				ctx, cancel := context.WithTimeout(t.Context(), d)
				defer cancel()
				return turns.take(ctx, k)
			}
			busy := guardKey{installation: 1}
			first, err := wait(busy, time.Second)
			if err != nil {
				t.Fatal(err)
			}
			for range 10 { // would be ten held connections
				if _, err := wait(busy, time.Second); !errors.Is(err, store.ErrGuardTimeout) {
					t.Fatalf("a second turn at one guard: %v", err)
				}
			}
			other, err := wait(guardKey{installation: 1, repository: 5}, time.Second)
			if err != nil {
				t.Fatalf("another guard: %v", err)
			}
			// Half of the four connections are taken now; the rest is for pull requests.
			if _, err := wait(guardKey{installation: 2}, time.Second); !errors.Is(err, store.ErrGuardTimeout) {
				t.Fatalf("a third connection: %v", err)
			}
			first()
			third, err := wait(guardKey{installation: 2}, time.Second)
			if err != nil {
				t.Fatalf("a connection given back: %v", err)
			}
			third()
			other()
			if len(turns.waiting) != 0 {
				t.Errorf("%d turns left behind", len(turns.waiting))
			}
		})
	})
}
