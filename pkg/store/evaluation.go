package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/countersign/countersign/internal/hook"
)

// EvaluationRow is one pull request's pending evaluation, captured at the claim.
type EvaluationRow struct {
	Number      int
	Generation  Generation
	Epoch       Epoch
	Lane        Lane
	Recheck     bool
	Attempts    int
	DeliveryID  DeliveryID
	Reason      string
	Traceparent string
	Watermark   Watermark
	RequestedAt time.Time
}

// Evaluation is a claimed head with every evaluation waiting on it: one lease a head (P4), because one check run answers
// for every open pull request on the commit.
type Evaluation struct {
	HeadState
	Token Token
	// Epoch is the installation's at the claim; a row enqueued under an older one never publishes (RG-223).
	Epoch Epoch
	// ClaimedAt is the moment of the claim by the database's clock: a verdict's "now".
	ClaimedAt time.Time
	// Rows are ordered as they were drawn: the first is the trigger that the decision names. Empty where only Group waits.
	Rows []EvaluationRow
	// Group is the open merge group whose head this is; nil for every other head (P13).
	Group *MergeGroup
}

// Trigger is what the decision names: the first waiting pull request, or the merge group where none waits.
func (ev Evaluation) Trigger() EvaluationRow {
	if len(ev.Rows) > 0 {
		return ev.Rows[0]
	}
	if ev.Group != nil {
		return ev.Group.row()
	}
	return EvaluationRow{}
}

// StaleEpoch reports whether a row was enqueued under an older authority epoch.
func (ev Evaluation) StaleEpoch() bool {
	for _, r := range ev.Rows {
		if r.Epoch != ev.Epoch {
			return true
		}
	}
	return ev.Group != nil && ev.Group.Epoch != ev.Epoch
}

// Published reports whether the current head generation already has a confirmed publication.
func (ev Evaluation) Published() bool { return ev.PublishedGeneration == ev.Generation }

func (ev Evaluation) key() []any {
	return []any{ev.Head.Installation, ev.Head.Repository, ev.Head.SHA, ev.Token, ev.Generation}
}

func (ev Evaluation) rowArrays() (numbers []int32, generations []int64) {
	for _, r := range ev.Rows {
		numbers = append(numbers, int32(r.Number)) //nolint:gosec // validated positive ints
		generations = append(generations, int64(r.Generation))
	}
	return numbers, generations
}

// evaluationHeld is the condition every later write of an evaluation repeats.
func evaluationHeld() string {
	return headHeld("evaluation_token = $4 AND evaluation_expires_at >= now()")
}

// headHeld is the condition on a head's row: the key, a lease and the claimed generation.
func headHeld(lease string) string {
	generation := "generation = $5"
	if hook.Removed(hook.Lease) {
		lease = "$4::bigint IS NOT NULL"
	}
	if hook.Removed(hook.HeadGeneration) {
		generation = "$5::bigint IS NOT NULL"
	}
	return "installation_id = $1 AND repository_id = $2 AND head_sha = $3 AND " + lease + " AND " + generation
}

// ClaimEvaluation leases the head of the first due evaluation whose newest head generation is invalidated (P9, RG-198), and
// captures every row waiting on that head: urgent lanes first, installations in turn (see Draw), the oldest of an installation
// first. Reclaiming an expired lease advances the rows' generations, so that the former
// owner is fenced twice (RG-274). Errors: ErrNoWork.
func (s *Store) ClaimEvaluation(ctx context.Context, holder string, ttl time.Duration) (Evaluation, error) {
	d := s.draw(ctx, queueEvaluation, evaluationLanes)
	var ev Evaluation
	var lane Lane
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		ev = Evaluation{}
		var reclaimed, grouped bool
		err := tx.QueryRow(ctx, claimEvaluationSQL(), d.args(holder, ttl)...).
			Scan(append(ev.dest(), &ev.Token, &ev.Epoch, &ev.ClaimedAt, &reclaimed, &lane, &grouped)...)
		if err != nil {
			return rowError(err, ErrNoWork, "claim evaluation")
		}
		// A pull request may have been opened on a merge group's head: one check answers for both, so both are judged (P4, P13).
		return captureWork(ctx, tx, &ev, reclaimed, grouped)
	})
	if err == nil {
		s.turns.served(queueEvaluation, lane, ev.Head.Installation)
	}
	return ev, err
}

func claimEvaluationSQL() string {
	// <= is = here (head_invalidated_bounds), but of an equality the planner expects one row in 200 and reads the whole table for it.
	free, ready, invalidated := "h.evaluation_expires_at IS NULL OR h.evaluation_expires_at < now()", "NOT awaits_revocation", "h.generation <= h.invalidated_generation"
	if hook.Removed(hook.Lease) {
		free = "true"
	}
	if hook.Removed(hook.Invalidated) {
		ready, invalidated = "true", "true"
	}
	return `
	-- name: ClaimEvaluation
	WITH candidate AS (` + inTurn("evaluation q WHERE "+ready+" AND", `
		SELECT h.installation_id, h.repository_id, h.head_sha, h.evaluation_expires_at IS NOT NULL AS reclaimed, l.lane
		FROM evaluation e JOIN head h USING (installation_id, repository_id, head_sha)
		WHERE e.lane = l.lane AND e.installation_id = t.installation_id AND `+ready+`
			AND e.available_at <= now() AND `+invalidated+`
			AND (`+free+`)
		ORDER BY e.available_at, e.repository_id, e.number
		LIMIT 1 FOR UPDATE OF h SKIP LOCKED`) + `
	)` + leaseCandidate + `, c.lane, ` + hasOpenGroup
}

// leaseCandidate gives the evaluation lease of the head that a CTE named candidate found to holder $1 for $2 seconds, and returns
// what a claim captures of it.
const leaseCandidate = `
	UPDATE head h SET evaluation_token = nextval('lease_token_seq'), evaluation_holder = $1,
		evaluation_expires_at = now() + make_interval(secs => $2)
	FROM candidate c
	WHERE (h.installation_id, h.repository_id, h.head_sha) = (c.installation_id, c.repository_id, c.head_sha)
	RETURNING ` + headStateColumns + `, h.evaluation_token,
		coalesce((SELECT authority_epoch FROM installation i WHERE i.installation_id = h.installation_id), 1), now(), c.reclaimed`

// captureWork adds to a claimed head everything that waits on it: the rows, and the merge group where it has one. What was
// reclaimed from an expired lease is advanced first (RG-274).
func captureWork(ctx context.Context, tx pgx.Tx, ev *Evaluation, reclaimed, grouped bool) error {
	if reclaimed {
		if err := advanceRows(ctx, tx, ev.Head); err != nil {
			return err
		}
	}
	if grouped {
		if err := claimGroup(ctx, tx, ev, reclaimed); err != nil {
			return err
		}
	}
	var err error
	ev.Rows, err = evaluationRows(ctx, tx, ev.Head)
	return err
}

// advanceRows raises the generation of every row on a head: whoever held an older one is fenced.
func advanceRows(ctx context.Context, tx pgx.Tx, key HeadKey) error {
	_, err := tx.Exec(ctx, `
		-- name: AdvanceRows
		WITH raised AS (
			UPDATE pull p SET generation = p.generation + 1 FROM evaluation e
			WHERE (e.installation_id, e.repository_id, e.number) = (p.installation_id, p.repository_id, p.number)
				AND e.installation_id = $1 AND e.repository_id = $2 AND e.head_sha = $3
			RETURNING p.number, p.generation
		)
		UPDATE evaluation e SET generation = raised.generation FROM raised
		WHERE e.installation_id = $1 AND e.repository_id = $2 AND e.number = raised.number`, key.Installation, key.Repository, key.SHA)
	return err
}

func evaluationRows(ctx context.Context, q querier, key HeadKey) ([]EvaluationRow, error) {
	rows, err := q.Query(ctx, `
		-- name: EvaluationRows
		SELECT number, generation, authority_epoch, lane, recheck, attempts, delivery_id, reason, traceparent,
			watermark_head, watermark_updated_at, watermark_review_id, watermark_review_state, requested_at
		FROM evaluation WHERE installation_id = $1 AND repository_id = $2 AND head_sha = $3
		ORDER BY lane, available_at, number LIMIT $4`, key.Installation, key.Repository, key.SHA, MaxPullsOnHead)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (EvaluationRow, error) {
		var r EvaluationRow
		var updated *time.Time
		err := row.Scan(&r.Number, &r.Generation, &r.Epoch, &r.Lane, &r.Recheck, &r.Attempts, &r.DeliveryID, &r.Reason, &r.Traceparent,
			&r.Watermark.Head, &updated, &r.Watermark.ReviewID, &r.Watermark.ReviewState, &r.RequestedAt)
		r.Watermark.UpdatedAt = timeOf(updated)
		return r, err
	})
}

// evaluationError names why a statement that repeats the lease touched no row.
func (s *Store) evaluationError(ctx context.Context, ev Evaluation, err error, verb string) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, pgx.ErrNoRows) {
		now, readErr := s.GetHead(ctx, ev.Head)
		switch {
		case readErr != nil:
			err = readErr
		case now.Generation != ev.Generation:
			err = ErrSuperseded
		default:
			err = ErrLeaseLost
		}
	}
	return fmt.Errorf("%s evaluation of %s generation %d: %w", verb, ev.Head, ev.Generation, err)
}

// RenewEvaluation extends the head's lease, only while it is unexpired and the head generation is the claimed one (RG-275).
// Errors: ErrLeaseLost, ErrSuperseded. May run twice.
func (s *Store) RenewEvaluation(ctx context.Context, ev Evaluation, ttl time.Duration) error {
	var ok bool
	err := s.queryOne(ctx, `
		-- name: RenewEvaluation
		UPDATE head SET evaluation_expires_at = now() + make_interval(secs => $6) WHERE `+evaluationHeld()+` RETURNING true`,
		append(ev.key(), seconds(ttl)), &ok)
	return s.evaluationError(ctx, ev, err, "renew")
}

// FollowUp keeps a row for a later look: the cheap recheck after a success (P5), or the expiry of something the verdict rests on.
type FollowUp struct {
	Number int
	After  time.Duration
	Reason string
}

// CompleteEvaluation removes the captured rows whose generation is unchanged (RG-109), keeps those of followUps as rechecks,
// and frees the lease, in one transaction. A row that a newer trigger replaced stays (I5). It returns how many rows were
// done. Errors: ErrLeaseLost, ErrSuperseded; both leave every row (RG-277).
func (s *Store) CompleteEvaluation(ctx context.Context, ev Evaluation, followUps []FollowUp) (done int, err error) {
	numbers, generations := ev.rowArrays()
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		if err := lockPulls(ctx, tx, ev.Head, numbers); err != nil {
			return err
		}
		var ok bool
		if err := tx.QueryRow(ctx, `
			-- name: FreeEvaluation
			UPDATE head SET evaluation_holder = '', evaluation_expires_at = NULL WHERE `+evaluationHeld()+` RETURNING true`,
			ev.key()...).Scan(&ok); err != nil {
			return err
		}
		for _, f := range followUps {
			if err := keepForRecheck(ctx, tx, ev, f); err != nil {
				return err
			}
		}
		if err := completeGroup(ctx, tx, ev, followUps); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, `
			-- name: CompleteEvaluation
			WITH done AS (SELECT * FROM unnest($4::integer[], $5::bigint[]) AS d(number, generation)), evaluated AS (
				UPDATE pull p SET evaluated_at = now() FROM done d
				WHERE p.installation_id = $1 AND p.repository_id = $2 AND p.number = d.number
			)
			DELETE FROM evaluation e USING done d
			WHERE e.installation_id = $1 AND e.repository_id = $2 AND e.head_sha = $3
				AND e.number = d.number AND `+sameRow()+` AND NOT (e.recheck AND e.available_at > now())`,
			ev.Head.Installation, ev.Head.Repository, ev.Head.SHA, numbers, generations)
		done = int(tag.RowsAffected())
		return err
	})
	return done, s.evaluationError(ctx, ev, err, "complete")
}

// sameRow: a row that a newer trigger replaced is not the one that was evaluated (I5).
func sameRow() string {
	if hook.Removed(hook.RowGeneration) {
		return "true"
	}
	return "e.generation = d.generation"
}

func keepForRecheck(ctx context.Context, tx pgx.Tx, ev Evaluation, f FollowUp) error {
	_, err := tx.Exec(ctx, `
		-- name: KeepForRecheck
		UPDATE evaluation e SET recheck = true, lane = $5, attempts = 0, last_error = '', reason = $6, delivery_id = '',
			available_at = now() + make_interval(secs => $7)
		WHERE e.installation_id = $1 AND e.repository_id = $2 AND e.head_sha = $3 AND e.number = $4
			AND e.generation = ANY ($8::bigint[])`,
		ev.Head.Installation, ev.Head.Repository, ev.Head.SHA, f.Number, LaneRecheck, f.Reason, seconds(f.After), ev.generations())
	return err
}

func (ev Evaluation) generations() []int64 {
	_, g := ev.rowArrays()
	return g
}

// DeferEvaluation frees the lease and makes the captured rows due again after delay; spend says whether it counts as an
// attempt (a rate limit or a lagging read does not). Errors: ErrLeaseLost, ErrSuperseded.
func (s *Store) DeferEvaluation(ctx context.Context, ev Evaluation, delay time.Duration, cause string, spend bool) error {
	return s.deferEvaluation(ctx, ev, delay, cause, spend, false)
}

// AwaitAuthority is DeferEvaluation for what a pending fan-out holds back (RG-225): it spends no attempt, and the end of a pass
// over the repository makes the rows due before delay is over. Errors: ErrLeaseLost, ErrSuperseded.
func (s *Store) AwaitAuthority(ctx context.Context, ev Evaluation, delay time.Duration, cause string) error {
	return s.deferEvaluation(ctx, ev, delay, cause, false, true)
}

func (s *Store) deferEvaluation(ctx context.Context, ev Evaluation, delay time.Duration, cause string, spend, awaits bool) error {
	numbers, generations := ev.rowArrays()
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		var ok bool
		if err := tx.QueryRow(ctx, `
			-- name: FreeDeferredEvaluation
			UPDATE head SET evaluation_holder = '', evaluation_expires_at = NULL WHERE `+evaluationHeld()+` RETURNING true`,
			ev.key()...).Scan(&ok); err != nil {
			return err
		}
		if err := deferGroup(ctx, tx, ev, delay, cause, spend); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `
			-- name: DeferEvaluation
			UPDATE evaluation e SET available_at = now() + make_interval(secs => $6), last_error = left($7, 1000),
				attempts = e.attempts + CASE WHEN $8 THEN 1 ELSE 0 END, awaits_authority = $9
			FROM unnest($4::integer[], $5::bigint[]) AS d(number, generation)
			WHERE e.installation_id = $1 AND e.repository_id = $2 AND e.head_sha = $3
				AND e.number = d.number AND e.generation = d.generation`,
			ev.Head.Installation, ev.Head.Repository, ev.Head.SHA, numbers, generations, seconds(delay), cause, spend, awaits)
		return err
	})
	return s.evaluationError(ctx, ev, err, "defer")
}

// RequeueEvaluation advances the head's generation and every captured row's, at the current authority epoch, in one
// transaction: the head is revoked again before anybody evaluates it. It is what an old epoch (P8), an unconfirmed intent and
// a recheck that found a difference come to. Errors: ErrLeaseLost, ErrSuperseded.
func (s *Store) RequeueEvaluation(ctx context.Context, ev Evaluation, reason string) error {
	numbers, _ := ev.rowArrays()
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		if err := lockPulls(ctx, tx, ev.Head, numbers); err != nil {
			return err
		}
		var generation Generation
		if err := tx.QueryRow(ctx, `
			-- name: RequeueHead
			UPDATE head h SET generation = generation + 1, lane = 0, requested_at = now(),
				invalidation_available_at = now(), invalidation_attempts = 0, invalidation_error = '',
				invalidation_expires_at = NULL, invalidation_holder = '',
				evaluation_expires_at = NULL, evaluation_holder = '', updated_at = now()
			WHERE `+evaluationHeld()+` RETURNING generation`, ev.key()...).Scan(&generation); err != nil {
			return err
		}
		if err := advanceRows(ctx, tx, ev.Head); err != nil {
			return err
		}
		if err := requeueGroup(ctx, tx, ev, reason); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `
			-- name: RequeueRows
			UPDATE evaluation SET head_generation = $4, recheck = false, available_at = now(), lane = least(lane, 0),
				awaits_revocation = true, awaits_authority = false,
				reason = CASE WHEN delivery_id = '' THEN $5 ELSE reason END,
				authority_epoch = coalesce((SELECT authority_epoch FROM installation WHERE installation_id = $1), 1)
			WHERE installation_id = $1 AND repository_id = $2 AND head_sha = $3`,
			ev.Head.Installation, ev.Head.Repository, ev.Head.SHA, generation, reason)
		return err
	})
	return s.evaluationError(ctx, ev, err, "requeue")
}

// AdvanceEvaluation replaces captured rows by what GitHub now reports of their pull requests: each live head's generation
// advances and a replacement is queued, in one transaction (RG-266, RG-267), which makes every older claim on those commits
// stale (RG-268). It keeps the trigger's delivery and reason. Errors: ErrLeaseLost, ErrSuperseded.
func (s *Store) AdvanceEvaluation(ctx context.Context, ev Evaluation, facts []PullFact) error {
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		if err := lockPulls(ctx, tx, ev.Head, factNumbers(facts)); err != nil {
			return err
		}
		var ok bool
		if err := tx.QueryRow(ctx, `
			-- name: LockEvaluation
			SELECT true FROM head WHERE `+evaluationHeld()+` FOR UPDATE`, ev.key()...).Scan(&ok); err != nil {
			return err
		}
		for _, fact := range facts {
			w := queueing{Installation: ev.Head.Installation, Repository: ev.Head.Repository, FullName: ev.FullName, Lane: LaneInteractive, Reason: "head.moved"}
			for _, r := range ev.Rows {
				if r.Number == fact.Number {
					w.DeliveryID, w.Reason, w.Traceparent = r.DeliveryID, r.Reason, r.Traceparent
				}
			}
			if err := queuePulls(ctx, tx, w, []PullFact{fact}); err != nil {
				return err
			}
		}
		// The old head's lease ends whether or not a bump of the same head ended it already.
		_, err := tx.Exec(ctx, `
			-- name: FreeAdvancedEvaluation
			UPDATE head SET evaluation_holder = '', evaluation_expires_at = NULL
			WHERE installation_id = $1 AND repository_id = $2 AND head_sha = $3 AND evaluation_token = $4`, ev.key()[:4]...)
		return err
	})
	return s.evaluationError(ctx, ev, err, "advance")
}
