package costs

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/countersign/countersign/internal/rig"
	"github.com/countersign/countersign/pkg/checkrun"
	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/nudge"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/store/storetest"
	"github.com/countersign/countersign/services/evaluator"
	"github.com/countersign/countersign/services/invalidator"
)

var update = flag.Bool("update", false, "write the table into docs/performance.md")

const (
	page  = "../../docs/performance.md"
	begin = "<!-- requests: written by go test ./internal/costs -update -->\n"
	end   = "<!-- end of requests -->\n"
	// goal is the most that a typical pull request costs from the evaluator's claim to the proved check.
	goal = 8
)

// bench is an invalidator and an evaluator over one world.
type bench struct {
	*rig.Rig
	inv *invalidator.Worker
	ev  *evaluator.Worker
}

func setup(t *testing.T) *bench {
	t.Helper()
	b := &bench{Rig: rig.New(t)}
	worker := store.WorkerConfig{Concurrency: 1, Poll: 50 * time.Millisecond, Lease: time.Minute, RetryMax: time.Minute}
	tracer := noop.NewTracerProvider().Tracer("")
	b.inv = invalidator.New(invalidator.Deps{
		Store: b.Store(storetest.Invalidator), GitHub: func(int64) invalidator.GitHub { return b.Client(ghclient.InvalidatorPermissions) },
		Checks: b.Checks(), Worker: worker, Replica: "invalidator-1", Tracer: tracer, Log: b.Logger(), Metrics: prometheus.NewRegistry(),
	})
	b.ev = evaluator.New(evaluator.Deps{
		Store: b.Store(storetest.Evaluator), GitHub: func(int64) evaluator.GitHub { return b.Client(ghclient.EvaluatorPermissions) },
		Checks: b.Checks(), Replica: "evaluator-1", Tracer: tracer, Log: b.Logger(), Metrics: prometheus.NewRegistry(),
		Config: evaluator.Config{Check: checkrun.Config{Name: rig.CheckName, WriteTimeout: 5 * time.Second, GuardWait: 6 * time.Second}, Worker: worker},
	})
	return b
}

// work does everything that is due, the invalidator's part first as in life, and returns what each service asked.
func (b *bench) work(t *testing.T) (revoke, decide []string) {
	t.Helper()
	b.Sim.ResetRequests()
	b.drain(t, func() (bool, error) { return b.inv.Step(t.Context(), nudge.ViaPoll) })
	revoke = b.asked()
	b.Sim.ResetRequests()
	b.drain(t, func() (bool, error) { return b.ev.Step(t.Context(), nudge.ViaPoll) })
	return revoke, b.asked()
}

func (b *bench) drain(t *testing.T, step func() (bool, error)) {
	t.Helper()
	for range 100 + 2**storm {
		did, err := step()
		if err != nil && !errors.Is(err, store.ErrNoWork) {
			t.Fatalf("step: %v\n%s", err, b.Log)
		}
		if !did {
			return
		}
	}
	t.Fatalf("work does not end\n%s", b.Log)
}

// asked lists the requests by route; those that cost no budget end in "free".
func (b *bench) asked() []string {
	var list []string
	for _, q := range b.Sim.Requests() {
		if q.Route == rig.RouteToken {
			continue // once an hour
		}
		line := q.Method + " " + strings.NewReplacer("/repos/{owner}/{repo}", "", "{ref+}", "{ref}", "{commit_sha}", "{ref}", "{check_run_id}", "{id}", "{path+}", "{path}").Replace(q.Route)
		if strings.HasSuffix(line, " ") {
			line += "/" // the repository itself
		}
		if q.Status == 304 {
			line += " free"
		}
		list = append(list, line)
	}
	return list
}

// row is one line of the table.
type row struct {
	what           string
	revoke, decide []string
}

// TestRequests plays the events on a typical pull request, 20 files of 3 teams with 5 reviews, and holds the table to them.
func TestRequests(t *testing.T) {
	t.Parallel()
	b := setup(t)
	files := map[string]string{}
	for i := range 20 {
		files[fmt.Sprintf("%s/f%d", []string{"src", "docs", "deploy"}[i%3], i)] = "x"
	}
	n := b.Open(files)
	b.Approve(n, "alice", "carol", "bob", "erin", "alice")
	var rows []row
	play := func(what string, triggers int) {
		t.Helper()
		for range triggers {
			b.Trigger(n)
		}
		r := row{what: what}
		r.revoke, r.decide = b.work(t)
		rows = append(rows, r)
		if b.Successes(b.Key(n).SHA) != 1 {
			t.Fatalf("%s: not decided\n%s", what, b.Log)
		}
	}
	play("first evaluation of a head", 1)
	play("re-evaluation, nothing changed", 1)
	b.Pass(2 * time.Second)
	b.Approve(n, "bob")
	play("one new review", 1)
	b.Pass(2 * time.Second)
	if _, err := b.Sim.Push(b.World.Repository, n, "dave", map[string]string{"src/f0": "y"}); err != nil {
		t.Fatal(err)
	}
	b.Approve(n, "alice", "carol", "bob", "erin")
	play("a push, approved again", 1)
	play("50 webhooks for one pull request before the first is worked", 50)
	for _, r := range rows[1:3] {
		if len(r.decide) > goal {
			t.Errorf("%s: %d requests from claim to proved check, the goal is %d: %v", r.what, len(r.decide), goal, r.decide)
		}
	}
	hold(t, table(rows))
}

func table(rows []row) string {
	var b strings.Builder
	b.WriteString("| event | revoked by | decided by | requests | of which free |\n|---|--:|--:|--:|--:|\n")
	free := func(list []string) (n int) {
		for _, l := range list {
			if strings.HasSuffix(l, " free") {
				n++
			}
		}
		return n
	}
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %d |\n", r.what, len(r.revoke), len(r.decide), len(r.revoke)+len(r.decide), free(r.revoke)+free(r.decide))
	}
	b.WriteString("\n| event | service | requests, in order of their routes |\n|---|---|---|\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | invalidator | %s |\n| | evaluator | %s |\n", r.what, routes(r.revoke), routes(r.decide))
	}
	return b.String()
}

// routes counts equal requests and sorts them: what runs side by side has no order.
func routes(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	counts := map[string]int{}
	for _, l := range list {
		counts[l]++
	}
	var parts []string
	for l, n := range counts {
		text, free := strings.CutSuffix(l, " free")
		text = "`" + text + "`"
		if n > 1 {
			text = fmt.Sprintf("%d × %s", n, text)
		}
		if free {
			text += " (free)"
		}
		parts = append(parts, text)
	}
	slices.SortFunc(parts, func(a, b string) int { return strings.Compare(a[strings.Index(a, "`"):], b[strings.Index(b, "`"):]) })
	return strings.Join(parts, ", ")
}

// hold compares the page's table with what was counted, or writes it.
func hold(t *testing.T, want string) {
	t.Helper()
	if *update {
		write(t, begin, end, want)
		return
	}
	_, had, _ := between(t, begin, end)
	if diff := cmp.Diff(had, want); diff != "" {
		t.Errorf("%s is not what is sent (-page +sent); if that is meant, go test ./internal/costs -update\n%s", page, diff)
	}
}

// between splits the page at two marks: what stands up to the first, between them, and from the second on.
func between(t *testing.T, begin, end string) (before, had, after string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	had, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s lacks the mark %q or its end", page, strings.TrimSpace(begin))
	}
	return before + begin, had, end + after
}

// write replaces what is between two marks of the page.
func write(t *testing.T, begin, end, text string) {
	t.Helper()
	before, _, after := between(t, begin, end)
	if err := os.WriteFile(page, []byte(before+text+after), 0o644); err != nil { //nolint:gosec // a page of the documentation
		t.Fatal(err)
	}
}
