package interleave

import "fmt"

// Bounds of the arrays; reaching one is an error of the exploration, never silence.
const (
	pulls    = 2
	runs     = 6
	onWire   = 2
	workers  = 4 // evaluator 1, evaluator 2, invalidator, fast path
	maxSteps = 14
)

// Status is what a check run reads.
type Status uint8

// The statuses that matter: every conclusion but success blocks.
const (
	Absent Status = iota
	InProgress
	Success
	Failure
)

func (s Status) String() string {
	return [...]string{"absent", "in_progress", "success", "failure"}[s]
}

// Run is one check run as GitHub holds it. Mark is its external id: a decision, or a generation's marker with the high bit set.
type Run struct {
	Status Status
	Mark   uint8
}

func marker(generation uint8) uint8 { return 0x80 | generation }

// write is a request that left its process and may arrive at any later moment, or never. Run 0 stands for a POST.
type write struct {
	on   bool
	run  uint8
	want Run
}

// row is one pull request's pending evaluation.
type row struct {
	on                    bool
	generation, epoch, at uint8 // at: the head generation it was queued for
}

// head is the row of pkg/store's head table, as far as the protocol reads it.
type head struct {
	generation, invalidated    uint8
	run, runGeneration, posted uint8
	intent                     uint8
	published                  Status // the confirmed decision's conclusion; Absent: none
	publishedGeneration        uint8
	evaluator, invalidator     uint8 // who holds the lease; 0: nobody
	reclaimable                bool  // the evaluation lease ran out without being given back
}

// change is one change of evidence on its way: it happens at GitHub, is accepted, and (authority only) is fanned out.
type change uint8

const (
	notYet change = iota
	happened
	accepted
	paged // fan-out has raised the generations, its authority row still stands
	done
)

// worker is one process: where it stands, and what it captured at its claim.
type worker struct {
	pc                step
	generation, epoch uint8
	rows              [pulls]uint8 // captured row generations; 0: no row
	stale             bool         // a row's epoch was older than the installation's
	saw               [pulls]bool  // approvals as read
	run, decision     uint8
	old               uint8 // the run that a new one replaces
	verdict           Status
	answered          bool
	back              step // where the reset returns to
}

// State is everything: GitHub, Postgres, the processes, the wire, and the budget that is left. It is comparable, which makes it
// a map key.
type State struct {
	// GitHub
	approved [pulls]bool
	runs     [runs]Run // index 0 is run 1
	wire     [onWire]write
	// Postgres
	head      head
	rows      [pulls]row
	pullGen   [pulls]uint8
	epoch     uint8
	authority bool
	decisions uint8
	guard     uint8 // who holds the head's guard; it includes the shared guard of the installation
	// the outside
	dismissal, removal       change
	dismissalGen, removalGen uint8 // the head generation each was turned into
	work                     [workers]worker
	fast                     uint8 // fast resets that may still begin
	// budgets
	crashes, faults, expiries, lies uint8
	flaw                            flaw
}

// flaw is a property that a transition broke; it ends the exploration.
type flaw uint8

const (
	sound flaw = iota
	flawStale
	flawNeverApproved
	flawConfirmedStale
	flawTwice
	flawInterleaved
	flawLeft
	flawUnsettled
	flawStuck
	flawUnbounded
)

func (f flaw) String() string {
	return [...]string{
		"sound",
		"a success is in force after the change that blocks it was accepted and its revocation recorded (I4)",
		"a success is in force although a pull request was never approved (I6)",
		"a success was confirmed against a change that was accepted before (I3)",
		"one head generation was published twice (I9)",
		"a success was written after the change of authority against it was accepted (RG-163)",
		"a writer that was refused left its success behind (RG-259)",
		"everything came to rest, and the check does not say what is true",
		"no way leads to rest from here",
		"a counter rises without end",
	}[f]
}

// effective is the run that GitHub takes for the check: the newest by id.
func (s *State) effective() (id uint8, r Run) {
	for i := runs - 1; i >= 0; i-- {
		if s.runs[i].Status != Absent {
			return uint8(i + 1), s.runs[i] //nolint:gosec // bounded by runs
		}
	}
	return 0, Run{}
}

func (s *State) truth() Status {
	for _, ok := range s.approved {
		if !ok {
			return Failure
		}
	}
	return Success
}

// broken checks what every state must satisfy. A success that predates the revocation is allowed until the revocation is
// recorded: that window is the time to revoke, measured elsewhere.
func (s *State) broken(c Config) flaw {
	if s.flaw != sound {
		return s.flaw
	}
	_, run := s.effective()
	if run.Status != Success {
		return sound
	}
	if c.NeverApproved {
		return flawNeverApproved
	}
	if s.dismissalGen != 0 && s.head.invalidated >= s.dismissalGen || s.removalGen != 0 && s.head.invalidated >= s.removalGen {
		return flawStale
	}
	return sound
}

// settled: nothing is queued, held or on its way, and the check says what is true.
func (s *State) settled() bool {
	_, run := s.effective()
	return s.quiet() && run.Status == s.truth() && s.dismissal == done && s.removal == done
}

func (s *State) quiet() bool {
	for _, w := range s.work {
		if w.pc != idle {
			return false
		}
	}
	for _, r := range s.rows {
		if r.on {
			return false
		}
	}
	for _, w := range s.wire {
		if w.on {
			return false
		}
	}
	return s.head.invalidated == s.head.generation && !s.authority && s.head.intent == 0 && s.fast == 0
}

func (s State) String() string {
	id, run := s.effective()
	return fmt.Sprintf("head gen %d invalidated %d run %d (gen %d) intent %d published %s@%d; effective run %d %s; approved %v",
		s.head.generation, s.head.invalidated, s.head.run, s.head.runGeneration, s.head.intent, s.head.published,
		s.head.publishedGeneration, id, run.Status, s.approved)
}
