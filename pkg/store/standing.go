package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// State is where a pull request stands, for readers.
type State string

// The states. The first four are a decision's and are stored; the others are what the work is doing while no decision counts.
const (
	StateApproved   State = "approved"
	StateReleased   State = "released" // by break-glass, not by its owners
	StateMissing    State = "missing"  // only approvals are missing
	StateBlocked    State = "blocked"  // something else has to be mended first
	StateRevoking   State = "revoking" // an earlier result is being taken back
	StateEvaluating State = "evaluating"
	StateUnmanaged  State = "unmanaged" // no decision and nothing to do: no policy file asks for one
)

// States lists them all.
var States = []State{StateApproved, StateReleased, StateMissing, StateBlocked, StateRevoking, StateEvaluating, StateUnmanaged}

// Standing is what a decision says of one pull request, in the form in which lists show it.
type Standing struct {
	Number   int
	State    State // one of the first four
	NextStep string
	Waiting  []WaitingOwner
}

// WaitingOwner is an owner whose approval is missing.
type WaitingOwner struct {
	Owner string // CODEOWNERS form, lower case
	Files int
	// Problem is a code of ownership health, "" when the evidence shows none.
	Problem string
}

// The bounds of what a list shows of one pull request. The decision holds the rest.
const (
	maxWaitingOwners = 200
	maxOwnerChars    = 300
	maxNextStepChars = 500
)

// recordStandings keeps them with the intent, as bases are: they count while their decision is the one that is published. An
// owner that was waited for before goes on being waited for since then.
func recordStandings(ctx context.Context, tx pgx.Tx, ev Evaluation, id DecisionID, standings []Standing) error {
	if len(standings) == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, `
		-- name: RecordStandings
		WITH given AS (
			SELECT s.* FROM unnest(@numbers::integer[], @states::text[], @steps::text[]) AS s(number, state, next_step)
				JOIN pull p ON p.installation_id = @installation AND p.repository_id = @repository AND p.number = s.number
		), owners AS (
			SELECT w.* FROM unnest(@waiting::integer[], @owners::text[], @files::integer[], @problems::text[]) AS w(number, owner, files, problem)
				JOIN given USING (number)
		), stands AS (
			INSERT INTO standing AS s (installation_id, repository_id, number, decision_id, head_sha, state, next_step)
			SELECT @installation, @repository, number, @decision, @head, state, left(next_step, @step_limit) FROM given ORDER BY number
			ON CONFLICT (installation_id, repository_id, number) DO UPDATE SET decision_id = excluded.decision_id, head_sha = excluded.head_sha,
				state = excluded.state, next_step = excluded.next_step, since = CASE WHEN s.state = excluded.state THEN s.since ELSE now() END
		), done AS (
			DELETE FROM waiting w USING given WHERE w.installation_id = @installation AND w.repository_id = @repository AND w.number = given.number
				AND NOT EXISTS (SELECT FROM owners o WHERE o.number = w.number AND o.owner = w.owner)
		)
		INSERT INTO waiting (installation_id, repository_id, number, owner, files, problem)
		SELECT @installation, @repository, number, owner, files, problem FROM owners ORDER BY number, owner
		ON CONFLICT (installation_id, repository_id, number, owner) DO UPDATE SET files = excluded.files, problem = excluded.problem`,
		standingColumns(ev, id, standings))
	if err != nil {
		return fmt.Errorf("record where %d pull requests stand: %w", len(standings), err)
	}
	return nil
}

func standingColumns(ev Evaluation, id DecisionID, standings []Standing) pgx.NamedArgs {
	var numbers, waiting, files []int32
	var states, steps, owners, problems []string
	for _, s := range standings {
		n := int32(s.Number) //nolint:gosec // pull numbers are validated positive ints
		numbers, states, steps = append(numbers, n), append(states, string(s.State)), append(steps, s.NextStep)
		seen := map[string]bool{}
		for _, w := range s.Waiting {
			if w.Owner == "" || len(w.Owner) > maxOwnerChars || seen[w.Owner] || len(seen) == maxWaitingOwners {
				continue
			}
			seen[w.Owner] = true
			waiting, owners = append(waiting, n), append(owners, w.Owner)
			files, problems = append(files, int32(w.Files)), append(problems, w.Problem) //nolint:gosec // a count of changed files
		}
	}
	return pgx.NamedArgs{
		"installation": ev.Head.Installation, "repository": ev.Head.Repository, "head": ev.Head.SHA, "decision": id, "step_limit": maxNextStepChars,
		"numbers": numbers, "states": states, "steps": steps, "waiting": waiting, "owners": owners, "files": files, "problems": problems,
	}
}
