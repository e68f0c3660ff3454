package reconciler

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/countersign/countersign/pkg/daemon"
	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/nudge"
	"github.com/countersign/countersign/pkg/store"
)

// duty is one thing that exactly one replica does now and then, under a lease of its own: a scan that takes an hour keeps
// nobody from asking for a missed delivery meanwhile.
type duty struct {
	lease string
	every time.Duration
	// run does it once. work is not cancelled by a stop; the tenure says when to end. It returns the result that is recorded.
	run func(work context.Context, t *tenure, via nudge.Via) walk
}

// walk is what one run of a duty came to.
type walk interface {
	// fail counts and logs something that was left out.
	fail(step string, err error, attrs ...any)
	// report says in one line and in metrics how it ended.
	report(ctx context.Context, result string, took time.Duration, attrs []any)
	// outcome is complete, partial or failure.
	outcome() string
}

func (s *Service) duties() []duty {
	return []duty{s.scanning(), s.filling(), s.comparing()}
}

func (s *Service) scanning() duty {
	return duty{lease: leaseName, every: s.cfg.every(), run: func(work context.Context, t *tenure, _ nudge.Via) walk {
		sc := &scan{service: s, tenure: t}
		sc.result = sc.run(work)
		return sc
	}}
}

// attend attempts a duty until ctx ends.
func (s *Service) attend(ctx context.Context, d duty, asked <-chan struct{}) {
	tick := time.NewTicker(d.every)
	defer tick.Stop()
	via, apart := nudge.ViaSweep, time.Duration(0)
	for {
		s.attemptDuty(ctx, d, via, apart)
		select {
		case <-ctx.Done():
			return
		case <-asked:
			via, apart = nudge.ViaNudge, 0
		case <-tick.C:
			// Half an interval's grace: replicas tick at their own times and share one rhythm all the same.
			via, apart = nudge.ViaPoll, d.every/2
		}
	}
}

// attempt attempts a scan.
func (s *Service) attempt(ctx context.Context, via nudge.Via, apart time.Duration) {
	s.attemptDuty(ctx, s.scanning(), via, apart)
}

// attemptDuty stands for election and, when elected, does the duty. apart is how long ago the last attempt of any replica must be.
// Being told to stop during the election records no attempt and gives the lease back (RG-418).
func (s *Service) attemptDuty(ctx context.Context, d duty, via nudge.Via, apart time.Duration) {
	if ctx.Err() != nil {
		return
	}
	// Nothing under way is cancelled by a stop (RG-421): every step is bounded by its own deadline, and looks before it begins.
	work := ghclient.WithLane(context.WithoutCancel(ctx), ghclient.LaneReconcile)
	elected := time.Now()
	term, err := s.deps.Store.ElectDue(work, d.lease, s.deps.Holder, s.cfg.lease(), apart)
	switch {
	case errors.Is(err, store.ErrNoWork):
		s.metrics.elections.WithLabelValues(electionHeld).Inc()
		return
	case err != nil:
		s.metrics.elections.WithLabelValues(electionFailed).Inc()
		s.deps.Log.WarnContext(ctx, "election failed", daemon.KeyErr, err, "lease", d.lease)
		return
	case ctx.Err() != nil:
		s.resignUnused(work, term)
		return
	}
	s.metrics.elections.WithLabelValues(electionElected).Inc()
	s.govern(ctx, work, d, term, elected, via)
}

// resignUnused gives back a lease under which nothing was begun; failing to is a failed election (RG-418).
func (s *Service) resignUnused(ctx context.Context, term store.Term) {
	if err := s.deps.Store.ResignTerm(ctx, term, ""); err != nil {
		s.metrics.elections.WithLabelValues(electionFailed).Inc()
		s.deps.Log.ErrorContext(ctx, "lease not given back", daemon.KeyLeaseToken, int64(term.Token), daemon.KeyErr, err)
		return
	}
	s.metrics.elections.WithLabelValues(electionReleased).Inc()
}

// govern does a duty once under an elected term and resigns with its result.
func (s *Service) govern(ctx, work context.Context, d duty, term store.Term, elected time.Time, via nudge.Via) {
	work, span := s.deps.Tracer.Start(work, d.lease)
	defer span.End()
	began := time.Now()
	t := s.beginTenure(ctx, work, term, elected)
	w := d.run(withGate(work, t.check), t, via)
	t.end()
	result := w.outcome()
	if err := s.deps.Store.ResignTerm(work, term, result); err != nil {
		// The attempt is not on record, so it is not complete for anybody (RG-415, RG-416).
		w.fail("lease", err)
		result = resultPartial
	}
	w.report(work, result, time.Since(began), []any{
		daemon.KeyLeaseToken, int64(term.Token), daemon.KeyVia, string(via), daemon.KeyResult, result, daemon.KeyElapsedMS, time.Since(began).Milliseconds(),
	})
}

// levelOf is how loudly a result is logged.
func levelOf(result string) slog.Level {
	if result != resultComplete {
		return slog.LevelWarn
	}
	return slog.LevelInfo
}
