// Mutants asks of one package's tests whether they can fail: it changes one operator, condition or jump at a time, runs the tests,
// and lists the changes that no test noticed.
//
//	mutants -dir pkg/policy                        every file
//	mutants -dir pkg/policy -files 'judge|groups'  those whose name matches
//	mutants -dir pkg/policy -skip TestImports      without tests that look at the source itself
//
// All mutants are compiled into one test binary, and one environment variable picks the one that is alive; a run therefore costs
// what the tests cost, and no compilation. Quick tests run first, slow ones only for what they left alive. A mutant that runs longer
// than -timeout counts as noticed. It prints each survivor with file, line and change, and a summary as its last line.
// The source is not touched: the changed files are given to the compiler as an overlay.
package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"time"
)

func main() {
	dir := flag.String("dir", "", "directory of the package")
	files := flag.String("files", ".", "regular expression of file names to change")
	skip := flag.String("skip", "^$", "regular expression of tests to leave out")
	timeout := flag.Duration("timeout", time.Minute, "how long a mutant may run")
	quick := flag.Duration("quick", 100*time.Millisecond, "tests that take longer run only for mutants that the others left alive")
	parallel := flag.Int("parallel", runtime.NumCPU(), "mutants at the same time")
	flag.Parse()
	pattern, err := regexp.Compile(*files)
	if err == nil && *dir == "" {
		err = fmt.Errorf("-dir is missing: name the directory of a package")
	}
	if err == nil {
		err = run(*dir, pattern, settings{skip: *skip, timeout: *timeout, quick: *quick, parallel: *parallel})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(dir string, files *regexp.Regexp, s settings) error {
	temp, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	list, err := plant(dir, files, temp)
	if err != nil {
		return err
	}
	b, err := build(dir, temp, s)
	if err != nil {
		return err
	}
	alive, err := b.hunt(list)
	if err != nil {
		return err
	}
	for _, m := range alive {
		fmt.Println(m)
	}
	fmt.Printf("mutants: %d planted, %d noticed, %d alive\n", len(list), len(list)-len(alive), len(alive))
	return nil
}
