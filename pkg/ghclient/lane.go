package ghclient

import (
	"container/list"
	"context"
	"sync"
)

// Lane is the urgency of a request. When slots or budget are short, a more urgent lane goes first, so that a storm of fan-out
// or a scan never keeps a fresh event waiting, and nothing keeps a revocation waiting.
type Lane int

// The lanes. The zero value is the lane of a fresh event.
const (
	LaneFresh      Lane = iota // an event that a person waits for
	LaneRevocation             // taking back a success
	LaneFanout                 // re-evaluation after a change of authority
	LaneReconcile              // scans
	lanes
)

var (
	laneNames = [lanes]string{"fresh", "revocation", "fanout", "reconcile"}
	urgency   = [lanes]Lane{LaneRevocation, LaneFresh, LaneFanout, LaneReconcile}
	// laneShare is the part of all slots, in eighths, that a lane may hold at once: slow requests of a patient lane can't fill the process.
	laneShare = [lanes]int{LaneRevocation: 8, LaneFresh: 7, LaneFanout: 4, LaneReconcile: 2}
	// laneReserve is the part of the hourly budget, in percent, that a lane leaves to the more urgent ones.
	laneReserve = [lanes]int64{LaneRevocation: 0, LaneFresh: 2, LaneFanout: 10, LaneReconcile: 25}
)

func (l Lane) String() string {
	if l < 0 || l >= lanes {
		return "fresh"
	}
	return laneNames[l]
}

type laneKey struct{}

// WithLane marks every request made under ctx with a lane.
func WithLane(ctx context.Context, l Lane) context.Context {
	if l < 0 || l >= lanes {
		l = LaneFresh
	}
	return context.WithValue(ctx, laneKey{}, l)
}

func laneOf(ctx context.Context) Lane {
	l, _ := ctx.Value(laneKey{}).(Lane)
	return l
}

// gate bounds the requests in flight and hands freed slots to the most urgent waiter, first come first served within a lane.
type gate struct {
	mu      sync.Mutex // guards all below
	free    int
	slots   int
	used    [lanes]int
	waiting [lanes]*list.List // of chan struct{}, closed when the slot is granted
}

func newGate(slots int) *gate {
	g := &gate{free: slots, slots: slots}
	for i := range g.waiting {
		g.waiting[i] = list.New()
	}
	return g
}

// acquire waits for a slot. On an error no slot is held.
func (g *gate) acquire(ctx context.Context, l Lane) error {
	g.mu.Lock()
	granted := make(chan struct{})
	place := g.waiting[l].PushBack(granted)
	g.grant()
	g.mu.Unlock()
	select {
	case <-granted:
		return nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-granted: // granted while we were giving up: pass it on
		g.giveBack(l)
	default:
		g.waiting[l].Remove(place)
	}
	return ctx.Err()
}

func (g *gate) release(l Lane) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.giveBack(l)
}

func (g *gate) giveBack(l Lane) {
	g.free++
	g.used[l]--
	g.grant()
}

// grant gives free slots away. The caller holds mu.
func (g *gate) grant() {
	for _, l := range urgency {
		share := max(1, g.slots*laneShare[l]/8)
		for g.free > 0 && g.used[l] < share && g.waiting[l].Len() > 0 {
			granted := g.waiting[l].Remove(g.waiting[l].Front()).(chan struct{})
			g.free--
			g.used[l]++
			close(granted)
		}
	}
}
