package githubsim

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// ownersError is one entry of GET codeowners/errors.
type ownersError struct {
	line, column             int
	kind, source, suggestion string
	path                     string
}

// codeownersLocations is GitHub's search order; the first file found is the one.
var codeownersLocations = []string{".github/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS"}

const codeownersLimit = 3 << 20 // above it the file is not loaded at all

func codeownersErrors(c *call) answer {
	at := c.resolve(c.query("ref"))
	if at == nil {
		return refused(errNotFound)
	}
	errors, found := c.s.ownersErrors(c.w, c.repo, at)
	if !found {
		return refused(errNotFound)
	}
	list := []obj{}
	for _, e := range errors {
		list = append(list, e.json())
	}
	return ok(obj{"errors": list})
}

func (e ownersError) json() obj {
	return obj{
		"line": e.line, "column": e.column, "kind": e.kind, "source": e.source, "suggestion": stringOrNil(e.suggestion), "message": e.message(), "path": e.path,
	}
}

func (e ownersError) message() string {
	head := fmt.Sprintf("%s on line %d:", e.kind, e.line)
	if e.suggestion != "" {
		head += " " + e.suggestion
	}
	return fmt.Sprintf("%s\n\n  %s\n  %s^", head, e.source, strings.Repeat(" ", e.column-1))
}

// ownersErrors judges the CODEOWNERS file of a commit by rules of its own,
// apart from those of pkg/policy, so that one can catch the other.
func (s *Sim) ownersErrors(w *world, r *repo, at *commit) (list []ownersError, found bool) {
	for _, path := range codeownersLocations {
		e, exists := s.objects.lookup(at.tree, path)
		if !exists || e.isTree() {
			continue
		}
		blob := s.objects.blobs[e.sha]
		if len(blob) > codeownersLimit {
			return nil, false
		}
		for i, line := range strings.Split(string(blob), "\n") {
			line = strings.TrimSuffix(line, "\r")
			for _, e := range s.lineErrors(w, r, line) {
				e.line, e.source, e.path = i+1, line, path
				list = append(list, e)
			}
		}
		return list, true
	}
	return nil, false
}

// field is one word of a line and the column (from 1) it begins in.
type field struct {
	text   string
	column int
}

// fields splits a line at unescaped blanks and ends it at a word that begins
// with #.
func fields(line string) []field {
	var list []field
	start := -1
	flush := func(end int) {
		if start >= 0 {
			list = append(list, field{line[start:end], utf8.RuneCountInString(line[:start]) + 1})
			start = -1
		}
	}
	for i := 0; i < len(line); i++ {
		switch ch := line[i]; {
		case ch == '\\' && i+1 < len(line):
			if start < 0 {
				start = i
			}
			i++
		case ch == ' ' || ch == '\t':
			flush(i)
		case ch == '#' && start < 0:
			return list
		case start < 0:
			start = i
		}
	}
	flush(len(line))
	return list
}

func (s *Sim) lineErrors(w *world, r *repo, line string) []ownersError {
	words := fields(line)
	if len(words) == 0 {
		return nil
	}
	if why, bad := badPattern(words[0].text); bad {
		return []ownersError{{column: words[0].column, kind: "Invalid pattern", suggestion: why}}
	}
	var list []ownersError
	for _, o := range words[1:] {
		switch {
		case strings.HasPrefix(o.text, "@"):
			if !ownerName.MatchString(o.text) {
				return []ownersError{{column: o.column, kind: "Invalid owner"}} // the whole line is skipped
			}
			if why := s.unknownOwner(w, r, o.text); why != "" {
				list = append(list, ownersError{column: o.column, kind: "Unknown owner", suggestion: why})
			}
		case !emailAddress.MatchString(o.text):
			return []ownersError{{column: o.column, kind: "Invalid owner"}}
		}
	}
	return list
}

var (
	ownerName    = regexp.MustCompile(`^@[A-Za-z0-9](?:[A-Za-z0-9_-]*[A-Za-z0-9_])?(?:/[A-Za-z0-9._-]+)?$`)
	emailAddress = regexp.MustCompile(`^[^@\s]+@[^@\s]+\.[^@\s]+$`)
)

func badPattern(p string) (suggestion string, bad bool) {
	plain := strings.NewReplacer(`\[`, "", `\]`, "").Replace(p)
	switch {
	case strings.HasPrefix(p, "!"):
		return "", true
	case strings.ContainsAny(plain, "[]"):
		return "both `[` and `]` must be escaped with a `\\`", true
	case strings.Contains(p, "***"):
		fixed := p
		for strings.Contains(fixed, "***") {
			fixed = strings.ReplaceAll(fixed, "***", "**")
		}
		return "Did you mean `" + fixed + "`?", true
	}
	return "", false
}

// unknownOwner says what is missing for an owner to count: existence, write
// access, and for a team that it is visible.
func (s *Sim) unknownOwner(w *world, r *repo, owner string) string {
	name := owner[1:]
	if org, slug, isTeam := strings.Cut(name, "/"); isTeam {
		why := fmt.Sprintf("make sure the team %s exists, is publicly visible, and has write access to the repository", owner)
		o := w.account(org)
		if o == nil || o.id != r.ownerID {
			return why
		}
		t := w.teamBySlug(o.id, slug)
		if t == nil || t.privacy == "secret" || permissionRank[w.teamPermission(t, r.id)] < permissionRank["push"] {
			return why
		}
		return ""
	}
	u := w.account(name)
	if u == nil || permissionRank[w.userPermission(r, u.id)] < permissionRank["push"] {
		return fmt.Sprintf("make sure %s exists and has write access to the repository", owner)
	}
	return ""
}
