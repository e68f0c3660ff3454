package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/countersign/countersign/pkg/ghclient"
)

// What every command that shows foreign text shares: names are shown inertly and not longer than a line, also in JSON.

// maxShown is how much of one foreign text is shown to a person; --json shows all of it.
const maxShown = 300

// short shows a foreign text on one line, inertly, and cut where it is long.
func short(s string) string { return printableText(clipped(s)) }

// quoted is short for a text that stands where it could pretend to be more than a name.
func quoted(s string) string { return strconv.QuoteToASCII(clipped(s)) }

func clipped(s string) string {
	if len(s) <= maxShown {
		return s
	}
	cut := maxShown
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}

// jsonEscaper writes what cannot be seen as \uXXXX: still the same JSON, and inert on a terminal. One Write is one or more whole
// JSON values, which have such characters inside strings only.
type jsonEscaper struct{ out io.Writer }

func (e jsonEscaper) Write(p []byte) (int, error) {
	if _, err := e.out.Write([]byte(escapeJSON(string(p)))); err != nil {
		return 0, err
	}
	return len(p), nil
}

func escapeJSON(s string) string {
	hidden := func(r rune) bool { return r >= 0x7f && hiddenRune(r) }
	if strings.IndexFunc(s, hidden) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case !hidden(r):
			b.WriteRune(r)
		case r > 0xffff:
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+(r>>10), 0xdc00+(r&0x3ff))
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// writeJSON writes one value on one line.
func writeJSON(c *cobra.Command, v any) error {
	encoder := json.NewEncoder(jsonEscaper{c.OutOrStdout()})
	encoder.SetEscapeHTML(false)
	return encoder.Encode(v)
}

// moment is a time for a person; "" for none.
func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05 UTC")
}

// age is how long ago, in one unit.
func age(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	default:
		return fmt.Sprintf("%d d", int(d.Hours()/24))
	}
}

// parseAge reads a duration that may be in days: 90d, 36h, 15m.
func parseAge(flag, text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n >= 0 && n < 100_000 {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%s %s is no age: write 90d, 36h or 15m", flag, quoted(text))
	}
	return d, nil
}

// pullTarget is OWNER/REPO#N.
type pullTarget struct {
	repository string
	number     int
}

// parsePull reads OWNER/REPO#N, or the address of a pull request's page.
func parsePull(text string) (pullTarget, error) {
	name, number, ok := strings.Cut(text, "#")
	if !ok {
		if at := strings.LastIndex(text, "/pull/"); at > 0 {
			parts := strings.Split(text[:at], "/")
			if len(parts) >= 2 {
				name, number, ok = strings.Join(parts[len(parts)-2:], "/"), strings.SplitN(text[at+len("/pull/"):], "/", 2)[0], true
			}
		}
	}
	n, err := strconv.Atoi(number)
	if !ok || err != nil || n <= 0 {
		return pullTarget{}, fmt.Errorf("%s names no pull request: write owner/name#number", quoted(text))
	}
	if _, valid := ghclient.RepoFromFullName(0, name); !valid {
		return pullTarget{}, fmt.Errorf("%s names no repository: write owner/name#number", quoted(text))
	}
	return pullTarget{repository: name, number: n}, nil
}

// errOneForm is for flags that exclude each other by meaning.
func errOneForm(what string) error { return errors.New("give one of " + what) }
