package fanout

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/countersign/countersign/pkg/nudge"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/store/storetest"
)

var errDatabase = errors.New("connection refused")

func TestCrashes(t *testing.T) {
	t.Parallel()
	t.Run("P8 RG-219 killed between two pages: a second claimant goes on, no pull request is missed and none counted twice", func(t *testing.T) {
		t.Parallel()
		for killedAfter := range 4 {
			b := setup(t)
			b.github.open(10, "main", 1, 2, 3, 4, 5, 6, 7)
			b.accept("1", repositoryWide(10))
			// A killed process writes nothing more: its lease stays until it expires.
			ctx, kill := context.WithCancel(t.Context())
			dead := &faultyStore{Store: b.fanout, before: map[string]error{}}
			pages := 0
			b.github.before = func(op string) error {
				if op[:5] != "pulls" {
					return nil
				}
				if pages++; pages > killedAfter {
					dead.mu.Lock()
					dead.before["defer"], dead.before["advance"], dead.before["renew"] = errDatabase, errDatabase, errDatabase
					dead.mu.Unlock()
					kill()
				}
				return nil
			}
			if _, err := b.replica(dead, "fanout-dead", nil).step(ctx, nil, nudge.ViaPoll); !errors.Is(err, errDatabase) {
				t.Fatalf("the killed step ended with %v", err)
			}
			kill()
			b.github.before = nil
			second := b.replica(b.db.Store(storetest.Fanout), "fanout-2", nil)
			if b.step(second) {
				t.Fatal("the second claimant worked a row that is still leased")
			}
			b.db.Exec("UPDATE authority SET expires_at = now() - interval '1 second'")
			b.drain(second)
			b.wantText("1:1 2:1 3:1 4:1 5:1 6:1 7:1", headGenerations)
			b.wantInt(0, "SELECT count(*) FROM authority")
		}
	})
	t.Run("pull requests that close and open between the pages of two claimants: none that stays open is missed", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.github.open(10, "main", 1, 2, 3, 4, 5)
		b.accept("1", repositoryWide(10))
		stop := make(chan struct{})
		close(stop)
		if _, err := b.service.step(t.Context(), stop, nudge.ViaPoll); err != nil {
			t.Fatal(err)
		}
		b.wantText("1:1 2:1", headGenerations)
		b.github.close(10, 1) // the rest moves up by one
		b.github.open(10, "main", 6)
		b.drain(b.replica(b.db.Store(storetest.Fanout), "fanout-2", nil))
		b.wantText("1:1 2:1 3:1 4:1 5:1 6:1", headGenerations)
	})
	t.Run("told to stop, a pass ends behind its page, its lease is free and due at once, and nothing is spent", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.github.open(10, "main", 1, 2, 3)
		b.accept("1", repositoryWide(10))
		stop := make(chan struct{})
		close(stop)
		if _, err := b.service.step(t.Context(), stop, nudge.ViaPoll); err != nil {
			t.Fatal(err)
		}
		b.wantInt(1, "SELECT count(*) FROM authority WHERE cursor_page = 3 AND holder = '' AND expires_at IS NULL AND available_at <= now() AND attempts = 0")
	})
	t.Run("RG-229 a newer event during a pass clears the lease: the old claimant writes nothing, the pass goes on and another follows", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.github.open(10, "main", 1, 2, 3)
		b.accept("1", repositoryWide(10))
		b.github.before = func(op string) error {
			if op == "pulls acme/api  3" {
				b.github.before = nil
				b.accept("2", repositoryWide(10))
			}
			return nil
		}
		b.step(b.service)
		b.wantText("1:1 2:1", headGenerations)
		b.wantInt(1, "SELECT count(*) FROM authority WHERE generation = 2 AND pass_generation = 1 AND cursor_page = 3 AND attempts = 0 AND available_at <= now()")
		if got := metric(t, b, "countersign_fanout_passes_total", "repository", "superseded"); got != 1 {
			t.Errorf("%v passes counted as superseded, want 1", got)
		}
		b.drain(b.service)
		b.wantText("1:2 2:2 3:2", headGenerations)
		b.wantInt(0, "SELECT count(*) FROM authority")
	})
}

// TestFailureMatrix breaks each write of a pass before it happened and after it happened. In every row the work is done in the
// end, each head has risen at least once, and only where the database's answer alone was lost is the count exact.
func TestFailureMatrix(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		op    string
		after bool
		want  string
		wide  bool // an installation's change
	}{
		{"claim", false, "1:1 2:1 3:1", false},
		{"claim", true, "1:1 2:1 3:1", false},
		{"advance", false, "1:1 2:1 3:1", false},
		{"advance", true, "1:1 2:1 3:1", false},
		{"finish", false, "", false},
		{"finish", true, "", false},
		{"split", false, "1:1 2:1 3:1", true},
		{"split", true, "1:1 2:1 3:1", true},
		{"defer", false, "1:1 2:1 3:1", false},
		{"defer", true, "1:1 2:1 3:1", false},
		{"park", false, "1:1 2:1 3:1", false},
		{"park", true, "1:1 2:1 3:1", false},
	} {
		t.Run(fmt.Sprintf("RG-227 %s failed, happened %v", row.op, row.after), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.github.open(10, "main", 1, 2, 3)
			work := repositoryWide(10)
			if row.wide {
				work = installationWide()
			}
			if row.op == "finish" {
				b.github.repos[0].Archived = true
			}
			b.accept("1", work)
			faulty := &faultyStore{Store: b.fanout, before: map[string]error{}, after: map[string]error{}}
			if row.after {
				faulty.after[row.op] = errDatabase
			} else {
				faulty.before[row.op] = errDatabase
			}
			switch row.op { // what leads to the call
			case "defer":
				b.github.before = func(string) error { return ghErr("unavailable") }
			case "park":
				b.github.before = func(string) error { return ghErr("not_found") }
			}
			service := b.replica(faulty, "fanout-1", nil)
			_, err := service.step(t.Context(), nil, nudge.ViaPoll)
			if inStep := row.op == "claim" || row.op == "defer" || row.op == "park"; inStep != errors.Is(err, errDatabase) {
				t.Errorf("the step ended with %v", err)
			}
			b.github.before = nil
			b.db.Exec("UPDATE authority SET available_at = now(), expires_at = CASE WHEN expires_at IS NULL THEN NULL ELSE now() - interval '1 second' END")
			b.drain(b.service)
			b.wantText(row.want, headGenerations)
			b.wantInt(0, "SELECT count(*) FROM authority")
		})
	}
}

func TestRaces(t *testing.T) {
	t.Parallel()
	t.Run("RG-211 two connections that claim at once never hold one row, and every pull request is queued once", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.github.repos = nil
		want := int64(0)
		for id := range int64(8) {
			b.github.repos = append(b.github.repos, repo(100+id, fmt.Sprint("acme/r", id)))
			b.github.open(100+id, "main", 1, 2, 3)
			want += 3
		}
		b.accept("1", installationWide())
		var wg sync.WaitGroup
		for n := range 3 {
			replica := b.replica(b.db.Store(storetest.Fanout), fmt.Sprint("fanout-", n), nil)
			wg.Go(func() {
				deadline := time.Now().Add(30 * time.Second)
				for time.Now().Before(deadline) {
					if _, err := replica.step(context.Background(), nil, nudge.ViaPoll); err != nil {
						t.Errorf("replica %d: %v", n, err)
						return
					}
					if b.db.QueryInt("SELECT count(*) FROM authority") == 0 {
						return
					}
				}
				t.Errorf("replica %d: not done in time", n)
			})
		}
		wg.Wait()
		b.wantInt(want, "SELECT count(*) FROM head WHERE generation = 1")
		b.wantInt(want, "SELECT count(*) FROM evaluation")
		b.wantInt(0, "SELECT count(*) FROM (SELECT row_key FROM lease_grant GROUP BY row_key HAVING count(*) > 1) AS twice")
	})
	t.Run("RG-229 an expired claimant's page and the new claimant's page: only the new one is recorded", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.accept("1", repositoryWide(10))
		old, err := b.fanout.ClaimAuthority(t.Context(), "old", time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		b.db.Exec("UPDATE authority SET expires_at = now() - interval '1 second'")
		other := b.db.Store(storetest.Fanout)
		young, err := other.ClaimAuthority(t.Context(), "young", time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		page := []store.PullFact{{Number: 1, Head: store.SHA(sha(1)), State: "open", UpdatedAt: time.Unix(1, 0)}}
		for range 5 {
			wg.Go(func() {
				if err := b.fanout.AdvancePage(context.Background(), old, "acme/api", page, 2); !errors.Is(err, store.ErrLeaseLost) {
					t.Errorf("the expired claimant: %v", err)
				}
			})
		}
		wg.Go(func() {
			if err := other.AdvancePage(context.Background(), young, "acme/api", page, 0); err != nil {
				t.Errorf("the new claimant: %v", err)
			}
		})
		wg.Wait()
		b.wantText("1:1", headGenerations)
	})
}
