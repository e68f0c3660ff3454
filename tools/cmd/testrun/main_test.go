package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRunReturnsGoTestsStatusAndKeepsTheEvents(t *testing.T) { // t.Chdir: not parallel
	for _, tc := range []struct {
		name, body string
		code       int
		want       string
	}{
		{"passing", "", 0, `"Action":"pass","Package":"example.com/m","Test":"TestX"`},
		{"failing", `t.Error("no")`, 1, `"Action":"fail","Package":"example.com/m","Test":"TestX"`},
		{"not compiling", `undefined()`, 1, `"Action":"build-fail"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, filepath.Join(dir, "go.mod"), "module example.com/m\n\ngo 1.26.0\n")
			write(t, filepath.Join(dir, "x_test.go"), "package m\n\nimport \"testing\"\n\nfunc TestX(t *testing.T) { "+tc.body+" }\n")
			t.Chdir(dir)
			t.Setenv("GOWORK", "off")
			store := filepath.Join(dir, "events", "test.json")
			code, err := run(store, []string{"-vet=off", "./..."})
			if err != nil {
				t.Fatal(err)
			}
			if code != tc.code {
				t.Errorf("run = %d, want %d", code, tc.code)
			}
			events, err := os.ReadFile(store)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(events), tc.want) {
				t.Errorf("the stored events lack %s:\n%s", tc.want, events)
			}
			if _, err := os.Stat(store + ".part"); !os.IsNotExist(err) {
				t.Errorf("the unfinished file is still there (%v)", err)
			}
		})
	}
}

func TestWithoutLibpq(t *testing.T) {
	t.Parallel()
	got := withoutLibpq([]string{"PATH=/bin", "PGHOST=elsewhere", "PGPASSWORD=", "HOME=/h", "COUNTERSIGN_PG=1"})
	if diff := cmp.Diff([]string{"PATH=/bin", "HOME=/h", "COUNTERSIGN_PG=1"}, got); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
}

func write(t *testing.T, path, body string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(body), 0o644); err != nil {
		t.Fatal(err)
	}
}
