// Command ingest measures how many webhooks a second ingress makes durable, against two limits of the same run: the same rows
// written by bare pgx, one transaction a delivery, and an HTTP server that only reads a body and verifies its signature.
//
//	go run ./test/bench/ingest                            # prints the table
//	go run ./test/bench/ingest -write docs/performance.md # also puts it between its markers there
//
// Everything runs in this process and beside one private PostgreSQL that flushes every commit to disk. Senders, servers and the
// database share the machine's processors, as the limits do.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime/pprof"
	"time"

	"github.com/countersign/countersign/test/bench/measure"
)

// settings are what a run is asked for.
type settings struct {
	senders, pulls int
	each           time.Duration
	rounds         int
	write          string
	roles          string
}

func main() {
	var s settings
	flag.IntVar(&s.senders, "senders", 64, "requests, or transactions, under way at once")
	flag.IntVar(&s.pulls, "pulls", 1000, "pull requests that deliveries are about, in 20 repositories")
	flag.DurationVar(&s.each, "each", 5*time.Second, "how long each measurement takes")
	flag.IntVar(&s.rounds, "rounds", 3, "how often each is repeated, in turn; the median counts")
	flag.StringVar(&s.write, "write", "", "page to put the table into, between its markers")
	flag.StringVar(&s.roles, "roles", "deploy/postgres/roles.sql", "the grants of production, from the root of the repository")
	profile := flag.String("cpuprofile", "", "file to write a processor profile of this process to")
	flag.Parse()
	if *profile != "" {
		f, err := os.Create(*profile)
		if err == nil {
			err = pprof.StartCPUProfile(f)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "ingest:", err)
			os.Exit(1)
		}
		defer pprof.StopCPUProfile()
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, s); err != nil {
		fmt.Fprintln(os.Stderr, "ingest:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, s settings) error {
	w, err := newWorld(ctx, s)
	if err != nil {
		return err
	}
	defer w.close()
	r, err := w.measure(ctx)
	if err != nil {
		return err
	}
	fmt.Print(r.table())
	if s.write == "" {
		return nil
	}
	return measure.Insert(s.write, beginMarker, endMarker, r.table())
}
