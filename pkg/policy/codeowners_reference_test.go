package policy

import (
	"regexp"
	"strings"
)

// referencePattern is a second, naive reading of one valid pattern, made straight
// from gitignore(5): a pattern that matches a directory matches all that lies in
// it. It shares no code and no idea with the index, so that the two can be
// compared.
type referencePattern struct {
	re        *regexp.Regexp
	directory bool // matches directories only
	children  bool // GitHub's own exception: "docs/*" does not reach into directories
}

func newReferencePattern(pattern string) referencePattern {
	body, leading := strings.CutPrefix(pattern, "/")
	body, directory := strings.CutSuffix(body, "/")
	anchored := leading || strings.Contains(body, "/")
	return referencePattern{
		re:        referenceRegexp(body, anchored),
		directory: directory,
		children:  anchored && !directory && (body == "*" || strings.HasSuffix(body, "/*")),
	}
}

func (p referencePattern) match(path string) bool {
	for end := 0; end < len(path); end++ {
		if path[end] == '/' && !p.children && p.re.MatchString(path[:end]) {
			return true
		}
	}
	return !p.directory && p.re.MatchString(path)
}

func referenceMatch(pattern, path string) bool { return newReferencePattern(pattern).match(path) }

func referenceRegexp(body string, anchored bool) *regexp.Regexp {
	const anyDirectories = `(?:[^/]+/)*`
	var b strings.Builder
	b.WriteString(`(?s)\A`)
	if !anchored {
		b.WriteString(anyDirectories)
	}
	names := strings.Split(body, "/")
	for i, name := range names {
		last := i == len(names)-1
		switch {
		case name == "**" && last:
			b.WriteString(`.+`)
			continue
		case name == "**":
			b.WriteString(anyDirectories)
			continue
		case name == "*":
			b.WriteString(`[^/]+`)
		default:
			referenceName(&b, name)
		}
		if !last {
			b.WriteByte('/')
		}
	}
	b.WriteString(`\z`)
	return regexp.MustCompile(b.String())
}

func referenceName(b *strings.Builder, name string) {
	literal := false
	for _, r := range name {
		switch {
		case literal:
			b.WriteString(regexp.QuoteMeta(string(r)))
			literal = false
		case r == '\\':
			literal = true
		case r == '*':
			b.WriteString(`[^/]*`)
		case r == '?':
			b.WriteString(`[^/]`)
		default:
			b.WriteString(regexp.QuoteMeta(string(r)))
		}
	}
}

// referenceOwnership asks each rule, the last one first.
func referenceOwnership(rules []CodeownersRule, path string) Ownership {
	for i := len(rules) - 1; i >= 0; i-- {
		if r := rules[i]; referenceMatch(r.Pattern, path) {
			return Ownership{Matched: true, Owners: r.Owners, Line: r.Line, Pattern: r.Pattern}
		}
	}
	return Ownership{}
}
