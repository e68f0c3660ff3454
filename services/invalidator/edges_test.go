package invalidator

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/nudge"
)

func TestInterrupted(t *testing.T) {
	t.Parallel()
	t.Run("P14 RG-196 after an outage one 404 does not put a revocation off for hours", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.Open(nil)
		key := b.published(t, n)
		b.Trigger(n)
		b.DB.Exec("UPDATE head SET invalidation_attempts = 12")
		b.w = b.worker("invalidator-1", func(g GitHub) GitHub { return lying{GitHub: g, listErr: ghclient.ErrNotFound} })
		b.step(t)
		if wait := b.DB.QueryInt("SELECT extract(epoch FROM invalidation_available_at - now())::int FROM head WHERE head_sha = $1", key.SHA); wait < 30 || wait > 90 {
			t.Errorf("deferred by %d s, want the cap of ordinary backoff", wait)
		}
	})
	t.Run("a stop spends no attempt and leaves the head due", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.Open(nil)
		key := b.published(t, n)
		b.Trigger(n)
		ctx, cancel := context.WithCancel(t.Context())
		b.w = b.worker("invalidator-1", func(g GitHub) GitHub { return &between{GitHub: g, hook: cancel} })
		if _, err := b.w.Step(ctx, nudge.ViaPoll); err != nil {
			t.Fatal(err)
		}
		if got := b.DB.QueryInt("SELECT count(*) FROM head WHERE head_sha = $1 AND invalidation_attempts = 0 AND invalidation_expires_at IS NULL AND invalidation_available_at < now() + interval '2 seconds'", key.SHA); got != 1 {
			t.Errorf("a stop counts as a failure, or the lease is held by nobody\n%s", b.Log)
		}
	})
	t.Run("a lease lost in the middle of a request is superseded, not failed", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		n := b.Open(nil)
		b.published(t, n)
		b.Trigger(n)
		b.w = b.worker("invalidator-1", func(g GitHub) GitHub {
			return losing{GitHub: g, lose: func() {
				b.DB.Exec("UPDATE head SET invalidation_expires_at = now() - interval '1 second' WHERE invalidation_expires_at IS NOT NULL")
			}}
		})
		b.w.Worker.Lease = 3 * time.Second
		b.step(t)
		if got := testutil.ToFloat64(b.w.metrics.invalidations.WithLabelValues("superseded")); got != 1 {
			t.Errorf("superseded counted %v times\n%s", got, b.Log)
		}
	})
}

// losing loses the lease during a read and answers only when the read is cancelled.
type losing struct {
	GitHub
	lose func()
}

func (l losing) PullsOfCommit(ctx context.Context, _ ghclient.Repo, _ string) ([]ghclient.PullSummary, error) {
	l.lose()
	<-ctx.Done()
	return nil, ctx.Err()
}
