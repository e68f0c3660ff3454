package store

const acceptBatchSQL = `
-- name: AcceptBatch
-- One statement, so one snapshot: deliveries, pulls, heads and evaluations, or none of them (RG-100, I1). No two deliveries of it
-- are about one pull request. ord is the order of their keys: the rows end as if one had been stored after the other in it.
-- A second delivery of an id finds the row and does nothing; two at once collide on delivery_pkey and one runs again.
WITH fact AS MATERIALIZED (
    SELECT f.* FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::text[], $7::bigint[], $8::text[], $9::bigint[],
        $10::text[], $11::text[], $12::text[], $13::text[], $14::boolean[], $15::text[], $16::text[], $17::timestamptz[], $18::bigint[], $19::text[], $20::text[])
        WITH ORDINALITY AS f(delivery_id, event, action, traceparent, installation_id, account, repository_id, full_name, number,
            head_sha, before, base_ref, state, merged, title, author, updated_at, review_id, review_state, reason, ord)
    WHERE NOT EXISTS (SELECT FROM delivery d WHERE d.delivery_id = f.delivery_id)
), known_installation AS (
    INSERT INTO installation (installation_id, account_login)
    SELECT DISTINCT ON (f.installation_id) f.installation_id, f.account FROM fact f
    WHERE NOT EXISTS (SELECT FROM installation i WHERE i.installation_id = f.installation_id AND i.gone_at IS NULL)
    ORDER BY f.installation_id, f.ord
    ON CONFLICT (installation_id) DO UPDATE SET gone_at = NULL
), route AS (
    SELECT DISTINCT ON (installation_id, repository_id) installation_id, repository_id, full_name FROM fact
    ORDER BY installation_id, repository_id, ord DESC
), known_repository AS (
    INSERT INTO repository (installation_id, repository_id, full_name)
    SELECT route.installation_id, route.repository_id, route.full_name FROM route
    WHERE NOT EXISTS (SELECT FROM repository r WHERE (r.installation_id, r.repository_id, r.full_name) = (route.installation_id, route.repository_id, route.full_name))
    ORDER BY route.installation_id, route.repository_id
    ON CONFLICT (installation_id, repository_id) DO UPDATE SET full_name = excluded.full_name, updated_at = now()
), seen AS (
    -- A payload older than what we saw, or one without a time, never moves the pull request back (P5).
    INSERT INTO pull AS p (installation_id, repository_id, number, generation, head_sha, base_ref, state, merged, title, author_login, github_updated_at)
    SELECT installation_id, repository_id, number, 1, head_sha, base_ref, state, merged, title, author, updated_at
    FROM fact ORDER BY installation_id, repository_id, number
    ON CONFLICT (installation_id, repository_id, number) DO UPDATE SET` + mergePullSet + `
    RETURNING p.installation_id, p.repository_id, p.number, p.generation, p.head_sha
), was AS (
    SELECT f.ord, p.installation_id, p.repository_id, p.head_sha FROM fact f
        JOIN pull p ON (p.installation_id, p.repository_id, p.number) = (f.installation_id, f.repository_id, f.number)
        JOIN head h ON (h.installation_id, h.repository_id, h.head_sha) = (p.installation_id, p.repository_id, p.head_sha)
    WHERE h.invalidated_generation = h.generation
), sight AS (
    SELECT f.ord, s.* FROM fact f JOIN seen s ON (s.installation_id, s.repository_id, s.number) = (f.installation_id, f.repository_id, f.number)
), named AS (
    -- Of each delivery: the accepted head, the head that was left (P7), and the head the pull request is known to be at.
    SELECT ord, installation_id, repository_id, head_sha FROM fact WHERE head_sha <> ''
    UNION SELECT ord, installation_id, repository_id, before FROM fact WHERE before <> ''
    UNION SELECT ord, installation_id, repository_id, head_sha FROM sight WHERE head_sha <> ''
), bump AS (
    -- The head it was known to be at before, too, unless that waits for its revocation already: the event that told of the move
    -- may be lost.
    SELECT ord, installation_id, repository_id, head_sha FROM named
    UNION ALL
    SELECT min(w.ord), w.installation_id, w.repository_id, w.head_sha FROM was w
    WHERE w.head_sha <> '' AND NOT EXISTS (SELECT FROM named n
        WHERE (n.installation_id, n.repository_id, n.head_sha) = (w.installation_id, w.repository_id, w.head_sha) AND n.ord <= w.ord)
    GROUP BY w.installation_id, w.repository_id, w.head_sha
), counted AS (
    SELECT ord, installation_id, repository_id, head_sha,
        row_number() OVER (PARTITION BY installation_id, repository_id, head_sha ORDER BY ord) AS nth,
        count(*) OVER (PARTITION BY installation_id, repository_id, head_sha) AS triggers
    FROM bump
), heads AS (
    -- Sorted: equal lock order.
    INSERT INTO head AS h (installation_id, repository_id, head_sha, generation, lane, traceparent)
    SELECT c.installation_id, c.repository_id, c.head_sha, c.triggers, $21::smallint, f.traceparent
    FROM counted c JOIN fact f USING (ord) WHERE c.nth = c.triggers
    ORDER BY c.installation_id, c.repository_id, c.head_sha
    ON CONFLICT (installation_id, repository_id, head_sha) DO UPDATE SET` + bumpHeadSet + `
    RETURNING h.installation_id, h.repository_id, h.head_sha, h.generation
), token AS (
    SELECT c.ord, c.head_sha, h.generation - c.triggers + c.nth AS generation FROM counted c
        JOIN heads h ON (h.installation_id, h.repository_id, h.head_sha) = (c.installation_id, c.repository_id, c.head_sha)
), work AS (
    INSERT INTO evaluation AS e (installation_id, repository_id, number, generation, head_sha, head_generation, authority_epoch,
        lane, delivery_id, reason, traceparent, watermark_head, watermark_updated_at, watermark_review_id, watermark_review_state)
    SELECT s.installation_id, s.repository_id, s.number, s.generation, s.head_sha, t.generation,
        coalesce((SELECT i.authority_epoch FROM installation i WHERE i.installation_id = s.installation_id), 1),
        $21::smallint, f.delivery_id, f.reason, f.traceparent, f.head_sha, f.updated_at, f.review_id, f.review_state
    FROM sight s JOIN fact f USING (ord) JOIN token t ON t.ord = s.ord AND t.head_sha = s.head_sha
    ORDER BY s.installation_id, s.repository_id, s.number
    ON CONFLICT (installation_id, repository_id, number) DO UPDATE SET` + replaceEvaluationSet + `
)
INSERT INTO delivery (delivery_id, event, action, installation_id, repository_id, number, head_sha, head_generation, traceparent)
SELECT f.delivery_id, f.event, f.action, f.installation_id, f.repository_id, f.number, f.head_sha, t.generation, f.traceparent
FROM fact f JOIN token t ON t.ord = f.ord AND t.head_sha = f.head_sha
ORDER BY f.ord
RETURNING delivery_id, head_generation`
