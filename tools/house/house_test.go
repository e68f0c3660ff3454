package house

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/countersign/countersign/tools/conformance"
)

func root(t *testing.T) string {
	t.Helper()
	dir, err := Root(".")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func report(t *testing.T, broken []string, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range broken {
		t.Error(line)
	}
}

func TestImports(t *testing.T) {
	t.Parallel()
	files, err := GoFiles(root(t))
	report(t, CheckImports(files), err)
}

func TestEveryPackageSaysWhatItIs(t *testing.T) {
	t.Parallel()
	files, err := GoFiles(root(t))
	report(t, CheckDocs(files), err)
}

func TestLinks(t *testing.T) {
	t.Parallel()
	broken, err := CheckLinks(root(t))
	report(t, broken, err)
}

func TestNamedSpecLinesExist(t *testing.T) {
	t.Parallel()
	f, err := os.Open(filepath.Join(root(t), "docs/spec/review-gate.md"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sections, err := conformance.ParseSpec(f)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, s := range sections {
		for _, id := range s.IDs {
			known[id] = true
		}
	}
	broken, err := CheckIDs(root(t), known)
	report(t, broken, err)
}

func TestNamedTestsExist(t *testing.T) {
	t.Parallel()
	broken, err := CheckNamedTests(root(t))
	report(t, broken, err)
}

// A module that go.work does not use is built by nobody and tested by nobody, but where a target of the Makefile does both.
func TestEveryModuleIsInTheWorkspace(t *testing.T) {
	t.Parallel()
	dir := root(t)
	work, err := os.ReadFile(filepath.Join(dir, "go.work"))
	if err != nil {
		t.Fatal(err)
	}
	targets, err := os.ReadFile(filepath.Join(dir, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	err = Walk(dir, func(p string) error {
		if filepath.Base(p) != "go.mod" {
			return nil
		}
		use := "./" + filepath.ToSlash(filepath.Dir(p))
		if use == "./." {
			use = "."
		}
		if strings.Contains(string(targets), "cd "+strings.TrimPrefix(use, "./")+" && GOWORK=off") {
			return nil
		}
		if !regexp.MustCompile(`(?m)^\s+` + regexp.QuoteMeta(use) + `$`).Match(work) {
			t.Errorf("%s: go.work does not use %s: make test would pass it by", p, use)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestEveryDecisionIsListed(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(root(t), "docs", "decisions")
	index, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	records, err := filepath.Glob(filepath.Join(dir, "[0-9]*.md"))
	if err != nil || len(records) == 0 {
		t.Fatalf("found %d records: %v", len(records), err)
	}
	for _, path := range records {
		body, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		heading, _, _ := strings.Cut(string(body), "\n")
		number, title, _ := strings.Cut(strings.TrimPrefix(heading, "# "), " ")
		row := "| [" + number + "](" + filepath.Base(path) + ") | " + title + " |\n"
		if !strings.Contains(string(index), row) {
			t.Errorf("docs/decisions/README.md lacks the row %s", row)
		}
	}
}

// The README must stay readable in one go.
func TestTheReadmeIsShort(t *testing.T) {
	t.Parallel()
	body, err := os.ReadFile(filepath.Join(root(t), "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(body), "\n"); n >= 150 {
		t.Errorf("README.md has %d lines, want fewer than 150: move detail to docs/", n)
	}
}

func TestCheckImportsFindsEveryKind(t *testing.T) {
	t.Parallel()
	parse := func(path, src string) File {
		t.Helper()
		f, err := ParseFile(path, []byte(src))
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	for _, tc := range []struct {
		path, src, want string
	}{
		{"services/ingress/a.go", `import "` + Module + `/services/evaluator"`, "services never import each other"},
		{"services/ingress/sub/a.go", `import "` + Module + `/services/ingress"`, ""},
		{"pkg/store/a.go", `import "` + Module + `/services/ingress"`, "imports none"},
		{"cmd/countersign/a.go", `import "` + Module + `/services/ingress"`, ""},
		{"services/ingress/a.go", `import "github.com/jackc/pgx/v5"`, "SQL lives only in pkg/store"},
		{"services/ingress/a_test.go", `import "github.com/jackc/pgx/v5"`, ""},
		{"pkg/store/storetest/a.go", `import "github.com/jackc/pgx/v5"`, ""},
		{"pkg/storefront/a.go", `import "github.com/jackc/pgx/v5"`, "SQL lives only in pkg/store"},
		{"services/evaluator/a.go", `import "github.com/google/go-github/v66/github"`, "only in pkg/ghclient"},
		{"services/evaluator/a.go", `import "github.com/nats-io/nats.go"`, "NATS lives only in pkg/nudge"},
		{"services/evaluator/a_test.go", `import "github.com/nats-io/nats.go"`, "NATS lives only in pkg/nudge"},
		{"services/ingress/a.go", `import "` + Module + `/pkg/store/localpg"`, "production brings its own"},
	} {
		got := strings.Join(CheckImports([]File{parse(tc.path, "package x\n"+tc.src+"\n")}), "\n")
		if (tc.want == "") != (got == "") || !strings.Contains(got, tc.want) {
			t.Errorf("%s with %s: got %q, want %q", tc.path, tc.src, got, tc.want)
		}
	}
	if got := CheckImports([]File{parse("pkg/util/a.go", "package util\n")}); len(got) != 1 {
		t.Errorf("a package named util: got %q", got)
	}
}

func TestCheckDocs(t *testing.T) {
	t.Parallel()
	got := CheckDocs([]File{
		{Path: "a/a.go"}, {Path: "a/doc.go", Doc: true}, {Path: "b/b.go"}, {Path: "c/c_test.go", Test: true}, {Path: "d/d.pb.go", Made: true},
	})
	if len(got) != 1 || !strings.HasPrefix(got[0], "b: ") {
		t.Errorf("got %q, want b alone", got)
	}
}

func TestLinksAndAnchors(t *testing.T) {
	t.Parallel()
	const page = "# One *bold* `Title`\n" +
		"[a](b.md) and [c](d.md#e \"title\") and [site](https://example.com) `[no](code.md)`\n" +
		"```\n[no](fence.md)\n# No heading\n```\n" +
		"[ref]: other.md\n## Same\n## Same\n<a id=\"named\"></a>\n"
	want := []Link{{2, "b.md"}, {2, "d.md#e"}, {7, "other.md"}}
	if diff := cmp.Diff(want, Links(page)); diff != "" {
		t.Errorf("links (-want +got):\n%s", diff)
	}
	anchors := map[string]bool{"one-bold-title": true, "same": true, "same-1": true, "named": true}
	if diff := cmp.Diff(anchors, Anchors(page)); diff != "" {
		t.Errorf("anchors (-want +got):\n%s", diff)
	}
}

func TestCheckNamedTestsFindsWhatIsGone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, body := range map[string]string{
		"pkg/a/a_test.go": "package a\n\nfunc TestThere(t *testing.T) {}\nfunc FuzzThere(f *testing.F) {}\n",
		"docs/x.md":       "`pkg/a TestThere` `pkg/a FuzzThere` `pkg/a TestGone` `pkg/b TestThere` `go test`\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(body), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := CheckNamedTests(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"docs/x.md:1: pkg/a has no TestGone", "docs/x.md:1: pkg/b has no TestThere"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCheckLinksFindsWhatLeadsNowhere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, body string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(body), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("README.md", "[ok](docs/a.md#here) [none](docs/b.md) [away](../up.md) [dir](docs) [self](#top)\n# Top\n")
	write("docs/a.md", "# Here\n[up](../README.md#top)\n[lost](../README.md#bottom)\n")
	got, err := CheckLinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"README.md:1: link to docs/b.md: no such file",
		"README.md:1: link to ../up.md: leaves the repository",
		"docs/a.md:3: link to ../README.md#bottom: no such heading",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("broken links (-want +got):\n%s", diff)
	}
}
