package policy

import (
	"strings"
	"unicode/utf8"
)

// The pattern language is the one of GitHub's CODEOWNERS: .gitignore's, without
// negation and ranges, and with "docs/*" for direct children only. A pattern is a
// list of path segments and a tail:
//
//	pattern      segments        tail
//	/a/b         a b             the path itself and everything below
//	/a/b/        a b             everything below
//	/a/b/**      a b             everything below
//	/a/*         a               direct children
//	b  (no /)    ** b            the path itself and everything below
//	a/**/b       a ** b          the path itself and everything below
//	*, **, /**   (none)          everything below
//
// A slash at the start or in the middle anchors a pattern to the root. "*" and "?"
// do not cross a slash, "**" alone between slashes does; inside a name it is a "*".
// "?" is one character (not byte), and a backslash makes the next character
// literal. Sources: GitHub docs "About code owners"; gitignore(5); RG-324.
type patternShape struct {
	segments []patternSegment
	tail     patternTail
}

type patternTail uint8

const (
	tailSelf  patternTail = iota // the path itself and everything below it
	tailBelow                    // everything below it
	tailChild                    // what lies directly in it
)

type segmentKind uint8

const (
	segmentLiteral segmentKind = iota // exactly this name
	segmentAny                        // *: any one name
	segmentGlob                       // a name with wildcards
	segmentDeep                       // **: any number of names, none included
)

// patternSegment is one name of a pattern. The text of a literal is the name; that
// of a glob has its wildcards as globStar and globOne, so that two spellings of
// one glob are equal.
type patternSegment struct {
	kind segmentKind
	text string
}

// Neither byte occurs in UTF-8, and a pattern that is not UTF-8 is refused.
const (
	globStar = 0xff
	globOne  = 0xfe
)

// parse reads a pattern, or says why GitHub would not take it. The segments stay
// valid until the next call.
func (s *patternShape) parse(pattern string) faultCode {
	s.segments, s.tail = s.segments[:0], tailSelf
	if fault := patternFault(pattern); fault != faultNone {
		return fault
	}
	rest, rooted := strings.CutPrefix(pattern, "/")
	rest, directory := strings.CutSuffix(rest, "/")
	if !rooted && !strings.Contains(rest, "/") {
		s.push(patternSegment{kind: segmentDeep})
	}
	for more := true; more; {
		var name string
		name, rest, more = strings.Cut(rest, "/")
		segment, fault := parseSegment(name)
		if fault != faultNone {
			return fault
		}
		s.push(segment)
	}
	s.settleTail(directory)
	return faultNone
}

// push appends a segment; one "**" after another adds nothing.
func (s *patternShape) push(segment patternSegment) {
	if segment.kind == segmentDeep && s.endsWith(segmentDeep) {
		return
	}
	s.segments = append(s.segments, segment)
}

func (s *patternShape) endsWith(kind segmentKind) bool {
	n := len(s.segments)
	return n > 0 && s.segments[n-1].kind == kind
}

func (s *patternShape) drop() { s.segments = s.segments[:len(s.segments)-1] }

// settleTail takes the tail out of the segments. No shape ends in "**", so a "**"
// is never where a pattern ends.
func (s *patternShape) settleTail(directory bool) {
	switch {
	case directory && s.endsWith(segmentDeep): // a/**/: what lies below any directory in a
		s.push(patternSegment{kind: segmentAny})
		s.tail = tailBelow
	case directory:
		s.tail = tailBelow
	case s.endsWith(segmentDeep): // a/**
		s.drop()
		s.tail = tailBelow
	case s.endsWith(segmentAny): // a/*
		s.drop()
		s.tail = tailChild
		if s.endsWith(segmentDeep) { // a/**/*
			s.drop()
			s.tail = tailBelow
		}
	}
}

// patternFault finds what can be said about a pattern as a whole.
func patternFault(pattern string) faultCode {
	switch {
	case pattern == "":
		return faultEmptySegment
	case pattern[0] == '!':
		return faultNegation
	case strings.HasPrefix(pattern, `\#`):
		return faultEscapedHash
	case pattern == "/":
		return faultRootOnly
	case !utf8.ValidString(pattern):
		return faultNotUTF8
	}
	return faultNone
}

// parseSegment reads the name between two slashes.
func parseSegment(name string) (patternSegment, faultCode) {
	switch name {
	case "":
		return patternSegment{}, faultEmptySegment
	case ".", "..":
		return patternSegment{}, faultDotSegment
	case "*":
		return patternSegment{kind: segmentAny}, faultNone
	case "**":
		return patternSegment{kind: segmentDeep}, faultNone
	}
	for i := range len(name) {
		if isSpecial(name[i]) {
			return parseGlob(name)
		}
	}
	return patternSegment{kind: segmentLiteral, text: name}, faultNone
}

// isSpecial accepts what makes a name more than its bytes, or is refused.
func isSpecial(c byte) bool { return c < ' ' || c == 0x7f || strings.IndexByte(`*?\[]`, c) >= 0 }

// parseGlob resolves escapes and wildcards. A run of "*" and "?" is kept as its
// "?"s and then one "*": that means the same and makes equal globs equal.
func parseGlob(name string) (patternSegment, faultCode) {
	text := make([]byte, 0, len(name))
	wild, stars := false, 0
	run := false // the wildcards just read include a "*", not yet written
	flush := func() {
		if run {
			text, run = append(text, globStar), false
		}
	}
	for i := 0; i < len(name); i++ {
		c := name[i]
		if c != '*' {
			stars = 0
		}
		switch {
		case c == '*':
			if stars++; stars == 3 {
				return patternSegment{}, faultThreeStars
			}
			wild, run = true, true
		case c == '?':
			wild, text = true, append(text, globOne)
		case c == '[' || c == ']':
			return patternSegment{}, faultBrackets
		case c == '\\':
			if i++; i == len(name) {
				return patternSegment{}, faultTrailingBackslash
			}
			if name[i] < ' ' && name[i] != '\t' {
				return patternSegment{}, faultControl
			}
			flush()
			text = append(text, name[i])
		case c < ' ' || c == 0x7f:
			return patternSegment{}, faultControl
		default:
			flush()
			text = append(text, c)
		}
	}
	flush()
	kind := segmentLiteral
	if wild {
		kind = segmentGlob
	}
	return patternSegment{kind: kind, text: string(text)}, faultNone
}

// globMatches reports whether a glob matches a whole name. It takes at most
// len(glob) × len(name) steps: only the last "*" is ever reconsidered.
func globMatches(glob, name string) bool {
	g, n := 0, 0
	retry, from := -1, 0
	for n < len(name) {
		switch {
		case g < len(glob) && glob[g] == globStar:
			g++
			retry, from = g, n
		case g < len(glob) && glob[g] == globOne:
			_, width := utf8.DecodeRuneInString(name[n:])
			g, n = g+1, n+width
		case g < len(glob) && glob[g] == name[n]:
			g, n = g+1, n+1
		case retry >= 0:
			_, width := utf8.DecodeRuneInString(name[from:])
			from += width
			g, n = retry, from
		default:
			return false
		}
	}
	for g < len(glob) && glob[g] == globStar {
		g++
	}
	return g == len(glob)
}
