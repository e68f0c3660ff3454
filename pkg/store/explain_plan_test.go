package store_test

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/store/storetest"
)

// fillReaders makes a database of so many open pull requests (a tenth of them undecided, each waiting on two of fifty owners), as many
// closed ones, and so many decisions, with the statistics that a database in use has.
func fillReaders(tb testing.TB, db *storetest.DB, pulls, decisions int) {
	tb.Helper()
	db.Exec(`INSERT INTO installation (installation_id, account_login) SELECT n, 'org-' || n FROM generate_series(1, 20) AS n`)
	db.Exec(`INSERT INTO repository (installation_id, repository_id, full_name) SELECT 1 + n % 20, n, 'org-' || (1 + n % 20) || '/repo-' || n FROM generate_series(1, 200) AS n`)
	db.Exec(`INSERT INTO pull (installation_id, repository_id, number, generation, head_sha, base_ref, state, title, author_login, updated_at)
		SELECT 1 + (1 + n % 200) % 20, 1 + n % 200, 1 + n / 200, 1, lpad(to_hex(n), 40, '0'), 'main', CASE WHEN n <= $1 THEN 'open' ELSE 'closed' END, 'change ' || n, 'octo', now() - make_interval(secs => n)
		FROM generate_series(1, 2 * $1) AS n`, pulls)
	db.Exec(`INSERT INTO head (installation_id, repository_id, head_sha, generation, invalidated_generation, run_id, run_generation)
		SELECT installation_id, repository_id, head_sha, 1, 1, 500 + number, 1 FROM pull`)
	db.Exec(`INSERT INTO decision (installation_id, sequence, repository_id, full_name, number, head_sha, generation, head_generation, authority_epoch, delivery_id, reason,
			evidence_digest, evidence, verdict, conclusion, title, summary, explanation, check_run_id, requested_at, decided_at, outcome, settled_at, previous_hash, hash)
		SELECT p.installation_id, n, p.repository_id, 'org/repo', p.number, p.head_sha, 1, n, 1, 'd', 'r', 'e', '{}', repeat(md5(n::text), 10), 'failure', 't', 's', 'x', 500, now(),
			now() - make_interval(secs => $2 - n), CASE WHEN n % 3 = 0 THEN 'reset' ELSE 'confirmed' END, now(), '', md5(n::text)
		FROM generate_series(1, $2) AS n JOIN pull p ON (p.repository_id, p.number) = (1 + (1 + n % (2 * $1)) % 200, 1 + (1 + n % (2 * $1)) / 200)`, pulls, decisions)
	db.Exec(`INSERT INTO standing (installation_id, repository_id, number, decision_id, head_sha, state, next_step, since)
		SELECT DISTINCT ON (p.repository_id, p.number) p.installation_id, p.repository_id, p.number, d.decision_id, p.head_sha,
			(ARRAY['approved', 'missing', 'missing', 'blocked'])[1 + p.number % 4], 'do this', now() - make_interval(mins => p.number)
		FROM pull p JOIN decision d USING (installation_id, repository_id, number) WHERE p.state = 'open' AND p.number % 10 <> 0 ORDER BY p.repository_id, p.number, d.decision_id DESC`)
	db.Exec(`UPDATE head h SET published_decision_id = s.decision_id, published_generation = 1 FROM standing s
		WHERE (h.installation_id, h.repository_id, h.head_sha) = (s.installation_id, s.repository_id, s.head_sha)`)
	db.Exec(`INSERT INTO waiting (installation_id, repository_id, number, owner, files, since)
		SELECT installation_id, repository_id, number, '@org/team-' || (number * k * 7) % 50, 3, since FROM standing, generate_series(1, 2) AS k WHERE state = 'missing' ON CONFLICT DO NOTHING`)
	db.Exec("ANALYZE")
}

// reading is one read that a page or a command makes.
type reading struct {
	name string
	read func() error
}

func readings(tb testing.TB, s *store.Store) []reading {
	tb.Helper()
	ctx := tb.Context()
	list := func(f store.PullFilter) func() error {
		return func() error {
			lines, err := s.ListOpen(ctx, f)
			if err == nil && len(lines) == 0 {
				err = fmt.Errorf("nothing was listed")
			}
			return err
		}
	}
	first, err := s.ListOpen(ctx, store.PullFilter{Limit: 500})
	if err != nil || len(first) < 500 {
		tb.Fatalf("%d, %v", len(first), err)
	}
	oldest, err := s.ListOpen(ctx, store.PullFilter{Limit: 500, Order: store.OrderOldest})
	if err != nil {
		tb.Fatal(err)
	}
	var visible []store.RepositoryID
	for n := range 100 {
		visible = append(visible, store.RepositoryID(2*n+1))
	}
	one := first[11]
	return []reading{
		{"the first page", list(store.PullFilter{})},
		{"a later page", list(store.PullFilter{After: &first[499]})},
		{"the oldest", list(store.PullFilter{Order: store.OrderOldest, After: &oldest[499]})},
		{"of one repository", list(store.PullFilter{FullName: one.FullName})},
		{"of one owner", list(store.PullFilter{Owner: "@org/team-7"})},
		{"by state and age", list(store.PullFilter{States: []store.State{store.StateMissing}, OlderThan: time.Minute})},
		{"of what a person may see", list(store.PullFilter{Only: visible})},
		{"the owners", func() error { _, err := s.ListOwners(ctx, nil, nil, 0); return err }},
		{"one pull request", func() error { _, err := s.ReadPull(ctx, one.Key); return err }},
		{"its decision", func() error { _, err := s.CurrentDecision(ctx, one.Key); return err }},
		{"its history", func() error { _, err := s.ListPullDecisions(ctx, one.Key, one.Head, 0, 20); return err }},
		{"by name", func() error { _, err := s.FindPull(ctx, one.FullName, one.Key.Number); return err }},
		{"decisions of a repository", func() error {
			_, err := s.ListDecisionLines(ctx, store.DecisionFilter{Installation: one.Key.Installation, Repository: one.Key.Repository})
			return err
		}},
		{"decisions since", func() error {
			_, err := s.ListDecisionLines(ctx, store.DecisionFilter{Since: time.Now().Add(-time.Hour)})
			return err
		}},
		{"the pulse", func() error { _, err := s.ReadPulse(ctx); return err }},
		{"missed deliveries", func() error { _, err := s.ListMissed(ctx, 100); return err }},
		{"the latest decisions of a repository", func() error {
			latest, err := s.ListLatestDecisions(ctx, one.Key.Installation, one.Key.Repository, 100)
			if err == nil && len(latest) == 0 {
				err = fmt.Errorf("nothing was listed")
			}
			return err
		}},
		{"operations", func() error {
			_, err := s.ListInstallations(ctx, 100)
			if err == nil {
				_, err = s.ListLeases(ctx, 100)
			}
			return err
		}},
	}
}

// What a page reads must not grow with the log of decisions: the database counts the pages of that table that are read by scanning it.
func TestReadersLeaveTheLogAlone(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	fillReaders(t, db, 1000, 20_000)
	scans := func(column string) int64 {
		return db.QueryInt("SELECT coalesce(" + column + ", 0) FROM pg_stat_user_tables WHERE relname = 'decision'")
	}
	before, looked := scans("seq_scan"), scans("idx_scan")
	s, err := store.Open(t.Context(), db.Config(storetest.Reader))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range readings(t, s) {
		if err := r.read(); err != nil {
			t.Errorf("%s: %v", r.name, err)
		}
	}
	s.Close() // a backend that ends hands its statistics over, all of a table at once
	for deadline := time.Now().Add(time.Minute); scans("idx_scan") == looked; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the statistics never arrived")
		}
	}
	if after := scans("seq_scan"); after != before {
		t.Errorf("the log of decisions was scanned %d times", after-before)
	}
}

// BenchmarkReaders measures them, each alone: COUNTERSIGN_BENCH_PULLS (10,000) open pull requests, COUNTERSIGN_BENCH_DECISIONS
// (1,000,000) decisions. It reports the 50th and the 95th percentile in milliseconds.
func BenchmarkReaders(b *testing.B) {
	size := func(name string, or int) int {
		n, err := strconv.Atoi(cmp.Or(os.Getenv(name), strconv.Itoa(or)))
		if err != nil {
			b.Fatal(err)
		}
		return n
	}
	db := storetest.New(b)
	fillReaders(b, db, size("COUNTERSIGN_BENCH_PULLS", 10_000), size("COUNTERSIGN_BENCH_DECISIONS", 1_000_000))
	for _, r := range readings(b, db.Store(storetest.Reader)) {
		b.Run(r.name, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				began := time.Now()
				if err := r.read(); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(took[len(took)*95/100].Microseconds())/1000, "p95-ms")
		})
	}
}
