package nudge

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	// wakeAge is how long a nudge waits for a reader: far longer than any poll,
	// short enough that a stream nobody reads stays small.
	wakeAge = 2 * time.Minute
	// wakesKept bounds a subject; the oldest nudge goes first, because the poll
	// has found its row by then.
	wakesKept   = 4096
	wakeMaxSize = 4 << 10
	// pullFor is one pull request's life on the server.
	pullFor = 30 * time.Second
	// apiTimeout bounds the creation of stream and consumer. A server that has just
	// started loses such requests; asking again is idempotent and sooner than waiting.
	apiTimeout = 2 * time.Second
	// lagEvery is how old the gauge of waiting nudges may be.
	lagEvery = 15 * time.Second
	// drainBatch is how many waiting nudges are folded into one at a time.
	drainBatch = 256
)

// streamConfig is the stream as this version would create it.
func streamConfig(storage jetstream.StorageType) jetstream.StreamConfig {
	var subjects []string
	for _, s := range Subjects() {
		subjects = append(subjects, string(s))
	}
	return jetstream.StreamConfig{
		Name:              StreamName,
		Description:       "Countersign: hints that a row has work; losing them loses nothing",
		Subjects:          subjects,
		Retention:         jetstream.LimitsPolicy,
		Discard:           jetstream.DiscardOld,
		MaxAge:            wakeAge,
		MaxMsgsPerSubject: wakesKept,
		MaxMsgs:           int64(wakesKept * len(subjects)),
		MaxBytes:          8 << 20,
		MaxMsgSize:        wakeMaxSize,
		Duplicates:        time.Minute,
		Storage:           storage,
		Replicas:          1,
	}
}

// consumer returns the durable consumer of subject, creating it and the stream
// when they are missing. Idempotent, and safe for replicas that start together.
// An existing stream is used as it is: replicas of two versions must not fight
// over its limits.
func (b *Bus) consumer(ctx context.Context, subject Subject, service string) (jetstream.Consumer, error) {
	_, js := b.conn()
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	storage, err := b.cfg.storage()
	if err != nil {
		return nil, err
	}
	want := streamConfig(storage)
	_, err = js.CreateStream(ctx, want)
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		stream, err := js.Stream(ctx, StreamName)
		if err != nil {
			return nil, fmt.Errorf("look at stream %s: %w", StreamName, err)
		}
		if have := stream.CachedInfo().Config.Subjects; !slices.Contains(have, string(subject)) {
			return nil, fmt.Errorf("stream %s does not capture %s; delete it (nats stream rm %s) and it is made again, nothing is lost", StreamName, subject, StreamName)
		}
	} else if err != nil {
		return nil, fmt.Errorf("create stream %s: %w", StreamName, err)
	}
	cons, err := js.CreateOrUpdateConsumer(ctx, StreamName, jetstream.ConsumerConfig{
		Durable:       service,
		Description:   "shared by the replicas of " + service,
		FilterSubject: string(subject),
		DeliverPolicy: jetstream.DeliverAllPolicy,
		// A hint is taken when it is received: nothing is redelivered, because the poll redelivers everything.
		AckPolicy: jetstream.AckNonePolicy,
	})
	if err != nil {
		return nil, fmt.Errorf("create consumer %s: %w", service, err)
	}
	return cons, nil
}

// listen hands every nudge on subject to wake until ctx ends, through any number
// of outages; each time NATS comes back it says so once, because nudges sent
// meanwhile are lost.
//
// wake blocks while a nudge already waits for a worker, so a busy replica leaves
// further nudges to an idle one; fold never blocks.
func (b *Bus) listen(ctx context.Context, subject Subject, service string, wake func(Via), fold func(Via)) {
	failures := 0
	for ctx.Err() == nil {
		up := b.up()
		if !b.Connected() {
			select {
			case <-ctx.Done():
				return
			case <-up:
				fold(ViaSweep)
			}
			continue
		}
		cons, err := b.consumer(ctx, subject, service)
		if err == nil {
			failures = 0
			err = b.pull(ctx, cons, subject, up, wake, fold)
		}
		if err == nil || ctx.Err() != nil {
			continue
		}
		failures++
		b.log.Warn("cannot listen for nudges", "subject", string(subject), "attempt", failures, "err", err)
		select {
		case <-ctx.Done():
		case <-up:
			fold(ViaSweep)
		case <-time.After(backoff(failures, 500*time.Millisecond, 30*time.Second)):
		}
	}
}

// pull takes nudges one request at a time until ctx ends, the connection came
// up anew (a pull request does not survive its server), or a request fails.
func (b *Bus) pull(ctx context.Context, cons jetstream.Consumer, subject Subject, up <-chan struct{}, wake, fold func(Via)) error {
	ctx, cancel := context.WithCancel(ctx)
	var looking sync.WaitGroup
	defer looking.Wait()
	looking.Go(func() { b.watchLag(ctx, cons, subject) })
	defer cancel()
	for ctx.Err() == nil {
		select {
		case <-up:
			fold(ViaSweep)
			return nil
		default:
		}
		waiting, err := b.pullOne(ctx, cons, subject, up, wake)
		if err != nil {
			return err
		}
		if waiting {
			if err := b.foldWaiting(cons, subject, fold); err != nil {
				return err
			}
		}
	}
	return nil
}

// watchLag keeps the consumer's backlog visible until ctx ends. Nothing depends on it.
func (b *Bus) watchLag(ctx context.Context, cons jetstream.Consumer, subject Subject) {
	for {
		look, cancel := context.WithTimeout(ctx, apiTimeout)
		if info, err := cons.Info(look); err == nil {
			b.metrics.pending.WithLabelValues(string(subject)).Set(float64(info.NumPending))
		}
		cancel()
		if !pause(ctx, lagEvery) {
			return
		}
	}
}

// pullOne waits for one nudge. waiting says that more were there when it left.
func (b *Bus) pullOne(ctx context.Context, cons jetstream.Consumer, subject Subject, up <-chan struct{}, wake func(Via)) (waiting bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, pullFor)
	defer cancel()
	batch, err := cons.Fetch(1, jetstream.FetchContext(ctx))
	if err != nil {
		return false, endOfPull(ctx, err)
	}
	for {
		select {
		case msg, ok := <-batch.Messages():
			if !ok {
				return waiting, endOfPull(ctx, batch.Error())
			}
			b.observe(subject, msg.Data(), "woke")
			if meta, err := msg.Metadata(); err == nil {
				waiting = meta.NumPending > 0
			}
			wake(ViaNudge)
		case <-up:
			cancel()
			up = nil
		}
	}
}

// foldWaiting empties the backlog and wakes once more: a worker that took the
// first nudge may have looked before the rows of these were committed.
func (b *Bus) foldWaiting(cons jetstream.Consumer, subject Subject, fold func(Via)) error {
	for {
		batch, err := cons.FetchNoWait(drainBatch)
		if err != nil {
			return fmt.Errorf("take waiting nudges: %w", err)
		}
		n := 0
		for msg := range batch.Messages() {
			b.observe(subject, msg.Data(), "coalesced")
			n++
		}
		if n > 0 {
			fold(ViaNudge)
		}
		if err := batch.Error(); err != nil {
			return fmt.Errorf("take waiting nudges: %w", err)
		}
		if n < drainBatch {
			return nil
		}
	}
}

// endOfPull is nil when a pull ended because its time or its caller's did.
func endOfPull(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("pull: %w", err)
}

// backoff doubles from first to most, drawn evenly from its upper half so that
// replicas that failed together do not return together.
func backoff(failures int, first, most time.Duration) time.Duration {
	d := most
	if failures < 16 {
		d = min(most, first<<(failures-1))
	}
	return d/2 + rand.N(d/2+1)
}
