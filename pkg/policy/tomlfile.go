package policy

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2"
)

// MaxPolicyBytes is the largest policy file that is read (RG-357).
const MaxPolicyBytes = 1_000_000

// maxAssignments bounds the keys of a policy file, far above what the limits of
// its tables allow: the TOML parser takes time that grows with their square.
const maxAssignments = 10_000

// FileProblem is one mistake in a policy file: where it is, what it is and
// what mends it.
type FileProblem struct {
	// Path is the file, Line and Column where in it (1-based, 0 unknown).
	Path   string `json:"path"`
	Line   int    `json:"line"`
	Column int    `json:"column"`
	// Key is the place in the document: "delegations[0].paths[2]".
	Key  string `json:"key,omitempty"`
	Code Code   `json:"code"`
	// Message says what is wrong, Mend what to write instead.
	Message string `json:"message"`
	Mend    string `json:"mend"`
}

func (p FileProblem) String() string {
	var b strings.Builder
	b.WriteString(p.Path)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d", p.Line)
	}
	b.WriteString(": ")
	if p.Key != "" {
		b.WriteString(p.Key + ": ")
	}
	b.WriteString(p.Message)
	if p.Mend != "" {
		b.WriteString("; " + p.Mend)
	}
	return b.String()
}

// tomlFile reads one TOML document strictly: every value that is read is
// marked, everything else is a problem. It goes on after a mistake so that the
// author sees all of them at once.
type tomlFile struct {
	path     string
	text     []byte
	places   map[string]place // made when the first place is asked for
	problems []FileProblem
}

type place struct{ line, column int }

// openTOML parses text. A nil table means that the document cannot be read at
// all; the problem is then in the file.
func openTOML(path string, text []byte) (*tomlFile, *tomlTable) {
	f := &tomlFile{path: path, text: text}
	switch {
	case len(text) > MaxPolicyBytes:
		f.problem("", "the file is %d bytes", "keep it within %d bytes", len(text), MaxPolicyBytes)
	case !utf8.Valid(text):
		f.problem("", "the file is not UTF-8", "save it as UTF-8")
	}
	if len(f.problems) > 0 {
		// Not a mistake inside the file but evidence that cannot be used: the
		// caller reads it again (RG-357).
		f.problems[0].Code = CodeEvidenceUnknown
		return f, nil
	}
	if n := bytes.Count(text, []byte("=")); n > maxAssignments {
		f.problem("", "the file has %d assignments", "keep at most %d", n, maxAssignments)
		return f, nil
	}
	document := map[string]any{}
	if err := toml.Unmarshal(text, &document); err != nil {
		f.syntaxProblem(err)
		return f, nil
	}
	return f, &tomlTable{file: f, values: document, used: map[string]bool{}}
}

func (f *tomlFile) syntaxProblem(err error) {
	p := FileProblem{
		Path: f.path, Code: CodeInvalidPolicy,
		Message: "not valid TOML: " + clip(strings.TrimPrefix(err.Error(), "toml: "), 300),
		Mend:    "correct the syntax at this place",
	}
	var de *toml.DecodeError
	if errors.As(err, &de) {
		p.Line, p.Column = de.Position()
		p.Key = clip(strings.Join(de.Key(), "."), 200)
	}
	f.problems = append(f.problems, p)
}

// problem records a mistake at key. The arguments fill message first, then
// mend.
func (f *tomlFile) problem(key, message, mend string, args ...any) {
	n := strings.Count(message, "%") - 2*strings.Count(message, "%%")
	n = min(n, len(args))
	at := place{}
	if key != "" {
		at = f.placeOf(key)
	}
	f.problems = append(f.problems, FileProblem{
		Path: f.path, Line: at.line, Column: at.column, Key: clip(key, 200), Code: CodeInvalidPolicy,
		Message: clip(fmt.Sprintf(message, args[:n]...), 300), Mend: clip(fmt.Sprintf(mend, args[n:]...), 400),
	})
}

// placeOf finds where key is written, or the nearest enclosing key that is.
func (f *tomlFile) placeOf(key string) place {
	if f.places == nil {
		f.places = placesOf(f.text)
	}
	for key != "" {
		if at, ok := f.places[key]; ok {
			return at
		}
		cut := strings.LastIndexAny(key, ".[")
		if cut < 0 {
			break
		}
		key = key[:cut]
	}
	return place{line: 1, column: 1}
}

// sorted returns the problems in the order of the file.
func (f *tomlFile) sorted() []FileProblem {
	slices.SortStableFunc(f.problems, compareProblems)
	return f.problems
}

// tomlTable is one table of the document.
type tomlTable struct {
	file   *tomlFile
	key    string
	values map[string]any
	used   map[string]bool
}

func (t *tomlTable) at(name string) string {
	if t.key == "" {
		return name
	}
	return t.key + "." + name
}

func (t *tomlTable) take(name string) (any, bool) {
	t.used[name] = true
	v, ok := t.values[name]
	return v, ok
}

// done reports every key that nobody read (RG-372).
func (t *tomlTable) done() {
	known := make([]string, 0, len(t.used))
	for name := range t.used {
		known = append(known, name)
	}
	slices.Sort(known)
	for name := range t.values {
		if !t.used[name] {
			t.file.problem(t.at(clip(name, 100)), "unknown key %s",
				"known keys here are "+strings.ReplaceAll(strings.Join(known, ", "), "%", "%%"), strconv.Quote(clip(name, 100)))
		}
	}
}

func (t *tomlTable) requireMissing(name, mend string) {
	t.file.problem(t.at(name), "the key is required", strings.ReplaceAll(mend, "%", "%%"))
}

// boolean reads an optional boolean; ok is false when absent or wrong.
func (t *tomlTable) boolean(name string) (value, ok bool) {
	v, present := t.take(name)
	if !present {
		return false, false
	}
	b, isBool := v.(bool)
	if !isBool {
		t.file.problem(t.at(name), "must be a boolean, not %s", "write true or false", kindOf(v))
	}
	return b, isBool
}

// text reads an optional string.
func (t *tomlTable) text(name string) (string, bool) {
	v, present := t.take(name)
	if !present {
		return "", false
	}
	s, isText := v.(string)
	if !isText {
		t.file.problem(t.at(name), "must be a string, not %s", "put the value in quotes", kindOf(v))
	}
	return s, isText
}

// integer reads an optional integer within [low, high]. TOML's booleans,
// floats and strings are refused.
func (t *tomlTable) integer(name string, low, high int64) (int64, bool) {
	v, present := t.take(name)
	if !present {
		return 0, false
	}
	n, isInt := v.(int64)
	switch {
	case !isInt:
		t.file.problem(t.at(name), "must be an integer, not %s", "write a whole number without quotes", kindOf(v))
		return 0, false
	case n < low || n > high:
		t.file.problem(t.at(name), "%d is out of range", "use a number from %d to %d", n, low, high)
		return 0, false
	}
	return n, true
}

// texts reads an optional array of strings with between low and high elements.
func (t *tomlTable) texts(name string, low, high int) ([]string, bool) {
	v, present := t.take(name)
	if !present {
		return nil, false
	}
	list, isList := v.([]any)
	if !isList {
		t.file.problem(t.at(name), "must be an array of strings, not %s", "write [\"…\"]", kindOf(v))
		return nil, false
	}
	if len(list) < low || len(list) > high {
		t.file.problem(t.at(name), "has %d entries", "give between %d and %d", len(list), low, high)
		return nil, false
	}
	out := make([]string, 0, len(list))
	for i, e := range list {
		s, isText := e.(string)
		if !isText {
			t.file.problem(elementKey(t.at(name), i), "must be a string, not %s", "put the value in quotes", kindOf(e))
			return nil, false
		}
		out = append(out, s)
	}
	return out, true
}

// table reads an optional sub-table.
func (t *tomlTable) table(name string) (*tomlTable, bool) {
	v, present := t.take(name)
	if !present {
		return nil, false
	}
	m, isTable := v.(map[string]any)
	if !isTable {
		t.file.problem(t.at(name), "must be a table, not %s", "write it as ["+name+"]", kindOf(v))
		return nil, false
	}
	return &tomlTable{file: t.file, key: t.at(name), values: m, used: map[string]bool{}}, true
}

// tables reads an optional array of tables of at most high elements.
func (t *tomlTable) tables(name string, high int) []*tomlTable {
	v, present := t.take(name)
	if !present {
		return nil
	}
	list, isList := v.([]any)
	if !isList {
		t.file.problem(t.at(name), "must be an array of tables, not %s", "write each entry under [["+name+"]]", kindOf(v))
		return nil
	}
	if len(list) > high {
		t.file.problem(t.at(name), "has %d entries", "keep at most %d", len(list), high)
		return nil
	}
	var out []*tomlTable
	for i, e := range list {
		key := elementKey(t.at(name), i)
		m, isTable := e.(map[string]any)
		if !isTable {
			t.file.problem(key, "must be a table, not %s", "write each entry under [["+name+"]]", kindOf(e))
			continue
		}
		out = append(out, &tomlTable{file: t.file, key: key, values: m, used: map[string]bool{}})
	}
	return out
}

func elementKey(key string, i int) string { return key + "[" + strconv.Itoa(i) + "]" }

func kindOf(v any) string {
	switch v.(type) {
	case string:
		return "a string"
	case bool:
		return "a boolean"
	case int64:
		return "an integer"
	case float64:
		return "a float"
	case []any:
		return "an array"
	case map[string]any:
		return "a table"
	default:
		return "a date or time"
	}
}
