package store

import (
	"context"
	"sync"
)

// Shares divides the workers of one process between the claims they make: patient work (a storm, a scan, a recheck) never holds
// the last quarter of them, nor one installation the last one. Turns alone would not do: a worker that waits for a slow GitHub
// serves nobody. With one worker there is nothing to divide. Safe for concurrent use.
type Shares struct {
	workers int

	mu      sync.Mutex
	patient int // shares that hold patient work, and those that are about to claim and may get it
	by      map[InstallationID]int
}

// NewShares divides so many workers.
func NewShares(workers int) *Shares {
	return &Shares{workers: max(workers, 1), by: map[InstallationID]int{}}
}

// reserve is how many workers patient work leaves free.
func (s *Shares) reserve() int {
	if s.workers < 2 {
		return 0
	}
	return max(1, s.workers/4)
}

// Share is one worker's step. End it once.
type Share struct {
	shares       *Shares
	patient      bool
	installation InstallationID
}

// Begin says, in the returned context, what the next claim may draw. Call Took after it, and End when the work is done.
func (s *Shares) Begin(ctx context.Context) (context.Context, *Share) {
	s.mu.Lock()
	defer s.mu.Unlock()
	share := &Share{shares: s, patient: s.patient < s.workers-s.reserve()}
	d := Draw{FreshOnly: !share.patient}
	if share.patient {
		s.patient++
	}
	for i, n := range s.by {
		if s.workers > 1 && n >= s.workers-1 {
			d.Except = append(d.Except, i)
		}
	}
	return WithDraw(ctx, d), share
}

// Took records what was claimed.
func (sh *Share) Took(i InstallationID, l Lane) {
	s := sh.shares
	s.mu.Lock()
	defer s.mu.Unlock()
	if sh.patient && l == LaneInteractive {
		sh.patient = false
		s.patient--
	}
	sh.installation = i
	s.by[i]++
}

// End gives the worker back.
func (sh *Share) End() {
	s := sh.shares
	s.mu.Lock()
	defer s.mu.Unlock()
	if sh.patient {
		sh.patient = false
		s.patient--
	}
	if i := sh.installation; i != 0 {
		sh.installation = 0
		if s.by[i]--; s.by[i] == 0 {
			delete(s.by, i)
		}
	}
}
