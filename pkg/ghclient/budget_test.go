package ghclient

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// newPackageBudgets is a ledger under a clock that the test owns (synctest's, usually).
func newPackageBudgets(store BudgetStore) *budgets {
	return &budgets{store: store, now: time.Now, log: slog.New(slog.DiscardHandler), metrics: newMetrics(nil), ledgers: map[int64]*ledger{}}
}

func rate(limit, remaining int, reset time.Time, resource string) http.Header {
	return headers(fmt.Sprintf("X-RateLimit-Limit: %d", limit), fmt.Sprintf("X-RateLimit-Remaining: %d", remaining), "X-RateLimit-Reset: "+unix(reset), "X-RateLimit-Resource: "+resource)
}

func TestBudgetReserves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newPackageBudgets(nil)
		reset := time.Now().Add(30 * time.Minute)
		admitted := func(remaining int) []Lane {
			b.ledgers = map[int64]*ledger{}
			b.observe(1, core, rate(5000, remaining, reset, "core"))
			var ok []Lane
			for l := range lanes {
				err := b.admit(t.Context(), 1, l, core)
				var limit *RateLimitError
				if err == nil {
					ok = append(ok, l)
				} else if !errors.As(err, &limit) || limit.After != 30*time.Minute {
					t.Errorf("remaining %d, %s: %v", remaining, l, err)
				}
			}
			return ok
		}
		for remaining, want := range map[int][]Lane{
			5000: {LaneFresh, LaneRevocation, LaneFanout, LaneReconcile}, 1249: {LaneFresh, LaneRevocation, LaneFanout},
			499: {LaneFresh, LaneRevocation}, 99: {LaneRevocation}, 1: {LaneRevocation}, 0: nil,
		} {
			if got := admitted(remaining); !slices.Equal(got, want) {
				t.Errorf("remaining %d admits %v, want %v", remaining, got, want)
			}
		}
		if err := b.admit(t.Context(), 2, LaneReconcile, core); err != nil {
			t.Errorf("another installation: %v", err)
		}
		if err := b.admit(t.Context(), 1, LaneReconcile, graphql); err != nil {
			t.Errorf("the other budget: %v", err)
		}
		b.observe(1, core, rate(5000, 3000, reset, "core"))
		if got := b.ledgers[1].windows[core].remaining; got > 5000 {
			t.Errorf("an answer that was overtaken raised the budget to %d", got)
		}
		time.Sleep(31 * time.Minute)
		if err := b.admit(t.Context(), 1, LaneReconcile, core); err != nil {
			t.Errorf("after the reset: %v", err)
		}
	})
}

func TestPauses(t *testing.T) {
	t.Parallel()
	t.Run("a pause another replica stored is seen before anything is sent", func(t *testing.T) {
		t.Parallel()
		store := &memoryBudget{now: time.Now, until: map[int64]time.Time{testInst: time.Now().Add(time.Hour)}}
		s := newScript(t)
		client := s.client(func(_ *Config, o *Options) { o.Budget = store })
		_, err := client.Repository(t.Context(), acme)
		var limit *RateLimitError
		if !errors.As(err, &limit) || limit.Kind != "paused" || limit.After < 59*time.Minute || limit.Installation != testInst {
			t.Errorf("got %v", err)
		}
		if len(s.calls) != 0 {
			t.Errorf("sent %v", s.calls)
		}
	})
	t.Run("RG-145 a limit that is met is stored for all replicas", func(t *testing.T) {
		t.Parallel()
		for _, status := range []int{403, 429} {
			store := &memoryBudget{now: time.Now}
			s := newScript(t)
			s.answers("GET /repos/acme/shop", status, `{"message":"You have exceeded a secondary rate limit."}`, "Retry-After: 77")
			one := s.client(func(_ *Config, o *Options) { o.Budget = store })
			if _, err := one.Repository(t.Context(), acme); !errors.Is(err, ErrRateLimited) {
				t.Fatalf("%d: got %v", status, err)
			}
			if want := []string{"11 1m17s secondary"}; !slices.Equal(store.pauses, want) {
				t.Errorf("%d: stored %v, want %v", status, store.pauses, want)
			}
			before := s.seen("GET /repos")
			replica := s.app(func(_ *Config, o *Options) { o.Budget = store }).Client(testInst, EvaluatorPermissions)
			for _, c := range []*Client{one, replica} {
				if _, err := c.Repository(t.Context(), acme); !errors.Is(err, ErrRateLimited) {
					t.Errorf("%d: got %v", status, err)
				}
			}
			if n := s.seen("GET /repos") - before; n != 0 {
				t.Errorf("%d: %d requests during the pause", status, n)
			}
		}
	})
	t.Run("an exhausted query budget stops queries and nothing else", func(t *testing.T) {
		t.Parallel()
		store := &memoryBudget{now: time.Now}
		s := newScript(t)
		s.answers("POST /graphql", 200, `{"errors":[{"type":"RATE_LIMITED","message":"API rate limit exceeded for installation ID 11."}]}`,
			"X-RateLimit-Remaining: 0", "X-RateLimit-Limit: 5000", "X-RateLimit-Resource: graphql", "X-RateLimit-Reset: "+unix(time.Now().Add(time.Hour)))
		s.answers("GET /repos/acme/shop", 200, repositoryJSON(101, "shop"))
		client := s.client(func(_ *Config, o *Options) { o.Budget = store })
		for range 2 {
			if _, err := client.Evidence(t.Context(), acme, 3); !errors.Is(err, ErrRateLimited) {
				t.Errorf("got %v", err)
			}
		}
		if n := s.seen("POST /graphql"); n != 1 {
			t.Errorf("%d queries were sent", n)
		}
		if _, err := client.Repository(t.Context(), acme); err != nil || len(store.pauses) != 0 {
			t.Errorf("REST: %v, stored %v", err, store.pauses)
		}
	})
	t.Run("a pause that can't be read lets nothing through", func(t *testing.T) {
		t.Parallel()
		s := newScript(t)
		client := s.client(func(_ *Config, o *Options) { o.Budget = &memoryBudget{now: time.Now, fail: errors.New("no database")} })
		if _, err := client.Repository(t.Context(), acme); !errors.Is(err, ErrUnavailable) || len(s.calls) != 0 {
			t.Errorf("got %v, sent %v", err, s.calls)
		}
	})
}

func TestGate(t *testing.T) {
	t.Parallel()
	t.Run("the most urgent waiter goes first", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			g := newGate(1)
			if err := g.acquire(t.Context(), LaneFresh); err != nil {
				t.Fatal(err)
			}
			var mu sync.Mutex
			var order []string
			for _, l := range []Lane{LaneReconcile, LaneFanout, LaneFresh, LaneRevocation, LaneFresh} {
				go func() {
					if err := g.acquire(t.Context(), l); err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					order = append(order, l.String())
					mu.Unlock()
					g.release(l)
				}()
				synctest.Wait()
			}
			g.release(LaneFresh)
			synctest.Wait()
			if got := strings.Join(order, " "); got != "revocation fresh fresh fanout reconcile" {
				t.Errorf("got %s", got)
			}
		})
	})
	t.Run("patient lanes leave slots free", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			g := newGate(8)
			ctx, cancel := context.WithCancel(t.Context())
			held := map[Lane]int{}
			var mu sync.Mutex
			for _, l := range []Lane{LaneReconcile, LaneFanout, LaneFresh, LaneRevocation} {
				for range 8 {
					go func() {
						if g.acquire(ctx, l) == nil {
							mu.Lock()
							held[l]++
							mu.Unlock()
						}
					}()
				}
				synctest.Wait()
			}
			mu.Lock()
			got := fmt.Sprint(held[LaneReconcile], held[LaneFanout], held[LaneFresh], held[LaneRevocation])
			mu.Unlock()
			if got != "2 4 2 0" {
				t.Errorf("held %s", got)
			}
			cancel()
			synctest.Wait()
		})
	})
	t.Run("who gives up holds nothing", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			g := newGate(1)
			_ = g.acquire(t.Context(), LaneFresh)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := g.acquire(ctx, LaneRevocation); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
			g.release(LaneFresh)
			if err := g.acquire(t.Context(), LaneReconcile); err != nil {
				t.Error(err)
			}
		})
	})
}

func TestFlights(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &flights{last: map[string]*flight{}}
		var runs atomic.Int64
		toSend, toAnswer := make(chan struct{}), make(chan struct{})
		fn := func(ctx context.Context, sent func()) (answer, error) {
			n := runs.Add(1)
			<-toSend
			sent()
			<-toAnswer
			return answer{status: int(n)}, nil
		}
		var mu sync.Mutex
		got := map[string][]int{}
		ask := func(who string) {
			go func() {
				a, err, _ := f.do(t.Context(), "k", fn)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				got[who] = append(got[who], a.status)
				mu.Unlock()
			}()
			synctest.Wait()
		}
		ask("before it is sent")
		ask("before it is sent")
		toSend <- struct{}{}
		synctest.Wait()
		ask("after it was sent")
		ask("after it was sent")
		if n := runs.Load(); n != 1 {
			t.Errorf("%d on the wire", n)
		}
		toAnswer <- struct{}{}
		synctest.Wait()
		toSend <- struct{}{}
		toAnswer <- struct{}{}
		synctest.Wait()
		if fmt.Sprint(got["before it is sent"]) != "[1 1]" || fmt.Sprint(got["after it was sent"]) != "[2 2]" {
			t.Errorf("got %v", got)
		}
		if len(f.last) != 0 {
			t.Error("a flight is left behind")
		}
	})
	t.Run("the last caller to leave cancels it, and nobody inherits that", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			f := &flights{last: map[string]*flight{}}
			var runs atomic.Int64
			linger := make(chan struct{})
			fn := func(ctx context.Context, _ func()) (answer, error) {
				if runs.Add(1) == 1 {
					<-ctx.Done()
					<-linger
					return answer{}, ctx.Err()
				}
				return answer{status: 200}, nil
			}
			ctx, cancel := context.WithCancel(t.Context())
			var first, second error
			go func() { _, first, _ = f.do(ctx, "k", fn) }()
			synctest.Wait()
			cancel()
			synctest.Wait()
			go func() { _, second, _ = f.do(t.Context(), "k", fn) }()
			synctest.Wait()
			close(linger)
			synctest.Wait()
			if !errors.Is(first, context.Canceled) || second != nil || runs.Load() != 2 || len(f.last) != 0 {
				t.Errorf("first %v, second %v, %d runs", first, second, runs.Load())
			}
		})
	})
}

func TestConditionalReads(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	s := newScript(t)
	tag, name := `W/"1"`, "shop"
	s.mux.HandleFunc("GET /repos/acme/shop", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("If-None-Match") == tag {
			w.WriteHeader(304)
			return
		}
		write(w, 200, strings.Replace(repositoryJSON(101, name), `"default_branch":"main"`, `"default_branch":`+strconvQuote(tag), 1), "ETag: "+tag)
	})
	client := s.client(func(_ *Config, o *Options) { o.Metrics = registry })
	for _, want := range []string{`W/"1"`, `W/"1"`, `W/"2"`} {
		tag = want
		info, err := client.Repository(t.Context(), acme)
		if err != nil || info.DefaultBranch != want {
			t.Fatalf("got %+v, %v", info, err)
		}
	}
	expected := `
# HELP countersign_github_requests_total Requests to GitHub by operation and outcome; not_modified cost no budget, refused and shared were not sent.
# TYPE countersign_github_requests_total counter
countersign_github_requests_total{operation="apps.create_token",outcome="ok"} 1
countersign_github_requests_total{operation="repos.get",outcome="not_modified"} 1
countersign_github_requests_total{operation="repos.get",outcome="ok"} 2
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(expected), "countersign_github_requests_total"); err != nil {
		t.Error(err)
	}
}

func strconvQuote(s string) string { return `"` + strings.ReplaceAll(s, `"`, `\"`) + `"` }
