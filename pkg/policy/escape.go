package policy

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// What comes from outside (paths, logins, team names, messages that quote
// them) reaches a check only through the three functions of this file. None of
// their results holds a line break, an invisible or direction-changing
// character, or anything that Markdown or HTML would take for layout (RG-298,
// RG-497).

// maxShownValue bounds one value in a check; the decision uses it in full.
const maxShownValue = 400

// plain makes s safe where GitHub shows text and not Markdown: a title.
func plain(s string) string {
	var b strings.Builder
	for _, r := range s {
		writeVisible(&b, r)
	}
	return b.String()
}

// prose makes s safe inside a line of Markdown that this package has begun.
func prose(s string) string {
	var b strings.Builder
	start := true // only digits so far: "1." would begin a list
	for i, r := range s {
		switch {
		case hidden(r):
			b.WriteString(escapeProse(visible(r), false))
		case start && (r == '-' || r == '+' || r == '=') && i == 0:
			b.WriteString(`\` + string(r))
		case start && (r == '.' || r == ')'):
			b.WriteString(`\` + string(r))
		case r == '.' && endsWithWWW(s[:i]):
			b.WriteString(`\.`)
		default:
			writeEscaped(&b, r, false)
		}
		start = start && r >= '0' && r <= '9'
	}
	return b.String()
}

// MarkdownText makes a text from outside safe inside a line of Markdown,
// a table's cell included.
func MarkdownText(s string) string { return prose(s) }

// MarkdownCode makes a name from outside safe as a literal value in Markdown:
// an HTML-escaped <code> element.
func MarkdownCode(s string) string { return code(s) }

// endsWithWWW reports what GitHub would turn into a link at the next dot.
func endsWithWWW(s string) bool {
	return len(s) >= 3 && strings.EqualFold(s[len(s)-3:], "www")
}

// code makes s safe as a literal value: an HTML-escaped <code> element. The
// punctuation that Markdown reads inside inline HTML is written as character
// references, which are text and never markup.
func code(s string) string {
	shown := clip(s, maxShownValue)
	if harmless(shown) {
		return "<code>" + shown + "</code>"
	}
	var b strings.Builder
	b.WriteString("<code>")
	for i, r := range shown {
		switch {
		case hidden(r):
			b.WriteString(escapeProse(visible(r), true))
		case r == '.' && endsWithWWW(shown[:i]):
			b.WriteString("&#46;")
		default:
			writeEscaped(&b, r, true)
		}
	}
	b.WriteString("</code>")
	return b.String()
}

// harmless is true for most paths: letters, digits and "/", "-", and "." that
// cannot begin a link.
func harmless(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case isASCIIAlnum(c), c == '/', c == '-':
		case c == '.' && !endsWithWWW(s[:i]):
		default:
			return false
		}
	}
	return true
}

// markdown are the characters that can begin markup, a mention, a link, an
// issue reference, an emoji or a formula inside a line.
const markdown = "\\`*_{}[]#!|~$:@^"

// escapeProse escapes Markdown's and HTML's own characters: as character
// references inside <code>, with a backslash in prose.
func escapeProse(s string, reference bool) string {
	var b strings.Builder
	for _, r := range s {
		writeEscaped(&b, r, reference)
	}
	return b.String()
}

func writeEscaped(b *strings.Builder, r rune, reference bool) {
	switch {
	case r == '<':
		b.WriteString("&lt;")
	case r == '>':
		b.WriteString("&gt;")
	case r == '&':
		b.WriteString("&amp;")
	case r == '"' && reference:
		b.WriteString("&quot;")
	case r >= utf8.RuneSelf || strings.IndexByte(markdown, byte(r)) < 0:
		b.WriteRune(r)
	case reference:
		fmt.Fprintf(b, "&#%d;", r)
	default:
		b.WriteByte('\\')
		b.WriteRune(r)
	}
}

func writeVisible(b *strings.Builder, r rune) {
	if hidden(r) {
		b.WriteString(visible(r))
		return
	}
	b.WriteRune(r)
}

// hidden reports a character that cannot be seen, or that changes how others
// are seen: controls, formats, bidirectional marks, line and paragraph
// separators, spaces other than the plain one, private and unassigned ones.
func hidden(r rune) bool {
	switch {
	case r == ' ':
		return false
	case r < utf8.RuneSelf:
		return r < 0x20 || r == 0x7f
	case !unicode.IsPrint(r) || r == utf8.RuneError:
		return true
	case unicode.Is(unicode.Variation_Selector, r), unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r):
		return true
	}
	return r == 0x2800 // the blank braille pattern
}

// visible writes a hidden character so that it can be seen.
func visible(r rune) string {
	switch r {
	case '\n':
		return `\n`
	case '\r':
		return `\r`
	case '\t':
		return `\t`
	default:
		return fmt.Sprintf(`\u{%04X}`, r)
	}
}
