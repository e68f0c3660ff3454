package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// GapLine is one delivery that did not arrive, and what became of it.
type GapLine struct {
	GUID         DeliveryID
	Event        string
	Action       string
	Installation InstallationID
	Kind         GapKind
	State        GapState
	AttemptedAt  time.Time // by GitHub
	StatusCode   int
	Status       string
	Asks         int
	LastErr      string
	FoundAt      time.Time
	SettledAt    time.Time
}

// ListMissed lists the newest deliveries that were found missed, for readers.
func (s *Store) ListMissed(ctx context.Context, limit int) ([]GapLine, error) {
	list, err := queryAll(ctx, s, `
		-- name: ListMissed
		SELECT guid, event, action, installation_id, kind, state, attempted_at, status_code, status, asks, last_error, found_at, settled_at
		FROM delivery_gap ORDER BY found_at DESC, guid LIMIT $1`, []any{boundedLimit(limit)}, func(row pgx.CollectableRow) (GapLine, error) {
		var l GapLine
		var settled *time.Time
		err := row.Scan(&l.GUID, &l.Event, &l.Action, &l.Installation, &l.Kind, &l.State, &l.AttemptedAt, &l.StatusCode, &l.Status, &l.Asks, &l.LastErr, &l.FoundAt, &settled)
		l.SettledAt = timeOf(settled)
		return l, err
	})
	if err != nil {
		return nil, fmt.Errorf("list missed deliveries: %w", err)
	}
	return list, nil
}

// ReadPulse is a text that changes whenever a delivery was accepted, a decision was made or one was confirmed. It is read by the ends
// of three indexes, so that open pages can ask for it all the time.
func (s *Store) ReadPulse(ctx context.Context) (string, error) {
	var text string
	err := s.queryOne(ctx, `
		-- name: ReadPulse
		SELECT concat_ws('/', (SELECT max(decision_id) FROM decision), (SELECT max(received_at) FROM delivery),
			(SELECT max(settled_at) FROM decision WHERE outcome = 'confirmed'))`, nil, &text)
	if err != nil {
		return "", fmt.Errorf("read the pulse: %w", err)
	}
	return text, nil
}

// LatestDecision is the newest decision that a pull request of a repository was the trigger of.
type LatestDecision struct {
	Decision DecisionID
	Number   int
	Title    string
	Open     bool
}

// ListLatestDecisions lists, for readers, the newest decision of each pull request of a repository, the open ones first and the newest of
// each first.
func (s *Store) ListLatestDecisions(ctx context.Context, installation InstallationID, repository RepositoryID, limit int) ([]LatestDecision, error) {
	list, err := queryAll(ctx, s, `
		-- name: ListLatestDecisions
		SELECT l.decision_id, p.number, p.title, p.state = 'open' FROM pull p
			CROSS JOIN LATERAL (SELECT d.decision_id FROM decision d
				WHERE d.installation_id = p.installation_id AND d.repository_id = p.repository_id AND d.number = p.number ORDER BY d.decision_id DESC LIMIT 1) AS l
		WHERE p.installation_id = $1 AND p.repository_id = $2
		ORDER BY p.state = 'open' DESC, p.updated_at DESC, p.number LIMIT $3`, []any{installation, repository, boundedLimit(limit)}, func(row pgx.CollectableRow) (LatestDecision, error) {
		var l LatestDecision
		err := row.Scan(&l.Decision, &l.Number, &l.Title, &l.Open)
		return l, err
	})
	if err != nil {
		return nil, fmt.Errorf("list the latest decisions of repository %d: %w", repository, err)
	}
	return list, nil
}
