package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/countersign/countersign/internal/explain"
	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/store"
)

// reevaluateLine is what "countersign reevaluate --json" prints.
type reevaluateLine struct {
	Target     string `json:"target"`
	DeliveryID string `json:"delivery_id"`
	// State is how it stood when the command ended; "" unless --wait was given.
	State    store.State `json:"state,omitempty"`
	NextStep string      `json:"next_step,omitempty"`
	Decided  bool        `json:"decided"`
}

func newReevaluateCommand() *cobra.Command {
	var db databaseFlags
	var asJSON bool
	var wait time.Duration
	c := &cobra.Command{
		Use:   "reevaluate OWNER/REPO#NUMBER | OWNER/REPO",
		Short: "Take back what a check says and decide anew from fresh evidence",
		Long: `Take back what the check of a pull request says, and decide anew from evidence that
is read afresh: what the Re-evaluate button of the check does. With a repository,
every open pull request of it.

The work is queued in the database, durably; the services find it within a poll. The
database URL must be of a role that may queue: countersign_ingress, or the owner.

Exit codes: 0 queued (with --wait: decided), 1 not decided within --wait, 2 it could
not be queued.`,
		Example: `  countersign reevaluate acme/api#7 --wait 30s
  countersign reevaluate acme/api`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			s, err := db.open(c.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			if strings.Contains(args[0], "#") || strings.Contains(args[0], "/pull/") {
				return reevaluatePull(c, s, args[0], asJSON, wait)
			}
			if wait > 0 {
				return errors.New("--wait needs one pull request: write owner/name#number")
			}
			return reevaluateRepository(c, s, args[0], asJSON)
		},
	}
	db.add(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	c.Flags().DurationVar(&wait, "wait", 0, "wait so long for the decision, and say how it ended")
	return c
}

// operatorDelivery names an operator's order as a delivery, which is what all work begins with.
func operatorDelivery(action string) store.Delivery {
	return store.Delivery{ID: store.DeliveryID("operator-" + strings.ToLower(rand.Text())), Event: "operator", Action: action}
}

func reevaluatePull(c *cobra.Command, s *store.Store, arg string, asJSON bool, wait time.Duration) error {
	target, err := parsePull(arg)
	if err != nil {
		return err
	}
	key, err := s.FindPull(c.Context(), target.repository, target.number)
	if errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("%s is not known here: no event about it was ever accepted", printable(arg))
	}
	if err != nil {
		return err
	}
	row, err := s.ReadPull(c.Context(), key)
	if err != nil {
		return err
	}
	if !row.Open {
		return fmt.Errorf("%s is closed: there is nothing to decide", printable(arg))
	}
	d := operatorDelivery("reevaluate")
	_, err = s.AcceptDirect(c.Context(), d, store.DirectWork{
		Installation: key.Installation, AccountLogin: row.Work.Pause.Account, Repository: key.Repository, FullName: row.FullName, Number: key.Number,
		Head: row.Head, BaseRef: row.BaseRef, State: "open", Reason: "operator.reevaluate",
	})
	if err != nil {
		return err
	}
	l := reevaluateLine{Target: fmt.Sprintf("%s#%d", row.FullName, key.Number), DeliveryID: string(d.ID)}
	text := fmt.Sprintf("%s is queued; the delivery is %s", printable(l.Target), l.DeliveryID)
	if wait > 0 {
		p, err := awaitDecision(c, s, key, d.ID, wait)
		if err != nil {
			return err
		}
		l.State, l.NextStep, l.Decided = p.State, p.NextStep, p.Decision != nil
		text = fmt.Sprintf("%s: %s: %s", printable(l.Target), stateWords[p.State], short(p.NextStep))
	}
	out := newPrinter(c.OutOrStdout(), asJSON)
	if err := out.print(text, l); err != nil {
		return err
	}
	return out.finish(wait > 0 && !l.Decided)
}

// awaitDecision waits until a decision counts that was made after the order, or the time is over; every change of where the work is
// is told on standard error.
func awaitDecision(c *cobra.Command, s *store.Store, key store.PullKey, id store.DeliveryID, wait time.Duration) (explain.Pull, error) {
	ctx, cancel := context.WithTimeout(c.Context(), wait)
	defer cancel()
	kept, err := s.GetDelivery(ctx, id)
	if err != nil {
		return explain.Pull{}, err
	}
	told := ""
	for {
		p, err := explain.Read(c.Context(), s, key)
		if err != nil {
			return p, err
		}
		if p.Decision != nil && p.Decision.HeadGeneration >= int64(kept.HeadGeneration) {
			return p, nil
		}
		p.Decision = nil
		if p.Work.Says != told {
			told = p.Work.Says
			fmt.Fprintf(c.ErrOrStderr(), "%s: %s\n", p.Work.Place, short(told))
		}
		select {
		case <-ctx.Done():
			return p, c.Context().Err()
		case <-time.After(250 * time.Millisecond):
		}
	}
}

func reevaluateRepository(c *cobra.Command, s *store.Store, name string, asJSON bool) error {
	if _, ok := ghclient.RepoFromFullName(0, name); !ok {
		return fmt.Errorf("%s names no repository: write owner/name, or owner/name#number", quoted(name))
	}
	r, err := s.FindRepository(c.Context(), name)
	if errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("repository %s is not known here: is the App installed on it?", printable(name))
	}
	if err != nil {
		return err
	}
	d := operatorDelivery("reevaluate")
	_, err = s.AcceptAuthority(c.Context(), d, store.AuthorityWork{
		Installation: r.Installation, Scope: store.ScopeRepository, Repository: r.Repository, FullName: r.FullName, Reason: "operator.reevaluate",
	}, 10*time.Second)
	if err != nil {
		return err
	}
	out := newPrinter(c.OutOrStdout(), asJSON)
	l := reevaluateLine{Target: r.FullName, DeliveryID: string(d.ID)}
	if err := out.print(fmt.Sprintf("every open pull request of %s is queued; the delivery is %s", printable(r.FullName), l.DeliveryID), l); err != nil {
		return err
	}
	return out.finish(false)
}
