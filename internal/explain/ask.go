package explain

import (
	"slices"
	"strings"

	"github.com/countersign/countersign/pkg/policy"
)

// maxAskSearch bounds the search for the smallest set: beyond it, what is told is small but may not be the smallest.
const maxAskSearch = 12

// Ask is the smallest set of owners who can satisfy everything that is missing of a pull request, if each of them approves; of
// several such sets the one that is first by name. The author is never asked: author is their login, "" when unknown. It is empty
// where nothing is missing, and where nobody could help.
func Ask(p *policy.PullVerdict, author string) []string {
	if p == nil || p.Conclusion.Approved() {
		return nil
	}
	var must []string     // owners without whom it cannot be
	var either [][]string // one of each
	for i := range p.Groups {
		g := &p.Groups[i]
		owners := askable(g.WaitsOn(), author)
		switch {
		case len(owners) == 0:
		case len(g.AllOf) > 0, len(owners) == 1:
			must = append(must, owners...)
		default:
			either = append(either, owners)
		}
	}
	slices.Sort(must)
	must = slices.Compact(must)
	either = slices.DeleteFunc(either, func(set []string) bool {
		return slices.ContainsFunc(set, func(o string) bool { return slices.Contains(must, o) })
	})
	asked := slices.Concat(must, smallestHit(either))
	slices.Sort(asked)
	return asked
}

// askable leaves out the author, whose own approval GitHub refuses.
func askable(owners []string, author string) []string {
	var out []string
	for _, o := range owners {
		if name := strings.ToLower(o); name != "@"+strings.ToLower(author) && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// smallestHit finds the smallest set that has one of each: every set of one, then of two and so on, for few owners; for many it takes
// whoever is in most of those that are left.
func smallestHit(sets [][]string) []string {
	var owners []string
	for _, set := range sets {
		owners = append(owners, set...)
	}
	slices.Sort(owners)
	owners = slices.Compact(owners)
	if len(owners) <= maxAskSearch {
		for size := range len(owners) + 1 {
			if found, ok := hitOfSize(sets, owners, nil, size); ok {
				return found
			}
		}
	}
	var chosen []string
	for rest := sets; len(rest) > 0; {
		best, most := "", 0
		for _, o := range owners {
			n := 0
			for _, set := range rest {
				if slices.Contains(set, o) {
					n++
				}
			}
			if n > most {
				best, most = o, n
			}
		}
		chosen = append(chosen, best)
		rest = slices.DeleteFunc(slices.Clone(rest), func(set []string) bool { return slices.Contains(set, best) })
	}
	return chosen
}

func hitOfSize(sets [][]string, owners, chosen []string, size int) ([]string, bool) {
	if size == 0 {
		for _, set := range sets {
			if !slices.ContainsFunc(set, func(o string) bool { return slices.Contains(chosen, o) }) {
				return nil, false
			}
		}
		return slices.Clone(chosen), true
	}
	for i, o := range owners {
		if found, ok := hitOfSize(sets, owners[i+1:], append(chosen, o), size-1); ok {
			return found, true
		}
	}
	return nil, false
}
