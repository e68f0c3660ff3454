package policy_test

import (
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// allowed is everything this package may import: text, data and hashing. No
// clock beyond the type of a time, no file, no network, no goroutine.
var allowed = []string{
	"bytes", "cmp", "crypto/sha256", "embed", "encoding/hex", "encoding/json", "errors", "fmt", "io", "maps", "math", "math/bits", "slices", "sort",
	"strconv", "strings", "time", "unicode", "unicode/utf8",
	"hash/maphash", // the index compares what it finds: the seed decides speed, never an answer
	"github.com/pelletier/go-toml/v2", "github.com/pelletier/go-toml/v2/unstable",
}

func TestPurity(t *testing.T) {
	t.Parallel()
	t.Run("RG-003 RG-009 direct imports are on the allow-list", func(t *testing.T) {
		t.Parallel()
		for name, src := range sources(t) {
			file, err := parser.ParseFile(token.NewFileSet(), name, src, parser.ImportsOnly)
			if err != nil {
				t.Fatal(err)
			}
			for _, spec := range file.Imports {
				path, _ := strconv.Unquote(spec.Path.Value)
				if !slices.Contains(allowed, path) {
					t.Errorf("%s imports %s; this package is pure: take it out, or argue for it in a decision record", name, path)
				}
			}
		}
	})
	t.Run("RG-003 importing it pulls in no HTTP, socket, database or process module", func(t *testing.T) {
		t.Parallel()
		out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
		if err != nil {
			t.Fatalf("go list: %v", err)
		}
		deps := strings.Fields(string(out))
		if len(deps) < 20 {
			t.Fatalf("go list gave only %d packages", len(deps))
		}
		for _, dep := range deps {
			for _, bad := range []string{"net", "net/http", "database/sql", "os/exec", "os/signal", "crypto/tls", "log", "log/slog", "math/rand", "plugin"} {
				if dep == bad {
					t.Errorf("importing the package pulls in %s", dep)
				}
			}
			if strings.Contains(dep, "countersign/") && !strings.HasSuffix(dep, "/pkg/policy") {
				t.Errorf("RG-009: importing the package pulls in %s", dep)
			}
		}
	})
	t.Run("RG-004 no clock, no goroutine, no environment", func(t *testing.T) {
		t.Parallel()
		for name, src := range sources(t) {
			for _, bad := range []string{"time.Now", "time.Since", "time.After", "time.Sleep", "time.Local", "\tgo ", "select {", "chan ", "os.", "//go:linkname", "unsafe."} {
				if strings.Contains(src, bad) {
					t.Errorf("%s contains %q", name, bad)
				}
			}
		}
	})
}

func sources(t *testing.T) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".go") && !strings.HasSuffix(e.Name(), "_test.go") {
			src, err := os.ReadFile(e.Name())
			if err != nil {
				t.Fatal(err)
			}
			out[e.Name()] = string(src)
		}
	}
	if len(out) < 10 {
		t.Fatalf("only %d source files found", len(out))
	}
	return out
}
