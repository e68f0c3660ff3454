package house

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Module is the import path of the root module.
const Module = "github.com/countersign/countersign"

// File is one Go source file of the tree.
type File struct {
	Path    string // slash-separated, from the root of the repository
	Package string
	Imports []Import
	Doc     bool // has a package comment
	Lines   int
	Test    bool
	Made    bool // generated: says so in its first lines
}

// Import is one import of a file.
type Import struct {
	Path string
	Line int
}

// Dir returns the directory of the file, from the root of the repository.
func (f File) Dir() string {
	if i := strings.LastIndexByte(f.Path, '/'); i >= 0 {
		return f.Path[:i]
	}
	return "."
}

// Root returns the root of the repository: the nearest parent of dir with a go.work.
func Root(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	for d := dir; ; d = filepath.Dir(d) {
		if _, err := os.Stat(filepath.Join(d, "go.work")); err == nil {
			return d, nil
		}
		if d == filepath.Dir(d) {
			return "", fmt.Errorf("no go.work above %s", dir)
		}
	}
}

// skipDir leaves out what is not the repository's: hidden directories, test
// data, downloads, and the folder that .gitignore names.
func skipDir(name string) bool {
	switch name {
	case "testdata", "node_modules", "internal_warm", "bin":
		return true
	}
	return strings.HasPrefix(name, ".") && name != "." && name != ".github" && name != ".ci"
}

// Walk calls f for every file below root that the repository could own.
func Walk(root string, f func(path string) error) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if path != root && skipDir(d.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		return f(filepath.ToSlash(rel))
	})
}

// GoFiles parses the imports of every Go file below root.
func GoFiles(root string) ([]File, error) {
	var out []File
	err := Walk(root, func(path string) error {
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		src, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			return err
		}
		file, err := ParseFile(path, src)
		if err != nil {
			return err
		}
		out = append(out, file)
		return nil
	})
	return out, err
}

// ParseFile reads what the rules need of one Go file.
func ParseFile(path string, src []byte) (File, error) {
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, path, src, parser.ImportsOnly|parser.ParseComments)
	if err != nil {
		return File{}, err
	}
	f := File{
		Path:    path,
		Package: parsed.Name.Name,
		Doc:     parsed.Doc != nil,
		Lines:   strings.Count(string(src), "\n"),
		Test:    strings.HasSuffix(path, "_test.go"),
		Made:    ast.IsGenerated(parsed),
	}
	for _, spec := range parsed.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return File{}, err
		}
		f.Imports = append(f.Imports, Import{Path: p, Line: fset.Position(spec.Pos()).Line})
	}
	return f, nil
}
