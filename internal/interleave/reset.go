package interleave

// reset is pkg/checkrun's proof that a head's run is unfinished, shared by invalidator, fast path and first evaluation.
func (c Config) reset(s *State, i int, add adder) {
	w := s.work[i]
	to := func(what string, pc step, change func(n *State, w *worker)) {
		n := *s
		n.work[i].pc = pc
		if change != nil {
			change(&n, &n.work[i])
		}
		add(names[i], what, n)
	}
	switch w.pc {
	case rsGuard:
		if n := *s; c.take(&n, i) {
			n.work[i].pc = rsHead
			add(names[i], "takes the guard", n)
		}
	case rsHead:
		c.look(s, i, to)
	case rsGet:
		if s.runs[w.run-1].Status == InProgress && s.head.intent == 0 && s.head.published == Absent {
			to("finds the run unfinished", rsDone, func(n *State, w *worker) { c.bind(n, w) })
		} else {
			to("finds the run finished", rsPatch, nil)
		}
	case rsPatch:
		c.setBack(s, i, add, to)
	case rsReadBack:
		if s.runs[w.run-1].Status == InProgress || !c.has(FenceResetReadBack) {
			to("proves the run unfinished", rsDone, func(n *State, w *worker) { c.bind(n, w) })
		} else {
			to("finds the run finished all the same", rsReplace, nil)
		}
	case rsReplace:
		c.replace(s, i, add, to)
	case rsPosted:
		record := func(n *State, w *worker) {
			n.head.run, n.head.runGeneration, n.head.posted = w.run, 0, w.generation
			n.head.intent, n.head.published = 0, Absent
		}
		if s.head.generation != w.generation {
			to("records the new run and is superseded", rsFail, record)
			return
		}
		to("records the new run", rsNew, record)
	case rsNew:
		if s.runs[w.run-1].Status != InProgress {
			to("finds the new run finished", rsFail, nil)
			return
		}
		to("binds the new run", rsDone, func(n *State, w *worker) { c.bind(n, w) })
	case rsSupersede:
		c.supersede(s, i, add)
	case rsFail:
		to("gives up for now", idle, func(n *State, w *worker) { c.abandon(n, i); *w = worker{} })
	case rsDone:
		to("releases the guard", w.back, func(n *State, w *worker) {
			n.letGo(i)
			if w.back == idle {
				*w = worker{}
			}
			if w.back == evLook && n.head.generation != w.generation { // RG-242
				w.pc = evDefer
			}
		})
	default:
		panic("interleave: reset at " + w.pc.String())
	}
}

type mover func(what string, pc step, change func(n *State, w *worker))

// look decides by the head's row.
func (c Config) look(s *State, i int, to mover) {
	w := s.work[i]
	h := s.head
	switch {
	case h.generation != w.generation:
		to("is superseded", rsFail, nil)
	case h.run != 0 && h.runGeneration == h.generation && h.intent == 0 && h.published == Absent:
		to("knows the run is proved (P3)", rsDone, nil)
	case h.run == 0:
		id, run := s.effective()
		switch {
		case id != 0 && run.Status == InProgress:
			to("adopts an unfinished run", rsDone, func(n *State, w *worker) { w.run = id; c.bind(n, w) })
		case id != 0:
			to("adopts a finished run", rsPatch, func(n *State, w *worker) { w.run = id; n.head.run, n.head.runGeneration = id, 0 })
		case i < 2 || i == fastPath:
			to("finds no run and may make the first", rsReplace, func(_ *State, w *worker) { w.old, w.run = 0, 0 })
		default:
			to("finds no run and wants none", rsDone, nil)
		}
	case h.intent != 0 && c.has(FenceReplace):
		to("finds an unconfirmed intent", rsReplace, func(_ *State, w *worker) { w.run = h.run })
	default:
		to("reads the bound run's id", rsGet, func(_ *State, w *worker) { w.run = h.run })
	}
}

// may is the check immediately before a write: lease and generation still stand.
func (c Config) may(s *State, i int) bool {
	switch i {
	case invalidator:
		return s.head.invalidator == invalidator+1 && s.head.generation == s.work[i].generation
	case fastPath:
		return s.head.generation == s.work[i].generation && s.head.invalidated < s.head.generation
	default:
		return c.holds(s, i)
	}
}

func (c Config) setBack(s *State, i int, add adder, to mover) {
	w := s.work[i]
	if !c.may(s, i) {
		to("may not write any more", rsFail, nil)
		return
	}
	for _, n := range c.send(s, w.run, Run{InProgress, marker(w.generation)}, func(n *State, f fate) {
		n.work[i].pc = [...]step{answered: rsReadBack, unanswered: rsFail, refused: rsReplace}[f]
		if f == refused && !c.has(FenceResetReadBack) {
			n.work[i].pc = rsReadBack
		}
	}) {
		add(names[i], "sets the run back", n)
	}
}

func (c Config) replace(s *State, i int, add adder, to mover) {
	w := s.work[i]
	if w.run != 0 && s.head.posted == s.head.generation {
		to("has posted one for this generation already", rsFail, nil)
		return
	}
	id, run := s.effective()
	if id != 0 && id != s.head.run && run == (Run{InProgress, marker(w.generation)}) {
		to("adopts the run it posted before", rsSupersede, func(_ *State, w *worker) { w.old, w.run = w.run, id })
		return
	}
	if !c.may(s, i) {
		to("may not write any more", rsFail, nil)
		return
	}
	for _, n := range c.send(s, 0, Run{InProgress, marker(w.generation)}, func(n *State, f fate) {
		w := &n.work[i]
		w.pc = rsFail
		if f == answered {
			id, _ := n.effective()
			w.pc, w.old, w.run = rsSupersede, w.run, id
		}
	}) {
		add(names[i], "posts a new run", n)
	}
}

func (c Config) supersede(s *State, i int, add adder) {
	w := s.work[i]
	if w.old == 0 {
		n := *s
		n.work[i].pc = rsPosted
		add(names[i], "had no older run", n)
		return
	}
	for _, n := range c.send(s, w.old, Run{Status: Failure}, func(n *State, _ fate) { n.work[i].pc = rsPosted }) {
		add(names[i], "sets the old run to failure", n)
	}
}

// bind records the proof; a newer generation makes it touch nothing.
func (c Config) bind(n *State, w *worker) {
	if n.head.generation != w.generation {
		w.pc = rsFail
		return
	}
	n.head.run, n.head.runGeneration, n.head.intent, n.head.published = w.run, w.generation, 0, Absent
}

func (c Config) abandon(n *State, i int) {
	n.letGo(i)
	switch {
	case i == invalidator && n.head.invalidator == invalidator+1 && n.head.generation == n.work[i].generation:
		n.head.invalidator = 0
	case i < 2 && c.holds(n, i):
		n.head.evaluator = 0
	}
}

// revoked is the invalidator's last transaction: the generation counts as revoked, both pull requests are queued (P6, P9).
func (c Config) revoked(s *State, add adder) {
	w := s.work[invalidator]
	n := *s
	n.work[invalidator] = worker{}
	if s.head.invalidator != invalidator+1 || s.head.generation != w.generation {
		add(names[invalidator], "is superseded", n)
		return
	}
	n.head.invalidator, n.head.invalidated = 0, w.generation
	for k := range n.rows {
		if !n.rows[k].on || n.rows[k].at < w.generation {
			n.pullGen[k]++
			n.rows[k] = row{on: true, generation: n.pullGen[k], epoch: n.epoch, at: w.generation}
		}
	}
	add(names[invalidator], "records the revocation", n)
}
