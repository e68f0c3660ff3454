package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/countersign/countersign/pkg/store"
)

func newRetentionCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "retention", Short: "Show what is kept and for how long, and remove old decisions",
		Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newRetentionShowCommand(), newRetentionApplyCommand())
	return c
}

// keepingLine is one line of "countersign retention show --json".
type keepingLine struct {
	What   string    `json:"what"`
	Rows   int64     `json:"rows_estimated"`
	Bytes  int64     `json:"bytes_on_disk"`
	Oldest time.Time `json:"oldest,omitzero"`
	Ages   string    `json:"ages"`
}

// agesOf says what ages each kind of record.
var agesOf = map[string]string{
	"decision":     "by countersign retention apply only",
	"delivery":     "by the reconciler, COUNTERSIGN_DELIVERY_RETENTION_DAYS",
	"delivery_gap": "by the reconciler, with deliveries",
	"head":         "by the reconciler, once nothing refers to it",
	"pull":         "by countersign queue purge, with its installation",
}

func newRetentionShowCommand() *cobra.Command {
	var db databaseFlags
	var asJSON bool
	c := &cobra.Command{
		Use: "show", Short: "Show how much is kept, since when, and what removes it", Args: cobra.NoArgs,
		Example: `  countersign retention show`,
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := db.open(c.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			list, err := s.ReadKeeping(c.Context())
			if err != nil {
				return err
			}
			out := newPrinter(c.OutOrStdout(), asJSON)
			for _, k := range list {
				text := fmt.Sprintf("%-12s about %d rows, %s on disk", k.What, k.Rows, megabytes(k.Bytes))
				if !k.Oldest.IsZero() {
					text += ", the oldest of " + moment(k.Oldest)
				}
				text += "; removed " + agesOf[k.What]
				if err := out.print(text, keepingLine{What: k.What, Rows: k.Rows, Bytes: k.Bytes, Oldest: k.Oldest, Ages: agesOf[k.What]}); err != nil {
					return err
				}
			}
			return out.finish(false)
		},
	}
	db.add(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a kind of record")
	return c
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }

// cutLine is one line of "countersign retention apply --json": one installation.
type cutLine struct {
	Installation int64  `json:"installation"`
	Account      string `json:"account,omitempty"`
	Removed      int    `json:"removed"`
	Through      int64  `json:"through_sequence"`
	Bytes        int64  `json:"bytes"`
	DryRun       bool   `json:"dry_run"`
	Kept         string `json:"kept,omitempty"`
}

func newRetentionApplyCommand() *cobra.Command {
	var db databaseFlags
	var olderThan string
	var installation int64
	var asJSON, dryRun bool
	c := &cobra.Command{
		Use: "apply --older-than AGE", Short: "Remove old decisions from the beginning of each chain, and leave a checkpoint",
		Long: `Remove decisions that are older than an age, from the beginning of each chain, and
leave the checkpoint at which verification begins from then on. A decision that a
check still shows stays, and so does everything after it.

Removed evidence cannot be brought back: export it first (countersign decisions
export --until AGE). With --dry-run nothing is removed. It may run again. The
database URL must be of its owner: no service may remove a decision.`,
		Example: `  countersign retention apply --older-than 400d --dry-run
  countersign retention apply --older-than 400d`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if olderThan == "" {
				return errors.New("--older-than is not set: say which decisions are old, such as 400d")
			}
			d, err := parseAge("--older-than", olderThan)
			if err != nil {
				return err
			}
			s, err := db.open(c.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			now, err := s.DatabaseNow(c.Context())
			if err != nil {
				return err
			}
			chains, err := s.ListChains(c.Context(), store.InstallationID(installation))
			if err != nil {
				return err
			}
			return cutChains(c, s, chains, now.Add(-d), dryRun, asJSON)
		},
	}
	db.add(c)
	c.Flags().StringVar(&olderThan, "older-than", "", "age of what goes, such as 400d")
	c.Flags().Int64Var(&installation, "installation", 0, "only of an installation's id")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "say what would go, and remove nothing")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object an installation")
	return c
}

func cutChains(c *cobra.Command, s *store.Store, chains []store.Chain, before time.Time, dryRun, asJSON bool) error {
	out := newPrinter(c.OutOrStdout(), asJSON)
	progress := newProgress(c)
	defer progress.end()
	for _, chain := range chains {
		cut, err := s.PlanCut(c.Context(), chain.Installation, before)
		if err == nil && !dryRun {
			kept := cut.Kept
			cut, err = s.CutChain(c.Context(), chain.Installation, before)
			cut.Kept = kept
		}
		if err != nil {
			return err
		}
		progress.add(cut.Removed)
		verb := "removed"
		if dryRun {
			verb = "would be removed"
		}
		text := fmt.Sprintf("installation %d (%s): %d decisions %s, %s", chain.Installation, short(chain.Account), cut.Removed, verb, megabytes(cut.Bytes))
		if cut.Kept != "" {
			text += "; " + cut.Kept
		}
		l := cutLine{Installation: int64(chain.Installation), Account: chain.Account, Removed: cut.Removed, Through: cut.Through, Bytes: cut.Bytes, DryRun: dryRun, Kept: cut.Kept}
		if err := out.print(text, l); err != nil {
			return err
		}
	}
	return out.finish(false)
}
