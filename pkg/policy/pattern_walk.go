package policy

import (
	"slices"
	"strings"
)

// patternWalk walks paths through one patternIndex. It keeps the directories of
// the last path, so that the next one starts where the two part. The zero value
// is ready; it is for one goroutine and one index.
type patternWalk struct {
	path   string
	frames []walkFrame // frames[k]: after k directories of path
	active []uint32    // the nodes of all frames, one after another
	next   []uint32    // scratch
	kept   []uint32    // by node: the frame that kept it, where there are many "**"s
	serial uint32      // of the frame being built
}

// walkFrame is what is known after some directories of a path.
type walkFrame struct {
	end      int    // where the next name starts in the path
	from, to int    // the nodes reached that may still matter: active[from:to]
	best     uint32 // the last rule for everything below here
	child    uint32 // the last rule for what lies directly in here
}

// last returns the number of the last rule that matches a path; 0 is none.
func (w *patternWalk) last(x *patternIndex, path string) uint32 {
	if len(x.nodes) == 0 {
		return 0
	}
	w.rewind(x, path)
	for {
		frame := w.frames[len(w.frames)-1]
		rest := path[frame.end:]
		slash := strings.IndexByte(rest, '/')
		switch {
		case slash < 0:
			return w.finish(x, frame, rest)
		case frame.from == frame.to:
			return frame.best
		}
		w.enter(x, frame, rest[:slash])
	}
}

// rewind drops the frames that are not directories of the path.
func (w *patternWalk) rewind(x *patternIndex, path string) {
	if len(w.frames) == 0 {
		frame := walkFrame{}
		w.activate(x, &frame, 0, 0)
		frame.to = len(w.active)
		w.frames = append(w.frames, frame)
	}
	common := 0
	for common < len(path) && common < len(w.path) && path[common] == w.path[common] {
		common++
	}
	keep := len(w.frames)
	for w.frames[keep-1].end > common {
		keep--
	}
	w.frames = w.frames[:keep]
	w.active = w.active[:w.frames[keep-1].to]
	w.path = path
}

// enter walks into a directory.
func (w *patternWalk) enter(x *patternIndex, outer walkFrame, name string) {
	frame := walkFrame{end: outer.end + len(name) + 1, from: len(w.active), best: outer.best}
	for _, id := range w.active[outer.from:outer.to] {
		if x.nodes[id].loop && x.nodes[id].reach > frame.best {
			w.active = append(w.active, id)
		}
	}
	loops := len(w.active)
	w.keep(x, w.active[frame.from:loops])
	hash := x.names.hashName(name)
	for i := outer.from; i < outer.to; i++ {
		w.next = x.appendChildren(w.next[:0], w.active[i], name, hash, frame.best)
		for _, child := range w.next {
			w.activate(x, &frame, child, loops)
		}
	}
	frame.to = len(w.active)
	w.frames = append(w.frames, frame)
}

// activate puts a node, and the "**" after it, into a frame that is being built.
// The nodes from frame.from to loops are "**"s kept from the frame before. No
// other node can come twice: its parent came once, one name earlier.
func (w *patternWalk) activate(x *patternIndex, frame *walkFrame, id uint32, loops int) {
	node := &x.nodes[id]
	frame.best = max(frame.best, node.self, node.below)
	frame.child = max(frame.child, node.child)
	if node.reach <= frame.best {
		return
	}
	w.active = append(w.active, id)
	if node.deep == 0 || x.nodes[node.deep].reach <= frame.best {
		return
	}
	if w.isKept(w.active[frame.from:loops], node.deep) {
		return
	}
	w.active = append(w.active, node.deep)
}

// keepScanMost is the number of "**"s up to which looking through them is fastest.
const keepScanMost = 16

// keep notes the "**"s of a frame for isKept. Patterns that repeat "**" can reach
// thousands of them.
func (w *patternWalk) keep(x *patternIndex, loops []uint32) {
	if len(loops) <= keepScanMost {
		return
	}
	if w.kept == nil {
		w.kept = make([]uint32, len(x.nodes))
	}
	w.serial++
	for _, id := range loops {
		w.kept[id] = w.serial
	}
}

// isKept reports whether a "**" is one of the frame's already.
func (w *patternWalk) isKept(loops []uint32, id uint32) bool {
	if len(loops) <= keepScanMost {
		return slices.Contains(loops, id)
	}
	return w.kept[id] == w.serial
}

// finish decides on the last name of a path.
func (w *patternWalk) finish(x *patternIndex, frame walkFrame, name string) uint32 {
	last := max(frame.best, frame.child)
	hash := x.names.hashName(name)
	for i := frame.from; i < frame.to; i++ {
		w.next = x.appendChildren(w.next[:0], w.active[i], name, hash, last)
		for _, child := range w.next {
			last = max(last, x.nodes[child].self)
		}
	}
	return last
}

// appendChildren appends the nodes that a name leads to from a node, as far as
// they can beat the floor. Hash is the name's.
func (x *patternIndex) appendChildren(children []uint32, id uint32, name string, hash uint64, floor uint32) []uint32 {
	node := &x.nodes[id]
	if node.reach <= floor {
		return children
	}
	if node.named {
		if child := x.names.find(id, name, hash); child != 0 && x.nodes[child].reach > floor {
			children = append(children, child)
		}
	}
	if node.any != 0 && x.nodes[node.any].reach > floor {
		children = append(children, node.any)
	}
	if node.globs != 0 {
		children = x.sets[node.globs-1].appendMatches(children, name, floor)
	}
	return children
}
