package console

import (
	"context"
	"net/http"
	"time"

	"github.com/countersign/countersign/pkg/store"
)

// operationsView is page (d). Only operators see it: it tells of every installation.
type operationsView struct {
	Now           time.Time
	Queues        []queueLine
	Leases        []store.LeaseLine
	Installations []store.InstallationLine
	Log           store.LogPosition
	Gaps          []store.GapLine
	Mark          string
}

// queueLine is one lane of a queue.
type queueLine struct {
	Queue, Lane                  string
	Due, Leased, Waiting, Parked int
	Oldest                       time.Duration
}

const operationsLines = 100

func (c *Console) readOperations(ctx context.Context) (operationsView, error) {
	var view operationsView
	var err error
	if view.Now, err = c.Store.DatabaseNow(ctx); err != nil {
		return view, err
	}
	if view.Queues, err = c.readQueues(ctx); err != nil {
		return view, err
	}
	if view.Leases, err = c.Store.ListLeases(ctx, operationsLines); err != nil {
		return view, err
	}
	if view.Installations, err = c.Store.ListInstallations(ctx, operationsLines); err != nil {
		return view, err
	}
	if view.Log, err = c.Store.ReadLogPosition(ctx); err != nil {
		return view, err
	}
	view.Gaps, err = c.Store.ListMissed(ctx, operationsLines)
	marked := view
	marked.Now, marked.Queues = time.Time{}, nil
	for _, q := range view.Queues {
		q.Oldest = 0 // passes by itself
		marked.Queues = append(marked.Queues, q)
	}
	view.Mark = markOf(marked)
	return view, err
}

func (c *Console) readQueues(ctx context.Context) (lines []queueLine, err error) {
	for _, q := range []struct {
		name string
		read func(context.Context) ([]store.LaneBacklog, error)
	}{{"revocation", c.Store.ReadInvalidationBacklog}, {"evaluation", c.Store.ReadEvaluationBacklog}} {
		lanes, err := q.read(ctx)
		if err != nil {
			return nil, err
		}
		if len(lanes) == 0 {
			lines = append(lines, queueLine{Queue: q.name})
		}
		for _, l := range lanes {
			lines = append(lines, queueLine{q.name, l.Lane.String(), l.Due, l.Leased, l.Waiting, l.Parked, l.OldestAge})
		}
	}
	a, err := c.Store.ReadAuthorityBacklog(ctx)
	if err != nil {
		return nil, err
	}
	return append(lines, queueLine{"authority", "", a.Due, a.Leased, a.Waiting, a.Parked, a.OldestAge}), nil
}

func (c *Console) operationsPage(w http.ResponseWriter, r *http.Request, v viewer) {
	if !v.Operator {
		c.problem(w, r, v, http.StatusNotFound, "There is no such page, or you cannot see its repository on GitHub.")
		return
	}
	view, err := c.readOperations(r.Context())
	if err != nil {
		c.failed(w, r, v, err)
		return
	}
	c.show(w, r, http.StatusOK, "operations", shell{Title: "Operations", Page: "operations", Viewer: v, Live: "/live/operations", Mark: view.Mark, Now: view.Now, Data: view})
}
