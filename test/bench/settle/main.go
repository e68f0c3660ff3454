// Command settle measures how fast Countersign answers and what it spends: from a change on GitHub to the old success revoked and
// to the final check, idle and beside a storm, with GitHub answering at once and after 30 ms; how bursts of webhooks are
// coalesced; and how evaluations scale with replicas.
//
//	go run ./test/bench/settle                            # prints the tables, some ten minutes
//	go run ./test/bench/settle -only latency              # one part: latency, bursts or scale
//	go run ./test/bench/settle -write docs/performance.md # also puts them between their markers there
//
// The five services, a private PostgreSQL that flushes every commit to disk, NATS and the stand-in for GitHub share the
// machine's processors.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/countersign/countersign/test/bench/measure"
)

// settings are what a run is asked for.
type settings struct {
	only, write string
	events      int
	storm       int
	work        int
	rtt         time.Duration
}

// part is one table.
type part struct {
	name string
	run  func(context.Context, settings) (string, error)
}

var parts = []part{{"latency", latency}, {"bursts", bursts}, {"scale", scale}}

func main() {
	var s settings
	flag.StringVar(&s.only, "only", "", "one part instead of all: latency, bursts or scale")
	flag.StringVar(&s.write, "write", "", "page to put the tables into, between their markers")
	flag.IntVar(&s.events, "events", 100, "changes of each kind that are timed, one after another")
	flag.IntVar(&s.storm, "storm", 2000, "open pull requests that the storm decides again; events are timed while it drains")
	flag.IntVar(&s.work, "work", 400, "evaluations that each number of replicas works off")
	flag.DurationVar(&s.rtt, "rtt", 30*time.Millisecond, "how long the slower GitHub takes to answer")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, s); err != nil {
		fmt.Fprintln(os.Stderr, "settle:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, s settings) error {
	known := false
	for _, p := range parts {
		if s.only != "" && s.only != p.name {
			continue
		}
		known = true
		table, err := p.run(ctx, s)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		fmt.Println(table)
		if s.write == "" {
			continue
		}
		begin, end := "<!-- settle "+p.name+": written by go run ./test/bench/settle -write -->", "<!-- /settle "+p.name+" -->"
		if err := measure.Insert(s.write, begin, end, table); err != nil {
			return err
		}
	}
	if !known {
		return errors.New("-only: want latency, bursts or scale")
	}
	return nil
}
