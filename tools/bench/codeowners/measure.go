package main

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/hmarr/codeowners"

	"github.com/countersign/countersign/pkg/policy"
	"github.com/countersign/countersign/pkg/policy/codeownersgen"
)

// row is one line of the table. The times are CPU time; those of the other
// library's matching are of a sample of the paths, scaled up, where sample < paths.
type row struct {
	rules, bytes, paths, sample, agree             int
	ourCompile, ourMatch, theirCompile, theirMatch time.Duration
}

// measure fills one row for each number of paths.
func measure(text []byte, pathCounts []int, budget time.Duration) ([]row, error) {
	text = comparable(text)
	var ours *policy.Codeowners
	ourCompile := best(9, func() { ours = policy.ParseCodeowners("CODEOWNERS", text) })
	if !ours.Valid() {
		return nil, fmt.Errorf("problem: %s", ours.Problems()[0])
	}
	var theirs codeowners.Ruleset
	var err error
	theirCompile := best(3, func() { theirs, err = codeowners.ParseFile(bytes.NewReader(text)) })
	if err != nil {
		return nil, err
	}
	if len(theirs) != len(ours.Rules()) {
		return nil, fmt.Errorf("%d rules here and %d there", len(ours.Rules()), len(theirs))
	}
	rows := make([]row, 0, len(pathCounts))
	for _, n := range pathCounts {
		r := row{rules: len(theirs), bytes: len(text), paths: n, ourCompile: ourCompile, theirCompile: theirCompile}
		paths := codeownersgen.Paths(n, len(theirs))
		var got []policy.Ownership
		r.ourMatch = best(9, func() { got = ours.MatchAll(paths) })
		if err := r.matchTheirs(theirs, paths, got, budget); err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// matchTheirs gives the other library the paths, in an order that spreads over
// them, until the time is used up, and compares the owners it finds.
func (r *row) matchTheirs(theirs codeowners.Ruleset, paths []string, got []policy.Ownership, budget time.Duration) error {
	var spent time.Duration
	const stride = 7919 // a prime: i*stride visits every path once
	for i := range paths {
		at := i * stride % len(paths)
		start := cpuTime()
		rule, err := theirs.Match(paths[at])
		spent += cpuTime() - start
		if err != nil {
			return err
		}
		r.sample++
		if owners(rule) == ownership(got[at]) {
			r.agree++
		}
		if spent > budget {
			break
		}
	}
	r.theirMatch = time.Duration(float64(spent) * float64(len(paths)) / float64(r.sample))
	return nil
}

func owners(rule *codeowners.Rule) string {
	if rule == nil {
		return "-"
	}
	var names []string
	for _, owner := range rule.Owners {
		names = append(names, strings.ToLower(owner.String()))
	}
	return fmt.Sprint(rule.LineNumber, names)
}

func ownership(o policy.Ownership) string {
	if !o.Matched {
		return "-"
	}
	var names []string
	for _, owner := range o.Owners {
		names = append(names, owner.String())
	}
	return fmt.Sprint(o.Line, names)
}

// comparable keeps the lines that both libraries take. The other one panics on
// the pattern "/", ends at a line over 64 KiB without a word, and refuses the
// whole file for one bad line.
func comparable(text []byte) []byte {
	bad := make(map[int]bool)
	for _, problem := range policy.ParseCodeowners("CODEOWNERS", text).Problems() {
		bad[problem.Line] = true
	}
	lines := bytes.Split(text, []byte("\n"))
	for i, line := range lines {
		if bad[i+1] || len(line) >= 64<<10 || refused(line) {
			lines[i] = nil
		}
	}
	return bytes.Join(lines, []byte("\n"))
}

func refused(line []byte) bool {
	if fields := bytes.Fields(line); len(fields) > 0 && string(fields[0]) == "/" {
		return true
	}
	_, err := codeowners.ParseFile(bytes.NewReader(line))
	return err != nil
}

// best measures f several times and returns the shortest CPU time of one run. A
// short run is repeated, so that the clock's own cost and cold caches do not show.
// The memory of what came before is collected first: nobody pays for the other.
func best(times int, f func()) time.Duration {
	const enough = 5 * time.Millisecond
	runs := make([]time.Duration, times)
	for i := range runs {
		runtime.GC()
		n, start := 0, cpuTime()
		for spent := time.Duration(0); spent < enough; spent = cpuTime() - start {
			f()
			n++
		}
		runs[i] = (cpuTime() - start) / time.Duration(n)
	}
	return slices.Min(runs)
}
