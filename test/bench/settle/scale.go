package main

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/countersign/countersign/test/bench/measure"
)

// scale is the table of evaluators that work off the same queue.
func scale(ctx context.Context, s settings) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "| evaluators | evaluations a second | ÷ one | processors used, of %d | processor seconds for 1,000 | memory of the process |\n|--:|--:|--:|--:|--:|--:|\n", runtime.NumCPU())
	w, err := open(ctx, s.rtt, nil)
	if err != nil {
		return "", err
	}
	defer w.close()
	all, err := w.pulls("acme/widgets", s.work)
	if err != nil {
		return "", err
	}
	w.sim.ReleaseWebhooks(0)
	if err := w.settled(ctx); err != nil {
		return "", err
	}
	first := 0.0
	for _, replicas := range []int{1, 2, 4} {
		perSecond, cpu, took, err := w.workOff(ctx, all, replicas)
		if err != nil {
			return "", fmt.Errorf("%d evaluators: %w", replicas, err)
		}
		if first == 0 {
			first = perSecond
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		fmt.Fprintf(&b, "| %d | %.0f | %.2f | %.2f | %.1f | %d MB |\n", replicas, perSecond, perSecond/first, cpu.Seconds()/took.Seconds(),
			cpu.Seconds()*1000/float64(len(all)), m.Sys>>20)
	}
	return b.String(), nil
}

// workOff queues one evaluation for every pull request while no evaluator runs, and times so many of them at the queue.
func (w *world) workOff(ctx context.Context, all []pull, replicas int) (perSecond float64, cpu, took time.Duration, err error) {
	if err := w.sys.StopService(ctx, "evaluator"); err != nil {
		return 0, 0, 0, err
	}
	w.set(0)
	for _, p := range all {
		if _, err := w.sim.Review(p.repo, p.number, "alice", "COMMENTED"); err != nil {
			return 0, 0, 0, err
		}
	}
	if err := w.sim.Settle(ctx); err != nil {
		return 0, 0, 0, err
	}
	if err := w.drain(ctx, unrevoked); err != nil {
		return 0, 0, 0, err
	}
	w.set(w.rtt)
	before, began := measure.CPUTime(w.pg.Pid()), time.Now()
	for range replicas {
		if err := w.sys.StartReplica("evaluator"); err != nil {
			return 0, 0, 0, err
		}
	}
	if err := w.settled(ctx); err != nil {
		return 0, 0, 0, err
	}
	took = time.Since(began)
	return float64(len(all)) / took.Seconds(), measure.CPUTime(w.pg.Pid()) - before, took, nil
}
