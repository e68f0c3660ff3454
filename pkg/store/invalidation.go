package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Publication says what is known of a final write on a head's bound run.
type Publication string

// What was last published on the bound run.
const (
	PublicationNone      Publication = "none"      // never published on
	PublicationConfirmed Publication = "confirmed" // published, read back and confirmed: no writer is on its way
	PublicationIntended  Publication = "intended"  // an intent is unconfirmed: a write may still arrive (P1, P2)
)

// HeadState is one head's row as the reset and publication protocol needs it.
type HeadState struct {
	Head                  HeadKey
	FullName              string
	Generation            Generation
	InvalidatedGeneration Generation
	RunID                 int64      // 0: no managed run is bound
	RunGeneration         Generation // the run was proved unfinished for this generation
	PostedGeneration      Generation // a new run was posted for this generation (at most one, P2)
	Publication           Publication
	PublishedGeneration   Generation
	Drifted               bool // GitHub showed another run than the one that was decided, and it is not revoked yet (P12)
}

// RunProved reports whether the bound run was proved unfinished for the current generation (P3).
func (h HeadState) RunProved() bool { return h.RunID != 0 && h.RunGeneration == h.Generation }

const headStateColumns = `h.installation_id, h.repository_id, h.head_sha,
	coalesce((SELECT full_name FROM repository r WHERE r.installation_id = h.installation_id AND r.repository_id = h.repository_id), ''),
	h.generation, h.invalidated_generation, coalesce(h.run_id, 0), h.run_generation, h.posted_generation,
	CASE WHEN h.intent_decision_id IS NOT NULL THEN 'intended' WHEN h.published_decision_id IS NOT NULL THEN 'confirmed' ELSE 'none' END,
	h.published_generation, h.drifted_generation > h.invalidated_generation`

func (h *HeadState) dest() []any {
	return []any{&h.Head.Installation, &h.Head.Repository, &h.Head.SHA, &h.FullName, &h.Generation, &h.InvalidatedGeneration,
		&h.RunID, &h.RunGeneration, &h.PostedGeneration, &h.Publication, &h.PublishedGeneration, &h.Drifted}
}

// GetHead reads one head. Errors: ErrNotFound.
func (s *Store) GetHead(ctx context.Context, key HeadKey) (HeadState, error) {
	var h HeadState
	err := s.queryOne(ctx, `
		-- name: GetHead
		SELECT `+headStateColumns+` FROM head h WHERE installation_id = $1 AND repository_id = $2 AND head_sha = $3`,
		[]any{key.Installation, key.Repository, key.SHA}, h.dest()...)
	return h, rowError(err, ErrNotFound, "read %s", key)
}

// SeenPull is a pull request we have seen on a head, with what its last event or listing claimed (a hint, P6).
type SeenPull struct {
	Number int
	State  string
	Merged bool
}

// Invalidation is a claimed revocation of one exact head.
type Invalidation struct {
	HeadState
	Token       Token
	Lane        Lane
	Attempts    int
	RequestedAt time.Time
	Traceparent string
	Seen        []SeenPull // every pull request known to be, or to have been last seen, on this head
	// Group is the merge group whose head this is, nil for every other head (P13).
	Group *MergeGroup
}

// ClaimInvalidation leases the next head whose newest generation is not yet invalidated (RG-180, RG-182): urgent lanes first,
// installations in turn (see Draw), the oldest of an installation first. One conditional statement. Installations that are paused
// by a rate limit are passed over (RG-145). Errors: ErrNoWork.
func (s *Store) ClaimInvalidation(ctx context.Context, holder string, ttl time.Duration) (Invalidation, error) {
	d := s.draw(ctx, queueInvalidation, evaluationLanes)
	var inv Invalidation
	var grouped bool
	err := s.queryOne(ctx, claimInvalidationSQL, d.args(holder, ttl),
		append(inv.dest(), &inv.Token, &inv.Lane, &inv.Attempts, &inv.RequestedAt, &inv.Traceparent, &grouped)...)
	if err != nil {
		return inv, rowError(err, ErrNoWork, "claim invalidation")
	}
	s.turns.served(queueInvalidation, inv.Lane, inv.Head.Installation)
	if inv.Seen, err = s.SeenPulls(ctx, inv.Head); err == nil && grouped {
		var group MergeGroup
		if group, err = s.GetMergeGroup(ctx, inv.Head); err == nil {
			inv.Group = &group
		}
	}
	if err != nil {
		// Nobody works it: the next claim need not wait for the lease to end.
		_ = s.DeferInvalidation(context.WithoutCancel(ctx), inv, time.Second, err.Error(), false)
		return Invalidation{}, err
	}
	return inv, nil
}

var claimInvalidationSQL = `
	-- name: ClaimInvalidation
	WITH candidate AS (` + inTurn("head q WHERE q.invalidated_generation < q.generation AND", `
		SELECT h.installation_id, h.repository_id, h.head_sha FROM head h
		WHERE h.lane = l.lane AND h.installation_id = t.installation_id
			AND h.invalidated_generation < h.generation AND h.invalidation_available_at <= now()
			AND (h.invalidation_expires_at IS NULL OR h.invalidation_expires_at < now())
		ORDER BY h.invalidation_available_at, h.repository_id, h.head_sha
		LIMIT 1 FOR UPDATE OF h SKIP LOCKED`) + `
	)
	UPDATE head h SET invalidation_token = nextval('lease_token_seq'), invalidation_holder = $1,
		invalidation_expires_at = now() + make_interval(secs => $2)
	FROM candidate c
	WHERE (h.installation_id, h.repository_id, h.head_sha) = (c.installation_id, c.repository_id, c.head_sha)
	RETURNING ` + headStateColumns + `, h.invalidation_token, h.lane, h.invalidation_attempts, h.requested_at, h.traceparent,
		EXISTS (SELECT FROM merge_group g WHERE (g.installation_id, g.repository_id, g.head_sha) = (h.installation_id, h.repository_id, h.head_sha))`

// MaxPullsOnHead bounds the pull requests that one head's work takes up at once.
const MaxPullsOnHead = 1000

const seenPullsSQL = `
		-- name: SeenPulls
		SELECT number, state, merged FROM (
			SELECT p.number, p.state, p.merged FROM pull p WHERE p.installation_id = $1 AND p.repository_id = $2 AND p.head_sha = $3
			UNION
			SELECT p.number, p.state, p.merged FROM evaluation e JOIN pull p USING (installation_id, repository_id, number)
			WHERE e.installation_id = $1 AND e.repository_id = $2 AND e.head_sha = $3) AS seen
		ORDER BY state = 'closed', number LIMIT $4`

// SeenPulls lists the pull requests last seen on a head (P6), at most MaxPullsOnHead, the open ones first.
func (s *Store) SeenPulls(ctx context.Context, key HeadKey) ([]SeenPull, error) {
	seen, err := queryAll(ctx, s, seenPullsSQL, []any{key.Installation, key.Repository, key.SHA, MaxPullsOnHead}, pgx.RowToStructByPos[SeenPull])
	if err != nil {
		return nil, fmt.Errorf("list pull requests seen on %s: %w", key, err)
	}
	return seen, nil
}

// invalidationHeld is the condition every later write of an invalidation repeats: lease, expiry and generation (RG-183…185).
func invalidationHeld() string {
	return headHeld("invalidation_token = $4 AND invalidation_expires_at >= now()")
}

func (inv Invalidation) key() []any {
	return []any{inv.Head.Installation, inv.Head.Repository, inv.Head.SHA, inv.Token, inv.Generation}
}

// lost tells a lost lease from a newer generation, for a statement that touched no row.
func (s *Store) invalidationLost(ctx context.Context, inv Invalidation) error {
	now, err := s.GetHead(ctx, inv.Head)
	if err != nil {
		return err
	}
	if now.Generation != inv.Generation {
		return ErrSuperseded
	}
	return ErrLeaseLost
}

func (s *Store) invalidationError(ctx context.Context, inv Invalidation, err error, verb string) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, pgx.ErrNoRows) {
		err = s.invalidationLost(ctx, inv)
	}
	return fmt.Errorf("%s invalidation of %s generation %d: %w", verb, inv.Head, inv.Generation, err)
}

// RenewInvalidation extends the lease, only while it is unexpired and the generation is the claimed one (RG-182).
// Errors: ErrLeaseLost, ErrSuperseded. May run twice.
func (s *Store) RenewInvalidation(ctx context.Context, inv Invalidation, ttl time.Duration) error {
	var ok bool
	err := s.queryOne(ctx, `
		-- name: RenewInvalidation
		UPDATE head SET invalidation_expires_at = now() + make_interval(secs => $6) WHERE `+invalidationHeld()+` RETURNING true`,
		append(inv.key(), seconds(ttl)), &ok)
	return s.invalidationError(ctx, inv, err, "renew")
}

// CompleteInvalidation ends the claimed generation's revocation: the candidates that were found open on this exact head are
// queued, bound to the same head generation (RG-190), and the generation counts as invalidated (RG-199), in one transaction.
// A candidate already queued at that generation stays as it is (P9); one whose row has moved to a newer head is untouched
// (RG-191). Every evaluation waiting on the head becomes due now. It returns how many wait. Errors: ErrLeaseLost, ErrSuperseded.
func (s *Store) CompleteInvalidation(ctx context.Context, inv Invalidation, candidates []PullFact) (due int, err error) {
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		if err := lockPulls(ctx, tx, inv.Head, factNumbers(candidates)); err != nil {
			return err
		}
		var ok bool
		if err := tx.QueryRow(ctx, `
			-- name: CompleteInvalidation
			UPDATE head SET invalidated_generation = generation, invalidation_holder = '', invalidation_expires_at = NULL,
				invalidation_attempts = 0, invalidation_error = '', updated_at = now()
			WHERE `+invalidationHeld()+` RETURNING true`, inv.key()...).Scan(&ok); err != nil {
			return err
		}
		if err := queueCandidates(ctx, tx, inv, candidates); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, `
			-- name: WakeHeadEvaluations
			UPDATE evaluation SET available_at = CASE WHEN recheck THEN available_at ELSE least(available_at, now()) END, awaits_revocation = false
			WHERE installation_id = $1 AND repository_id = $2 AND head_sha = $3 AND (awaits_revocation OR NOT recheck)`, inv.key()[:3]...)
		due = int(tag.RowsAffected())
		if inv.Group != nil && inv.Group.State == GroupOpen {
			due++
		}
		return err
	})
	return due, s.invalidationError(ctx, inv, err, "complete")
}

func queueCandidates(ctx context.Context, tx pgx.Tx, inv Invalidation, candidates []PullFact) error {
	if len(candidates) == 0 {
		return nil
	}
	const q = `
-- name: QueueCandidates` + seenFacts + `, revoked AS (
    INSERT INTO head AS h (installation_id, repository_id, head_sha, lane, traceparent)
    SELECT DISTINCT @installation::bigint, @repository::bigint, was.head_sha, @lane::smallint, @traceparent::text
    FROM was JOIN seen USING (number) WHERE was.head_sha <> seen.head_sha AND was.head_sha <> @head::text ORDER BY was.head_sha
    ON CONFLICT (installation_id, repository_id, head_sha) DO UPDATE SET` + bumpHeadSet + `
)
INSERT INTO evaluation AS e (installation_id, repository_id, number, generation, head_sha, head_generation, authority_epoch,
    lane, delivery_id, reason, traceparent, watermark_head, watermark_updated_at)
SELECT @installation::bigint, @repository::bigint, seen.number, seen.generation, seen.head_sha, @head_generation::bigint,
    coalesce((SELECT authority_epoch FROM installation WHERE installation_id = @installation::bigint), 1),
    @lane::smallint, @delivery::text, @reason::text, @traceparent::text, seen.head_sha, seen.github_updated_at
FROM seen JOIN fact USING (number) WHERE seen.head_sha = @head::text ORDER BY seen.number
ON CONFLICT (installation_id, repository_id, number) DO UPDATE SET` + replaceEvaluationSet + `
WHERE e.head_sha <> excluded.head_sha OR e.head_generation < excluded.head_generation OR e.recheck`
	args := factColumns(queueing{
		Installation: inv.Head.Installation, Repository: inv.Head.Repository, FullName: inv.FullName,
		Lane: inv.Lane, Reason: "head.invalidated", Traceparent: inv.Traceparent,
	}, candidates)
	args["head_generation"], args["head"] = inv.Generation, inv.Head.SHA
	if _, err := tx.Exec(ctx, q, args); err != nil {
		return fmt.Errorf("queue %d candidates: %w", len(candidates), err)
	}
	return nil
}

// DeferInvalidation frees the lease and makes the head due again after delay; spend says whether it counts as an attempt
// (a rate limit does not, RG-197). Errors: ErrLeaseLost, ErrSuperseded; both mean that somebody newer has it.
func (s *Store) DeferInvalidation(ctx context.Context, inv Invalidation, delay time.Duration, cause string, spend bool) error {
	var ok bool
	err := s.queryOne(ctx, `
		-- name: DeferInvalidation
		UPDATE head SET invalidation_available_at = now() + make_interval(secs => $6), invalidation_error = left($7, 1000),
			invalidation_attempts = invalidation_attempts + CASE WHEN $8 THEN 1 ELSE 0 END,
			invalidation_holder = '', invalidation_expires_at = NULL
		WHERE `+invalidationHeld()+` RETURNING true`, append(inv.key(), seconds(delay), cause, spend), &ok)
	return s.invalidationError(ctx, inv, err, "defer")
}
