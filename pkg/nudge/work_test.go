package nudge_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/countersign/countersign/pkg/nudge"
)

// rows is a table of due work without a database.
type rows struct {
	mu   sync.Mutex
	due  int
	done []time.Time
	via  []nudge.Via
}

func (r *rows) add(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.due += n
}

func (r *rows) step(_ context.Context, via nudge.Via) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.due == 0 {
		return false, nil
	}
	r.due--
	r.done = append(r.done, time.Now())
	r.via = append(r.via, via)
	return true, nil
}

func (r *rows) finished() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.done)
}

func TestWorkWithoutNATS(t *testing.T) {
	t.Parallel()

	t.Run("work that waits is found at start and later work within one and a half polls", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			reg := prometheus.NewRegistry()
			var table rows
			table.add(3)
			stop := runWork(t, nudge.Work{Service: "evaluator", Poll: time.Second, Step: table.step, Metrics: reg})
			synctest.Wait()
			if table.finished() != 3 {
				t.Errorf("%d rows done at start, want 3", table.finished())
			}
			for range 20 {
				added := time.Now()
				before := table.finished()
				table.add(1)
				time.Sleep(1500*time.Millisecond + time.Nanosecond)
				synctest.Wait()
				if table.finished() != before+1 {
					t.Fatalf("not found within one and a half polls")
				}
				if took := table.done[before].Sub(added); took > 1500*time.Millisecond {
					t.Errorf("found after %s", took)
				}
			}
			if err := stop(); err != nil {
				t.Error(err)
			}
			want := `
# HELP countersign_work_found_total Units of work found, by what made the worker look. A healthy bus finds nearly all by nudge.
# TYPE countersign_work_found_total counter
countersign_work_found_total{service="evaluator",via="nudge"} 0
countersign_work_found_total{service="evaluator",via="poll"} 20
countersign_work_found_total{service="evaluator",via="sweep"} 3
`
			if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "countersign_work_found_total"); err != nil {
				t.Error(err)
			}
		})
	})

	t.Run("polls are jittered", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			var at []time.Time
			stop := runWork(t, nudge.Work{Service: "evaluator", Poll: time.Second, Step: func(context.Context, nudge.Via) (bool, error) {
				at = append(at, time.Now())
				return false, nil
			}})
			time.Sleep(100 * time.Second)
			synctest.Wait()
			if err := stop(); err != nil {
				t.Error(err)
			}
			shortest, longest := time.Hour, time.Duration(0)
			for i := 1; i < len(at); i++ {
				shortest, longest = min(shortest, at[i].Sub(at[i-1])), max(longest, at[i].Sub(at[i-1]))
			}
			if len(at) < 80 || len(at) > 125 {
				t.Errorf("%d looks in 100 polls", len(at))
			}
			if shortest < 500*time.Millisecond || longest >= 1500*time.Millisecond || longest-shortest < 500*time.Millisecond {
				t.Errorf("waits between %s and %s", shortest, longest)
			}
		})
	})

	t.Run("one reason to look brings up every worker", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			var running, most atomic.Int64
			var left atomic.Int64
			left.Store(40)
			begin := time.Now()
			var end atomic.Int64
			stop := runWork(t, nudge.Work{Service: "evaluator", Poll: time.Hour, Concurrency: 4, Step: func(context.Context, nudge.Via) (bool, error) {
				if left.Add(-1) < 0 {
					return false, nil
				}
				most.Store(max(most.Load(), running.Add(1)))
				time.Sleep(time.Second)
				running.Add(-1)
				end.Store(int64(time.Since(begin)))
				return true, nil
			}})
			time.Sleep(30 * time.Second)
			synctest.Wait()
			if most.Load() != 4 {
				t.Errorf("%d steps at once, want 4", most.Load())
			}
			// 40 s of work by one; the others join one step apart.
			if took := time.Duration(end.Load()); took > 14*time.Second {
				t.Errorf("40 rows of a second took %s with four workers", took)
			}
			if err := stop(); err != nil {
				t.Error(err)
			}
		})
	})

	t.Run("errors and panics back off without spinning and work goes on", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			var calls atomic.Int64
			var broken atomic.Bool
			broken.Store(true)
			reg := prometheus.NewRegistry()
			stop := runWork(t, nudge.Work{Service: "fanout", Poll: 100 * time.Millisecond, Metrics: reg, Step: func(context.Context, nudge.Via) (bool, error) {
				switch n := calls.Add(1); {
				case broken.Load() && n%2 == 0:
					panic("a bug")
				case broken.Load():
					return false, errors.New("the database is away")
				}
				return false, nil
			}})
			time.Sleep(time.Minute)
			synctest.Wait()
			failed := calls.Load()
			// 250 ms doubling to 5 s, from the upper half of each: never a spin, never silence.
			if failed < 12 || failed > 32 {
				t.Errorf("%d attempts in a minute of failure", failed)
			}
			broken.Store(false)
			time.Sleep(6 * time.Second)
			synctest.Wait()
			if again := calls.Load() - failed; again < 5 {
				t.Errorf("%d looks in the 6 s after the mend: still backing off", again)
			}
			if err := stop(); err != nil {
				t.Error(err)
			}
			if n := testutil.ToFloat64(counter(t, reg, "countersign_work_failures_total")); int64(n) != failed {
				t.Errorf("%v failures counted, want %d", n, failed)
			}
		})
	})
}

func TestWorkDrains(t *testing.T) {
	t.Parallel()

	t.Run("a running step finishes within the grace and nothing is claimed after", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			var begun, finished atomic.Int64
			stop := runWork(t, nudge.Work{Service: "evaluator", Concurrency: 3, Poll: time.Second, Grace: 10 * time.Second,
				Step: func(ctx context.Context, _ nudge.Via) (bool, error) {
					begun.Add(1)
					time.Sleep(5 * time.Second)
					if ctx.Err() == nil {
						finished.Add(1)
					}
					return true, nil
				}})
			time.Sleep(time.Second)
			before := begun.Load()
			asked := time.Now()
			if err := stop(); err != nil {
				t.Error(err)
			}
			if took := time.Since(asked); took > 5*time.Second {
				t.Errorf("the drain took %s", took)
			}
			if begun.Load() != before || finished.Load() != before {
				t.Errorf("%d begun before, %d after, %d finished uncancelled", before, begun.Load(), finished.Load())
			}
		})
	})

	t.Run("a step that outlasts the grace is cancelled then and named", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			var cancelled time.Time
			stop := runWork(t, nudge.Work{Service: "evaluator", Poll: time.Second, Grace: 10 * time.Second,
				Step: func(ctx context.Context, _ nudge.Via) (bool, error) {
					<-ctx.Done()
					cancelled = time.Now()
					return true, ctx.Err()
				}})
			synctest.Wait()
			asked := time.Now()
			if err := stop(); !errors.Is(err, nudge.ErrDrain) {
				t.Errorf("error %v, want ErrDrain", err)
			}
			if after := cancelled.Sub(asked); after != 10*time.Second {
				t.Errorf("cancelled %s after the end was asked for, want the grace of 10s", after)
			}
		})
	})

	t.Run("a worker that backs off stops at once", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			stop := runWork(t, nudge.Work{Service: "evaluator", Step: func(context.Context, nudge.Via) (bool, error) {
				return false, errors.New("the database is away")
			}})
			time.Sleep(time.Minute)
			asked := time.Now()
			if err := stop(); err != nil {
				t.Error(err)
			}
			if took := time.Since(asked); took != 0 {
				t.Errorf("the drain took %s", took)
			}
		})
	})
}

func TestWorkRefusesNonsense(t *testing.T) {
	t.Parallel()
	if err := (nudge.Work{Service: "evaluator"}).Run(t.Context()); err == nil {
		t.Error("no Step, no error")
	}
	if err := (nudge.Work{Step: (&rows{}).step}).Run(t.Context()); err == nil {
		t.Error("no Service, no error")
	}
}

func TestWorksShareARegistry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		var one, two rows
		one.add(1)
		two.add(2)
		stopOne := runWork(t, nudge.Work{Service: "fanout", Step: one.step, Metrics: reg})
		stopTwo := runWork(t, nudge.Work{Service: "evaluator", Step: two.step, Metrics: reg})
		synctest.Wait()
		if err := errors.Join(stopOne(), stopTwo()); err != nil {
			t.Error(err)
		}
		want := `
# HELP countersign_work_found_total Units of work found, by what made the worker look. A healthy bus finds nearly all by nudge.
# TYPE countersign_work_found_total counter
countersign_work_found_total{service="evaluator",via="nudge"} 0
countersign_work_found_total{service="evaluator",via="poll"} 0
countersign_work_found_total{service="evaluator",via="sweep"} 2
countersign_work_found_total{service="fanout",via="nudge"} 0
countersign_work_found_total{service="fanout",via="poll"} 0
countersign_work_found_total{service="fanout",via="sweep"} 1
`
		if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "countersign_work_found_total"); err != nil {
			t.Error(err)
		}
	})
}

// runWork runs w until stop, which returns Run's error once it has returned.
func runWork(t *testing.T, w nudge.Work) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	return func() error {
		cancel()
		return <-done
	}
}

// counter returns the one sample of a registered counter.
func counter(t *testing.T, g prometheus.Gatherer, name string) prometheus.Collector {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name && len(f.GetMetric()) == 1 {
			c := prometheus.NewCounter(prometheus.CounterOpts{Name: name})
			c.Add(f.GetMetric()[0].GetCounter().GetValue())
			return c
		}
	}
	t.Fatalf("no single sample of %s", name)
	return nil
}
