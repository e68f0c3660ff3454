package policy

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A name must not meet more than a few of the globs beside it, however many there
// are: that is what the filing is for.
func TestGlobsAreFiledApart(t *testing.T) {
	t.Parallel()
	const many = 1_000
	forms := map[string]struct {
		glob  string
		place globPlace
	}{
		"by the start":                        {"start-%d-*.sql", placeStart},
		"by the start before a ?":             {"start-%d?.sql", placeStart},
		"by the end":                          {"gen_*-%d.sql", placeEnd},
		"by the end, the start being nothing": {"*_%d.sql", placeEnd},
		"by the middle":                       {"a*%04d*.sql", placeMiddle},
		"by the middle of many pieces":        {"a*b?x*%04d*c*.sql", placeMiddle},
		"by the end of a long middle":         {"*" + strings.Repeat("long", 20) + "%04d*", placeMiddle},
		"by the start of a long middle":       {"*%04d" + strings.Repeat("long", 20) + "*", placeMiddle},
	}
	for name, form := range forms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var text strings.Builder
			for i := range many {
				fmt.Fprintf(&text, "/"+form.glob+" @x\n", i)
			}
			sets := ParseCodeowners("CODEOWNERS", []byte(text.String())).index.sets
			if len(sets) != 1 || len(sets[0].scan) != 0 {
				t.Fatalf("%d sets, %d globs to scan", len(sets), len(sets[0].scan))
			}
			filed := 0
			for _, group := range sets[0].filed[form.place].groups {
				for key, list := range group.lists {
					filed += len(list)
					if len(list) > 2 {
						t.Errorf("%d globs are filed under %q", len(list), key)
					}
				}
			}
			if filed != many {
				t.Errorf("%d of %d globs are filed there", filed, many)
			}
		})
	}
}

// Names as short as a gram, and shorter than the keys that share it.
func TestGlobsMeetShortNames(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for i := range 20 {
		fmt.Fprintf(&text, "/abcd%d* @start\n/*%dabcd @end\n", i, i)
	}
	text.WriteString("/ab* @ab\n/*yz @yz\n/*q* @q\n/abcd* @abcd\n/*wxyz @wxyz\n")
	c := ParseCodeowners("CODEOWNERS", []byte(text.String()))
	for path, want := range map[string]string{
		"abcd": "@abcd", "abcd1": "@abcd", "ab": "@ab", "abc": "@ab", "yz": "@yz", "xyz": "@yz", "wxyz": "@wxyz", "q": "@q",
		"1abcd": "@end", "abcd1abcd": "@abcd", "a": "-", "z": "-", "bcd": "-", "xabcd": "-",
	} {
		if got := ownersOf(c, path); got != want {
			t.Errorf("owners of %q = %q, want %q", path, got, want)
		}
	}
}

func TestGlobKeys(t *testing.T) {
	t.Parallel()
	wild := strings.NewReplacer("*", "\xff", "?", "\xfe")
	long := "0123456789abcdefghijklmnopqrstuv"
	rows := map[string][]string{
		"*": nil, "?*": nil, "a*": {"0a"}, "*a": {"1a"}, "a*b": {"0a", "1b"}, "a?b": {"0a", "1b"}, "*a*": {"2a"}, "*abcd*": {"2abcd"},
		"ab*cde?f*gh": {"0ab", "1gh", "2cde", "2f"}, "*abcdef*": {"2abcd", "2bcde", "2cdef"}, "**a": {"1a"}, "a**": {"0a"},
		"*" + long[:19] + "*": {"20123", "21234", "22345", "23456", "24567", "25678", "26789", "2789a", "289ab", "29abc", "2abcd", "2bcde", "2cdef", "2defg", "2efgh", "2fghi"},
		"*" + long + "*":      {"20123", "21234", "22345", "23456", "24567", "25678", "26789", "2789a", "2lmno", "2mnop", "2nopq", "2opqr", "2pqrs", "2qrst", "2rstu", "2stuv"},
	}
	for glob, want := range rows {
		var got []string
		for _, key := range globKeys(nil, wild.Replace(glob)) {
			got = append(got, fmt.Sprint(key.place)+key.text)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("keys of %q (-want +got):\n%s", glob, diff)
		}
	}
}

func TestGlobsOfASmallSetAreScanned(t *testing.T) {
	t.Parallel()
	for n, scanned := range map[int]int{globScanMost: globScanMost, globScanMost + 1: 0} {
		var text strings.Builder
		for i := range n {
			fmt.Fprintf(&text, "/a%d* @x\n", i)
		}
		set := ParseCodeowners("CODEOWNERS", []byte(text.String())).index.sets[0]
		if len(set.scan) != scanned {
			t.Errorf("of %d globs %d are scanned, want %d", n, len(set.scan), scanned)
		}
		falling := slices.IsSortedFunc(set.scan, func(a, b globChild) int { return int(b.reach) - int(a.reach) })
		if !falling {
			t.Errorf("the last rule is not tried first: %+v", set.scan)
		}
	}
}

// The table of literal edges grows with its edges and finds each, and no other.
func TestNameEdges(t *testing.T) {
	t.Parallel()
	const nodes, names = 40, 50
	edges := newNameEdges(1, 1)
	for i := range nodes * names {
		node, name := uint32(i%nodes), fmt.Sprint("name", i/nodes)
		hash := edges.hashName(name)
		if child := edges.find(node, name, hash); child != 0 {
			t.Fatalf("found %d before it was added", child)
		}
		edges.add(node, name, hash, uint32(i+1))
		if len(edges.slots) < 2*len(edges.edges) {
			t.Fatalf("%d edges in %d slots", len(edges.edges), len(edges.slots))
		}
	}
	for i := range nodes * names {
		name := fmt.Sprint("name", i/nodes)
		if child := edges.find(uint32(i%nodes), name, edges.hashName(name)); child != uint32(i+1) {
			t.Fatalf("edge %d leads to %d", i, child)
		}
	}
	homes := make(map[uint32]bool)
	for _, slot := range edges.slots {
		if slot.edge != 0 {
			homes[edges.home(slot.hash)] = true
		}
	}
	if len(homes) < nodes*names/2 {
		t.Errorf("%d edges start at only %d places", nodes*names, len(homes))
	}
	if child := edges.find(nodes, "name0", edges.hashName("name0")); child != 0 {
		t.Errorf("a node without edges leads to %d", child)
	}
	// Two names of one hash are told apart by the names, two nodes by the nodes.
	edges = newNameEdges(4, 16)
	edges.add(1, "a", 7, 2)
	if edges.find(1, "b", 7) != 0 || edges.find(0, "a", 8) != 0 || edges.find(1, "a", 7) != 2 {
		t.Error("edges of one hash are confused")
	}
	edges.add(1, "b", 7, 3)
	if edges.find(1, "a", 7) != 2 || edges.find(1, "b", 7) != 3 {
		t.Error("edges of one hash are lost")
	}
}

func TestPatternTextNeedNotBeEscaped(t *testing.T) {
	t.Parallel()
	var shape patternShape
	for pattern, fault := range map[string]faultCode{"a b": faultNone, "a b*": faultNone, "": faultEmptySegment, "a\tb": faultControl} {
		if got := shape.parse(pattern); got != fault {
			t.Errorf("parse(%q) = %d, want %d", pattern, got, fault)
		}
	}
}
