package policy

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// MaxMessageChars bounds every message of a verdict (RG-496).
const MaxMessageChars = 1000

// clip shortens s to at most n bytes on a character's boundary.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	cut := n - len("…")
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}

// message formats a message and bounds it. Outside names go in through it
// unescaped: a verdict is data, Render makes it safe to show.
func message(format string, args ...any) string {
	return clip(strings.ToValidUTF8(fmt.Sprintf(format, args...), "\uFFFD"), MaxMessageChars)
}

func compareProblems(a, b FileProblem) int {
	if a.Line != b.Line {
		return a.Line - b.Line
	}
	if a.Column != b.Column {
		return a.Column - b.Column
	}
	if c := strings.Compare(a.Key, b.Key); c != 0 {
		return c
	}
	return strings.Compare(a.Message, b.Message)
}

// ownerNames gives owners in CODEOWNERS form, sorted.
func ownerNames(owners []Owner) []string {
	names := make([]string, len(owners))
	for i, o := range owners {
		names[i] = o.String()
	}
	slices.Sort(names)
	return names
}

// listOr writes "a, b or c", at most limit names long.
func listOr(names []string, limit int) string {
	switch {
	case len(names) == 0:
		return "nobody"
	case len(names) > limit:
		return fmt.Sprintf("%s or %d more", strings.Join(names[:limit], ", "), len(names)-limit)
	case len(names) == 1:
		return names[0]
	default:
		return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
	}
}

// count writes "1 file" or "3 files".
func count(n int, singular string) string {
	if n == 1 {
		return "1 " + singular
	}
	return fmt.Sprintf("%d %ss", n, singular)
}
