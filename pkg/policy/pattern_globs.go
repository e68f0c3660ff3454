package policy

import (
	"slices"
	"strings"
)

// globSet is the globs that leave one node. Each is filed once, under a part of it
// that a name must contain: its literal start, its literal end or a few bytes of a
// literal piece from its middle, whichever the fewest others share. A name then
// meets only the globs filed under parts of itself.
type globSet struct {
	// scan is tried one by one: all globs of a small set, and those without any
	// literal part. Like every list here it is ordered by falling rule.
	scan []globChild
	// filed is the others, by place.
	filed [3]globTable
}

type globChild struct {
	text         string
	child, reach uint32
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

// globTable is the globs filed under one place. A gram, the first or last bytes of
// a key, leads to the few keys that share it, so that most names are done with
// after as many look-ups as there are sizes of grams.
type globTable struct {
	sizes  []int // of the grams in use, rising
	groups map[uint64]*globGroup
}

// globGroup is the keys of one gram.
type globGroup struct {
	lengths []int // of the keys, rising
	lists   map[string][]globChild
}

const (
	// globScanMost is the size up to which trying each glob is the fastest.
	globScanMost = 8
	// gramMost is the size of a gram, but for shorter keys.
	gramMost = 4
	// globWindows bounds the keys that are considered of one middle piece.
	globWindows = 16
)

// gram packs up to gramMost bytes; the size tells "a" from "a\x00".
func gram(s string) uint64 {
	packed := uint64(len(s))
	for i := range len(s) {
		packed = packed<<8 | uint64(s[i])
	}
	return packed
}

// gramOf returns the bytes of a key that lead to its group.
func gramOf(place globPlace, key string) string {
	size := min(len(key), gramMost)
	if place == placeEnd {
		return key[len(key)-size:]
	}
	return key[:size]
}

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
		set.filed[rarest.place].add(rarest, child)
	}
	for i := range set.filed {
		set.filed[i].seal()
	}
	return set
}

func (x *patternIndex) globChild(edge globEdge) globChild {
	return globChild{text: x.texts[edge.glob], child: edge.child, reach: x.nodes[edge.child].reach}
}

func (t *globTable) add(key globKey, child globChild) {
	if t.groups == nil {
		t.groups = make(map[uint64]*globGroup)
	}
	bytes := gramOf(key.place, key.text)
	group := t.groups[gram(bytes)]
	if group == nil {
		group = &globGroup{lists: make(map[string][]globChild)}
		t.groups[gram(bytes)] = group
		if !slices.Contains(t.sizes, len(bytes)) {
			t.sizes = append(t.sizes, len(bytes))
		}
	}
	group.lists[key.text] = append(group.lists[key.text], child)
}

func (t *globTable) seal() {
	slices.Sort(t.sizes)
	for _, group := range t.groups {
		for key := range group.lists {
			group.lengths = append(group.lengths, len(key))
		}
		slices.Sort(group.lengths)
		group.lengths = slices.Compact(group.lengths)
	}
}

// globKeys appends the parts under which a glob may be filed.
func globKeys(keys []globKey, glob string) []globKey {
	first, last := indexWildcard(glob), lastWildcard(glob)
	if first > 0 {
		keys = append(keys, globKey{placeStart, glob[:first]})
	}
	if last+1 < len(glob) {
		keys = append(keys, globKey{placeEnd, glob[last+1:]})
	}
	for rest := glob[first+1 : max(last, first+1)]; rest != ""; {
		piece := rest
		if n := indexWildcard(rest); n >= 0 {
			piece, rest = rest[:n], rest[n+1:]
		} else {
			rest = ""
		}
		if piece != "" {
			keys = appendWindows(keys, piece)
		}
	}
	return keys
}

// appendWindows appends the grams of a piece from the middle: all of a short
// piece, those at both ends of a long one.
func appendWindows(keys []globKey, piece string) []globKey {
	size := min(len(piece), gramMost)
	windows := len(piece) - size + 1
	for at := range min(windows, globWindows) {
		if at >= globWindows/2 && windows > globWindows {
			at = windows - globWindows + at
		}
		keys = append(keys, globKey{placeMiddle, piece[at : at+size]})
	}
	return keys
}

// appendMatches appends the children whose glob matches the name and whose reach
// is above the floor, each once.
func (s *globSet) appendMatches(children []uint32, name string, floor uint32) []uint32 {
	children = appendGlobMatches(children, s.scan, name, floor)
	for _, size := range s.filed[placeStart].sizes {
		if size > len(name) {
			break
		}
		group := s.filed[placeStart].groups[gram(name[:size])]
		for _, n := range group.lengthsUpTo(len(name)) {
			children = appendGlobMatches(children, group.lists[name[:n]], name, floor)
		}
	}
	for _, size := range s.filed[placeEnd].sizes {
		if size > len(name) {
			break
		}
		group := s.filed[placeEnd].groups[gram(name[len(name)-size:])]
		for _, n := range group.lengthsUpTo(len(name)) {
			children = appendGlobMatches(children, group.lists[name[len(name)-n:]], name, floor)
		}
	}
	for _, size := range s.filed[placeMiddle].sizes {
		for at := 0; at+size <= len(name); at++ {
			key := name[at : at+size]
			group := s.filed[placeMiddle].groups[gram(key)]
			if group != nil && strings.Index(name, key) == at { // else it was tried before
				children = appendGlobMatches(children, group.lists[key], name, floor)
			}
		}
	}
	return children
}

// lengthsUpTo returns the lengths of the keys that may be part of a name of so
// many bytes. A nil group has none.
func (g *globGroup) lengthsUpTo(most int) []int {
	if g == nil {
		return nil
	}
	n := len(g.lengths)
	for n > 0 && g.lengths[n-1] > most {
		n--
	}
	return g.lengths[:n]
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
