package ghclient

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/countersign/countersign/internal/hook"
)

// A resource is one of GitHub's separately counted budgets.
type resource int

const (
	core resource = iota
	graphql
	resources
)

var resourceNames = [resources]string{"core", "graphql"}

// pauseFreshness is how long a look at the durable pause is believed. Another replica's pause is seen that much late, at the cost of
// one small query a second and installation instead of one a request.
const pauseFreshness = time.Second

// budgets knows, for each installation, what GitHub said of its budget and until when it must be left alone.
type budgets struct {
	store   BudgetStore // nil: pauses live in this process only
	now     func() time.Time
	log     *slog.Logger
	metrics *metrics

	mu      sync.Mutex // guards ledgers and their fields
	ledgers map[int64]*ledger
}

type ledger struct {
	windows     [resources]window
	pausedUntil time.Time
	lookedAt    time.Time // when pausedUntil was last read from the store
}

// window is one hour of one resource. known is false until an answer told us.
type window struct {
	known            bool
	limit, remaining int64
	reset            time.Time
}

func (b *budgets) ledger(installation int64) *ledger {
	l := b.ledgers[installation]
	if l == nil {
		l = &ledger{}
		b.ledgers[installation] = l
	}
	return l
}

// admit refuses a request that must not be sent now, as ErrRateLimited with the time to wait (RG-144).
// A store that can't be read is ErrUnavailable: we don't know whether we may ask.
func (b *budgets) admit(ctx context.Context, installation int64, l Lane, r resource) error {
	if err := b.lookUpPause(ctx, installation); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now, entry := b.now(), b.ledger(installation)
	if entry.pausedUntil.After(now) {
		return &RateLimitError{After: clampDelay(entry.pausedUntil.Sub(now)), Kind: "paused", Installation: installation}
	}
	w := entry.windows[r]
	if !w.known || !w.reset.After(now) {
		return nil
	}
	if w.remaining <= 0 {
		return &RateLimitError{After: clampDelay(w.reset.Sub(now)), Kind: "primary", Installation: installation}
	}
	if w.remaining < w.limit*laneReserve[l]/100 {
		return &RateLimitError{After: clampDelay(w.reset.Sub(now)), Kind: "reserved", Installation: installation}
	}
	return nil
}

func (b *budgets) lookUpPause(ctx context.Context, installation int64) error {
	if b.store == nil {
		return nil
	}
	b.mu.Lock()
	fresh := b.now().Sub(b.ledger(installation).lookedAt) < hook.Pace(pauseFreshness)
	b.mu.Unlock()
	if fresh {
		return nil
	}
	until, err := b.store.PausedUntil(ctx, installation)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("%w: read the pause of installation %d: %w", ErrUnavailable, installation, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	entry := b.ledger(installation)
	entry.lookedAt = b.now()
	if until.After(entry.pausedUntil) {
		entry.pausedUntil = until
	}
	return nil
}

// observe takes over what an answer says of the budget. Answers overtake each other, so within one window the lowest remaining counts.
func (b *budgets) observe(installation int64, r resource, h http.Header) {
	limit, err1 := strconv.ParseInt(h.Get("X-Ratelimit-Limit"), 10, 64)
	remaining, err2 := strconv.ParseInt(h.Get("X-Ratelimit-Remaining"), 10, 64)
	reset, err3 := strconv.ParseInt(h.Get("X-Ratelimit-Reset"), 10, 64)
	if err1 != nil || err2 != nil || err3 != nil || limit < 0 || remaining < 0 {
		return
	}
	switch h.Get("X-Ratelimit-Resource") {
	case "graphql":
		r = graphql
	case "core", "":
	default:
		return // search and the like: budgets we don't draw on
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	entry, until := b.ledger(installation), time.Unix(reset, 0)
	w := &entry.windows[r]
	switch {
	case w.known && until.Before(w.reset):
		return
	case w.known && until.Equal(w.reset):
		remaining = min(remaining, w.remaining)
	}
	*w = window{known: true, limit: limit, remaining: remaining, reset: until}
	b.metrics.budget.WithLabelValues(resourceNames[r]).Set(float64(b.lowest(r)))
}

// lowest is the remaining budget of the installation that has least of it; the caller holds mu.
func (b *budgets) lowest(r resource) int64 {
	lowest, found, now := int64(0), false, b.now()
	for _, l := range b.ledgers {
		w := l.windows[r]
		if w.known && w.reset.After(now) && (!found || w.remaining < lowest) {
			lowest, found = w.remaining, true
		}
	}
	return lowest
}

// refused records a rate-limit answer where every replica sees it (RG-145). One exception: an exhausted GraphQL budget stops GraphQL
// only, and in this process only. The other budget is untouched by it, and a revocation must not wait an hour for a query's points.
func (b *budgets) refused(ctx context.Context, limit *RateLimitError, r resource) {
	b.mu.Lock()
	entry, until := b.ledger(limit.Installation), b.now().Add(limit.After)
	queriesOnly := r == graphql && limit.Kind == "primary"
	if queriesOnly {
		w := &entry.windows[graphql]
		*w = window{known: true, limit: w.limit, reset: until}
	} else if until.After(entry.pausedUntil) {
		entry.pausedUntil = until
	}
	b.mu.Unlock()
	b.metrics.pauses.WithLabelValues(limit.Kind).Inc()
	b.log.WarnContext(ctx, "github refused for its rate limit", "installation", limit.Installation, "kind", limit.Kind,
		"resource", resourceNames[r], "retry_after_s", limit.After.Seconds())
	if b.store == nil || queriesOnly {
		return
	}
	// The pause must be kept even if the caller has gone: it is about the next request, not this one.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
	defer cancel()
	if err := b.store.Pause(ctx, limit.Installation, limit.After, limit.Kind); err != nil {
		b.log.WarnContext(ctx, "pause of an installation not stored", "installation", limit.Installation, "err", clip(err.Error()))
	}
}
