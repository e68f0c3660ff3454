package policy

import (
	"strings"
	"testing"
)

func TestEscapes(t *testing.T) {
	t.Parallel()
	t.Run("RG-298 prose, code and plain text, character by character", func(t *testing.T) {
		t.Parallel()
		for _, row := range []struct{ in, prose, code string }{
			{"src/a-b.go", "src/a-b.go", "src/a-b.go"},
			{"- x", `\- x`, "- x"},
			{"+ x", `\+ x`, "+ x"},
			{"= x", `\= x`, "= x"},
			{"a - b + c = d", "a - b + c = d", "a - b + c = d"},
			{"1- x", "1- x", "1- x"},
			{"1. x", `1\. x`, "1. x"},
			{"12) x", `12\) x`, "12) x"},
			{"0. x", `0\. x`, "0. x"},
			{"9. x", `9\. x`, "9. x"},
			{"a1. x", "a1. x", "a1. x"},
			{"1a. x", "1a. x", "1a. x"},
			{"/. x", "/. x", "/. x"},
			{":. x", `\:. x`, "&#58;. x"},
			{"/1. x) y", "/1. x) y", "/1. x) y"},
			{"www.x", `www\.x`, "www&#46;x"},
			{"a WWW.x", `a WWW\.x`, "a WWW&#46;x"},
			{"ww.x", "ww.x", "ww.x"},
			{"wwwx.y", "wwwx.y", "wwwx.y"},
			{"www/x.y", "www/x.y", "www/x.y"},
			{"<b>&amp;\"'", `&lt;b&gt;&amp;amp;"'`, "&lt;b&gt;&amp;amp;&quot;'"},
			{"\\`*_{}[]", "\\\\\\`\\*\\_\\{\\}\\[\\]", "&#92;&#96;&#42;&#95;&#123;&#125;&#91;&#93;"},
			{"#!|~$:@^", `\#\!\|\~\$\:\@\^`, "&#35;&#33;&#124;&#126;&#36;&#58;&#64;&#94;"},
			{"a\nb\rc\td", `a\\nb\\rc\\td`, "a&#92;nb&#92;rc&#92;td"},
			{"\x1f\x7f\u0080\u00a0", `\\u\{001F\}\\u\{007F\}\\u\{0080\}\\u\{00A0\}`, "&#92;u&#123;001F&#125;&#92;u&#123;007F&#125;&#92;u&#123;0080&#125;&#92;u&#123;00A0&#125;"},
			{"\ufffd", `\\u\{FFFD\}`, "&#92;u&#123;FFFD&#125;"},
			{"\u202e\u2028\u200b", `\\u\{202E\}\\u\{2028\}\\u\{200B\}`, "&#92;u&#123;202E&#125;&#92;u&#123;2028&#125;&#92;u&#123;200B&#125;"},
			{"\u2800\u3164\ufe0f", `\\u\{2800\}\\u\{3164\}\\u\{FE0F\}`, "&#92;u&#123;2800&#125;&#92;u&#123;3164&#125;&#92;u&#123;FE0F&#125;"},
			{"ŀé語", "ŀé語", "ŀé語"},
			{"a b", "a b", "a b"},
			{"", "", ""},
		} {
			if got := prose(row.in); got != row.prose {
				t.Errorf("prose(%q)\n got %s\nwant %s", row.in, got, row.prose)
			}
			if got := code(row.in); got != "<code>"+row.code+"</code>" {
				t.Errorf("code(%q)\n got %s\nwant %s", row.in, got, row.code)
			}
		}
		if got := plain("a\n*b*\u202e"); got != `a\n*b*\u{202E}` {
			t.Errorf("plain %q", got)
		}
		if got := code(strings.Repeat("x", maxShownValue+1)); got != "<code>"+strings.Repeat("x", maxShownValue-3)+"…</code>" {
			t.Errorf("a long value is shown as %d bytes", len(got))
		}
	})
	t.Run("RG-293 what does not fit is left out from there on, in whole lines", func(t *testing.T) {
		t.Parallel()
		d := newDocument(200)
		room := d.left
		d.blank()
		d.line(strings.Repeat("a", room-11))
		d.blank()
		d.blank()
		d.line("12345678")
		d.line("x")
		d.blank()
		if got, want := d.String(), strings.Repeat("a", room-11)+"\n\n12345678\n"; got != want {
			// "x" needs two bytes where none are left.
			want += "\n\n… 1 lines are left out here; the decision used all of them.\n"
			if got != want || len(got) > 200 {
				t.Errorf("document %q (%d bytes)", got, len(got))
			}
		} else {
			t.Error("a line that does not fit is in")
		}
		d = newDocument(200)
		d.line(strings.Repeat("b", 190))
		d.line("c")
		if got := d.String(); strings.Contains(got, "c\n") || !strings.Contains(got, "… 2 lines") {
			t.Errorf("a later line follows one that was left out: %q", got)
		}
	})
}
