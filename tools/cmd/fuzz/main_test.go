package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFind(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for path, body := range map[string]string{
		"a/a_test.go":          "package a\n\nfunc FuzzOne() {}\nfunc FuzzTwo() {}\nfunc TestOne() {}\ntype T int\nfunc (T) FuzzMethod() {}\n",
		"a/a.go":               "package a\n\nfunc FuzzNotATest() {}\n",
		"a/testdata/b_test.go": "package b\n\nfunc FuzzData() {}\n",
		".hidden/c_test.go":    "package c\n\nfunc FuzzHidden() {}\n",
	} {
		full := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(body), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := find(root)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(root, "a")
	if diff := cmp.Diff([]target{{dir, "FuzzOne"}, {dir, "FuzzTwo"}}, got, cmp.AllowUnexported(target{})); diff != "" {
		t.Errorf("fuzz tests (-want +got):\n%s", diff)
	}
}
