// Fuzz runs every fuzz test below the given directories, one after another, for a
// while each: what `go test -fuzz` can only do for one at a time.
//
//	fuzz -time 10s . test tools
//
// It stops at the first failure; go leaves the failing input in testdata/fuzz, to be committed with the fix.
package main

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// target is one fuzz test.
type target struct{ dir, name string }

func main() {
	each := flag.Duration("time", 10*time.Second, "how long to fuzz each test")
	match := flag.String("run", "", "only tests whose name contains this")
	flag.Parse()
	if err := run(*each, *match, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "fuzz:", err)
		os.Exit(1)
	}
}

func run(each time.Duration, match string, roots []string) error {
	if len(roots) == 0 {
		roots = []string{"."}
	}
	seen := map[target]bool{}
	for _, root := range roots {
		targets, err := find(root)
		if err != nil {
			return err
		}
		for _, t := range targets {
			if seen[t] || !strings.Contains(t.name, match) {
				continue
			}
			seen[t] = true
			fmt.Printf("fuzz %s %s for %s\n", t.dir, t.name, each)
			cmd := exec.Command("go", "test", "-run=^$", "-fuzz=^"+t.name+"$", "-fuzztime="+each.String(), ".")
			cmd.Dir = t.dir
			cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
			if err := cmd.Run(); err != nil {
				return fmt.Errorf("%s in %s: %w", t.name, t.dir, err)
			}
		}
	}
	if len(seen) == 0 {
		return fmt.Errorf("no fuzz test below %s", strings.Join(roots, ", "))
	}
	fmt.Printf("%d fuzz tests held\n", len(seen))
	return nil
}

// find lists the fuzz tests below root by reading their declarations, which costs no compilation.
func find(root string) ([]target, error) {
	var out []target
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "node_modules"):
			return filepath.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Fuzz") {
				out = append(out, target{filepath.Clean(filepath.Dir(path)), f.Name.Name})
			}
		}
		return nil
	})
	return out, err
}
