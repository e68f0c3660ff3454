package ingress

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/countersign/countersign/pkg/nudge"
	"github.com/countersign/countersign/pkg/nudge/nudgetest"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/store/storetest"
)

// invalidator answers fast-path requests as a test wants, and keeps them.
type invalidator struct {
	mu     sync.Mutex
	asked  []nudge.InvalidateRequest
	answer func(context.Context, nudge.InvalidateRequest) (nudge.InvalidateReply, error)
}

func (i *invalidator) reset(ctx context.Context, q nudge.InvalidateRequest) (nudge.InvalidateReply, error) {
	i.mu.Lock()
	q.Traceparent = ""
	i.asked = append(i.asked, q)
	answer := i.answer
	i.mu.Unlock()
	if answer == nil {
		return nudge.InvalidateReply{Outcome: nudge.OutcomeReset}, nil
	}
	return answer(ctx, q)
}

func (i *invalidator) requests() []nudge.InvalidateRequest {
	i.mu.Lock()
	defer i.mu.Unlock()
	return append([]nudge.InvalidateRequest(nil), i.asked...)
}

// says makes the next answers outcome.
func (i *invalidator) says(outcome nudge.Outcome, queuedLiveHead bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.answer = func(context.Context, nudge.InvalidateRequest) (nudge.InvalidateReply, error) {
		return nudge.InvalidateReply{Outcome: outcome, QueuedLiveHead: queuedLiveHead}, nil
	}
}

// withInvalidator serves an ingress over Postgres and NATS, each side under its own NATS user, and an invalidator that answers.
func withInvalidator(t *testing.T, change func(*Config)) (*bench, *invalidator) {
	t.Helper()
	nats := nudgetest.NewWithUsers(t)
	i := &invalidator{}
	stop, err := nats.Connect("invalidator").ServeInvalidate(t.Context(), 4, i.reset)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	bus := nats.Connect("ingress")
	b := overPostgres(t, bus, change)
	nudgetest.Eventually(t, "the invalidator listens", func() bool {
		_, err := bus.AskInvalidate(t.Context(), nudge.InvalidateRequest{DeliveryID: "probe"})
		return err == nil
	})
	i.mu.Lock()
	i.asked = nil
	i.mu.Unlock()
	return b, i
}

func TestFastPath(t *testing.T) {
	t.Parallel()
	t.Run("RG-130 it is asked for after the commit, with row keys only", func(t *testing.T) {
		t.Parallel()
		b, i := withInvalidator(t, nil)
		committed := make(chan int64, 1)
		i.answer = func(context.Context, nudge.InvalidateRequest) (nudge.InvalidateReply, error) {
			// Seen from another connection while ingress waits: the rows are there.
			committed <- b.number("SELECT count(*) FROM delivery d JOIN head h USING (installation_id, repository_id, head_sha) WHERE d.delivery_id = 'd1'")
			return nudge.InvalidateReply{Outcome: nudge.OutcomeReset}, nil
		}
		b.redeliver("d1", "pull_request", pullRequest("opened", 7, headA, "open")).wantBody(t, true, true)
		if n := <-committed; n != 1 {
			t.Errorf("%d committed rows when the fast path was asked for, want 1", n)
		}
		want := []nudge.InvalidateRequest{{DeliveryID: "d1", InstallationID: installedAs, RepositoryID: repoID, PullNumber: 7, HeadSHA: headA, HeadGeneration: 1}}
		if diff := cmp.Diff(want, i.requests()); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
		if n := b.fastCounted("reset"); n != 1 {
			t.Errorf("counted %v resets, want 1", n)
		}
	})
	t.Run("RG-130 it is not asked for when nothing was committed", func(t *testing.T) {
		t.Parallel()
		b, i := withInvalidator(t, nil)
		b.exec("CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'refused'; END $$")
		b.exec("CREATE TRIGGER refuse BEFORE INSERT ON delivery FOR EACH ROW EXECUTE FUNCTION refuse()")
		b.deliver("pull_request", pullRequest("opened", 7, headA, "open")).want(t, http.StatusServiceUnavailable)
		if n := len(i.requests()); n != 0 {
			t.Errorf("asked %d times", n)
		}
	})
	for _, outcome := range []nudge.Outcome{nudge.OutcomeReset, nudge.OutcomeNothing, nudge.OutcomeSuperseded, nudge.OutcomeRateLimited, nudge.OutcomeFailed} {
		name := map[nudge.Outcome]string{nudge.OutcomeFailed: "RG-141 "}[outcome]
		t.Run(name+"the answer "+outcome.String()+" is counted and 202", func(t *testing.T) {
			t.Parallel()
			b, i := withInvalidator(t, nil)
			i.says(outcome, false)
			b.deliver("pull_request", pullRequest("opened", 7, headA, "open")).wantBody(t, true, true)
			if n := b.fastCounted(outcome.String()); n != 1 {
				t.Errorf("counted %v times, want once", n)
			}
			if line := b.log.lines(t)[0]; line["fast_path"] != outcome.String() || line["msg"] != "webhook accepted" {
				t.Errorf("line %v", line)
			}
		})
	}
	t.Run("RG-141 an error of the invalidator is counted, logged and 202", func(t *testing.T) {
		t.Parallel()
		b, i := withInvalidator(t, nil)
		i.answer = func(context.Context, nudge.InvalidateRequest) (nudge.InvalidateReply, error) {
			return nudge.InvalidateReply{}, errors.New("github: unavailable")
		}
		b.deliver("pull_request", pullRequest("opened", 7, headA, "open")).wantBody(t, true, true)
		if n := b.fastCounted("failed"); n != 1 {
			t.Errorf("counted %v times, want once", n)
		}
	})
	t.Run("RG-139 RG-140 an invalidator that takes too long is a timeout, counted, logged and 202", func(t *testing.T) {
		t.Parallel()
		b, i := withInvalidator(t, func(c *Config) { c.FastPathTimeout = 100 * time.Millisecond })
		hold := make(chan struct{})
		t.Cleanup(func() { close(hold) })
		i.answer = func(context.Context, nudge.InvalidateRequest) (nudge.InvalidateReply, error) {
			<-hold
			return nudge.InvalidateReply{Outcome: nudge.OutcomeReset}, nil
		}
		b.deliver("pull_request", pullRequest("opened", 7, headA, "open")).wantBody(t, true, true)
		if n := b.fastCounted("timeout"); n != 1 {
			t.Errorf("counted %v times, want once", n)
		}
		if line := b.log.lines(t)[0]; line["fast_path"] != "timeout" {
			t.Errorf("line %v", line)
		}
		b.wantInt(1, "SELECT count(*) FROM evaluation")
	})
	t.Run("RG-142 no NATS, and no invalidator, are counted as unavailable and 202", func(t *testing.T) {
		t.Parallel()
		nats := nudgetest.New(t)
		b := overPostgres(t, nats.Connect("ingress"), nil)
		b.deliver("pull_request", pullRequest("opened", 7, headA, "open")).wantBody(t, true, true)
		if n := b.fastCounted("unavailable"); n != 1 {
			t.Errorf("without an invalidator counted %v times, want once", n)
		}
		nats.Stop()
		nudgetest.Eventually(t, "ingress has noticed", func() bool { return !b.server.bus.(*nudge.Bus).Connected() })
		b.deliver("pull_request", pullRequest("edited", 7, headA, "open")).wantBody(t, true, true)
		if n := b.fastCounted("unavailable"); n != 2 {
			t.Errorf("without NATS counted %v times, want twice", n)
		}
		b.wantInt(2, deliveries)
		b.wantInt(2, "SELECT generation FROM head")
	})
	t.Run("RG-088 authority deliveries never ask for it", func(t *testing.T) {
		t.Parallel()
		b, i := withInvalidator(t, nil)
		b.deliver("push", push(target(), "refs/heads/main")).wantBody(t, true, true)
		b.deliver("label", base("created", target())).wantBody(t, true, true)
		b.redeliver("d1", "team", base("edited", nil)).wantBody(t, true, true)
		b.redeliver("d1", "team", base("edited", nil)).wantBody(t, false, false)
		if n := len(i.requests()); n != 0 {
			t.Errorf("asked %d times", n)
		}
	})
}

func TestFastPathOfDuplicates(t *testing.T) {
	t.Parallel()
	open := func() obj { return pullRequest("opened", 7, headA, "open") }
	t.Run("RG-143 RG-117 a duplicate tries again while its generation waits, and says what that queued", func(t *testing.T) {
		t.Parallel()
		b, i := withInvalidator(t, nil)
		i.says(nudge.OutcomeFailed, false)
		b.redeliver("d1", "pull_request", open()).wantBody(t, true, true)
		b.redeliver("d1", "pull_request", open()).wantBody(t, false, false)
		i.says(nudge.OutcomeNothing, false)
		b.redeliver("d1", "pull_request", open()).wantBody(t, false, false)
		i.says(nudge.OutcomeNothing, true)
		b.redeliver("d1", "pull_request", open()).wantBody(t, false, true)
		i.says(nudge.OutcomeReset, false)
		b.redeliver("d1", "pull_request", open()).wantBody(t, false, true)
		asked := i.requests()
		if len(asked) != 5 {
			t.Fatalf("asked %d times, want 5", len(asked))
		}
		for _, q := range asked {
			if q.DeliveryID != "d1" || q.HeadGeneration != 1 || q.HeadSHA != headA {
				t.Errorf("asked %+v, want the first token", q)
			}
		}
	})
	t.Run("RG-143 a duplicate of a delivery that was reset does not try again", func(t *testing.T) {
		t.Parallel()
		b, i := withInvalidator(t, nil)
		b.redeliver("d1", "pull_request", open()).wantBody(t, true, true)
		if err := b.db.Store(storetest.Invalidator).MarkDeliveryInvalidated(t.Context(), "d1"); err != nil {
			t.Fatal(err)
		}
		b.redeliver("d1", "pull_request", open()).wantBody(t, false, false)
		if n := len(i.requests()); n != 1 {
			t.Errorf("asked %d times, want once", n)
		}
	})
	t.Run("RG-143 nor does one whose generation was invalidated, or is no longer the newest", func(t *testing.T) {
		t.Parallel()
		b, i := withInvalidator(t, nil)
		b.redeliver("d1", "pull_request", open()).wantBody(t, true, true)
		b.redeliver("d2", "pull_request", open()).wantBody(t, true, true)
		b.redeliver("d1", "pull_request", open()).wantBody(t, false, false)
		b.exec("UPDATE head SET invalidated_generation = generation; UPDATE evaluation SET awaits_revocation = false")
		b.redeliver("d2", "pull_request", open()).wantBody(t, false, false)
		if n := len(i.requests()); n != 2 {
			t.Errorf("asked %d times, want once for each delivery", n)
		}
	})
}

func TestNudges(t *testing.T) {
	t.Parallel()
	t.Run("direct work wakes the invalidator, authority work the fan-out", func(t *testing.T) {
		t.Parallel()
		bus := &recorder{}
		b := start(t, &fakeStore{}, bus, nil)
		b.deliver("pull_request", pullRequest("opened", 7, headA, "open")).wantBody(t, true, true)
		b.deliver("push", push(target(), "refs/heads/main")).wantBody(t, true, true)
		b.deliver("installation", base("unsuspend", nil)).wantBody(t, true, true)
		b.deliver("ping", obj{}).wantBody(t, true, false)
		want := []nudge.Wake{
			{Subject: nudge.Invalidate, InstallationID: installedAs, RepositoryID: repoID, PullNumber: 7, HeadSHA: headA, AtLeastGeneration: 1},
			{Subject: nudge.Fanout, InstallationID: installedAs, RepositoryID: repoID},
			{Subject: nudge.Fanout, InstallationID: installedAs},
			{Subject: nudge.Reconcile, InstallationID: installedAs},
		}
		if diff := cmp.Diff(want, bus.wakes); diff != "" {
			t.Errorf("wakes (-want +got):\n%s", diff)
		}
	})
	t.Run("a duplicate wakes somebody only while its generation waits", func(t *testing.T) {
		t.Parallel()
		bus := &recorder{}
		b := start(t, &fakeStore{}, bus, nil)
		for _, accepted := range []store.Acceptance{{}, {Pending: true}} {
			b.server.announce(t.Context(), &delivery{work: wantDirect("pull_request.opened"), accepted: accepted})
		}
		if len(bus.wakes) != 1 {
			t.Errorf("woke %d times, want once", len(bus.wakes))
		}
	})
	t.Run("I7 a lost nudge changes no answer", func(t *testing.T) {
		t.Parallel()
		bus := &recorder{err: errors.New("nats: timeout")}
		b := start(t, &fakeStore{}, bus, nil)
		b.deliver("pull_request", pullRequest("opened", 7, headA, "open")).wantBody(t, true, true)
		b.deliver("team", base("edited", nil)).wantBody(t, true, true)
		if n := b.fastCounted("error"); n != 1 {
			t.Errorf("counted %v failed fast paths, want 1", n)
		}
	})
	t.Run("RG-139 the fast path gets what is left of GitHub's patience", func(t *testing.T) {
		t.Parallel()
		bus := &recorder{}
		b := start(t, &fakeStore{}, bus, func(c *Config) { c.FastPathTimeout = 8 * time.Second })
		d := &delivery{began: time.Now().Add(-6 * time.Second), work: wantDirect("pull_request.opened"), accepted: store.Acceptance{New: true, Pending: true}}
		b.server.fastReset(t.Context(), d)
		if left := bus.left; left > 3*time.Second || left <= 0 {
			t.Errorf("%s left for the fast path of a delivery that arrived 6s ago, want at most 3s", left)
		}
	})
}

// recorder is a bus that keeps what it is told and gives every call the same error.
type recorder struct {
	wakes []nudge.Wake
	left  time.Duration
	err   error
}

func (r *recorder) Wake(_ context.Context, w nudge.Wake) error {
	r.wakes = append(r.wakes, w)
	return r.err
}

func (r *recorder) AskInvalidate(ctx context.Context, _ nudge.InvalidateRequest) (nudge.InvalidateReply, error) {
	if until, ok := ctx.Deadline(); ok {
		r.left = time.Until(until)
	}
	return nudge.InvalidateReply{}, r.err
}

func TestAuthorityGuard(t *testing.T) {
	t.Parallel()
	short := func(c *Config) { c.FastPathTimeout = 200 * time.Millisecond }
	publishing := func(t *testing.T, b *bench) *store.Guard {
		t.Helper()
		key := store.HeadKey{Installation: installedAs, Repository: repoID, SHA: headA}
		guard, err := b.db.Store(storetest.Evaluator).AcquireGuard(t.Context(), key, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		return guard
	}
	for event, payload := range map[string]obj{"team": base("edited", nil), "push": push(target(), "refs/heads/main"), "label": base("created", target())} {
		t.Run("RG-160 RG-161 RG-162 "+event+" during a publication is 503 within the bound and not recorded; the same id is new later", func(t *testing.T) {
			t.Parallel()
			b := overPostgres(t, offline(), short)
			guard := publishing(t, b)
			began := time.Now()
			b.redeliver("d1", event, payload).want(t, http.StatusServiceUnavailable)
			if took := time.Since(began); took < 200*time.Millisecond {
				t.Errorf("answered after %s, before the guard could have been given up", took)
			}
			b.wantNoRows()
			if n := b.counted(event, resultGuard); n != 1 {
				t.Errorf("counted %v times, want once", n)
			}
			guard.Release()
			b.redeliver("d1", event, payload).wantBody(t, true, true)
		})
	}
	t.Run("RG-163 an authority event waits while a publication holds the guard, and goes on when it is given back", func(t *testing.T) {
		t.Parallel()
		b := overPostgres(t, offline(), func(c *Config) { c.FastPathTimeout = 8 * time.Second })
		guard := publishing(t, b)
		answered := make(chan reply, 1)
		go func() { answered <- b.redeliver("d1", "team", base("edited", nil)) }()
		nudgetest.Eventually(t, "the event waits for the guard", func() bool {
			return b.number("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())") == 1
		})
		b.wantNoRows()
		guard.Release()
		(<-answered).wantBody(t, true, true)
		b.wantInt(1, "SELECT count(*) FROM authority")
	})
	t.Run("P10 events that wait for one installation's guard keep nobody else waiting", func(t *testing.T) {
		t.Parallel()
		b := overPostgres(t, offline(), func(c *Config) { c.FastPathTimeout, c.Store.MaxConns = 8*time.Second, 4 })
		guard := publishing(t, b)
		var wg sync.WaitGroup
		for range 8 { // twice the pool
			wg.Go(func() { b.deliver("team", base("edited", nil)) }) // 202 or 503: the guard is given back below
		}
		nudgetest.Eventually(t, "an event waits for the guard", func() bool {
			return b.number("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())") == 1
		})
		other := with(pullRequest("opened", 7, headB, "open"), "installation.id", 78)
		b.deliver("pull_request", other).wantBody(t, true, true)
		b.deliver("team", with(base("edited", nil), "installation.id", 78)).wantBody(t, true, true)
		b.wantInt(1, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())")
		guard.Release()
		wg.Wait()
	})
	t.Run("RG-162 the guard's bound is the fast path's", func(t *testing.T) {
		t.Parallel()
		b, st := fake(t, short)
		b.deliver("team", base("edited", nil)).wantBody(t, true, true)
		if st.wait <= 0 || st.wait > 200*time.Millisecond {
			t.Errorf("the guard is waited for %s, want what is left of 200ms", st.wait)
		}
	})
}
