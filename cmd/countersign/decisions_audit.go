package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/countersign/countersign/pkg/policy"
	"github.com/countersign/countersign/pkg/store"
)

// replayLine is one line of "countersign decisions replay --json".
type replayLine struct {
	Decision   int64  `json:"decision"`
	Repository string `json:"repository"`
	Number     int    `json:"number"`
	// Same: the recorded evidence gave the recorded verdict, byte for byte, and has the recorded digest.
	Same   bool   `json:"same"`
	Detail string `json:"detail,omitempty"`
}

// replay decides a decision's evidence again (I9).
func replay(d store.StoredDecision) replayLine {
	l := replayLine{Decision: int64(d.ID), Repository: d.FullName, Number: d.Number}
	s, err := policy.DecodeSnapshot([]byte(d.Evidence))
	if err != nil {
		l.Detail = "its evidence cannot be read: " + err.Error()
		return l
	}
	switch {
	case string(s.MarshalCanonical()) != d.Evidence:
		l.Detail = "its evidence is not in the canonical form"
	case policy.Digest(s) != d.EvidenceDigest:
		l.Detail = "its evidence does not have the recorded digest"
	case string(policy.Evaluate(s).MarshalCanonical()) != d.Verdict:
		l.Detail = "the same evidence gives another verdict in this release"
	default:
		l.Same = true
	}
	return l
}

func newDecisionsReplayCommand() *cobra.Command {
	var f decisionFlags
	var asJSON, all bool
	c := &cobra.Command{
		Use: "replay [DECISION...]", Short: "Decide recorded evidence again: the verdict must be the same, byte for byte",
		Long: `Decide recorded evidence again: the verdict must be the same, byte for byte.

Without numbers, every decision that the flags leave is replayed. Nothing is
written and GitHub is not asked.

Exit codes: 0 all the same, 1 something differs, 2 it could not be done.`,
		Example: `  countersign decisions replay 1041
  countersign decisions replay --repository acme/api --since 90d`,
		RunE: func(c *cobra.Command, args []string) error {
			s, err := f.db.open(c.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			out := newPrinter(c.OutOrStdout(), asJSON)
			total, differ := 0, 0
			each := func(d store.StoredDecision) error {
				l := replay(d)
				total++
				if !l.Same {
					differ++
				} else if !all && !asJSON {
					return nil
				}
				text := fmt.Sprintf("decision %d of %s#%d: the same", l.Decision, printable(l.Repository), l.Number)
				if !l.Same {
					text = fmt.Sprintf("decision %d of %s#%d: %s", l.Decision, printable(l.Repository), l.Number, short(l.Detail))
				}
				return out.print(text, l)
			}
			if err := eachDecision(c, s, &f, args, each); err != nil {
				return err
			}
			if !asJSON {
				if err := out.print(fmt.Sprintf("%d decisions replayed, %d differ", total, differ), nil); err != nil {
					return err
				}
			}
			return out.finish(differ > 0)
		},
	}
	f.add(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a decision")
	c.Flags().BoolVar(&all, "all", false, "print those that are the same, too")
	return c
}

// eachDecision walks the decisions that are named, or that the flags leave, the newest first, and tells how far it is.
func eachDecision(c *cobra.Command, s *store.Store, f *decisionFlags, args []string, each func(store.StoredDecision) error) error {
	for _, arg := range args {
		d, err := readDecision(c, s, arg)
		if err != nil {
			return err
		}
		if err := each(d); err != nil {
			return err
		}
	}
	if len(args) > 0 {
		return nil
	}
	filter, err := f.filter(c, s)
	if err != nil {
		return err
	}
	progress := newProgress(c)
	defer progress.end()
	for filter.Limit = 100; ; {
		page, err := s.ListWholeDecisions(c.Context(), filter)
		if err != nil {
			return err
		}
		for _, d := range page {
			if err := each(d); err != nil {
				return err
			}
			filter.Before = d.ID
		}
		progress.add(len(page))
		if len(page) < filter.Limit {
			return nil
		}
	}
}

// progress tells on standard error how far a command is, once it has taken longer than a second.
type progress struct {
	c      *cobra.Command
	began  time.Time
	told   time.Time
	done   int
	spoken bool
}

func newProgress(c *cobra.Command) *progress {
	return &progress{c: c, began: time.Now(), told: time.Now()}
}

func (p *progress) add(n int) {
	p.done += n
	if time.Since(p.told) >= time.Second {
		p.told, p.spoken = time.Now(), true
		fmt.Fprintf(p.c.ErrOrStderr(), "%d so far, %s\n", p.done, age(time.Since(p.began)))
	}
}

func (p *progress) end() {
	if p.spoken {
		fmt.Fprintf(p.c.ErrOrStderr(), "%d in %s\n", p.done, age(time.Since(p.began)))
	}
}

// verifyLine is one line of "countersign decisions verify --json": one installation's chain.
type verifyLine struct {
	Installation int64  `json:"installation"`
	Account      string `json:"account,omitempty"`
	Checked      int    `json:"checked"`
	// From is the sequence that verification began behind: what is before it was removed by retention.
	From   int64         `json:"from"`
	Newest int64         `json:"newest"`
	Hash   string        `json:"hash"`
	Faults []verifyFault `json:"faults"`
}

type verifyFault struct {
	Kind     store.ChainFaultKind `json:"kind"`
	Sequence int64                `json:"sequence"`
	Decision int64                `json:"decision,omitempty"`
	Detail   string               `json:"detail"`
}

func newDecisionsVerifyCommand() *cobra.Command {
	var db databaseFlags
	var installation int64
	var asJSON bool
	c := &cobra.Command{
		Use: "verify", Short: "Verify the hash chain: find a decision that was changed, removed or reordered by hand",
		Long: `Verify the hash chain of each installation's decisions: find a row that was
changed, removed or reordered by anything but Countersign. Where retention removed
the oldest, verification begins at the checkpoint that it left.

The chain shows tampering by somebody who cannot recompute it. Keep the newest hash
of each installation (--json) elsewhere to notice one who can.

Exit codes: 0 every chain holds, 1 one does not, 2 it could not be read.`,
		Example: `  countersign decisions verify
  countersign decisions verify --json | jq -r '[.installation,.newest,.hash]|@tsv'`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := db.open(c.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			chains, err := s.ListChains(c.Context(), store.InstallationID(installation))
			if err != nil {
				return err
			}
			if installation != 0 && len(chains) == 0 {
				return fmt.Errorf("nothing was ever decided for installation %d", installation)
			}
			return verifyChains(c, s, chains, asJSON)
		},
	}
	db.add(c)
	c.Flags().Int64Var(&installation, "installation", 0, "only of an installation's id")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object an installation")
	return c
}

// maxFaults is how many faults of one chain are told.
const maxFaults = 20

func verifyChains(c *cobra.Command, s *store.Store, chains []store.Chain, asJSON bool) error {
	out := newPrinter(c.OutOrStdout(), asJSON)
	progress := newProgress(c)
	defer progress.end()
	broken := false
	for _, chain := range chains {
		l := verifyLine{Installation: int64(chain.Installation), Account: chain.Account, From: chain.Cut, Newest: chain.Sequence, Hash: chain.Hash, Faults: []verifyFault{}}
		checked, faults, err := s.WalkChain(c.Context(), chain.Installation, maxFaults, func(store.StoredDecision) error {
			progress.add(1)
			return nil
		})
		if err != nil && !errors.Is(err, store.ErrChainBroken) {
			return err
		}
		l.Checked = checked
		text := fmt.Sprintf("installation %d (%s): %d decisions hold, the newest is %d", l.Installation, short(l.Account), l.Checked, l.Newest)
		if l.From > 0 {
			text += fmt.Sprintf(", retention removed those up to %d", l.From)
		}
		if len(faults) > 0 {
			text = fmt.Sprintf("installation %d (%s): the chain is broken", l.Installation, short(l.Account))
		}
		for _, f := range faults {
			broken = true
			l.Faults = append(l.Faults, verifyFault{Kind: f.Kind, Sequence: f.Sequence, Decision: int64(f.Decision), Detail: f.Detail})
			text += fmt.Sprintf("\n  %s at sequence %d", f.Kind, f.Sequence)
			if f.Decision != 0 {
				text += fmt.Sprintf(", decision %d", f.Decision)
			}
			text += ": " + f.Detail
		}
		if err := out.print(text, l); err != nil {
			return err
		}
	}
	return out.finish(broken)
}
