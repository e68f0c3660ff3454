package policy

import "strconv"

// PathSet is a compiled list of path patterns of a policy file. The patterns
// are CODEOWNERS patterns with CODEOWNERS' meaning; a path is in the set when
// any of them matches it. A nil set holds nothing.
type PathSet struct {
	patterns []string
	index    patternIndex
}

// compilePaths compiles patterns and reports those that mean nothing (RG-319).
func compilePaths(file *tomlFile, key string, patterns []string) *PathSet {
	set := &PathSet{patterns: patterns}
	var shape patternShape
	for i, pattern := range patterns {
		if message, mend := pathPatternFault(&shape, pattern); message != "" {
			file.problem(elementKey(key, i), "pattern %s: %s", "%s", strconv.Quote(clip(pattern, 100)), message, mend)
			continue
		}
		set.index.add(&shape, uint32(i+1))
	}
	set.index.seal()
	return set
}

// pathPatternFault parses pattern into shape, or says what is wrong with it.
func pathPatternFault(shape *patternShape, pattern string) (message, mend string) {
	switch {
	case pattern == "":
		return "it is empty", "write a path, or * for every file"
	case pattern[0] == '#':
		return "a leading # starts a comment in CODEOWNERS", "match the file by a wildcard, for example ?notes.md for #notes.md"
	}
	switch fault := shape.parse(pattern); fault {
	case faultNone:
		return "", ""
	case faultNegation:
		return faultTexts[fault][0], "remove it; a requirement takes paths away with exclude"
	default:
		return faultTexts[fault][0], faultTexts[fault][1]
	}
}

// mustCompilePaths compiles patterns that are written in this package.
func mustCompilePaths(patterns ...string) *PathSet {
	file := &tomlFile{}
	set := compilePaths(file, "built-in", patterns)
	if len(file.problems) > 0 {
		panic(file.problems[0].String())
	}
	return set
}

// Len is the number of patterns.
func (s *PathSet) Len() int {
	if s == nil {
		return 0
	}
	return len(s.patterns)
}

// Match returns the last pattern that matches path.
func (s *PathSet) Match(path string) (pattern string, ok bool) {
	m := pathMatcher{set: s}
	return m.match(path)
}

// pathMatcher matches many paths against one set; sorted paths share the work
// for their common directories.
type pathMatcher struct {
	set  *PathSet
	walk patternWalk
}

func (m *pathMatcher) match(path string) (pattern string, ok bool) {
	if m.set.Len() == 0 {
		return "", false
	}
	n := m.walk.last(&m.set.index, path)
	if n == 0 {
		return "", false
	}
	return m.set.patterns[n-1], true
}
