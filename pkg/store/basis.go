package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Basis is what a pull request's decision rested on that a push to its base branch can change (P15).
type Basis struct {
	Number  int
	Head    SHA
	BaseRef string
	// Rules names the contents of the rule files at the base, "" where more of the base was looked at than those.
	Rules string
	// Change names the change as GitHub counts it, which moves with the commit where the branch left its base.
	Change string
}

// recordBases keeps them with the intent: a basis counts while its decision is the one that is published.
func recordBases(ctx context.Context, tx pgx.Tx, ev Evaluation, id DecisionID, bases []Basis) error {
	for _, b := range bases {
		_, err := tx.Exec(ctx, `
			-- name: RecordBasis
			INSERT INTO basis (installation_id, repository_id, number, decision_id, head_sha, base_ref, rules, change)
			SELECT installation_id, repository_id, number, $4, $5, $6, $7, $8 FROM pull
			WHERE installation_id = $1 AND repository_id = $2 AND number = $3
			ON CONFLICT (installation_id, repository_id, number) DO UPDATE SET decision_id = excluded.decision_id,
				head_sha = excluded.head_sha, base_ref = excluded.base_ref, rules = excluded.rules, change = excluded.change`,
			ev.Head.Installation, ev.Head.Repository, b.Number, id, ev.Head.SHA, b.BaseRef, b.Rules, b.Change)
		if err != nil {
			return fmt.Errorf("record the basis of pull request %d: %w", b.Number, err)
		}
	}
	return nil
}

// settledBasis is when a pull request's basis still is what its check says: the decision is confirmed and of the newest head
// generation, that generation is revoked of nothing, no write is on its way, and nothing waits to be evaluated on the head. A
// recheck that waits does not count: it reads everything itself.
const settledBasis = `
	FROM basis b
		JOIN pull p USING (installation_id, repository_id, number)
		JOIN head h ON (h.installation_id, h.repository_id, h.head_sha) = (b.installation_id, b.repository_id, b.head_sha)
	WHERE b.installation_id = @installation AND b.repository_id = @repository AND b.number = ANY (@numbers::integer[]) AND b.rules <> ''
		AND p.head_sha = b.head_sha AND p.base_ref = b.base_ref AND p.state = 'open'
		AND h.published_decision_id = b.decision_id AND h.intent_decision_id IS NULL
		AND h.published_generation = h.generation AND h.invalidated_generation = h.generation
		AND NOT EXISTS (SELECT FROM evaluation e WHERE e.installation_id = b.installation_id AND e.repository_id = b.repository_id
			AND (e.number = b.number OR e.head_sha = b.head_sha) AND NOT e.recheck)`

// ReadBases reads what the settled decisions of these pull requests rest on; one that is not settled is not in the answer. It is
// a look ahead: AdvancePageNarrowed looks again in the transaction that counts.
func (s *Store) ReadBases(ctx context.Context, a Authority, numbers []int) (map[int]Basis, error) {
	list, err := queryAll(ctx, s, `
		-- name: ReadBases
		SELECT b.number, b.head_sha, b.base_ref, b.rules, b.change`+settledBasis+` ORDER BY b.number LIMIT 1000`,
		[]any{pgx.NamedArgs{"installation": a.Installation, "repository": a.Repository, "numbers": numbers}}, pgx.RowToStructByPos[Basis])
	if err != nil {
		return nil, fmt.Errorf("read what %s was decided by: %w", a, err)
	}
	bases := make(map[int]Basis, len(list))
	for _, b := range list {
		bases[b.Number] = b
	}
	return bases, nil
}

// AdvancePageNarrowed is AdvancePage, but that it leaves alone every pull request whose settled decision rests on what rests says
// of it now (P15). It returns their numbers. Whatever is not settled, or rests on something else, is queued. Errors: ErrLeaseLost.
func (s *Store) AdvancePageNarrowed(ctx context.Context, a Authority, fullName string, pulls []PullFact, rests map[int]Basis, next int) (kept []int, err error) {
	err = s.advancePage(ctx, a, fullName, next, func(ctx context.Context, tx pgx.Tx) ([]PullFact, error) {
		kept = nil
		settled, err := unmoved(ctx, tx, a, pulls, rests)
		if err != nil {
			return nil, err
		}
		var queued []PullFact
		for _, p := range pulls {
			if settled[p.Number] {
				kept = append(kept, p.Number)
			} else {
				queued = append(queued, p)
			}
		}
		return queued, nil
	})
	return kept, err
}

func unmoved(ctx context.Context, tx pgx.Tx, a Authority, pulls []PullFact, rests map[int]Basis) (map[int]bool, error) {
	kept := map[int]bool{}
	if len(rests) == 0 {
		return kept, nil
	}
	rows, err := tx.Query(ctx, `
		-- name: KeepSettled
		SELECT b.number, b.head_sha, b.base_ref, b.rules, b.change`+settledBasis,
		pgx.NamedArgs{"installation": a.Installation, "repository": a.Repository, "numbers": factNumbers(pulls)})
	if err != nil {
		return nil, err
	}
	settled, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Basis])
	if err != nil {
		return nil, err
	}
	for _, b := range settled {
		kept[b.Number] = rests[b.Number] == b
	}
	return kept, nil
}
