package ingress

import (
	"context"
	"time"

	"github.com/countersign/countersign/pkg/daemon"
	"github.com/countersign/countersign/pkg/nudge"
	"github.com/countersign/countersign/pkg/store"
)

// accept commits the delivery with its work, in one transaction (RG-100). An error means that nothing was stored (RG-115), or
// that the id was used for something else before (RG-105, RG-106).
func (s *Server) accept(ctx context.Context, d *delivery) error {
	envelope := store.Delivery{ID: store.DeliveryID(d.id), Event: d.event, Action: d.action, Traceparent: daemon.Traceparent(ctx)}
	ctx, span := s.tracer.Start(ctx, "commit")
	defer span.End()
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	var err error
	switch {
	case d.work.Group != nil:
		d.accepted, err = s.store.AcceptMergeGroup(ctx, envelope, *d.work.Group)
	case d.work.Known != nil:
		err = s.acceptKnown(ctx, d, envelope)
	case d.work.Direct == nil:
		d.accepted, err = s.acceptAuthority(ctx, envelope, *d.work.Authority)
	case d.work.Direct.Head == "":
		err = s.acceptHeadless(ctx, d, envelope)
	default:
		d.accepted, err = s.batches.accept(ctx, envelope, *d.work.Direct)
	}
	return err
}

// acceptHeadless stores a trigger whose payload names no head. On a pull request never seen nothing was decided: the delivery
// is acknowledged and not retained.
func (s *Server) acceptHeadless(ctx context.Context, d *delivery, envelope store.Delivery) error {
	accepted, known, err := s.store.AcceptKnownPull(ctx, envelope, *d.work.Direct)
	if err != nil {
		return err
	}
	if !known {
		d.work = none(WhyUnseen)
		return nil
	}
	d.accepted, d.work.Direct.Head = accepted, accepted.Head.SHA
	return nil
}

// acceptKnown stores a trigger that names a commit alone, for what is known of it; from then on it is that work.
func (s *Server) acceptKnown(ctx context.Context, d *delivery, envelope store.Delivery) error {
	w := *d.work.Known
	accepted, number, known, err := s.store.AcceptKnownHead(ctx, envelope, w)
	switch {
	case err != nil:
		return err
	case !known:
		d.work = none(WhyUnknownHead)
	case number == 0:
		d.work = Work{Group: &store.GroupWork{Installation: w.Installation, Repository: w.Repository, FullName: w.FullName, Head: w.Head}}
	default:
		d.work = Work{Direct: &store.DirectWork{Installation: w.Installation, Repository: w.Repository, FullName: w.FullName, Number: number, Head: w.Head}}
	}
	d.accepted = accepted
	return nil
}

// acceptAuthority waits for the publication guard no longer than the fast path may take (RG-162), the wait for the turn at
// the guard included. Not obtained, the event is not recorded (RG-161).
func (s *Server) acceptAuthority(ctx context.Context, envelope store.Delivery, w store.AuthorityWork) (store.Acceptance, error) {
	until := time.Now().Add(s.cfg.FastPathTimeout)
	waiting, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	done, err := s.turns.take(waiting, guardKey{w.Installation, w.Repository})
	if err != nil {
		return store.Acceptance{}, err
	}
	defer done()
	return s.store.AcceptAuthority(ctx, envelope, w, time.Until(until))
}

// announce wakes whoever works the committed rows. A lost wake costs one poll interval (I7), so its failure is part of the
// delivery's log line and nothing else. A duplicate that no longer waits wakes nobody.
func (s *Server) announce(ctx context.Context, d *delivery) {
	if !d.accepted.New && !d.accepted.Pending {
		return
	}
	d.woken = true
	for _, wake := range wakes(d) {
		if err := s.bus.Wake(ctx, wake); err != nil {
			d.woken = false
			s.log.DebugContext(ctx, "nudge lost", daemon.KeyDeliveryID, d.id, daemon.KeyErr, err)
		}
	}
}

func wakes(d *delivery) []nudge.Wake {
	if w := d.work.Direct; w != nil {
		return []nudge.Wake{{
			Subject: nudge.Invalidate, InstallationID: int64(w.Installation), RepositoryID: int64(w.Repository),
			PullNumber: w.Number, HeadSHA: string(w.Head), AtLeastGeneration: int64(d.accepted.HeadGeneration),
		}}
	}
	if w := d.work.Group; w != nil {
		return []nudge.Wake{{
			Subject: nudge.Invalidate, InstallationID: int64(w.Installation), RepositoryID: int64(w.Repository),
			HeadSHA: string(w.Head), AtLeastGeneration: int64(d.accepted.HeadGeneration),
		}}
	}
	w := d.work.Authority
	all := []nudge.Wake{{Subject: nudge.Fanout, InstallationID: int64(w.Installation), RepositoryID: int64(w.Repository)}}
	if d.event == "installation" || d.event == "installation_repositories" {
		// What was parked while the target was gone is the reconciler's to find again (P14).
		all = append(all, nudge.Wake{Subject: nudge.Reconcile, InstallationID: int64(w.Installation)})
	}
	return all
}
