package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// runOwnersCLI runs one invocation on a CODEOWNERS file; FILE in args is its path.
func runOwnersCLI(t *testing.T, codeowners, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "CODEOWNERS")
	if err := os.WriteFile(file, []byte(codeowners), 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "FILE", file)
	}
	var out, errs bytes.Buffer
	code = run(t.Context(), append([]string{"owners"}, args...), strings.NewReader(stdin), &out, &errs)
	return code, out.String(), strings.ReplaceAll(errs.String(), file, "FILE")
}

func TestOwners(t *testing.T) {
	t.Parallel()
	const file = "* @Octo-Org/Core\n*.go @alice docs@example.com\n/gen/\n"
	const broken = "* @all\n!*.a @x\n/b @y bad\n"
	rows := []struct {
		name, file, stdin string
		args              []string
		code              int
		stdout            string
		stderr            []string // each must be in it; none: it must be empty
	}{
		{
			name: "text", file: file, args: []string{"--codeowners", "FILE", "a.go", "gen/x", "z"},
			stdout: "a.go\t@alice docs@example.com\ngen/x\t(unowned)\nz\t@octo-org/core\n",
		},
		{
			name: "json", file: "/a&b<c> @x\n/gen/\n", args: []string{"--json", "--codeowners=FILE", "--", "a&b<c>", "gen/x", "none"},
			stdout: `{"path":"a&b<c>","owners":["@x"],"line":1,"pattern":"/a&b<c>"}` + "\n" +
				`{"path":"gen/x","owners":[],"line":2,"pattern":"/gen/"}` + "\n" +
				`{"path":"none","owners":[],"line":0,"pattern":""}` + "\n",
		},
		{
			name: "paths that look like flags", file: "*.x @a\n", args: []string{"--codeowners", "FILE", "--", "--json", "-z.x"},
			stdout: "--json\t(unowned)\n-z.x\t@a\n",
		},
		{
			name: "standard input", file: file, stdin: "a.go\r\n\ngen/x\nlast", args: []string{"--codeowners", "FILE"},
			stdout: "a.go\t@alice docs@example.com\ngen/x\t(unowned)\nlast\t@octo-org/core\n",
		},
		{
			name: "standard input with NUL", file: file, stdin: "a\nb.go\x00c\r\x00", args: []string{"-z", "--json", "--codeowners", "FILE"},
			stdout: `{"path":"a\nb.go","owners":["@alice","docs@example.com"],"line":2,"pattern":"*.go"}` + "\n" +
				`{"path":"c\r","owners":["@octo-org/core"],"line":1,"pattern":"*"}` + "\n",
		},
		{name: "no path at all", file: file, args: []string{"--codeowners", "FILE"}},
		{
			name: "invalid lines are reported and skipped", file: broken, args: []string{"--codeowners", "FILE", "z.a", "b"}, code: 1,
			stdout: "z.a\t@all\nb\t@all\n",
			stderr: []string{"FILE:2:1: invalid_pattern: ", "FILE:3:7: invalid_owner: ", "countersign: FILE has invalid lines"},
		},
		{
			name: "a path cannot forge output", file: "* @all\n", stdin: "::set-env name=A::b\x00a\x1b[2Jb\x00a\nb\t@forged\x00\u202ea\x00", args: []string{"-z", "--codeowners", "FILE"},
			stdout: `"::set-env name=A::b"` + "\t@all\n" + `"a\x1b[2Jb"` + "\t@all\n" + `"a\nb\t@forged"` + "\t@all\n" + `"\u202ea"` + "\t@all\n",
		},
		{name: "absolute path", file: file, args: []string{"--codeowners", "FILE", "a", "/etc"}, code: 2, stderr: []string{`"/etc" is absolute`}},
		{name: "directory", file: file, args: []string{"--codeowners", "FILE", "docs/"}, code: 2, stderr: []string{`"docs/" names a directory`}},
		{name: "dots", file: file, args: []string{"--codeowners", "FILE", "../a"}, code: 2, stderr: []string{`"../a" has the segment ..`}},
		{name: "two slashes", file: file, args: []string{"--codeowners", "FILE", "a//b"}, code: 2, stderr: []string{"two slashes"}},
		{name: "empty path", file: file, args: []string{"--codeowners", "FILE", ""}, code: 2, stderr: []string{"is empty"}},
		{name: "not UTF-8 in JSON", file: file, args: []string{"--json", "--codeowners", "FILE", "a\xff"}, code: 2, stderr: []string{`"a\xff" is not UTF-8`}},
		{name: "not UTF-8 in text", file: file, args: []string{"--codeowners", "FILE", "a\xff"}, stdout: `"a\xff"` + "\t@octo-org/core\n"},
		{name: "unknown flag", file: file, args: []string{"--nope"}, code: 2, stderr: []string{"--nope"}},
		{name: "no such file", file: file, args: []string{"--codeowners", "FILE.missing", "a"}, code: 2, stderr: []string{"no file"}},
		{name: "too large", file: "* @a\n" + strings.Repeat("#", 3<<20), args: []string{"--codeowners", "FILE", "a"}, code: 1, stdout: "a\t(unowned)\n", stderr: []string{"FILE:0:0: codeowners_too_large: "}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := runOwnersCLI(t, row.file, row.stdin, row.args...)
			if code != row.code {
				t.Errorf("exit %d, want %d; stderr:\n%s", code, row.code, stderr)
			}
			if diff := cmp.Diff(row.stdout, stdout); diff != "" {
				t.Errorf("stdout (-want +got):\n%s", diff)
			}
			if len(row.stderr) == 0 && stderr != "" {
				t.Errorf("stderr %q", stderr)
			}
			for _, want := range row.stderr {
				if !strings.Contains(stderr, want) {
					t.Errorf("stderr has no %q:\n%s", want, stderr)
				}
			}
		})
	}
}

// The table that pkg/policy holds itself to gives the same answers through the
// command, one process run for each file.
func TestOwnersCases(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../pkg/policy/testdata/codeowners/cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		ID, Confidence, Codeowners, Path string
		Owners                           []string
	}
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		if c.Confidence == "uncertain" {
			continue
		}
		code, stdout, stderr := runOwnersCLI(t, c.Codeowners, c.Path+"\n", "--codeowners", "FILE", "--json")
		var got ownersLine
		if err := json.Unmarshal([]byte(stdout), &got); err != nil {
			t.Fatalf("%s: exit %d, stdout %q, stderr %q: %v", c.ID, code, stdout, stderr, err)
		}
		if diff := cmp.Diff(ownersLine{Path: c.Path, Owners: c.Owners, Line: got.Line, Pattern: got.Pattern}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.ID, diff)
		}
		if (code == exitFindings) != strings.Contains(stderr, "FILE:") || code == exitUsage {
			t.Errorf("%s: exit %d with stderr %q", c.ID, code, stderr)
		}
	}
}

func TestOwnersFindsTheFile(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"owners", "a"}, strings.NewReader(""), &out, &errs); code != exitUsage || !strings.Contains(errs.String(), ".github/CODEOWNERS") {
		t.Errorf("without any file: exit %d, stderr %q", code, errs.String())
	}
	for _, place := range []string{"docs", "", ".github"} { // each wins over those before
		if err := os.MkdirAll(filepath.Join(dir, place), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, place, "CODEOWNERS"), []byte("* @in"+strings.Trim(place, ".")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		out.Reset()
		code := run(t.Context(), []string{"owners", "a"}, strings.NewReader(""), &out, &errs)
		if want := "a\t@in" + strings.Trim(place, ".") + "\n"; code != exitFine || out.String() != want {
			t.Errorf("exit %d, stdout %q, want %q", code, out.String(), want)
		}
	}
}
