package gotest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Event is one line of `go test -json`. Fields that nobody here needs are left out.
type Event struct {
	Action     string
	Package    string
	Test       string
	Output     string
	ImportPath string // of a build-output event
	Elapsed    float64
}

// Outcome is how a test or subtest ended.
type Outcome string

// The outcomes of a test. A test without any (the process died under it) is Unfinished.
const (
	Passed     Outcome = "pass"
	Failed     Outcome = "fail"
	Skipped    Outcome = "skip"
	Unfinished Outcome = ""
)

// Result is one test or subtest of a run.
type Result struct {
	Package string
	Test    string
	Outcome Outcome
}

// Read returns the results of a stored stream, in the order in which the tests
// began. A test that ran several times (-count) is Failed when one run failed, and
// Unfinished when one never ended.
func Read(r io.Reader) ([]Result, error) {
	p := NewPrinter(io.Discard)
	if err := scan(r, p.Line); err != nil {
		return nil, err
	}
	return p.Results(), nil
}

// scan calls f for every line. Lines may be long: an event carries whatever a test printed.
func scan(r io.Reader, f func([]byte)) error {
	br := bufio.NewReader(r)
	for {
		line, err := br.ReadBytes('\n')
		if len(line) > 0 {
			f(line)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read test events: %w", err)
		}
	}
}

// key names a test of a run.
type key struct{ pkg, test string }

// Printer turns events into go test's plain output: one closing line a package
// ("ok  	package	1.2s"), and everything that a failed test printed.
// Use it from one goroutine.
type Printer struct {
	w       io.Writer
	order   []key
	outcome map[key]Outcome
	output  map[key]*bytes.Buffer // of tests that have not passed
	skipped []string
	counts  map[Outcome]int
	pkgs    map[string]Outcome
}

// NewPrinter returns a Printer that writes to w.
func NewPrinter(w io.Writer) *Printer {
	return &Printer{
		w:       w,
		outcome: map[key]Outcome{},
		output:  map[key]*bytes.Buffer{},
		counts:  map[Outcome]int{},
		pkgs:    map[string]Outcome{},
	}
}

// Copy reads events from r until it ends, prints them, and writes each line unchanged to raw.
func (p *Printer) Copy(r io.Reader, raw io.Writer) error {
	var writeErr error
	err := scan(r, func(line []byte) {
		if _, err := raw.Write(line); err != nil && writeErr == nil {
			writeErr = fmt.Errorf("store test events: %w", err)
		}
		p.Line(line)
	})
	if err != nil {
		return err
	}
	return writeErr
}

// Line takes one line of the stream.
func (p *Printer) Line(line []byte) {
	var e Event
	if !bytes.HasPrefix(bytes.TrimSpace(line), []byte("{")) || json.Unmarshal(line, &e) != nil || e.Action == "" {
		_, _ = p.w.Write(line) // not an event: show it
		return
	}
	k := key{e.Package, e.Test}
	switch e.Action {
	case "run":
		p.begin(k)
	case "output":
		// "=== RUN" and its kin are what -json adds; plain go test does not print them.
		if e.Test == "" || !strings.HasPrefix(e.Output, "=== ") {
			p.buffer(k).WriteString(e.Output)
		}
	case "build-output":
		fmt.Fprint(p.w, e.Output)
	case "pass", "fail", "skip":
		if e.Test == "" {
			p.endPackage(e.Package, Outcome(e.Action))
			return
		}
		p.endTest(k, Outcome(e.Action))
	}
}

func (p *Printer) begin(k key) {
	if _, seen := p.outcome[k]; !seen {
		p.order = append(p.order, k)
		p.outcome[k] = Unfinished
		return
	}
	if p.outcome[k] != Failed {
		p.outcome[k] = Unfinished // -count: another run of it began
	}
}

func (p *Printer) buffer(k key) *bytes.Buffer {
	b := p.output[k]
	if b == nil {
		b = &bytes.Buffer{}
		p.output[k] = b
	}
	return b
}

func (p *Printer) endTest(k key, o Outcome) {
	p.counts[o]++
	if p.outcome[k] != Failed {
		p.outcome[k] = o
	}
	switch o {
	case Passed:
		delete(p.output, k)
	case Skipped:
		p.skipped = append(p.skipped, k.pkg+" "+k.test+reason(p.buffer(k).String()))
		delete(p.output, k)
	}
}

// reason picks what t.Skip said out of a skipped test's output.
func reason(output string) string {
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "---") {
			return ": " + line
		}
	}
	return ""
}

// endPackage prints the package's closing line, and before it, when it failed, whatever its
// unfinished and failed tests printed, in the order in which they began.
func (p *Printer) endPackage(pkg string, o Outcome) {
	p.pkgs[pkg] = o
	own := p.buffer(key{pkg, ""}).String()
	if o == Failed {
		for _, k := range p.order {
			if k.pkg == pkg && p.output[k] != nil {
				_, _ = p.output[k].WriteTo(p.w)
			}
		}
		fmt.Fprint(p.w, own)
	} else {
		for line := range strings.Lines(own) {
			if strings.TrimSpace(line) != "PASS" {
				fmt.Fprint(p.w, line)
			}
		}
	}
	for k := range p.output {
		if k.pkg == pkg {
			delete(p.output, k)
		}
	}
}

// Results returns every test seen so far, in the order in which they began.
func (p *Printer) Results() []Result {
	out := make([]Result, 0, len(p.order))
	for _, k := range p.order {
		out = append(out, Result{Package: k.pkg, Test: k.test, Outcome: p.outcome[k]})
	}
	return out
}

// Summary prints the skipped tests, each with its reason, and one line of totals.
func (p *Printer) Summary() {
	slices.Sort(p.skipped)
	for _, s := range p.skipped {
		fmt.Fprintln(p.w, "skipped:", s)
	}
	failed := 0
	for _, o := range p.pkgs {
		if o == Failed {
			failed++
		}
	}
	fmt.Fprintf(p.w, "%d tests passed, %d failed, %d skipped; %d packages, %d failed\n",
		p.counts[Passed], p.counts[Failed], p.counts[Skipped], len(p.pkgs), failed)
}
