-- One database role a service, each with what its work needs and nothing more (architecture: service × may write).
-- Applied by `countersign database migrate` after the migrations; running it again changes nothing.
-- The roles are created without a password: the operator sets one, or a certificate or peer mapping, per role.

DO $$
DECLARE
    role_name text;
BEGIN
    FOREACH role_name IN ARRAY ARRAY[
        'countersign_ingress', 'countersign_invalidator', 'countersign_fanout',
        'countersign_evaluator', 'countersign_reconciler', 'countersign_reader', 'countersign_console']
    LOOP
        IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = role_name) THEN
            BEGIN
                EXECUTE format('CREATE ROLE %I LOGIN', role_name);
            EXCEPTION WHEN duplicate_object OR unique_violation THEN
                NULL; -- another database of this server created it in the same moment
            END;
        END IF;
    END LOOP;
END
$$;

-- Everybody who connects may read everything: a fence that cannot be read cannot be checked.
GRANT USAGE ON SCHEMA public TO
    countersign_ingress, countersign_invalidator, countersign_fanout,
    countersign_evaluator, countersign_reconciler, countersign_reader, countersign_console;
GRANT SELECT ON ALL TABLES IN SCHEMA public TO
    countersign_ingress, countersign_invalidator, countersign_fanout,
    countersign_evaluator, countersign_reconciler, countersign_reader, countersign_console;

-- Every claimer draws lease tokens from the one sequence.
GRANT USAGE ON SEQUENCE lease_token_seq TO
    countersign_invalidator, countersign_fanout, countersign_evaluator, countersign_reconciler;

-- ingress: deliveries and work rows; no decision, no lease. Of a head it may advance the generation and what waits for it, and
-- neither call it invalidated nor touch the bound run, an intent or what is published: it faces the internet.
GRANT INSERT ON delivery TO countersign_ingress;
GRANT INSERT, UPDATE ON installation, repository, pull, evaluation TO countersign_ingress;
REVOKE UPDATE ON head FROM countersign_ingress;
GRANT INSERT, UPDATE (generation, lane, requested_at, traceparent, invalidation_available_at, invalidation_attempts,
    invalidation_error, invalidation_expires_at, invalidation_holder, evaluation_expires_at, evaluation_holder, updated_at)
    ON head TO countersign_ingress;
GRANT INSERT, UPDATE, DELETE ON authority TO countersign_ingress;

-- invalidator: heads and evaluations; marks deliveries (RG-146); pauses an installation (RG-145).
GRANT INSERT, UPDATE ON repository, pull, head, evaluation TO countersign_invalidator;
GRANT UPDATE (invalidated_at) ON delivery TO countersign_invalidator;
GRANT UPDATE (paused_until, pause_reason) ON installation TO countersign_invalidator;

-- fanout: authority, heads, evaluations. Of a head what ingress may: it writes no check run and proves nothing of one.
GRANT INSERT, UPDATE ON repository, pull, evaluation TO countersign_fanout;
REVOKE UPDATE ON head FROM countersign_fanout;
GRANT INSERT, UPDATE (generation, lane, requested_at, traceparent, invalidation_available_at, invalidation_attempts,
    invalidation_error, invalidation_expires_at, invalidation_holder, evaluation_expires_at, evaluation_holder, updated_at)
    ON head TO countersign_fanout;
GRANT INSERT, UPDATE, DELETE ON authority TO countersign_fanout;
GRANT UPDATE (paused_until, pause_reason) ON installation TO countersign_fanout;

-- evaluator: heads, evaluations, decisions (append; only the outcome of its own intent moves).
GRANT INSERT, UPDATE ON repository, pull, head TO countersign_evaluator;
GRANT INSERT, UPDATE, DELETE ON evaluation TO countersign_evaluator;
GRANT INSERT ON decision TO countersign_evaluator;
GRANT UPDATE (outcome, settled_at) ON decision TO countersign_evaluator;
GRANT INSERT, UPDATE ON decision_chain, basis, standing TO countersign_evaluator;
GRANT INSERT, UPDATE, DELETE ON waiting TO countersign_evaluator;
GRANT UPDATE (paused_until, pause_reason) ON installation TO countersign_evaluator;

-- reconciler: every work row, its own lease, retention; never a decision. Of a head what ingress may, and that it drifted.
GRANT INSERT, UPDATE ON installation, repository, pull, lease TO countersign_reconciler;
GRANT INSERT, UPDATE, DELETE ON evaluation, authority TO countersign_reconciler;
REVOKE UPDATE ON head FROM countersign_reconciler;
GRANT INSERT, DELETE, UPDATE (generation, lane, requested_at, traceparent, invalidation_available_at, invalidation_attempts,
    invalidation_error, invalidation_expires_at, invalidation_holder, evaluation_expires_at, evaluation_holder, updated_at,
    drifted_generation)
    ON head TO countersign_reconciler;
GRANT DELETE ON delivery TO countersign_reconciler;
GRANT INSERT, UPDATE, DELETE ON delivery_log, delivery_gap, drift_cursor TO countersign_reconciler;

-- merge groups: ingress opens and ends them; whoever raises a member's head raises its groups (trigger raise_merge_groups); the
-- evaluator finds the members and works them; the reconciler prunes.
GRANT INSERT, UPDATE ON merge_group TO countersign_ingress, countersign_evaluator;
GRANT UPDATE ON merge_group TO countersign_invalidator, countersign_fanout, countersign_reconciler;
GRANT INSERT, UPDATE, DELETE ON merge_group_member TO countersign_evaluator;
GRANT DELETE ON merge_group, merge_group_member TO countersign_reconciler;
