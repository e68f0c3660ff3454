// Command codeowners measures pkg/policy's CODEOWNERS against
// github.com/hmarr/codeowners, in one process on one file, and prints the tables
// of docs/performance.md.
//
// Times are CPU time of the process, so that a busy machine does not change them
// much; the best of several runs counts, but for the other library's matching,
// which runs once.
//
// It lives in a module of its own so that the other library is no dependency of
// Countersign. Lines which that library cannot take are removed for both; in the
// generated files there are none.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"github.com/countersign/countersign/pkg/policy/codeownersgen"
)

func main() {
	file := flag.String("file", "", "measure this CODEOWNERS file instead of generated ones")
	budget := flag.Duration("budget", 3*time.Second, "time after which the slower library is given no more paths of a cell")
	flag.Parse()
	if err := run(os.Stdout, *file, *budget); err != nil {
		fmt.Fprintln(os.Stderr, "codeowners:", err)
		os.Exit(1)
	}
}

func run(w io.Writer, file string, budget time.Duration) error {
	fmt.Fprintf(w, "%s %s/%s, GOMAXPROCS=%d\n\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0))
	var all []row
	if file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if all, err = measure(text, []int{3_000}, budget); err != nil {
			return err
		}
		print(w, all)
		return nil
	}
	for _, rules := range []int{100, 1_000, 10_000, 50_000} {
		rows, err := measure(codeownersgen.File(rules), []int{30, 300, 3_000, 30_000}, budget)
		if err != nil {
			return fmt.Errorf("%d rules: %w", rules, err)
		}
		all = append(all, rows...)
	}
	print(w, all)
	return nil
}

func print(w io.Writer, rows []row) {
	fmt.Fprintln(w, "| rules | KiB | paths | compile | match | ns/path | hmarr compile | hmarr match | match ratio | both ratio | same owners |")
	fmt.Fprintln(w, "|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
	for _, r := range rows {
		sampled := ""
		if r.sample < r.paths {
			sampled = fmt.Sprintf(" (of %d)", r.sample)
		}
		fmt.Fprintf(w, "| %d | %d | %d | %s | %s | %d | %s | %s%s | %.0f× | %.0f× | %d/%d |\n",
			r.rules, r.bytes/1024, r.paths, short(r.ourCompile), short(r.ourMatch), int(r.ourMatch)/r.paths,
			short(r.theirCompile), short(r.theirMatch), sampled,
			ratio(r.theirMatch, r.ourMatch), ratio(r.theirCompile+r.theirMatch, r.ourCompile+r.ourMatch), r.agree, r.sample)
	}
}

func ratio(theirs, ours time.Duration) float64 { return float64(theirs) / float64(ours) }

// short prints a duration with three digits.
func short(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return fmt.Sprintf("%.3g µs", float64(d)/float64(time.Microsecond))
	case d < time.Second:
		return fmt.Sprintf("%.3g ms", float64(d)/float64(time.Millisecond))
	default:
		return fmt.Sprintf("%.3g s", d.Seconds())
	}
}
