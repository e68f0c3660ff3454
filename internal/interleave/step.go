package interleave

// step is where a process stands; the names read as the story of services/evaluator and pkg/checkrun.
type step uint8

const (
	idle step = iota
	// evaluator
	evRequeue   // the claim cannot publish: send the head back to its revocation
	evFirst     // no proved run for this generation: prove one first (RG-240)
	evLook      // is authority pending?
	evReadA     // read the first pull request's approvals
	evReadB     // … and the second's
	evGuard     // take the guard
	evIntent    // fences and intent, one transaction
	evWrite     // PATCH completed
	evReadBack  // GET by id
	evConfirm   // fences and confirmation, one transaction
	evUndo      // PATCH in_progress
	evSettle    // GET, and say whether the intent is over
	evUncertain // look at what the failure left
	evDefer     // give the lease back
	evComplete  // remove the captured rows
	evEnd
	// the reset that invalidator, fast path and first evaluation share
	rsGuard
	rsHead      // read the head's row inside the guard
	rsGet       // GET the bound run
	rsPatch     // PATCH in_progress
	rsReadBack  // GET it again
	rsReplace   // look for a run that was posted and not recorded; POST one
	rsPosted    // record the new run, before anything is proved of it
	rsNew       // GET it and bind it
	rsSupersede // PATCH the old one to failure
	rsFail
	rsDone
	// invalidator
	inComplete
)

func (p step) String() string {
	return [...]string{
		"idle", "requeue", "first run", "look for authority", "read A", "read B", "take guard", "record intent", "write", "read back",
		"confirm", "undo", "settle", "after a failure", "defer", "complete", "end", "take guard", "read head", "get run", "set back",
		"read back", "replace", "record posted run", "bind new run", "supersede", "give up", "done", "complete revocation",
	}[p]
}

const (
	invalidator = 2 // index into State.work
	fastPath    = 3
)

// transition is one step of one process, or of the world, and the state it leads to.
type transition struct {
	who  string
	what string
	to   State
}

var names = [workers]string{"evaluator 1", "evaluator 2", "invalidator", "fast path"}

// next lists every transition out of s, in a fixed order.
func (c Config) next(s *State) []transition {
	var out []transition
	add := func(who, what string, to State) { out = append(out, transition{who, what, to}) }
	c.world(s, add)
	for i := range workers {
		if i < 2 && i >= c.Evaluators {
			continue
		}
		c.worker(s, i, add)
	}
	return out
}

type adder func(who, what string, to State)

// world: evidence changes, webhooks are accepted, late requests arrive, leases run out.
func (c Config) world(s *State, add adder) {
	c.evidence(s, add)
	for i, w := range s.wire {
		if !w.on {
			continue
		}
		lost := *s
		lost.wire[i] = write{}
		add("wire", "a request is lost for ever", lost)
		late := lost
		if c.apply(&late, w.run, w.want) {
			add("wire", "a late request arrives", late)
		}
	}
	if s.head.evaluator != 0 {
		dead := s.work[s.head.evaluator-1].pc == idle
		if dead || s.expiries > 0 {
			n := *s
			n.head.evaluator, n.head.reclaimable = 0, true
			if !dead {
				n.expiries--
			}
			add("clock", "the evaluation lease runs out", n)
		}
	}
	if s.head.invalidator != 0 {
		dead := s.work[invalidator].pc == idle
		if dead || s.expiries > 0 {
			n := *s
			n.head.invalidator = 0
			if !dead {
				n.expiries--
			}
			add("clock", "the invalidation lease runs out", n)
		}
	}
	if c.has(FenceDrift) && s.quiet() {
		if id, run := s.effective(); s.head.published != Absent && run.Status != s.head.published {
			n := *s
			c.raise(&n, [pulls]bool{true, true})
			if c.has(FenceDriftAdopts) {
				n.head.run, n.head.runGeneration = id, 0
			}
			add("reconciler", "the check differs from the decision", n)
		}
	}
}

func (c Config) evidence(s *State, add adder) {
	n := *s
	switch s.dismissal {
	case notYet:
		n.dismissal, n.approved[0] = happened, false
		add("github", "the approval of A is dismissed", n)
	case happened:
		n.dismissal = done
		c.raise(&n, [pulls]bool{true, false})
		n.dismissalGen = n.head.generation
		if c.FastPath {
			n.fast++
		}
		add("ingress", "the dismissal is accepted", n)
	default:
	}
	n = *s
	switch s.removal {
	case notYet:
		n.removal, n.approved[1] = happened, false
		add("github", "the approver of B leaves the team", n)
	case happened:
		if s.guard != 0 && c.has(FenceScopeGuard) && c.has(FenceHeadGuard) {
			return
		}
		n.removal, n.authority = accepted, true
		n.epoch++
		add("ingress", "the team's change is accepted", n)
	case accepted:
		n.removal = paged
		c.raise(&n, [pulls]bool{true, true})
		n.removalGen = n.head.generation
		add("fanout", "the head and its pull requests are queued", n)
	case paged:
		n.removal, n.authority = done, false
		add("fanout", "the pass is complete", n)
	default:
	}
}

// raise is what every accepted trigger does to a head: its generation rises, its leases end, its rows are queued.
func (c Config) raise(s *State, which [pulls]bool) {
	if c.has(FenceRevocation) {
		s.head.generation++
	}
	if c.has(FenceRevocation) && c.has(FenceEndLeases) {
		s.head.evaluator, s.head.invalidator, s.head.reclaimable = 0, 0, false
	}
	for i, queue := range which {
		if queue {
			s.pullGen[i]++
			s.rows[i] = row{on: true, generation: s.pullGen[i], epoch: s.epoch, at: s.head.generation}
		}
	}
	if s.head.generation > maxSteps || s.pullGen[0] > 2*maxSteps || s.pullGen[1] > 2*maxSteps {
		s.flaw = flawUnbounded
	}
}

// apply is GitHub executing a request. It reports false where the request cannot be executed.
func (c Config) apply(s *State, run uint8, want Run) bool {
	if run == 0 { // POST
		id, _ := s.effective()
		if int(id) == runs {
			s.flaw = flawUnbounded
			return true
		}
		s.runs[id] = want
		return true
	}
	now := &s.runs[run-1]
	if want.Status == InProgress && now.Status != InProgress {
		switch c.GitHub {
		case Ignores:
			return true
		case Refuses:
			return false
		case Complies:
		}
	}
	*now = want
	return true
}

// send lists the fates of one request: executed and answered; executed and unanswered; unanswered and still on
// its way; refused; answered and not executed.
func (c Config) send(s *State, run uint8, want Run, then func(n *State, fate fate)) (out []State) {
	push := func(n State, f fate) {
		then(&n, f)
		out = append(out, n)
	}
	n := *s
	if c.apply(&n, run, want) {
		push(n, answered)
		if s.faults > 0 {
			n.faults--
			push(n, unanswered)
		}
	} else {
		push(n, refused)
	}
	if s.lies > 0 && run != 0 {
		n = *s
		n.lies--
		push(n, answered)
	}
	if s.faults == 0 {
		return out
	}
	n = *s
	n.faults--
	for i := range n.wire {
		if !n.wire[i].on {
			n.wire[i] = write{on: true, run: run, want: want}
			push(n, unanswered)
			break
		}
	}
	n = *s
	n.faults--
	push(n, refused)
	return out
}

type fate uint8

const (
	answered fate = iota
	unanswered
	refused
)

func (f fate) String() string { return [...]string{"answered", "no answer", "refused"}[f] }
