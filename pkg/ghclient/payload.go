package ghclient

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// FieldError says which field of a payload is not what it must be, and what it must be. The value itself is never repeated:
// a payload holds private metadata and its text is not ours to print (RG-426).
type FieldError struct {
	Field string // dotted path; "" is the body itself
	Want  string
}

func (e *FieldError) Error() string {
	if e.Field == "" {
		return "payload: want " + e.Want
	}
	return "payload field " + e.Field + ": want " + e.Want
}

// node is one JSON value with the path that led to it. Reading through a node never panics whatever the value is:
// a missing or mistyped field is a FieldError of the reader, which the first failed read keeps.
type node struct {
	path  string
	value *jsonValue
	read  *reader
}

// reader keeps the first error of a decode, so that the story in decode.go reads without an error check on each line.
type reader struct{ err error }

// parseObject parses a body into its root object. Text that is not UTF-8, not JSON, followed by more, or not an object is
// refused (RG-029). Numbers keep their text: 1.0 and 1e3 are not integers, and nothing is rounded through a float.
func parseObject(body []byte) (node, error) {
	root, err := parseAny(body)
	if err != nil || root.value.kind() != '{' {
		return node{}, &FieldError{Want: "one JSON object in UTF-8"}
	}
	return root, nil
}

// parseAny is parseObject for any JSON value.
func parseAny(body []byte) (node, error) {
	root, ok := scanJSON(body)
	if !ok {
		return node{}, &FieldError{Want: "one JSON value in UTF-8"}
	}
	return node{value: &root, read: &reader{}}, nil
}

func (n node) fail(want string) {
	if n.read.err == nil {
		n.read.err = &FieldError{Field: n.path, Want: want}
	}
}

// at goes one field down. Names are compared exactly, unlike encoding/json, which would let "Installation" stand for "installation".
func (n node) at(name string) node {
	child := node{path: name, value: n.value.field(name), read: n.read}
	if n.path != "" {
		child.path = n.path + "." + name
	}
	return child
}

// missing: absent or null.
func (n node) missing() bool { return n.value.null() }

// has reports that the field is there and not null.
func (n node) has(name string) bool { return !n.at(name).missing() }

// mentions reports that the field is there, be it null.
func (n node) mentions(name string) bool { return n.value.field(name).kind() != 0 }

// lenient is the same value with errors of its own, for fields nothing depends on.
func (n node) lenient() node { n.read = &reader{}; return n }

func (n node) object() node {
	if n.value.kind() != '{' {
		n.fail("an object")
	}
	return n
}

// elements is a list's, each with the list's reader; false where it isn't one.
func (n node) elements() ([]node, bool) {
	if n.value.kind() != '[' {
		return nil, false
	}
	n.value.look()
	nodes := make([]node, len(n.value.items))
	for i := range n.value.items {
		nodes[i] = node{path: n.path + "[" + strconv.Itoa(i) + "]", value: &n.value.items[i], read: n.read}
	}
	return nodes, true
}

func (n node) list() []node {
	nodes, ok := n.elements()
	if !ok {
		n.fail("a list")
	}
	return nodes
}

func (n node) text() string {
	s, ok := n.value.str()
	if !ok || s == "" {
		n.fail("a string that is not empty")
	}
	return s
}

// optionalText is "" for a field that is absent, null or not a string.
func (n node) optionalText() string { s, _ := n.value.str(); return s }

// boolean is a flag's value; ok is false for anything else.
func (n node) boolean() (value, ok bool) {
	k := n.value.kind()
	return k == 't', k == 't' || k == 'f'
}

func (n node) flag() bool {
	b, ok := n.boolean()
	if !ok {
		n.fail("true or false")
	}
	return b
}

func (n node) optionalFlag() bool { b, _ := n.boolean(); return b }

// integer is the value of a number that is written as an integer and fits.
func (n node) integer() (int64, bool) {
	if k := n.value.kind(); k != '-' && (k < '0' || k > '9') {
		return 0, false
	}
	v, err := strconv.ParseInt(string(n.value.raw), 10, 64)
	return v, err == nil
}

// id is a positive integer: true, "1", 1.0 and 0 are all refused (RG-032, RG-426).
func (n node) id() int64 {
	v := n.optionalID()
	if v == 0 {
		n.fail("a positive integer")
	}
	return v
}

// optionalID is 0 for anything that isn't a positive integer.
func (n node) optionalID() int64 {
	v, ok := n.integer()
	if !ok || v < 0 {
		return 0
	}
	return v
}

// count is an integer that is not negative.
func (n node) count() int {
	v, ok := n.integer()
	if !ok || v < 0 || v > math.MaxInt32 {
		n.fail("an integer that is not negative")
		return 0
	}
	return int(v)
}

// stringMap is an object of strings; nil when absent.
func (n node) stringMap() map[string]string {
	if n.missing() || n.object().value.kind() != '{' {
		return nil
	}
	n.value.look()
	out := make(map[string]string, len(n.value.members))
	for _, member := range n.value.members {
		name := unquote(member.name)
		out[name] = n.at(name).text()
	}
	return out
}

// number is a pull request number.
func (n node) number() int {
	v := n.id()
	if v > math.MaxInt32 {
		n.fail("a positive integer below 2^31")
		return 0
	}
	return int(v)
}

// sha is a commit id: exactly 40 or 64 lower-case hex characters (RG-033).
func (n node) sha() string {
	s, ok := n.value.str()
	if !ok || !IsSHA(s) {
		n.fail("40 or 64 lower-case hex characters")
		return ""
	}
	return s
}

func (n node) optionalSHA() string {
	if s := n.optionalText(); IsSHA(s) {
		return s
	}
	return ""
}

// fullName is owner/name with exactly one slash, in lower case (RG-032, RG-035).
func (n node) fullName() string {
	repo, ok := RepoFromFullName(0, n.optionalText())
	if !ok {
		n.fail("owner/name with exactly one slash")
		return ""
	}
	return repo.FullName()
}

func (n node) oneOf(allowed ...string) string {
	s, ok := n.value.str()
	for _, a := range allowed {
		if ok && s == a {
			return s
		}
	}
	n.fail("one of " + strings.Join(allowed, ", "))
	return ""
}

// instant is an ISO 8601 time with an offset. Zero where the field is absent or unreadable: a watermark that isn't there
// only makes a later read less strict about its age, never more trusting about its content.
func (n node) instant() time.Time {
	t, err := time.Parse(time.RFC3339, n.optionalText())
	if err != nil {
		return time.Time{}
	}
	return t
}

func (n node) requiredInstant() time.Time {
	t := n.instant()
	if t.IsZero() {
		n.fail("an ISO 8601 time with an offset")
	}
	return t
}

func (n node) actor() Actor {
	return Actor{ID: n.at("id").optionalID(), Login: n.at("login").optionalText(), Type: n.at("type").optionalText()}
}

// IsSHA reports whether s is a commit id in its only accepted form: 40 or 64 lower-case hex characters.
func IsSHA(s string) bool {
	if len(s) != 40 && len(s) != 64 {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
