package policy

import (
	"regexp"
	"strings"
)

// referenceMatch is a second, naive reading of one valid pattern, made straight
// from gitignore(5): a pattern that matches a directory matches all that lies in
// it. It shares no code and no idea with the index, so that the two can be
// compared.
func referenceMatch(pattern, path string) bool {
	body, leading := strings.CutPrefix(pattern, "/")
	body, directory := strings.CutSuffix(body, "/")
	anchored := leading || strings.Contains(body, "/")

	// GitHub's own exception: "docs/*" does not reach into directories.
	children := anchored && !directory && (body == "*" || strings.HasSuffix(body, "/*"))

	re := referenceRegexp(body, anchored)
	for end := 0; end < len(path); end++ {
		if path[end] == '/' && !children && re.MatchString(path[:end]) {
			return true
		}
	}
	return !directory && re.MatchString(path)
}

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
