package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestHunt: of a package whose tests leave one boundary open, exactly that mutant is alive.
func TestHunt(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.com/bounds\n\ngo 1.24\n",
		"bounds.go": `package bounds

// In reports whether n is from 1 to 10 and even.
func In(n int) bool {
	return n >= 1 && n <= 10 &&
		n%2 == 0
}

// Sum adds the numbers that are in.
func Sum(list []int) (sum int) {
	for _, n := range list {
		if !In(n) {
			continue
		}
		sum = sum + n
	}
	return sum
}
`,
		"bounds_test.go": `package bounds

import "testing"

func TestIn(t *testing.T) {
	for n, want := range map[int]bool{-2: false, 0: false, 2: true, 3: false, 8: true, 12: false} {
		if In(n) != want {
			t.Error(n)
		}
	}
	if Sum([]int{2, 4, 5}) != 6 {
		t.Error("sum")
	}
}
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("GOWORK", "off")
	t.Setenv("GOFLAGS", "-mod=mod")
	temp := t.TempDir()
	list, err := plant(dir, regexp.MustCompile("."), temp)
	if err != nil {
		t.Fatal(err)
	}
	b, err := build(dir, temp, settings{skip: "^$", timeout: 20 * time.Second, quick: time.Minute, parallel: 2})
	if err != nil {
		t.Fatal(err)
	}
	alive, err := b.hunt(list)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range alive {
		got = append(got, m.String())
	}
	// n is never 1 or 10 in the test; 1 is odd, so that its bound cannot be told from >, and 10's could.
	want := []string{
		"bounds.go:5: >= becomes > in: return n >= 1 && n <= 10 &&",
		"bounds.go:5: <= becomes < in: return n >= 1 && n <= 10 &&",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("alive:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if len(list) != 8 {
		t.Errorf("%d mutants planted: %v", len(list), list)
	}
	t.Run("a test that fails by itself is named", func(t *testing.T) {
		if err := os.WriteFile(filepath.Join(dir, "other_test.go"), []byte("package bounds\n\nimport \"testing\"\n\nfunc TestRed(t *testing.T) { t.Fatal(1) }\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := build(dir, temp, settings{skip: "^$", timeout: time.Second, quick: time.Second, parallel: 1}); err == nil || !strings.Contains(err.Error(), "TestRed") {
			t.Errorf("error %v", err)
		}
	})
}
