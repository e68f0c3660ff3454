package reconciler

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/countersign/countersign/pkg/daemon"
	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/githubsim"
	"github.com/countersign/countersign/pkg/nudge"
	"github.com/countersign/countersign/pkg/nudge/nudgetest"
	"github.com/countersign/countersign/pkg/store"
)

func checkMetrics(b *bundle) error { return daemon.CheckMetrics(b.registry) }

func TestElection(t *testing.T) {
	t.Parallel()
	t.Run("RG-400 of two replicas one scans; the other records no attempt", func(t *testing.T) {
		t.Parallel()
		b := setup(t, threePulls())
		second := b.replica("reconciler-2", nil)
		b.github.on = func(_ context.Context, step string) error {
			if step == "installations" { // in the midst of the first one's scan
				second.attempt(t.Context(), nudge.ViaPoll, 0)
			}
			return nil
		}
		b.wantResult("complete")
		if got := b.github.count("installations"); got != 1 {
			t.Errorf("%d scans", got)
		}
		b.wantInt(1, "SELECT count(*) FROM lease_grant WHERE row_key = 'lease reconciler'")
		b.wantText("complete ", "SELECT last_result || ' ' || holder FROM lease")
	})
	t.Run("RG-400 each interval has one scan, whoever ticks", func(t *testing.T) {
		t.Parallel()
		b := setup(t, threePulls())
		b.service.attempt(t.Context(), nudge.ViaPoll, time.Hour)
		b.replica("reconciler-2", nil).attempt(t.Context(), nudge.ViaPoll, time.Hour)
		if got := b.github.count("installations"); got != 1 {
			t.Errorf("%d scans", got)
		}
	})
	t.Run("RG-400 two connections that stand at once: one scan", func(t *testing.T) {
		t.Parallel()
		b := setup(t, threePulls())
		second := b.replica("reconciler-2", nil)
		second.deps.Store = b.db.Store("countersign_reconciler")
		b.github.on = func(_ context.Context, step string) error { return nil }
		var wg sync.WaitGroup
		for _, s := range []*Service{b.service, second} {
			wg.Go(func() { s.attempt(context.Background(), nudge.ViaPoll, time.Hour) })
		}
		wg.Wait()
		if got := b.github.count("installations"); got != 1 {
			t.Errorf("%d scans", got)
		}
		b.wantInt(3, "SELECT count(*) FROM head WHERE generation = 1")
	})
	t.Run("RG-416 only a complete scan advances the last success", func(t *testing.T) {
		t.Parallel()
		b := setup(t, threePulls())
		success := func() bool { return b.db.QueryInt("SELECT count(*) FROM lease WHERE last_success_at IS NOT NULL") == 1 }
		b.github.on = func(_ context.Context, step string) error {
			if strings.HasPrefix(step, "enqueue") {
				return errors.New("boom")
			}
			return nil
		}
		b.wantResult("partial")
		b.github.on = func(_ context.Context, step string) error {
			if step == "installations" {
				return errors.New("boom")
			}
			return nil
		}
		b.wantResult("failure")
		if success() {
			t.Error("an incomplete scan counts as success")
		}
		b.service.observe(t.Context(), time.Now().Add(-time.Hour))
		if got := b.counter("countersign_reconciler_last_success_age_seconds", ""); got < 3599 {
			t.Errorf("age of the last success %v, want that of the process", got)
		}
		b.github.on = nil
		b.wantResult("complete")
		if !success() {
			t.Error("a complete scan does not count")
		}
		b.service.observe(t.Context(), time.Now())
		if got := b.counter("countersign_reconciler_last_success_timestamp_seconds", ""); got < float64(time.Now().Add(-time.Minute).Unix()) {
			t.Errorf("last success %v", got)
		}
	})
	t.Run("RG-416 RG-415 a result that cannot be recorded is not complete", func(t *testing.T) {
		t.Parallel()
		b := setup(t, threePulls())
		b.github.on = func(_ context.Context, step string) error {
			if strings.HasPrefix(step, "resign") {
				b.db.Exec("UPDATE lease SET expires_at = now() - interval '1 second'") // it was lost unseen
			}
			return nil
		}
		b.scan()
		if b.counter("countersign_reconciler_scans_total", "partial") != 1 || b.counter("countersign_reconciler_scans_total", "complete") != 0 {
			t.Errorf("log %s", b.log)
		}
		b.wantInt(0, "SELECT count(*) FROM lease WHERE last_success_at IS NOT NULL")
		b.db.Exec("UPDATE lease SET holder = '', expires_at = NULL")
	})
}

func TestStopping(t *testing.T) {
	t.Parallel()
	t.Run("RG-418 told to stop before the scan: no election, no attempt", func(t *testing.T) {
		t.Parallel()
		b := setupFake(t, threePulls())
		ctx, stop := context.WithCancel(t.Context())
		stop()
		b.service.attempt(ctx, nudge.ViaPoll, 0)
		b.wantSteps()
	})
	t.Run("RG-418 told to stop during the election: the lease is given back and no attempt recorded", func(t *testing.T) {
		t.Parallel()
		b := setup(t, threePulls())
		ctx, stop := context.WithCancel(t.Context())
		b.github.on = func(_ context.Context, step string) error {
			if step == "elect" {
				stop()
			}
			return nil
		}
		b.service.attempt(ctx, nudge.ViaPoll, 0)
		b.wantSteps("elect", `resign ""`)
		b.wantInt(1, "SELECT count(*) FROM lease WHERE holder = '' AND expires_at IS NULL AND last_attempt_at IS NULL AND last_result = ''")
		if b.counter("countersign_reconciler_elections_total", "released") != 1 {
			t.Error("not counted as released")
		}
	})
	t.Run("RG-418 a lease that cannot be given back is a failed election", func(t *testing.T) {
		t.Parallel()
		b := setupFake(t, threePulls())
		ctx, stop := context.WithCancel(t.Context())
		b.github.on = func(_ context.Context, step string) error {
			if step == "elect" {
				stop()
				return nil
			}
			return errors.New("connection refused")
		}
		b.service.attempt(ctx, nudge.ViaPoll, 0)
		if b.counter("countersign_reconciler_elections_total", "failed") != 1 || b.counter("countersign_reconciler_elections_total", "released") != 0 {
			t.Errorf("log %s", b.log)
		}
	})
	t.Run("RG-419 RG-415 a list of installations that was broken off by the stop is partial, not a failure", func(t *testing.T) {
		t.Parallel()
		b := setupFake(t, threePulls())
		ctx, stop := context.WithCancel(t.Context())
		b.github.on = func(_ context.Context, step string) error {
			if step == "installations" {
				stop()
				return fmt.Errorf("list: %w", ghclient.ErrUnavailable) // what the client makes of the refused second page
			}
			return nil
		}
		b.service.attempt(ctx, nudge.ViaPoll, 0)
		if b.store.result != "partial" || b.counter("countersign_reconciler_scans_total", "failure") != 0 {
			t.Errorf("result %q", b.store.result)
		}
	})
	// Whatever step the stop or the loss falls into: it is finished, and nothing but the resignation begins after it.
	for i, at := range fullScan[1 : len(fullScan)-1] {
		t.Run("RG-419 RG-420 RG-421 told to stop during "+at+": it is finished, nothing later starts, the result is partial", func(t *testing.T) {
			t.Parallel()
			b := setupFake(t, threePulls())
			ctx, stop := context.WithCancel(t.Context())
			b.github.on = func(work context.Context, step string) error {
				if step == at {
					stop()
					if work.Err() != nil {
						t.Error("what was under way was cancelled")
					}
				}
				return nil
			}
			b.service.attempt(ctx, nudge.ViaPoll, 0)
			b.wantSteps(append(append([]string{}, fullScan[:i+2]...), `resign "partial"`)...)
		})
	}
	for i, at := range fullScan[1 : len(fullScan)-1] {
		t.Run("RG-415 RG-420 the lease is lost during "+at+": nothing later starts, the result is partial", func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := setupFake(t, threePulls())
				b.github.on = func(_ context.Context, step string) error {
					switch step {
					case at:
						time.Sleep(b.service.cfg.lease()/3 + time.Second) // the next heartbeat falls into it
					case "renew":
						return store.ErrLeaseLost
					}
					return nil
				}
				b.wantResult("partial")
				want := append(append([]string{}, fullScan[:i+2]...), "renew", `resign "partial"`)
				b.wantSteps(want...)
				if n := testutil.ToFloat64(b.service.metrics.leasesLost); n != 1 {
					t.Errorf("%v lost leases are counted, want 1", n)
				}
			})
		})
	}
}

func TestHeartbeat(t *testing.T) {
	t.Parallel()
	t.Run("RG-408 the lease is the longer of 300 s and two intervals, and is renewed every third of it while a scan lasts", func(t *testing.T) {
		t.Parallel()
		for every, want := range map[time.Duration]time.Duration{time.Minute: 300 * time.Second, 300 * time.Second: 600 * time.Second, time.Hour: 2 * time.Hour} {
			if got := (Config{Interval: every}).lease(); got != want {
				t.Errorf("interval %s: lease %s, want %s", every, got, want)
			}
		}
		synctest.Test(t, func(t *testing.T) {
			b := setupFake(t, threePulls())
			var beats []time.Duration
			began := time.Now()
			b.github.on = func(_ context.Context, step string) error {
				switch step {
				case "installations":
					time.Sleep(350 * time.Second)
				case "renew":
					beats = append(beats, time.Since(began))
				}
				return nil
			}
			b.wantResult("complete")
			if fmt.Sprint(beats) != "[1m40s 3m20s 5m0s]" {
				t.Errorf("heartbeats at %v", beats)
			}
		})
	})
	t.Run("RG-408 a heartbeat that fails is tried again; a lease that cannot be renewed in time is given up before it ends", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			b := setupFake(t, threePulls())
			began, noticed := time.Now(), time.Duration(0)
			b.github.on = func(_ context.Context, step string) error {
				switch step {
				case "installations":
					time.Sleep(time.Hour)
				case "renew":
					noticed = time.Since(began)
					return errors.New("connection refused")
				}
				return nil
			}
			b.wantResult("partial")
			if noticed >= 300*time.Second || b.github.count("renew") < 2 {
				t.Errorf("given up after %s and %d tries", noticed, b.github.count("renew"))
			}
		})
	})
}

func TestServe(t *testing.T) {
	t.Parallel()
	t.Run("RG-427 immediately at start, then every interval, until told to stop", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			b := setupFake(t, threePulls())
			b.service.cfg.ScanEvery, b.service.cfg.Interval = 0, 300*time.Second
			ctx, stop := context.WithCancel(t.Context())
			var scans []time.Duration
			began := time.Now()
			b.github.on = func(_ context.Context, step string) error {
				if step == "elect" {
					scans = append(scans, time.Since(began))
				}
				return nil
			}
			done := make(chan error, 1)
			go func() { done <- b.service.Serve(ctx, nil) }()
			time.Sleep(901 * time.Second)
			stop()
			if err := <-done; err != nil {
				t.Error(err)
			}
			if fmt.Sprint(scans) != "[0s 5m0s 10m0s 15m0s]" {
				t.Errorf("scans at %v", scans)
			}
		})
	})
	t.Run("a nudge asks for a scan now", func(t *testing.T) {
		t.Parallel()
		b := setupFake(t, threePulls())
		b.service.cfg.ScanEvery = time.Hour
		server := nudgetest.New(t)
		bus := server.Connect("reconciler")
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- b.service.Serve(ctx, bus) }()
		nudgetest.Eventually(t, "the first scan has ended", func() bool { return b.github.count("resign") == 1 })
		operator := server.Connect("operator")
		nudgetest.Eventually(t, "a wake was taken and brought a scan", func() bool {
			_ = operator.Wake(t.Context(), nudge.Wake{Subject: nudge.Reconcile, InstallationID: 1})
			return b.github.count("resign") >= 2
		})
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestConfig(t *testing.T) {
	t.Parallel()
	sim := githubsim.New(githubsim.Options{})
	t.Cleanup(sim.Close)
	key := string(sim.AddApp(githubsim.App{}).PEM)
	environ := func(more ...string) []string {
		return append([]string{
			"COUNTERSIGN_DATABASE_URL=postgres://countersign_reconciler@127.0.0.1/countersign",
			"COUNTERSIGN_GITHUB_APP_ID=7", "COUNTERSIGN_GITHUB_PRIVATE_KEY=" + key,
		}, more...)
	}
	t.Run("RG-427 RG-428 RG-404 the defaults", func(t *testing.T) {
		t.Parallel()
		c, err := daemon.Load[Config](nil, environ())
		if err != nil {
			t.Fatal(err)
		}
		if c.every() != 300*time.Second || c.Recheck != 900*time.Second || c.retention() != 30*24*time.Hour {
			t.Errorf("%+v", c)
		}
	})
	for _, row := range []struct{ variable, low, high string }{
		{"COUNTERSIGN_RECONCILE_INTERVAL", "59s", "24h1s"},
		{"COUNTERSIGN_RECONCILE_RECHECK", "-1s", "721h"},
		{"COUNTERSIGN_DELIVERY_RETENTION_DAYS", "0", "3651"},
		{"COUNTERSIGN_DELIVERY_LOG_INTERVAL", "4s", "61m"},
		{"COUNTERSIGN_DELIVERY_LOG_ASKS", "0", "81"},
		{"COUNTERSIGN_RECONCILE_DRIFT_HEADS", "-1", "10001"},
	} {
		t.Run("RG-427 RG-428 refused outside its bounds: "+row.variable, func(t *testing.T) {
			t.Parallel()
			for _, value := range []string{row.low, row.high} {
				if _, err := daemon.Load[Config](nil, environ(row.variable+"="+value)); err == nil || !strings.Contains(err.Error(), row.variable) {
					t.Errorf("%s: %v", value, err)
				}
			}
		})
	}
}
