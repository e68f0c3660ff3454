package interleave

// worker lists what one process may do next: claim, take its next step, or crash.
func (c Config) worker(s *State, i int, add adder) {
	w := &s.work[i]
	if w.pc == idle {
		c.claim(s, i, add)
		return
	}
	if s.crashes > 0 {
		n := *s
		n.crashes--
		n.letGo(i)
		n.work[i] = worker{}
		add(names[i], "crashes before: "+w.pc.String(), n)
		c.crashInFlight(s, i, add)
	}
	if w.pc >= rsGuard && w.pc < inComplete {
		c.reset(s, i, add)
		return
	}
	if i == invalidator {
		c.revoked(s, add)
		return
	}
	c.evaluate(s, i, add)
}

// crashInFlight: the process dies with its request on the wire.
func (c Config) crashInFlight(s *State, i int, add adder) {
	w := s.work[i]
	var out write
	switch w.pc {
	case evWrite:
		out = write{on: true, run: w.run, want: Run{w.verdict, w.decision}}
	case rsPatch, evUndo:
		out = write{on: true, run: w.run, want: Run{InProgress, marker(w.generation)}}
	default:
		return
	}
	for k := range s.wire {
		if !s.wire[k].on {
			n := *s
			n.crashes--
			n.wire[k] = out
			n.letGo(i)
			n.work[i] = worker{}
			add(names[i], "crashes with its request on the way: "+w.pc.String(), n)
			return
		}
	}
}

func (s *State) letGo(i int) {
	if s.guard == uint8(i+1) { //nolint:gosec // bounded by workers
		s.guard = 0
	}
}

// take is the guard: exclusive on the head, shared on the scopes, in one step (waiting is no step).
func (c Config) take(s *State, i int) bool {
	if c.has(FenceHeadGuard) && s.guard != 0 {
		return false
	}
	s.guard = uint8(i + 1) //nolint:gosec // bounded by workers
	return true
}

func (c Config) claim(s *State, i int, add adder) {
	n := *s
	w := &n.work[i]
	switch i {
	case invalidator:
		if s.head.invalidated < s.head.generation && s.head.invalidator == 0 {
			n.head.invalidator = invalidator + 1
			*w = worker{pc: rsGuard, back: inComplete, generation: s.head.generation}
			add(names[i], "claims the head's revocation", n)
		}
	case fastPath:
		if s.fast > 0 {
			n.fast--
			*w = worker{pc: rsGuard, back: idle, generation: s.head.generation}
			add(names[i], "begins", n)
		}
	default:
		c.claimEvaluation(s, i, add)
	}
}

func (c Config) claimEvaluation(s *State, i int, add adder) {
	due := s.rows[0].on || s.rows[1].on
	if !due || (s.head.evaluator != 0 && c.has(FenceLease)) || (s.head.generation != s.head.invalidated && c.has(FenceClaimInvalidated)) {
		return
	}
	n := *s
	n.head.evaluator, n.head.reclaimable = uint8(i+1), false //nolint:gosec // bounded by workers
	w := &n.work[i]
	*w = worker{generation: s.head.generation, epoch: s.epoch, run: s.head.run}
	for k := range n.rows {
		r := &n.rows[k]
		if !r.on {
			continue
		}
		if s.head.reclaimable { // RG-274
			n.pullGen[k]++
			r.generation = n.pullGen[k]
		}
		w.rows[k] = r.generation
		w.stale = w.stale || r.epoch != s.epoch
	}
	switch {
	case s.head.intent != 0 && c.has(FenceRevokeFirst):
		w.pc = evRequeue
	case w.stale && c.has(FenceEpoch):
		w.pc = evRequeue
	case s.head.publishedGeneration == s.head.generation:
		w.pc = evComplete
	case s.head.runGeneration != s.head.generation:
		w.pc = evFirst
	default:
		w.pc = evLook
	}
	add(names[i], "claims the head", n)
}

// holds is the condition that every later write of an evaluation repeats.
func (c Config) holds(s *State, i int) bool {
	lease := s.head.evaluator == uint8(i+1) || !c.has(FenceLease) //nolint:gosec // bounded by workers
	return lease && (s.head.generation == s.work[i].generation || !c.has(FenceHeadGeneration))
}

// fences are those of a publication, read at one instant.
func (c Config) fences(s *State, i int, intent uint8) bool {
	w := &s.work[i]
	if !c.holds(s, i) {
		return false
	}
	if c.has(FenceInvalidated) && s.head.invalidated != w.generation {
		return false
	}
	if c.has(FenceRunBinding) && (s.head.run != w.run || s.head.runGeneration != w.generation) {
		return false
	}
	if c.has(FenceIntent) && s.head.intent != intent {
		return false
	}
	if c.has(FenceEpoch) && s.epoch != w.epoch {
		return false
	}
	if c.has(FenceAuthority) && s.authority {
		return false
	}
	if c.has(FencePullGeneration) {
		for k := range s.rows {
			if w.rows[k] != 0 && (!s.rows[k].on || s.rows[k].generation != w.rows[k]) {
				return false
			}
		}
	}
	return true
}

func (c Config) evaluate(s *State, i int, add adder) {
	who := names[i]
	go1 := func(what string, pc step, change func(n *State, w *worker)) {
		n := *s
		w := &n.work[i]
		w.pc = pc
		if change != nil {
			change(&n, w)
		}
		add(who, what, n)
	}
	w := s.work[i]
	switch w.pc {
	case evRequeue:
		if w.stale && s.head.intent == 0 && s.authority {
			go1("waits for authority", evDefer, nil)
			return
		}
		go1("sends the head back to its revocation", idle, func(n *State, _ *worker) { c.requeue(n, i) })
	case evFirst:
		go1("needs a proved run", rsGuard, func(_ *State, w *worker) { w.back = evLook })
	case evLook:
		if s.authority {
			go1("waits for authority", evDefer, nil)
			return
		}
		go1("sees no pending authority", evReadA, func(n *State, w *worker) { w.run = n.head.run })
	case evReadA:
		go1("reads the approvals of A", evReadB, func(n *State, w *worker) { w.saw[0] = n.approved[0] })
	case evReadB:
		go1("reads the approvals of B", evGuard, func(n *State, w *worker) { w.saw[1] = n.approved[1]; w.verdict = c.verdict(w) })
	case evGuard:
		if n := *s; c.take(&n, i) {
			n.work[i].pc = evIntent
			n.work[i].run = s.head.run
			add(who, "takes the guard", n)
		}
	case evIntent:
		c.intent(s, i, add)
	case evWrite:
		c.write(s, i, add)
	case evReadBack:
		c.readBack(s, i, add)
	case evConfirm:
		c.confirm(s, i, add)
	case evUndo:
		c.undo(s, i, add)
	case evSettle:
		c.settle(s, i, add)
	case evUncertain:
		stands := s.head.intent != 0 || s.head.publishedGeneration == w.generation
		if stands && s.head.generation == w.generation {
			go1("sends the head back to its revocation", idle, func(n *State, _ *worker) { c.requeue(n, i) })
			return
		}
		go1("leaves the work for another try", evDefer, nil)
	case evDefer:
		go1("gives the lease back", idle, func(n *State, w *worker) {
			if c.holds(s, i) {
				n.head.evaluator = 0
			}
			*w = worker{}
		})
	case evComplete:
		go1("completes", idle, func(n *State, w *worker) { c.complete(s, n, i); *w = worker{} })
	default:
		panic("interleave: evaluator at " + w.pc.String())
	}
}

// verdict is the evaluation, and what an evaluator without P4 would make of the trigger alone.
func (c Config) verdict(w *worker) Status {
	ok := w.saw[0] && w.saw[1]
	if !c.has(FenceWholeHead) {
		ok = w.saw[0]
		if w.rows[0] == 0 {
			ok = w.saw[1]
		}
	}
	if ok {
		return Success
	}
	return Failure
}

func (c Config) requeue(n *State, i int) {
	if c.holds(n, i) {
		c.raise(n, [pulls]bool{n.rows[0].on, n.rows[1].on})
		n.head.evaluator = 0
	}
	n.work[i] = worker{}
}

func (c Config) complete(s, n *State, i int) {
	if !c.holds(s, i) {
		return
	}
	n.head.evaluator = 0
	for k := range n.rows {
		if n.rows[k].on && n.rows[k].generation == s.work[i].rows[k] {
			n.rows[k] = row{}
		}
	}
}

// intent is fences and decision row in one transaction; without P11 the request goes first.
func (c Config) intent(s *State, i int, add adder) {
	n := *s
	w := &n.work[i]
	if !c.fences(s, i, 0) {
		n.letGo(i)
		w.pc = evUncertain
		add(names[i], "is refused by a fence", n)
		return
	}
	n.decisions++
	w.decision = n.decisions
	if c.has(FenceIntentFirst) {
		n.head.intent = w.decision
	}
	w.pc = evWrite
	if n.decisions >= 0x7f {
		n.flaw = flawUnbounded
	}
	add(names[i], "records its intent to say "+w.verdict.String(), n)
}

func (c Config) write(s *State, i int, add adder) {
	w := s.work[i]
	for _, n := range c.send(s, w.run, Run{w.verdict, w.decision}, func(n *State, f fate) {
		n.work[i].answered = f != unanswered
		n.work[i].pc = evReadBack
		if f != refused && w.verdict == Success && n.runs[w.run-1] == (Run{w.verdict, w.decision}) && s.epoch > 1 {
			n.flaw = flawInterleaved
		}
		if f == refused {
			c.toDoubt(n, i)
		}
		if f == answered && !c.has(FenceWriteReadBack) {
			n.work[i].pc = evConfirm
		}
	}) {
		add(names[i], "writes "+w.verdict.String(), n)
	}
}

// doubt is where an uncertain write goes.
func (c Config) doubt() step {
	if c.has(FenceUndo) {
		return evUndo
	}
	return evUncertain
}

func (c Config) toDoubt(n *State, i int) {
	n.work[i].pc = c.doubt()
	if n.work[i].pc == evUncertain {
		c.leave(n, i)
	}
}

// leave gives the guard back after an uncertain write. Where GitHub does what it is told and nothing failed, no success may stay.
func (c Config) leave(n *State, i int) {
	w := n.work[i]
	if c.GitHub == Complies && n.faults == c.Faults && n.lies == c.Lies && n.runs[w.run-1] == (Run{Success, w.decision}) {
		n.flaw = flawLeft
	}
	n.letGo(i)
}

func (c Config) readBack(s *State, i int, add adder) {
	w := s.work[i]
	n := *s
	if s.runs[w.run-1] == (Run{w.verdict, w.decision}) {
		n.work[i].pc = evConfirm
		add(names[i], "reads what it wrote", n)
	} else {
		c.toDoubt(&n, i)
		add(names[i], "reads something else", n)
	}
	if s.faults > 0 {
		n = *s
		n.faults--
		c.toDoubt(&n, i)
		add(names[i], "cannot read back", n)
	}
}

func (c Config) confirm(s *State, i int, add adder) {
	w := s.work[i]
	intent := w.decision
	if !c.has(FenceIntentFirst) {
		intent = 0
	}
	n := *s
	if c.has(FenceAfter) && !c.fences(s, i, intent) {
		c.toDoubt(&n, i)
		add(names[i], "is refused by a fence after the answer", n)
		return
	}
	if w.verdict == Success && (s.dismissalGen != 0 || s.removal >= accepted && s.removal <= done && s.epoch > 1) {
		n.flaw = flawConfirmedStale
	}
	if s.head.publishedGeneration == w.generation {
		n.flaw = flawTwice
	}
	n.head.intent, n.head.published, n.head.publishedGeneration = 0, w.verdict, w.generation
	if s.faults > 0 {
		lost := n
		lost.faults--
		c.toDoubt(&lost, i)
		add(names[i], "confirms, and the answer of the database is lost", lost)
	}
	n.letGo(i)
	n.work[i].pc = evComplete
	add(names[i], "confirms "+w.verdict.String(), n)
}

func (c Config) undo(s *State, i int, add adder) {
	w := s.work[i]
	for _, n := range c.send(s, w.run, Run{InProgress, marker(w.generation)}, func(n *State, f fate) {
		n.work[i].pc = evSettle
		if f != answered {
			n.letGo(i)
			n.work[i].pc = evUncertain
		}
	}) {
		add(names[i], "sets its run back", n)
	}
}

func (c Config) settle(s *State, i int, add adder) {
	w := s.work[i]
	n := *s
	proved := w.answered && s.runs[w.run-1] == (Run{InProgress, marker(w.generation)})
	if proved && s.head.intent == w.decision && s.head.run == w.run {
		n.head.intent = 0
	}
	c.leave(&n, i)
	n.work[i].pc = evUncertain
	add(names[i], "settles", n)
}
