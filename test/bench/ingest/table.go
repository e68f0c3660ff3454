package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
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
	fmt.Fprintf(&b, "| half, on a clock that waits for nobody | %.0f | %s | %s | < 50 ms |\n", r.half, ms(r.halfP50), ms(r.halfP99))
	fmt.Fprintf(&b, "| all that %d senders get answered | %.0f | %s | %s | |\n", r.senders, r.ingest, ms(r.fullP50), ms(r.fullP99))
	return b.String()
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", d.Seconds()*1000) }

func us(d time.Duration) string { return fmt.Sprintf("%d µs", d.Microseconds()) }

// insert replaces what stands between the markers of a page.
func insert(path, table string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, found := strings.Cut(string(text), beginMarker)
	_, after, closed := strings.Cut(rest, endMarker)
	if !found || !closed {
		return fmt.Errorf("%s: want the lines %q and %q", path, beginMarker, endMarker)
	}
	return os.WriteFile(path, []byte(before+beginMarker+"\n"+table+endMarker+after), 0o644)
}
