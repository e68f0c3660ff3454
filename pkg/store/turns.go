package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Draw narrows what one claim may take. Without one a claim takes anything.
//
// Every claim draws lane by lane, the most urgent first, and within a lane gives the installations turns: it begins with the
// one after that which this process served last, so that an installation with one row is served within as many claims as there
// are installations with work, however much the others have. The cursors are each process's own and nothing but fairness rests
// on them.
//
// What a claim costs grows with the installations that have rows in a lane, not with the rows: it steps from one to the next in
// the index and looks at each one's oldest (turns_test.go holds the plans to that).
type Draw struct {
	// FreshOnly leaves everything alone that no event asked for.
	FreshOnly bool
	// Except are installations that hold enough of this process already.
	Except []InstallationID
}

type drawKey struct{}

// WithDraw narrows the claims that are made with the returned context.
func WithDraw(ctx context.Context, d Draw) context.Context {
	return context.WithValue(ctx, drawKey{}, d)
}

// patientEvery: one claim in so many begins with the patient lanes, so that a flood of fresh events delays them and never stops them.
const patientEvery = 16

// queue names one of the three that are drawn from.
type queue int

const (
	queueInvalidation queue = iota
	queueEvaluation
	queueAuthority
	queues
)

var (
	evaluationLanes = []Lane{LaneInteractive, LaneFanout, LaneReconcile, LaneRecheck}
	authorityLanes  = []Lane{LaneInteractive, LaneFanout}
)

// turns remembers which installation was served last. The zero value is ready.
type turns struct {
	mu     sync.Mutex
	claims [queues]int
	last   [queues]map[Lane]InstallationID
}

func (t *turns) served(q queue, l Lane, i InstallationID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last[q] == nil {
		t.last[q] = map[Lane]InstallationID{}
	}
	t.last[q][l] = i
}

// drawn is one claim's order: lanes, and in each the installation after which the turn begins.
type drawn struct {
	lanes  []int16
	after  []int64
	except []int64
}

func (s *Store) draw(ctx context.Context, q queue, lanes []Lane) drawn {
	d, _ := ctx.Value(drawKey{}).(Draw)
	s.turns.mu.Lock()
	defer s.turns.mu.Unlock()
	out := drawn{lanes: []int16{}, after: []int64{}, except: []int64{}}
	for _, l := range lanes {
		if d.FreshOnly && l != LaneInteractive {
			continue
		}
		out.lanes = append(out.lanes, int16(l))
		out.after = append(out.after, int64(s.turns.last[q][l]))
	}
	for _, i := range d.Except {
		out.except = append(out.except, int64(i))
	}
	if s.turns.claims[q]++; s.turns.claims[q]%patientEvery == 0 {
		slices.Reverse(out.lanes)
		slices.Reverse(out.after)
	}
	return out
}

func (d drawn) args(holder string, ttl time.Duration) []any {
	return []any{holder, seconds(ttl), d.lanes, d.after, d.except}
}

// inTurn is the query for the first row that pick finds, lane by lane ($3, l.lane), and in each lane installation by
// installation (t.installation_id), beginning after $4 and going round once; those of $5, those whose rate-limit pause lasts and,
// of the evaluations, those that an operator holds (decision 0171) are passed over. rows is where the lane's installations are found: "table q WHERE condition AND".
//
// The recursion is evaluated only as far as the outer LIMIT asks, and each of its steps is one look into an index that begins
// with lane and installation.
func inTurn(rows, pick string) string {
	paused := "i.paused_until > now()"
	if strings.HasPrefix(rows, "evaluation ") {
		paused = "(i.paused_until > now() OR i.held_at IS NOT NULL)"
	}
	return fmt.Sprintf(`
		SELECT pick.* FROM unnest($3::smallint[], $4::bigint[]) AS l(lane, after_id) CROSS JOIN LATERAL (
			SELECT found.* FROM (
				WITH RECURSIVE turn AS (
					SELECT (SELECT min(q.installation_id) FROM %[1]s q.lane = l.lane AND q.installation_id > l.after_id) AS installation_id, false AS round
					UNION ALL
					SELECT CASE WHEN turn.round OR turn.installation_id IS NULL
						THEN (SELECT min(q.installation_id) FROM %[1]s q.lane = l.lane AND q.installation_id > coalesce(turn.installation_id, 0) AND q.installation_id <= l.after_id)
						ELSE (SELECT min(q.installation_id) FROM %[1]s q.lane = l.lane AND q.installation_id > turn.installation_id) END,
						turn.round OR turn.installation_id IS NULL
					FROM turn WHERE turn.installation_id IS NOT NULL OR NOT turn.round
				)
				SELECT turn.installation_id FROM turn WHERE turn.installation_id IS NOT NULL AND turn.installation_id <> ALL ($5::bigint[])
					AND NOT EXISTS (SELECT FROM installation i WHERE i.installation_id = turn.installation_id AND %[3]s)
			) AS t CROSS JOIN LATERAL (%[2]s) AS found LIMIT 1
		) AS pick LIMIT 1`, rows, pick, paused)
}
