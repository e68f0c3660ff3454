package policy

import "slices"

// patternIndex answers "which is the last of these patterns that matches this
// path" without asking each pattern. All patterns share one trie of segments; a
// path walks it as a set of nodes, one segment at a time. Literal names are edges
// found by hash, globs of one node are found by their rarest literal part
// (pattern_globs.go), and "**" is a node that stays in the set. A node knows the
// highest rule below it, so whatever cannot beat the rule found already is
// dropped: with the last rule winning, most of an index is never touched.
//
// Space is linear in the text of the patterns. A path of n segments takes at most
// n × nodes steps, and in practice about n.
type patternIndex struct {
	nodes   []patternNode
	names   nameEdges         // literal edges
	globs   map[string]uint32 // glob → number
	globIn  map[uint64]uint32 // node<<32 | glob → child
	texts   []string          // by number of glob
	pending []globEdge        // edges to be sealed
	before  []patternStep     // the pattern added last
	sets    []globSet         // by patternNode.globs
}

// patternNode is a prefix of patterns. Rules are numbered from 1 in the order of
// the file; 0 is none. Node 0 is the root.
type patternNode struct {
	self  uint32 // rule for the path that ends here and all below
	below uint32 // rule for all below
	child uint32 // rule for what lies directly below
	reach uint32 // highest rule at this node or under it
	any   uint32 // child by "*"; 0 is none
	deep  uint32 // child by "**"; 0 is none
	globs uint32 // 1 + index in sets; 0 is none
	loop  bool   // this is a "**": once reached it stays
	named bool   // has a child by literal name
}

// patternStep is a segment and the node that it led to.
type patternStep struct {
	segment patternSegment
	node    uint32
}

type globEdge struct {
	node, glob, child uint32
}

// reserve makes room for about so many literal edges, with names of so many
// bytes together.
func (x *patternIndex) reserve(edges, names int) {
	x.nodes = make([]patternNode, 1, edges+edges/8+1)
	x.names = newNameEdges(edges, names)
	x.globs, x.globIn = make(map[string]uint32), make(map[uint64]uint32)
}

// add inserts a pattern. Numbers must rise from call to call.
func (x *patternIndex) add(shape *patternShape, rule uint32) {
	if x.nodes == nil {
		x.reserve(16, 256)
	}
	at := uint32(0)
	x.nodes[at].reach = rule
	// Neighbours in a file often start alike: no search for what they share.
	shared := 0
	for shared < len(shape.segments) && shared < len(x.before) && shape.segments[shared] == x.before[shared].segment {
		at = x.before[shared].node
		x.nodes[at].reach = rule
		shared++
	}
	x.before = x.before[:shared]
	created := false
	for _, segment := range shape.segments[shared:] {
		child := uint32(0)
		if !created { // a new node has no children
			child = x.child(at, segment)
		}
		if created = child == 0; created {
			child = x.create(at, segment)
		}
		at = child
		x.nodes[at].reach = rule
		x.before = append(x.before, patternStep{segment: segment, node: at})
	}
	switch node := &x.nodes[at]; shape.tail {
	case tailSelf:
		node.self = rule
	case tailBelow:
		node.below = rule
	case tailChild:
		node.child = rule
	}
}

// child returns the child of a node by a segment; 0 is none.
func (x *patternIndex) child(at uint32, segment patternSegment) uint32 {
	switch segment.kind {
	case segmentAny:
		return x.nodes[at].any
	case segmentDeep:
		return x.nodes[at].deep
	case segmentGlob:
		return x.globIn[edgeKey(at, x.globNumber(segment.text))]
	default:
		return x.names.find(at, segment.text, x.names.hashName(segment.text))
	}
}

// create makes the child that child did not find.
func (x *patternIndex) create(at uint32, segment patternSegment) uint32 {
	next := uint32(len(x.nodes))
	x.nodes = append(x.nodes, patternNode{loop: segment.kind == segmentDeep})
	switch node := &x.nodes[at]; segment.kind {
	case segmentAny:
		node.any = next
	case segmentDeep:
		node.deep = next
	case segmentGlob:
		glob := x.globNumber(segment.text)
		x.globIn[edgeKey(at, glob)] = next
		x.pending = append(x.pending, globEdge{node: at, glob: glob, child: next})
	default:
		node.named = true
		x.names.add(at, segment.text, x.names.hashName(segment.text), next)
	}
	return next
}

func (x *patternIndex) globNumber(text string) uint32 {
	number, ok := x.globs[text]
	if !ok {
		number = uint32(len(x.texts))
		x.globs[text] = number
		x.texts = append(x.texts, text)
	}
	return number
}

func edgeKey(node, name uint32) uint64 { return uint64(node)<<32 | uint64(name) }

// seal ends the insertions: the globs of each node become searchable.
func (x *patternIndex) seal() {
	slices.SortFunc(x.pending, func(a, b globEdge) int {
		if a.node != b.node {
			return int(a.node) - int(b.node)
		}
		// The highest rule first, so that a search may stop early.
		return int(x.nodes[b.child].reach) - int(x.nodes[a.child].reach)
	})
	for first := 0; first < len(x.pending); {
		last := first
		for last < len(x.pending) && x.pending[last].node == x.pending[first].node {
			last++
		}
		x.sets = append(x.sets, x.newGlobSet(x.pending[first:last]))
		x.nodes[x.pending[first].node].globs = uint32(len(x.sets))
		first = last
	}
	x.pending, x.globs, x.globIn, x.before = nil, nil, nil, nil
}
