package conformance

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/countersign/countersign/tools/gotest"
)

// Section is one heading of the specification with the ids of its lines, in their order.
type Section struct {
	Title string
	IDs   []string
}

var (
	specLine = regexp.MustCompile(`^- (RG-\d{3})\b`)
	anyID    = regexp.MustCompile(`RG-\d+`)
)

// ParseSpec reads the specification: "## " opens a section, "- RG-nnn" is a
// line of it. Sections without such lines are left out. An id defined twice is an error that names both lines.
func ParseSpec(r io.Reader) ([]Section, error) {
	var sections []Section
	title := ""
	defined := map[string]int{}
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			title = strings.TrimSpace(heading)
			continue
		}
		m := specLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		if first, ok := defined[m[1]]; ok {
			return nil, fmt.Errorf("line %d defines %s again, which line %d defined", n, m[1], first)
		}
		defined[m[1]] = n
		if len(sections) == 0 || sections[len(sections)-1].Title != title {
			sections = append(sections, Section{Title: title})
		}
		last := &sections[len(sections)-1]
		last.IDs = append(last.IDs, m[1])
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the specification: %w", err)
	}
	return sections, nil
}

// IDs returns the ids that a text names, each once, sorted. RG-1030 names none:
// an id has three digits.
func IDs(text string) []string {
	var out []string
	for _, id := range anyID.FindAllString(text, -1) {
		if len(id) == len("RG-000") && !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out
}

// SectionReport is a section with its ids by what the tests say of them.
type SectionReport struct {
	Title    string
	Proved   []string
	Unproved []string // no passing test, or a failing one
	Failing  []string // of Unproved: those that a failed or unfinished test names
}

// Report compares the specification with a test run.
type Report struct {
	Sections []SectionReport
	Unknown  []string // "RG-999 (package TestName)": claimed, but not in the specification
}

// Compare builds the report of a run.
func Compare(spec []Section, results []gotest.Result) Report {
	passed, broken := map[string]bool{}, map[string]bool{}
	claims := map[string]string{}
	for _, r := range results {
		for _, id := range IDs(r.Test) {
			if claims[id] == "" {
				claims[id] = r.Package + " " + r.Test
			}
			switch r.Outcome {
			case gotest.Passed:
				passed[id] = true
			case gotest.Failed, gotest.Unfinished:
				broken[id] = true
			}
		}
	}
	var report Report
	for _, s := range spec {
		sr := SectionReport{Title: s.Title}
		for _, id := range s.IDs {
			delete(claims, id)
			if passed[id] && !broken[id] {
				sr.Proved = append(sr.Proved, id)
				continue
			}
			sr.Unproved = append(sr.Unproved, id)
			if broken[id] {
				sr.Failing = append(sr.Failing, id)
			}
		}
		report.Sections = append(report.Sections, sr)
	}
	for id, where := range claims {
		report.Unknown = append(report.Unknown, fmt.Sprintf("%s (%s)", id, where))
	}
	slices.Sort(report.Unknown)
	return report
}

// Write prints the report; its last line is the totals.
func (r Report) Write(w io.Writer) {
	proved, total, failing := 0, 0, 0
	for _, s := range r.Sections {
		n := len(s.Proved) + len(s.Unproved)
		proved, total, failing = proved+len(s.Proved), total+n, failing+len(s.Failing)
		fmt.Fprintf(w, "%s: %d of %d\n", s.Title, len(s.Proved), n)
		list(w, "with a passing test", s.Proved)
		list(w, "without", s.Unproved)
		list(w, "of these, named by a failing test", s.Failing)
	}
	list(w, "claimed by a test, but not in the specification", r.Unknown)
	fmt.Fprintf(w, "conformance: %d of %d ids with a passing test, %d without (%d named by a failing test)\n",
		proved, total, total-proved, failing)
}

// list prints ids in lines of ten.
func list(w io.Writer, label string, ids []string) {
	if len(ids) == 0 {
		return
	}
	fmt.Fprintf(w, "  %s:\n", label)
	for chunk := range slices.Chunk(ids, 10) {
		fmt.Fprintf(w, "    %s\n", strings.Join(chunk, " "))
	}
}
