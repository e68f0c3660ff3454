package policy

import "math"

// CodeownersMaxBytes is the largest CODEOWNERS file that is loaded: 3 MiB.
// GitHub does not load a larger one at all, so its code owners are nobody's;
// here it is a problem of the whole file (RG-322).
const CodeownersMaxBytes = 3 << 20

// codeownersLocations is in GitHub's order (RG-315).
var codeownersLocations = [...]string{".github/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS"}

// CodeownersLocations returns the paths at which GitHub looks for a CODEOWNERS
// file, in the order in which it looks. The first one that exists counts, even
// if it is empty or broken; the others are never read (RG-315).
func CodeownersLocations() []string {
	return append([]string(nil), codeownersLocations[:]...)
}

// FirstCodeowners returns the location that counts among those for which exists
// answers true, and false if there is none (RG-315, RG-316).
func FirstCodeowners(exists func(path string) bool) (string, bool) {
	for _, path := range codeownersLocations {
		if exists(path) {
			return path, true
		}
	}
	return "", false
}

// Codeowners is one CODEOWNERS file: the rules GitHub would apply, compiled into
// an index, and the lines it would skip. It is immutable, so it may be shared
// between goroutines; a nil or zero Codeowners has no rule and no problem.
type Codeowners struct {
	path     string
	text     string
	rules    []CodeownersRule
	starts   []uint32 // of each rule's pattern in text
	problems []codeownersFault
	index    patternIndex
}

// CodeownersRule is one valid line that is not blank and not only a comment.
type CodeownersRule struct {
	// Line counts from 1.
	Line int
	// Pattern is as written, escapes included.
	Pattern string
	// Owners are lower-cased and without duplicates, in the order of the line
	// (RG-325). None: the rule takes ownership away from what it matches. The
	// slice is shared and must not be written to.
	Owners []Owner
}

// Ownership is what CODEOWNERS says about one path.
type Ownership struct {
	// Matched tells "no rule matches" from "the last matching rule names nobody":
	// both leave the path unowned (RG-323).
	Matched bool
	// Owners are those of the last matching rule. The slice is shared between
	// calls and must not be written to.
	Owners []Owner
	// Line and Pattern name the last matching rule; zero if none matches.
	Line    int
	Pattern string
}

// ParseCodeowners reads a CODEOWNERS file. It never fails and never truncates: a
// line of any length is read whole, and what GitHub would skip as invalid is
// kept as a problem, with its place and its mend.
//
// Path is where the file lies in the repository; it is only repeated in messages.
// Text is not kept. A file over CodeownersMaxBytes has no rules and one problem.
//
// The rules alone are what GitHub applies natively. Whoever decides from them
// must look at Problems too: a skipped line hands its files to an earlier rule,
// hence the gate blocks while there is any (RG-318).
func ParseCodeowners(path string, text []byte) *Codeowners {
	c := &Codeowners{path: path}
	if len(text) > CodeownersMaxBytes {
		c.problems = append(c.problems, codeownersFault{code: faultTooLarge, start: uint32(min(len(text), math.MaxUint32))})
		return c
	}
	c.text = string(text)
	parser := codeownersParser{file: c}
	parser.parse()
	c.index.seal()
	return c
}

// Path returns the path given to ParseCodeowners.
func (c *Codeowners) Path() string {
	if c == nil {
		return ""
	}
	return c.path
}

// Rules returns the valid rules in the order of the file. The slice and its
// elements are shared and must not be written to.
func (c *Codeowners) Rules() []CodeownersRule {
	if c == nil {
		return nil
	}
	return c.rules
}

// Match returns the ownership of one path: the last rule that matches it decides
// (RG-323). The path is relative to the root of the repository, uses "/" and
// names a file; matching is by its bytes and respects case (RG-324). Whether a
// path is well formed is the caller's to check (RG-327).
func (c *Codeowners) Match(path string) Ownership {
	if c == nil {
		return Ownership{}
	}
	var walk patternWalk
	return c.ownership(walk.last(&c.index, path))
}

// MatchAll returns the ownership of each path, in the order of the paths. It
// equals a Match for each, but pays for a common directory once.
func (c *Codeowners) MatchAll(paths []string) []Ownership {
	result := make([]Ownership, len(paths))
	if c == nil {
		return result
	}
	var walk patternWalk
	for i, path := range paths {
		result[i] = c.ownership(walk.last(&c.index, path))
	}
	return result
}

// ownership turns a rule number of the index (from 1; 0 is none) into an answer.
func (c *Codeowners) ownership(rule uint32) Ownership {
	if rule == 0 {
		return Ownership{}
	}
	r := &c.rules[rule-1]
	return Ownership{Matched: true, Owners: r.Owners, Line: r.Line, Pattern: r.Pattern}
}
