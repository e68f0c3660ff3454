package ghclient

import (
	"encoding/binary"
	"encoding/json"
	"unicode/utf8"
)

// A JSON reader that checks everything and decodes only what is asked for. A webhook is some 25 kB of which two dozen fields matter, and
// a page of pull requests is ten times that; decoding the rest costs more than all other work on it. What is valid is exactly what
// encoding/json takes for valid (FuzzScan), but for a nesting deeper than maxDepth.

const maxDepth = 1000

// jsonValue is one value of a validated text. An object or list is split into its parts when it is first looked into.
type jsonValue struct {
	raw     []byte // without surrounding space; nil: there is no such value
	split   bool
	members []jsonMember // of an object, in order
	items   []jsonValue  // of a list
}

type jsonMember struct {
	name  []byte // between the quotes, as written
	value jsonValue
}

// scanJSON validates a whole text: one value in UTF-8 with nothing but space around it.
func scanJSON(text []byte) (jsonValue, bool) {
	if !utf8.Valid(text) {
		return jsonValue{}, false
	}
	begin := skipSpace(text, 0)
	end := skipValue(text, begin, 0)
	if end < 0 || skipSpace(text, end) != len(text) {
		return jsonValue{}, false
	}
	return jsonValue{raw: text[begin:end]}, true
}

// kind is the first byte of the value, which tells its type; 0 where there is none.
func (v *jsonValue) kind() byte {
	if len(v.raw) == 0 {
		return 0
	}
	return v.raw[0]
}

// null: absent or null.
func (v *jsonValue) null() bool { return v.kind() == 0 || v.kind() == 'n' }

// field is an object's member; of several with one name the last, as encoding/json has it. Names are compared exactly.
func (v *jsonValue) field(name string) *jsonValue {
	if v.kind() != '{' {
		return &jsonValue{}
	}
	v.look()
	for i := len(v.members) - 1; i >= 0; i-- {
		if sameName(v.members[i].name, name) {
			return &v.members[i].value
		}
	}
	return &jsonValue{}
}

func sameName(written []byte, name string) bool {
	for _, c := range written {
		if c == '\\' {
			return unquote(written) == name
		}
	}
	return string(written) == name
}

// look splits an object or list. The text was validated as a whole, so no part of it can fail here.
func (v *jsonValue) look() {
	if v.split {
		return
	}
	v.split = true
	object := v.raw[0] == '{'
	for i := skipSpace(v.raw, 1); v.raw[i] != '}' && v.raw[i] != ']'; {
		var name []byte
		if object {
			end := skipString(v.raw, i)
			name = v.raw[i+1 : end-1]
			i = skipSpace(v.raw, skipSpace(v.raw, end)+1)
		}
		end := skipValue(v.raw, i, 0)
		part := jsonValue{raw: v.raw[i:end:end]}
		if object {
			v.members = append(v.members, jsonMember{name: name, value: part})
		} else {
			v.items = append(v.items, part)
		}
		if i = skipSpace(v.raw, end); v.raw[i] == ',' {
			i = skipSpace(v.raw, i+1)
		}
	}
}

// str is the value of a string.
func (v *jsonValue) str() (string, bool) {
	if v.kind() != '"' {
		return "", false
	}
	return unquote(v.raw[1 : len(v.raw)-1]), true
}

// unquote decodes what stands between the quotes of a validated string.
func unquote(inner []byte) string {
	for _, c := range inner {
		if c == '\\' {
			var s string
			if json.Unmarshal(append(append([]byte{'"'}, inner...), '"'), &s) != nil {
				return ""
			}
			return s
		}
	}
	return string(inner)
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

// skipValue is the index behind the value that begins at i, or -1 where there is no valid one.
func skipValue(b []byte, i, depth int) int {
	if i < 0 || i >= len(b) || depth > maxDepth {
		return -1
	}
	switch c := b[i]; {
	case c == '"':
		return skipString(b, i)
	case c == '{':
		return skipObject(b, i, depth)
	case c == '[':
		return skipList(b, i, depth)
	case c == 't':
		return skipWord(b, i, "true")
	case c == 'f':
		return skipWord(b, i, "false")
	case c == 'n':
		return skipWord(b, i, "null")
	case c == '-' || c >= '0' && c <= '9':
		return skipNumber(b, i)
	}
	return -1
}

func skipObject(b []byte, i, depth int) int {
	i = skipSpace(b, i+1)
	if i < len(b) && b[i] == '}' {
		return i + 1
	}
	for {
		if i >= len(b) || b[i] != '"' {
			return -1
		}
		if i = skipString(b, i); i < 0 {
			return -1
		}
		if i = skipSpace(b, i); i >= len(b) || b[i] != ':' {
			return -1
		}
		if i = skipValue(b, skipSpace(b, i+1), depth+1); i < 0 {
			return -1
		}
		if i = skipSpace(b, i); i >= len(b) {
			return -1
		}
		switch b[i] {
		case '}':
			return i + 1
		case ',':
			i = skipSpace(b, i+1)
		default:
			return -1
		}
	}
}

func skipList(b []byte, i, depth int) int {
	i = skipSpace(b, i+1)
	if i < len(b) && b[i] == ']' {
		return i + 1
	}
	for {
		if i = skipValue(b, i, depth+1); i < 0 {
			return -1
		}
		if i = skipSpace(b, i); i >= len(b) {
			return -1
		}
		switch b[i] {
		case ']':
			return i + 1
		case ',':
			i = skipSpace(b, i+1)
		default:
			return -1
		}
	}
}

func skipString(b []byte, i int) int {
	for i = skipPlain(b, i+1); i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			return i + 1
		case c < ' ':
			return -1
		case c == '\\':
			if i = skipEscape(b, i+1); i < 0 {
				return -1
			}
		}
	}
	return -1
}

// skipPlain goes over what no string ends or is refused for, eight bytes at a time: most of a webhook is the inside of strings.
func skipPlain(b []byte, i int) int {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	for ; i+8 <= len(b); i += 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		quote, escape := w^(ones*'"'), w^(ones*'\\')
		// A byte's top bit is set where the byte was zero, here: was a quote, an escape, or below a space. A false alarm behind a
		// true one costs nothing but the eight bytes being looked at one by one.
		found := (quote-ones)&^quote | (escape-ones)&^escape | (w-ones*' ')&^w
		if found&tops != 0 {
			return i
		}
	}
	return i
}

// skipEscape is the index of the last byte of the escape whose letter is at i.
func skipEscape(b []byte, i int) int {
	if i >= len(b) {
		return -1
	}
	switch b[i] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i
	case 'u':
		if i+4 >= len(b) {
			return -1
		}
		for _, c := range b[i+1 : i+5] {
			if (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'f') {
				return -1
			}
		}
		return i + 4
	}
	return -1
}

func skipWord(b []byte, i int, word string) int {
	if len(b)-i < len(word) || string(b[i:i+len(word)]) != word {
		return -1
	}
	return i + len(word)
}

func skipNumber(b []byte, i int) int {
	if b[i] == '-' {
		i++
	}
	switch {
	case i >= len(b):
		return -1
	case b[i] == '0':
		i++
	default:
		if i = skipDigits(b, i); i < 0 {
			return -1
		}
	}
	if i < len(b) && b[i] == '.' {
		if i = skipDigits(b, i+1); i < 0 {
			return -1
		}
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		return skipDigits(b, i)
	}
	return i
}

// skipDigits wants at least one.
func skipDigits(b []byte, i int) int {
	from := i
	for i < len(b) && b[i] >= '0' && b[i] <= '9' {
		i++
	}
	if i == from {
		return -1
	}
	return i
}
