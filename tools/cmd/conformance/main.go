// Conformance prints, for every section of docs/spec/review-gate.md, the ids
// that a passing test names and those that none does, and the totals as its last line.
//
// It reads the events that `make test` stored and runs the tests when there are
// none. It exits with 1 when a test claims an id that the specification does not have.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/countersign/countersign/tools/conformance"
	"github.com/countersign/countersign/tools/gotest"
)

func main() {
	specPath := flag.String("spec", "docs/spec/review-gate.md", "the specification")
	events := flag.String("json", ".cache/test.json", "the events of the last test run")
	flag.Parse()
	if err := run(*specPath, *events); err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

func run(specPath, events string) error {
	if _, err := os.Stat(events); os.IsNotExist(err) {
		fmt.Printf("no test run in %s: running make test\n", events)
		cmd := exec.Command("make", "test")
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Run(); err != nil {
			fmt.Println("make test:", err) // a failed run still is one: its ids count as without
		}
	}
	specFile, err := os.Open(specPath)
	if err != nil {
		return err
	}
	defer specFile.Close()
	spec, err := conformance.ParseSpec(specFile)
	if err != nil {
		return fmt.Errorf("%s: %w", specPath, err)
	}
	f, err := os.Open(events)
	if err != nil {
		return err
	}
	defer f.Close()
	results, err := gotest.Read(f)
	if err != nil {
		return fmt.Errorf("%s: %w", events, err)
	}
	if info, err := f.Stat(); err == nil {
		fmt.Printf("test run of %s, %d tests and subtests\n", info.ModTime().Format(time.DateTime), len(results))
	}
	report := conformance.Compare(spec, results)
	report.Write(os.Stdout)
	if len(report.Unknown) > 0 {
		return fmt.Errorf("%d claimed ids are not in %s", len(report.Unknown), specPath)
	}
	return nil
}
