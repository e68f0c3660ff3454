package policy

import (
	"strings"
	"testing"
)

func TestPatterns(t *testing.T) {
	t.Parallel()
	rows := []struct {
		id, pattern string
		yes, no     string // paths, separated by "|"
	}{
		{"RG-324 a bare name at any depth, with what lies below", "pkg", "pkg|a/pkg|pkg/a|a/pkg/b/c", "pkgs|apkg|a/pkg.go|PKG"},
		{"RG-324 a leading slash anchors", "/pkg", "pkg|pkg/a|pkg/a/b", "a/pkg|pkg.go|a/pkg/b"},
		{"RG-324 a trailing slash is a directory at any depth", "pkg/", "pkg/a|a/pkg/b|a/pkg/b/c", "pkg|a/pkg|pkg.go"},
		{"RG-324 a leading and a trailing slash", "/pkg/", "pkg/a|pkg/a/b", "pkg|a/pkg/b"},
		{"RG-324 a middle slash anchors", "lib/core", "lib/core|lib/core/a", "x/lib/core|lib/cores|lib/x/core"},
		{"RG-324 a middle and a trailing slash", "lib/core/", "lib/core/a|lib/core/a/b", "lib/core|x/lib/core/a"},
		{"RG-324 direct children only", "docs/*", "docs/a|docs/.a", "docs|docs/a/b|x/docs/a"},
		{"RG-324 direct children of the root", "/*", "a|.env", "a/b|a/b/c"},
		{"RG-324 direct children at any depth", "**/docs/*", "docs/a|x/docs/a|x/y/docs/a|docs/docs/b", "docs|docs/a/b"},
		{"RG-324 grandchildren only", "/a/*/*", "a/b/c", "a/b|a/b/c/d|x/a/b/c"},
		{"RG-324 two names", "*/*", "a/b|.a/.b", "a|a/b/c"},
		{"RG-324 star and slash: what is in a directory", "*/", "a/b|a/b/c", "a|.a"},
		{"RG-324 anchored star and slash", "/*/", "a/b|a/b/c", "a"},
		{"RG-324 directories of a directory", "src/*/", "src/a/b|src/a/b/c", "src/a|x/src/a/b|src"},
		{"RG-324 a star in a name covers what lies below", "/m*", "m|mod|mod/a/b", "x/mod|am"},
		{"RG-324 a name with a star at any depth", "*.js", "a.js|b/a.js|.js|a.js/b|x/a.js/b", "ajs|a.jsx"},
		{"RG-324 a star in the last name", "docs/*.md", "docs/a.md|docs/a.md/b", "docs/x/a.md|docs/a.mdx|x/docs/a.md"},
		{"RG-324 a star does not cross a slash", "a*z", "az|abcz|x/abz", "a/z|ab/z"},
		{"RG-324 a star between slashes is one name", "a/*/z", "a/b/z|a/b/z/y", "a/z|a/b/c/z"},
		{"RG-324 a question mark is one character", "a?c", "abc|aéc|a日c|x/abc/y", "ac|abbc|a/c"},
		{"RG-324 two question marks", "/??", "ab|éé|ab/c", "a|abc"},
		{"RG-324 two stars cross slashes", "**/logs", "logs|a/logs|a/b/logs|a/logs/x", "xlogs|logs.txt"},
		{"RG-324 two stars at the end", "logs/**", "logs/a|logs/a/b", "logs|x/logs/a"},
		{"RG-324 two stars in the middle", "a/**/z", "a/z|a/b/z|a/b/c/z|a/b/z/y", "az|x/a/z|a/bz"},
		{"RG-324 two stars twice", "a/**/b/**/c", "a/b/c|a/x/b/c|a/b/y/z/c|a/b/b/c|a/b/c/c", "a/c|b/c|a/b|a/x/c"},
		{"RG-324 two stars in a row count once", "a/**/**/b", "a/b|a/x/y/b", "ab"},
		{"RG-324 two stars and a star", "a/**/*", "a/b|a/b/c", "a|x/a/b"},
		{"RG-324 two stars, a star and a name", "a/**/*/z", "a/b/z|a/b/c/z", "a/z"},
		{"RG-324 two stars and a slash: below any directory in it", "a/**/", "a/b/c|a/b/c/d", "a/b|a|b/c"},
		{"RG-324 two stars and a slash alone", "**/", "a/b|a/b/c", "a"},
		{"RG-324 everything", "**", "a|a/b|.a/.b", ""},
		{"RG-324 everything from the root", "/**", "a|a/b|.a/.b", ""},
		{"RG-324 everything by a star", "*", "a|a/b|.a/.b", ""},
		{"RG-324 everything in two parts", "**/*", "a|a/b|.a/.b", ""},
		{"RG-324 two stars inside a name are a star", "a/b**/c", "a/b/c|a/bx/c|a/b/c/d", "a/b/x/c|a/bx/y/c"},
		{"RG-324 two stars before a name are a star", "**foo", "foo|xfoo|a/xfoo/b", "foox"},
		{"RG-324 stars that must share", "a*b*a", "aba|abba|abaaba|axbya", "aab|ab|a"},
		{"RG-324 dots are no wildcards", ".*", ".a|x/.a|.a/b", "a|a.b"},
		{"RG-324 case counts", "/Src/*.TS", "Src/a.TS", "src/a.TS|Src/a.ts"},
		{"RG-320 an escaped space", `/my\ docs/*`, "my docs/a", "my/a|my|mydocs/a"},
		{"RG-320 an escaped tab", "a\\\tb", "a\tb", "a|b|ab"},
		{"RG-320 an escaped space at the end", `a\ `, "a |a /b", "a"},
		{"RG-320 a hash inside a token", "c#.md", "c#.md", "c|c#"},
		{"D9 escaped wildcards", `/a\*b\?`, "a*b?|a*b?/c", "axb?|a*bx"},
		{"D9 escaped brackets", `/pages/\[id\]/*.js`, "pages/[id]/a.js", "pages/i/a.js|pages/id/a.js"},
		{"D9 an escaped backslash", `/a\\b`, `a\b`, "ab|a/b"},
		{"D9 an escaped exclamation mark", `\!a`, "!a|x/!a", "a"},
		{"D9 an escaped letter", `/\a`, "a", `\a`},
		{"D9 an escaped character of many bytes", `/\é*`, "éa", "e"},
		{"D9 an exclamation mark inside", "/a!", "a!", "a"},
		{"D9 no regular expression", `/a.b+(c|d)^${e}~,:;&'"=%@-_`, `a.b+(c|d)^${e}~,:;&'"=%@-_`, `axb+(c|d)^${e}~,:;&'"=%@-_`},
		{"D9 non-ASCII", "/ünï/日*語", "ünï/日語|ünï/日本語/a", "uni/日語"},
		{"D9 astral characters", "*.😀", "a.😀", "a.😁"},
		{"D9 an owner's look", "@octo-org/core", "@octo-org/core|@octo-org/core/a", "core"},
		{"D9 names with dots", "/.../..a", ".../..a", "a"},
	}
	for _, row := range rows {
		t.Run(row.id, func(t *testing.T) {
			t.Parallel()
			c := parseLines(row.pattern + " @x # comment")
			if !c.Valid() || len(c.Rules()) != 1 {
				t.Fatalf("%q: problems %v, rules %v", row.pattern, c.Problems(), c.Rules())
			}
			check := func(paths string, want bool) {
				for path := range strings.SplitSeq(paths, "|") {
					if path == "" {
						continue
					}
					if got := c.Match(path).Matched; got != want {
						t.Errorf("%q matches %q: %v, want %v", row.pattern, path, got, want)
					}
					if ref := referenceMatch(row.pattern, path); ref != want {
						t.Errorf("reference: %q matches %q: %v, want %v", row.pattern, path, ref, want)
					}
				}
			}
			if !strings.Contains(row.pattern, "(c|d)") {
				check(row.yes, true)
				check(row.no, false)
				return
			}
			if !c.Match(row.yes).Matched || c.Match(row.no).Matched {
				t.Errorf("%q matches %q: %v, %q: %v", row.pattern, row.yes, c.Match(row.yes), row.no, c.Match(row.no))
			}
		})
	}
	t.Run("RG-320 # at the start of a token ends the line", func(t *testing.T) {
		t.Parallel()
		c := parseLines("* @all", "/a #@b", "/c @d # @e", "/f @g #", "/h\t#x @y", "#/i @j")
		for path, want := range map[string]string{"a": "", "c": "@d", "f": "@g", "h": "", "i": "@all"} {
			if got := ownersOf(c, path); got != want {
				t.Errorf("owners of %q = %q, want %q", path, got, want)
			}
		}
		if !c.Valid() {
			t.Errorf("problems %v", c.Problems())
		}
	})
}

func TestParseOwner(t *testing.T) {
	t.Parallel()
	valid := map[string]Owner{
		"@alice": {OwnerUser, "alice"}, "@A-b-9": {OwnerUser, "a-b-9"}, "@9": {OwnerUser, "9"}, "@AZaz09": {OwnerUser, "azaz09"}, "!~9@a9.z0": {OwnerEmail, "!~9@a9.z0"}, "@old-": {OwnerUser, "old-"},
		"@mona_acme": {OwnerUser, "mona_acme"}, "@Octo-Org/Team_y-2": {OwnerTeam, "octo-org/team_y-2"}, "@o/_t": {OwnerTeam, "o/_t"},
		"a@b.co": {OwnerEmail, "a@b.co"}, "First.Last+tag@Sub.Example.co": {OwnerEmail, "first.last+tag@sub.example.co"},
		"o'neil@example.com": {OwnerEmail, "o'neil@example.com"}, "a@xn--bcher-kva.example": {OwnerEmail, "a@xn--bcher-kva.example"},
	}
	for text, want := range valid {
		if got, ok := ParseOwner(text); !ok || got != want {
			t.Errorf("ParseOwner(%q) = %+v, %v, want %+v", text, got, ok, want)
		} else if got.String() != strings.ToLower(text) {
			t.Errorf("%q.String() = %q", text, got)
		}
	}
	for _, text := range []string{
		"", "@", "alice", "@-", "@-a", "@_a", "@a_", "@a_b_c", "@@a", "@a@b", "@a.b", "@bad+org", "@bad*", "@é", "@org/", "@/team", "@/", "@org/-",
		"@org/team/sub", "@org/te.am", "@o_/t", "@a[bot]", "@a,", "docs@", "@docs@example.com", "me@nowhere", ".a@example.com", "a.@example.com",
		"a..b@example.com", "a@.example.com", "a@example.com.", "a@-example.com", "a@example.com-", "a@exa mple.com", "a b@example.com", "a@b@example.com",
		"a@ex_ample.com", "é@example.com", "@org/téam",
	} {
		if got, ok := ParseOwner(text); ok {
			t.Errorf("ParseOwner(%q) = %+v, want none", text, got)
		}
	}
	for kind, want := range map[OwnerKind]string{OwnerUser: "user", OwnerTeam: "team", OwnerEmail: "email", 0: "unknown"} {
		if got := kind.String(); got != want {
			t.Errorf("OwnerKind(%d) = %q, want %q", kind, got, want)
		}
	}
}
