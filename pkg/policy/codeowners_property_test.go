package policy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// Few and similar names, so that patterns and paths meet often.
var (
	drawPatternName = rapid.SampledFrom([]string{
		"a", "b", "ab", "aba", "é", ".b", "*", "**", "a*", "*a", "*b", "*a*", "a*b", "?", "??", "a?", "?*", "*?a",
		"a**", "**b", `\*`, `a\?`, `a\ b`, "a*a*b", "*é", "?b*", "*ab", "ab*", "b*a", "*ba*", "*.b", "a*.b", "*ab*a",
	})
	drawPathName = rapid.SampledFrom([]string{
		"a", "b", "ab", "ba", "aba", "aab", "abab", "é", "aé", "éb", ".b", "a.b", "*", "a?", "a b", "bab", "abbba",
	})
	drawPath = rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(drawPathName, 1, 6).Draw(t, "names"), "/")
	})
	drawPattern = rapid.Custom(func(t *rapid.T) string {
		body := strings.Join(rapid.SliceOfN(drawPatternName, 1, 5).Draw(t, "names"), "/")
		return rapid.SampledFrom([]string{"", "", "/"}).Draw(t, "lead") + body +
			rapid.SampledFrom([]string{"", "", "/"}).Draw(t, "trail")
	})
)

func drawRules(most int) *rapid.Generator[*Codeowners] {
	return rapid.Custom(func(t *rapid.T) *Codeowners {
		var text strings.Builder
		for i, pattern := range rapid.SliceOfN(drawPattern, 0, most).Draw(t, "patterns") {
			fmt.Fprintf(&text, "%s @o%d\n", pattern, i)
		}
		c := ParseCodeowners("CODEOWNERS", []byte(text.String()))
		if !c.Valid() {
			t.Fatalf("generated rules are invalid: %v", c.Problems()[0])
		}
		return c
	})
}

// The index gives the answer that asking each rule in turn gives.
func TestCodeownersIndexEqualsReference(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 4, 80} {
		t.Run(fmt.Sprintf("up to %d rules, RG-323 RG-324", size), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				c := drawRules(size).Draw(t, "rules")
				paths := rapid.SliceOfN(drawPath, 1, 12).Draw(t, "paths")
				all := c.MatchAll(paths)
				for i, path := range paths {
					want := referenceOwnership(c.Rules(), path)
					if diff := cmp.Diff(want, all[i]); diff != "" {
						t.Fatalf("MatchAll(%q) (-reference +index):\n%s", path, diff)
					}
					if diff := cmp.Diff(want, c.Match(path)); diff != "" {
						t.Fatalf("Match(%q) (-reference +index):\n%s", path, diff)
					}
				}
			})
		})
	}
}

// Many globs beside each other, of words of all lengths, and paths made from them:
// this is where globs are found by their rarest part.
func TestCodeownersManyGlobsEqualReference(t *testing.T) {
	t.Parallel()
	word := rapid.SampledFrom([]string{"a", "b", "é", "ab", "abc", "test", "alpha", "beta_1", "beta_2", "generated", "日本", "_test.go", ".pb.go", ".go", "abababab"})
	wild := rapid.SampledFrom([]string{"*", "*", "*", "?", "?*", "**"})
	drawGlob := rapid.Custom(func(t *rapid.T) string {
		var glob strings.Builder
		for i := range rapid.IntRange(1, 5).Draw(t, "parts") {
			if i > 0 || rapid.Bool().Draw(t, "lead") {
				glob.WriteString(wild.Draw(t, "wild"))
			}
			glob.WriteString(word.Draw(t, "word"))
		}
		if rapid.Bool().Draw(t, "trail") {
			glob.WriteString(wild.Draw(t, "wild"))
		}
		return glob.String()
	})
	rapid.Check(t, func(t *rapid.T) {
		globs := rapid.SliceOfN(drawGlob, 1, 60).Draw(t, "globs")
		var text strings.Builder
		for i, glob := range globs {
			fmt.Fprintf(&text, "%s%s @o%d\n", rapid.SampledFrom([]string{"", "", "/", "**/a/"}).Draw(t, "lead"), glob, i)
		}
		c := ParseCodeowners("CODEOWNERS", []byte(text.String()))
		if !c.Valid() {
			t.Fatalf("generated rules are invalid: %v", c.Problems()[0])
		}
		for range 20 {
			path := ""
			for range rapid.IntRange(0, 2).Draw(t, "directories") {
				path += word.Draw(t, "directory") + "/"
			}
			for _, part := range strings.Split(strings.ReplaceAll(rapid.SampledFrom(globs).Draw(t, "like"), "?", "*"), "*") {
				path += part + rapid.SampledFrom([]string{"", "a", "é", "test"}).Draw(t, "gap")
			}
			if diff := cmp.Diff(referenceOwnership(c.Rules(), path), c.Match(path)); diff != "" {
				t.Fatalf("Match(%q) (-reference +index):\n%s\nof\n%s", path, diff, text.String())
			}
		}
	})
}

// Patterns that repeat "**" reach many nodes at once, by many ways.
func TestCodeownersManyStarsEqualReference(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var text strings.Builder
		for i := range rapid.IntRange(1, 4).Draw(t, "rules") {
			text.WriteString(strings.Repeat("**/a/", rapid.IntRange(1, 40).Draw(t, "repeats")))
			fmt.Fprintf(&text, "%s @o%d\n", rapid.SampledFrom([]string{"b", "*/b", "a*", "*", "**/b/", ""}).Draw(t, "end"), i)
		}
		c := ParseCodeowners("CODEOWNERS", []byte(text.String()))
		var paths []string
		for range 6 {
			names := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "a", "a", "a", "a", "a", "a", "b", "ab"}), 1, 60).Draw(t, "path")
			paths = append(paths, strings.Join(names, "/"))
		}
		for i, got := range c.MatchAll(paths) {
			if diff := cmp.Diff(referenceOwnership(c.Rules(), paths[i]), got); diff != "" {
				t.Fatalf("Match(%q) (-reference +index):\n%s\nof\n%s", paths[i], diff, text.String())
			}
		}
	})
}

func TestCodeownersOrder(t *testing.T) {
	t.Parallel()
	t.Run("RG-493 the last literal rule wins", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			c := drawRules(30).Draw(t, "rules")
			path := drawPath.Draw(t, "path")
			literal := "/" + strings.NewReplacer("*", `\*`, "?", `\?`, " ", `\ `).Replace(path)
			text := c.text + literal + " @last\n"
			got := ParseCodeowners("CODEOWNERS", []byte(text)).Match(path)
			if len(got.Owners) != 1 || got.Owners[0].Name != "last" {
				t.Fatalf("Match(%q) = %+v, want the last rule %q", path, got, literal)
			}
		})
	})
	t.Run("RG-323 what stands before the deciding rule changes nothing", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			c := drawRules(20).Draw(t, "rules")
			path := drawPath.Draw(t, "path")
			decided := c.Match(path)
			if !decided.Matched {
				t.Skip("no rule matches")
			}
			lines := strings.SplitAfter(c.text, "\n")
			tail := ParseCodeowners("CODEOWNERS", []byte(strings.Join(lines[decided.Line-1:], "")))
			if diff := cmp.Diff(decided.Owners, tail.Match(path).Owners); diff != "" {
				t.Fatalf("Match(%q) without the lines before %d (-all +tail):\n%s", path, decided.Line, diff)
			}
		})
	})
	t.Run("an invalid line anywhere changes no other line's match", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			c := drawRules(20).Draw(t, "rules")
			path := drawPath.Draw(t, "path")
			bad := rapid.SampledFrom([]string{"!a @x", "*** @x", "[a] @x", "* x", "/ @x", "* @x @@y"}).Draw(t, "bad")
			lines := strings.SplitAfter(c.text, "\n")
			at := rapid.IntRange(0, len(lines)-1).Draw(t, "at")
			text := strings.Join(lines[:at], "") + bad + "\n" + strings.Join(lines[at:], "")
			got := ParseCodeowners("CODEOWNERS", []byte(text))
			if n := len(got.Problems()); n != 1 {
				t.Fatalf("%d problems, want 1 in\n%s", n, text)
			}
			if diff := cmp.Diff(c.Match(path).Owners, got.Match(path).Owners); diff != "" {
				t.Fatalf("Match(%q) (-without +with the bad line):\n%s", path, diff)
			}
		})
	})
}
