package policy_test

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/countersign/countersign/pkg/policy"
)

// block is one fenced block of docs/policy.md.
type block struct {
	kind, text string
	line       int
}

func pageBlocks(t *testing.T) []block {
	t.Helper()
	page, err := os.Open("../../docs/policy.md")
	if err != nil {
		t.Fatal(err)
	}
	defer page.Close()
	var blocks []block
	open := false
	scanner := bufio.NewScanner(page)
	for n := 1; scanner.Scan(); n++ {
		line := scanner.Text()
		switch {
		case open && line == "```":
			open = false
		case open:
			blocks[len(blocks)-1].text += line + "\n"
		case strings.HasPrefix(line, "```"):
			blocks = append(blocks, block{kind: strings.TrimPrefix(line, "```"), line: n})
			open = true
		}
	}
	if err := scanner.Err(); err != nil {
		t.Fatal(err)
	}
	return blocks
}

// TestPolicyPage runs every example of docs/policy.md: a scenario is played
// under the repository policy printed last before it.
func TestPolicyPage(t *testing.T) {
	t.Parallel()
	var rules, org, owners string
	scenarios := 0
	for _, b := range pageBlocks(t) {
		switch b.kind {
		case "codeowners":
			owners = b.text
		case "toml organization":
			org = b.text
			if _, problems := policy.ParseOrganizationPolicy("docs/policy.md", []byte(org)); len(problems) > 0 {
				t.Errorf("line %d: %v", b.line, problems)
			}
		case "toml repository":
			rules = b.text
			if _, problems := policy.ParseRepositoryPolicy("docs/policy.md", []byte(rules)); len(problems) > 0 {
				t.Errorf("line %d: %v", b.line, problems)
			}
		case "scenario":
			scenarios++
			s := facts(withRawPolicy(rules), withOrg(org), withCodeowners(owners))
			t.Run(fmt.Sprintf("docs/policy.md line %d", b.line), func(t *testing.T) {
				t.Parallel()
				play(t, s, b)
			})
		default:
			t.Errorf("line %d: a block of kind %q is not run", b.line, b.kind)
		}
	}
	if scenarios < 15 {
		t.Errorf("only %d scenarios found", scenarios)
	}
}

func play(t *testing.T, s policy.Snapshot, b block) {
	t.Helper()
	checks := 0
	for i, line := range strings.Split(strings.TrimSpace(b.text), "\n") {
		verb, rest, _ := strings.Cut(line, " ")
		if verb == "then" {
			checks++
			expect(t, s, rest, b.line+1+i)
			continue
		}
		step(t, &s, verb, rest)
	}
	if checks == 0 {
		t.Errorf("line %d: the scenario expects nothing", b.line)
	}
}

func step(t *testing.T, s *policy.Snapshot, verb, rest string) {
	t.Helper()
	p, words := &s.Pulls[0], strings.Fields(rest)
	switch verb {
	case "changed":
		setFiles(p, words...)
	case "renamed":
		rename(words[0], words[1])(s)
	case "author":
		p.Author = actor(rest)
	case "pushed":
		p.LastPusher.Actor = actor(rest)
	case "label":
		p.Labels = append(p.Labels, rest)
	case "permission":
		team(strings.TrimPrefix(words[0], "@"), func(f *policy.TeamFact) { f.Permission = words[1] })(s)
	case "approve", "approve-older", "request-changes":
		state, commit := "APPROVED", headSHA
		if verb == "approve-older" {
			commit = oldSHA
		} else if verb == "request-changes" {
			state = "CHANGES_REQUESTED"
		}
		for _, login := range words {
			addReview(p, login, state, commit)
		}
	case "older":
		path, how, _ := strings.Cut(rest, "=")
		items := slices.Clone(p.Files.Items)
		for i := range items {
			if items[i].Path == path && how == "changed" {
				items[i].After = blob("what it was")
			}
		}
		older(items...)(s)
	case "retargeted":
		p.BaseChange = policy.BaseChangeFact{State: policy.FactPresent, At: s.Now}
	case "comment":
		id, err := strconv.ParseInt(words[0], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		body := strings.ReplaceAll(strings.Join(words[2:], " "), "{head}", headSHA)
		comment(id, words[1], 60-len(p.Comments.Items), body)(s)
	case "edited":
		for i := range p.Comments.Items {
			if strconv.FormatInt(p.Comments.Items[i].ID, 10) == rest {
				p.Comments.Items[i].UpdatedAt = s.Now
			}
		}
	default:
		t.Fatalf("unknown step %q", verb)
	}
}

func expect(t *testing.T, s policy.Snapshot, want string, line int) {
	t.Helper()
	members := 3
	for key, f := range s.Teams {
		f.Members = &members
		s.Teams[key] = f
	}
	v := policy.Evaluate(s)
	if r := policy.Needs(s); !r.Empty() {
		t.Errorf("line %d: facts are missing: %+v", line, r)
	}
	got := "approved"
	if !v.Conclusion.Approved() {
		got = "blocked: " + v.NextStep
	} else if v.NextDue != nil {
		got += " until " + v.NextDue.Format(time.RFC3339)
	}
	if code, warns := strings.CutPrefix(want, "warns "); warns {
		got = want
		if !slices.Contains(v.Codes, policy.Code(code)) {
			got = fmt.Sprint(v.Codes)
		}
	}
	if got != want {
		t.Errorf("line %d:\n got %s\nwant %s", line, got, want)
	}
}
