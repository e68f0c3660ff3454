package main

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/countersign/countersign/pkg/policy"
	"github.com/countersign/countersign/pkg/store"
)

type simulateOptions struct {
	decisionFlags
	snapshots           string
	json, markdown, all bool
	live                bool
}

// simulateLine is one line of "countersign simulate --json": one pull request.
type simulateLine struct {
	Repository string `json:"repository"`
	Decision   int64  `json:"decision,omitempty"` // whose evidence it is
	diffLine
	// Waiting are the owners that would be waited for.
	Waiting []string `json:"waiting_on"`
}

func newSimulateCommand() *cobra.Command {
	var o simulateOptions
	c := &cobra.Command{
		Use:   "simulate NEW",
		Short: "Which verdicts a new policy or CODEOWNERS would turn, on recorded evidence",
		Long: `Decide recorded evidence again with NEW in place of the rules that were in force:
which pull requests would be blocked that are not, which would pass, and why.

NEW is a CODEOWNERS file, a repository policy, an organisation policy, or a directory
laid out like a repository. Without --since the newest evidence of every open pull
request is used; with it, of every pull request that was decided since. --snapshots
reads evidence from files instead of the database (countersign decisions show
--snapshot writes one).

Where NEW asks for a fact that was not recorded, the line says undecided; with --live
GitHub is asked about teams, people and Apps as they are now, with the App's
credentials from COUNTERSIGN_GITHUB_APP_ID and COUNTERSIGN_GITHUB_PRIVATE_KEY (or its
_FILE form). GitHub's own check of a new CODEOWNERS is taken to be clean. Nothing is
written.

--markdown prints a report for a comment on the pull request that changes the rules.

Exit codes: 0 nothing would turn, 1 something would or is undecided, 2 it could not
be done.`,
		Example: `  countersign simulate .github/countersign.toml --repository acme/api
  countersign simulate .github/CODEOWNERS --repository acme/api --since 90d --markdown > report.md`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return runSimulate(c, o, args[0]) },
	}
	o.add(c)
	f := c.Flags()
	f.StringVar(&o.snapshots, "snapshots", "", "directory of recorded snapshots (*.json), instead of the database")
	f.BoolVar(&o.live, "live", false, "ask GitHub for what NEW needs to know of people and was not recorded")
	f.BoolVar(&o.json, "json", false, "print one JSON object a pull request, unchanged ones too")
	f.BoolVar(&o.markdown, "markdown", false, "print a report in GitHub's Markdown")
	f.BoolVar(&o.all, "all", false, "print unchanged verdicts too")
	c.MarkFlagsMutuallyExclusive("json", "markdown")
	return c
}

func runSimulate(c *cobra.Command, o simulateOptions, name string) error {
	rules, err := loadOverlay(name)
	if err != nil {
		return fmt.Errorf("read NEW: %w", err)
	}
	lines := []simulateLine{}
	fill, err := o.filler(c)
	if err != nil {
		return err
	}
	each := func(e evidenceRow) error {
		after, err := fill(e.installation, rules.apply(e.snapshot))
		if err != nil {
			return err
		}
		for _, l := range compareVerdicts(e.repository, e.snapshot, after) {
			if e.number != 0 && l.Pull != e.number {
				continue
			}
			lines = append(lines, simulateLine{Repository: e.repository, Decision: int64(e.decision), diffLine: l, Waiting: waitingAfter(after, l.Pull)})
		}
		return nil
	}
	if err := eachEvidence(c, o, each); err != nil {
		return err
	}
	slices.SortStableFunc(lines, func(a, b simulateLine) int {
		return strings.Compare(fmt.Sprintf("%s#%09d", a.Repository, a.Pull), fmt.Sprintf("%s#%09d", b.Repository, b.Pull))
	})
	if o.markdown {
		report, changed := simulationReport(rules.kind, lines)
		if _, err := fmt.Fprint(c.OutOrStdout(), report); err != nil {
			return err
		}
		if changed {
			return findings("")
		}
		return nil
	}
	return printSimulation(c, o, lines)
}

// waitingAfter are the owners that a pull request would wait for.
func waitingAfter(s policy.Snapshot, number int) []string {
	waiting := []string{}
	for _, p := range policy.Evaluate(s).Pulls {
		if p.Number != number || p.Conclusion.Approved() {
			continue
		}
		for i := range p.Groups {
			waiting = append(waiting, p.Groups[i].WaitsOn()...)
		}
	}
	slices.Sort(waiting)
	return slices.Compact(waiting)
}

// evidenceRow is one snapshot to decide again; number 0 means every pull request of it.
type evidenceRow struct {
	repository   string
	installation int64
	decision     store.DecisionID
	number       int
	snapshot     policy.Snapshot
}

type evidenceFunc func(evidenceRow) error

// filler is what --live adds to a snapshot; without it, nothing.
func (o simulateOptions) filler(c *cobra.Command) (func(installation int64, s policy.Snapshot) (policy.Snapshot, error), error) {
	if !o.live {
		return func(_ int64, s policy.Snapshot) (policy.Snapshot, error) { return s, nil }, nil
	}
	if o.snapshots != "" && o.installation <= 0 {
		return nil, errors.New("--live with --snapshots needs --installation: files do not say whose they are")
	}
	sources, err := factSources()
	if err != nil {
		return nil, err
	}
	return func(installation int64, s policy.Snapshot) (policy.Snapshot, error) {
		return fillFacts(c.Context(), sources(cmp.Or(installation, o.installation)), s)
	}, nil
}

// eachEvidence finds what to simulate on.
func eachEvidence(c *cobra.Command, o simulateOptions, each evidenceFunc) error {
	if o.snapshots != "" {
		return eachSnapshotFile(c, o.snapshots, each)
	}
	s, err := o.db.open(c.Context())
	if err != nil {
		return err
	}
	defer s.Close()
	filter, err := o.filter(c, s)
	if err != nil {
		return err
	}
	progress := newProgress(c)
	defer progress.end()
	if o.since == "" && o.until == "" {
		return eachOpen(c, s, o, filter, progress, each)
	}
	seen := map[string]bool{}
	filter.Outcome = "confirmed"
	return eachDecision(c, s, &o.decisionFlags, nil, func(d store.StoredDecision) error {
		key := fmt.Sprintf("%d#%d", d.Head.Repository, d.Number)
		if d.Outcome != "confirmed" || seen[key] {
			return nil // the newest one of each pull request is the first
		}
		seen[key] = true
		return evidenceOf(c, d, d.Number, each)
	})
}

// evidenceOf reads one decision's evidence; what this release cannot read is told and passed over.
func evidenceOf(c *cobra.Command, d store.StoredDecision, number int, each evidenceFunc) error {
	s, err := policy.DecodeSnapshot([]byte(d.Evidence))
	if err != nil {
		fmt.Fprintf(c.ErrOrStderr(), "decision %d is left out: %s\n", d.ID, short(err.Error()))
		return nil
	}
	return each(evidenceRow{repository: d.FullName, installation: int64(d.Installation), decision: d.ID, number: number, snapshot: s})
}

func eachOpen(c *cobra.Command, s *store.Store, o simulateOptions, filter store.DecisionFilter, progress *progress, each evidenceFunc) error {
	list := store.PullFilter{Installation: filter.Installation, Limit: 200}
	if filter.Repository != 0 {
		list.Only = []store.RepositoryID{filter.Repository}
	}
	for {
		page, err := s.ListOpen(c.Context(), list)
		if err != nil {
			return err
		}
		for i := range page {
			list.After = &page[i]
			if filter.Number != 0 && page[i].Key.Number != filter.Number {
				continue
			}
			d, err := newestDecision(c, s, page[i].Key)
			if errors.Is(err, store.ErrNotFound) {
				continue // nothing was ever decided: there is no evidence
			}
			if err != nil {
				return err
			}
			if err := evidenceOf(c, d, page[i].Key.Number, each); err != nil {
				return err
			}
			progress.add(1)
		}
		if len(page) < list.Limit {
			return nil
		}
	}
}

func eachSnapshotFile(c *cobra.Command, dir string, each evidenceFunc) error {
	names, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(names) == 0 {
		return fmt.Errorf("--snapshots %s: no *.json there", printable(dir))
	}
	slices.Sort(names)
	for _, name := range names {
		s, err := readSnapshot(c, name)
		if err != nil {
			return err
		}
		if err := each(evidenceRow{repository: s.Repository.FullName, snapshot: s}); err != nil {
			return err
		}
	}
	return nil
}

// simulated counts what a simulation came to.
type simulated struct{ total, blocked, passed, undecided int }

func countLines(lines []simulateLine) simulated {
	n := simulated{total: len(lines)}
	for _, l := range lines {
		switch {
		case l.Turned && l.After.Approved():
			n.passed++
		case l.Turned:
			n.blocked++
		case l.Undecided:
			n.undecided++
		}
	}
	return n
}

func (n simulated) changed() bool { return n.blocked+n.passed+n.undecided > 0 }

func (n simulated) String() string {
	return fmt.Sprintf("%d pull requests: %d would be blocked, %d would pass, %d undecided", n.total, n.blocked, n.passed, n.undecided)
}

func printSimulation(c *cobra.Command, o simulateOptions, lines []simulateLine) error {
	out := newPrinter(c.OutOrStdout(), o.json)
	for _, l := range lines {
		if !o.json && !o.all && !l.Turned && !l.Undecided {
			continue
		}
		text := diffText(l.diffLine)
		text = fmt.Sprintf("%s#%d: %s", printable(l.Repository), l.Pull, text[strings.Index(text, ": ")+2:])
		if err := out.print(printableText(clipped(text)), l); err != nil {
			return err
		}
	}
	n := countLines(lines)
	if !o.json {
		if err := out.print(n.String(), nil); err != nil {
			return err
		}
	}
	return out.finish(n.changed())
}

// maxReported is how many pull requests a report lists: GitHub takes 65,536 characters of a comment.
const maxReported = 100

// simulationReport is the report for a comment. Everything foreign in it is escaped.
func simulationReport(kind string, lines []simulateLine) (report string, changed bool) {
	n := countLines(lines)
	var b strings.Builder
	fmt.Fprintf(&b, "### Countersign: what this %s would change\n\n", kind)
	switch {
	case n.total == 0:
		b.WriteString("There is no recorded evidence to decide again.\n")
		return b.String(), false
	case !n.changed():
		fmt.Fprintf(&b, "✅ Nothing: the %d pull requests looked at keep their verdicts.\n", n.total)
		return b.String(), false
	}
	fmt.Fprintf(&b, "%d pull requests were decided again on recorded evidence: **%d would be blocked**, **%d would pass**, %d cannot be told from what was recorded.\n\n", n.total, n.blocked, n.passed, n.undecided)
	b.WriteString("| pull request | now | then | why |\n|---|---|---|---|\n")
	shown := 0
	for _, l := range lines {
		if !l.Turned && !l.Undecided {
			continue
		}
		if shown++; shown > maxReported {
			fmt.Fprintf(&b, "\nAnd %d more.\n", n.blocked+n.passed+n.undecided-maxReported)
			break
		}
		then, why := string(l.After), l.Why
		if l.Undecided {
			then, why = "undecided", "not recorded: "+strings.Join(l.Missing[:min(3, len(l.Missing))], ", ")
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", policy.MarkdownCode(fmt.Sprintf("%s#%d", l.Repository, l.Pull)), l.Before, then, policy.MarkdownText(clipped(why)))
	}
	return b.String(), true
}
