package conformance

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/countersign/countersign/tools/gotest"
)

const spec = `# Title
Text that mentions RG-002 defines nothing.
## Differences
- D1 changes RG-001.
## A. First
- RG-001 [S] one
- RG-002 two, unlike RG-001
## B. Second
- RG-010 [U] ten
- RG-011 eleven
- RG-012 twelve
`

func parse(t *testing.T) []Section {
	t.Helper()
	sections, err := ParseSpec(strings.NewReader(spec))
	if err != nil {
		t.Fatal(err)
	}
	return sections
}

func TestParseSpec(t *testing.T) {
	t.Parallel()
	want := []Section{
		{"A. First", []string{"RG-001", "RG-002"}},
		{"B. Second", []string{"RG-010", "RG-011", "RG-012"}},
	}
	if diff := cmp.Diff(want, parse(t)); diff != "" {
		t.Errorf("sections (-want +got):\n%s", diff)
	}
}

func TestParseSpecRefusesAnIDDefinedTwice(t *testing.T) {
	t.Parallel()
	_, err := ParseSpec(strings.NewReader("## A\n- RG-001 x\n- RG-001 y\n"))
	if err == nil || !strings.Contains(err.Error(), "line 3 defines RG-001 again, which line 2") {
		t.Errorf("ParseSpec = %v", err)
	}
}

func TestIDs(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"TestAccept/RG-103_redelivery": {"RG-103"},
		"RG-012_RG-011":                {"RG-011", "RG-012"},
		"RG-011 and RG-011":            {"RG-011"},
		"RG-1030 RG-1 rg-100":          nil,
		"RG-101…RG-103":                {"RG-101", "RG-103"},
	} {
		if diff := cmp.Diff(want, IDs(text)); diff != "" {
			t.Errorf("IDs(%q) (-want +got):\n%s", text, diff)
		}
	}
}

func TestCompareAndWrite(t *testing.T) {
	t.Parallel()
	report := Compare(parse(t), []gotest.Result{
		{Package: "p", Test: "TestA/RG-001_RG-010", Outcome: gotest.Passed},
		{Package: "p", Test: "TestA/RG-002_skipped", Outcome: gotest.Skipped},
		{Package: "p", Test: "TestB/RG-010_again", Outcome: gotest.Failed},
		{Package: "p", Test: "TestB/RG-011", Outcome: gotest.Passed},
		{Package: "p", Test: "TestB/RG-012", Outcome: gotest.Passed},
		{Package: "q", Test: "TestC/RG-012_hung", Outcome: gotest.Unfinished},
		{Package: "q", Test: "TestC/RG-999", Outcome: gotest.Passed},
		{Package: "q", Test: "TestC", Outcome: gotest.Failed}, // a failed parent taints no one
	})
	var out bytes.Buffer
	report.Write(&out)
	want := `A. First: 1 of 2
  with a passing test:
    RG-001
  without:
    RG-002
B. Second: 1 of 3
  with a passing test:
    RG-011
  without:
    RG-010 RG-012
  of these, named by a failing test:
    RG-010 RG-012
  claimed by a test, but not in the specification:
    RG-999 (q TestC/RG-999)
conformance: 2 of 5 ids with a passing test, 3 without (2 named by a failing test)
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}

func TestTheSpecificationParses(t *testing.T) {
	t.Parallel()
	f, err := os.Open("../../docs/spec/review-gate.md")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	sections, err := ParseSpec(f)
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, s := range sections {
		total += len(s.IDs)
	}
	// The specification only grows: an id is never reused or dropped.
	if len(sections) < 16 || total < 297 {
		t.Errorf("%d sections with %d ids, want at least 16 with 297", len(sections), total)
	}
}
