package fanout

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/retry"
	"github.com/countersign/countersign/pkg/store"
)

func TestDispose(t *testing.T) {
	t.Parallel()
	limit := func(d time.Duration) error {
		return &ghclient.RateLimitError{After: d, Kind: "secondary", Installation: 1}
	}
	for _, row := range []struct {
		name     string
		err      error
		attempts int
		want     retry.Disposition
	}{
		{"no error: done", nil, 3, retry.Disposition{Result: retry.Completed}},
		{"RG-229 a lost lease is dropped", fmt.Errorf("x: %w", store.ErrLeaseLost), 0, retry.Disposition{Result: retry.Superseded}},
		{"RG-229 a newer generation is dropped", fmt.Errorf("x: %w", store.ErrSuperseded), 0, retry.Disposition{Result: retry.Superseded}},
		{"told to stop: due at once, no attempt", fmt.Errorf("x: %w", errStopping), 5, retry.Disposition{Result: resultStopped}},
		{"cancelled at the end of the grace: due at once, no attempt", fmt.Errorf("x: %w", context.Canceled), 5, retry.Disposition{Result: resultStopped}},
		{"RG-220 a rate limit waits GitHub's delay and spends nothing", fmt.Errorf("x: %w", limit(90*time.Second)), 7, retry.Disposition{Result: retry.RateLimited, After: 90 * time.Second}},
		{"RG-220 the longest of several delays", errors.Join(limit(time.Second), fmt.Errorf("x: %w", limit(time.Hour)), limit(time.Minute)), 0, retry.Disposition{Result: retry.RateLimited, After: time.Hour}},
		{"RG-227 the first failure waits a second", ghErr("unavailable"), 0, retry.Disposition{Result: retry.Failed, After: time.Second, Spend: true}},
		{"RG-227 the fourth waits eight", ghErr("malformed"), 3, retry.Disposition{Result: retry.Failed, After: 8 * time.Second, Spend: true}},
		{"RG-227 the thousandth waits the most", ghErr("malformed"), 1000, retry.Disposition{Result: retry.Failed, After: time.Minute, Spend: true}},
		{"RG-227 an error nobody named", errors.New("unheard of"), 0, retry.Disposition{Result: retry.Failed, After: time.Second, Spend: true}},
		{"RG-224 a route that moved during the pass", ghErr("moved"), 0, retry.Disposition{Result: retry.Failed, After: time.Second, Spend: true}},
		{"RG-228 not found is parked", ghErr("not_found"), 0, retry.Disposition{Result: retry.Parked, After: 300 * time.Second, Spend: true}},
		{"RG-228 suspended is parked", ghErr("suspended"), 0, retry.Disposition{Result: retry.Parked, After: 300 * time.Second, Spend: true}},
		{"RG-228 gone is parked", ghErr("gone"), 0, retry.Disposition{Result: retry.Parked, After: 300 * time.Second, Spend: true}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			if got := dispose(row.err, row.attempts, time.Minute); got != row.want {
				t.Errorf("got %+v, want %+v", got, row.want)
			}
		})
	}
	t.Run("RG-227 no error ends the work, and ordinary backoff stays within its bounds", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(t *rapid.T) {
			kind := rapid.SampledFrom([]string{"unavailable", "malformed", "moved", "not_found", "suspended", "gone", "unauthorized", "forbidden"}).Draw(t, "kind")
			attempts := rapid.IntRange(0, 1<<20).Draw(t, "attempts")
			d := dispose(ghErr(kind), attempts, time.Minute)
			if d.Result == retry.Completed || d.Result == retry.Superseded {
				t.Fatalf("%s ends the work: %+v", kind, d)
			}
			if d.Result == retry.Failed && (d.After < time.Second || d.After > time.Minute) {
				t.Fatalf("%s after %d attempts waits %s", kind, attempts, d.After)
			}
		})
	})
}

func TestRetries(t *testing.T) {
	t.Parallel()
	due := "UPDATE authority SET available_at = now()"
	t.Run("RG-227 failures are retried indefinitely with capped backoff, the row blocks meanwhile, and the work is done in the end", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.github.open(10, "main", 1)
		b.github.before = func(string) error { return ghErr("unavailable") }
		b.accept("1", repositoryWide(10))
		for n := range 9 {
			b.stepWaits(min(60, 1<<n))
			b.wantInt(int64(n+1), "SELECT attempts FROM authority WHERE holder = '' AND expires_at IS NULL AND last_error <> ''")
			b.db.Exec(due)
		}
		b.github.before = nil
		b.drain(b.service)
		b.wantInt(0, "SELECT count(*) FROM authority")
		b.wantText("1:1", headGenerations)
	})
	t.Run("RG-227 progress ends the backoff: a page that succeeded starts it afresh", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.github.open(10, "main", 1, 2, 3)
		b.accept("1", repositoryWide(10))
		b.db.Exec("UPDATE authority SET attempts = 6")
		b.github.before = func(op string) error {
			if op == "pulls acme/api  3" {
				return ghErr("unavailable")
			}
			return nil
		}
		b.step(b.service)
		b.wantInt(1, "SELECT attempts FROM authority WHERE cursor_page = 3")
	})
	t.Run("RG-220 RG-197 a rate limit defers the job by GitHub's delay and spends no attempt; what is queued stays queued", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.github.open(10, "main", 1, 2, 3)
		b.accept("1", repositoryWide(10))
		b.github.before = func(op string) error {
			if op == "pulls acme/api  3" {
				return fmt.Errorf("list: %w", &ghclient.RateLimitError{After: 10 * time.Minute, Kind: "primary", Installation: 1})
			}
			return nil
		}
		b.stepWaits(600)
		b.wantInt(0, "SELECT attempts FROM authority")
		b.wantInt(2, "SELECT count(*) FROM evaluation")
		b.wantText("1:1 2:1", headGenerations)
	})
	t.Run("RG-145 a paused installation is not claimed", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.accept("1", repositoryWide(10))
		if err := b.fanout.Pause(t.Context(), 1, time.Hour, "primary"); err != nil {
			t.Fatal(err)
		}
		if b.step(b.service) {
			t.Error("worked during the pause")
		}
	})
	for _, kind := range []string{"not_found", "suspended", "gone"} {
		t.Run("RG-228 RG-230 "+kind+": parked from 300 s on, counted, nothing is written, and a matching event wakes it at once", func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.github.open(10, "main", 1)
			b.github.before = func(string) error { return ghErr(kind) }
			b.accept("1", repositoryWide(10))
			for _, want := range []int{300, 600, 1200} {
				b.stepWaits(want)
				b.db.Exec(due)
			}
			b.db.Exec("UPDATE authority SET attempts = 30")
			b.stepWaits(6 * 3600)
			b.wantInt(1, "SELECT count(*) FROM authority WHERE parked_at IS NOT NULL")
			b.wantInt(0, "SELECT (SELECT count(*) FROM head) + (SELECT count(*) FROM evaluation)")
			if got := metric(t, b, "countersign_fanout_passes_total", "repository", "parked"); got != 4 {
				t.Errorf("%v passes counted as parked, want 4", got)
			}
			b.github.before = nil
			b.accept("2", repositoryWide(10))
			b.drain(b.service)
			b.wantText("1:1", headGenerations)
		})
	}
	t.Run("RG-228 a split wakes the parked repository it reaches again", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.github.open(10, "main", 1)
		b.github.repos = nil
		b.accept("1", repositoryWide(10))
		b.step(b.service)
		b.wantInt(1, "SELECT count(*) FROM authority WHERE parked_at IS NOT NULL")
		b.github.repos = []ghRepo{repo(10, "acme/api")}
		b.accept("2", installationWide())
		b.drain(b.service)
		b.wantText("1:1", headGenerations)
	})
}

// metric reads one counter of the first replica by its label values, in the order of their names.
func metric(t *testing.T, b *bundle, name string, labels ...string) float64 {
	t.Helper()
	families, err := b.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() != name {
				continue
			}
			match := 0
			for _, l := range m.GetLabel() {
				for _, want := range labels {
					if l.GetValue() == want {
						match++
					}
				}
			}
			if match == len(labels) {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return 0
}
