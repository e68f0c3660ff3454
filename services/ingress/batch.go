package ingress

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/countersign/countersign/pkg/store"
)

const (
	// batchSize bounds how many deliveries one commit holds: what a statement costs beside its commit grows with it, and so does
	// what a spoiled batch repeats.
	batchSize = 64
	// maxCommits bounds how many batches are being committed at once; see docs/performance.md for where it comes from.
	maxCommits = 2
	// commitWithin bounds one batch; whoever waits for it has left by then.
	commitWithin = answerWithin
)

// batcher lets deliveries that arrive while others are being committed share the next commit. There is no delay to gather
// them: the first goes at once. A delivery that spoils its batch is found by storing each of the batch by itself; authority
// events never come here. It owns up to maxCommits goroutines, which end when nothing waits.
type batcher struct {
	store   Store
	commits int
	metrics *metrics
	log     *slog.Logger

	mu      sync.Mutex // guards the rest
	waiting []*rider
	// flying are the batches being committed. A delivery that has a row in common with one waits here and not for its lock.
	flying map[*store.DirectBatch]struct{}
	// running is how many goroutines commit; alone, how many of them hold a delivery that is stored by itself.
	running, alone int
}

// rider is one delivery waiting for its commit.
type rider struct {
	delivery store.Delivery
	work     store.DirectWork
	alone    bool // its batch was spoiled
	done     chan struct{}
	outcome  store.DirectOutcome
}

// newBatcher leaves at least half of the connections to what does not ride in a batch.
func newBatcher(s Store, poolConns int32, m *metrics, log *slog.Logger) *batcher {
	return &batcher{
		store: s, commits: min(maxCommits, max(1, int(poolConns)/2)), metrics: m, log: log, flying: map[*store.DirectBatch]struct{}{},
	}
}

// accept returns after the commit that holds the delivery, with its own outcome. A caller whose ctx ends while the delivery
// waits takes it out again; one whose ctx ends during the commit does not know what became of it, as of any lost answer.
func (b *batcher) accept(ctx context.Context, d store.Delivery, w store.DirectWork) (store.Acceptance, error) {
	r := &rider{delivery: d, work: w, done: make(chan struct{})}
	b.mu.Lock()
	b.waiting = append(b.waiting, r)
	b.start()
	b.mu.Unlock()
	select {
	case <-r.done:
		return r.outcome.Acceptance, r.outcome.Err
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.Index(b.waiting, r); i >= 0 {
		b.waiting = slices.Delete(b.waiting, i, i+1)
	}
	return store.Acceptance{}, fmt.Errorf("wait for the commit of delivery %s: %w", d.ID, ctx.Err())
}

// start has one more goroutine look at what waits, if another may. The caller holds mu.
func (b *batcher) start() {
	if b.running < b.commits {
		b.running++
		go b.run()
	}
}

// run commits batches until nothing waits that may go.
func (b *batcher) run() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for {
		batch, riders := b.take()
		if len(riders) == 0 {
			b.running--
			return
		}
		alone := riders[0].alone
		if alone {
			b.alone++
		}
		b.flying[batch] = struct{}{}
		if len(b.waiting) > 0 {
			b.start()
		}
		b.mu.Unlock()
		outcomes, err := b.commit(batch)
		b.mu.Lock()
		delete(b.flying, batch)
		if alone {
			b.alone--
		}
		if errors.Is(err, store.ErrSpoiled) {
			b.metrics.spoiled.Inc()
			b.again(riders)
			continue
		}
		for i, r := range riders {
			if r.outcome.Err = err; err == nil {
				r.outcome = outcomes[i]
			}
			close(r.done)
		}
	}
}

// take picks the next batch in order of arrival: what has no row in common with a batch in flight. A delivery whose batch was
// spoiled goes by itself, and such never take up the last goroutine: one that waits for a lock must not stop the others.
func (b *batcher) take() (*store.DirectBatch, []*rider) {
	batch := &store.DirectBatch{}
	var riders []*rider
	left := b.waiting[:0:0]
	for i, r := range b.waiting {
		if len(riders) == batchSize || (len(riders) > 0 && riders[0].alone) {
			left = append(left, b.waiting[i:]...)
			break
		}
		if !b.mayBoard(r, len(riders)) || !batch.Add(r.delivery, r.work) {
			left = append(left, r)
			continue
		}
		riders = append(riders, r)
	}
	b.waiting = left
	return batch, riders
}

func (b *batcher) mayBoard(r *rider, aboard int) bool {
	if r.alone && (aboard > 0 || b.alone >= max(1, b.commits-1)) {
		return false
	}
	for batch := range b.flying {
		if batch.Touches(r.work) {
			return false
		}
	}
	return true
}

// again puts the riders of a spoiled batch first, each to be stored by itself.
func (b *batcher) again(riders []*rider) {
	for _, r := range riders {
		r.alone = true
	}
	b.waiting = append(riders, b.waiting...)
	b.start()
}

// commit stores one batch. A panic is its outcome: it is no request's goroutine that it would end.
func (b *batcher) commit(batch *store.DirectBatch) (outcomes []store.DirectOutcome, err error) {
	defer func() {
		if p := recover(); p != nil {
			b.log.Error("webhook handler panicked", "panic", p, "stack", string(debug.Stack()))
			outcomes, err = nil, errPanicked
		}
	}()
	// No request's context: the others' deliveries do not end with whoever came first.
	ctx, cancel := context.WithTimeout(context.Background(), commitWithin)
	defer cancel()
	began := time.Now()
	outcomes, err = b.store.AcceptBatch(ctx, batch)
	b.metrics.commitSeconds.Observe(time.Since(began).Seconds())
	b.metrics.commitDeliveries.Observe(float64(batch.Len()))
	return outcomes, err
}
