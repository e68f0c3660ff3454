package main

import (
	"strings"
	"testing"
	"time"

	"github.com/countersign/countersign/pkg/policy/codeownersgen"
)

// On files that both libraries take they name the same line and owners for every
// path; otherwise the times would compare different work.
func TestMeasureAgrees(t *testing.T) {
	t.Parallel()
	rows, err := measure(codeownersgen.File(500), []int{30, 200}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if r.rules != 500 || r.sample != r.paths || r.agree != r.sample {
			t.Errorf("%d rules, %d paths: %d of %d agree", r.rules, r.paths, r.agree, r.sample)
		}
	}
}

func TestMeasureScalesASample(t *testing.T) {
	t.Parallel()
	rows, err := measure(codeownersgen.File(500), []int{100}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if r := rows[0]; r.sample != 1 || r.theirMatch <= 0 {
		t.Errorf("with no budget: %+v", r)
	}
}

func TestComparableRemovesWhatTheOtherCannotTake(t *testing.T) {
	t.Parallel()
	text := "* @all\n/ @x\n/日本 @y\n[a] @z\n/a @ok\n/b " + strings.Repeat("@x ", 30_000) + "\n# end\n"
	if got, want := string(comparable([]byte(text))), "* @all\n\n\n\n/a @ok\n\n# end\n"; got != want {
		t.Errorf("comparable lines %q, want %q", got, want)
	}
	if _, err := measure([]byte(text), []int{5}, time.Minute); err != nil {
		t.Error(err)
	}
}
