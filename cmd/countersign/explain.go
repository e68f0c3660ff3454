package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/countersign/countersign/internal/explain"
	"github.com/countersign/countersign/pkg/policy"
	"github.com/countersign/countersign/pkg/store"
)

func newExplainCommand() *cobra.Command {
	var db databaseFlags
	var asJSON, evidence bool
	var history int
	c := &cobra.Command{
		Use:   "explain OWNER/REPO#NUMBER",
		Short: "Say where a pull request stands: who must approve, who did, what is missing, where its work is",
		Long: `Say where a pull request stands: the one thing to do next, every owner set and
requirement with its files, who approved and whose approval does not count, what
the decision rests on and since when, what was decided before, and where the work
is now (queued, being revoked, waiting for authority, paused and until when).

It reads the database only; the role countersign_reader is enough.

Exit codes: 0 approved, 1 not approved, 2 nothing could be told.`,
		Example: `  countersign explain acme/api#7
  countersign explain acme/api#7 --json | jq .waiting_on
  countersign explain https://github.com/acme/api/pull/7 --evidence`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			target, err := parsePull(args[0])
			if err != nil {
				return err
			}
			s, err := db.open(c.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			p, err := explain.Find(c.Context(), s, target.repository, target.number)
			if errors.Is(err, store.ErrNotFound) {
				return fmt.Errorf("%s is not known here: no event about it was ever accepted; is the App installed on %s, and does %s have a policy file at its base?",
					printable(args[0]), printable(target.repository), printable(target.repository))
			}
			if err != nil {
				return err
			}
			if asJSON {
				err = writeJSON(c, p)
			} else {
				_, err = fmt.Fprint(c.OutOrStdout(), explainText(p, evidence, history))
			}
			if err != nil || p.State == store.StateApproved || p.State == store.StateReleased {
				return err
			}
			return findings("")
		},
	}
	db.add(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object with everything")
	c.Flags().BoolVar(&evidence, "evidence", false, "print every fact that the decision rests on")
	c.Flags().IntVar(&history, "history", 5, "how many earlier decisions to print, at most 20")
	return c
}

// stateWords say a state to a person.
var stateWords = map[store.State]string{
	store.StateApproved: "approved", store.StateReleased: "released by break-glass", store.StateMissing: "approval missing", store.StateBlocked: "blocked",
	store.StateRevoking: "being taken back", store.StateEvaluating: "being evaluated", store.StateUnmanaged: "no check",
}

func explainText(p explain.Pull, evidence bool, history int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s#%d %s by %s into %s\n", printable(p.Repository), p.Number, quoted(p.Title), short(p.Author), printable(clipped(p.BaseRef)))
	fmt.Fprintf(&b, "%s", stateWords[p.State])
	if !p.Since.IsZero() {
		fmt.Fprintf(&b, " since %s (%s)", moment(p.Since), age(p.Work.ReadAt.Sub(p.Since)))
	}
	fmt.Fprintf(&b, "\nnext: %s\n", short(p.NextStep))
	if len(p.Waiting) > 0 {
		fmt.Fprintf(&b, "waits on: %s\n", printableList(p.Waiting))
	}
	if len(p.Ask) > 0 && len(p.Ask) < len(p.Waiting) {
		fmt.Fprintf(&b, "enough would be: %s\n", printableList(p.Ask))
	}
	fmt.Fprintf(&b, "work: %s\n", short(p.Work.Says))
	if len(p.Work.Groups) > 0 {
		fmt.Fprintf(&b, "in the merge groups: %s\n", printableList(p.Work.Groups))
	}
	d := p.Decision
	if d == nil && p.Last != nil {
		b.WriteString("\nthe last decision no longer counts:\n")
		d = p.Last
	}
	if d != nil {
		b.WriteString("\n" + decisionText(*d, evidence))
	}
	writeHistory(&b, p.History, history)
	return b.String()
}

// decisionText is one decision with the part of its verdict about the pull request.
func decisionText(d explain.Decision, evidence bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "decision %d of %s: check %s, %s, because of %s\n", d.ID, moment(d.DecidedAt), d.Check, d.Outcome, printable(clipped(d.Reason)))
	if d.Problem != "" {
		fmt.Fprintf(&b, "  this release cannot read it: %s\n", short(d.Problem))
		return b.String()
	}
	writeFindings(&b, "  ", d.Verdict.Findings)
	if d.Pull == nil {
		fmt.Fprintf(&b, "  %s: %s\n", d.Conclusion, short(d.Verdict.NextStep))
	} else {
		writePullVerdict(&b, d.Pull)
	}
	fmt.Fprintf(&b, "  evidence read at %s for commit %s, %s\n", moment(d.Evidence.ReadAt), printable(d.Head), printable(d.Evidence.Digest))
	if evidence {
		for _, f := range d.Evidence.Facts {
			fmt.Fprintf(&b, "    %s %s: %s", f.Kind, printable(clipped(f.Subject)), short(f.Says))
			if !f.At.IsZero() {
				fmt.Fprintf(&b, " at %s", moment(f.At))
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}

func writePullVerdict(b *strings.Builder, p *policy.PullVerdict) {
	fmt.Fprintf(b, "  #%d into %s: %s: %s\n", p.Number, printable(clipped(p.BaseRef)), p.Conclusion, short(p.NextStep))
	writeFindings(b, "  ", p.Findings)
	if g := p.BreakGlass; g != nil && g.Active {
		fmt.Fprintf(b, "  released by break-glass until %s by %s, confirmed by %s: %s\n", moment(g.ExpiresAt), printable(g.RequestedBy), printable(g.ConfirmedBy), short(g.Reason))
	}
	for j := range p.Groups {
		writeGroup(b, &p.Groups[j])
	}
	if len(p.Unowned) > 0 {
		fmt.Fprintf(b, "  no owner: %s\n", printableList(p.Unowned))
	}
}

func writeHistory(b *strings.Builder, history []explain.Entry, most int) {
	if most <= 0 || len(history) == 0 {
		return
	}
	b.WriteString("\nhistory, the newest first:\n")
	for i, e := range history {
		if i == most {
			break
		}
		b.WriteString("  " + entryText(e) + "\n")
	}
}

func entryText(e explain.Entry) string {
	return fmt.Sprintf("%d  %s  %s  %s  #%d at %.10s  %s  %s", e.ID, moment(e.DecidedAt), e.Check, e.Outcome, e.Number, e.Head, printable(clipped(e.Reason)), short(e.Title))
}
