package store

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// Work is where the work of one pull request is now.
type Work struct {
	// Now is the moment of reading, by the database's clock; every other time is to be compared with it.
	Now time.Time
	// Items are the rows that wait for or are being worked on, revocation first, then authority, then evaluation.
	Items []WorkItem
	Fence HeadFence
	Pause Pause
	// Groups are the open merge groups that hold the pull request at its head.
	Groups []SHA
}

// WorkItem is one row of a queue that this pull request waits for.
type WorkItem struct {
	Queue string // revocation, authority, evaluation
	// Scope and BaseRef are an authority change's: installation, repository or base.
	Scope, BaseRef string
	Lane           Lane
	Reason         string
	DeliveryID     DeliveryID
	RequestedAt    time.Time
	AvailableAt    time.Time // zero where it is parked
	Parked         bool      // its target is gone (P14)
	Recheck        bool
	// AwaitsRevocation and AwaitsAuthority say what an evaluation waits for.
	AwaitsRevocation, AwaitsAuthority bool
	Attempts                          int
	LastErr                           string
	Holder                            string // who works on it now
	LeaseEnds                         time.Time
	// Ahead is how many rows of the same installation and lane are drawn before it, at most 1000.
	Ahead int
}

// HeadFence is what the fences of a head compare.
type HeadFence struct {
	Generation, Invalidated, Published Generation
	RunID                              int64
	RunGeneration                      Generation
	Intent                             DecisionID // a decision that is being written and is not confirmed
	Drifted                            bool       // GitHub showed another run than the one that was decided
}

// Pause is what keeps an installation's work from going on.
type Pause struct {
	Installation InstallationID
	Account      string
	// Until is when a rate limit ends, zero when there is none; Reason is GitHub's kind of limit.
	Until  time.Time
	Reason string
	// HeldAt is since when an operator has paused it, zero when nobody has.
	HeldAt             time.Time
	HeldBy, HeldReason string
	// GoneAt is since when GitHub no longer lists the installation, or the repository.
	GoneAt time.Time
}

// Any reports whether anything keeps the work.
func (p Pause) Any() bool { return !p.Until.IsZero() || !p.HeldAt.IsZero() || !p.GoneAt.IsZero() }

func (s *Store) readWork(ctx context.Context, key PullKey, head SHA) (Work, error) {
	var w Work
	if err := s.readFence(ctx, key, head, &w); err != nil {
		return Work{}, err
	}
	var err error
	w.Items, err = queryAll(ctx, s, `
		-- name: ReadWorkItems
		SELECT * FROM (
			SELECT 'revocation', '', '', h.lane, '', '', h.requested_at, nullif(h.invalidation_available_at, 'infinity'), h.invalidation_available_at = 'infinity', false, false, false,
				h.invalidation_attempts, h.invalidation_error, h.invalidation_holder, h.invalidation_expires_at,
				(SELECT count(*) FROM (SELECT FROM head q WHERE q.lane = h.lane AND q.installation_id = h.installation_id AND q.invalidated_generation < q.generation
					AND q.invalidation_available_at < h.invalidation_available_at LIMIT 1000) AS ahead)::integer
			FROM head h WHERE h.installation_id = $1 AND h.repository_id = $2 AND h.head_sha = $4 AND h.invalidated_generation < h.generation
			UNION ALL
			SELECT 'authority', a.scope, a.base_ref, a.lane, a.reason, a.delivery_id, a.requested_at, nullif(a.available_at, 'infinity'), a.available_at = 'infinity', false, false, false,
				a.attempts, a.last_error, a.holder, a.expires_at, 0
			FROM authority a WHERE a.installation_id = $1 AND (a.scope = 'installation' OR (a.repository_id = $2
				AND (a.scope = 'repository' OR a.base_ref = (SELECT p.base_ref FROM pull p WHERE p.installation_id = $1 AND p.repository_id = $2 AND p.number = $3))))
			UNION ALL
			SELECT 'evaluation', '', '', e.lane, e.reason, e.delivery_id, e.requested_at, nullif(e.available_at, 'infinity'), e.available_at = 'infinity', e.recheck, e.awaits_revocation, e.awaits_authority,
				e.attempts, e.last_error, coalesce(h.evaluation_holder, ''), h.evaluation_expires_at,
				(SELECT count(*) FROM (SELECT FROM evaluation q WHERE NOT q.awaits_revocation AND q.lane = e.lane AND q.installation_id = e.installation_id
					AND q.available_at < e.available_at LIMIT 1000) AS ahead)::integer
			FROM evaluation e LEFT JOIN head h USING (installation_id, repository_id, head_sha) WHERE e.installation_id = $1 AND e.repository_id = $2 AND e.number = $3
		) AS item LIMIT 100`, []any{key.Installation, key.Repository, key.Number, head}, scanWorkItem)
	if err != nil {
		return Work{}, err
	}
	slices.SortStableFunc(w.Items, func(a, b WorkItem) int {
		return cmp.Or(cmp.Compare(queueRank[a.Queue], queueRank[b.Queue]), a.RequestedAt.Compare(b.RequestedAt))
	})
	w.Groups, err = queryAll(ctx, s, `
		-- name: ReadGroupsOf
		SELECT m.group_sha FROM merge_group_member m JOIN merge_group g ON (g.installation_id, g.repository_id, g.head_sha) = (m.installation_id, m.repository_id, m.group_sha)
		WHERE m.installation_id = $1 AND m.repository_id = $2 AND m.head_sha = $4 AND m.number = $3 AND g.state = 'open'
		ORDER BY m.group_sha LIMIT 50`, []any{key.Installation, key.Repository, key.Number, head}, pgx.RowTo[SHA])
	return w, err
}

// queueRank is the order in which a pull request waits for its rows.
var queueRank = map[string]int{"revocation": 0, "authority": 1, "evaluation": 2}

func scanWorkItem(row pgx.CollectableRow) (WorkItem, error) {
	var i WorkItem
	var available, lease *time.Time
	err := row.Scan(&i.Queue, &i.Scope, &i.BaseRef, &i.Lane, &i.Reason, &i.DeliveryID, &i.RequestedAt, &available, &i.Parked, &i.Recheck, &i.AwaitsRevocation, &i.AwaitsAuthority,
		&i.Attempts, &i.LastErr, &i.Holder, &lease, &i.Ahead)
	i.AvailableAt, i.LeaseEnds = timeOf(available), timeOf(lease)
	return i, err
}

func (s *Store) readFence(ctx context.Context, key PullKey, head SHA, w *Work) error {
	var until, held, gone *time.Time
	f, p := &w.Fence, &w.Pause
	p.Installation = key.Installation
	err := s.queryOne(ctx, `
		-- name: ReadFence
		SELECT now(), coalesce(h.generation, 0), coalesce(h.invalidated_generation, 0), coalesce(h.published_generation, 0), coalesce(h.run_id, 0),
			coalesce(h.run_generation, 0), coalesce(h.intent_decision_id, 0), coalesce(h.drifted_generation > h.invalidated_generation, false),
			coalesce(i.account_login, ''), CASE WHEN i.paused_until > now() THEN i.paused_until END, coalesce(i.pause_reason, ''),
			i.held_at, coalesce(i.held_by, ''), coalesce(i.held_reason, ''), coalesce(i.gone_at, r.gone_at)
		FROM (SELECT $1::bigint AS installation_id, $2::bigint AS repository_id, $3::text AS head_sha) AS k
			LEFT JOIN head h USING (installation_id, repository_id, head_sha) LEFT JOIN installation i USING (installation_id)
			LEFT JOIN repository r USING (installation_id, repository_id)`, []any{key.Installation, key.Repository, head},
		&w.Now, &f.Generation, &f.Invalidated, &f.Published, &f.RunID, &f.RunGeneration, &f.Intent, &f.Drifted,
		&p.Account, &until, &p.Reason, &held, &p.HeldBy, &p.HeldReason, &gone)
	p.Until, p.HeldAt, p.GoneAt = timeOf(until), timeOf(held), timeOf(gone)
	if p.Until.IsZero() {
		p.Reason = ""
	}
	return err
}
