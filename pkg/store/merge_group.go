package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// The states of a merge group.
const (
	GroupOpen  = "open"
	GroupEnded = "ended"
)

// MergeGroup is one group of a merge queue, as its row has it. Its check belongs to its head row, like any other (P13).
type MergeGroup struct {
	Head        HeadKey
	HeadRef     string // full: refs/heads/gh-readonly-queue/…
	BaseRef     string // branch name
	BaseSHA     SHA
	State       string // open | ended
	EndedReason string
	Generation  Generation
	Epoch       Epoch
	Waiting     bool
	Recheck     bool
	Attempts    int
	DeliveryID  DeliveryID
	Reason      string
	Traceparent string
	RequestedAt time.Time
	// AnyClosed: a member was last seen closed, so the group may have been merged.
	AnyClosed bool
	// Members are the pull requests that were last proved to be inside, by number.
	Members []GroupMember
}

// GroupMember is a pull request with the head that it has inside a group.
type GroupMember struct {
	Number int
	Head   SHA
}

// row is the group as a trigger. It has no number: a group answers for no single pull request.
func (g MergeGroup) row() EvaluationRow {
	lane := LaneInteractive
	if g.Recheck {
		lane = LaneRecheck
	}
	return EvaluationRow{
		Generation: g.Generation, Epoch: g.Epoch, Lane: lane, Recheck: g.Recheck, Attempts: g.Attempts, DeliveryID: g.DeliveryID,
		Reason: g.Reason, Traceparent: g.Traceparent, RequestedAt: g.RequestedAt,
	}
}

// GroupWork is a webhook about a merge group.
type GroupWork struct {
	Installation InstallationID
	AccountLogin string
	Repository   RepositoryID
	FullName     string // lower-cased route (RG-035)
	Head         SHA
	HeadRef      string
	BaseRef      string // branch name
	BaseSHA      SHA
	// Ended: the group was destroyed, for EndedReason (merged, invalidated, dequeued).
	Ended       bool
	EndedReason string
	Reason      string // <event>.<action> (RG-056)
}

// acceptGroupSQL is one statement, so one commit (RG-100, I1). A group that asks for checks waits for its evaluation and its head
// for the revocation of whatever stood there before; so does the head of one that ended. One that is said to be merged is only looked
// at again, because that it keeps its success is for GitHub to show (D13, I2), and because GitHub merges while our own publication
// is still being confirmed.
func acceptGroupSQL(w GroupWork) string {
	bump, group := bumpHeadSet, `
        generation = g.generation + 1, state = excluded.state, ended_reason = excluded.ended_reason,
        authority_epoch = excluded.authority_epoch, waiting = excluded.waiting, recheck = false, available_at = now(), attempts = 0,
        last_error = '', delivery_id = excluded.delivery_id, reason = excluded.reason, traceparent = excluded.traceparent,
        requested_at = CASE WHEN g.waiting AND NOT g.recheck THEN g.requested_at ELSE now() END, updated_at = now()`
	if w.merged() {
		bump, group = " updated_at = now()", `
        recheck = g.state = 'open' AND (g.recheck OR NOT g.waiting), waiting = g.state = 'open',
        available_at = least(g.available_at, now() + interval '2 seconds'), updated_at = now()`
	}
	return acceptGroupBegin + bump + acceptGroupWork + group + acceptGroupEnd
}

// merged: GitHub says that the group is in its base branch.
func (w GroupWork) merged() bool { return w.Ended && w.EndedReason == "merged" }

const acceptGroupBegin = `
-- name: AcceptMergeGroup
WITH fresh AS (
    SELECT WHERE NOT EXISTS (SELECT FROM delivery WHERE delivery_id = @delivery)
), known_installation AS (
    INSERT INTO installation (installation_id, account_login)
    SELECT @installation, @account FROM fresh
    WHERE NOT EXISTS (SELECT FROM installation WHERE installation_id = @installation AND gone_at IS NULL)
    ON CONFLICT (installation_id) DO UPDATE SET gone_at = NULL
), known_repository AS (
    INSERT INTO repository (installation_id, repository_id, full_name)
    SELECT @installation, @repository, @full_name FROM fresh
    WHERE NOT EXISTS (SELECT FROM repository WHERE installation_id = @installation AND repository_id = @repository AND full_name = @full_name)
    ON CONFLICT (installation_id, repository_id) DO UPDATE SET full_name = excluded.full_name, updated_at = now()
), heads AS (
    INSERT INTO head AS h (installation_id, repository_id, head_sha, lane, traceparent)
    SELECT @installation, @repository, @head, @lane, @traceparent FROM fresh
    ON CONFLICT (installation_id, repository_id, head_sha) DO UPDATE SET`

const acceptGroupWork = `
    RETURNING h.head_sha, h.generation
), work AS (
    INSERT INTO merge_group AS g (installation_id, repository_id, head_sha, head_ref, base_ref, base_sha, state, ended_reason,
        authority_epoch, waiting, delivery_id, reason, traceparent)
    SELECT @installation, @repository, head_sha, @head_ref, @base_ref, @base_sha, @state, @ended_reason,
        coalesce((SELECT authority_epoch FROM installation WHERE installation_id = @installation), 1),
        @state = 'open', @delivery, @reason, @traceparent
    FROM heads
    ON CONFLICT (installation_id, repository_id, head_sha) DO UPDATE SET`

const acceptGroupEnd = `
)
INSERT INTO delivery (delivery_id, event, action, installation_id, repository_id, head_sha, head_generation, traceparent)
SELECT @delivery, @event, @action, @installation, @repository, head_sha, generation, @traceparent FROM heads
RETURNING head_generation`

// AcceptMergeGroup stores a webhook about a merge group: delivery, group and the generation of its head, in one statement
// (D6, P13). Idempotent by delivery id. A destroyed group waits for nothing any more, and its head for its revocation; one that is
// said to be merged stays open until the evaluator has seen it in the base branch. Errors: as AcceptDirect.
func (s *Store) AcceptMergeGroup(ctx context.Context, d Delivery, w GroupWork) (Acceptance, error) {
	key := HeadKey{w.Installation, w.Repository, w.Head}
	state, why := GroupOpen, ""
	if w.Ended && !w.merged() {
		state, why = GroupEnded, w.EndedReason
	}
	args := pgx.NamedArgs{
		"delivery": d.ID, "event": d.Event, "action": d.Action, "traceparent": d.Traceparent, "installation": w.Installation,
		"account": w.AccountLogin, "repository": w.Repository, "full_name": w.FullName, "head": w.Head, "head_ref": w.HeadRef,
		"base_ref": w.BaseRef, "base_sha": w.BaseSHA, "state": state, "ended_reason": why, "reason": w.Reason, "lane": LaneInteractive,
	}
	var generation Generation
	err := s.queryOne(ctx, acceptGroupSQL(w), []any{args}, &generation)
	if err == nil {
		return Acceptance{New: true, Head: key, HeadGeneration: generation, Pending: true}, nil
	}
	if !errors.Is(err, pgx.ErrNoRows) {
		return Acceptance{}, fmt.Errorf("accept delivery %s: %w", d.ID, err)
	}
	return s.replayedDirect(ctx, d, DirectWork{Installation: w.Installation, Repository: w.Repository, Head: w.Head})
}

const groupColumns = `g.installation_id, g.repository_id, g.head_sha, g.head_ref, g.base_ref, g.base_sha, g.state, g.ended_reason, g.generation,
	g.authority_epoch, g.waiting, g.recheck, g.attempts, g.delivery_id, g.reason, g.traceparent, g.requested_at,
	EXISTS (SELECT FROM merge_group_member m JOIN pull p USING (installation_id, repository_id, number)
		WHERE (m.installation_id, m.repository_id, m.group_sha) = (g.installation_id, g.repository_id, g.head_sha) AND p.state = 'closed'),
	coalesce((SELECT array_agg(m.number ORDER BY m.number) FROM merge_group_member m
		WHERE (m.installation_id, m.repository_id, m.group_sha) = (g.installation_id, g.repository_id, g.head_sha)), '{}'),
	coalesce((SELECT array_agg(m.head_sha ORDER BY m.number) FROM merge_group_member m
		WHERE (m.installation_id, m.repository_id, m.group_sha) = (g.installation_id, g.repository_id, g.head_sha)), '{}')`

func scanGroup(row pgx.Row) (MergeGroup, error) {
	var g MergeGroup
	var numbers []int32
	var heads []string
	err := row.Scan(&g.Head.Installation, &g.Head.Repository, &g.Head.SHA, &g.HeadRef, &g.BaseRef, &g.BaseSHA, &g.State, &g.EndedReason, &g.Generation,
		&g.Epoch, &g.Waiting, &g.Recheck, &g.Attempts, &g.DeliveryID, &g.Reason, &g.Traceparent, &g.RequestedAt, &g.AnyClosed, &numbers, &heads)
	for i := range numbers {
		g.Members = append(g.Members, GroupMember{Number: int(numbers[i]), Head: SHA(heads[i])})
	}
	return g, err
}

// GetMergeGroup reads the group of a head. Errors: ErrNotFound.
func (s *Store) GetMergeGroup(ctx context.Context, key HeadKey) (MergeGroup, error) {
	conn, err := s.acquire(ctx, s.pool)
	if err != nil {
		return MergeGroup{}, err
	}
	defer conn.Release()
	g, err := readGroup(ctx, conn, key)
	return g, rowError(err, ErrNotFound, "read merge group of %s", key)
}

func readGroup(ctx context.Context, q querier, key HeadKey) (MergeGroup, error) {
	return scanGroup(q.QueryRow(ctx, `
		-- name: GetMergeGroup
		SELECT `+groupColumns+` FROM merge_group g WHERE g.installation_id = $1 AND g.repository_id = $2 AND g.head_sha = $3`,
		key.Installation, key.Repository, key.SHA))
}

// hasOpenGroup tells a claim that the head is an open merge group's.
const hasOpenGroup = `EXISTS (SELECT FROM merge_group g
			WHERE (g.installation_id, g.repository_id, g.head_sha) = (h.installation_id, h.repository_id, h.head_sha) AND g.state = 'open')`

// ClaimMergeGroup leases the head of the first merge group whose evaluation is due and whose newest head generation is
// invalidated: the same lease, with the same later writes, as ClaimEvaluation grants (P4). Reclaiming an expired lease advances
// the group's generation (RG-274). Errors: ErrNoWork.
func (s *Store) ClaimMergeGroup(ctx context.Context, holder string, ttl time.Duration) (Evaluation, error) {
	var ev Evaluation
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		ev = Evaluation{}
		var reclaimed bool
		err := tx.QueryRow(ctx, claimMergeGroupSQL, holder, seconds(ttl)).Scan(append(ev.dest(), &ev.Token, &ev.Epoch, &ev.ClaimedAt, &reclaimed)...)
		if err != nil {
			return rowError(err, ErrNoWork, "claim merge group")
		}
		return captureWork(ctx, tx, &ev, reclaimed, true)
	})
	return ev, err
}

const claimMergeGroupSQL = `
	-- name: ClaimMergeGroup
	WITH candidate AS (
		SELECT h.installation_id, h.repository_id, h.head_sha, h.evaluation_expires_at IS NOT NULL AS reclaimed
		FROM merge_group g JOIN head h USING (installation_id, repository_id, head_sha)
			LEFT JOIN installation i USING (installation_id)
		WHERE g.waiting AND g.available_at <= now() AND h.generation <= h.invalidated_generation
			AND (h.evaluation_expires_at IS NULL OR h.evaluation_expires_at < now())
			AND (i.paused_until IS NULL OR i.paused_until <= now()) AND i.held_at IS NULL
		ORDER BY g.recheck, g.available_at, g.installation_id, g.repository_id, g.head_sha
		LIMIT 1 FOR UPDATE OF h SKIP LOCKED
	)` + leaseCandidate

// claimGroup adds the open group of a claimed head to the claim.
func claimGroup(ctx context.Context, tx pgx.Tx, ev *Evaluation, reclaimed bool) error {
	if reclaimed {
		if _, err := tx.Exec(ctx, `
			-- name: AdvanceMergeGroup
			UPDATE merge_group SET generation = generation + 1
			WHERE installation_id = $1 AND repository_id = $2 AND head_sha = $3 AND state = 'open'`,
			ev.Head.Installation, ev.Head.Repository, ev.Head.SHA); err != nil {
			return err
		}
	}
	g, err := readGroup(ctx, tx, ev.Head)
	if errors.Is(err, pgx.ErrNoRows) || err == nil && g.State != GroupOpen {
		return nil // ended between the two statements: whatever publishes now is not about a group
	}
	if err != nil {
		return fmt.Errorf("read merge group: %w", err)
	}
	ev.Group = &g
	return nil
}

func (ev Evaluation) groupGeneration() Generation {
	if ev.Group == nil {
		return 0
	}
	return ev.Group.Generation
}

// groupFence: the captured group is open, at its captured generation and of the claim's epoch ($12 is its generation, $8 the epoch);
// and a claim that captured no group finds none open, because a check on a group's head answers for the group (P13).
const groupFence = `CASE WHEN $12::bigint = 0
			THEN NOT EXISTS (SELECT FROM merge_group g WHERE (g.installation_id, g.repository_id, g.head_sha) = ($1, $2, $3) AND g.state = 'open')
			ELSE EXISTS (SELECT FROM merge_group g WHERE (g.installation_id, g.repository_id, g.head_sha) = ($1, $2, $3)
				AND g.state = 'open' AND g.generation = $12 AND g.authority_epoch = $8) END`

// RecordMembers replaces what is known of the claimed group's members, while the lease is held. From its commit on, whatever
// raises a member's head raises the group; so evidence is collected after it. A trigger that is being accepted meanwhile is either
// committed before (MembersPending then sees its work) or finds the members: each member's head row is locked first, and made where
// nobody knew it. Errors: ErrLeaseLost, ErrSuperseded. May run twice.
func (s *Store) RecordMembers(ctx context.Context, ev Evaluation, members []GroupMember) error {
	numbers, heads := make([]int32, len(members)), make([]string, len(members))
	for i, m := range members {
		numbers[i], heads[i] = int32(m.Number), string(m.Head) //nolint:gosec // validated positive ints
	}
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		if err := lockMemberHeads(ctx, tx, ev.Head, heads); err != nil {
			return err
		}
		var ok bool
		if err := tx.QueryRow(ctx, `
			-- name: LockGroupHead
			SELECT true FROM head WHERE `+evaluationHeld()+` FOR NO KEY UPDATE`, ev.key()...).Scan(&ok); err != nil {
			return err
		}
		args := []any{ev.Head.Installation, ev.Head.Repository, ev.Head.SHA, numbers, heads}
		if _, err := tx.Exec(ctx, `
			-- name: DropMembers
			DELETE FROM merge_group_member m WHERE m.installation_id = $1 AND m.repository_id = $2 AND m.group_sha = $3
				AND NOT EXISTS (SELECT FROM unnest($4::integer[], $5::text[]) AS k(number, head_sha) WHERE k.number = m.number)`, args...); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `
			-- name: RecordMembers
			INSERT INTO merge_group_member AS m (installation_id, repository_id, group_sha, number, head_sha)
			SELECT $1, $2, $3, number, head_sha FROM unnest($4::integer[], $5::text[]) AS k(number, head_sha) ORDER BY number
			ON CONFLICT (installation_id, repository_id, group_sha, number) DO UPDATE SET head_sha = excluded.head_sha
			WHERE m.head_sha <> excluded.head_sha`, args...)
		return err
	})
	return s.evaluationError(ctx, ev, err, "record the members of the")
}

// lockMemberHeads keeps every other writer away from the members' heads until this transaction ends; before the group's head, which
// is the order of the trigger that raises groups.
func lockMemberHeads(ctx context.Context, tx pgx.Tx, key HeadKey, heads []string) error {
	if _, err := tx.Exec(ctx, `
		-- name: MakeMemberHeads
		INSERT INTO head (installation_id, repository_id, head_sha)
		SELECT DISTINCT $1::bigint, $2::bigint, sha FROM unnest($3::text[]) AS k(sha) WHERE sha <> $4 ORDER BY sha
		ON CONFLICT (installation_id, repository_id, head_sha) DO NOTHING`, key.Installation, key.Repository, heads, key.SHA); err != nil {
		return fmt.Errorf("make members' heads: %w", err)
	}
	_, err := tx.Exec(ctx, `
		-- name: LockMemberHeads
		SELECT FROM head WHERE installation_id = $1 AND repository_id = $2 AND head_sha = ANY ($3::text[]) AND head_sha <> $4
		ORDER BY head_sha FOR SHARE`, key.Installation, key.Repository, heads, key.SHA)
	if err != nil {
		return fmt.Errorf("lock members' heads: %w", err)
	}
	return nil
}

// MembersPending reports whether a member has work of its own that is not done: a trigger that is waiting to be visible (P5), or a
// head that is not revoked yet. The group waits for it: the member's own evaluation knows what its trigger promised.
func (s *Store) MembersPending(ctx context.Context, ev Evaluation) (bool, error) {
	var pending bool
	err := s.queryOne(ctx, `
		-- name: MembersPending
		SELECT EXISTS (SELECT FROM merge_group_member m WHERE m.installation_id = $1 AND m.repository_id = $2 AND m.group_sha = $3 AND (
			EXISTS (SELECT FROM evaluation e WHERE (e.installation_id, e.repository_id, e.number) = (m.installation_id, m.repository_id, m.number) AND NOT e.recheck)
			OR EXISTS (SELECT FROM head h WHERE (h.installation_id, h.repository_id, h.head_sha) = (m.installation_id, m.repository_id, m.head_sha)
				AND h.invalidated_generation < h.generation)))`,
		[]any{ev.Head.Installation, ev.Head.Repository, ev.Head.SHA}, &pending)
	if err != nil {
		return false, fmt.Errorf("read members of merge group %s: %w", ev.Head, err)
	}
	return pending, nil
}

// EndMergeGroup ends the claimed group because GitHub shows that it is over (merged, or its branch is gone), while the lease is
// held; the check is left as it is. Errors: ErrLeaseLost, ErrSuperseded. May run twice.
func (s *Store) EndMergeGroup(ctx context.Context, ev Evaluation, reason string) error {
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		var ok bool
		if err := tx.QueryRow(ctx, `
			-- name: LockEndedGroupHead
			SELECT true FROM head WHERE `+evaluationHeld()+` FOR NO KEY UPDATE`, ev.key()...).Scan(&ok); err != nil {
			return err
		}
		return endGroup(ctx, tx, ev.Head, ev.groupGeneration(), reason)
	})
	return s.evaluationError(ctx, ev, err, "end the group of the")
}

// EndMergedGroup is EndMergeGroup by the invalidator's claim. Errors: ErrLeaseLost, ErrSuperseded. May run twice.
func (s *Store) EndMergedGroup(ctx context.Context, inv Invalidation) error {
	err := s.inTx(ctx, func(tx pgx.Tx) error {
		var ok bool
		if err := tx.QueryRow(ctx, `
			-- name: LockMergedGroupHead
			SELECT true FROM head WHERE `+invalidationHeld()+` FOR NO KEY UPDATE`, inv.key()...).Scan(&ok); err != nil {
			return err
		}
		return endGroup(ctx, tx, inv.Head, inv.Group.Generation, "merged")
	})
	return s.invalidationError(ctx, inv, err, "end the group of the")
}

func endGroup(ctx context.Context, tx pgx.Tx, key HeadKey, generation Generation, reason string) error {
	_, err := tx.Exec(ctx, `
		-- name: EndMergeGroup
		UPDATE merge_group SET state = 'ended', ended_reason = $5, waiting = false, recheck = false, updated_at = now()
		WHERE installation_id = $1 AND repository_id = $2 AND head_sha = $3 AND generation = $4 AND state = 'open'`,
		key.Installation, key.Repository, key.SHA, generation, reason)
	return err
}

// completeGroup ends the captured group's waiting, where its generation is unchanged (I5), or keeps it for a recheck: the
// follow-up with number 0.
func completeGroup(ctx context.Context, tx pgx.Tx, ev Evaluation, followUps []FollowUp) error {
	if ev.Group == nil {
		return nil
	}
	args := []any{ev.Head.Installation, ev.Head.Repository, ev.Head.SHA, ev.Group.Generation}
	for _, f := range followUps {
		if f.Number == 0 {
			_, err := tx.Exec(ctx, `
				-- name: KeepGroupForRecheck
				UPDATE merge_group SET recheck = true, attempts = 0, last_error = '', delivery_id = '', reason = $5,
					available_at = now() + make_interval(secs => $6)
				WHERE installation_id = $1 AND repository_id = $2 AND head_sha = $3 AND generation = $4 AND state = 'open'`,
				append(args, f.Reason, seconds(f.After))...)
			return err
		}
	}
	_, err := tx.Exec(ctx, `
		-- name: CompleteMergeGroup
		UPDATE merge_group SET waiting = false, recheck = false, last_error = ''
		WHERE installation_id = $1 AND repository_id = $2 AND head_sha = $3 AND generation = $4`, args...)
	return err
}

func deferGroup(ctx context.Context, tx pgx.Tx, ev Evaluation, delay time.Duration, cause string, spend bool) error {
	if ev.Group == nil {
		return nil
	}
	_, err := tx.Exec(ctx, `
		-- name: DeferMergeGroup
		UPDATE merge_group SET available_at = now() + make_interval(secs => $5), last_error = left($6, 1000),
			attempts = attempts + CASE WHEN $7 THEN 1 ELSE 0 END
		WHERE installation_id = $1 AND repository_id = $2 AND head_sha = $3 AND generation = $4 AND waiting`,
		ev.Head.Installation, ev.Head.Repository, ev.Head.SHA, ev.Group.Generation, seconds(delay), cause, spend)
	return err
}

func requeueGroup(ctx context.Context, tx pgx.Tx, ev Evaluation, reason string) error {
	if ev.Group == nil {
		return nil
	}
	_, err := tx.Exec(ctx, `
		-- name: RequeueMergeGroup
		UPDATE merge_group SET generation = generation + 1, waiting = true, recheck = false, available_at = now(),
			requested_at = CASE WHEN waiting AND NOT recheck THEN requested_at ELSE now() END,
			reason = CASE WHEN delivery_id = '' THEN $4 ELSE reason END,
			authority_epoch = coalesce((SELECT authority_epoch FROM installation WHERE installation_id = $1), 1), updated_at = now()
		WHERE installation_id = $1 AND repository_id = $2 AND head_sha = $3 AND state = 'open'`,
		ev.Head.Installation, ev.Head.Repository, ev.Head.SHA, reason)
	return err
}

// PruneMergeGroups removes ended groups untouched for age, at most limit at a time, so that their heads can go (RG-406).
func (s *Store) PruneMergeGroups(ctx context.Context, age time.Duration, limit int) (int, error) {
	return s.prune(ctx, `
		-- name: PruneMergeGroups
		WITH old AS (SELECT installation_id, repository_id, head_sha FROM merge_group
			WHERE state = 'ended' AND updated_at < now() - make_interval(secs => $1)
			ORDER BY updated_at, installation_id, repository_id, head_sha LIMIT $2 FOR UPDATE SKIP LOCKED),
		gone AS (DELETE FROM merge_group g USING old
			WHERE (g.installation_id, g.repository_id, g.head_sha) = (old.installation_id, old.repository_id, old.head_sha) RETURNING 1)
		SELECT count(*) FROM gone`, age, limit, "merge groups")
}
