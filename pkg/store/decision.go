package store

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/countersign/countersign/internal/hook"
)

// Fences reads, on the guard's own connection, every fence that lives in Postgres (fences 2, 3 and 4), for a publication on
// runID; baseRefs are the base refs of the pull requests the verdict is about. It returns nil only when all of them hold at
// one instant; otherwise a *FenceError naming the first that does not. intent is the decision this writer recorded, 0 before.
func (g *Guard) Fences(ctx context.Context, ev Evaluation, runID int64, baseRefs []string, intent DecisionID) error {
	return fences(ctx, g.conn, ev, runID, baseRefs, intent)
}

func fences(ctx context.Context, q querier, ev Evaluation, runID int64, baseRefs []string, intent DecisionID) error {
	numbers, generations := ev.rowArrays()
	var lease, headGeneration, invalidated, run, noIntent, epoch, noAuthority, pulls, group bool
	err := q.QueryRow(ctx, `
		-- name: Fences
		SELECT coalesce(h.evaluation_token = $4 AND h.evaluation_expires_at >= now(), false),
			h.generation = $5,
			h.invalidated_generation = $5,
			coalesce(h.run_id = $6, false) AND h.run_generation = $5,
			coalesce(h.intent_decision_id, 0) = $7,
			coalesce((SELECT authority_epoch FROM installation i WHERE i.installation_id = $1), 1) = $8,
			NOT EXISTS (SELECT FROM authority a WHERE a.installation_id = $1 AND (a.scope = 'installation'
				OR (a.repository_id = $2 AND (a.scope = 'repository' OR a.base_ref = ANY ($9::text[]))))),
			NOT EXISTS (SELECT FROM unnest($10::integer[], $11::bigint[]) AS c(number, generation)
				LEFT JOIN evaluation e ON e.installation_id = $1 AND e.repository_id = $2 AND e.number = c.number
				WHERE e.generation IS DISTINCT FROM c.generation OR e.authority_epoch <> $8),
			`+groupFence+`
		FROM head h WHERE h.installation_id = $1 AND h.repository_id = $2 AND h.head_sha = $3`,
		append(ev.key(), runID, intent, ev.Epoch, baseRefs, numbers, generations, ev.groupGeneration())...).
		Scan(&lease, &headGeneration, &invalidated, &run, &noIntent, &epoch, &noAuthority, &pulls, &group)
	if err != nil {
		return rowError(err, ErrSuperseded, "read fences of %s", ev.Head)
	}
	for _, f := range []struct {
		holds bool
		fence Fence
		hook  hook.Fence
	}{
		{headGeneration, FenceHeadGeneration, hook.HeadGeneration}, {lease, FenceLease, hook.Lease}, {pulls, FencePullGeneration, hook.PullGeneration},
		{group, FenceMergeGroup, hook.PullGeneration}, {epoch, FenceEpoch, hook.Epoch}, {noAuthority, FenceAuthorityPending, hook.AuthorityPending},
		{invalidated, FenceNotInvalidated, hook.Invalidated}, {run, FenceRunBinding, hook.RunBinding}, {noIntent, FenceIntent, hook.Intent},
	} {
		if !f.holds && !hook.Removed(f.hook) {
			return &FenceError{f.fence}
		}
	}
	return nil
}

// AuthorityPending reports whether relevant authority work blocks a verdict about these base refs (RG-225, RG-226): a cheap
// look before evidence is collected; the fences look again.
func (s *Store) AuthorityPending(ctx context.Context, key HeadKey, baseRefs []string) (bool, error) {
	if hook.Removed(hook.AuthorityPending) {
		return false, nil
	}
	var pending bool
	err := s.queryOne(ctx, `
		-- name: AuthorityPending
		SELECT EXISTS (SELECT FROM authority a WHERE a.installation_id = $1 AND (a.scope = 'installation'
			OR (a.repository_id = $2 AND (a.scope = 'repository' OR a.base_ref = ANY ($3::text[])))))`,
		[]any{key.Installation, key.Repository, baseRefs}, &pending)
	if err != nil {
		return false, fmt.Errorf("read authority of %s: %w", key, err)
	}
	return pending, nil
}

// Decision is what a publication says and rests on. Every field but the outcome is fixed by the hash chain.
type Decision struct {
	Number         int // the trigger's pull request
	FullName       string
	Generation     Generation
	DeliveryID     DeliveryID
	Reason         string
	EvidenceDigest string
	Evidence       string // the snapshot's JSON
	Verdict        string // the verdict's canonical JSON
	Conclusion     string // success | failure | action_required | pending
	Title          string
	Summary        string
	Explanation    string
	RunID          int64
	Traceparent    string
	RequestedAt    time.Time
	// Kept beside the decision, not part of it: for the next base push, and for lists.
	Bases     []Basis
	Standings []Standing
}

// RecordIntent appends the decision to the installation's chain and binds it to the head as an unconfirmed intent, in one
// transaction that holds every fence (P11, I9). Earlier intents of the head that never settled are marked reset. After it, a
// crash leaves an intent that no later publication can pass over. Errors: *FenceError, or the database's.
func (g *Guard) RecordIntent(ctx context.Context, ev Evaluation, d Decision, baseRefs []string) (DecisionID, error) {
	var id DecisionID
	err := g.inTx(ctx, func(tx pgx.Tx) error {
		if err := fences(ctx, tx, ev, d.RunID, baseRefs, 0); err != nil {
			return err
		}
		var err error
		if id, err = appendDecision(ctx, tx, ev, d); err != nil {
			return err
		}
		if err := recordBases(ctx, tx, ev, id, d.Bases); err != nil {
			return err
		}
		if err := recordStandings(ctx, tx, ev, id, d.Standings); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `
			-- name: SettleAbandonedIntents
			UPDATE decision SET outcome = 'reset', settled_at = now()
			WHERE installation_id = $1 AND repository_id = $2 AND head_sha = $3 AND outcome = 'intended' AND decision_id <> $4`,
			ev.Head.Installation, ev.Head.Repository, ev.Head.SHA, id); err != nil {
			return err
		}
		var ok bool
		err = tx.QueryRow(ctx, `
			-- name: BindIntent
			UPDATE head SET intent_decision_id = $6, updated_at = now() WHERE `+evaluationHeld()+noIntent()+` RETURNING true`,
			append(ev.key(), id)...).Scan(&ok)
		return rowError(err, &FenceError{FenceIntent}, "bind intent")
	})
	if err != nil {
		return 0, fmt.Errorf("record intent for %s generation %d: %w", ev.Head, ev.Generation, err)
	}
	return id, nil
}

// noIntent: an intent that never settled is passed over by nobody.
func noIntent() string {
	if hook.Removed(hook.Intent) {
		return ""
	}
	return " AND intent_decision_id IS NULL"
}

// appendDecision takes the chain's tip, so that one installation's decisions have one order, and links the new row to it.
func appendDecision(ctx context.Context, tx pgx.Tx, ev Evaluation, d Decision) (DecisionID, error) {
	var sequence int64
	var previous string
	var decidedAt time.Time
	err := tx.QueryRow(ctx, `
		-- name: ChainTip
		INSERT INTO decision_chain (installation_id, sequence, hash) VALUES ($1, 0, '')
		ON CONFLICT (installation_id) DO UPDATE SET sequence = decision_chain.sequence
		RETURNING sequence, hash, date_trunc('microseconds', clock_timestamp())`, ev.Head.Installation).Scan(&sequence, &previous, &decidedAt)
	if err != nil {
		return 0, fmt.Errorf("read chain tip: %w", err)
	}
	link := ChainLink{
		Installation: ev.Head.Installation, Sequence: sequence + 1, Head: ev.Head, HeadGeneration: ev.Generation, Epoch: ev.Epoch,
		Decision: d, DecidedAt: decidedAt.UTC(), PreviousHash: previous,
	}
	link.RequestedAt = link.RequestedAt.UTC().Truncate(time.Microsecond)
	var id DecisionID
	err = tx.QueryRow(ctx, `
		-- name: AppendDecision
		WITH tip AS (UPDATE decision_chain SET sequence = $2, hash = $22 WHERE installation_id = $1)
		INSERT INTO decision (installation_id, sequence, repository_id, full_name, number, head_sha, generation, head_generation,
			authority_epoch, delivery_id, reason, evidence_digest, evidence, verdict, conclusion, title, summary, explanation,
			check_run_id, traceparent, requested_at, decided_at, previous_hash, hash)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $23, $24, $22)
		RETURNING decision_id`,
		link.Installation, link.Sequence, ev.Head.Repository, d.FullName, d.Number, ev.Head.SHA, d.Generation, ev.Generation,
		ev.Epoch, d.DeliveryID, d.Reason, d.EvidenceDigest, d.Evidence, d.Verdict, d.Conclusion, d.Title, d.Summary, d.Explanation,
		d.RunID, d.Traceparent, link.RequestedAt, link.Hash(), link.DecidedAt, previous).Scan(&id)
	if err != nil {
		return 0, fmt.Errorf("append decision %d: %w", link.Sequence, err)
	}
	return id, nil
}

// ChainLink is one decision in the form its hash is taken over.
type ChainLink struct {
	Decision
	Installation   InstallationID
	Sequence       int64
	Head           HeadKey
	HeadGeneration Generation
	Epoch          Epoch
	DecidedAt      time.Time
	PreviousHash   string
}

// Hash is SHA-256 over every fixed field, each preceded by its length, so that no two different links have the same bytes.
func (l ChainLink) Hash() string {
	h := sha256.New()
	for _, field := range []string{
		"countersign decision v1", l.PreviousHash, fmt.Sprint(int64(l.Installation)), fmt.Sprint(l.Sequence), fmt.Sprint(int64(l.Head.Repository)),
		l.FullName, fmt.Sprint(l.Number), string(l.Head.SHA), fmt.Sprint(int64(l.Generation)), fmt.Sprint(int64(l.HeadGeneration)),
		fmt.Sprint(int64(l.Epoch)), string(l.DeliveryID), l.Reason, l.EvidenceDigest, l.Evidence, l.Verdict, l.Conclusion,
		l.Title, l.Summary, l.Explanation, fmt.Sprint(l.RunID), l.Traceparent,
		l.RequestedAt.UTC().Format(time.RFC3339Nano), l.DecidedAt.UTC().Format(time.RFC3339Nano),
	} {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(field)))
		h.Write(size[:])
		h.Write([]byte(field))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// ConfirmPublication ends the intent: the check run was read back and says what was decided, and every fence still holds
// (RG-258). Errors: *FenceError; then the caller must reset the run. It may run twice; the second finds no intent.
func (g *Guard) ConfirmPublication(ctx context.Context, ev Evaluation, id DecisionID, runID int64, baseRefs []string) error {
	err := g.inTx(ctx, func(tx pgx.Tx) error {
		if err := fences(ctx, tx, ev, runID, baseRefs, id); err != nil {
			return err
		}
		var ok bool
		if err := tx.QueryRow(ctx, `
			-- name: ConfirmPublication
			UPDATE head SET intent_decision_id = NULL, published_decision_id = $6, published_generation = $5, updated_at = now()
			WHERE `+evaluationHeld()+` AND intent_decision_id = $6 RETURNING true`, append(ev.key(), id)...).Scan(&ok); err != nil {
			return rowError(err, &FenceError{FenceIntent}, "confirm")
		}
		_, err := tx.Exec(ctx, `
			-- name: SettleConfirmed
			UPDATE decision SET outcome = 'confirmed', settled_at = now() WHERE decision_id = $1 AND outcome = 'intended'`, id)
		return err
	})
	if err != nil {
		return fmt.Errorf("confirm decision %d of %s: %w", id, ev.Head, err)
	}
	return nil
}

// SettleReset records that a decision's write was undone, or never counted; proved says that the run was read back unfinished
// by the writer itself, so that nothing of this intent is on its way any more: the same generation may publish again, and a
// newer one finds the run as it needs it. It may run twice. Errors: the database's.
func (g *Guard) SettleReset(ctx context.Context, id DecisionID, runID int64, proved bool) error {
	err := g.inTx(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `
			-- name: SettleReset
			UPDATE decision SET outcome = 'reset', settled_at = now() WHERE decision_id = $1 AND outcome = 'intended'`, id); err != nil {
			return err
		}
		if !proved {
			return nil
		}
		_, err := tx.Exec(ctx, `
			-- name: ClearIntent
			UPDATE head SET intent_decision_id = NULL, updated_at = now()
			WHERE installation_id = $1 AND repository_id = $2 AND head_sha = $3 AND intent_decision_id = $4 AND run_id = $5`,
			g.key.Installation, g.key.Repository, g.key.SHA, id, runID)
		return err
	})
	if err != nil {
		return fmt.Errorf("settle decision %d of %s: %w", id, g.key, err)
	}
	return nil
}

// StoredDecision is a decision as it is kept.
type StoredDecision struct {
	ChainLink
	ID        DecisionID
	StoredSum string // the hash that was stored with it
	Outcome   string
	SettledAt time.Time
}

const decisionColumns = `decision_id, installation_id, sequence, repository_id, full_name, number, head_sha, generation, head_generation,
	authority_epoch, delivery_id, reason, evidence_digest, evidence, verdict, conclusion, title, summary, explanation,
	check_run_id, traceparent, requested_at, decided_at, outcome, settled_at, previous_hash, hash`

func scanDecision(row pgx.CollectableRow) (StoredDecision, error) {
	var d StoredDecision
	var settled *time.Time
	err := row.Scan(&d.ID, &d.Installation, &d.Sequence, &d.Head.Repository, &d.FullName, &d.Number, &d.Head.SHA, &d.Generation, &d.HeadGeneration,
		&d.Epoch, &d.DeliveryID, &d.Reason, &d.EvidenceDigest, &d.Evidence, &d.Verdict, &d.Conclusion, &d.Title, &d.Summary, &d.Explanation,
		&d.RunID, &d.Traceparent, &d.RequestedAt, &d.DecidedAt, &d.Outcome, &settled, &d.PreviousHash, &d.StoredSum)
	d.Head.Installation = d.Installation
	d.SettledAt = timeOf(settled)
	return d, err
}

// ListDecisions returns the newest decisions first, at most limit; number 0 means every pull request of the repository,
// repository 0 every repository, installation 0 every installation; before 0 starts at the newest.
func (s *Store) ListDecisions(ctx context.Context, key PullKey, before DecisionID, limit int) ([]StoredDecision, error) {
	list, err := queryAll(ctx, s, `
		-- name: ListDecisions
		SELECT `+decisionColumns+` FROM decision
		WHERE ($1 = 0 OR installation_id = $1) AND ($2 = 0 OR repository_id = $2) AND ($3 = 0 OR number = $3) AND ($4 = 0 OR decision_id < $4)
		ORDER BY decision_id DESC LIMIT $5`,
		[]any{key.Installation, key.Repository, key.Number, before, limit}, scanDecision)
	if err != nil {
		return nil, fmt.Errorf("list decisions of %s: %w", key, err)
	}
	return list, nil
}

// GetDecision reads one decision. Errors: ErrNotFound.
func (s *Store) GetDecision(ctx context.Context, id DecisionID) (StoredDecision, error) {
	list, err := queryAll(ctx, s, `
		-- name: GetDecision
		SELECT `+decisionColumns+` FROM decision WHERE decision_id = $1`, []any{id}, scanDecision)
	if err == nil && len(list) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return StoredDecision{}, fmt.Errorf("read decision %d: %w", id, err)
	}
	return list[0], nil
}

// PublishedDecision is the last confirmed decision of a head. Errors: ErrNotFound.
func (s *Store) PublishedDecision(ctx context.Context, key HeadKey) (StoredDecision, error) {
	list, err := queryAll(ctx, s, `
		-- name: PublishedDecision
		SELECT `+decisionColumns+` FROM decision
		WHERE installation_id = $1 AND repository_id = $2 AND head_sha = $3 AND outcome = 'confirmed'
		ORDER BY decision_id DESC LIMIT 1`, []any{key.Installation, key.Repository, key.SHA}, scanDecision)
	if err == nil && len(list) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return StoredDecision{}, fmt.Errorf("read published decision of %s: %w", key, err)
	}
	return list[0], nil
}
