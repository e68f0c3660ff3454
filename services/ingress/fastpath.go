package ingress

import (
	"context"
	"errors"
	"time"

	"github.com/countersign/countersign/pkg/daemon"
	"github.com/countersign/countersign/pkg/nudge"
)

// The results of the fast path that are not an invalidator's outcome.
const (
	fastTimeout     = "timeout"
	fastUnavailable = "unavailable"
	fastError       = "error"
)

// fastReset asks an invalidator to reset the accepted head now and waits for its answer within the configured bound. It runs
// after the commit only (RG-130), for direct work only (RG-088), and for a duplicate only while the generation it created
// still waits (RG-143). The durable pass does the same work in any case, so every outcome is counted and none changes the
// answer (RG-139…142).
func (s *Server) fastReset(ctx context.Context, d *delivery) {
	w := d.work.Direct
	if w == nil || !d.accepted.Pending {
		return
	}
	began := time.Now()
	until := began.Add(s.cfg.FastPathTimeout)
	if latest := d.began.Add(answerWithin); latest.Before(until) {
		until = latest // a slow sender or a slow commit has used up part of GitHub's patience
	}
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	reply, err := s.bus.AskInvalidate(ctx, nudge.InvalidateRequest{
		DeliveryID:     d.id,
		InstallationID: int64(w.Installation),
		RepositoryID:   int64(w.Repository),
		PullNumber:     w.Number,
		HeadSHA:        string(d.accepted.Head.SHA),
		HeadGeneration: int64(d.accepted.HeadGeneration),
	})
	d.fastPath = fastResult(reply, err)
	s.metrics.fastPath.WithLabelValues(d.fastPath).Inc()
	s.metrics.fastPathSeconds.Observe(time.Since(began).Seconds())
	if err != nil {
		s.log.DebugContext(ctx, "fast path failed", daemon.KeyDeliveryID, d.id, daemon.KeyResult, d.fastPath, daemon.KeyErr, err)
		return
	}
	// RG-117: a duplicate queued something if its fast path reset a check or found a live head nobody had seen.
	d.reset = reply.Outcome == nudge.OutcomeReset || reply.QueuedLiveHead
}

func fastResult(reply nudge.InvalidateReply, err error) string {
	switch {
	case err == nil:
		return reply.Outcome.String()
	case errors.Is(err, nudge.ErrUnavailable), errors.Is(err, nudge.ErrNoResponder):
		return fastUnavailable // RG-142 as D3 has it
	case errors.Is(err, context.DeadlineExceeded):
		return fastTimeout // RG-140
	}
	return fastError
}
