package policy

import (
	"fmt"
	"slices"
	"testing"

	"github.com/countersign/countersign/pkg/policy/codeownersgen"
)

// A large and ordinary file gives the answers that asking rule by rule gives.
func TestCodeownersLargeFile(t *testing.T) {
	t.Parallel()
	const rules = 2_000
	c := ParseCodeowners("CODEOWNERS", codeownersgen.File(rules))
	if !c.Valid() || len(c.Rules()) != rules {
		t.Fatalf("%d rules, problems %v", len(c.Rules()), c.Problems())
	}
	patterns := make([]referencePattern, rules)
	for i, rule := range c.Rules() {
		patterns[i] = newReferencePattern(rule.Pattern)
	}
	paths := codeownersgen.Paths(40, rules)
	for i, got := range c.MatchAll(paths) {
		last := len(patterns) - 1
		for !patterns[last].match(paths[i]) { // the first rule matches everything
			last--
		}
		if want := c.Rules()[last]; got.Line != want.Line || !slices.Equal(got.Owners, want.Owners) {
			t.Errorf("owners of %q: %+v, want those of %+v", paths[i], got, want)
		}
	}
}

func TestCodeownersLargestFile(t *testing.T) {
	t.Parallel()
	const rules = 50_000
	text := codeownersgen.File(rules)
	if len(text) < 2_900_000 || len(text) > CodeownersMaxBytes {
		t.Fatalf("the file has %d bytes, want about 3 MiB", len(text))
	}
	c := ParseCodeowners("CODEOWNERS", text)
	if !c.Valid() || len(c.Rules()) != rules || c.Rules()[rules-1].Line != rules {
		t.Fatalf("%d rules, problems %v", len(c.Rules()), c.Problems())
	}
	paths := codeownersgen.Paths(3_000, rules)
	decided := make(map[int]bool)
	for _, ownership := range c.MatchAll(paths) {
		if !ownership.Matched {
			t.Fatal("a path that the first rule does not match")
		}
		decided[ownership.Line] = true
	}
	if len(decided) < 500 {
		t.Errorf("only %d rules decide: the paths do not fit the file", len(decided))
	}
}

func BenchmarkCodeownersParse(b *testing.B) {
	for _, rules := range []int{100, 1_000, 10_000, 50_000} {
		b.Run(fmt.Sprintf("rules=%d", rules), func(b *testing.B) {
			text := codeownersgen.File(rules)
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				ParseCodeowners("CODEOWNERS", text)
			}
		})
	}
}

// BenchmarkCodeownersMatch reports the time of one path: it should stay level.
func BenchmarkCodeownersMatch(b *testing.B) {
	for _, rules := range []int{100, 1_000, 10_000, 50_000} {
		c := ParseCodeowners("CODEOWNERS", codeownersgen.File(rules))
		for _, paths := range []int{30, 3_000} {
			list := codeownersgen.Paths(paths, rules)
			b.Run(fmt.Sprintf("rules=%d/paths=%d", rules, paths), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					c.MatchAll(list)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(paths), "ns/path")
			})
		}
	}
}
