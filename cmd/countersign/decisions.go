package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/countersign/countersign/internal/explain"
	"github.com/countersign/countersign/pkg/store"
)

func newDecisionsCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "decisions", Short: "List, show, compare, replay, verify and export what was decided",
		Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newDecisionsListCommand(), newDecisionsShowCommand(), newDecisionsDiffCommand(), newDecisionsReplayCommand(), newDecisionsVerifyCommand(), newDecisionsExportCommand())
	return c
}

// decisionFlags narrow a set of decisions.
type decisionFlags struct {
	db                                      databaseFlags
	repository, pull, outcome, since, until string
	installation                            int64
}

func (f *decisionFlags) add(c *cobra.Command) {
	f.db.add(c)
	c.Flags().StringVar(&f.repository, "repository", "", "only of owner/name")
	c.Flags().StringVar(&f.pull, "pull", "", "only of owner/name#number")
	c.Flags().StringVar(&f.outcome, "outcome", "", "only confirmed, reset or intended")
	c.Flags().StringVar(&f.since, "since", "", "only younger than an age (36h, 90d) or a moment (RFC 3339)")
	c.Flags().StringVar(&f.until, "until", "", "only older than an age or a moment")
	c.Flags().Int64Var(&f.installation, "installation", 0, "only of an installation's id")
}

// filter reads the flags; names are looked up, so that the database can find rows by number.
func (f *decisionFlags) filter(c *cobra.Command, s *store.Store) (store.DecisionFilter, error) {
	filter := store.DecisionFilter{Installation: store.InstallationID(f.installation), Outcome: f.outcome}
	switch f.outcome {
	case "", "confirmed", "reset", "intended":
	default:
		return filter, fmt.Errorf("--outcome %s: use confirmed, reset or intended", quoted(f.outcome))
	}
	if f.repository != "" && f.pull != "" {
		return filter, errOneForm("--repository and --pull")
	}
	name := f.repository
	if f.pull != "" {
		target, err := parsePull(f.pull)
		if err != nil {
			return filter, err
		}
		name, filter.Number = target.repository, target.number
	}
	if name != "" {
		r, err := s.FindRepository(c.Context(), name)
		if errors.Is(err, store.ErrNotFound) {
			return filter, fmt.Errorf("repository %s is not known here: is the App installed on it?", quoted(name))
		}
		if err != nil {
			return filter, err
		}
		filter.Installation, filter.Repository = r.Installation, r.Repository
	}
	var err error
	if filter.Since, err = parseMoment("--since", f.since); err != nil {
		return filter, err
	}
	filter.Until, err = parseMoment("--until", f.until)
	return filter, err
}

// parseMoment reads an age or a moment; "" is the zero time.
func parseMoment(flag, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	d, err := parseAge(flag, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("%s %s: write an age such as 36h or 90d, or a moment such as 2026-03-04T12:00:00Z", flag, quoted(text))
	}
	return time.Now().Add(-d), nil
}

func newDecisionsListCommand() *cobra.Command {
	var f decisionFlags
	var asJSON bool
	var limit int
	var before int64
	c := &cobra.Command{
		Use: "list", Short: "List decisions, the newest first",
		Example: `  countersign decisions list --pull acme/api#7
  countersign decisions list --repository acme/api --since 36h --json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := f.db.open(c.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			filter, err := f.filter(c, s)
			if err != nil {
				return err
			}
			filter.Limit, filter.Before = limit, store.DecisionID(before)
			lines, err := s.ListDecisionLines(c.Context(), filter)
			if err != nil {
				return err
			}
			out := newPrinter(c.OutOrStdout(), asJSON)
			for _, l := range lines {
				e := explain.EntryOf(l)
				row := decisionRow{Repository: l.FullName, Entry: e}
				if err := out.print(printable(l.FullName)+"  "+entryText(e), row); err != nil {
					return err
				}
			}
			return out.finish(false)
		},
	}
	f.add(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a decision")
	c.Flags().IntVar(&limit, "limit", 50, "how many, at most 500")
	c.Flags().Int64Var(&before, "before", 0, "continue below this decision's number")
	return c
}

// decisionRow is one line of "countersign decisions list --json".
type decisionRow struct {
	Repository string `json:"repository"`
	explain.Entry
}

// readDecision reads the decision that an argument names.
func readDecision(c *cobra.Command, s *store.Store, arg string) (store.StoredDecision, error) {
	id, err := strconv.ParseInt(arg, 10, 64)
	if err != nil || id <= 0 {
		return store.StoredDecision{}, fmt.Errorf("%s is no decision's number: countersign decisions list shows them", quoted(arg))
	}
	d, err := s.GetDecision(c.Context(), store.DecisionID(id))
	if errors.Is(err, store.ErrNotFound) {
		return d, fmt.Errorf("there is no decision %d here: it was never made, or retention removed it", id)
	}
	return d, err
}

func newDecisionsShowCommand() *cobra.Command {
	var db databaseFlags
	var asJSON, snapshot, check bool
	c := &cobra.Command{
		Use: "show DECISION", Short: "Show one decision: verdict, reason tree and the facts it rests on",
		Long: `Show one decision: verdict, reason tree and the facts it rests on.

--snapshot prints the evidence as it was recorded, which countersign evaluate and
countersign policy diff read.`,
		Example: `  countersign decisions show 1041
  countersign decisions show 1041 --snapshot | countersign evaluate -`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			s, err := db.open(c.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			stored, err := readDecision(c, s, args[0])
			if err != nil {
				return err
			}
			d := explain.DecisionOf(stored, 0)
			switch {
			case snapshot:
				_, err = fmt.Fprintln(c.OutOrStdout(), escapeJSON(stored.Evidence))
			case check:
				_, err = fmt.Fprintf(c.OutOrStdout(), "%s\n\n%s\n%s", printableText(stored.Title), printableLines(stored.Summary), printableLines(stored.Explanation))
			case asJSON:
				err = writeJSON(c, d)
			default:
				_, err = fmt.Fprint(c.OutOrStdout(), decisionText(d, true))
			}
			return err
		},
	}
	db.add(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	c.Flags().BoolVar(&snapshot, "snapshot", false, "print the recorded evidence")
	c.Flags().BoolVar(&check, "check", false, "print the check's title, summary and text as they were sent to GitHub")
	c.MarkFlagsMutuallyExclusive("json", "snapshot", "check")
	return c
}

// printableLines is printableText of each line.
func printableLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = printableText(lines[i])
	}
	return strings.Join(lines, "\n")
}

func newDecisionsDiffCommand() *cobra.Command {
	var db databaseFlags
	var asJSON bool
	c := &cobra.Command{
		Use: "diff BEFORE AFTER", Short: "What changed between two decisions: the verdict, and the evidence that explains it",
		Long: `What changed between two decisions: the verdict, and the evidence that explains it.

Exit codes: 0 nothing differs, 1 something does, 2 they could not be read.`,
		Example: `  countersign decisions diff 1040 1041`,
		Args:    cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			s, err := db.open(c.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			before, err := readDecision(c, s, args[0])
			if err != nil {
				return err
			}
			after, err := readDecision(c, s, args[1])
			if err != nil {
				return err
			}
			changes := explain.Diff(explain.DecisionOf(before, after.Number), explain.DecisionOf(after, after.Number))
			out := newPrinter(c.OutOrStdout(), asJSON)
			for _, change := range changes {
				text := fmt.Sprintf("%s %s: %s → %s", change.What, printable(clipped(change.Subject)), orNothing(change.Before), orNothing(change.After))
				if err := out.print(text, change); err != nil {
					return err
				}
			}
			return out.finish(len(changes) > 0)
		},
	}
	db.add(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a difference")
	return c
}

func orNothing(s string) string {
	if s == "" {
		return "(nothing)"
	}
	return short(s)
}
