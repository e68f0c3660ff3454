package store

import (
	"context"
	"fmt"
	"time"
)

// Delivery is the envelope of one webhook, as far as it is kept.
type Delivery struct {
	ID          DeliveryID
	Event       string
	Action      string
	Traceparent string
}

// DirectWork is one pull request's trigger: evaluate it, and revoke its exact head first.
type DirectWork struct {
	Installation InstallationID
	AccountLogin string
	Repository   RepositoryID
	FullName     string // lower-cased route (RG-035)
	Number       int
	Head         SHA
	Before       SHA // the head that was left (P7); empty when none was
	BaseRef      string
	State        string // open | closed; a hint, never evidence (I2)
	Merged       bool
	Title        string
	AuthorLogin  string
	Watermark    Watermark
	Reason       string // <event>.<action> (RG-056)
}

// Acceptance is what became of a delivery.
type Acceptance struct {
	// New is false for a delivery that was already retained (RG-116).
	New bool
	// Head and HeadGeneration are the exact token this delivery created, also when it is replayed (RG-102, RG-103).
	Head           HeadKey
	HeadGeneration Generation
	// Pending: that generation still waits for its proved reset, so a replay may try the fast path again (RG-143).
	Pending bool
}

// AcceptDirect stores a webhook about one pull request: delivery, pull request, head generation(s) and evaluation in one
// statement (RG-100). It is idempotent by delivery id: a replay changes nothing and returns the token of the first (RG-103, RG-104).
// It is a DirectBatch of one.
// Errors: ErrDeliveryConflict; any other means nothing was stored and the sender must be told so (RG-115).
func (s *Store) AcceptDirect(ctx context.Context, d Delivery, w DirectWork) (Acceptance, error) {
	var alone DirectBatch
	alone.Add(d, w)
	outcomes, err := s.AcceptBatch(ctx, &alone)
	if err != nil {
		return Acceptance{}, err
	}
	return outcomes[0].Acceptance, outcomes[0].Err
}

// replayedDirect answers a delivery that is already retained, or refuses one whose id was used for something else.
func (s *Store) replayedDirect(ctx context.Context, d Delivery, w DirectWork) (Acceptance, error) {
	kept, err := s.GetDelivery(ctx, d.ID)
	if err != nil {
		return Acceptance{}, err
	}
	same := kept.Event == d.Event && kept.Action == d.Action && kept.Head.Installation == w.Installation &&
		kept.Head.Repository == w.Repository && kept.Number == w.Number && kept.Head.SHA == w.Head
	if !same {
		return Acceptance{}, fmt.Errorf("delivery %s: %w", d.ID, ErrDeliveryConflict)
	}
	return Acceptance{Head: kept.Head, HeadGeneration: kept.HeadGeneration, Pending: kept.Pending}, nil
}

// KeptDelivery is a retained delivery.
type KeptDelivery struct {
	Event, Action  string
	Head           HeadKey
	Number         int
	HeadGeneration Generation
	Scope          string
	BaseRef        string
	ReceivedAt     time.Time
	// Pending: the generation it created has neither been reset by the fast path nor invalidated by the durable pass, and is still the newest.
	Pending bool
}

// GetDelivery reads one retained delivery. Errors: ErrNotFound.
func (s *Store) GetDelivery(ctx context.Context, id DeliveryID) (KeptDelivery, error) {
	const q = `
		-- name: GetDelivery
		SELECT d.event, d.action, d.installation_id, d.repository_id, d.number, d.head_sha, d.head_generation, d.scope, d.base_ref, d.received_at,
			d.invalidated_at IS NULL AND coalesce(h.generation = d.head_generation AND h.invalidated_generation < d.head_generation, false)
		FROM delivery d LEFT JOIN head h USING (installation_id, repository_id, head_sha)
		WHERE d.delivery_id = $1`
	var k KeptDelivery
	err := s.queryOne(ctx, q, []any{id}, &k.Event, &k.Action, &k.Head.Installation, &k.Head.Repository, &k.Number, &k.Head.SHA,
		&k.HeadGeneration, &k.Scope, &k.BaseRef, &k.ReceivedAt, &k.Pending)
	return k, rowError(err, ErrNotFound, "read delivery %s", id)
}

// MarkDeliveryInvalidated records that the fast path has reset the head for this delivery (RG-146). It may run twice.
func (s *Store) MarkDeliveryInvalidated(ctx context.Context, id DeliveryID) error {
	const q = `
		-- name: MarkDeliveryInvalidated
		UPDATE delivery SET invalidated_at = coalesce(invalidated_at, now()) WHERE delivery_id = $1 RETURNING true`
	var ok bool
	return rowError(s.queryOne(ctx, q, []any{id}, &ok), ErrNotFound, "mark delivery %s invalidated", id)
}
