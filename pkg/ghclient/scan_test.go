package ghclient

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

var scanSeeds = []string{
	`{}`, `[]`, `null`, `true`, `false`, `0`, `-0`, `1.5e+10`, `"a\"\\\/\b\f\n\r\tA\ud83d\ude00\ud800"`, ` { "a" : [ 1 , { "b" : null } ] , "a" : "é" } `,
	``, ` `, `{`, `[`, `"`, `"\`, `"\u12`, `"\x"`, `{"a"}`, `{"a":}`, `{"a":1,}`, `[1,]`, `[,]`, `01`, `-`, `1.`, `.5`, `1e`, `+1`, `tru`, `nul`, `nulll`, "\"\x01\"", "\"\xff\"",
	`{a:1}`, `{'a':1}`, `[1 2]`, `1 2`, `{"a":1}x`, "\ufeff{}", `{"a":1 "b":2}`, `[[[[[[]]]]]]`, `"\u00zz"`, `-a`, `1e+`, `[1`, `{"a":1`, `{"a`, `{"":0}`,
}

func TestScan(t *testing.T) {
	t.Parallel()
	for _, seed := range scanSeeds {
		checkScan(t, []byte(seed))
		checkScan(t, []byte("["+seed+"]"))
		checkScan(t, []byte(`{"x":`+seed+`,"y":0}`))
		for i := range seed { // cut short at every place
			checkScan(t, []byte(seed[:i]))
		}
	}
	if _, ok := scanJSON([]byte(strings.Repeat("[", 5000) + strings.Repeat("]", 5000))); ok {
		t.Error("a nesting of 5000 is taken")
	}
}

func FuzzScan(f *testing.F) {
	for _, seed := range scanSeeds {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if bytes.Count(text, []byte("["))+bytes.Count(text, []byte("{")) < maxDepth {
			checkScan(t, text)
		}
	})
}

// checkScan holds the scanner to encoding/json: the same texts are valid, and they hold the same values.
func checkScan(t *testing.T, text []byte) {
	t.Helper()
	value, ok := scanJSON(text)
	if want := json.Valid(text) && utf8.Valid(text); ok != want {
		t.Fatalf("%q: valid %v, want %v", text, ok, want)
	}
	if !ok {
		return
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var want any
	if err := dec.Decode(&want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, plainValue(&value)); diff != "" {
		t.Fatalf("%q: %s", text, diff)
	}
}

func plainValue(v *jsonValue) any {
	switch v.kind() {
	case '{':
		v.look()
		object := map[string]any{}
		for _, m := range v.members {
			name := unquote(m.name)
			object[name] = plainValue(v.field(name))
		}
		return object
	case '[':
		v.look()
		list := []any{}
		for i := range v.items {
			list = append(list, plainValue(&v.items[i]))
		}
		return list
	case '"':
		s, _ := v.str()
		return s
	case 't', 'f':
		return v.kind() == 't'
	case 'n':
		return nil
	}
	return json.Number(v.raw)
}
