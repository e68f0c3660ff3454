package reconciler

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/nudge"
	"github.com/countersign/countersign/pkg/store"
)

// attempt of a delivery, so long ago.
func logged(id int64, guid, event, action string, code int, ago time.Duration) ghclient.Delivery {
	return ghclient.Delivery{
		ID: id, GUID: guid, Event: event, Action: action, StatusCode: code, Status: "x", InstallationID: 1, RepositoryID: 10,
		DeliveredAt: time.Now().Add(-ago).Truncate(time.Second),
	}
}

func redelivered(d ghclient.Delivery) ghclient.Delivery {
	d.Redelivery = true
	return d
}

// fill is one attempt of the duty; it returns the result the lease recorded.
func (b *bundle) fill() string {
	b.t.Helper()
	b.store.result = "none"
	b.service.attemptDuty(b.t.Context(), b.service.filling(), nudge.ViaPoll, 0)
	return b.store.result
}

// log is GitHub's, newest first.
func (b *bundle) logIs(log ...ghclient.Delivery) { b.github.log = log }

// asked are the attempts that a redelivery was asked for by, in order.
func (b *bundle) asked() string {
	var ids []string
	for _, s := range b.github.taken() {
		if id, ok := strings.CutPrefix(s, "redeliver "); ok {
			ids = append(ids, id)
		}
	}
	return strings.Join(ids, " ")
}

func (b *bundle) wantAsked(want string) {
	b.t.Helper()
	if got := b.asked(); got != want {
		b.t.Errorf("asked for %q, want %q; log %s", got, want, b.log)
	}
}

func (b *bundle) wantGap(guid, want string) {
	b.t.Helper()
	b.wantText(want, "SELECT coalesce((SELECT concat_ws(' ', kind, state, asks, attempt_id) FROM delivery_gap WHERE guid = $1), 'none')", guid)
}

// later is time passing for every missed delivery.
func (b *bundle) later() {
	b.db.Exec("UPDATE delivery_gap SET next_ask_at = now() - interval '1 second'")
}

func (b *bundle) stored(guid, event string) {
	b.db.Exec("INSERT INTO delivery (delivery_id, event, action, installation_id) VALUES ($1, $2, '', 1)", guid, event)
}

func TestFill(t *testing.T) {
	t.Parallel()
	t.Run("a failed delivery is asked for, and closed when a later attempt succeeds and it is stored", func(t *testing.T) {
		t.Parallel()
		b := setup(t, world())
		ok := logged(9, "fine", "push", "", 202, time.Minute)
		b.stored("fine", "push")
		failed := logged(3, "lost", "membership", "removed", 503, 2*time.Minute)
		b.logIs(ok, failed)
		if got := b.fill(); got != "complete" {
			t.Errorf("result %s", got)
		}
		b.wantAsked("3")
		b.wantGap("lost", "failed open 1 3")
		b.wantGap("fine", "none")
		b.fill()
		b.wantAsked("3") // not before its time
		b.stored("lost", "membership")
		b.logIs(redelivered(logged(11, "lost", "membership", "removed", 202, 10*time.Second)), ok, failed)
		b.later()
		b.fill()
		b.wantAsked("3")
		b.wantGap("lost", "failed filled 1 11")
		if got := b.counter("countersign_reconciler_gap_settled_total", "filled"); got != 1 {
			t.Errorf("%v filled", got)
		}
		if got := b.counter("countersign_reconciler_gap_found_total", "failed"); got != 1 {
			t.Errorf("%v found", got)
		}
	})
	t.Run("a timeout and a connection that failed are failures, though GitHub's filter by status misses them", func(t *testing.T) {
		t.Parallel()
		b := setup(t, world())
		b.logIs(logged(9, "fine", "ping", "", 200, time.Minute), logged(2, "timeout", "team", "edited", 0, 2*time.Minute))
		b.fill()
		b.wantAsked("2")
	})
	t.Run("an event that asks for nothing is not asked for", func(t *testing.T) {
		t.Parallel()
		b := setup(t, world())
		b.logIs(logged(1, "a", "ping", "", 500, time.Minute), logged(2, "b", "pull_request", "assigned", 500, time.Minute), logged(3, "c", "star", "created", 0, time.Minute))
		b.fill()
		b.wantAsked("")
		b.wantInt(0, "SELECT count(*) FROM delivery_gap")
	})
	t.Run("a delivery that GitHub calls delivered and that is not stored is asked for; acknowledged once more, it is let be", func(t *testing.T) {
		t.Parallel()
		b := setup(t, world())
		first := logged(5, "gone", "pull_request", "opened", 202, 3*time.Minute)
		b.logIs(first)
		b.fill()
		b.wantAsked("5")
		b.wantGap("gone", "missing open 1 5")
		b.later()
		b.fill() // the same attempt, read again, says nothing new
		b.wantAsked("5 5")
		b.logIs(redelivered(logged(6, "gone", "pull_request", "opened", 202, time.Minute)), first)
		b.later()
		b.fill()
		b.wantGap("gone", "missing acknowledged 2 6")
		b.wantAsked("5 5")
	})
	t.Run("a comment that was acknowledged is not asked for: nearly all of them ask for nothing", func(t *testing.T) {
		t.Parallel()
		b := setup(t, world())
		b.logIs(logged(5, "talk", "issue_comment", "created", 202, time.Minute), logged(4, "broken", "issue_comment", "created", 502, 2*time.Minute))
		b.fill()
		b.wantAsked("4")
	})
	t.Run("what ingress refuses for what it says is asked for twice, then let be", func(t *testing.T) {
		t.Parallel()
		b := setup(t, world())
		log := []ghclient.Delivery{logged(2, "odd", "pull_request", "opened", 400, time.Minute)}
		for n := range 4 {
			b.logIs(log...)
			b.later()
			b.fill()
			log = append([]ghclient.Delivery{redelivered(logged(int64(10+n), "odd", "pull_request", "opened", 400, 50*time.Second-time.Duration(n)*time.Second))}, log...)
		}
		b.wantAsked("2 10")
		b.wantGap("odd", "failed refused 2 11")
	})
	t.Run("what can never be delivered is asked for so often, each time later, then given up and counted", func(t *testing.T) {
		t.Parallel()
		b := setup(t, world())
		b.logIs(logged(1, "never", "push", "", 500, 5*time.Minute))
		b.fill()
		for range store.GapAsks + 3 {
			wait := b.db.QueryInt("SELECT extract(epoch FROM next_ask_at - now())::bigint FROM delivery_gap")
			asks := b.db.QueryInt("SELECT asks FROM delivery_gap")
			if want := min(int64(15)<<(asks-1), 6*3600); b.db.QueryInt("SELECT count(*) FROM delivery_gap WHERE state = 'open'") == 1 && (wait > want || wait < want-15) {
				t.Errorf("after %d asks: due in %d s, want %d", asks, wait, want)
			}
			b.later()
			b.fill()
		}
		b.wantGap("never", fmt.Sprintf("failed given_up %d 1", store.GapAsks))
		if got := b.github.count("redeliver"); got != store.GapAsks {
			t.Errorf("asked %d times", got)
		}
	})
	t.Run("so many a walk, authority first; while nothing arrives only a few, and all of them once something does", func(t *testing.T) {
		t.Parallel()
		b := setup(t, world())
		b.github.page = 100
		var log []ghclient.Delivery
		for n := range 40 {
			log = append(log, logged(int64(100-n), fmt.Sprintf("g%d", n), "pull_request", "opened", 0, time.Duration(n+1)*time.Second))
		}
		log = append(log, logged(7, "authority", "team", "edited", 0, 50*time.Second))
		b.logIs(log...)
		b.fill()
		b.wantAsked("7 61 62") // the oldest first
		fresh := logged(200, "fresh", "push", "", 202, 0)
		b.stored("fresh", "push")
		b.logIs(append([]ghclient.Delivery{fresh}, log...)...)
		b.fill()
		if got := b.github.count("redeliver"); got != 3+30 {
			t.Errorf("asked %d times", got)
		}
	})
	t.Run("once something arrives again, what was put off for hours is due after ten minutes", func(t *testing.T) {
		t.Parallel()
		b := setup(t, world())
		failed := logged(1, "late", "team", "edited", 0, 30*time.Minute)
		b.logIs(failed)
		b.fill()
		b.db.Exec("UPDATE delivery_gap SET next_ask_at = now() + interval '5 hours', asked_at = now() - interval '11 minutes', asks = 12")
		b.fill()
		b.wantAsked("1")
		b.stored("fresh", "push")
		b.logIs(logged(2, "fresh", "push", "", 202, time.Minute), failed)
		b.fill()
		b.wantAsked("1 1")
	})
	t.Run("GitHub no longer has it: it is closed as expired", func(t *testing.T) {
		t.Parallel()
		b := setup(t, world())
		b.logIs(logged(1, "old", "push", "", 500, time.Minute))
		b.github.on = func(_ context.Context, step string) error {
			if strings.HasPrefix(step, "redeliver") {
				return ghclient.ErrNotFound
			}
			return nil
		}
		b.fill()
		b.wantGap("old", "failed expired 1 1")
	})
	t.Run("a rate limit ends the walk, spends no ask and waits as long as it says", func(t *testing.T) {
		t.Parallel()
		b := setup(t, world())
		b.logIs(logged(9, "ok", "ping", "", 200, 0), logged(1, "a", "push", "", 500, time.Minute), logged(2, "b", "push", "", 500, 2*time.Minute))
		b.github.on = func(_ context.Context, step string) error {
			if strings.HasPrefix(step, "redeliver") {
				return &ghclient.RateLimitError{After: time.Hour, Kind: "secondary"}
			}
			return nil
		}
		if got := b.fill(); got != "partial" {
			t.Errorf("result %s", got)
		}
		b.wantAsked("2")
		b.wantInt(1, "SELECT count(*) FROM delivery_gap WHERE guid = 'b' AND asks = 0 AND next_ask_at > now() + interval '59 minutes'")
	})
	t.Run("the ask is counted before it is made: a crash between the two asks once less, never for ever", func(t *testing.T) {
		t.Parallel()
		b := setup(t, world())
		b.logIs(logged(1, "a", "push", "", 500, time.Minute))
		b.github.on = func(_ context.Context, step string) error {
			if strings.HasPrefix(step, "redeliver") {
				b.wantInt(1, "SELECT asks FROM delivery_gap")
			}
			return nil
		}
		b.fill()
		b.wantAsked("1")
	})
}

func TestFillCursor(t *testing.T) {
	t.Parallel()
	long := func(n int) (log []ghclient.Delivery) {
		for i := range n {
			log = append(log, logged(int64(1000-i), fmt.Sprintf("g%d", i), "ping", "", 200, time.Duration(i)*10*time.Second))
		}
		return log
	}
	t.Run("the log is read unfiltered back to what was read before, with an overlap, and no further", func(t *testing.T) {
		t.Parallel()
		b := setup(t, world())
		b.logIs(
			logged(9, "a", "ping", "", 200, 0), logged(8, "b", "ping", "", 200, time.Minute),
			logged(7, "c", "ping", "", 200, 2*time.Hour), logged(6, "d", "ping", "", 200, 2*time.Hour),
			logged(5, "e", "team", "edited", 500, 3*time.Hour), logged(4, "f", "ping", "", 200, 3*time.Hour),
		)
		b.fill()
		if got := b.github.count("deliveries"); got != 2 {
			t.Errorf("%d pages read: %v", got, b.github.taken())
		}
		b.wantInt(0, "SELECT count(*) FROM delivery_gap")
		b.wantInt(1, "SELECT count(*) FROM delivery_log WHERE read_through > now() - interval '10 seconds' AND resume_cursor = ''")
		// An attempt that GitHub lists late is found although what was read reaches beyond it.
		b.github.log[1] = logged(8, "late", "team", "edited", 500, 90*time.Second)
		b.fill()
		b.wantGap("late", "failed open 1 8")
	})
	t.Run("a walk is bounded; the next goes on where it stopped, and then reads what is new", func(t *testing.T) {
		t.Parallel()
		b := setup(t, world())
		log := long(2 * (logPages + 3))
		log[len(log)-1] = logged(1, "deep", "team", "edited", 500, 45*time.Minute)
		b.logIs(log...)
		b.fill()
		if got := b.github.count("deliveries"); got != logPages {
			t.Errorf("%d pages read", got)
		}
		b.wantText(fmt.Sprint(2*logPages), "SELECT resume_cursor FROM delivery_log")
		b.wantGap("deep", "none")
		b.fill()
		b.wantGap("deep", "failed open 1 1")
		b.wantInt(1, "SELECT count(*) FROM delivery_log WHERE resume_cursor = '' AND read_through > now() - interval '20 seconds'")
	})
	t.Run("a place that GitHub no longer knows is begun anew", func(t *testing.T) {
		t.Parallel()
		b := setup(t, world())
		b.logIs(logged(1, "a", "team", "edited", 500, time.Minute))
		b.db.Exec("INSERT INTO delivery_log (read_through, resume_cursor, resume_top) VALUES (now() - interval '1 hour', 'v1_0', now())")
		b.github.on = func(_ context.Context, step string) error {
			if step == `deliveries "v1_0"` {
				return ghclient.ErrInvalid
			}
			return nil
		}
		if got := b.fill(); got != "complete" {
			t.Errorf("result %s", got)
		}
		b.wantAsked("1")
	})
	t.Run("a log that cannot be read: failure, what is known to be missed is asked for all the same, and the scan is complete", func(t *testing.T) {
		t.Parallel()
		b := setup(t, threePulls())
		b.logIs(logged(1, "a", "team", "edited", 500, time.Minute))
		b.fill()
		b.later()
		b.github.on = func(_ context.Context, step string) error {
			if strings.HasPrefix(step, "deliveries") {
				return fmt.Errorf("list: %w", ghclient.ErrUnavailable)
			}
			return nil
		}
		if got := b.fill(); got != "failure" {
			t.Errorf("result %s", got)
		}
		b.wantAsked("1 1")
		b.wantResult("complete")
		b.wantInt(3, "SELECT count(*) FROM evaluation")
	})
	t.Run("RG-400 two replicas: one reads the log", func(t *testing.T) {
		t.Parallel()
		b := setup(t, world())
		b.logIs(logged(1, "a", "team", "edited", 500, time.Minute))
		second := b.replica("reconciler-2", nil)
		b.github.on = func(_ context.Context, step string) error {
			if strings.HasPrefix(step, "deliveries") {
				second.attemptDuty(t.Context(), second.filling(), nudge.ViaPoll, 0)
			}
			return nil
		}
		b.fill()
		b.wantAsked("1")
		if got := b.github.count("deliveries"); got != 1 {
			t.Errorf("the log was read %d times", got)
		}
	})
	t.Run("RG-420 RG-421 told to stop, nothing further is read or asked for", func(t *testing.T) {
		t.Parallel()
		for _, at := range []string{"prune gaps", "position", "deliveries", "record", "settle", "take", "redeliver"} {
			b := setup(t, world())
			b.github.page = 100
			b.logIs(logged(9, "ok", "ping", "", 200, 0), logged(1, "a", "team", "edited", 500, time.Minute), logged(2, "b", "team", "edited", 500, 2*time.Minute))
			ctx, stop := context.WithCancel(t.Context())
			b.github.on = func(ctx context.Context, step string) error {
				if strings.HasPrefix(step, at) {
					stop()
				}
				return ctx.Err()
			}
			b.service.attemptDuty(ctx, b.service.filling(), nudge.ViaPoll, 0)
			stop()
			steps := b.github.taken()
			last := 0
			for n, s := range steps {
				if strings.HasPrefix(s, at) {
					last = n
				}
			}
			for _, s := range steps[last+1:] {
				if !strings.HasPrefix(s, fillLease) && !strings.HasPrefix(s, "keep position") && !(at == "deliveries" && strings.HasPrefix(s, "record")) {
					t.Errorf("after %s: %s", at, s)
				}
			}
			if b.store.result != "partial" {
				t.Errorf("stopped at %s: %s", at, b.store.result)
			}
		}
	})
	t.Run("RG-405 rows are pruned by retention, whatever became of them", func(t *testing.T) {
		t.Parallel()
		b := setup(t, world())
		b.logIs(logged(1, "old", "team", "edited", 500, time.Minute), logged(2, "new", "team", "edited", 500, time.Minute))
		b.fill()
		b.db.Exec("UPDATE delivery_gap SET found_at = now() - interval '31 days' WHERE guid = 'old'")
		b.logIs()
		b.fill()
		b.wantGap("old", "none")
		b.wantGap("new", "failed open 1 2")
	})
	t.Run("the rows can be listed, newest first", func(t *testing.T) {
		t.Parallel()
		b := setup(t, world())
		b.logIs(logged(1, "a", "team", "edited", 500, time.Minute))
		b.fill()
		real, ok := b.store.real.(*store.Store)
		if !ok {
			t.Fatal("no store")
		}
		list, err := real.ListGaps(t.Context(), 10)
		if err != nil || len(list) != 1 || list[0].GUID != "a" || list[0].Kind != store.GapFailed || list[0].State != store.GapOpen || list[0].Asks != 1 {
			t.Errorf("%+v, %v", list, err)
		}
		if open, err := real.ReadGapBacklog(t.Context()); err != nil || open.Open != 1 {
			t.Errorf("%+v, %v", open, err)
		}
		b.service.observe(t.Context(), time.Now())
		if got := b.counter("countersign_reconciler_gap_open_rows", ""); got != 1 {
			t.Errorf("gauge %v", got)
		}
		if err := checkMetrics(b); err != nil {
			t.Error(err)
		}
	})
}
