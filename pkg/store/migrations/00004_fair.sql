-- Queues that are drawn from in turns, and what a base push may leave alone.
-- Why: a claim costs the same whatever waits behind it, and no installation waits behind another's backlog (decisions 0110, 0111);
-- a base push queues only what it can change (P15, decision 0112).
-- Locks: short exclusive locks on work tables; nothing is released yet, so they are empty. Duration: milliseconds. Deploy order: before any service starts.

-- +goose Up

-- An evaluation whose head waits for its revocation cannot be claimed: it is kept out of the index that claims read, so that a
-- storm of them is not walked through by every claim. The invalidator's completion takes the mark away; the claim itself still
-- compares the head's generations. awaits_authority marks what was put off because a relevant fan-out was pending, so that the
-- end of the fan-out can make it due at once.
ALTER TABLE evaluation
    ADD COLUMN awaits_revocation boolean NOT NULL DEFAULT true,
    ADD COLUMN awaits_authority  boolean NOT NULL DEFAULT false;
DROP INDEX evaluation_due;
CREATE INDEX evaluation_turn ON evaluation (lane, installation_id, available_at, repository_id, number) WHERE NOT awaits_revocation;
CREATE INDEX evaluation_awaits_authority ON evaluation (installation_id, repository_id) WHERE awaits_authority;

DROP INDEX head_pending;
CREATE INDEX head_turn ON head (lane, installation_id, invalidation_available_at, repository_id, head_sha)
    WHERE invalidated_generation < generation;

-- lane 0: an event asked for it; lane 1: the split of an installation-wide change did.
-- before_sha and after_sha are what the pushes merged into a base row span, '' where their order is not known.
ALTER TABLE authority
    ADD COLUMN lane       smallint NOT NULL DEFAULT 0,
    ADD COLUMN before_sha text     NOT NULL DEFAULT '',
    ADD COLUMN after_sha  text     NOT NULL DEFAULT '';
DROP INDEX authority_due;
CREATE INDEX authority_turn ON authority (lane, installation_id, scope, available_at, repository_id, base_ref);

-- Keyed by commit first: beside the primary keys, which share the other two columns, the planner could not tell the two apart
-- before a table was analyzed, and walked through a whole repository for one row.
DROP INDEX pull_by_head;
CREATE INDEX pull_by_head ON pull (head_sha, repository_id, installation_id);
DROP INDEX evaluation_by_head;
CREATE INDEX evaluation_by_head ON evaluation (head_sha, repository_id, installation_id);
DROP INDEX decision_by_head;
CREATE INDEX decision_by_head ON decision (head_sha, repository_id, installation_id, decision_id DESC);

-- Queues live by deleting what is done: left to the defaults, a fifth of a table would be dead before it is cleaned.
ALTER TABLE evaluation SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500, fillfactor = 70);
ALTER TABLE authority SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500, fillfactor = 70);
ALTER TABLE head SET (autovacuum_vacuum_scale_factor = 0.05, fillfactor = 70);

-- What a pull request's last confirmed decision rested on that a push to its base can change: the rules, by the object ids of
-- their files, and the change, by what GitHub counts of it. rules '' says that more was looked at than these two.
CREATE TABLE basis (
    installation_id bigint  NOT NULL,
    repository_id   bigint  NOT NULL,
    number          integer NOT NULL,
    decision_id     bigint  NOT NULL,
    head_sha        text    NOT NULL,
    base_ref        text    NOT NULL,
    rules           text    NOT NULL,
    change          text    NOT NULL,
    CONSTRAINT basis_pkey PRIMARY KEY (installation_id, repository_id, number),
    CONSTRAINT basis_pull_fkey FOREIGN KEY (installation_id, repository_id, number) REFERENCES pull
);
