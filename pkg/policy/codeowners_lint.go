package policy

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The kinds of warning. The lines they are about are valid on GitHub.
const (
	CodeownersOwnerAsPattern  = "owner_as_pattern"
	CodeownersHashInPattern   = "hash_in_pattern"
	CodeownersHiddenCharacter = "hidden_character"
	CodeownersPlainEscape     = "plain_escape"
	CodeownersShadowedRule    = "shadowed_rule"
)

// Warnings returns what is valid but hardly meant, in the order of the file, at
// most one a line. Warnings never block: they are for whoever edits the file.
// Each call looks anew.
func (c *Codeowners) Warnings() []CodeownersProblem {
	if c == nil {
		return nil
	}
	shadowed := c.shadowedBy()
	var warnings []CodeownersProblem
	for i := range c.rules {
		kind, message, mend := warnPattern(&c.rules[i])
		if by := shadowed[i]; kind == "" && by != 0 {
			kind = CodeownersShadowedRule
			message = fmt.Sprintf("the rule never decides: line %d matches everything it does", c.rules[by-1].Line)
			mend = "remove the line, or move it below that one"
		}
		if kind == "" {
			continue
		}
		source, column := c.ruleSource(i)
		warnings = append(warnings, CodeownersProblem{
			Line: c.rules[i].Line, Column: column, Kind: kind, Source: source, Message: message, Mend: mend,
		})
	}
	return warnings
}

// warnPattern looks at one rule by itself.
func warnPattern(rule *CodeownersRule) (kind, message, mend string) {
	pattern := rule.Pattern
	_, isOwner := ParseOwner(pattern)
	escaped, plain := false, false
	for _, r := range pattern {
		switch {
		case escaped:
			plain = plain || r == utf8.RuneError || unicode.IsLetter(r) || unicode.IsDigit(r)
			escaped = false
		case r == '\\':
			escaped = true
		}
	}
	switch {
	case len(rule.Owners) == 0 && isOwner:
		return CodeownersOwnerAsPattern,
			fmt.Sprintf("%q is read as a path without owners", excerpt(pattern, 80)),
			"write the pattern first: * " + excerpt(pattern, 80)
	case strings.Contains(pattern, "#"):
		return CodeownersHashInPattern,
			fmt.Sprintf("the # in %q is read as part of the path, not as a comment", excerpt(pattern, 80)),
			"put a space before # to start a comment, or write ? for a # in a name"
	case strings.IndexFunc(pattern, isHidden) >= 0:
		return CodeownersHiddenCharacter,
			fmt.Sprintf("pattern %q has a character that cannot be seen", excerpt(pattern, 80)),
			"remove it; separate pattern and owners by plain spaces"
	case plain:
		return CodeownersPlainEscape,
			fmt.Sprintf(`a \ in %q only repeats the letter after it`, excerpt(pattern, 80)),
			"write / between directories"
	}
	return "", "", ""
}

// isHidden accepts what looks like nothing: other spaces, and format characters
// such as a zero-width joiner or a change of writing direction.
func isHidden(r rune) bool {
	return r != ' ' && unicode.IsSpace(r) || unicode.Is(unicode.Cf, r)
}

// shadowedBy returns for each rule the number (from 1) of a later rule that
// matches all it matches, or 0. It finds equal patterns, in whatever spelling,
// and rules for everything; not each rule that others cover.
func (c *Codeowners) shadowedBy() []uint32 {
	by := make([]uint32, len(c.rules))
	later := make(map[string]uint32, len(c.rules))
	everything := uint32(0)
	var shape patternShape
	for i := len(c.rules) - 1; i >= 0; i-- {
		shape.parse(c.rules[i].Pattern)
		key := shape.key()
		by[i] = max(later[key], everything)
		if later[key] == 0 {
			later[key] = uint32(i + 1)
		}
		if everything == 0 && len(shape.segments) == 0 && shape.tail == tailBelow {
			everything = uint32(i + 1)
		}
	}
	return by
}

// key is equal for patterns of equal shape only: no name holds a slash.
func (s *patternShape) key() string {
	var b strings.Builder
	b.WriteByte('0' + byte(s.tail))
	for _, segment := range s.segments {
		b.WriteByte('/')
		b.WriteByte('0' + byte(segment.kind))
		b.WriteString(segment.text)
	}
	return b.String()
}

// ruleSource returns the line of rule i and the column of its pattern.
func (c *Codeowners) ruleSource(i int) (source string, column int) {
	start := int(c.starts[i])
	lineStart := strings.LastIndexByte(c.text[:start], '\n') + 1
	if lineStart == 0 && strings.HasPrefix(c.text, utf8BOM) {
		lineStart = len(utf8BOM)
	}
	lineEnd := len(c.text)
	if n := strings.IndexByte(c.text[start:], '\n'); n >= 0 {
		lineEnd = start + n
	}
	source = excerpt(strings.TrimSuffix(c.text[lineStart:lineEnd], "\r"), codeownersSourceMost)
	return source, utf8.RuneCountInString(c.text[lineStart:start]) + 1
}
