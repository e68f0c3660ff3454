// Command console measures how long the console's pages take over a large database: open pull requests, and a long log of decisions.
//
//	go run ./test/bench/console                            # prints the table
//	go run ./test/bench/console -write docs/performance.md # also puts it between its markers there
//
// A page is made and written in this process, without a network; PostgreSQL is private and beside it. Older decisions are small, the
// newest of each pull request has the evidence of a typical one, and one pull request changes 3,000 files.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
)

// settings are what a run is asked for.
type settings struct {
	pulls, repositories, decisions int
	requests, readers              int
	write, roles                   string
}

func main() {
	var s settings
	flag.IntVar(&s.pulls, "pulls", 10_000, "open pull requests; as many closed ones are beside them")
	flag.IntVar(&s.repositories, "repositories", 500, "repositories that they are in")
	flag.IntVar(&s.decisions, "decisions", 1_000_000, "decisions in the log")
	flag.IntVar(&s.requests, "requests", 300, "requests for each page")
	flag.IntVar(&s.readers, "readers", 2, "requests under way at once")
	flag.StringVar(&s.write, "write", "", "page to put the table into, between its markers")
	flag.StringVar(&s.roles, "roles", "deploy/postgres/roles.sql", "the grants of production, from the root of the repository")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, s); err != nil {
		fmt.Fprintln(os.Stderr, "console:", err)
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
	return insert(s.write, r.table())
}
