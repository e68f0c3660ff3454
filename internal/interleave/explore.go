package interleave

import (
	"errors"
	"fmt"
	"strings"
)

// ErrLimit: the bounds are too wide for the limit of states.
var ErrLimit = errors.New("more states than the limit")

// Result of one exploration.
type Result struct {
	States, Transitions, Depth int
	Flaw                       string   // empty: every property holds in every state
	History                    []string // the shortest history that breaks it
}

// Explore visits every state that can be reached from the start, breadth first, and stops at the first that breaks a property.
// When none does, it also proves that from every state a settled one can be reached. It is deterministic, and may run beside
// others. Errors: ErrLimit.
func Explore(c Config) (Result, error) {
	e := explorer{c: c, index: map[State]int32{}, limit: c.Limit}
	if e.limit == 0 {
		e.limit = 20_000_000
	}
	return e.run()
}

type explorer struct {
	c       Config
	limit   int
	index   map[State]int32
	states  []State
	parents []int32
	settled []int32
	edges   [][2]int32
	depth   []uint16
}

func (e *explorer) see(s State, parent int32) (int32, bool) {
	s = e.canonical(s)
	if id, known := e.index[s]; known {
		return id, false
	}
	id := int32(len(e.states)) //nolint:gosec // bounded by limit
	e.index[s] = id
	e.states = append(e.states, s)
	e.parents = append(e.parents, parent)
	d := uint16(0)
	if parent >= 0 {
		d = e.depth[parent] + 1
	}
	e.depth = append(e.depth, d)
	return id, true
}

// canonical orders the two evaluators, which are alike: half of the states say nothing new.
func (e *explorer) canonical(s State) State {
	if e.c.Evaluators < 2 {
		return s
	}
	a, b := s.work[0], s.work[1]
	if less(b, a) {
		s.work[0], s.work[1] = b, a
		s.head.evaluator = swapped(s.head.evaluator)
		s.guard = swapped(s.guard)
	} else if a == b && (s.head.evaluator == 2 || s.head.evaluator == 0 && s.guard == 2) {
		s.head.evaluator, s.guard = swapped(s.head.evaluator), swapped(s.guard)
	}
	return s
}

func swapped(id uint8) uint8 {
	switch id {
	case 1:
		return 2
	case 2:
		return 1
	}
	return id
}

func less(a, b worker) bool {
	x, y := a.order(), b.order()
	for i := range x {
		if x[i] != y[i] {
			return x[i] < y[i]
		}
	}
	return false
}

func (w worker) order() [14]uint8 {
	bit := func(b bool) uint8 {
		if b {
			return 1
		}
		return 0
	}
	return [14]uint8{
		uint8(w.pc), w.generation, w.epoch, w.rows[0], w.rows[1], bit(w.stale), bit(w.saw[0]), bit(w.saw[1]), w.run, w.decision,
		w.old, uint8(w.verdict), bit(w.answered), uint8(w.back),
	}
}

func (e *explorer) run() (Result, error) {
	e.see(e.c.Start(), -1)
	for at := 0; at < len(e.states); at++ {
		s := e.states[at]
		if f := s.broken(e.c); f != sound {
			if e.c.SafetyOnly && f == flawUnbounded {
				continue
			}
			return e.result(int32(at), f), nil //nolint:gosec // bounded by limit
		}
		moves := e.c.next(&s)
		if s.settled() {
			e.settled = append(e.settled, int32(at)) //nolint:gosec // bounded by limit
		} else if len(moves) == 0 && !e.c.SafetyOnly {
			return e.result(int32(at), flawUnsettled), nil //nolint:gosec // bounded by limit
		}
		for _, m := range moves {
			to, _ := e.see(m.to, int32(at))                    //nolint:gosec // bounded by limit
			e.edges = append(e.edges, [2]int32{to, int32(at)}) //nolint:gosec // bounded by limit
		}
		if len(e.states) > e.limit {
			return Result{States: len(e.states)}, fmt.Errorf("after %d states: %w", len(e.states), ErrLimit)
		}
	}
	if e.c.SafetyOnly {
		return e.result(-1, sound), nil
	}
	if stuck := e.stuck(); stuck >= 0 {
		return e.result(stuck, flawStuck), nil
	}
	return e.result(-1, sound), nil
}

// stuck is the first state from which no settled state can be reached, or -1.
func (e *explorer) stuck() int32 {
	into := make([]int32, len(e.states)+1) // edges grouped by target: counting sort
	for _, edge := range e.edges {
		into[edge[0]+1]++
	}
	for i := 1; i < len(into); i++ {
		into[i] += into[i-1]
	}
	from := make([]int32, len(e.edges))
	fill := append([]int32(nil), into...)
	for _, edge := range e.edges {
		from[fill[edge[0]]] = edge[1]
		fill[edge[0]]++
	}
	reaches := make([]bool, len(e.states))
	queue := append([]int32(nil), e.settled...)
	for _, id := range queue {
		reaches[id] = true
	}
	for len(queue) > 0 {
		id := queue[0]
		queue = queue[1:]
		for _, p := range from[into[id]:into[id+1]] {
			if !reaches[p] {
				reaches[p] = true
				queue = append(queue, p)
			}
		}
	}
	for id, ok := range reaches {
		if !ok {
			return int32(id) //nolint:gosec // bounded by limit
		}
	}
	return -1
}

func (e *explorer) result(at int32, f flaw) Result {
	r := Result{States: len(e.states), Transitions: len(e.edges), Depth: int(e.depth[len(e.depth)-1])}
	if f == sound {
		return r
	}
	r.Flaw = f.String()
	var path []int32
	for id := at; id >= 0; id = e.parents[id] {
		path = append([]int32{id}, path...)
	}
	for i := 1; i < len(path); i++ {
		from := e.states[path[i-1]]
		for _, m := range e.c.next(&from) {
			if e.canonical(m.to) == e.states[path[i]] {
				r.History = append(r.History, m.who+": "+m.what)
				break
			}
		}
	}
	r.History = append(r.History, "state: "+e.states[at].String())
	return r
}

// String is the history, one step a line.
func (r Result) String() string {
	if r.Flaw == "" {
		return fmt.Sprintf("%d states, %d transitions, depth %d: every property holds", r.States, r.Transitions, r.Depth)
	}
	return fmt.Sprintf("%s, after %d steps (%d states):\n  %s", r.Flaw, len(r.History)-1, r.States, strings.Join(r.History, "\n  "))
}
