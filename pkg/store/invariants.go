package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// invariant is one statement that must return no row; each row is a violation in words.
type invariant struct{ name, sql string }

var invariants = []invariant{
	{"I5 invalidated generation within bounds", `
		SELECT format('head %s/%s/%s: invalidated %s of %s', installation_id, repository_id, head_sha, invalidated_generation, generation)
		FROM head WHERE invalidated_generation > generation OR invalidated_generation < 0 OR run_generation > generation OR posted_generation > generation OR published_generation > generation`},
	{"I5 an evaluation never runs ahead of its pull request or head", `
		SELECT format('evaluation %s/%s#%s generation %s head generation %s against %s and %s', e.installation_id, e.repository_id, e.number, e.generation, e.head_generation, p.generation, h.generation)
		FROM evaluation e JOIN pull p USING (installation_id, repository_id, number) JOIN head h ON (h.installation_id, h.repository_id, h.head_sha) = (e.installation_id, e.repository_id, e.head_sha)
		WHERE e.generation > p.generation OR e.head_generation > h.generation`},
	{"RG-221 no work carries an epoch from the future", `
		SELECT format('evaluation %s/%s#%s epoch %s of %s', e.installation_id, e.repository_id, e.number, e.authority_epoch, i.authority_epoch)
		FROM evaluation e LEFT JOIN installation i USING (installation_id) WHERE e.authority_epoch > coalesce(i.authority_epoch, 1)
		UNION ALL
		SELECT format('authority %s/%s/%s epoch %s of %s', a.installation_id, a.scope, a.repository_id, a.epoch, i.authority_epoch)
		FROM authority a LEFT JOIN installation i USING (installation_id) WHERE a.epoch > coalesce(i.authority_epoch, 1)`},
	{"RG-102 a delivery's generation exists", `
		SELECT format('delivery %s: head generation %s of %s', d.delivery_id, d.head_generation, h.generation)
		FROM delivery d LEFT JOIN head h USING (installation_id, repository_id, head_sha)
		WHERE d.head_sha <> '' AND (h.generation IS NULL OR d.head_generation > h.generation OR d.head_generation < 1)`},
	{"RG-100 a direct delivery left its pull request", `
		SELECT format('delivery %s: no pull %s/%s#%s', d.delivery_id, d.installation_id, d.repository_id, d.number)
		FROM delivery d LEFT JOIN pull p USING (installation_id, repository_id, number) WHERE d.number > 0 AND p.number IS NULL
		UNION ALL
		SELECT format('delivery %s: no merge group %s/%s/%s', d.delivery_id, d.installation_id, d.repository_id, d.head_sha)
		FROM delivery d LEFT JOIN merge_group g USING (installation_id, repository_id, head_sha)
		WHERE d.event = 'merge_group' AND d.head_sha <> '' AND g.head_sha IS NULL AND d.received_at > now() - interval '1 day'`},
	{"RG-215 RG-216 base refs are bounded and never beside a repository-wide row", `
		SELECT format('authority %s/%s: %s base refs, repository-wide %s', installation_id, repository_id, count(*) FILTER (WHERE scope = 'base'), bool_or(scope = 'repository'))
		FROM authority WHERE repository_id > 0 GROUP BY installation_id, repository_id
		HAVING count(*) FILTER (WHERE scope = 'base') > ` + fmt.Sprint(MaxBaseRefs) + ` OR (bool_or(scope = 'repository') AND bool_or(scope = 'base'))`},
	{"a lease has a holder, an expiry and a token, or none of holder and expiry", `
		SELECT format('head %s/%s/%s', installation_id, repository_id, head_sha) FROM head
		WHERE (invalidation_holder = '') <> (invalidation_expires_at IS NULL) OR (evaluation_holder = '') <> (evaluation_expires_at IS NULL)
		UNION ALL SELECT format('authority %s/%s/%s', installation_id, scope, repository_id) FROM authority WHERE (holder = '') <> (expires_at IS NULL)
		UNION ALL SELECT format('lease %s', name) FROM lease WHERE (holder = '') <> (expires_at IS NULL)`},
	{"P1 a proved run is bound", `
		SELECT format('head %s/%s/%s', installation_id, repository_id, head_sha) FROM head
		WHERE run_id IS NULL AND (run_generation > 0 OR posted_generation > 0 OR intent_decision_id IS NOT NULL OR published_decision_id IS NOT NULL)`},
	{"I9 what a head calls published or intended is a decision of that head", `
		SELECT format('head %s/%s/%s', h.installation_id, h.repository_id, h.head_sha) FROM head h
		LEFT JOIN decision p ON p.decision_id = h.published_decision_id LEFT JOIN decision i ON i.decision_id = h.intent_decision_id
		WHERE (h.published_decision_id IS NOT NULL AND (p.decision_id IS NULL OR p.outcome <> 'confirmed' OR p.head_sha <> h.head_sha OR p.check_run_id <> h.run_id))
			OR (h.intent_decision_id IS NOT NULL AND (i.decision_id IS NULL OR i.head_sha <> h.head_sha))`},
	{"I3 no decision was confirmed for a generation that was not invalidated", `
		SELECT format('decision %s: head generation %s of %s', d.decision_id, d.head_generation, h.invalidated_generation)
		FROM decision d JOIN head h USING (installation_id, repository_id, head_sha)
		WHERE d.outcome = 'confirmed' AND d.head_generation > h.invalidated_generation`},
	{"I5 generations of one head's decisions never go back", `
		SELECT format('decision %s', decision_id) FROM (
			SELECT decision_id, head_generation, lag(head_generation) OVER (PARTITION BY installation_id, repository_id, head_sha ORDER BY sequence) AS before
			FROM decision) AS d WHERE before > head_generation`},
	{"P13 a member's change raised its groups: no group was decided before its member's newest generation was revoked", `
		SELECT format('group %s/%s/%s: member #%s changed after decision %s', g.installation_id, g.repository_id, g.head_sha, m.number, d.decision_id)
		FROM merge_group g JOIN head h USING (installation_id, repository_id, head_sha)
			JOIN decision d ON d.decision_id = h.published_decision_id AND h.published_generation = h.generation AND h.generation = h.invalidated_generation
			JOIN merge_group_member m ON (m.installation_id, m.repository_id, m.group_sha) = (g.installation_id, g.repository_id, g.head_sha)
			JOIN head mh ON (mh.installation_id, mh.repository_id, mh.head_sha) = (m.installation_id, m.repository_id, m.head_sha)
		WHERE g.state = 'open' AND d.conclusion = 'success' AND mh.invalidated_generation = mh.generation - 1 AND mh.requested_at > d.settled_at AND mh.invalidated_generation > 0`},
	{"P13 a published success of a group has members, and a group that ended waits for nothing", `
		SELECT format('group %s/%s/%s', g.installation_id, g.repository_id, g.head_sha) FROM merge_group g
		JOIN head h USING (installation_id, repository_id, head_sha)
		LEFT JOIN decision d ON d.decision_id = h.published_decision_id
		WHERE (g.state = 'ended' AND g.waiting)
			OR (g.state = 'open' AND d.conclusion = 'success' AND h.published_generation = h.generation AND NOT EXISTS (SELECT FROM merge_group_member m
				WHERE (m.installation_id, m.repository_id, m.group_sha) = (g.installation_id, g.repository_id, g.head_sha)))`},
	{"I5 a group carries no epoch from the future", `
		SELECT format('group %s/%s/%s epoch %s of %s', g.installation_id, g.repository_id, g.head_sha, g.authority_epoch, i.authority_epoch)
		FROM merge_group g LEFT JOIN installation i USING (installation_id) WHERE g.authority_epoch > coalesce(i.authority_epoch, 1)`},
	{"P9 no evaluation waits for a revocation that is over", `
		SELECT format('evaluation %s/%s#%s', e.installation_id, e.repository_id, e.number)
		FROM evaluation e JOIN head h USING (installation_id, repository_id, head_sha) WHERE e.awaits_revocation AND h.generation = h.invalidated_generation`},
	{"a settled decision says when", `
		SELECT format('decision %s', decision_id) FROM decision WHERE (outcome = 'intended') <> (settled_at IS NULL)`},
}

// grantInvariants hold where the audit of lease grants is installed (storetest installs it; `lease_grant`).
var grantInvariants = []invariant{
	{"no lease token was ever granted twice, nor to two holders", `
		SELECT format('token %s granted %s times to %s holders', token, count(*), count(DISTINCT holder)) FROM lease_grant GROUP BY token HAVING count(*) > 1`},
	{"tokens of one row only rise", `
		SELECT format('%s: token %s after %s', row_key, token, before) FROM (
			SELECT row_key, token, lag(token) OVER (PARTITION BY row_key ORDER BY grant_id) AS before FROM lease_grant) AS g WHERE before >= token`},
}

// CheckInvariants is the oracle: it returns every violation of what this database must always hold, in words; none when all is
// well. It may run at any time, also beside working services, because each invariant is read in one statement. It ends with
// the hash chain of every installation.
func CheckInvariants(ctx context.Context, s *Store) ([]string, error) {
	checks := invariants
	var audited bool
	if err := s.queryOne(ctx, "SELECT to_regclass('public.lease_grant') IS NOT NULL", nil, &audited); err != nil {
		return nil, fmt.Errorf("check invariants: %w", err)
	}
	if audited {
		checks = append(checks[:len(checks):len(checks)], grantInvariants...)
	}
	var violations []string
	for _, c := range checks {
		found, err := queryAll(ctx, s, c.sql, nil, pgx.RowTo[string])
		if err != nil {
			return nil, fmt.Errorf("check %q: %w", c.name, err)
		}
		for _, f := range found {
			violations = append(violations, c.name+": "+f)
		}
	}
	installations, err := queryAll(ctx, s, "SELECT installation_id FROM decision_chain ORDER BY 1", nil, pgx.RowTo[InstallationID])
	if err != nil {
		return nil, fmt.Errorf("check chains: %w", err)
	}
	for _, i := range installations {
		if _, err := s.VerifyChain(ctx, i); err != nil {
			violations = append(violations, "I9 hash chain: "+err.Error())
		}
	}
	return violations, nil
}

// HeldLeases lists the leases that are held now, in words: none must be left after every service has stopped.
func (s *Store) HeldLeases(ctx context.Context) ([]string, error) {
	held, err := queryAll(ctx, s, `
		-- name: HeldLeases
		SELECT format('invalidation of head %s by %s', head_sha, invalidation_holder) FROM head WHERE invalidation_expires_at > now()
		UNION ALL SELECT format('evaluation of head %s by %s', head_sha, evaluation_holder) FROM head WHERE evaluation_expires_at > now()
		UNION ALL SELECT format('authority %s/%s by %s', scope, repository_id, holder) FROM authority WHERE expires_at > now()
		UNION ALL SELECT format('lease %s by %s', name, holder) FROM lease WHERE expires_at > now()
		ORDER BY 1 LIMIT 1000`, nil, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("list held leases: %w", err)
	}
	return held, nil
}
