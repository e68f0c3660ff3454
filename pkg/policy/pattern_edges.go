package policy

import (
	"hash/maphash"
	"math/bits"
)

// nameEdges is the literal edges of a trie: (node, name) → child. It is one table
// for all nodes, so that a node costs nothing and a search is one probe.
//
// The hash is seeded at random for each table, so nobody can write a file whose
// names collide. The seed decides where an edge lies and never what is found.
type nameEdges struct {
	seed  maphash.Seed
	slots []edgeSlot // a power of two, at most half of them used
	edges []nameEdge
	names []byte // of all edges, one after another
}

// edgeSlot is empty where edge is 0.
type edgeSlot struct {
	hash uint32
	edge uint32 // 1 + index in edges
}

type nameEdge struct {
	node, child uint32
	start, end  uint32 // of the name in names
}

func newNameEdges(edges, names int) nameEdges {
	size := 16
	for size < 2*edges {
		size *= 2
	}
	return nameEdges{
		seed:  maphash.MakeSeed(),
		slots: make([]edgeSlot, size),
		edges: make([]nameEdge, 0, edges),
		names: make([]byte, 0, names),
	}
}

// hashName is computed once for a name and used with every node.
func (e *nameEdges) hashName(name string) uint64 { return maphash.String(e.seed, name) }

// edgeHash spreads the hash of a name over the nodes.
func edgeHash(node uint32, nameHash uint64) uint32 {
	const golden = 0x9e3779b97f4a7c15
	return uint32(((nameHash + uint64(node)) * golden) >> 32)
}

// home is where a search starts: the high bits, which the multiplication mixes best.
func (e *nameEdges) home(hash uint32) uint32 {
	return hash >> (32 - bits.TrailingZeros32(uint32(len(e.slots))))
}

// find returns the child; 0 is none.
func (e *nameEdges) find(node uint32, name string, nameHash uint64) uint32 {
	hash := edgeHash(node, nameHash)
	mask := uint32(len(e.slots) - 1)
	for at := e.home(hash); e.slots[at].edge != 0; at = (at + 1) & mask {
		if e.slots[at].hash != hash {
			continue
		}
		edge := &e.edges[e.slots[at].edge-1]
		if edge.node == node && string(e.names[edge.start:edge.end]) == name {
			return edge.child
		}
	}
	return 0
}

// add puts in an edge that find did not find.
func (e *nameEdges) add(node uint32, name string, nameHash uint64, child uint32) {
	if 2*len(e.edges) >= len(e.slots) {
		old := e.slots
		e.slots = make([]edgeSlot, 2*len(old))
		for _, slot := range old {
			if slot.edge != 0 {
				e.put(slot)
			}
		}
	}
	start := len(e.names)
	e.names = append(e.names, name...)
	e.edges = append(e.edges, nameEdge{node: node, child: child, start: uint32(start), end: uint32(len(e.names))})
	e.put(edgeSlot{hash: edgeHash(node, nameHash), edge: uint32(len(e.edges))})
}

func (e *nameEdges) put(slot edgeSlot) {
	mask := uint32(len(e.slots) - 1)
	at := e.home(slot.hash)
	for e.slots[at].edge != 0 {
		at = (at + 1) & mask
	}
	e.slots[at] = slot
}
