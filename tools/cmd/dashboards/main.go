// Command dashboards writes Grafana's dashboards from code, and holds their expressions to a running Prometheus.
//
//	dashboards -write               write deploy/grafana/dashboards
//	dashboards -rules FILE          write every panel's expression as a rule, for promtool to parse
//	dashboards -pictures DIR -check URL   also draw every dashboard with its data
//	dashboards -check URL           ask a Prometheus every expression of every panel and rule; exit 1 where one has no data
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"image/png"
	"os"
	"os/signal"
	"path/filepath"
	"time"

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
	pictures := flag.String("pictures", "", "with -check: draw every dashboard with its data into this directory")
	span := flag.Duration("span", 15*time.Minute, "with -pictures: the time they show")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *write, *rules, *check, *interval, *verbose, *pictures, *span); err != nil {
		fmt.Fprintln(os.Stderr, "dashboards:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, write bool, rules, check, interval string, verbose bool, pictures string, span time.Duration) error {
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
	if pictures != "" {
		if err := draw(ctx, check, pictures, interval, span); err != nil {
			return err
		}
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

// draw writes one picture a dashboard.
func draw(ctx context.Context, base, dir, interval string, span time.Duration) error {
	for _, d := range dashboards.All() {
		picture, err := dashboards.Picture(ctx, base, d, time.Now(), span, interval)
		if err != nil {
			return err
		}
		file, err := os.Create(filepath.Join(dir, d.UID+".png"))
		if err != nil {
			return err
		}
		err = (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(file, picture)
		if err := errors.Join(err, file.Close()); err != nil {
			return fmt.Errorf("draw %s: %w", d.UID, err)
		}
	}
	return nil
}
