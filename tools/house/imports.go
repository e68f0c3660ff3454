package house

import (
	"fmt"
	"strings"
)

// boundary says that packages below Prefix are imported only from the
// directories Home (and what lies below them).
type boundary struct {
	Prefix string
	Home   []string
	// Tests may import it from anywhere.
	Tests bool
	Why   string
}

// boundaries of the design: SQL, GitHub and NATS each have one home.
var boundaries = []boundary{
	{Prefix: "github.com/jackc/pgx/", Home: []string{"pkg/store", "test/bench", "test/chaos"}, Tests: true, Why: "SQL lives only in pkg/store: add a method there"},
	{Prefix: "github.com/pressly/goose/", Home: []string{"pkg/store"}, Why: "migrations live only in pkg/store"},
	{Prefix: "database/sql", Home: []string{"pkg/store"}, Why: "SQL lives only in pkg/store: add a method there"},
	{Prefix: "github.com/google/go-github/", Home: []string{"pkg/ghclient"}, Tests: true, Why: "GitHub's API lives only in pkg/ghclient: add a method there"},
	{Prefix: "github.com/shurcooL/", Home: []string{"pkg/ghclient"}, Tests: true, Why: "GitHub's API lives only in pkg/ghclient: add a method there"},
	{Prefix: "github.com/nats-io/", Home: []string{"pkg/nudge"}, Why: "NATS lives only in pkg/nudge: add a method there"},
	{Prefix: Module + "/pkg/store/storetest", Home: []string{"pkg/store", "internal/rig", "test"}, Tests: true, Why: "test databases are for tests"},
	{Prefix: Module + "/pkg/store/localpg", Home: []string{"pkg/store", "cmd/countersign", "test", "tools"}, Why: "the private PostgreSQL is for development and tests; production brings its own"},
}

// forbiddenNames are packages that would hold everything and say nothing.
var forbiddenNames = []string{"util", "utils", "common", "helper", "helpers", "model", "models", "types", "misc", "base"}

// CheckImports returns one line for each broken import rule, in the order of the files.
func CheckImports(files []File) []string {
	var broken []string
	for _, f := range files {
		for _, name := range forbiddenNames {
			if f.Package == name {
				broken = append(broken, fmt.Sprintf("%s: no package is named %s: name it for what it owns", f.Path, name))
			}
		}
		for _, imp := range f.Imports {
			if why := judge(f, imp.Path); why != "" {
				broken = append(broken, fmt.Sprintf("%s:%d: imports %s: %s", f.Path, imp.Line, imp.Path, why))
			}
		}
	}
	return broken
}

// judge returns why the file may not import the path, or nothing.
func judge(f File, path string) string {
	for _, b := range boundaries {
		if !strings.HasPrefix(path, b.Prefix) || (b.Tests && f.Test) || below(f.Dir(), b.Home...) {
			continue
		}
		return b.Why
	}
	mine, theirs := service(f.Dir()), service(strings.TrimPrefix(path, Module+"/"))
	if theirs != "" && strings.HasPrefix(path, Module+"/") {
		switch {
		case mine != "" && mine != theirs:
			return "services never import each other: share through pkg/, or through a row"
		case below(f.Dir(), "pkg"):
			return "pkg/ is what services stand on, and imports none"
		}
	}
	return ""
}

// service returns the name of the service that a directory belongs to, or nothing.
func service(dir string) string {
	rest, ok := strings.CutPrefix(dir, "services/")
	if !ok {
		return ""
	}
	name, _, _ := strings.Cut(rest, "/")
	return name
}

func below(dir string, homes ...string) bool {
	for _, home := range homes {
		if dir == home || strings.HasPrefix(dir, home+"/") {
			return true
		}
	}
	return false
}

// CheckDocs returns the directories whose package has no package comment: doc.go
// says what a package owns, guarantees and does not check.
func CheckDocs(files []File) []string {
	documented, dirs := map[string]bool{}, []string{}
	seen := map[string]bool{}
	for _, f := range files {
		if f.Test || f.Made {
			continue
		}
		documented[f.Dir()] = documented[f.Dir()] || f.Doc
		if !seen[f.Dir()] {
			seen[f.Dir()] = true
			dirs = append(dirs, f.Dir())
		}
	}
	var broken []string
	for _, dir := range dirs {
		if !documented[dir] {
			broken = append(broken, dir+": no package comment: add a doc.go that says what the package owns, guarantees and does not check")
		}
	}
	return broken
}
