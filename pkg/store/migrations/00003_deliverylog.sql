-- What the reconciler found in GitHub's own delivery log and what it did about it, and how far its other walks have come.
-- Why: an event that never reached us, or was refused, is asked for again without an operator; the rows show which and how it ended.
-- Locks: creates only; the indexes of existing tables take a share lock for as long as they are built (seconds a million rows).
-- Deploy order: before the services of the same release; the release before it does not read these tables.

-- +goose Up

-- One row for the App: how far its delivery log was read. read_through: every attempt that GitHub made before it was looked at.
-- resume_cursor: where a reading that was cut short goes on; resume_top is then what read_through becomes at its end.
CREATE TABLE delivery_log (
    singleton     boolean     NOT NULL DEFAULT true,
    read_through  timestamptz NOT NULL,
    resume_cursor text        NOT NULL DEFAULT '',
    resume_top    timestamptz,
    accepted_at   timestamptz,
    unreached_at  timestamptz,
    read_at       timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT delivery_log_pkey PRIMARY KEY (singleton),
    CONSTRAINT delivery_log_single CHECK (singleton),
    CONSTRAINT delivery_log_resume CHECK ((resume_cursor = '') = (resume_top IS NULL))
);

-- One row for each delivery that failed, or that GitHub calls delivered and this database does not know. guid is
-- X-GitHub-Delivery; attempt_id is the newest attempt in GitHub's log, which a redelivery is asked for by.
CREATE TABLE delivery_gap (
    guid            text        NOT NULL,
    event           text        NOT NULL,
    action          text        NOT NULL DEFAULT '',
    installation_id bigint      NOT NULL DEFAULT 0,
    repository_id   bigint      NOT NULL DEFAULT 0,
    kind            text        NOT NULL,
    state           text        NOT NULL DEFAULT 'open',
    attempt_id      bigint      NOT NULL,
    attempted_at    timestamptz NOT NULL,
    status_code     integer     NOT NULL DEFAULT 0,
    status          text        NOT NULL DEFAULT '',
    asks            integer     NOT NULL DEFAULT 0,
    asked_at        timestamptz,
    next_ask_at     timestamptz NOT NULL DEFAULT now(),
    last_error      text        NOT NULL DEFAULT '',
    found_at        timestamptz NOT NULL DEFAULT now(),
    settled_at      timestamptz,
    CONSTRAINT delivery_gap_pkey PRIMARY KEY (guid),
    CONSTRAINT delivery_gap_kind CHECK (kind IN ('failed', 'missing')),
    CONSTRAINT delivery_gap_state CHECK (state IN ('open', 'filled', 'acknowledged', 'refused', 'given_up', 'expired')),
    CONSTRAINT delivery_gap_settled CHECK ((state = 'open') = (settled_at IS NULL)),
    CONSTRAINT delivery_gap_asks CHECK (asks >= 0)
);
CREATE INDEX delivery_gap_open ON delivery_gap (next_ask_at) WHERE state = 'open';
CREATE INDEX delivery_gap_by_age ON delivery_gap (found_at);

-- How far the comparison of decided heads with what GitHub shows has come (P12).
CREATE TABLE drift_cursor (
    singleton   boolean     NOT NULL DEFAULT true,
    settled_at  timestamptz NOT NULL,
    decision_id bigint      NOT NULL,
    CONSTRAINT drift_cursor_pkey PRIMARY KEY (singleton),
    CONSTRAINT drift_cursor_single CHECK (singleton)
);
CREATE INDEX decision_confirmed_by_time ON decision (settled_at, decision_id) WHERE outcome = 'confirmed';

-- Work whose target is gone is due at infinity (P14); what is parked is found without a look at the rest.
CREATE INDEX evaluation_parked ON evaluation (installation_id) WHERE available_at = 'infinity';
CREATE INDEX head_parked ON head (installation_id) WHERE invalidation_available_at = 'infinity';
CREATE INDEX authority_parked ON authority (installation_id) WHERE available_at = 'infinity';
