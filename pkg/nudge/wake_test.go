package nudge_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/countersign/countersign/pkg/nudge"
	"github.com/countersign/countersign/pkg/nudge/nudgetest"
)

// never is a poll so slow that whatever is found was found by a nudge.
const never = time.Hour

func TestWakeReachesOneReplica(t *testing.T) {
	t.Parallel()
	ns := nudgetest.New(t)
	var table rows
	regs := [2]*prometheus.Registry{prometheus.NewRegistry(), prometheus.NewRegistry()}
	for _, reg := range regs {
		stop := runWork(t, nudge.Work{
			Bus: ns.Connect("evaluator"), Subject: nudge.Evaluate, Service: "evaluator",
			Poll: never, Concurrency: 2, Step: table.step, Metrics: reg,
		})
		defer stop()
	}
	ingress := ns.Connect("ingress")
	for i := range 100 {
		table.add(1)
		// The stream exists as soon as one replica has asked for it.
		nudgetest.Eventually(t, "the wake is taken", func() bool {
			return ingress.Wake(t.Context(), nudge.Wake{Subject: nudge.Evaluate, PullNumber: i + 1}) == nil
		})
	}
	nudgetest.Eventually(t, "every row is done", func() bool { return table.finished() == 100 })
	var byNudge float64
	for _, reg := range regs {
		byNudge += sample(t, reg, "countersign_work_found_total", "nudge")
	}
	// The first may have been found by the sweep at start.
	if byNudge < 95 {
		t.Errorf("%v of 100 rows were found by a nudge", byNudge)
	}
}

func TestEveryWakeIsFollowedByALook(t *testing.T) {
	t.Parallel()
	// Rows are committed, then nudged, by several senders at once while workers
	// come and go from idleness: a wake that is folded away must not lose its row.
	ns := nudgetest.New(t)
	var table rows
	stop := runWork(t, nudge.Work{
		Bus: ns.Connect("fanout"), Subject: nudge.Fanout, Service: "fanout",
		Poll: never, Concurrency: 3, Step: table.step,
	})
	defer stop()
	bus := ns.Connect("ingress")
	awaitStream(t, bus, nudge.Fanout)
	const senders, each = 4, 200
	var wg sync.WaitGroup
	for range senders {
		wg.Go(func() {
			for range each {
				table.add(1)
				if err := bus.Wake(t.Context(), nudge.Wake{Subject: nudge.Fanout}); err != nil {
					t.Errorf("wake: %v", err)
				}
			}
		})
	}
	wg.Wait()
	nudgetest.Eventually(t, "every row is done", func() bool { return table.finished() == senders*each })
}

func TestWithoutNATSWorkIsStillFound(t *testing.T) {
	t.Parallel()
	t.Run("I7 work goes on by polling while NATS is away and by nudges when it is back", func(t *testing.T) {
		t.Parallel()
		ns := nudgetest.New(t)
		ns.Stop()
		var table rows
		reg := prometheus.NewRegistry()
		bus := ns.Dial("evaluator")
		stop := runWork(t, nudge.Work{
			Bus: bus, Subject: nudge.Evaluate, Service: "evaluator",
			Poll: 20 * time.Millisecond, Step: table.step, Metrics: reg,
		})
		table.add(5)
		nudgetest.Eventually(t, "the rows are found without NATS", func() bool { return table.finished() == 5 })
		if n := sample(t, reg, "countersign_work_found_total", "nudge"); n != 0 {
			t.Errorf("%v rows were found by a nudge without NATS", n)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}

		ns.Restart()
		reg = prometheus.NewRegistry()
		stop = runWork(t, nudge.Work{
			Bus: bus, Subject: nudge.Evaluate, Service: "evaluator", Poll: never, Step: table.step, Metrics: reg,
		})
		awaitStream(t, ns.Connect("ingress"), nudge.Evaluate)

		// Mid-flight: the memory stream and its consumer are gone after this.
		ns.Stop()
		table.add(1)
		ns.Restart()
		nudgetest.Eventually(t, "the row is found because NATS came back", func() bool { return table.finished() == 6 })
		sender := ns.Connect("ingress")
		awaitStream(t, sender, nudge.Evaluate)
		before := sample(t, reg, "countersign_work_found_total", "nudge")
		table.add(1)
		if err := sender.Wake(t.Context(), nudge.Wake{Subject: nudge.Evaluate}); err != nil {
			t.Fatal(err)
		}
		nudgetest.Eventually(t, "the row is found", func() bool { return table.finished() == 7 })
		if after := sample(t, reg, "countersign_work_found_total", "nudge"); after != before+1 {
			t.Errorf("nudges found %v rows after the restart, want 1", after-before)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestABusyReplicaLeavesWakesToAnIdleOne(t *testing.T) {
	t.Parallel()
	ns := nudgetest.New(t)
	// One row a claim: whoever steps while rows are due takes one and stays busy.
	release := make(chan struct{})
	var busy, done atomic.Int64
	var table rows
	step := func(ctx context.Context, via nudge.Via) (bool, error) {
		did, err := table.step(ctx, via)
		if did {
			busy.Add(1)
			<-release
			done.Add(1)
		}
		return did, err
	}
	const replicas = 3
	for range replicas {
		stop := runWork(t, nudge.Work{Bus: ns.Connect("evaluator"), Subject: nudge.Evaluate, Service: "evaluator", Poll: never, Step: step})
		defer stop()
	}
	bus := ns.Connect("ingress")
	awaitStream(t, bus, nudge.Evaluate)
	for i := range replicas {
		table.add(1)
		nudgetest.Eventually(t, fmt.Sprintf("row %d is taken by an idle replica", i+1), func() bool {
			if err := bus.Wake(t.Context(), nudge.Wake{Subject: nudge.Evaluate}); err != nil {
				t.Errorf("wake: %v", err)
			}
			return busy.Load() == int64(i+1)
		})
	}
	close(release)
	nudgetest.Eventually(t, "all are done", func() bool { return done.Load() == replicas })
}

func TestWakeRefusesAnUnknownSubject(t *testing.T) {
	t.Parallel()
	var bus *nudge.Bus
	if err := bus.Wake(t.Context(), nudge.Wake{Subject: "countersign.v1.everything"}); err == nil {
		t.Error("no error")
	}
}

func TestWakeOutlivesItsRequest(t *testing.T) {
	t.Parallel()
	ns := nudgetest.New(t)
	var table rows
	stop := runWork(t, nudge.Work{Bus: ns.Connect("invalidator"), Subject: nudge.Invalidate, Service: "invalidator", Poll: never, Step: table.step})
	defer stop()
	bus := ns.Connect("ingress")
	awaitStream(t, bus, nudge.Invalidate)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	table.add(1)
	if err := bus.Wake(ctx, nudge.Wake{Subject: nudge.Invalidate}); err != nil {
		t.Errorf("the commit stands but its wake was not sent: %v", err)
	}
	nudgetest.Eventually(t, "the row is found", func() bool { return table.finished() == 1 })
}

// awaitStream waits until a consumer has created the stream.
func awaitStream(t *testing.T, bus *nudge.Bus, subject nudge.Subject) {
	t.Helper()
	nudgetest.Eventually(t, "the stream exists", func() bool {
		return bus.Wake(t.Context(), nudge.Wake{Subject: subject}) == nil
	})
}

// sample is the value of a counter's sample with one label value, or zero.
func sample(t *testing.T, g prometheus.Gatherer, name, label string) float64 {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetValue() == label {
					return m.GetCounter().GetValue()
				}
			}
		}
	}
	return 0
}
