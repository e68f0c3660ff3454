package store_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/store/storetest"
)

// backlog queues n rows of an installation in a lane of all three queues: heads that wait for their revocation, evaluations
// whose head is invalidated, and repository-wide authority. Everything is due, and older than what comes after it.
func backlog(db *storetest.DB, installation, lane, n int) {
	seed(db, `
		INSERT INTO installation (installation_id) VALUES (:i) ON CONFLICT DO NOTHING;
		INSERT INTO pull (installation_id, repository_id, number, generation, head_sha)
			SELECT :i, 10 + :lane, n, 1, md5(n || 'e' || :i || :lane) || '00000000' FROM generate_series(1, :n) n;
		INSERT INTO head (installation_id, repository_id, head_sha, lane, generation, invalidated_generation, invalidation_available_at)
			SELECT :i, 10 + :lane, md5(n || kind || :i || :lane) || '00000000', :lane, 1, CASE kind WHEN 'e' THEN 1 ELSE 0 END, now() - interval '1 hour'
			FROM generate_series(1, :n) n, (VALUES ('e'), ('h')) AS k(kind);
		INSERT INTO evaluation (installation_id, repository_id, number, generation, head_sha, head_generation, authority_epoch, reason, lane, available_at, awaits_revocation)
			SELECT :i, 10 + :lane, n, 1, md5(n || 'e' || :i || :lane) || '00000000', 1, 1, 'x', :lane, now() - interval '1 hour', false FROM generate_series(1, :n) n;
		INSERT INTO authority (installation_id, scope, repository_id, lane, epoch, reason, available_at)
			SELECT :i, 'repository', 1000000 * (:lane + 1) + n, least(:lane, 1), 1, 'x', now() - interval '1 hour' FROM generate_series(1, :n) n`,
		":i", installation, ":lane", lane, ":n", n)
}

// seed runs statements with their names replaced, without the foreign keys' checks, which are most of what such rows cost.
func seed(db *storetest.DB, sql string, names ...any) {
	var pairs []string
	for _, v := range names {
		pairs = append(pairs, fmt.Sprint(v))
	}
	db.Exec("SET session_replication_role = replica; " + strings.NewReplacer(pairs...).Replace(sql))
}

// claimers claim one row of each queue and say whose it was.
func claimers(b *bundle) map[string]func(ctx context.Context) (store.InstallationID, store.Lane, error) {
	return map[string]func(context.Context) (store.InstallationID, store.Lane, error){
		"invalidation": func(ctx context.Context) (store.InstallationID, store.Lane, error) {
			inv, err := b.invalidator.ClaimInvalidation(ctx, "invalidator-1", ttl)
			return inv.Head.Installation, inv.Lane, err
		},
		"evaluation": func(ctx context.Context) (store.InstallationID, store.Lane, error) {
			ev, err := b.evaluator.ClaimEvaluation(ctx, "evaluator-1", ttl)
			if err != nil {
				return 0, 0, err
			}
			return ev.Head.Installation, ev.Rows[0].Lane, nil
		},
		"authority": func(ctx context.Context) (store.InstallationID, store.Lane, error) {
			a, err := b.fanout.ClaimAuthority(ctx, "fanout-1", ttl)
			return a.Installation, store.Lane(a.Repository / 2000000), err
		},
	}
}

// drain claims n rows and lists whose they were.
func drain(t *testing.T, ctx context.Context, claim func(context.Context) (store.InstallationID, store.Lane, error), n int) (who []store.InstallationID, lanes []store.Lane) {
	t.Helper()
	for range n {
		i, lane, err := claim(ctx)
		if err != nil {
			t.Fatal(err)
		}
		who, lanes = append(who, i), append(lanes, lane)
	}
	return who, lanes
}

func TestTurns(t *testing.T) {
	t.Parallel()
	for _, queue := range []string{"invalidation", "evaluation", "authority"} {
		t.Run("fairness: beside 5,000 rows of a storm and 500 fresh ones another installation's fresh event is drawn second, from "+queue, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			claim := claimers(b)[queue]
			backlog(b.db, 1, 1, 5000)
			backlog(b.db, 1, 0, 500)
			drain(t, t.Context(), claim, 3)
			backlog(b.db, 2, 0, 1)
			if who, _ := drain(t, t.Context(), claim, 2); !slices.Contains(who, 2) {
				t.Errorf("the next two claims served %v", who)
			}
		})
		t.Run("fairness: a storm never delays the same installation's fresh events, in "+queue, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			claim := claimers(b)[queue]
			backlog(b.db, 1, 1, 5000)
			drain(t, t.Context(), claim, 5)
			backlog(b.db, 1, 0, 3)
			if _, lanes := drain(t, t.Context(), claim, 3); !slices.Equal(lanes, []store.Lane{0, 0, 0}) {
				t.Errorf("lanes %v, want the three fresh rows", lanes)
			}
		})
		t.Run("fairness: installations take turns whatever each has, and the patient lanes are not stopped, in "+queue, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			claim := claimers(b)[queue]
			for installation, n := range map[int]int{1: 300, 2: 20, 3: 20} {
				backlog(b.db, installation, 0, n)
			}
			backlog(b.db, 4, 1, 20)
			who, _ := drain(t, t.Context(), claim, 48)
			count := map[store.InstallationID]int{}
			for _, i := range who {
				count[i]++
			}
			for i := store.InstallationID(1); i <= 3; i++ {
				if count[i] != 15 {
					t.Errorf("installation %d was served %d times of 48, want 15", i, count[i])
				}
			}
			if count[4] != 3 {
				t.Errorf("the patient lane was served %d times of 48, want 3", count[4])
			}
		})
		t.Run("fairness: a claim leaves alone what it was told to, and installations that are paused, in "+queue, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			claim := claimers(b)[queue]
			backlog(b.db, 1, 0, 3)
			backlog(b.db, 2, 0, 3)
			backlog(b.db, 3, 1, 3)
			b.db.Exec("UPDATE installation SET paused_until = now() + interval '1 hour' WHERE installation_id = 2")
			only := store.WithDraw(t.Context(), store.Draw{FreshOnly: true, Except: []store.InstallationID{1}})
			if i, _, err := claim(only); !errors.Is(err, store.ErrNoWork) {
				t.Errorf("claimed of %d, %v", i, err)
			}
			if who, _ := drain(t, store.WithDraw(t.Context(), store.Draw{Except: []store.InstallationID{1}}), claim, 1); who[0] != 3 {
				t.Errorf("claimed of %v", who)
			}
		})
	}
	t.Run("RG-211 of one installation the broadest is drawn first, then the oldest; a split's rows come after what events ask for", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		for _, row := range []string{"'repository', 10, '', 1, '9 min'", "'base', 11, 'main', 0, '9 min'", "'base', 12, 'main', 0, '8 min'", "'repository', 13, '', 0, '1 min'", "'installation', 0, '', 0, '0 min'"} {
			b.db.Exec("INSERT INTO authority (installation_id, reason, epoch, scope, repository_id, base_ref, lane, available_at) SELECT 1, 'x', 1, s, r, b, l, now() - a::interval FROM (VALUES (" + row + ")) AS v(s, r, b, l, a)")
		}
		var got []store.RepositoryID
		for range 5 {
			got = append(got, b.claimAuthority(t).Repository)
		}
		if !slices.Equal(got, []store.RepositoryID{0, 13, 11, 12, 10}) {
			t.Errorf("drawn in the order %v", got)
		}
	})
}

// TestPlans holds claims to a cost that does not follow the backlog: pages touched, whatever plan was chosen, with plans made for
// the parameters and with the generic plan that a prepared statement ends up with, by old statistics and by fresh ones.
func TestPlans(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("a hundred thousand rows")
	}
	const most = 150
	db := storetest.New(t) // without the oracle, which would take longer than the test
	cost := map[string]int{}
	size := 0
	modes := []string{"force_custom_plan", "force_generic_plan"}
	// Tables are analyzed one by one, at any time.
	statistics := []struct{ known, analyze string }{
		{"of a tenth or nothing", ""}, {"fresh of the queue", "ANALYZE evaluation"}, {"fresh of the heads too", "ANALYZE head"}, {"fresh", "ANALYZE"},
	}
	for _, more := range []int{10_000, 90_000} {
		seedPlans(db, size, more)
		size += more
		for _, st := range statistics {
			if st.analyze != "" {
				db.Exec(st.analyze)
			}
			for queue, sql := range store.ClaimStatements {
				for _, mode := range modes {
					pages := pagesTouched(t, db, sql, mode)
					cost[fmt.Sprintf("%s, %s, statistics %s, %d", queue, mode, st.known, size)] = pages
					if pages > most {
						t.Errorf("%s, %s, statistics %s: a claim beside %d rows touched %d pages, want at most %d", queue, mode, st.known, size, pages, most)
					}
				}
			}
		}
	}
	t.Logf("pages touched: %v", cost)
	t.Run("claims stay flat: a tenfold backlog costs no claim twice as much", func(t *testing.T) {
		for queue := range store.ClaimStatements {
			for _, mode := range modes {
				for _, st := range statistics {
					of := func(size int) int { return cost[fmt.Sprintf("%s, %s, statistics %s, %d", queue, mode, st.known, size)] }
					if small, large := of(10_000), of(100_000); small == 0 || large > 2*small+10 {
						t.Errorf("%s, %s, statistics %s: %d pages beside 10,000 rows, %d beside 100,000", queue, mode, st.known, small, large)
					}
				}
			}
		}
	})
}

// seedPlans adds n rows of each kind that a claim must not walk over: due but waiting for a revocation, leased, paused, due
// later; behind them one row that may be claimed. The tables have been analyzed while they were empty or small, as a queue is
// when its statistics were taken.
func seedPlans(db *storetest.DB, from, n int) {
	backlog(db, 100+from, 1, n)
	backlog(db, 101+from, 1, 100)
	db.Exec("UPDATE installation SET paused_until = now() + interval '1 hour' WHERE installation_id = $1", 100+from)
	seed(db, `
		INSERT INTO pull (installation_id, repository_id, number, generation, head_sha)
			SELECT 50, 10, n, 1, md5('w' || n) || '00000000' FROM generate_series(:from + 1, :from + :n) n;
		INSERT INTO head (installation_id, repository_id, head_sha, lane, invalidation_available_at)
			SELECT 50, 10, md5('w' || n) || '00000000', 0, now() + interval '1 hour' FROM generate_series(:from + 1, :from + :n) n;
		INSERT INTO evaluation (installation_id, repository_id, number, generation, head_sha, head_generation, authority_epoch, reason, lane, awaits_revocation)
			SELECT 50, 10, n, 1, md5('w' || n) || '00000000', 1, 1, 'x', 0, true FROM generate_series(:from + 1, :from + :n) n;
		INSERT INTO authority (installation_id, scope, repository_id, epoch, reason, available_at)
			SELECT 50, 'repository', n, 1, 'x', now() + interval '1 hour' FROM generate_series(:from + 1, :from + :n) n`, ":from", from, ":n", n)
}

// pagesTouched runs a claim under EXPLAIN, takes it back, and counts the pages it read.
func pagesTouched(t *testing.T, db *storetest.DB, sql, mode string) int {
	t.Helper()
	ctx := t.Context()
	conn, err := pgx.Connect(ctx, db.URL(storetest.Owner))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	tx, err := conn.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	for _, q := range []string{"SET LOCAL plan_cache_mode = " + mode, "PREPARE claim (text, float8, smallint[], bigint[], bigint[]) AS " + sql} {
		if _, err := tx.Exec(ctx, q); err != nil {
			t.Fatal(err)
		}
	}
	var text string
	const execute = "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE claim ('x', 60, '{0,1,2,3}', '{0,0,0,0}', '{}')"
	for range 2 { // the first sets hint bits and fills the catalog's caches
		if err := tx.QueryRow(ctx, execute).Scan(&text); err != nil {
			t.Fatal(err)
		}
	}
	var plans []struct {
		Plan struct {
			Hit  int     `json:"Shared Hit Blocks"`
			Read int     `json:"Shared Read Blocks"`
			Rows float64 `json:"Actual Rows"`
		}
	}
	if err := json.Unmarshal([]byte(text), &plans); err != nil {
		t.Fatal(err)
	}
	if plans[0].Plan.Rows != 1 {
		t.Errorf("%s: the claim found %v rows, want one", mode, plans[0].Plan.Rows)
	}
	if testing.Verbose() && plans[0].Plan.Hit > 150 {
		t.Log(text)
	}
	return plans[0].Plan.Hit + plans[0].Plan.Read
}
