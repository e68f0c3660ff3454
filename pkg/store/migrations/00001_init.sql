-- The first schema of Countersign.
-- Why: Postgres is the only truth; every row here is either work, evidence of a decision, or a fence.
-- Locks: creates only, nothing to wait for. Duration: milliseconds. Deploy order: before any service starts.

-- +goose Up

-- One rising sequence for every lease: a token is never granted twice, whatever row it was granted on.
CREATE SEQUENCE lease_token_seq AS bigint START 1;

CREATE TABLE installation (
    installation_id  bigint      NOT NULL,
    account_login    text        NOT NULL DEFAULT '',
    authority_epoch  bigint      NOT NULL DEFAULT 1,
    paused_until     timestamptz,
    pause_reason     text        NOT NULL DEFAULT '',
    gone_at          timestamptz,
    created_at       timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT installation_pkey PRIMARY KEY (installation_id),
    CONSTRAINT installation_epoch_positive CHECK (authority_epoch >= 1)
);

-- full_name is a route, lower-cased (RG-035): it is checked against what GitHub reports before it is used.
CREATE TABLE repository (
    installation_id  bigint      NOT NULL,
    repository_id    bigint      NOT NULL,
    full_name        text        NOT NULL,
    updated_at       timestamptz NOT NULL DEFAULT now(),
    gone_at          timestamptz,
    CONSTRAINT repository_pkey PRIMARY KEY (installation_id, repository_id),
    CONSTRAINT repository_full_name_lower CHECK (full_name = lower(full_name))
);

-- A pull request as last seen; never evidence. generation outlives the evaluation rows (no reuse after a row was deleted).
CREATE TABLE pull (
    installation_id   bigint      NOT NULL,
    repository_id     bigint      NOT NULL,
    number            integer     NOT NULL,
    generation        bigint      NOT NULL DEFAULT 0,
    head_sha          text        NOT NULL DEFAULT '',
    base_ref          text        NOT NULL DEFAULT '',
    state             text        NOT NULL DEFAULT 'open',
    merged            boolean     NOT NULL DEFAULT false,
    title             text        NOT NULL DEFAULT '',
    author_login      text        NOT NULL DEFAULT '',
    github_updated_at timestamptz,
    evaluated_at      timestamptz,
    updated_at        timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT pull_pkey PRIMARY KEY (installation_id, repository_id, number),
    CONSTRAINT pull_number_positive CHECK (number > 0),
    CONSTRAINT pull_generation_nonnegative CHECK (generation >= 0),
    CONSTRAINT pull_state CHECK (state IN ('open', 'closed')),
    CONSTRAINT pull_merged_is_closed CHECK (NOT merged OR state = 'closed')
);
CREATE INDEX pull_by_head ON pull (installation_id, repository_id, head_sha);

-- The exact head. generation > invalidated_generation is the invalidator's queue (RG-180).
-- run_id is the managed run bound to the head (P1); run_generation is the generation it was proved unfinished for (P2, P3).
CREATE TABLE head (
    installation_id           bigint      NOT NULL,
    repository_id             bigint      NOT NULL,
    head_sha                  text        NOT NULL,
    generation                bigint      NOT NULL DEFAULT 1,
    invalidated_generation    bigint      NOT NULL DEFAULT 0,
    lane                      smallint    NOT NULL DEFAULT 0,
    run_id                    bigint,
    run_generation            bigint      NOT NULL DEFAULT 0,
    posted_generation         bigint      NOT NULL DEFAULT 0,
    intent_decision_id        bigint,
    published_decision_id     bigint,
    published_generation      bigint      NOT NULL DEFAULT 0,
    -- Above invalidated_generation: GitHub showed another run than the one that was decided (P12).
    drifted_generation        bigint      NOT NULL DEFAULT 0,
    requested_at              timestamptz NOT NULL DEFAULT now(),
    traceparent               text        NOT NULL DEFAULT '',
    invalidation_token        bigint      NOT NULL DEFAULT 0,
    invalidation_holder       text        NOT NULL DEFAULT '',
    invalidation_expires_at   timestamptz,
    invalidation_available_at timestamptz NOT NULL DEFAULT now(),
    invalidation_attempts     integer     NOT NULL DEFAULT 0,
    invalidation_error        text        NOT NULL DEFAULT '',
    evaluation_token          bigint      NOT NULL DEFAULT 0,
    evaluation_holder         text        NOT NULL DEFAULT '',
    evaluation_expires_at     timestamptz,
    updated_at                timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT head_pkey PRIMARY KEY (installation_id, repository_id, head_sha),
    CONSTRAINT head_sha_form CHECK (head_sha ~ '^([0-9a-f]{40}|[0-9a-f]{64})$'),
    CONSTRAINT head_generation_positive CHECK (generation >= 1),
    CONSTRAINT head_invalidated_bounds CHECK (invalidated_generation >= 0 AND invalidated_generation <= generation),
    CONSTRAINT head_run_generation_bounds CHECK (run_generation >= 0 AND run_generation <= generation),
    CONSTRAINT head_posted_generation_bounds CHECK (posted_generation >= 0 AND posted_generation <= generation),
    CONSTRAINT head_published_generation_bounds CHECK (published_generation >= 0 AND published_generation <= generation),
    CONSTRAINT head_run_id_positive CHECK (run_id IS NULL OR run_id > 0)
);
CREATE INDEX head_pending ON head (lane, invalidation_available_at)
    WHERE invalidated_generation < generation;

-- Pending evaluations; the row is deleted when its work is done (RG-401, RG-402).
CREATE TABLE evaluation (
    installation_id        bigint      NOT NULL,
    repository_id          bigint      NOT NULL,
    number                 integer     NOT NULL,
    generation             bigint      NOT NULL,
    head_sha               text        NOT NULL,
    head_generation        bigint      NOT NULL,
    authority_epoch        bigint      NOT NULL,
    lane                   smallint    NOT NULL DEFAULT 0,
    recheck                boolean     NOT NULL DEFAULT false,
    available_at           timestamptz NOT NULL DEFAULT now(),
    attempts               integer     NOT NULL DEFAULT 0,
    last_error             text        NOT NULL DEFAULT '',
    delivery_id            text        NOT NULL DEFAULT '',
    reason                 text        NOT NULL,
    traceparent            text        NOT NULL DEFAULT '',
    watermark_head         text        NOT NULL DEFAULT '',
    watermark_updated_at   timestamptz,
    watermark_review_id    bigint      NOT NULL DEFAULT 0,
    watermark_review_state text        NOT NULL DEFAULT '',
    requested_at           timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT evaluation_pkey PRIMARY KEY (installation_id, repository_id, number),
    CONSTRAINT evaluation_pull_fkey FOREIGN KEY (installation_id, repository_id, number) REFERENCES pull,
    CONSTRAINT evaluation_head_fkey FOREIGN KEY (installation_id, repository_id, head_sha) REFERENCES head,
    CONSTRAINT evaluation_generation_positive CHECK (generation >= 1),
    CONSTRAINT evaluation_head_generation_positive CHECK (head_generation >= 1)
);
CREATE INDEX evaluation_due ON evaluation (lane, available_at);
CREATE INDEX evaluation_by_head ON evaluation (installation_id, repository_id, head_sha);

-- Authority fan-out at three scopes (RG-210). repository_id is 0 at installation scope, base_ref '' above base scope.
CREATE TABLE authority (
    installation_id  bigint      NOT NULL,
    scope            text        NOT NULL,
    repository_id    bigint      NOT NULL DEFAULT 0,
    base_ref         text        NOT NULL DEFAULT '',
    generation       bigint      NOT NULL DEFAULT 1,
    epoch            bigint      NOT NULL,
    pass_generation  bigint      NOT NULL DEFAULT 0,
    cursor_page      integer     NOT NULL DEFAULT 1,
    token            bigint      NOT NULL DEFAULT 0,
    holder           text        NOT NULL DEFAULT '',
    expires_at       timestamptz,
    available_at     timestamptz NOT NULL DEFAULT now(),
    attempts         integer     NOT NULL DEFAULT 0,
    last_error       text        NOT NULL DEFAULT '',
    delivery_id      text        NOT NULL DEFAULT '',
    reason           text        NOT NULL,
    traceparent      text        NOT NULL DEFAULT '',
    requested_at     timestamptz NOT NULL DEFAULT now(),
    -- Since when its target cannot be reached (P14): retried rarely, counted, woken by a matching event.
    parked_at        timestamptz,
    CONSTRAINT authority_pkey PRIMARY KEY (installation_id, scope, repository_id, base_ref),
    CONSTRAINT authority_scope CHECK (
        (scope = 'installation' AND repository_id = 0 AND base_ref = '')
        OR (scope = 'repository' AND repository_id > 0 AND base_ref = '')
        OR (scope = 'base' AND repository_id > 0 AND base_ref <> '')),
    CONSTRAINT authority_generation_positive CHECK (generation >= 1),
    CONSTRAINT authority_pass_bounds CHECK (pass_generation >= 0 AND pass_generation <= generation)
);
CREATE INDEX authority_due ON authority (available_at);

CREATE TABLE delivery (
    delivery_id           text        NOT NULL,
    event                 text        NOT NULL,
    action                text        NOT NULL,
    installation_id       bigint      NOT NULL,
    repository_id         bigint      NOT NULL DEFAULT 0,
    number                integer     NOT NULL DEFAULT 0,
    head_sha              text        NOT NULL DEFAULT '',
    head_generation       bigint      NOT NULL DEFAULT 0,
    scope                 text        NOT NULL DEFAULT '',
    base_ref              text        NOT NULL DEFAULT '',
    traceparent           text        NOT NULL DEFAULT '',
    received_at           timestamptz NOT NULL DEFAULT now(),
    invalidated_at        timestamptz,
    CONSTRAINT delivery_pkey PRIMARY KEY (delivery_id),
    CONSTRAINT delivery_id_length CHECK (length(delivery_id) BETWEEN 1 AND 128)
);
CREATE INDEX delivery_by_age ON delivery (received_at);

-- Append-only; one hash chain an installation. Only outcome, settled_at and confirmed_at move, once.
CREATE TABLE decision (
    decision_id      bigint      GENERATED ALWAYS AS IDENTITY,
    installation_id  bigint      NOT NULL,
    sequence         bigint      NOT NULL,
    repository_id    bigint      NOT NULL,
    full_name        text        NOT NULL,
    number           integer     NOT NULL,
    head_sha         text        NOT NULL,
    generation       bigint      NOT NULL,
    head_generation  bigint      NOT NULL,
    authority_epoch  bigint      NOT NULL,
    delivery_id      text        NOT NULL,
    reason           text        NOT NULL,
    evidence_digest  text        NOT NULL,
    evidence         text        NOT NULL,
    verdict          text        NOT NULL,
    conclusion       text        NOT NULL,
    title            text        NOT NULL,
    summary          text        NOT NULL,
    explanation      text        NOT NULL,
    check_run_id     bigint      NOT NULL,
    traceparent      text        NOT NULL DEFAULT '',
    requested_at     timestamptz NOT NULL,
    decided_at       timestamptz NOT NULL,
    outcome          text        NOT NULL DEFAULT 'intended',
    settled_at       timestamptz,
    previous_hash    text        NOT NULL,
    hash             text        NOT NULL,
    CONSTRAINT decision_pkey PRIMARY KEY (decision_id),
    CONSTRAINT decision_chain_position UNIQUE (installation_id, sequence),
    CONSTRAINT decision_outcome CHECK (outcome IN ('intended', 'confirmed', 'reset')),
    CONSTRAINT decision_conclusion CHECK (conclusion IN ('success', 'failure', 'action_required', 'pending'))
);
CREATE INDEX decision_by_pull ON decision (installation_id, repository_id, number, decision_id DESC);
CREATE INDEX decision_by_head ON decision (installation_id, repository_id, head_sha, decision_id DESC);
-- One publication a head generation: the second confirmation of one generation is a bug, and the database says so.
CREATE UNIQUE INDEX decision_confirmed_once ON decision (installation_id, repository_id, head_sha, head_generation)
    WHERE outcome = 'confirmed';

CREATE TABLE decision_chain (
    installation_id bigint NOT NULL,
    sequence        bigint NOT NULL,
    hash            text   NOT NULL,
    CONSTRAINT decision_chain_pkey PRIMARY KEY (installation_id)
);

-- Elections by name (the reconciler's term).
CREATE TABLE lease (
    name             text        NOT NULL,
    token            bigint      NOT NULL DEFAULT 0,
    holder           text        NOT NULL DEFAULT '',
    expires_at       timestamptz,
    last_attempt_at  timestamptz,
    last_success_at  timestamptz,
    last_result      text        NOT NULL DEFAULT '',
    CONSTRAINT lease_pkey PRIMARY KEY (name)
);

-- What the schema looked like when it was migrated; a start compares (RG-442).
CREATE TABLE schema_fingerprint (
    singleton   boolean     NOT NULL DEFAULT true,
    fingerprint text        NOT NULL,
    written_at  timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT schema_fingerprint_pkey PRIMARY KEY (singleton),
    CONSTRAINT schema_fingerprint_single CHECK (singleton)
);
