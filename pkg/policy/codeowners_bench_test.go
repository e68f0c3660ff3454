package policy

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/countersign/countersign/pkg/policy/codeownersgen"
)

// The largest file that GitHub loads gives the answers that asking rule by rule
// gives (a sample of paths: the reference is slow).
func TestCodeownersLargeFile(t *testing.T) {
	t.Parallel()
	text := codeownersgen.File(50_000)
	if len(text) < 2_900_000 || len(text) > CodeownersMaxBytes {
		t.Fatalf("the file has %d bytes, want about 3 MiB", len(text))
	}
	c := ParseCodeowners("CODEOWNERS", text)
	if !c.Valid() || len(c.Rules()) != 50_000 {
		t.Fatalf("%d rules, problems %v", len(c.Rules()), c.Problems())
	}
	paths := codeownersgen.Paths(3_000, 50_000)
	all := c.MatchAll(paths)
	for i := 0; i < len(paths); i += 1_000 {
		if diff := cmp.Diff(referenceOwnership(c.Rules(), paths[i]), all[i]); diff != "" {
			t.Errorf("owners of %q (-reference +index):\n%s", paths[i], diff)
		}
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
