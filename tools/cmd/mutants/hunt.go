package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

type settings struct {
	skip           string
	timeout, quick time.Duration
	parallel       int
}

// binary is the test binary that holds every mutant, and its tests by how long they take.
type binary struct {
	settings
	path, dir   string
	quick, slow string // regular expressions for -test.run
}

func build(dir, temp string, s settings) (*binary, error) {
	path := filepath.Join(temp, "package.test")
	cmd := exec.Command("go", "test", "-c", "-vet=off", "-overlay", filepath.Join(temp, "overlay.json"), "-o", path, ".")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("compile %s with its mutants: %w\n%s", dir, err, out)
	}
	b := &binary{settings: s, path: path, dir: dir}
	return b, b.measure()
}

// measure runs the tests with no mutant alive: they must pass, and it learns which are quick.
func (b *binary) measure() error {
	out, err := exec.Command(b.path, "-test.list", ".").Output() //nolint:gosec // the binary was made here
	if err != nil {
		return fmt.Errorf("list tests: %w", err)
	}
	skip, err := regexp.Compile(b.skip)
	if err != nil {
		return fmt.Errorf("-skip: %w", err)
	}
	var names []string
	for _, name := range strings.Fields(string(out)) {
		if (strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Fuzz") || strings.HasPrefix(name, "Example")) && !skip.MatchString(name) {
			names = append(names, name)
		}
	}
	var quick, slow []string
	for _, name := range names { // one at a time: a parallel test does not count the time it waits for others
		begin := time.Now()
		var text bytes.Buffer
		cmd := exec.Command(b.path, "-test.v", "-test.run", exactly([]string{name})) //nolint:gosec // the binary was made here
		cmd.Dir, cmd.Stdout = b.dir, &text
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%s fails without any mutant (a test that reads the source belongs in -skip): %w\n%s", name, err, failures(text.String()))
		}
		if time.Since(begin) <= b.settings.quick {
			quick = append(quick, name)
		} else {
			slow = append(slow, name)
		}
	}
	fmt.Fprintf(os.Stderr, "mutants: %d quick tests, %d slow ones\n", len(quick), len(slow))
	b.quick, b.slow = exactly(quick), exactly(slow)
	return nil
}

func failures(text string) string {
	var out []string
	for _, line := range strings.Split(text, "\n") {
		if strings.Contains(line, "--- FAIL") {
			out = append(out, strings.TrimSpace(line))
		}
	}
	return strings.Join(out, "\n")
}

func exactly(names []string) string {
	if len(names) == 0 {
		return "^$"
	}
	return "^(" + strings.Join(names, "|") + ")$"
}

// hunt returns the mutants that no test notices.
func (b *binary) hunt(list []mutant) ([]mutant, error) {
	alive := make([]bool, len(list))
	errs := make([]error, len(list))
	work := make(chan int)
	var wg sync.WaitGroup
	for range b.parallel {
		wg.Go(func() {
			for i := range work {
				alive[i], errs[i] = b.survives(list[i].id)
			}
		})
	}
	for i := range list {
		if i%100 == 0 {
			fmt.Fprintf(os.Stderr, "mutants: %d of %d\n", i, len(list))
		}
		work <- i
	}
	close(work)
	wg.Wait()
	var out []mutant
	for i, m := range list {
		if alive[i] {
			out = append(out, m)
		}
	}
	return out, errors.Join(errs...)
}

func (b *binary) survives(id int) (bool, error) {
	for _, tests := range []string{b.quick, b.slow} {
		ok, err := b.pass(id, tests)
		if err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}

func (b *binary) pass(id int, tests string) (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), b.timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, b.path, "-test.failfast", "-test.run", tests) //nolint:gosec // the binary was made here
	cmd.Dir = b.dir
	cmd.Env = append(os.Environ(), "MUTANT="+strconv.Itoa(id), "GOMAXPROCS=1")
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && ctx.Err() == nil {
		return false, fmt.Errorf("run mutant %d: %w", id, err)
	}
	return err == nil, nil
}
