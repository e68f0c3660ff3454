-- What readers ask for: where every open pull request stands and whom it waits for, an operator's pause, and retention of decisions.
-- Why: the lists of the console and of the command line answer from small rows and not from the evidence (decision 0170); a pause
-- that an operator ordered is kept apart from a rate limit's (decision 0171); a log that is cut says where (decision 0172).
-- Locks: creates, and columns without a rewrite; the index of pull takes a share lock for seconds a million rows.
-- Deploy order: before any service starts; an older binary refuses the newer schema (RG-448).

-- +goose Up

-- One row a pull request, written with the intent of the decision it is taken from, beside it: never evidence, never read by a
-- fence. since: from when on it has been in this state without a break. It counts while decision_id is what the head published.
CREATE TABLE standing (
    installation_id bigint      NOT NULL,
    repository_id   bigint      NOT NULL,
    number          integer     NOT NULL,
    decision_id     bigint      NOT NULL,
    head_sha        text        NOT NULL,
    state           text        NOT NULL,
    next_step       text        NOT NULL,
    since           timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT standing_pkey PRIMARY KEY (installation_id, repository_id, number),
    CONSTRAINT standing_pull_fkey FOREIGN KEY (installation_id, repository_id, number) REFERENCES pull ON DELETE CASCADE,
    CONSTRAINT standing_state CHECK (state IN ('approved', 'released', 'missing', 'blocked'))
);

-- One row for each owner whose approval a pull request lacks, lower case. problem: a code of ownership health that the evidence
-- shows of that owner, '' when it shows none.
CREATE TABLE waiting (
    installation_id bigint      NOT NULL,
    repository_id   bigint      NOT NULL,
    number          integer     NOT NULL,
    owner           text        NOT NULL,
    files           integer     NOT NULL,
    problem         text        NOT NULL DEFAULT '',
    since           timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT waiting_pkey PRIMARY KEY (installation_id, repository_id, number, owner),
    CONSTRAINT waiting_standing_fkey FOREIGN KEY (installation_id, repository_id, number) REFERENCES standing ON DELETE CASCADE,
    CONSTRAINT waiting_owner_bounds CHECK (length(owner) BETWEEN 1 AND 300)
);
CREATE INDEX waiting_by_owner ON waiting (owner, since, installation_id, repository_id, number);

CREATE INDEX pull_open ON pull (installation_id, repository_id, number) WHERE state = 'open';
CREATE INDEX repository_by_name ON repository (full_name);

-- An operator's pause: nothing is decided, revocation goes on. NULL: none.
ALTER TABLE installation
    ADD COLUMN held_at     timestamptz,
    ADD COLUMN held_by     text NOT NULL DEFAULT '',
    ADD COLUMN held_reason text NOT NULL DEFAULT '';

-- Where an installation's chain was cut: every decision up to sequence is removed, and hash is the last removed one's, which the
-- next one names.
CREATE TABLE decision_checkpoint (
    installation_id bigint      NOT NULL,
    sequence        bigint      NOT NULL,
    hash            text        NOT NULL,
    removed         bigint      NOT NULL,
    older_than      timestamptz NOT NULL,
    cut_at          timestamptz NOT NULL DEFAULT now(),
    cut_by          text        NOT NULL DEFAULT current_user,
    CONSTRAINT decision_checkpoint_pkey PRIMARY KEY (installation_id, sequence)
);
CREATE INDEX decision_by_age ON decision (decided_at);
