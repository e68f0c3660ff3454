// Command dashboards writes Grafana's dashboards from code, and holds their expressions to a running Prometheus.
//
//	dashboards -write               write deploy/grafana/dashboards
//	dashboards -rules FILE          write every panel's expression as a rule, for promtool to parse
//	dashboards -check URL           ask a Prometheus every expression of every panel and rule; exit 1 where one has no data
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"github.com/countersign/countersign/tools/dashboards"
	"github.com/countersign/countersign/tools/house"
)

func main() {
	var (
		write    = flag.Bool("write", false, "write the dashboards' files")
		rules    = flag.String("rules", "", "write every panel's expression as a rule to this file")
		check    = flag.String("check", "", "URL of a Prometheus to ask every expression")
		interval = flag.String("interval", "1m", "with -check: what $__rate_interval stands for")
		verbose  = flag.Bool("v", false, "with -check: print every expression, not only what is empty")
	)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *write, *rules, *check, *interval, *verbose); err != nil {
		fmt.Fprintln(os.Stderr, "dashboards:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, write bool, rules, check, interval string, verbose bool) error {
	root, err := house.Root(".")
	if err != nil {
		return err
	}
	if write {
		if err := dashboards.Write(root); err != nil {
			return err
		}
	}
	if rules != "" {
		text, err := dashboards.AsRules()
		if err != nil {
			return err
		}
		if err := os.WriteFile(rules, text, 0o644); err != nil {
			return err
		}
	}
	if check == "" {
		return nil
	}
	all, err := dashboards.Check(ctx, root, check, interval)
	if err != nil {
		return err
	}
	bad := 0
	for _, a := range all {
		switch {
		case a.Err != nil:
			fmt.Printf("FAILED %s\n       %s\n       %v\n", a.Where, a.Expr, a.Err)
		case a.Bad():
			fmt.Printf("EMPTY  %s\n       %s\n", a.Where, a.Expr)
		case verbose || a.Series == 0:
			fmt.Printf("%6d %s\n", a.Series, a.Where)
		}
		if a.Bad() {
			bad++
		}
	}
	fmt.Println(dashboards.Summary(all))
	if bad > 0 {
		return fmt.Errorf("%d expressions failed or are empty without being declared so", bad)
	}
	return nil
}
