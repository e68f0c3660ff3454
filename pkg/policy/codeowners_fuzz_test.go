package policy

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// FuzzParseCodeowners holds every text to what ParseCodeowners promises: each
// line is blank, a comment, one rule or at least one problem, and none is lost.
func FuzzParseCodeowners(f *testing.F) {
	for _, c := range loadCodeownersCases(f) {
		f.Add([]byte(c.Codeowners))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		c := ParseCodeowners("CODEOWNERS", text)
		accounted := make(map[int]string)
		for _, rule := range c.Rules() {
			if accounted[rule.Line] != "" || rule.Pattern == "" {
				t.Fatalf("line %d is read twice: %+v", rule.Line, rule)
			}
			accounted[rule.Line] = "rule"
			for _, owner := range rule.Owners {
				if again, ok := ParseOwner(owner.String()); !ok || again != owner {
					t.Fatalf("owner %+v does not read back: %+v", owner, again)
				}
			}
		}
		for _, problem := range c.Problems() {
			if accounted[problem.Line] == "rule" {
				t.Fatalf("line %d is a rule and a problem: %v", problem.Line, problem)
			}
			accounted[problem.Line] = "problem"
			if n := len(text) + 1; problem.Column < 1 || problem.Column > n {
				t.Fatalf("column %d of %d", problem.Column, n)
			}
			if problem.Message == "" || problem.Mend == "" || len(problem.Message)+len(problem.Mend) > 1000 {
				t.Fatalf("problem %+v", problem)
			}
		}
		for i, line := range strings.Split(strings.TrimPrefix(string(text), utf8BOM), "\n") {
			bare := strings.TrimLeft(line, " \t\r\v\f")
			blank := bare == "" || bare[0] == '#'
			if blank != (accounted[i+1] == "") {
				t.Fatalf("line %d %q is %q", i+1, line, accounted[i+1])
			}
		}
		c.Warnings()
	})
}

// FuzzMatch compares the index with the naive reference on any file and path.
func FuzzMatch(f *testing.F) {
	for _, c := range loadCodeownersCases(f) {
		f.Add(c.Codeowners, c.Path)
	}
	f.Fuzz(func(t *testing.T, text, path string) {
		if len(text) > 4096 || len(path) > 256 || !utf8.ValidString(path) || !cleanPath(path) {
			t.Skip("too slow for the reference, or no path")
		}
		c := ParseCodeowners("CODEOWNERS", []byte(text))
		if diff := cmp.Diff(referenceOwnership(c.Rules(), path), c.Match(path)); diff != "" {
			t.Fatalf("Match(%q) of\n%s\n(-reference +index):\n%s", path, text, diff)
		}
		paths := []string{path, path + "/a", path + "x", "a/" + path, path}
		for i, got := range c.MatchAll(paths) {
			if diff := cmp.Diff(c.Match(paths[i]), got); diff != "" {
				t.Fatalf("MatchAll(%q) (-one by one +together):\n%s", paths[i], diff)
			}
		}
	})
}

func cleanPath(path string) bool {
	for name := range strings.SplitSeq(path, "/") {
		if name == "" || name == "." || name == ".." {
			return false
		}
	}
	return true
}
