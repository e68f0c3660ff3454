package nudge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/countersign/countersign/internal/hook"
)

// Via says what made a worker look: the label of countersign_work_found_total.
type Via string

const (
	// ViaNudge: a wake arrived.
	ViaNudge Via = "nudge"
	// ViaPoll: the jittered poll fell due. With NATS healthy this finds retries and little else.
	ViaPoll Via = "poll"
	// ViaSweep: the worker looked without being told to: at start, and when NATS came back.
	ViaSweep Via = "sweep"
)

// Work is one service's loop over its due rows: woken by nudges, and by a
// jittered poll of Postgres that makes nudges dispensable (I7).
type Work struct {
	// Bus may be nil: the loop then lives on its poll alone.
	Bus *Bus
	// Subject is what wakes this loop.
	Subject Subject
	// Service names the durable consumer, shared by the service's replicas, and the metric label.
	Service string
	// Poll is the mean time between looks without a nudge; each wait is drawn from [Poll/2, 3·Poll/2).
	// Zero means 500 ms (RG-276).
	Poll time.Duration
	// Concurrency is the number of Steps that may run at once; zero means 1.
	Concurrency int
	// Grace bounds the Steps still running after Run's ctx ended; then their ctx is cancelled. Zero means 20 s.
	Grace time.Duration
	// Step claims one due row and works it. did=false says that nothing was due.
	// It may run concurrently with itself, in this process and in others, and is
	// called again at once after did=true.
	//
	// An error backs this worker off, so it is for what stops all work (the
	// database is away). What went wrong with one row belongs into that row, with did=true.
	// A panic is logged and treated as an error.
	//
	// Its ctx outlives Run's ctx by up to Grace and must be obeyed.
	Step func(ctx context.Context, via Via) (did bool, err error)
	// Log receives failed steps; nil discards them.
	Log *slog.Logger
	// Metrics receives countersign_work_*; several Works may share it. Nil keeps them private.
	Metrics prometheus.Registerer
}

const (
	defaultPoll  = 500 * time.Millisecond
	defaultGrace = 20 * time.Second
	// A worker whose step failed looks again after this, doubling to the most.
	firstBackoff = 250 * time.Millisecond
	mostBackoff  = 5 * time.Second
)

// Run works until ctx ends, then claims nothing more, lets the Steps that run
// finish within Grace and returns nil. Steps that outlast it have their ctx
// cancelled and are waited for; Run then returns ErrDrain. When it has returned,
// no Step runs. Any other error is a Work that was put together wrongly.
func (w Work) Run(ctx context.Context) error {
	r, err := w.newRun()
	if err != nil {
		return err
	}
	steps, cancelSteps := context.WithCancel(context.WithoutCancel(ctx))
	defer cancelSteps()
	feeding, stopFeeding := context.WithCancel(ctx)
	defer stopFeeding()

	r.fold(ViaSweep)
	var feeders, workers sync.WaitGroup
	feeders.Go(func() { r.poll(feeding) })
	if w.Bus != nil && w.Subject != "" {
		feeders.Go(func() {
			w.Bus.listen(feeding, w.Subject, w.Service, func(v Via) { r.wait(feeding, v) }, r.fold)
		})
	}
	for range r.Concurrency {
		workers.Go(func() { r.worker(ctx, steps) })
	}

	<-ctx.Done()
	err = r.drain(&workers, cancelSteps)
	feeders.Wait()
	return err
}

// run is a Work that runs.
type run struct {
	Work
	metrics workMetrics
	// wake holds at most one reason to look: two coalesce, because whoever takes
	// it looks until nothing is due.
	wake    chan Via
	running atomic.Int64
}

func (w Work) newRun() (*run, error) {
	if w.Step == nil || w.Service == "" {
		return nil, errors.New("run work: Service and Step are required")
	}
	if w.Poll <= 0 {
		w.Poll = defaultPoll
	}
	if w.Concurrency <= 0 {
		w.Concurrency = 1
	}
	if w.Grace <= 0 {
		w.Grace = defaultGrace
	}
	if w.Log == nil {
		w.Log = slog.New(slog.DiscardHandler)
	}
	m, err := newWorkMetrics(w.Metrics)
	if err != nil {
		return nil, fmt.Errorf("run work of %s: %w", w.Service, err)
	}
	// Every count begins at zero: a rate does not see a series' first value.
	for _, via := range []Via{ViaNudge, ViaPoll, ViaSweep} {
		m.found.WithLabelValues(w.Service, string(via))
	}
	m.failures.WithLabelValues(w.Service)
	return &run{Work: w, metrics: m, wake: make(chan Via, 1)}, nil
}

// drain waits for the workers, and after Grace makes their Steps stop.
func (r *run) drain(workers *sync.WaitGroup, cancelSteps context.CancelFunc) error {
	done := make(chan struct{})
	go func() {
		workers.Wait()
		close(done)
	}()
	grace := time.NewTimer(r.Grace)
	defer grace.Stop()
	select {
	case <-done:
		return nil
	case <-grace.C:
	}
	left := r.running.Load()
	cancelSteps()
	<-done
	if left == 0 {
		return nil
	}
	return fmt.Errorf("drain %s: %d after %s: %w", r.Service, left, r.Grace, ErrDrain)
}

// poll makes a worker look at jittered intervals, so that replicas started
// together do not ask the database together.
func (r *run) poll(ctx context.Context) {
	for pause(ctx, r.Poll/2+rand.N(r.Poll)) {
		r.fold(ViaPoll)
	}
}

// fold gives a reason to look; a waiting one makes it superfluous.
func (r *run) fold(v Via) {
	select {
	case r.wake <- v:
	default:
	}
}

// wait gives a reason to look and returns when it is the one waiting.
func (r *run) wait(ctx context.Context, v Via) {
	select {
	case r.wake <- v:
	case <-ctx.Done():
	}
}

func (r *run) worker(ctx, steps context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case via := <-r.wake:
			r.untilNothingIsDue(ctx, steps, via)
		}
	}
}

func (r *run) untilNothingIsDue(ctx, steps context.Context, via Via) {
	failures := 0
	for ctx.Err() == nil {
		did, err := r.step(steps, via)
		if did {
			r.metrics.found.WithLabelValues(r.Service, string(via)).Inc()
			// Where one row was due more may be: an idle worker looks too.
			r.fold(via)
		}
		if err != nil {
			failures++
			r.metrics.failures.WithLabelValues(r.Service).Inc()
			r.Log.Warn("work failed", "via", string(via), "attempt", failures, "err", err)
			pause(ctx, hook.Pace(backoff(failures, firstBackoff, mostBackoff)))
			continue
		}
		failures = 0
		if !did {
			return
		}
	}
}

func (r *run) step(steps context.Context, via Via) (did bool, err error) {
	r.running.Add(1)
	defer r.running.Add(-1)
	defer func() {
		if p := recover(); p != nil {
			// Not re-raised: the row's lease expires, and one row must not stop the others.
			did, err = false, fmt.Errorf("panic in step: %v", p)
			r.Log.Error("step panicked", "via", string(via), "err", err, "stack", string(debug.Stack()))
		}
	}()
	return r.Step(steps, via)
}

// pause waits for d; false says that ctx ended.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
