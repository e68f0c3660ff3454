package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/countersign/countersign/pkg/policy"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/store/localpg"
	"github.com/countersign/countersign/services/console"
)

// world is the loaded database and the console over it.
type world struct {
	settings
	pg      *localpg.Server
	store   *store.Store
	console *console.Console
	loaded  time.Duration
	version string
}

func newWorld(ctx context.Context, s settings) (*world, error) {
	roles, err := os.ReadFile(s.roles)
	if err != nil {
		return nil, fmt.Errorf("read the grants: %w", err)
	}
	w := &world{settings: s}
	log := func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
	if w.pg, err = localpg.Start(ctx, localpg.Options{MaxConnections: 60, Log: log}); err != nil {
		return nil, err
	}
	if err := w.open(ctx, string(roles)); err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

func (w *world) open(ctx context.Context, roles string) error {
	url := w.pg.URL("postgres")
	if err := store.Migrate(ctx, url, roles, time.Minute); err != nil {
		return err
	}
	began := time.Now()
	if err := w.load(ctx, url); err != nil {
		return fmt.Errorf("load: %w", err)
	}
	w.loaded = time.Since(began)
	fmt.Fprintf(os.Stderr, "loaded in %s\n", w.loaded.Round(time.Second))
	var err error
	w.store, err = store.Open(ctx, store.Config{URL: url, MaxConns: 8, GuardConns: 1, ConnectTimeout: 3 * time.Second, PoolTimeout: 2 * time.Second, StatementLimit: 30 * time.Second})
	if err != nil {
		return err
	}
	w.console, err = console.New(console.Config{Listen: "127.0.0.1:0", Open: true, AccessAge: time.Minute, Session: time.Hour}, console.Deps{Store: w.store})
	return err
}

func (w *world) close() {
	if w.store != nil {
		w.store.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	_ = w.pg.Stop(ctx)
}

// load writes the rows in the shape that services leave behind: half of the pull requests are open; of those one in ten is being
// evaluated, the rest stand where their newest decision says.
func (w *world) load(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	if err := conn.QueryRow(ctx, "SHOW server_version").Scan(&w.version); err != nil {
		return err
	}
	typical, large := evidence(20), evidence(3000)
	verdict := policy.Evaluate(typical)
	wide := policy.Evaluate(large)
	steps := []struct {
		sql  string
		args []any
	}{
		{"SET synchronous_commit = off", nil},
		{"INSERT INTO installation (installation_id, account_login) SELECT i, 'org-' || i FROM generate_series(1, 20) AS i", nil},
		{"INSERT INTO repository (installation_id, repository_id, full_name) SELECT 1 + r % 20, r, 'org-' || (1 + r % 20) || '/repo-' || r FROM generate_series(1, $1::integer) AS r", []any{w.repositories}},
		{`INSERT INTO pull (installation_id, repository_id, number, head_sha, base_ref, state, title, author_login, generation, updated_at)
			SELECT 1 + (1 + n % $2::integer) % 20, 1 + n % $2::integer, n, md5('head' || n) || '00000000', 'main', CASE WHEN n <= $1 THEN 'open' ELSE 'closed' END,
				'Change number ' || n, 'person-' || n % 300, 3, now() - make_interval(secs => n)
			FROM generate_series(1, 2 * $1::integer) AS n`, []any{w.pulls, w.repositories}},
		{`INSERT INTO head (installation_id, repository_id, head_sha, generation, invalidated_generation, run_id, run_generation)
			SELECT installation_id, repository_id, head_sha, 3, 3, number, 3 FROM pull`, nil},
		{`INSERT INTO decision (installation_id, sequence, repository_id, full_name, number, head_sha, generation, head_generation, authority_epoch, delivery_id, reason,
				evidence_digest, evidence, verdict, conclusion, title, summary, explanation, check_run_id, requested_at, decided_at, outcome, settled_at, previous_hash, hash)
			SELECT p.installation_id, d, p.repository_id, 'org-' || p.installation_id || '/repo-' || p.repository_id, p.number, md5('older' || d) || '00000000', 1, 1, 1, 'delivery-' || d,
				'pull_request.synchronize', md5(d::text), '{}', '{}', 'failure', 'Approval required', '', '', d, now(), now() - make_interval(mins => $2 - d), 'reset', now() - make_interval(mins => $2 - d), '', ''
			FROM generate_series(1, $2::integer) AS d JOIN pull p ON p.number = 1 + d % (2 * $1::integer) AND p.repository_id = 1 + (1 + d % (2 * $1::integer)) % $3::integer`,
			[]any{w.pulls, max(0, w.decisions-w.pulls), w.repositories}},
		{`INSERT INTO decision (installation_id, sequence, repository_id, full_name, number, head_sha, generation, head_generation, authority_epoch, delivery_id, reason,
				evidence_digest, evidence, verdict, conclusion, title, summary, explanation, check_run_id, requested_at, decided_at, outcome, settled_at, previous_hash, hash)
			SELECT p.installation_id, $2::integer + p.number, p.repository_id, 'org-' || p.installation_id || '/repo-' || p.repository_id, p.number, p.head_sha, 3, 3, 1, 'delivery',
				'pull_request_review.submitted', 'digest', CASE WHEN number = 1 THEN $5::text ELSE $3::text END, CASE WHEN number = 1 THEN $6::text ELSE $4::text END, 'failure', 'Approval required: somebody must approve',
				'', '', p.number, now(), now(), 'confirmed', now() - make_interval(secs => p.number), '', ''
			FROM pull p WHERE p.number <= $1::integer`,
			[]any{w.pulls, w.decisions, string(typical.MarshalCanonical()), string(verdict.MarshalCanonical()), string(large.MarshalCanonical()), string(wide.MarshalCanonical())}},
		{`UPDATE head h SET published_decision_id = d.decision_id, published_generation = 3 FROM decision d
			WHERE d.outcome = 'confirmed' AND (d.head_sha, d.repository_id, d.installation_id) = (h.head_sha, h.repository_id, h.installation_id)`, nil},
		{`INSERT INTO standing (installation_id, repository_id, number, decision_id, head_sha, state, next_step, since)
			SELECT installation_id, repository_id, number, decision_id, head_sha, CASE WHEN number % 3 = 0 THEN 'approved' ELSE 'missing' END, 'somebody must approve', now() - make_interval(secs => number)
			FROM decision WHERE outcome = 'confirmed'`, nil},
		{`INSERT INTO waiting (installation_id, repository_id, number, owner, files, since)
			SELECT s.installation_id, s.repository_id, s.number, '@org-' || s.installation_id || '/team-' || (s.number + k) % 40, 3, s.since FROM standing s, generate_series(0, 1) AS k WHERE s.state = 'missing'`, nil},
		{`INSERT INTO evaluation (installation_id, repository_id, number, generation, head_sha, head_generation, authority_epoch, reason)
			SELECT installation_id, repository_id, number, 3, head_sha, 3, 1, 'pull_request.synchronize' FROM pull WHERE state = 'open' AND number % 10 = 0`, nil},
		{`INSERT INTO delivery (delivery_id, event, action, installation_id, received_at) SELECT 'delivery-' || d, 'push', '', 1 + d % 20, now() - make_interval(secs => d) FROM generate_series(1, 200000) AS d`, nil},
		{`INSERT INTO delivery_gap (guid, event, kind, state, attempt_id, attempted_at, found_at, settled_at) SELECT 'gap-' || d, 'push', 'failed', 'filled', d, now(), now() - make_interval(mins => d), now() FROM generate_series(1, 20000) AS d`, nil},
		{"VACUUM ANALYZE", nil},
	}
	for i, s := range steps {
		began := time.Now()
		if _, err := conn.Exec(ctx, s.sql, s.args...); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
		if d := time.Since(began); d > 5*time.Second {
			fmt.Fprintf(os.Stderr, "step %d took %s\n", i, d.Round(time.Second))
		}
	}
	return nil
}

// evidence is of a pull request with so many files in two owner sets, three teams and five reviews.
func evidence(files int) policy.Snapshot {
	const head, base = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "cccccccccccccccccccccccccccccccccccccccc"
	s := policy.Snapshot{
		Version: policy.SnapshotVersion, Now: time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC), HeadSHA: head,
		Repository: policy.Repository{ID: 2, FullName: "org-3/repo-2", Owner: "org-3", OwnerType: "Organization"}, Settings: policy.Settings{CheckName: "Countersign / approval"},
		PullsState: policy.FactPresent,
		Pulls: []policy.PullRequest{{
			Number: 1, Author: &policy.Actor{ID: 5, Login: "dave", Type: "User"}, BaseRef: "main", BaseSHA: base, HeadSHA: head, Labels: []string{}, ChangedFiles: files,
			Files: policy.FileList{State: policy.FactPresent}, Reviews: policy.ReviewList{State: policy.FactPresent},
		}},
		Bases: map[string]policy.Base{base: {
			Codeowners:       policy.FileFact{State: policy.FactPresent, Path: ".github/CODEOWNERS", Text: "* @org-3/core\n/web/ @org-3/web @org-3/design\n"},
			CodeownersErrors: policy.CodeownersErrorList{State: policy.FactPresent},
			Policy:           policy.FileFact{State: policy.FactPresent, Path: policy.PolicyPath, Text: "schema_version = 1\nenabled = true\n"},
			FallbackPolicy:   policy.FileFact{State: policy.FactAbsent},
		}},
		OrganizationPolicy: policy.OrganizationPolicy{Repository: policy.FactPresent, Policy: policy.FileFact{State: policy.FactAbsent}, FallbackPolicy: policy.FileFact{State: policy.FactAbsent}},
		Teams:              map[string]policy.TeamFact{}, Memberships: map[string]map[string]policy.Membership{}, Users: map[string]policy.UserFact{},
	}
	p := &s.Pulls[0]
	for i := range files {
		p.Files.Items = append(p.Files.Items, policy.ChangedFile{Path: fmt.Sprintf("%s/package%d/file%d.go", []string{"src", "web"}[i%2], i%17, i), Status: "modified"})
	}
	for i, team := range []string{"org-3/core", "org-3/web", "org-3/design"} {
		s.Teams[team] = policy.TeamFact{State: policy.FactPresent, ID: int64(i + 1), Privacy: "closed", Permission: "push"}
		s.Memberships[team] = map[string]policy.Membership{}
		for j := range 5 {
			s.Memberships[team][fmt.Sprintf("person-%d", j)] = policy.MembershipNone
		}
	}
	for j := range 5 {
		p.Reviews.Items = append(p.Reviews.Items, policy.Review{
			ID: int64(100 + j), State: "APPROVED", Author: &policy.Actor{ID: int64(50 + j), Login: fmt.Sprintf("person-%d", j), Type: "User"}, CommitID: head, SubmittedAt: s.Now,
		})
	}
	return s
}
