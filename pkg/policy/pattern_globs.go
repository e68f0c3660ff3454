package policy

import (
	"slices"
	"strings"
)

// globSet is the globs that leave one node. Each is filed once, under a part of it
// that a name must contain: its literal start, its literal end or a literal piece
// from its middle, whichever the fewest others share. A name then meets only the
// globs filed under parts of itself.
type globSet struct {
	// scan is tried one by one: all globs of a small set, and those without any
	// literal part. Like every list here it is ordered by falling rule.
	scan []globChild
	// by is the filed globs, by place; nil where there is none.
	by [3]globTable
}

type globChild struct {
	text         string
	child, reach uint32
}

// globTable is the globs filed under one kind of place.
type globTable struct {
	lengths []int // of the keys, rising
	lists   map[string][]globChild
}

type globPlace uint8

const (
	placeStart globPlace = iota
	placeEnd
	placeMiddle
)

// globKey is a part of a glob and its place.
type globKey struct {
	place globPlace
	text  string
}

const (
	// globScanMost is the size up to which trying each glob is the fastest.
	globScanMost = 8
	// globWindow bounds keys from the middle, as those are looked up at every
	// position of a name, once for each length in use.
	globWindow = 8
)

// newGlobSet files the edges, which are ordered by falling rule.
func (x *patternIndex) newGlobSet(edges []globEdge) globSet {
	var set globSet
	if len(edges) <= globScanMost {
		for _, edge := range edges {
			set.scan = append(set.scan, x.globChild(edge))
		}
		return set
	}
	var keys []globKey
	count := make(map[globKey]int, len(edges))
	for _, edge := range edges {
		keys = globKeys(keys[:0], x.texts[edge.glob])
		for _, key := range keys {
			count[key]++
		}
	}
	for _, edge := range edges {
		keys = globKeys(keys[:0], x.texts[edge.glob])
		child := x.globChild(edge)
		if len(keys) == 0 {
			set.scan = append(set.scan, child)
			continue
		}
		rarest := slices.MinFunc(keys, func(a, b globKey) int {
			if count[a] != count[b] {
				return count[a] - count[b]
			}
			return int(a.place) - int(b.place)
		})
		set.by[rarest.place].add(rarest.text, child)
	}
	for i := range set.by {
		set.by[i].seal()
	}
	return set
}

func (x *patternIndex) globChild(edge globEdge) globChild {
	return globChild{text: x.texts[edge.glob], child: edge.child, reach: x.nodes[edge.child].reach}
}

func (t *globTable) add(key string, child globChild) {
	if t.lists == nil {
		t.lists = make(map[string][]globChild)
	}
	t.lists[key] = append(t.lists[key], child)
}

func (t *globTable) seal() {
	for key := range t.lists {
		t.lengths = append(t.lengths, len(key))
	}
	slices.Sort(t.lengths)
	t.lengths = slices.Compact(t.lengths)
}

// globKeys appends the parts under which a glob may be filed.
func globKeys(keys []globKey, glob string) []globKey {
	first := indexWildcard(glob)
	last := lastWildcard(glob)
	if first > 0 {
		keys = append(keys, globKey{placeStart, glob[:first]})
	}
	if last+1 < len(glob) {
		keys = append(keys, globKey{placeEnd, glob[last+1:]})
	}
	rest := glob[first+1 : max(last, first+1)]
	for rest != "" {
		piece := rest
		if n := indexWildcard(rest); n >= 0 {
			piece, rest = rest[:n], rest[n+1:]
		} else {
			rest = ""
		}
		if piece == "" {
			continue
		}
		window := min(len(piece), globWindow)
		keys = append(keys, globKey{placeMiddle, piece[:window]})
		if len(piece) > window {
			keys = append(keys, globKey{placeMiddle, piece[len(piece)-window:]})
		}
	}
	return keys
}

// appendMatches appends the children whose glob matches the name and whose reach
// is above the floor, each once.
func (s *globSet) appendMatches(children []uint32, name string, floor uint32) []uint32 {
	children = appendGlobMatches(children, s.scan, name, floor)
	for _, n := range s.by[placeStart].lengths {
		if n > len(name) {
			break
		}
		children = appendGlobMatches(children, s.by[placeStart].lists[name[:n]], name, floor)
	}
	for _, n := range s.by[placeEnd].lengths {
		if n > len(name) {
			break
		}
		children = appendGlobMatches(children, s.by[placeEnd].lists[name[len(name)-n:]], name, floor)
	}
	for _, n := range s.by[placeMiddle].lengths {
		for at := 0; at+n <= len(name); at++ {
			key := name[at : at+n]
			list := s.by[placeMiddle].lists[key]
			if len(list) > 0 && strings.Index(name, key) == at { // else it was tried before
				children = appendGlobMatches(children, list, name, floor)
			}
		}
	}
	return children
}

func appendGlobMatches(children []uint32, list []globChild, name string, floor uint32) []uint32 {
	for i := range list {
		if list[i].reach <= floor {
			break // and so are all that follow
		}
		if globMatches(list[i].text, name) {
			children = append(children, list[i].child)
		}
	}
	return children
}

// indexWildcard and lastWildcard are byte-wise: the wildcards are not runes.
func indexWildcard(glob string) int {
	for i := range len(glob) {
		if glob[i] >= globOne {
			return i
		}
	}
	return -1
}

func lastWildcard(glob string) int {
	for i := len(glob) - 1; i >= 0; i-- {
		if glob[i] >= globOne {
			return i
		}
	}
	return -1
}
