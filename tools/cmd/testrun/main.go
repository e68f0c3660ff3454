// Testrun runs `go test -json` with the given arguments, prints go test's plain
// output, and stores the events for `make conformance`, so that the tests run once.
//
//	testrun -json .cache/test.json -- -race work
//
// Its exit status is go test's. The file appears under its name only when the
// run ended, whether it passed or not; an interrupted run leaves the former one.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/countersign/countersign/tools/gotest"
)

func main() {
	store := flag.String("json", ".cache/test.json", "where the events of the run are stored")
	flag.Parse()
	code, err := run(*store, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "testrun:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func run(store string, args []string) (int, error) {
	if err := os.MkdirAll(filepath.Dir(store), 0o755); err != nil {
		return 1, err
	}
	f, err := os.Create(store + ".part")
	if err != nil {
		return 1, err
	}
	defer f.Close()
	raw := bufio.NewWriter(f)

	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Env = withoutLibpq(os.Environ())
	cmd.Stderr = os.Stderr
	events, err := cmd.StdoutPipe()
	if err != nil {
		return 1, err
	}
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	printer := gotest.NewPrinter(os.Stdout)
	copyErr := printer.Copy(events, raw)
	waitErr := cmd.Wait()
	printer.Summary()
	if err := errors.Join(copyErr, raw.Flush(), f.Close()); err != nil {
		return 1, err
	}
	if err := os.Rename(store+".part", store); err != nil {
		return 1, err
	}
	if exit, ok := errors.AsType[*exec.ExitError](waitErr); ok {
		return max(exit.ExitCode(), 1), nil
	}
	return 0, waitErr
}

// withoutLibpq drops the variables that would make the services refuse to start
// (RG-450): a developer's own PGHOST is no concern of the tests.
func withoutLibpq(env []string) []string {
	var out []string
	for _, kv := range env {
		if !strings.HasPrefix(kv, "PG") {
			out = append(out, kv)
		}
	}
	return out
}
