package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/countersign/countersign/pkg/store"
)

// pauseLine is one installation as pause and resume print it.
type pauseLine struct {
	Installation int64     `json:"installation"`
	Account      string    `json:"account"`
	Paused       bool      `json:"paused"`
	Since        time.Time `json:"since,omitzero"`
	By           string    `json:"by,omitempty"`
	Reason       string    `json:"reason,omitempty"`
	// LimitedUntil is GitHub's rate limit, which no resume ends.
	LimitedUntil time.Time `json:"rate_limited_until,omitzero"`
	LimitedBy    string    `json:"rate_limit,omitempty"`
	GoneSince    time.Time `json:"gone_since,omitzero"`
}

func newPauseCommand() *cobra.Command {
	var db databaseFlags
	var asJSON bool
	var reason, by string
	c := &cobra.Command{
		Use:   "pause [INSTALLATION | ACCOUNT | OWNER/REPO]",
		Short: "Stop deciding for an installation until it is resumed; results are still taken back",
		Long: `Stop deciding for an installation until countersign resume: nothing of it is
evaluated, so no check turns green. Webhooks are accepted and results that lost
their evidence are taken back as ever. What is being written at this moment is
finished. Pull requests say that they are paused, by whom and why.

Without an argument, list the installations that are paused, by an operator or by a
rate limit of GitHub's. The database URL must be of its owner.`,
		Example: `  countersign pause acme --reason "the policy of 12 March is wrong"
  countersign pause`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			s, err := db.open(c.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			if len(args) == 0 {
				return listPauses(c, s, asJSON)
			}
			if strings.TrimSpace(reason) == "" {
				return errors.New("--reason is not set: say why, people who wait will read it")
			}
			i, err := findInstallation(c, s, args[0])
			if err != nil {
				return err
			}
			if err := s.HoldInstallation(c.Context(), i, cmp.Or(by, whoAmI()), reason); err != nil {
				return err
			}
			return printPause(c, s, i, asJSON, "is paused")
		},
	}
	db.add(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object an installation")
	c.Flags().StringVar(&reason, "reason", "", "why; shown to everybody who waits")
	c.Flags().StringVar(&by, "by", "", "who orders it (default: your user name)")
	return c
}

func newResumeCommand() *cobra.Command {
	var db databaseFlags
	var asJSON bool
	c := &cobra.Command{
		Use:   "resume INSTALLATION | ACCOUNT | OWNER/REPO",
		Short: "End an operator's pause",
		Long: `End an operator's pause: what waited goes on within a poll. A rate limit of GitHub's
is not ended by it. It may run twice. The database URL must be of its owner.`,
		Example: `  countersign resume acme`,
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			s, err := db.open(c.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			i, err := findInstallation(c, s, args[0])
			if err != nil {
				return err
			}
			was, err := s.ReleaseInstallation(c.Context(), i)
			if err != nil {
				return err
			}
			if !was {
				return printPause(c, s, i, asJSON, "was not paused by anybody")
			}
			return printPause(c, s, i, asJSON, "goes on")
		},
	}
	db.add(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

// findInstallation reads an installation's id, an account's login or a repository's name.
func findInstallation(c *cobra.Command, s *store.Store, arg string) (store.InstallationID, error) {
	unknown := fmt.Errorf("%s is no installation that is known here: countersign pause lists none of it; give its numeric id, its account's login or owner/name", quoted(arg))
	if id, err := strconv.ParseInt(arg, 10, 64); err == nil && id > 0 {
		if _, err := installationLine(c, s, store.InstallationID(id)); err == nil || !errors.Is(err, store.ErrNotFound) {
			return store.InstallationID(id), err
		}
		return 0, unknown
	}
	if strings.Contains(arg, "/") {
		r, err := s.FindRepository(c.Context(), arg)
		if errors.Is(err, store.ErrNotFound) {
			return 0, unknown
		}
		return r.Installation, err
	}
	i, err := s.FindInstallation(c.Context(), arg)
	if errors.Is(err, store.ErrNotFound) {
		return 0, unknown
	}
	return i, err
}

func whoAmI() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return cmp.Or(os.Getenv("USER"), "an operator")
}

// installationLine reads one installation. Errors: store.ErrNotFound.
func installationLine(c *cobra.Command, s *store.Store, i store.InstallationID) (store.InstallationLine, error) {
	return s.ReadInstallation(c.Context(), i)
}

func pauseOf(l store.InstallationLine) pauseLine {
	return pauseLine{
		Installation: int64(l.Installation), Account: l.Account, Paused: !l.HeldAt.IsZero(), Since: l.HeldAt, By: l.HeldBy, Reason: l.HeldReason,
		LimitedUntil: l.Until, LimitedBy: l.Reason, GoneSince: l.GoneAt,
	}
}

func printPause(c *cobra.Command, s *store.Store, i store.InstallationID, asJSON bool, what string) error {
	l, err := installationLine(c, s, i)
	if err != nil {
		return err
	}
	out := newPrinter(c.OutOrStdout(), asJSON)
	if err := out.print(fmt.Sprintf("installation %d (%s) %s", l.Installation, short(l.Account), what), pauseOf(l)); err != nil {
		return err
	}
	return out.finish(false)
}

func listPauses(c *cobra.Command, s *store.Store, asJSON bool) error {
	lines, err := s.ListInstallations(c.Context(), 500)
	if err != nil {
		return err
	}
	out := newPrinter(c.OutOrStdout(), asJSON)
	none := true
	for _, l := range lines {
		if !l.Any() {
			continue
		}
		none = false
		text := fmt.Sprintf("installation %d (%s):", l.Installation, short(l.Account))
		if !l.HeldAt.IsZero() {
			text += fmt.Sprintf(" paused since %s by %s: %s", moment(l.HeldAt), short(l.HeldBy), short(l.HeldReason))
		}
		if !l.Until.IsZero() {
			text += fmt.Sprintf(" GitHub's rate limit (%s) lasts until %s", printable(l.Reason), moment(l.Until))
		}
		if !l.GoneAt.IsZero() {
			text += " gone since " + moment(l.GoneAt)
		}
		if err := out.print(text, pauseOf(l)); err != nil {
			return err
		}
	}
	if none && !asJSON {
		if err := out.print("nothing is paused", nil); err != nil {
			return err
		}
	}
	return out.finish(false)
}
