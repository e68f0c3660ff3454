package policy

import (
	"math/bits"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// ownersOf renders what a file says about a path: "-" no rule, "" nobody.
func ownersOf(c *Codeowners, path string) string {
	ownership := c.Match(path)
	if !ownership.Matched {
		return "-"
	}
	names := make([]string, len(ownership.Owners))
	for i, owner := range ownership.Owners {
		names[i] = owner.String()
	}
	return strings.Join(names, " ")
}

func parseLines(lines ...string) *Codeowners {
	return ParseCodeowners("CODEOWNERS", []byte(strings.Join(lines, "\n")+"\n"))
}

func TestCodeownersFile(t *testing.T) {
	t.Parallel()
	t.Run("RG-310 a standard file", func(t *testing.T) {
		t.Parallel()
		c := parseLines("# defaults", "* @Octo-Org/Core  @alice", "", "  *.go\tdocs@Example.com # go", "/gen/")
		want := []CodeownersRule{
			{Line: 2, Pattern: "*", Owners: []Owner{{OwnerTeam, "octo-org/core"}, {OwnerUser, "alice"}}},
			{Line: 4, Pattern: "*.go", Owners: []Owner{{OwnerEmail, "docs@example.com"}}},
			{Line: 5, Pattern: "/gen/"},
		}
		if diff := cmp.Diff(want, c.Rules()); diff != "" {
			t.Errorf("rules (-want +got):\n%s", diff)
		}
		if !c.Valid() || c.Problems() != nil || c.Path() != "CODEOWNERS" {
			t.Errorf("Valid %v, Problems %v, Path %q", c.Valid(), c.Problems(), c.Path())
		}
		want0 := Ownership{Matched: true, Owners: want[1].Owners, Line: 4, Pattern: "*.go"}
		if diff := cmp.Diff(want0, c.Match("cmd/main.go")); diff != "" {
			t.Errorf("match (-want +got):\n%s", diff)
		}
	})
	t.Run("RG-315 the first location that exists counts", func(t *testing.T) {
		t.Parallel()
		want := []string{".github/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS"}
		if diff := cmp.Diff(want, CodeownersLocations()); diff != "" {
			t.Errorf("locations (-want +got):\n%s", diff)
		}
		for present := 1; present < 1<<len(want); present++ {
			path, ok := FirstCodeowners(func(path string) bool {
				return present>>slices.Index(want, path)&1 == 1
			})
			if first := want[bits.TrailingZeros(uint(present))]; path != first || !ok {
				t.Errorf("of the set %03b: got %q, %v, want %q", present, path, ok, first)
			}
		}
		if path, ok := FirstCodeowners(func(string) bool { return false }); ok || path != "" {
			t.Errorf("without any: got %q, %v", path, ok)
		}
	})
	t.Run("RG-323 the last match decides and may name nobody", func(t *testing.T) {
		t.Parallel()
		c := parseLines("* @all", "/gen/", "/gen/keep @b", "*.x @c")
		for path, want := range map[string]string{"a": "@all", "gen/a": "", "gen/keep": "@b", "gen/a.x": "@c"} {
			if got := ownersOf(c, path); got != want {
				t.Errorf("owners of %q = %q, want %q", path, got, want)
			}
		}
		if got := ownersOf(parseLines("/a @x"), "b"); got != "-" {
			t.Errorf("owners of an unmatched path = %q", got)
		}
	})
	t.Run("RG-325 owners are lower-cased, without duplicates, in order", func(t *testing.T) {
		t.Parallel()
		c := parseLines("* @Bob @ALICE @bob @Octo-Org/Core Me@Example.COM @octo-org/CORE me@example.com")
		if got, want := ownersOf(c, "a"), "@bob @alice @octo-org/core me@example.com"; got != want {
			t.Errorf("owners %q, want %q", got, want)
		}
		many := "* @z" + strings.Repeat(" @A @b @c", 50)
		if got, want := ownersOf(parseLines(many), "a"), "@z @a @b @c"; got != want {
			t.Errorf("owners %q, want %q", got, want)
		}
	})
	t.Run("a nil or zero file owns nothing", func(t *testing.T) {
		t.Parallel()
		for _, c := range []*Codeowners{nil, {}} {
			if c.Match("a").Matched || c.MatchAll([]string{"a"})[0].Matched || c.Rules() != nil || !c.Valid() || c.Warnings() != nil || c.Path() != "" {
				t.Errorf("%v is not empty", c)
			}
		}
	})
	t.Run("the text given may be written to afterwards", func(t *testing.T) {
		t.Parallel()
		text := []byte("/abc @alice\n!x\n")
		c := ParseCodeowners("CODEOWNERS", text)
		clear(text)
		if got := ownersOf(c, "abc"); got != "@alice" || c.Problems()[0].Source != "!x" {
			t.Errorf("owners %q, problems %v", got, c.Problems())
		}
	})
}

func TestCodeownersEncoding(t *testing.T) {
	t.Parallel()
	t.Run("RG-322 a file over 3 MiB has no rules and says so", func(t *testing.T) {
		t.Parallel()
		line := "* @alice\n"
		text := []byte(line + strings.Repeat("#", CodeownersMaxBytes-len(line)))
		if c := ParseCodeowners("CODEOWNERS", text); !c.Valid() || ownersOf(c, "a") != "@alice" {
			t.Errorf("exactly 3 MiB: problems %v", c.Problems())
		}
		c := ParseCodeowners("CODEOWNERS", append(text, '#'))
		problems := c.Problems()
		if len(problems) != 1 || problems[0].Kind != CodeownersTooLarge || problems[0].Line != 0 || !strings.Contains(problems[0].Message, "3145729") {
			t.Errorf("problems %+v", problems)
		}
		if c.Match("a").Matched || len(c.Rules()) != 0 || c.Valid() {
			t.Errorf("rules %v", c.Rules())
		}
	})
	t.Run("one line of 3 MiB is read whole", func(t *testing.T) {
		t.Parallel()
		team := " @octo-org/team-that-is-repeated"
		text := "*" + strings.Repeat(team, (CodeownersMaxBytes-20)/len(team)) + " @last"
		c := ParseCodeowners("CODEOWNERS", []byte(text))
		if got := ownersOf(c, "a/b"); got != "@octo-org/team-that-is-repeated @last" || !c.Valid() {
			t.Errorf("owners %q", got)
		}
		deep := strings.Repeat("/a", 50_000)
		c = ParseCodeowners("CODEOWNERS", []byte(deep+" @deep\n"))
		if got := ownersOf(c, deep[1:]+"/b"); got != "@deep" || !c.Valid() {
			t.Errorf("owners of the deepest path %q", got)
		}
		if got := ownersOf(c, deep[3:]); got != "-" {
			t.Errorf("owners of its parent %q", got)
		}
	})
	t.Run("a pattern and a path that repeat themselves are decided", func(t *testing.T) {
		t.Parallel()
		c := ParseCodeowners("CODEOWNERS", []byte(strings.Repeat("**/a/", 50_000)+"b @never\n"+strings.Repeat("*a", 2_000)+"*b @never\n**/a/**/a/**/b @x\n"))
		path := strings.Repeat("a/", 500) + strings.Repeat("a", 2_000)
		if got := ownersOf(c, path); got != "-" {
			t.Errorf("owners %q", got)
		}
		if got := ownersOf(c, path+"/b"); got != "@x" {
			t.Errorf("owners %q", got)
		}
	})
	t.Run("a bad line of 3 MiB is one bounded problem", func(t *testing.T) {
		t.Parallel()
		c := ParseCodeowners("CODEOWNERS", []byte("* "+strings.Repeat("ü", CodeownersMaxBytes/2-1)))
		problems := c.Problems()
		if len(problems) != 1 || len(problems[0].String()) > 1000 || len(problems[0].Source) > 1010 {
			t.Errorf("%d problems, first %.200v", len(problems), problems[0])
		}
	})
	t.Run("every bad owner of a long line has its column", func(t *testing.T) {
		t.Parallel()
		c := ParseCodeowners("CODEOWNERS", []byte("*"+strings.Repeat(" ü", 50_000)))
		problems := c.Problems()
		if n := len(problems); n != 50_000 || problems[0].Column != 3 || problems[n-1].Column != 2*n+1 {
			t.Errorf("%d problems, first %+v", n, problems[0])
		}
	})
	t.Run("every one of 100,000 bad lines is a problem", func(t *testing.T) {
		t.Parallel()
		c := ParseCodeowners("CODEOWNERS", []byte(strings.Repeat("!\n", 100_000)))
		problems := c.Problems()
		if len(problems) != 100_000 || problems[99_999].Line != 100_000 {
			t.Errorf("%d problems", len(problems))
		}
	})
	for name, text := range map[string]string{
		"LF":              "* @all\n/a b@example.com\n/b @x",
		"CRLF":            "* @all\r\n/a b@example.com\r\n/b @x\r\n",
		"mixed":           "* @all\r\n/a b@example.com\n/b @x\r\n",
		"BOM":             utf8BOM + "* @all\n/a b@example.com\n/b @x\n",
		"tabs and blanks": "\t*\t@all  \n \t\n   /a\t b@example.com\t#c\n\n/b @x\t\n",
	} {
		t.Run("line ends and spaces: "+name, func(t *testing.T) {
			t.Parallel()
			c := ParseCodeowners("CODEOWNERS", []byte(text))
			for path, want := range map[string]string{"z": "@all", "a": "b@example.com", "b": "@x"} {
				if got := ownersOf(c, path); got != want {
					t.Errorf("owners of %q = %q, want %q", path, got, want)
				}
			}
			if !c.Valid() {
				t.Errorf("problems %v", c.Problems())
			}
		})
	}
	t.Run("a lone CR does not end a line, and the line is refused", func(t *testing.T) {
		t.Parallel()
		c := ParseCodeowners("CODEOWNERS", []byte("*.a @x\r*.b @y\n"))
		if got := ownersOf(c, "z.a"); got != "-" || c.Valid() {
			t.Errorf("owners %q", got)
		}
	})
	t.Run("empty lines count, and a line end is no part of the source", func(t *testing.T) {
		t.Parallel()
		for _, text := range []string{"\n\n!a\n", "\r\n\r\n!a\r\n", utf8BOM + "\n\r\n!a"} {
			problems := ParseCodeowners("CODEOWNERS", []byte(text)).Problems()
			if len(problems) != 1 || problems[0].Line != 3 || problems[0].Source != "!a" {
				t.Errorf("problems of %q: %+v", text, problems)
			}
		}
	})
	t.Run("RG-324 names are compared by bytes, ? is one character", func(t *testing.T) {
		t.Parallel()
		c := parseLines("/日本語/ @jp", "/caf? @one", "/naïve.txt @i")
		for path, want := range map[string]string{
			"日本語/a": "@jp", "café": "@one", "cafe": "@one", "cafe\u0301": "-", "caf": "-",
			"naïve.txt": "@i", "nai\u0308ve.txt": "-", "NAÏVE.txt": "-",
		} {
			if got := ownersOf(c, path); got != want {
				t.Errorf("owners of %q = %q, want %q", path, got, want)
			}
		}
	})
}

func TestCodeownersProblems(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name, line   string
		column       int
		kind, quotes string
	}{
		{"RG-319 negation", "!a @x", 1, CodeownersInvalidPattern, "no owner"},
		{"RG-319 negation after spaces", "  !a @x", 3, CodeownersInvalidPattern, "no owner"},
		{"RG-319 opening bracket", "/é/[a.js @x", 1, CodeownersInvalidPattern, `escape both [ and ] with a \`},
		{"RG-319 closing bracket", "a].js @x", 1, CodeownersInvalidPattern, `escape both`},
		{"RG-319 range", "[a-z].js @x", 1, CodeownersInvalidPattern, `escape both`},
		{"RG-319 escaped hash", `\#a @x`, 1, CodeownersInvalidPattern, "?notes.md"},
		{"RG-319 escaped hash that was never closed", `\#a @@ # [`, 1, CodeownersInvalidPattern, "?notes.md"},
		{"RG-319 bare slash", "/ @x", 1, CodeownersInvalidPattern, "write * for every file"},
		{"RG-319 empty segment", "a//b @x", 1, CodeownersInvalidPattern, "single /"},
		{"RG-319 two slashes", "// @x", 1, CodeownersInvalidPattern, "single /"},
		{"RG-319 dot segment", "./a @x", 1, CodeownersInvalidPattern, "starting with /"},
		{"RG-319 dots segment", "a/../b @x", 1, CodeownersInvalidPattern, "starting with /"},
		{"RG-319 backslash at the end", `a\/b @x`, 1, CodeownersInvalidPattern, `remove the \`},
		{"RG-319 backslash before nothing", `a\`, 1, CodeownersInvalidPattern, `remove the \`},
		{"three stars", "a/***/b @x", 1, CodeownersInvalidPattern, "**/"},
		{"three stars in a name", "a*** @x", 1, CodeownersInvalidPattern, "**/"},
		{"NUL", "a\x00b @x", 1, CodeownersInvalidPattern, "remove it"},
		{"escaped control", "a\\\x01b @x", 1, CodeownersInvalidPattern, "remove it"},
		{"DEL", "a\x7f @x", 1, CodeownersInvalidPattern, "remove it"},
		{"a control character alone", "\x01 @x", 1, CodeownersInvalidPattern, "remove it"},
		{"DEL alone", "/\x7f/ @x", 1, CodeownersInvalidPattern, "remove it"},
		{"not UTF-8", "a\xff @x", 1, CodeownersInvalidPattern, "UTF-8"},
		{"GitLab section", "[Docs] @x", 1, CodeownersInvalidPattern, "escape both"},
		{"GitLab optional section", "^[Docs] @x", 1, CodeownersInvalidPattern, "escape both"},
		{"RG-321 owner without @", "* alice", 3, CodeownersInvalidOwner, `"\ "`},
		{"RG-321 unescaped space", "my file.txt @x", 4, CodeownersInvalidOwner, `"\ "`},
		{"RG-321 column in characters", "é日 @x @@y", 7, CodeownersInvalidOwner, "@organisation/team"},
		{"RG-321 App", "* @helper[bot]", 3, CodeownersInvalidOwner, "delegate to the App"},
		{"RG-321 comma", "* a@example.com, @x", 3, CodeownersInvalidOwner, "spaces alone"},
		{"RG-321 glued comment", "* @x#note", 3, CodeownersInvalidOwner, "space before #"},
		{"RG-321 nested team", "* @o/t/s", 3, CodeownersInvalidOwner, "parent team"},
		{"RG-321 mixed", "* @x nobody @y", 6, CodeownersInvalidOwner, "@login"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			c := parseLines("* @before", row.line)
			problems := c.Problems()
			if len(problems) != 1 {
				t.Fatalf("%d problems, want 1: %v", len(problems), problems)
			}
			p := problems[0]
			if p.Line != 2 || p.Column != row.column || p.Kind != row.kind || p.Source != row.line || !strings.Contains(p.Mend, row.quotes) {
				t.Errorf("problem %+v, want line 2, column %d, kind %s, mend with %q", p, row.column, row.kind, row.quotes)
			}
			for _, path := range []string{"a", "b", "a/b", "#a", `a\`, "z"} {
				if got := ownersOf(c, path); got != "@before" {
					t.Errorf("owners of %q = %q: the line must be skipped and an earlier rule apply", path, got)
				}
			}
		})
	}
	t.Run("RG-318 every bad line and every fault of a line is reported", func(t *testing.T) {
		t.Parallel()
		c := parseLines("!a @x", "ok @x", "[b] bad @ok worse", "***", "# !", "x @@")
		var got []string
		for _, p := range c.Problems() {
			got = append(got, p.String())
		}
		want := []string{"line 1, column 1", "line 3, column 1", "line 3, column 5", "line 3, column 13", "line 4, column 1", "line 6, column 3"}
		if len(got) != len(want) {
			t.Fatalf("problems %q", got)
		}
		for i := range want {
			if !strings.HasPrefix(got[i], want[i]+":") {
				t.Errorf("problem %d is %q, want it at %s", i, got[i], want[i])
			}
		}
		if len(c.Rules()) != 1 || c.Valid() {
			t.Errorf("rules %v, valid %v", c.Rules(), c.Valid())
		}
	})
}

func TestCodeownersMends(t *testing.T) {
	t.Parallel()
	plain := "write @login, @organisation/team or an address"
	for owner, want := range map[string]string{
		"@": plain, "@a/b!": plain, "@@a": plain, "a@b": plain, "a@b/c/d": plain,
		"alice": plain + `; if it belongs`, "a/b/c": plain + `; if it belongs`,
		"@a/b/c": "name one team", "@x[bot]": "an App cannot", "@x#": "put a space", "@x;": "separate owners", "x,": "separate owners",
	} {
		got := parseLines("* " + owner).Problems()[0].Mend
		if want == plain && got != plain || !strings.HasPrefix(got, want) {
			t.Errorf("mend of %q is %q, want %q", owner, got, want)
		}
	}
	for _, row := range []struct {
		text, want string
		most       int
	}{{"abc", "abc", 3}, {"abcd", "abc…", 3}, {"aé", "a…", 2}, {"aéb", "aé…", 3}, {"é", "…", 1}, {"日本", "日…", 5}, {"\x80\x80", "…", 1}} {
		if got := excerpt(row.text, row.most); got != row.want {
			t.Errorf("excerpt(%q, %d) = %q, want %q", row.text, row.most, got, row.want)
		}
	}
}

func TestCodeownersWarnings(t *testing.T) {
	t.Parallel()
	lines := strings.Join([]string{
		"  @octo-org/core", "c#.md @x", "\u200bé @x", `src\main\* @x`, `a\ b\*\?\[c\] @x`,
		"/same @x", "src/ @y", "same @y", `/\same`, "/s?me @x", `/a\1 @x`,
	}, "\r\n")
	c := ParseCodeowners("CODEOWNERS", []byte(utf8BOM+lines))
	var got []string
	for _, w := range c.Warnings() {
		got = append(got, w.Kind+" "+w.String())
		if source := strings.Split(lines, "\r\n")[w.Line-1]; w.Source != source {
			t.Errorf("source of line %d is %q, want %q", w.Line, w.Source, source)
		}
	}
	want := []string{
		"owner_as_pattern line 1, column 3: ", "hash_in_pattern line 2, column 1: ", "hidden_character line 3, column 1: ",
		"plain_escape line 4, column 1: ", "shadowed_rule line 6, column 1: the rule never decides: line 9 ", "plain_escape line 9", "plain_escape line 11",
	}
	if len(got) != len(want) {
		t.Fatalf("warnings %q", got)
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("warning %d is %q, want %q", i, got[i], want[i])
		}
	}
	if !c.Valid() {
		t.Errorf("problems %v", c.Problems())
	}
	all := parseLines("/a @x", "* @y", "/b @z").Warnings()
	if len(all) != 1 || all[0].Line != 1 || !strings.Contains(all[0].Message, "line 2") {
		t.Errorf("warnings before a rule for everything: %+v", all)
	}
}
