package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// mergePullSet folds a sighting into a known pull request. A sighting older than what we saw, or one without a time, never
// moves it back (P5); the generation rises all the same, because something asked for it.
const mergePullSet = `
        generation = p.generation + excluded.generation,
        head_sha = CASE WHEN ` + notOlder + ` THEN excluded.head_sha ELSE p.head_sha END,
        base_ref = CASE WHEN excluded.base_ref <> '' AND ` + notOlder + ` THEN excluded.base_ref ELSE p.base_ref END,
        state    = CASE WHEN ` + notOlder + ` THEN excluded.state ELSE p.state END,
        merged   = CASE WHEN ` + notOlder + ` THEN excluded.merged ELSE p.merged END,
        title = CASE WHEN excluded.title <> '' THEN excluded.title ELSE p.title END,
        author_login = CASE WHEN excluded.author_login <> '' THEN excluded.author_login ELSE p.author_login END,
        github_updated_at = greatest(p.github_updated_at, excluded.github_updated_at),
        updated_at = now()`

const notOlder = `coalesce(excluded.github_updated_at >= p.github_updated_at, p.github_updated_at IS NULL)`

// bumpHeadSet advances an existing head: a new generation waits for its revocation at once, and the evaluation lease of the
// older generation ends. lane and traceparent come from the excluded row, and so does by how many triggers the generation rises:
// a batch may hold several for one head.
const bumpHeadSet = `
        generation = h.generation + excluded.generation,
        lane = CASE WHEN h.invalidated_generation < h.generation THEN least(h.lane, excluded.lane) ELSE excluded.lane END,
        requested_at = CASE WHEN h.invalidated_generation < h.generation THEN h.requested_at ELSE now() END,
        traceparent = excluded.traceparent,
        invalidation_available_at = now(), invalidation_attempts = 0, invalidation_error = '',
        invalidation_expires_at = NULL, invalidation_holder = '',
        evaluation_expires_at = NULL, evaluation_holder = '',
        updated_at = now()`

// replaceEvaluationSet replaces a pending evaluation by a newer trigger (RG-107, RG-111). A watermark never goes back. Every
// trigger advances the head as well, so the row waits for the revocation again.
const replaceEvaluationSet = `
        generation = excluded.generation, head_sha = excluded.head_sha, head_generation = excluded.head_generation,
        authority_epoch = excluded.authority_epoch, lane = least(e.lane, excluded.lane), recheck = false,
        available_at = now(), attempts = 0, last_error = '', awaits_revocation = true, awaits_authority = false,
        delivery_id = CASE WHEN excluded.delivery_id <> '' OR e.recheck THEN excluded.delivery_id ELSE e.delivery_id END,
        reason = CASE WHEN excluded.delivery_id <> '' OR e.recheck THEN excluded.reason ELSE e.reason END,
        traceparent = excluded.traceparent,
        requested_at = CASE WHEN e.recheck THEN now() ELSE e.requested_at END,
        watermark_head = CASE WHEN coalesce(excluded.watermark_updated_at >= e.watermark_updated_at, e.watermark_updated_at IS NULL) THEN excluded.watermark_head ELSE e.watermark_head END,
        watermark_updated_at = greatest(e.watermark_updated_at, excluded.watermark_updated_at),
        watermark_review_id = CASE WHEN ` + newerReview + ` THEN excluded.watermark_review_id ELSE e.watermark_review_id END,
        watermark_review_state = CASE WHEN ` + newerReview + ` THEN excluded.watermark_review_state ELSE e.watermark_review_state END`

// newerReview: which review a coalesced row waits to see (P5). A dismissal wins over everything: not to see an approval yet only
// blocks, not to see a dismissal yet would pass.
const newerReview = `(excluded.watermark_review_state = 'DISMISSED' OR (e.watermark_review_state <> 'DISMISSED' AND excluded.watermark_review_id >= e.watermark_review_id))`

// queueing says on whose behalf pull requests of one repository are queued.
type queueing struct {
	Installation InstallationID
	Repository   RepositoryID
	FullName     string
	Lane         Lane
	DeliveryID   DeliveryID
	Reason       string
	Traceparent  string
}

// factColumns turns facts into the arrays that the statements below unnest.
func factColumns(w queueing, facts []PullFact) pgx.NamedArgs {
	n := len(facts)
	numbers, heads, bases, states := make([]int32, n), make([]string, n), make([]string, n), make([]string, n)
	merged, titles, authors, updated := make([]bool, n), make([]string, n), make([]string, n), make([]*time.Time, n)
	for i, f := range facts {
		numbers[i], heads[i], bases[i], states[i] = int32(f.Number), string(f.Head), f.BaseRef, f.State //nolint:gosec // pull numbers are validated positive ints
		merged[i], titles[i], authors[i] = f.Merged, f.Title, f.AuthorLogin
		if !f.UpdatedAt.IsZero() {
			updated[i] = &f.UpdatedAt
		}
	}
	return pgx.NamedArgs{
		"installation": w.Installation, "repository": w.Repository, "full_name": w.FullName, "lane": w.Lane,
		"delivery": w.DeliveryID, "reason": w.Reason, "traceparent": w.Traceparent,
		"numbers": numbers, "heads": heads, "bases": bases, "states": states, "merged": merged,
		"titles": titles, "authors": authors, "updated": updated,
	}
}

func factNumbers(facts []PullFact) []int32 {
	numbers := make([]int32, len(facts))
	for i, f := range facts {
		numbers[i] = int32(f.Number) //nolint:gosec // pull numbers are validated positive ints
	}
	return numbers
}

// lockPulls takes the pull requests' rows before their head's: the order in which acceptance takes them. The other way round
// two of them would wait for each other until Postgres breaks the deadlock, a second later.
func lockPulls(ctx context.Context, tx pgx.Tx, key HeadKey, numbers []int32) error {
	_, err := tx.Exec(ctx, `
		-- name: LockPulls
		SELECT FROM pull WHERE installation_id = $1 AND repository_id = $2 AND number = ANY ($3::integer[])
		ORDER BY number FOR NO KEY UPDATE`, key.Installation, key.Repository, numbers)
	if err != nil {
		return fmt.Errorf("lock pull requests: %w", err)
	}
	return nil
}

// seenFacts upserts the pull requests of the facts; every statement that queues begins with it. was are the heads they were
// known to be at: one that they have left is revoked by the same statement (P7), because the event that told of the move may
// be lost. One that waits for its revocation already is not: the fast path that is about to reset it would be superseded.
const seenFacts = `
WITH fact AS (
    SELECT * FROM unnest(@numbers::integer[], @heads::text[], @bases::text[], @states::text[], @merged::boolean[], @titles::text[], @authors::text[], @updated::timestamptz[])
        AS f(number, head_sha, base_ref, state, merged, title, author_login, updated_at)
), was AS (
    SELECT p.number, p.head_sha FROM pull p JOIN fact ON fact.number = p.number
        JOIN head h ON (h.installation_id, h.repository_id, h.head_sha) = (p.installation_id, p.repository_id, p.head_sha)
    WHERE p.installation_id = @installation::bigint AND p.repository_id = @repository::bigint AND h.invalidated_generation = h.generation
), known_repository AS (
    INSERT INTO repository (installation_id, repository_id, full_name)
    SELECT @installation::bigint, @repository::bigint, @full_name::text
    WHERE @full_name::text <> '' AND NOT EXISTS (SELECT FROM repository
        WHERE installation_id = @installation::bigint AND repository_id = @repository::bigint AND full_name = @full_name::text)
    ON CONFLICT (installation_id, repository_id) DO UPDATE SET full_name = excluded.full_name, updated_at = now()
), seen AS (
    INSERT INTO pull AS p (installation_id, repository_id, number, generation, head_sha, base_ref, state, merged, title, author_login, github_updated_at)
    SELECT @installation::bigint, @repository::bigint, number, 1, head_sha, base_ref, state, merged, title, author_login, updated_at
    FROM fact ORDER BY number
    ON CONFLICT (installation_id, repository_id, number) DO UPDATE SET` + mergePullSet + `
    RETURNING p.number, p.generation, p.head_sha, p.github_updated_at
)`

// queuePulls advances the head of each pull request and queues its evaluation at the current epoch, atomically (RG-219):
// authority fan-out and every re-queueing of a changed pull request go through it.
func queuePulls(ctx context.Context, tx pgx.Tx, w queueing, facts []PullFact) error {
	if len(facts) == 0 {
		return nil
	}
	const q = `
-- name: QueuePulls` + seenFacts + `, heads AS (
    INSERT INTO head AS h (installation_id, repository_id, head_sha, lane, traceparent)
    SELECT @installation::bigint, @repository::bigint, head_sha, @lane::smallint, @traceparent::text
    FROM (SELECT head_sha FROM seen UNION SELECT head_sha FROM fact UNION SELECT head_sha FROM was) AS shas ORDER BY head_sha
    ON CONFLICT (installation_id, repository_id, head_sha) DO UPDATE SET` + bumpHeadSet + `
    RETURNING h.head_sha, h.generation
)
INSERT INTO evaluation AS e (installation_id, repository_id, number, generation, head_sha, head_generation, authority_epoch,
    lane, delivery_id, reason, traceparent, watermark_head, watermark_updated_at)
SELECT @installation::bigint, @repository::bigint, seen.number, seen.generation, seen.head_sha, heads.generation,
    coalesce((SELECT authority_epoch FROM installation WHERE installation_id = @installation::bigint), 1),
    @lane::smallint, @delivery::text, @reason::text, @traceparent::text, seen.head_sha, seen.github_updated_at
FROM seen JOIN heads USING (head_sha) ORDER BY seen.number
ON CONFLICT (installation_id, repository_id, number) DO UPDATE SET` + replaceEvaluationSet
	_, err := tx.Exec(ctx, q, factColumns(w, facts))
	if err != nil {
		return fmt.Errorf("queue %d pull requests: %w", len(facts), err)
	}
	return nil
}
