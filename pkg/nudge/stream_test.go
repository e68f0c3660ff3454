package nudge

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/countersign/countersign/pkg/nudge/localnats"
)

// setupStream returns a connected bus with a fresh stream and one consumer of Evaluate.
func setupStream(t *testing.T, storage string) (*Bus, jetstream.Consumer) {
	t.Helper()
	local, err := localnats.Start(t.Context(), localnats.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(local.Close)
	bus, err := Connect(t.Context(), Config{URL: local.URL(), Storage: storage, WakeTimeout: 5 * time.Second}, Options{Name: "evaluator"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bus.Close)
	for deadline := time.Now().Add(30 * time.Second); !bus.Connected(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not connected")
		}
	}
	cons, err := bus.consumer(t.Context(), Evaluate, "evaluator")
	if err != nil {
		t.Fatal(err)
	}
	return bus, cons
}

func send(t *testing.T, bus *Bus, n int) {
	t.Helper()
	for range n {
		if err := bus.Wake(t.Context(), Wake{Subject: Evaluate}); err != nil {
			t.Fatal(err)
		}
	}
}

// A worker that took the first nudge may have looked before the rows of those
// behind it were committed: whatever is folded away must be followed by a look.
func TestFoldedNudgesWakeOnceMore(t *testing.T) {
	t.Parallel()
	bus, cons := setupStream(t, "memory")
	send(t, bus, drainBatch+10)

	var woken []Via
	waiting, err := bus.pullOne(t.Context(), cons, Evaluate, nil, func(v Via) { woken = append(woken, v) })
	if err != nil {
		t.Fatal(err)
	}
	if !waiting || !slices.Equal(woken, []Via{ViaNudge}) {
		t.Fatalf("pulled %v, waiting %t; want one nudge and more waiting", woken, waiting)
	}
	var folded []Via
	if err := bus.foldWaiting(cons, Evaluate, func(v Via) { folded = append(folded, v) }); err != nil {
		t.Fatal(err)
	}
	if len(folded) == 0 {
		t.Error("nudges were folded away and nobody looks")
	}
	info, err := cons.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if info.NumPending != 0 {
		t.Errorf("%d nudges are still waiting", info.NumPending)
	}
	// Nothing was waiting: nobody is woken for nothing.
	folded = nil
	if err := bus.foldWaiting(cons, Evaluate, func(v Via) { folded = append(folded, v) }); err != nil {
		t.Fatal(err)
	}
	if len(folded) != 0 {
		t.Errorf("woken %v by an empty stream", folded)
	}
}

func TestStreamIsTightAndSharedAndMadeOnce(t *testing.T) {
	t.Parallel()
	for _, storage := range []string{"memory", "file"} {
		t.Run(storage, func(t *testing.T) {
			t.Parallel()
			bus, _ := setupStream(t, storage)
			stream, err := bus.js.Stream(t.Context(), StreamName)
			if err != nil {
				t.Fatal(err)
			}
			c := stream.CachedInfo().Config
			if c.MaxAge != wakeAge || c.Discard != jetstream.DiscardOld || c.MaxMsgsPerSubject != wakesKept || c.MaxBytes <= 0 {
				t.Errorf("limits %+v", c)
			}
			if (c.Storage == jetstream.FileStorage) != (storage == "file") {
				t.Errorf("storage %v", c.Storage)
			}
			// A replica configured otherwise uses what is there.
			bus.cfg.Storage = map[string]string{"memory": "file", "file": "memory"}[storage]
			for range 2 {
				if _, err := bus.consumer(t.Context(), Evaluate, "evaluator"); err != nil {
					t.Errorf("a second replica: %v", err)
				}
			}
			after, err := bus.js.Stream(t.Context(), StreamName)
			if err != nil {
				t.Fatal(err)
			}
			if after.CachedInfo().Config.Storage != c.Storage || after.CachedInfo().State.Consumers != 1 {
				t.Errorf("the second replica changed the stream: %+v", after.CachedInfo())
			}
		})
	}
}

func TestAStreamOfAnotherShapeIsNamed(t *testing.T) {
	t.Parallel()
	bus, _ := setupStream(t, "memory")
	if err := bus.js.DeleteStream(t.Context(), StreamName); err != nil {
		t.Fatal(err)
	}
	if _, err := bus.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: StreamName, Subjects: []string{"another.subject"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := bus.consumer(context.WithoutCancel(t.Context()), Evaluate, "evaluator"); err == nil {
		t.Error("no error")
	}
}

func TestBackoffIsBounded(t *testing.T) {
	t.Parallel()
	for failures := 1; failures < 200; failures++ {
		d := backoff(failures, firstBackoff, mostBackoff)
		if d < firstBackoff/2 || d > mostBackoff {
			t.Fatalf("after %d failures %s", failures, d)
		}
		if failures > 10 && d < mostBackoff/2 {
			t.Fatalf("after %d failures only %s", failures, d)
		}
	}
}
