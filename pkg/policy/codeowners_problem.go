package policy

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// The kinds of CodeownersProblem. The first two are the ones for which GitHub's
// own codeowners/errors endpoint says "Invalid pattern" and "Invalid owner".
const (
	CodeownersInvalidPattern = "invalid_pattern"
	CodeownersInvalidOwner   = "invalid_owner"
	CodeownersTooLarge       = "codeowners_too_large"
)

// CodeownersProblem is one reason why GitHub would skip a line, or not load the
// file. Any problem means that the file does not say what its author meant: a
// gate blocks on it (RG-318).
type CodeownersProblem struct {
	// Line and Column count from 1, the column in characters. Both are 0 for a
	// problem of the whole file.
	Line, Column int
	// Kind is one of the constants above.
	Kind string
	// Source is the line as written, without its line end; of a line over 1,000
	// bytes it is the start and "…". It comes from the repository: escape it
	// before it is shown.
	Source string
	// Message says what is wrong and Mend what to write instead. Both are at most
	// a few hundred bytes; they may quote a bounded part of the line.
	Message, Mend string
}

// String returns the place, the message and the mend on one line, without the path.
func (p CodeownersProblem) String() string {
	if p.Line == 0 {
		return p.Message + "; " + p.Mend
	}
	return fmt.Sprintf("line %d, column %d: %s; %s", p.Line, p.Column, p.Message, p.Mend)
}

// codeownersFault is a problem as the parser keeps it. A file of 3 MiB can hold
// over a million bad lines, so the texts are made only when somebody asks.
type codeownersFault struct {
	code faultCode
	line uint32
	// lineStart..lineEnd is the line and start..end the culprit, as offsets in the
	// text, which is at most CodeownersMaxBytes long. For faultTooLarge line is 0
	// and start the size of the file.
	lineStart, lineEnd, start, end uint32
}

type faultCode uint8

const (
	faultNone faultCode = iota
	faultTooLarge
	faultOwner
	faultNegation
	faultEscapedHash
	faultBrackets
	faultThreeStars
	faultRootOnly
	faultEmptySegment
	faultDotSegment
	faultTrailingBackslash
	faultControl
	faultNotUTF8
)

// faultTexts is the message and the mend of each pattern fault.
var faultTexts = map[faultCode][2]string{
	faultNegation:          {"a pattern cannot be negated with !", "remove the line, or end with a rule that names no owner for the paths to leave out"},
	faultEscapedHash:       {`a leading # cannot be escaped: the rest of the line is a comment`, "match the file by a wildcard, for example ?notes.md for #notes.md, or rename it"},
	faultBrackets:          {"character ranges do not exist in CODEOWNERS", `escape both [ and ] with a \ if they are part of the name, or use ? or one line for each character`},
	faultThreeStars:        {"three or more * in a row have no meaning", "write * for part of one name, or **/ for any directories"},
	faultRootOnly:          {"/ matches nothing", "write * for every file, or /* for the files of the top directory"},
	faultEmptySegment:      {"an empty path segment matches nothing", "write a single / between names"},
	faultDotSegment:        {". and .. are not names in a repository and match nothing", "write the path from the top of the repository, starting with /"},
	faultTrailingBackslash: {`a \ at the end of a name escapes nothing`, `remove the \, or write \\ for a backslash`},
	faultControl:           {"a control character is in the pattern", "remove it, or match it with ?"},
	faultNotUTF8:           {"the pattern is not valid UTF-8", "save the file as UTF-8"},
}

// Valid reports whether the file has no problem at all.
func (c *Codeowners) Valid() bool { return c == nil || len(c.problems) == 0 }

// Problems returns every problem of the file, in the order of the file. Each
// call makes the texts anew.
func (c *Codeowners) Problems() []CodeownersProblem {
	if c.Valid() {
		return nil
	}
	result := make([]CodeownersProblem, len(c.problems))
	for i, fault := range c.problems {
		result[i] = c.problem(fault)
		switch {
		case fault.line == 0:
		case i > 0 && c.problems[i-1].line == fault.line:
			// A line can hold a million faults: count on from the one before.
			before := c.problems[i-1].start
			result[i].Column = result[i-1].Column + utf8.RuneCountInString(c.text[before:fault.start])
		default:
			result[i].Column = utf8.RuneCountInString(c.text[fault.lineStart:fault.start]) + 1
		}
	}
	return result
}

// problem makes the texts of a fault; the column is left to Problems.

func (c *Codeowners) problem(fault codeownersFault) CodeownersProblem {
	if fault.code == faultTooLarge {
		return CodeownersProblem{
			Kind:    CodeownersTooLarge,
			Message: fmt.Sprintf("the file has %d bytes and GitHub loads none over %d", fault.start, CodeownersMaxBytes),
			Mend:    "shorten it: join rules by wildcards and owners by teams",
		}
	}
	problem := CodeownersProblem{
		Line:   int(fault.line),
		Source: excerpt(c.text[fault.lineStart:fault.lineEnd], codeownersSourceMost),
	}
	culprit := c.text[fault.start:fault.end]
	if fault.code == faultOwner {
		problem.Kind = CodeownersInvalidOwner
		problem.Message = fmt.Sprintf("%q is not an owner", excerpt(culprit, 80))
		problem.Mend = ownerMend(culprit)
		return problem
	}
	texts := faultTexts[fault.code]
	problem.Kind = CodeownersInvalidPattern
	problem.Message = fmt.Sprintf("pattern %q: %s", excerpt(culprit, 80), texts[0])
	problem.Mend = texts[1]
	return problem
}

// ownerMend guesses what the author meant.
func ownerMend(culprit string) string {
	at := strings.HasPrefix(culprit, "@")
	switch {
	case strings.HasSuffix(culprit, "[bot]"):
		return "an App cannot be a code owner on GitHub: name a person or team here and delegate to the App in the policy file"
	case strings.Contains(culprit, "#"):
		return "put a space before # to start a comment"
	case strings.ContainsAny(culprit, ",;"):
		return "separate owners by spaces alone"
	case at && strings.Count(culprit, "/") > 1:
		return "name one team as @organisation/team: a parent team is not part of the name"
	case !at && !strings.Contains(culprit, "@"):
		return `write @login, @organisation/team or an address; if it belongs to the path, escape the space before it as "\ "`
	default:
		return "write @login, @organisation/team or an address"
	}
}

const codeownersSourceMost = 1_000

// excerpt bounds a quotation: a line may be 3 MiB long.
func excerpt(s string, most int) string {
	if len(s) <= most {
		return s
	}
	cut := most
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}
