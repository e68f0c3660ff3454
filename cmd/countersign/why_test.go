package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWhy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if code, _, errOut := call(t, "why", "--directory", dir, "a.go"); code != exitUsage || !strings.Contains(errOut, "--directory") {
		t.Errorf("%d %q", code, errOut)
	}
	write(".github/CODEOWNERS", "* @acme/core\n\n# --- Web ---\n/web/ @acme/web @alice\n/gen/\n")
	t.Run("a checkout without a policy", func(t *testing.T) {
		code, out, errOut := call(t, "why", "--directory", dir, "a.go", "web/x.ts", "gen/x")
		if code != exitFine {
			t.Fatalf("%d %q %q", code, out, errOut)
		}
		wants(t, out, "a.go\n  CODEOWNERS line 1: *\n  any one may approve: @acme/core", "CODEOWNERS line 4: /web/ (Web)\n  any one may approve: @acme/web @alice", "gen/x\n  CODEOWNERS line 5: /gen/ (Web)\n  nobody has to approve it")
	})
	t.Run("json", func(t *testing.T) {
		_, out, _ := call(t, "why", "--directory", dir, "--json", "web/x.ts")
		l := decode[whyLine](t, out)
		if l.Line != 4 || l.Pattern != "/web/" || len(l.Groups) != 1 || len(l.Groups[0].Owners) != 2 {
			t.Errorf("%+v", l)
		}
	})
	t.Run("rules that are at fault are told", func(t *testing.T) {
		write(".github/countersign.toml", "schema_version = 1\nenabled = \"yes\"\n")
		if code, _, errOut := call(t, "why", "--directory", dir, "a.go"); code != exitFindings || !strings.Contains(errOut, "invalid_policy") {
			t.Errorf("%d %q", code, errOut)
		}
	})
	t.Run("paths that git cannot have are refused", func(t *testing.T) {
		for _, path := range []string{"/a", "a//b", "a/", "../a", "a\xff"} {
			if code, _, errOut := call(t, "why", "--directory", dir, path); code != exitUsage || !strings.Contains(errOut, "path") {
				t.Errorf("%q: %d %q", path, code, errOut)
			}
		}
	})
}
