package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/countersign/countersign/pkg/ghclient"
)

// deliveryLog is what redelivery asks of GitHub.
type deliveryLog interface {
	Deliveries(ctx context.Context, cursor string) ([]ghclient.Delivery, string, error)
	Redeliver(ctx context.Context, id int64) error
}

// redeliverLine is one line of "countersign redeliver --json": one delivery.
type redeliverLine struct {
	GUID        string    `json:"delivery_id"`
	Attempt     int64     `json:"attempt"`
	Event       string    `json:"event"`
	Action      string    `json:"action,omitempty"`
	At          time.Time `json:"delivered_at"`
	Status      string    `json:"status"`
	StatusCode  int       `json:"status_code"`
	Redelivered bool      `json:"redelivered"`
	Error       string    `json:"error,omitempty"`
}

type redeliverOptions struct {
	json, failed, list bool
	since              string
}

func newRedeliverCommand() *cobra.Command {
	var o redeliverOptions
	c := &cobra.Command{
		Use:   "redeliver [DELIVERY-ID...]",
		Short: "Ask GitHub to deliver webhooks again, by the App's delivery log",
		Long: `Ask GitHub to deliver webhooks again, by the App's delivery log: those whose
X-GitHub-Delivery is given, or with --failed every one that no attempt brought
through. The reconciler does the latter by itself; this is for not waiting.

A delivery that was stored before changes nothing when it comes again. GitHub keeps
its log for days. The App's credentials come from COUNTERSIGN_GITHUB_APP_ID and
COUNTERSIGN_GITHUB_PRIVATE_KEY (or its _FILE form).

Exit codes: 0 asked for, 1 some were not found or refused, 2 it could not be asked.`,
		Example: `  countersign redeliver 72d3162e-cc78-11e3-81ab-4c9367dc0958
  countersign redeliver --failed --since 6h
  countersign redeliver --list --failed`,
		RunE: func(c *cobra.Command, args []string) error {
			if (len(args) > 0) == (o.failed || o.list) {
				return errors.New("say which: give X-GitHub-Delivery ids, or --failed, or --list")
			}
			since, err := parseAge("--since", o.since)
			if err != nil {
				return err
			}
			cfg, err := settings[liveConfig](githubSettings(os.Environ()))
			if err != nil {
				return err
			}
			app, err := ghclient.NewApp(cfg.GitHub, ghclient.Options{})
			if err != nil {
				return err
			}
			return redeliver(c, app, o, args, time.Now().Add(-since))
		},
	}
	c.Flags().BoolVar(&o.json, "json", false, "print one JSON object a delivery")
	c.Flags().BoolVar(&o.failed, "failed", false, "every delivery that no attempt brought through")
	c.Flags().BoolVar(&o.list, "list", false, "print them, and ask for nothing")
	c.Flags().StringVar(&o.since, "since", "3d", "how far back the log is read")
	return c
}

// logPages bounds one reading of the log: 20,000 attempts.
const logPages = 200

func redeliver(c *cobra.Command, log deliveryLog, o redeliverOptions, ids []string, since time.Time) error {
	wanted := map[string]bool{}
	for _, id := range ids {
		wanted[id] = false
	}
	found, err := readLog(c, log, since, func(newest ghclient.Delivery, through bool) bool {
		if len(ids) > 0 {
			_, asked := wanted[newest.GUID]
			return asked
		}
		return !o.failed || !through
	}, len(ids))
	if err != nil {
		return err
	}
	out := newPrinter(c.OutOrStdout(), o.json)
	refused := false
	for _, d := range found {
		wanted[d.GUID] = true
		l := redeliverLine{GUID: d.GUID, Attempt: d.ID, Event: d.Event, Action: d.Action, At: d.DeliveredAt, Status: d.Status, StatusCode: d.StatusCode}
		text := "listed"
		if !o.list {
			err := log.Redeliver(c.Context(), d.ID)
			l.Redelivered, text = err == nil, "asked for"
			if err != nil {
				refused, l.Error = true, err.Error()
				text = "refused: " + short(err.Error())
			}
		}
		text = fmt.Sprintf("%s  %s  %s.%s  %s (%d)  %s", printable(d.GUID), moment(d.DeliveredAt), printable(d.Event), printable(d.Action), short(d.Status), d.StatusCode, text)
		if err := out.print(text, l); err != nil {
			return err
		}
	}
	for _, id := range ids {
		if !wanted[id] {
			refused = true
			fmt.Fprintf(c.ErrOrStderr(), "%s is not in GitHub's log since %s: read further back with --since, as far as GitHub keeps it\n", quoted(id), moment(since))
		}
	}
	return out.finish(refused)
}

// readLog reads the newest attempt of each delivery since a moment that pick takes, the newest first; through says that one of its
// attempts succeeded. It stops early once it has as many as are wanted (0: no such number).
func readLog(c *cobra.Command, log deliveryLog, since time.Time, pick func(newest ghclient.Delivery, through bool) bool, wanted int) ([]ghclient.Delivery, error) {
	var order []ghclient.Delivery
	through := map[string]bool{}
	progress := newProgress(c)
	defer progress.end()
	cursor, picked := "", 0
	for range logPages {
		page, next, err := log.Deliveries(c.Context(), cursor)
		if err != nil {
			return nil, err
		}
		older := false
		for _, d := range page {
			older = older || d.DeliveredAt.Before(since)
			if d.DeliveredAt.Before(since) {
				continue
			}
			if _, seen := through[d.GUID]; !seen {
				order = append(order, d)
				if wanted > 0 && pick(d, false) {
					picked++
				}
			}
			through[d.GUID] = through[d.GUID] || d.Succeeded()
		}
		progress.add(len(page))
		if next == "" || older || (wanted > 0 && picked >= wanted) {
			break
		}
		cursor = next
	}
	var found []ghclient.Delivery
	for _, d := range order {
		if pick(d, through[d.GUID]) {
			found = append(found, d)
		}
	}
	return found, nil
}
