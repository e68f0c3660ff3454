package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// PullView is a pull request as a reader sees it: what was decided last on its head, and where its work is now.
type PullView struct {
	Key         PullKey
	FullName    string
	Title       string
	AuthorLogin string
	BaseRef     string
	Head        SHA
	State       string
	// Revoking: the newest head generation has not been invalidated yet. Waiting: an evaluation is due or under way.
	Revoking bool
	Waiting  bool
	LastErr  string
	// DecisionID 0: nothing is decided for the current head generation.
	DecisionID DecisionID
	Conclusion string
	CheckTitle string
	Verdict    string // canonical JSON
	DecidedAt  time.Time
}

// ListPulls lists open pull requests, those most recently changed first, at most limit. A decision shows only while its head
// generation is the current one: an older one is revoked, or about to be.
func (s *Store) ListPulls(ctx context.Context, limit int) ([]PullView, error) {
	list, err := queryAll(ctx, s, `
		-- name: ListPulls
		SELECT p.installation_id, p.repository_id, p.number, coalesce(r.full_name, ''), p.title, p.author_login, p.base_ref, p.head_sha, p.state,
			coalesce(h.invalidated_generation < h.generation, false), e.number IS NOT NULL AND NOT e.recheck,
			coalesce(nullif(e.last_error, ''), h.invalidation_error, ''),
			coalesce(d.decision_id, 0), coalesce(d.conclusion, ''), coalesce(d.title, ''), coalesce(d.verdict, ''), d.decided_at
		FROM pull p
			LEFT JOIN repository r USING (installation_id, repository_id)
			LEFT JOIN head h USING (installation_id, repository_id, head_sha)
			LEFT JOIN evaluation e USING (installation_id, repository_id, number)
			LEFT JOIN decision d ON d.decision_id = h.published_decision_id AND h.published_generation = h.generation
		WHERE p.state = 'open'
		ORDER BY p.updated_at DESC, p.installation_id, p.repository_id, p.number LIMIT $1`, []any{limit}, scanPullView)
	if err != nil {
		return nil, fmt.Errorf("list pull requests: %w", err)
	}
	return list, nil
}

func scanPullView(row pgx.CollectableRow) (PullView, error) {
	var v PullView
	var decided *time.Time
	err := row.Scan(&v.Key.Installation, &v.Key.Repository, &v.Key.Number, &v.FullName, &v.Title, &v.AuthorLogin, &v.BaseRef, &v.Head, &v.State,
		&v.Revoking, &v.Waiting, &v.LastErr, &v.DecisionID, &v.Conclusion, &v.CheckTitle, &v.Verdict, &decided)
	v.DecidedAt = timeOf(decided)
	return v, err
}
