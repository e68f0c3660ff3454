package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/countersign/countersign/pkg/policy"
)

// diffLine is one line of "countersign policy diff --json": one pull request of
// one snapshot.
type diffLine struct {
	Snapshot string            `json:"snapshot"`
	Pull     int               `json:"pull"`
	Before   policy.Conclusion `json:"before"`
	After    policy.Conclusion `json:"after"`
	// Turned: the conclusion differs. Undecided: the new rules ask for facts
	// that the snapshot does not hold, so the real verdict may differ.
	Turned    bool `json:"turned"`
	Undecided bool `json:"undecided"`
	// Why is the new verdict's next step, and the old one's where it blocked.
	Why     string        `json:"why"`
	Codes   []policy.Code `json:"codes"`
	Missing []string      `json:"missing_facts,omitempty"`
}

func newPolicyDiffCommand() *cobra.Command {
	var snapshots string
	var asJSON, all bool
	c := &cobra.Command{
		Use:   "diff OLD NEW --snapshots DIR",
		Short: "Which verdicts a change of policy or CODEOWNERS would turn, and why",
		Long: `Decide every snapshot below DIR (*.json) twice: with OLD and with NEW in place of
what it recorded. OLD and NEW are two files of one kind (CODEOWNERS, a repository
policy or an organisation policy) or two directories laid out like a repository.

GitHub's own check of a new CODEOWNERS is not known here; it is taken to be clean.
Where NEW asks for facts that a snapshot does not hold, the line says undecided.

Exit codes: 0 nothing would turn, 1 something would or is undecided, 2 the inputs
could not be read.`,
		Example: `  countersign policy diff main/countersign.toml countersign.toml --snapshots snapshots/`,
		Args:    cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			return runPolicyDiff(c, args[0], args[1], snapshots, asJSON, all)
		},
	}
	c.Flags().StringVar(&snapshots, "snapshots", "", "directory of recorded snapshots (required)")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a pull request, unchanged ones too")
	c.Flags().BoolVar(&all, "all", false, "print unchanged verdicts too")
	if err := c.MarkFlagRequired("snapshots"); err != nil {
		panic(err) // the flag is declared above
	}
	return c
}

func runPolicyDiff(c *cobra.Command, oldName, newName, dir string, asJSON, all bool) error {
	before, err := loadOverlay(oldName)
	if err != nil {
		return fmt.Errorf("read OLD: %w", err)
	}
	after, err := loadOverlay(newName)
	if err != nil {
		return fmt.Errorf("read NEW: %w", err)
	}
	if before.kind != after.kind {
		return fmt.Errorf("OLD is a %s and NEW is a %s: give two of one kind", before.kind, after.kind)
	}
	names, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(names) == 0 {
		return fmt.Errorf("--snapshots %s: no *.json there", printable(dir))
	}
	slices.Sort(names)
	out := newPrinter(c.OutOrStdout(), asJSON)
	total, turned, undecided := 0, 0, 0
	for _, name := range names {
		s, err := readSnapshot(c, name)
		if err != nil {
			return err
		}
		for _, l := range compareVerdicts(filepath.Base(name), before.apply(s), after.apply(s)) {
			total++
			if l.Turned {
				turned++
			} else if l.Undecided {
				undecided++
			}
			if !asJSON && !all && !l.Turned && !l.Undecided {
				continue
			}
			if err := out.print(diffText(l), l); err != nil {
				return err
			}
		}
	}
	summary := fmt.Sprintf("%d verdicts: %d would turn, %d undecided", total, turned, undecided)
	if !asJSON {
		if err := out.print(summary, nil); err != nil {
			return err
		}
	}
	return out.finish(turned+undecided > 0)
}

func diffText(l diffLine) string {
	change := fmt.Sprintf("%s → %s", l.Before, l.After)
	switch {
	case l.Undecided:
		change += " (undecided: the snapshot lacks " + printableList(l.Missing) + ")"
	case !l.Turned:
		change = "stays " + string(l.After)
	}
	return fmt.Sprintf("%s #%d: %s: %s", printable(l.Snapshot), l.Pull, change, printableText(l.Why))
}

// compareVerdicts decides both and lines up their pull requests, which are the
// same ones in the same order.
func compareVerdicts(name string, before, after policy.Snapshot) []diffLine {
	one, two := policy.Evaluate(before), policy.Evaluate(after)
	missing := missingFacts(policy.Needs(after))
	var lines []diffLine
	for i := range two.Pulls {
		p := &two.Pulls[i]
		l := diffLine{
			Snapshot: name, Pull: p.Number, Before: policy.ConclusionBlocked, After: p.Conclusion, Why: p.NextStep, Codes: two.Codes,
			Undecided: !p.Conclusion.Approved() && len(missing) > 0,
		}
		if i < len(one.Pulls) {
			l.Before = one.Pulls[i].Conclusion
			if l.After.Approved() && !l.Before.Approved() {
				l.Why = "no longer needed: " + one.Pulls[i].NextStep
			}
		}
		l.Turned = l.Before != l.After
		if l.Undecided {
			l.Missing = missing
		}
		lines = append(lines, l)
	}
	return lines
}

// missingFacts names what a snapshot would have to hold.
func missingFacts(r policy.Requirements) []string {
	var out []string
	for _, k := range r.Teams {
		out = append(out, "team "+k.String())
	}
	for _, k := range r.Memberships {
		out = append(out, "membership of "+k.Login+" in "+k.Team.String())
	}
	for _, login := range r.Users {
		out = append(out, "permission of "+login)
	}
	for _, login := range r.Apps {
		out = append(out, "identity of "+login)
	}
	for what, numbers := range map[string][]int{"comments": r.Comments, "last pusher": r.LastPushers, "base change": r.BaseChanges, "file contents": r.FileContents} {
		for _, n := range numbers {
			out = append(out, fmt.Sprintf("%s of #%d", what, n))
		}
	}
	for _, k := range r.OlderHeads {
		out = append(out, fmt.Sprintf("files of #%d at %s", k.Pull, k.SHA))
	}
	slices.Sort(out)
	return out
}

// overlay is what is put in place of what a snapshot recorded.
type overlay struct {
	kind string
	// Facts of the repository; nil keeps the snapshot's.
	codeowners, policy, fallback *policy.FileFact
	organization                 *policy.FileFact
}

// kindDirectory is an overlay of a whole repository.
const kindDirectory = "directory"

func loadOverlay(name string) (overlay, error) {
	info, err := os.Stat(name)
	if err != nil {
		return overlay{}, err
	}
	if info.IsDir() {
		return loadDirectory(name)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return overlay{}, err
	}
	fact := &policy.FileFact{State: policy.FactPresent, Path: filepath.Base(name), Text: strings.ToValidUTF8(string(text), "\uFFFD")}
	switch kind := kindOfFile(name, text); kind {
	case kindCodeowners:
		fact.Path = policy.CodeownersLocations()[0]
		return overlay{kind: kind, codeowners: fact}, nil
	case kindRepository:
		return overlay{kind: kind, policy: fact, fallback: &policy.FileFact{State: policy.FactAbsent}}, nil
	case kindOrganization:
		return overlay{kind: kind, organization: fact}, nil
	default:
		return overlay{}, fmt.Errorf("%s is neither CODEOWNERS nor a policy file that can be read; check it with countersign policy lint", printable(name))
	}
}

func loadDirectory(dir string) (overlay, error) {
	o := overlay{kind: kindDirectory}
	var firstErr error
	read := func(path string) *policy.FileFact {
		text, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(path)))
		if errors.Is(err, fs.ErrNotExist) {
			return &policy.FileFact{State: policy.FactAbsent}
		}
		if err != nil && firstErr == nil {
			firstErr = err
		}
		return &policy.FileFact{State: policy.FactPresent, Path: path, Text: strings.ToValidUTF8(string(text), "\uFFFD")}
	}
	o.policy, o.fallback = read(policy.PolicyPath), read(policy.FallbackPolicyPath)
	o.codeowners = &policy.FileFact{State: policy.FactAbsent}
	path, found := policy.FirstCodeowners(func(path string) bool {
		info, err := os.Stat(filepath.Join(dir, filepath.FromSlash(path)))
		return err == nil && info.Mode().IsRegular()
	})
	if found {
		o.codeowners = read(path)
	}
	return o, firstErr
}

// apply gives s with the overlay's files, at every base.
func (o overlay) apply(s policy.Snapshot) policy.Snapshot {
	bases := make(map[string]policy.Base, len(s.Bases))
	for sha, b := range s.Bases {
		if o.codeowners != nil {
			b.Codeowners = *o.codeowners
			b.CodeownersErrors = policy.CodeownersErrorList{State: policy.FactPresent}
		}
		if o.policy != nil {
			b.Policy, b.FallbackPolicy = *o.policy, *o.fallback
		}
		bases[sha] = b
	}
	s.Bases = bases
	if o.organization != nil {
		s.OrganizationPolicy = policy.OrganizationPolicy{Repository: policy.FactPresent, Policy: *o.organization, FallbackPolicy: policy.FileFact{State: policy.FactAbsent}}
	}
	return s
}
