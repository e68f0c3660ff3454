package policy

import (
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// Keys beyond these bounds get no place of their own: a hostile file could
// otherwise make the places many times larger than itself.
const (
	maxPlaceKey   = 300
	maxPlaceParts = 8
)

// placesOf maps each key path of a valid document to where it is written, so
// that a mistake found after decoding still names its line.
func placesOf(text []byte) map[string]place {
	places := map[string]place{}
	lines := newLineIndex(text)
	var parser unstable.Parser
	parser.Reset(text)
	prefix, counts := "", map[string]int{}
	for parser.NextExpression() {
		node := parser.Expression()
		key, at := keyPath(node, lines)
		switch node.Kind {
		case unstable.Table:
			prefix = resolveArrays(places, key, counts, at)
			note(places, prefix, at)
		case unstable.ArrayTable:
			parents, name := "", key
			if cut := strings.LastIndex(key, "\x00"); cut >= 0 {
				parents, name = resolveArrays(places, key[:cut], counts, at), key[cut+1:]
			}
			array := joinKey(parents, name)
			note(places, array, at)
			prefix = elementKey(array, counts[array])
			counts[array]++
			note(places, prefix, at)
		case unstable.KeyValue:
			full := resolveDotted(places, prefix, key, at)
			noteValue(places, full, node.Value(), at, lines)
		}
	}
	return places
}

// resolveArrays rewrites "a.b" to "a[2].b" where a is an array of tables: in
// TOML a later header speaks of the last element. It notes the tables on the
// way, which no other line may write.
func resolveArrays(places map[string]place, key string, counts map[string]int, at place) string {
	out := ""
	for part := range strings.SplitSeq(key, "\x00") {
		out = joinKey(out, part)
		note(places, out, at)
		if n := counts[out]; n > 0 {
			out = elementKey(out, n-1)
		}
	}
	return out
}

// resolveDotted notes every table of a dotted key, and the key itself.
func resolveDotted(places map[string]place, prefix, key string, at place) string {
	for part := range strings.SplitSeq(key, "\x00") {
		prefix = joinKey(prefix, part)
		note(places, prefix, at)
	}
	return prefix
}

func joinKey(prefix, key string) string {
	if prefix == "" {
		return key
	}
	return prefix + "." + key
}

func note(places map[string]place, key string, at place) {
	if _, seen := places[key]; !seen {
		places[key] = at
	}
}

func noteValue(places map[string]place, key string, value *unstable.Node, at place, lines lineIndex) {
	if len(key) > maxPlaceKey {
		return
	}
	switch value.Kind {
	case unstable.Array:
		it, i := value.Children(), 0
		for it.Next() {
			child := it.Node()
			if child.Kind == unstable.Comment {
				continue
			}
			here := at
			if child.Raw.Length > 0 {
				here = lines.at(int(child.Raw.Offset))
			}
			note(places, elementKey(key, i), here)
			noteValue(places, elementKey(key, i), child, here, lines)
			i++
		}
	case unstable.InlineTable:
		it := value.Children()
		for it.Next() {
			child := it.Node()
			if child.Kind != unstable.KeyValue {
				continue
			}
			name, here := keyPath(child, lines)
			full := resolveDotted(places, key, name, here)
			noteValue(places, full, child.Value(), here, lines)
		}
	}
}

// keyPath gives a node's dotted key, parts separated by NUL (a part may hold a
// dot), and where it is written.
func keyPath(node *unstable.Node, lines lineIndex) (string, place) {
	var parts []string
	var at place
	it := node.Key()
	for it.Next() {
		part := it.Node()
		if len(parts) == 0 && part.Raw.Length > 0 {
			at = lines.at(int(part.Raw.Offset))
		}
		if parts = append(parts, string(part.Data)); len(parts) > maxPlaceParts {
			break // no key of ours is that deep; the places up to here will do
		}
	}
	return strings.Join(parts, "\x00"), at
}

// lineIndex holds the offset at which each line begins.
type lineIndex []int

func newLineIndex(text []byte) lineIndex {
	index := lineIndex{0}
	for i, c := range text {
		if c == '\n' {
			index = append(index, i+1)
		}
	}
	return index
}

func (x lineIndex) at(offset int) place {
	i, found := slices.BinarySearch(x, offset)
	if !found {
		i--
	}
	return place{line: i + 1, column: offset - x[i] + 1}
}
