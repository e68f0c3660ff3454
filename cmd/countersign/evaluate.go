package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/countersign/countersign/pkg/policy"
)

func newEvaluateCommand() *cobra.Command {
	var asJSON, asCheck bool
	c := &cobra.Command{
		Use:   "evaluate SNAPSHOT.json",
		Short: "Decide a recorded snapshot and print the verdict",
		Long: `Decide a recorded snapshot, from a decision row or written by hand, and print who
must approve, who did, and what is missing. "-" reads standard input.

Exit codes: 0 approved, 1 blocked, 2 the snapshot could not be read.`,
		Example: `  countersign evaluate snapshot.json
  countersign evaluate --json snapshot.json | jq .codes`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return runEvaluate(c, args[0], asJSON, asCheck) },
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the verdict's canonical JSON")
	c.Flags().BoolVar(&asCheck, "check", false, "print the check's title, summary and text as they would be sent to GitHub")
	c.MarkFlagsMutuallyExclusive("json", "check")
	return c
}

func runEvaluate(c *cobra.Command, name string, asJSON, asCheck bool) error {
	s, err := readSnapshot(c, name)
	if err != nil {
		return err
	}
	v := policy.Evaluate(s)
	out := c.OutOrStdout()
	switch {
	case asJSON:
		_, err = fmt.Fprintf(out, "%s\n", v.MarshalCanonical())
	case asCheck:
		check := policy.Render(v, policy.RenderInput{MissingApproval: s.Settings.MissingApproval, Insecure: s.Settings.AllowInsecureChanges})
		_, err = fmt.Fprintf(out, "%s\n\n%s\n%s", check.Title, check.Summary, check.Text)
	default:
		_, err = fmt.Fprint(out, verdictText(v, policy.Needs(s)))
	}
	if err != nil {
		return err
	}
	if !v.Conclusion.Approved() {
		return findings("")
	}
	return nil
}

func readSnapshot(c *cobra.Command, name string) (policy.Snapshot, error) {
	data, err := readInput(c, name)
	if err != nil {
		return policy.Snapshot{}, fmt.Errorf("read a snapshot: %w", err)
	}
	s, err := policy.DecodeSnapshot(data)
	if err != nil {
		return policy.Snapshot{}, fmt.Errorf("read snapshot %s: %w", printable(name), err)
	}
	return s, nil
}

// verdictText is a verdict for a terminal: one line a reason, nothing foreign
// unquoted.
func verdictText(v policy.Verdict, needs policy.Requirements) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", v.Conclusion, printableText(v.NextStep))
	writeFindings(&b, "  ", v.Findings)
	for i := range v.Pulls {
		p := &v.Pulls[i]
		fmt.Fprintf(&b, "\n#%d into %s: %s\n", p.Number, printable(p.BaseRef), p.Conclusion)
		writeFindings(&b, "  ", p.Findings)
		if g := p.BreakGlass; g != nil && g.Active {
			fmt.Fprintf(&b, "  released by break-glass until %s by %s, confirmed by %s: %s\n", g.ExpiresAt.Format("2006-01-02 15:04:05 MST"),
				printable(g.RequestedBy), printable(g.ConfirmedBy), printableText(g.Reason))
		}
		for j := range p.Groups {
			writeGroup(&b, &p.Groups[j])
		}
		if len(p.Unowned) > 0 {
			fmt.Fprintf(&b, "  no owner: %s\n", printableList(p.Unowned))
		}
	}
	if !needs.Empty() {
		fmt.Fprintf(&b, "\nthe snapshot lacks %s\n", strings.Join(missingFacts(needs), ", "))
	}
	return b.String()
}

func writeFindings(b *strings.Builder, indent string, list []policy.Finding) {
	for _, f := range list {
		fmt.Fprintf(b, "%s%s (%s): %s\n", indent, f.Severity, f.Code, printableText(f.Message))
	}
}

func writeGroup(b *strings.Builder, g *policy.GroupVerdict) {
	state := "missing"
	switch {
	case g.Kind == policy.GroupOptional:
		state = "information"
	case g.Satisfied:
		state = "satisfied"
	}
	name := "owners"
	if g.Name != "" {
		name = "requirement " + printable(g.Name)
	}
	fmt.Fprintf(b, "  %s: %s %s\n", state, name, printableList(g.Owners))
	paths := make([]string, len(g.Files))
	for i := range g.Files {
		paths[i] = g.Files[i].Path
	}
	fmt.Fprintf(b, "    files: %s\n", printableList(paths))
	for _, a := range g.Approvals {
		fmt.Fprintf(b, "    approved by %s as %s\n", printable(a.Login), printableList(a.Via))
	}
	for _, r := range g.Rejected {
		fmt.Fprintf(b, "    not counted: %s\n", printableText(r.Reason))
	}
	if g.NextStep != "" {
		fmt.Fprintf(b, "    next: %s\n", printableText(g.NextStep))
	}
}

// printableList writes at most ten names.
func printableList(names []string) string {
	const most = 10
	shown := make([]string, 0, most)
	for i, n := range names {
		if i == most {
			return fmt.Sprintf("%s and %d more", strings.Join(shown, " "), len(names)-most)
		}
		shown = append(shown, printable(n))
	}
	return strings.Join(shown, " ")
}
