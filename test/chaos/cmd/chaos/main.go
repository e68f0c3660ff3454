//go:build chaos

// Command chaos runs schedules drawn from seeds and ends with one line about all of them; it exits 1 on any violation. See
// docs/reliability.md.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"sync"
	"time"

	"github.com/countersign/countersign/internal/hook"
	"github.com/countersign/countersign/test/chaos"
)

type settings struct {
	seed     uint64
	n        int
	parallel int
	out      string
	remove   string
	keep     bool
	profile  string
	until    time.Duration
	opts     chaos.Options
}

func main() {
	var s settings
	flag.Uint64Var(&s.seed, "seed", 0, "first seed; 0 draws one")
	flag.IntVar(&s.n, "n", 10, "schedules")
	flag.IntVar(&s.parallel, "parallel", 4, "schedules at once")
	flag.IntVar(&s.opts.Events, "events", 200, "events a schedule")
	flag.IntVar(&s.opts.Replicas, "replicas", 2, "replicas of every service")
	flag.IntVar(&s.opts.Slow, "slow", 1, "stretch every wait so many times: for slow machines and -race")
	flag.DurationVar(&s.opts.Patience, "patience", 10*time.Second, "how long nothing may move before a schedule counts as never settled")
	flag.BoolVar(&s.opts.Services, "services", false, "add what the services log to the event log")
	flag.StringVar(&s.opts.Binaries, "binaries", "", "directory of the services' binaries: run them as processes")
	flag.StringVar(&s.out, "out", ".cache/chaos", "directory for the event logs of failing seeds")
	flag.StringVar(&s.remove, "remove", "", "fences to take away, separated by commas (internal/hook)")
	flag.BoolVar(&s.keep, "keep", false, "write every event log, not only those of failing seeds")
	flag.StringVar(&s.profile, "profile", "", "write a CPU profile of this process")
	flag.DurationVar(&s.until, "for", 0, "begin no schedule after so long; 0 is no bound")
	flag.Parse()
	ok, err := run(s)
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(2)
	}
	if !ok {
		os.Exit(1)
	}
}

func run(s settings) (ok bool, err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if s.profile != "" {
		f, err := os.Create(s.profile)
		if err != nil {
			return false, err
		}
		if err := pprof.StartCPUProfile(f); err != nil {
			return false, err
		}
		defer pprof.StopCPUProfile()
	}
	hook.SetPace(100)
	var fences []hook.Fence
	for f := range strings.SplitSeq(s.remove, ",") {
		if f != "" {
			fences = append(fences, hook.Fence(f))
		}
	}
	hook.Remove(fences...)
	if s.seed == 0 {
		s.seed = chaos.Random()
	}
	cluster, err := chaos.StartCluster(ctx)
	if err != nil {
		return false, err
	}
	defer func() { _ = cluster.Stop(context.WithoutCancel(ctx)) }()
	s.opts.Cluster = cluster
	// Schedules that restart Postgres have one of their own, one at a time.
	apart := &apart{}
	defer apart.stop()
	var mu sync.Mutex
	var failure error
	sum, began := chaos.NewSummary(), time.Now()
	seeds := make(chan uint64)
	var workers sync.WaitGroup
	for range max(1, s.parallel) {
		workers.Go(func() {
			for seed := range seeds {
				res, err := one(ctx, chaos.Draw(seed, s.opts.Events), s.opts, apart)
				mu.Lock()
				if err != nil {
					failure = err
					fmt.Fprintln(os.Stderr, err)
				} else {
					sum.Add(res)
					report(s, sum, res, began)
				}
				mu.Unlock()
			}
		})
	}
	for _, seed := range chaos.Seeds(s.seed, s.n) {
		if ctx.Err() != nil || (s.until > 0 && time.Since(began) > s.until) {
			break
		}
		seeds <- seed
	}
	close(seeds)
	workers.Wait()
	fmt.Printf("seeds=%d..%d wall=%s %s\n", s.seed, s.seed+uint64(s.n)-1, time.Since(began).Round(time.Second), sum)
	return sum.Total() == 0 && failure == nil && sum.Schedules > 0, failure
}

// apart is the cluster of schedules that restart it.
type apart struct {
	mu      sync.Mutex
	cluster *chaos.Cluster
}

func (a *apart) stop() {
	if a.cluster != nil {
		_ = a.cluster.Stop(context.Background())
	}
}

func one(ctx context.Context, plan chaos.Plan, opts chaos.Options, a *apart) (chaos.Result, error) {
	if plan.Restarts {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.cluster == nil {
			cluster, err := chaos.StartCluster(ctx)
			if err != nil {
				return chaos.Result{}, err
			}
			a.cluster = cluster
		}
		opts.Cluster = a.cluster
	}
	return chaos.Run(ctx, plan, opts)
}

// report says how it goes, and keeps the log of a seed that failed.
func report(s settings, sum *chaos.Summary, res chaos.Result, began time.Time) {
	if len(res.Violations) == 0 && !s.keep {
		fmt.Fprintf(os.Stderr, "%5d/%d seed %d: %s (settling %s), %d violations so far, %s\n", sum.Schedules, s.n, res.Plan.Seed,
			res.Took.Round(time.Millisecond), res.Settling.Round(time.Millisecond), sum.Total(), time.Since(began).Round(time.Second))
		return
	}
	path := filepath.Join(s.out, fmt.Sprintf("seed-%d.log", res.Plan.Seed))
	err := os.MkdirAll(s.out, 0o755)
	if err == nil {
		var f *os.File
		if f, err = os.Create(path); err == nil {
			_, err = res.Log.WriteTo(f)
			_ = f.Close()
		}
	}
	fmt.Fprintf(os.Stderr, "%5d/%d seed %d: %d VIOLATIONS in %s; its log is %s (%v)\n", sum.Schedules, s.n, res.Plan.Seed, len(res.Violations), res.Took.Round(time.Millisecond), path, err)
	for i, v := range res.Violations {
		if i < 5 {
			fmt.Fprintf(os.Stderr, "      %s: %s\n", v.Flag, v.What)
		}
	}
}
