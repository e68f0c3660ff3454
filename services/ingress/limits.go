package ingress

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"
)

// firstChunk is what a body of undeclared length is given at first; then its buffer doubles.
const firstChunk = 32 << 10

// limits bounds what strangers can make this process spend before they have proved anything.
type limits struct {
	rate     *rate.Limiter
	inFlight atomic.Int64
	most     int64
	// memory is the budget of bytes that bodies being received may take together. It is taken as bytes arrive, so that a
	// sender who declares 10 MiB and sends nothing holds next to nothing.
	memory *semaphore.Weighted
}

func newLimits(c Config) *limits {
	l := &limits{rate: rate.NewLimiter(rate.Inf, 0), most: math.MaxInt64, memory: semaphore.NewWeighted(math.MaxInt64)}
	if c.RequestRate > 0 {
		l.rate = rate.NewLimiter(rate.Limit(c.RequestRate), c.RequestBurst)
	}
	if c.MaxInFlight > 0 {
		l.most = c.MaxInFlight
	}
	if c.BodyMemory > 0 {
		l.memory = semaphore.NewWeighted(c.BodyMemory)
	}
	return l
}

// admit takes a request up, or refuses it at once: whoever waited would only hold a connection. release ends it.
func (l *limits) admit() (release func(), err error) {
	if !l.rate.Allow() {
		return nil, errRate
	}
	if l.inFlight.Add(1) > l.most {
		l.inFlight.Add(-1)
		return nil, errInFlight
	}
	return func() { l.inFlight.Add(-1) }, nil
}

// readBody reads at most MaxBody bytes; one more is errTooLarge, and the rest is not read (RG-027). release gives the memory
// back and must be called, also after an error, when the body is no longer used.
func (l *limits) readBody(w http.ResponseWriter, r *http.Request) (body []byte, release func(), err error) {
	var held int64
	release = func() { l.memory.Release(held) }
	source := http.MaxBytesReader(w, r.Body, MaxBody)
	for {
		if len(body) == cap(body) {
			more := int64(max(firstChunk, cap(body)))
			if !l.memory.TryAcquire(more) {
				return nil, release, errMemory
			}
			held += more
			grown := make([]byte, len(body), cap(body)+int(more))
			copy(grown, body)
			body = grown
		}
		n, err := source.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		var tooLarge *http.MaxBytesError
		switch {
		case errors.As(err, &tooLarge):
			return nil, release, errTooLarge
		case errors.Is(err, io.EOF):
			return body, release, nil
		case err != nil:
			return nil, release, fmt.Errorf("%w: %w", errBroken, err)
		}
	}
}
