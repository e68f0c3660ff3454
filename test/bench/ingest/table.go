package main

import (
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/countersign/countersign/test/bench/measure"
)

const (
	beginMarker = "<!-- ingest: written by go run ./test/bench/ingest -write -->"
	endMarker   = "<!-- /ingest -->"
)

func (r result) table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d senders, signed bodies of %d KB, %d pull requests in %d repositories; PostgreSQL %s with fsync on; %s %s/%s, %d processors for senders, servers and\n",
		r.senders, bodySize>>10, r.pulls, repositories, r.version, runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	fmt.Fprintf(&b, "database together; median of %d runs of %s, taken in turn.\n\n", r.rounds, r.each)
	b.WriteString("| | a second | ingress ÷ this | goal | processor time of one, senders included | this ÷ ingress |\n|---|--:|--:|--:|--:|--:|\n")
	fmt.Fprintf(&b, "| ingress: 202 after the commit | %.0f | | | %s | |\n", r.ingest, us(r.ingestCPU))
	fmt.Fprintf(&b, "| bare pgx: begin, four statements, commit; %d connections | %.0f | %.2f | ≥ 2 | %s | %.2f |\n",
		r.senders, r.bare, r.ingest/r.bare, us(r.bareCPU), float64(r.bareCPU)/float64(r.ingestCPU))
	fmt.Fprintf(&b, "| HTTP server that only verifies | %.0f | %.2f | ≥ 0.35 | %s | %.2f |\n\n",
		r.limit, r.ingest/r.limit, us(r.limitCPU), float64(r.limitCPU)/float64(r.ingestCPU))
	b.WriteString("| load | a second | answered within, p50 | p99 | goal for p99 |\n|---|--:|--:|--:|--:|\n")
	fmt.Fprintf(&b, "| half, on a clock that waits for nobody | %.0f | %s | %s | < 50 ms |\n", r.half, measure.Millis(r.halfP50), measure.Millis(r.halfP99))
	fmt.Fprintf(&b, "| all that %d senders get answered | %.0f | %s | %s | |\n", r.senders, r.ingest, measure.Millis(r.fullP50), measure.Millis(r.fullP99))
	return b.String()
}

func us(d time.Duration) string { return fmt.Sprintf("%d µs", d.Microseconds()) }
