-- Merge groups (P13, D6): a group's head is a head row like any other; these rows say what it is made of and what waits on it.
-- Why: a group answers for every pull request inside it, so a change of any member's evidence has to revoke the group too.
-- Locks: creates, and a trigger on head, which waits for writers of that table for a moment. Duration: milliseconds.
-- Deploy order: before any service starts; an older binary refuses the newer schema (RG-448).

-- +goose Up

-- One group by its head commit. waiting is its evaluation: the row stays when the work is done, and the trigger below makes it
-- wait again. generation rises with every trigger; it is fenced as an evaluation's is. state 'ended' is final for the work, but
-- GitHub asking for checks again reopens it.
CREATE TABLE merge_group (
    installation_id  bigint      NOT NULL,
    repository_id    bigint      NOT NULL,
    head_sha         text        NOT NULL,
    head_ref         text        NOT NULL,
    base_ref         text        NOT NULL,
    base_sha         text        NOT NULL,
    state            text        NOT NULL DEFAULT 'open',
    ended_reason     text        NOT NULL DEFAULT '',
    generation       bigint      NOT NULL DEFAULT 1,
    authority_epoch  bigint      NOT NULL,
    waiting          boolean     NOT NULL DEFAULT true,
    recheck          boolean     NOT NULL DEFAULT false,
    available_at     timestamptz NOT NULL DEFAULT now(),
    attempts         integer     NOT NULL DEFAULT 0,
    last_error       text        NOT NULL DEFAULT '',
    delivery_id      text        NOT NULL DEFAULT '',
    reason           text        NOT NULL,
    traceparent      text        NOT NULL DEFAULT '',
    requested_at     timestamptz NOT NULL DEFAULT now(),
    updated_at       timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT merge_group_pkey PRIMARY KEY (installation_id, repository_id, head_sha),
    CONSTRAINT merge_group_head_fkey FOREIGN KEY (installation_id, repository_id, head_sha) REFERENCES head,
    CONSTRAINT merge_group_generation_positive CHECK (generation >= 1),
    CONSTRAINT merge_group_state CHECK (state IN ('open', 'ended')),
    CONSTRAINT merge_group_ended CHECK ((state = 'ended') = (ended_reason <> '')),
    CONSTRAINT merge_group_ended_waits_for_nothing CHECK (state = 'open' OR NOT waiting)
);
CREATE INDEX merge_group_due ON merge_group (available_at) WHERE waiting;

-- A pull request inside a group, with the head it has there. Found by the evaluator, never taken from a payload (I2).
CREATE TABLE merge_group_member (
    installation_id  bigint  NOT NULL,
    repository_id    bigint  NOT NULL,
    group_sha        text    NOT NULL,
    number           integer NOT NULL,
    head_sha         text    NOT NULL,
    CONSTRAINT merge_group_member_pkey PRIMARY KEY (installation_id, repository_id, group_sha, number),
    CONSTRAINT merge_group_member_group_fkey FOREIGN KEY (installation_id, repository_id, group_sha) REFERENCES merge_group ON DELETE CASCADE,
    CONSTRAINT merge_group_member_number_positive CHECK (number > 0),
    CONSTRAINT merge_group_member_head_form CHECK (head_sha ~ '^([0-9a-f]{40}|[0-9a-f]{64})$')
);
CREATE INDEX merge_group_member_by_head ON merge_group_member (installation_id, repository_id, head_sha);

-- Whatever raises a member's head raises the groups that it is in, in the same transaction: no statement can forget it (P13).
-- Groups are locked in the order of their heads, heads before groups. A group's own head is a member of nothing, so it ends there.
-- +goose StatementBegin
CREATE FUNCTION raise_merge_groups() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    found text[];
BEGIN
    SELECT array_agg(g.head_sha ORDER BY g.head_sha) INTO found
    FROM merge_group_member m JOIN merge_group g
        ON (g.installation_id, g.repository_id, g.head_sha) = (m.installation_id, m.repository_id, m.group_sha)
    WHERE m.installation_id = NEW.installation_id AND m.repository_id = NEW.repository_id AND m.head_sha = NEW.head_sha
        AND m.group_sha <> NEW.head_sha AND g.state = 'open';
    IF found IS NULL THEN
        RETURN NULL;
    END IF;
    PERFORM FROM head h WHERE h.installation_id = NEW.installation_id AND h.repository_id = NEW.repository_id AND h.head_sha = ANY (found)
        ORDER BY h.head_sha FOR NO KEY UPDATE;
    UPDATE head h SET generation = h.generation + 1,
        lane = 0,
        requested_at = CASE WHEN h.invalidated_generation < h.generation THEN h.requested_at ELSE now() END,
        traceparent = NEW.traceparent,
        invalidation_available_at = now(), invalidation_attempts = 0, invalidation_error = '',
        invalidation_expires_at = NULL, invalidation_holder = '',
        evaluation_expires_at = NULL, evaluation_holder = '',
        updated_at = now()
    FROM merge_group g
    WHERE h.installation_id = NEW.installation_id AND h.repository_id = NEW.repository_id AND h.head_sha = ANY (found)
        AND (g.installation_id, g.repository_id, g.head_sha) = (h.installation_id, h.repository_id, h.head_sha) AND g.state = 'open';
    UPDATE merge_group g SET generation = g.generation + 1,
        authority_epoch = coalesce((SELECT i.authority_epoch FROM installation i WHERE i.installation_id = NEW.installation_id), 1),
        requested_at = CASE WHEN g.waiting AND NOT g.recheck THEN g.requested_at ELSE now() END,
        waiting = true, recheck = false, available_at = now(), attempts = 0, last_error = '',
        delivery_id = '', reason = 'merge_group.member_changed', traceparent = NEW.traceparent, updated_at = now()
    WHERE g.installation_id = NEW.installation_id AND g.repository_id = NEW.repository_id AND g.head_sha = ANY (found) AND g.state = 'open';
    RETURN NULL;
END
$$;
-- +goose StatementEnd

CREATE TRIGGER head_made_raises_merge_groups AFTER INSERT ON head
    FOR EACH ROW EXECUTE FUNCTION raise_merge_groups();
CREATE TRIGGER head_raised_raises_merge_groups AFTER UPDATE OF generation ON head
    FOR EACH ROW WHEN (NEW.generation > OLD.generation) EXECUTE FUNCTION raise_merge_groups();
