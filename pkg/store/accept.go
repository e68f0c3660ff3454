package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Delivery is the envelope of one webhook, as far as it is kept.
type Delivery struct {
	ID          DeliveryID
	Event       string
	Action      string
	Traceparent string
}

// DirectWork is one pull request's trigger: evaluate it, and revoke its exact head first.
type DirectWork struct {
	Installation InstallationID
	AccountLogin string
	Repository   RepositoryID
	FullName     string // lower-cased route (RG-035)
	Number       int
	Head         SHA
	Before       SHA // the head that was left (P7); empty when none was
	BaseRef      string
	State        string // open | closed; a hint, never evidence (I2)
	Merged       bool
	Title        string
	AuthorLogin  string
	Watermark    Watermark
	Reason       string // <event>.<action> (RG-056)
}

// Acceptance is what became of a delivery.
type Acceptance struct {
	// New is false for a delivery that was already retained (RG-116).
	New bool
	// Head and HeadGeneration are the exact token this delivery created, also when it is replayed (RG-102, RG-103).
	Head           HeadKey
	HeadGeneration Generation
	// Pending: that generation still waits for its proved reset, so a replay may try the fast path again (RG-143).
	Pending bool
}

const acceptDirectSQL = `
-- name: AcceptDirect
-- One statement, so one snapshot and one commit: delivery, pull, heads and evaluation, or none of them (RG-100, I1).
-- A second delivery of the same id finds the row and does nothing; two at once collide on delivery_pkey and one runs again.
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
), seen AS (
    -- A payload older than what we saw, or one without a time, never moves the pull request back (P5).
    INSERT INTO pull AS p (installation_id, repository_id, number, generation, head_sha, base_ref, state, merged, title, author_login, github_updated_at)
    SELECT @installation, @repository, @number, 1, @head, @base_ref, @state, @merged, @title, @author, @updated_at::timestamptz FROM fresh
    ON CONFLICT (installation_id, repository_id, number) DO UPDATE SET` + mergePullSet + `
    RETURNING p.generation, p.head_sha
), was AS (
    SELECT head_sha FROM pull JOIN head h USING (installation_id, repository_id, head_sha)
    WHERE installation_id = @installation AND repository_id = @repository AND number = @number AND h.invalidated_generation = h.generation
), touched AS (
    -- The accepted head, the head that was left (P7), and the head the pull request is known to be at; the one it was known to
    -- be at before, too, unless it waits for its revocation already: the event that told of the move may be lost. Sorted: equal
    -- lock order.
    SELECT sha FROM (SELECT @head::text AS sha UNION SELECT @before::text UNION SELECT head_sha FROM seen UNION SELECT head_sha FROM was) AS shas, fresh
    WHERE sha <> '' ORDER BY sha
), heads AS (
    INSERT INTO head AS h (installation_id, repository_id, head_sha, lane, traceparent)
    SELECT @installation, @repository, sha, @lane, @traceparent FROM touched
    ON CONFLICT (installation_id, repository_id, head_sha) DO UPDATE SET` + bumpHeadSet + `
    RETURNING h.head_sha, h.generation
), work AS (
    INSERT INTO evaluation AS e (installation_id, repository_id, number, generation, head_sha, head_generation, authority_epoch,
        lane, delivery_id, reason, traceparent, watermark_head, watermark_updated_at, watermark_review_id, watermark_review_state)
    SELECT @installation, @repository, @number, seen.generation, seen.head_sha, heads.generation,
        coalesce((SELECT authority_epoch FROM installation WHERE installation_id = @installation), 1),
        @lane, @delivery, @reason, @traceparent, @head, @updated_at::timestamptz, @review_id, @review_state
    FROM seen JOIN heads ON heads.head_sha = seen.head_sha
    ON CONFLICT (installation_id, repository_id, number) DO UPDATE SET` + replaceEvaluationSet + `
)
INSERT INTO delivery (delivery_id, event, action, installation_id, repository_id, number, head_sha, head_generation, traceparent)
SELECT @delivery, @event, @action, @installation, @repository, @number, head_sha, generation, @traceparent
FROM heads WHERE head_sha = @head
RETURNING head_generation`

// AcceptDirect stores a webhook about one pull request: delivery, pull request, head generation(s) and evaluation in one
// statement (RG-100). It is idempotent by delivery id: a replay changes nothing and returns the token of the first (RG-103, RG-104).
// Errors: ErrDeliveryConflict; any other means nothing was stored and the sender must be told so (RG-115).
func (s *Store) AcceptDirect(ctx context.Context, d Delivery, w DirectWork) (Acceptance, error) {
	key := HeadKey{w.Installation, w.Repository, w.Head}
	args := pgx.NamedArgs{
		"delivery": d.ID, "event": d.Event, "action": d.Action, "traceparent": d.Traceparent,
		"installation": w.Installation, "account": w.AccountLogin, "repository": w.Repository, "full_name": w.FullName,
		"number": w.Number, "head": w.Head, "before": w.Before, "base_ref": w.BaseRef, "state": w.State, "merged": w.Merged,
		"title": w.Title, "author": w.AuthorLogin, "updated_at": nullTime(w.Watermark.UpdatedAt),
		"review_id": w.Watermark.ReviewID, "review_state": w.Watermark.ReviewState, "reason": w.Reason, "lane": LaneInteractive,
	}
	var generation Generation
	err := s.queryOne(ctx, acceptDirectSQL, []any{args}, &generation)
	if err == nil {
		return Acceptance{New: true, Head: key, HeadGeneration: generation, Pending: true}, nil
	}
	if !errors.Is(err, pgx.ErrNoRows) {
		return Acceptance{}, fmt.Errorf("accept delivery %s: %w", d.ID, err)
	}
	return s.replayedDirect(ctx, d, w)
}

// replayedDirect answers a delivery that is already retained, or refuses one whose id was used for something else.
func (s *Store) replayedDirect(ctx context.Context, d Delivery, w DirectWork) (Acceptance, error) {
	kept, err := s.GetDelivery(ctx, d.ID)
	if err != nil {
		return Acceptance{}, err
	}
	same := kept.Event == d.Event && kept.Action == d.Action && kept.Head.Installation == w.Installation &&
		kept.Head.Repository == w.Repository && kept.Number == w.Number && kept.Head.SHA == w.Head
	if !same {
		return Acceptance{}, fmt.Errorf("delivery %s: %w", d.ID, ErrDeliveryConflict)
	}
	return Acceptance{Head: kept.Head, HeadGeneration: kept.HeadGeneration, Pending: kept.Pending}, nil
}

// KeptDelivery is a retained delivery.
type KeptDelivery struct {
	Event, Action  string
	Head           HeadKey
	Number         int
	HeadGeneration Generation
	Scope          string
	BaseRef        string
	ReceivedAt     time.Time
	// Pending: the generation it created has neither been reset by the fast path nor invalidated by the durable pass, and is still the newest.
	Pending bool
}

// GetDelivery reads one retained delivery. Errors: ErrNotFound.
func (s *Store) GetDelivery(ctx context.Context, id DeliveryID) (KeptDelivery, error) {
	const q = `
		-- name: GetDelivery
		SELECT d.event, d.action, d.installation_id, d.repository_id, d.number, d.head_sha, d.head_generation, d.scope, d.base_ref, d.received_at,
			d.invalidated_at IS NULL AND coalesce(h.generation = d.head_generation AND h.invalidated_generation < d.head_generation, false)
		FROM delivery d LEFT JOIN head h USING (installation_id, repository_id, head_sha)
		WHERE d.delivery_id = $1`
	var k KeptDelivery
	err := s.queryOne(ctx, q, []any{id}, &k.Event, &k.Action, &k.Head.Installation, &k.Head.Repository, &k.Number, &k.Head.SHA,
		&k.HeadGeneration, &k.Scope, &k.BaseRef, &k.ReceivedAt, &k.Pending)
	return k, rowError(err, ErrNotFound, "read delivery %s", id)
}

// MarkDeliveryInvalidated records that the fast path has reset the head for this delivery (RG-146). It may run twice.
func (s *Store) MarkDeliveryInvalidated(ctx context.Context, id DeliveryID) error {
	const q = `
		-- name: MarkDeliveryInvalidated
		UPDATE delivery SET invalidated_at = coalesce(invalidated_at, now()) WHERE delivery_id = $1 RETURNING true`
	var ok bool
	return rowError(s.queryOne(ctx, q, []any{id}, &ok), ErrNotFound, "mark delivery %s invalidated", id)
}
