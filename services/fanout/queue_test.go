package fanout

import (
	"errors"
	"fmt"
	"testing"

	"github.com/countersign/countersign/pkg/nudge"
	"github.com/countersign/countersign/pkg/store"
)

func TestCoalescing(t *testing.T) {
	t.Parallel()
	t.Run("RG-210 work coalesces at three scopes", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		for i := range 3 {
			b.accept(store.DeliveryID(fmt.Sprint("i", i)), installationWide())
			b.accept(store.DeliveryID(fmt.Sprint("r", i)), repositoryWide(10))
			b.accept(store.DeliveryID(fmt.Sprint("b", i)), basePush(11, "main"))
		}
		b.wantText("base 11 main 3, installation 0  3, repository 10  3",
			"SELECT string_agg(format('%s %s %s %s', scope, repository_id, base_ref, generation), ', ' ORDER BY scope) FROM authority")
	})
	t.Run("RG-211 broadest first, then oldest", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.accept("1", basePush(12, "old"))
		b.accept("2", basePush(12, "new"))
		b.accept("3", repositoryWide(11))
		b.accept("4", repositoryWide(10))
		b.accept("5", installationWide())
		var got []string
		for {
			a, err := b.fanout.ClaimAuthority(t.Context(), "x", testConfig().Worker.Lease)
			if errors.Is(err, store.ErrNoWork) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, string(a.DeliveryID))
		}
		if want := "[5 3 4 1 2]"; fmt.Sprint(got) != want {
			t.Errorf("claimed %v, want %s", got, want)
		}
	})
	t.Run("RG-215 a repository-wide change deletes that repository's base rows and no other's", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.accept("1", basePush(10, "main"))
		b.accept("2", basePush(11, "main"))
		b.accept("3", repositoryWide(10))
		b.wantText("base 11, repository 10", "SELECT string_agg(format('%s %s', scope, repository_id), ', ' ORDER BY scope) FROM authority")
	})
	t.Run("RG-216 RG-217 the 101st distinct base ref collapses all into one repository change, a known ref does not", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		for i := range store.MaxBaseRefs {
			b.accept(store.DeliveryID(fmt.Sprint("d", i)), basePush(10, fmt.Sprint("release/", i)))
		}
		b.accept("again", basePush(10, "release/7"))
		b.wantInt(store.MaxBaseRefs, "SELECT count(*) FROM authority WHERE scope = 'base'")
		b.wantInt(2, "SELECT generation FROM authority WHERE base_ref = 'release/7'")
		b.accept("one more", basePush(10, "release/new"))
		b.wantText("repository", "SELECT string_agg(scope, ' ') FROM authority")
	})
	t.Run("RG-218 a base push beside a repository-wide row merges into it", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.accept("1", repositoryWide(10))
		b.accept("2", basePush(10, "main"))
		b.wantText("repository 2", "SELECT string_agg(format('%s %s', scope, generation), ' ') FROM authority")
	})
}

func TestSplit(t *testing.T) {
	t.Parallel()
	t.Run("RG-212 RG-213 an installation change becomes one row a reachable repository and ends; archived and policy repositories are skipped", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		archived := repo(12, "acme/attic")
		archived.Archived = true
		b.github.repos = append(b.github.repos, repo(11, "acme/web"), archived, repo(13, "acme/.GitHub"))
		b.accept("1", installationWide())
		if !b.step(b.service) {
			t.Fatal("nothing was due")
		}
		b.wantText("repository 10 acme/api, repository 11 acme/web",
			"SELECT string_agg(format('%s %s %s', scope, repository_id, full_name), ', ' ORDER BY repository_id) FROM authority JOIN repository USING (installation_id, repository_id)")
		if b.wakes.of(nudge.Fanout) != 1 {
			t.Errorf("wakes %+v, want one of the fan-out", b.wakes.sent)
		}
	})
	t.Run("RG-212 a failing repository does not delay the others", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.github.repos = append(b.github.repos, repo(11, "acme/web"))
		b.github.open(10, "main", 1)
		b.github.open(11, "main", 2)
		b.github.before = func(op string) error {
			if op == "pulls acme/api  1" {
				return ghErr("unavailable")
			}
			return nil
		}
		b.accept("1", installationWide())
		b.drain(b.service)
		b.wantText("2:1", headGenerations)
		b.wantText("10 1", "SELECT string_agg(format('%s %s', repository_id, attempts), ' ') FROM authority")
	})
	t.Run("RG-214 until every repository row exists the installation's row blocks; a list that fails leaves it", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.github.repos = append(b.github.repos, repo(11, "acme/web"))
		b.github.before = func(string) error { return ghErr("malformed") }
		b.accept("1", installationWide())
		b.step(b.service)
		b.wantText("installation", "SELECT string_agg(scope, ' ') FROM authority")
		b.github.before = nil
		b.db.Exec("UPDATE authority SET available_at = now()")
		// Refused at its last row, the split leaves no repository row and keeps the installation's.
		b.db.Exec("CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.repository_id = 11 THEN RAISE EXCEPTION 'refused'; END IF; RETURN NEW; END $$")
		b.db.Exec("CREATE TRIGGER refuse BEFORE INSERT ON authority FOR EACH ROW EXECUTE FUNCTION refuse()")
		b.step(b.service)
		b.wantText("installation", "SELECT string_agg(scope, ' ') FROM authority")
		b.db.Exec("DROP TRIGGER refuse ON authority")
		b.db.Exec("UPDATE authority SET available_at = now()")
		b.step(b.service)
		b.wantText("repository repository", "SELECT string_agg(scope, ' ') FROM authority")
	})
	t.Run("RG-222 a rename advances the epoch before anything is rediscovered, and the rows carry it", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.accept("1", store.AuthorityWork{Scope: store.ScopeInstallation, Reason: "repository.renamed"})
		b.github.before = func(string) error {
			b.wantInt(2, "SELECT authority_epoch FROM installation")
			return nil
		}
		b.step(b.service)
		b.wantInt(2, "SELECT epoch FROM authority WHERE scope = 'repository'")
	})
}

func TestQueuePulls(t *testing.T) {
	t.Parallel()
	t.Run("RG-219 each open pull request's head rises and its evaluation is queued, page by page, and no check run is written", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.github.open(10, "main", 1, 2, 3, 4, 5)
		b.accept("team-1", repositoryWide(10))
		b.drain(b.service)
		b.wantText("1:1 2:1 3:1 4:1 5:1", headGenerations)
		b.wantInt(5, "SELECT count(*) FROM evaluation e JOIN head h USING (installation_id, repository_id, head_sha) WHERE e.head_generation = h.generation AND h.invalidated_generation = 0 AND e.delivery_id = 'team-1' AND e.reason = 'team.edited' AND e.lane = 1")
		b.wantInt(0, "SELECT count(*) FROM authority")
		if n := b.github.called("pulls"); n != 3 {
			t.Errorf("%d pages were read, want 3", n)
		}
		if n := b.wakes.of(nudge.Invalidate); n != 3 {
			t.Errorf("the invalidator was woken %d times, want once a page", n)
		}
	})
	t.Run("RG-219 a page's heads, evaluations and cursor are one transaction", func(t *testing.T) {
		t.Parallel()
		for _, table := range []string{"head", "evaluation", "authority"} {
			b := setup(t)
			b.github.open(10, "main", 1, 2, 3)
			b.accept("1", repositoryWide(10))
			event := "INSERT"
			if table == "authority" {
				event = "UPDATE OF cursor_page"
			}
			b.db.Exec("CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'refused'; END $$")
			b.db.Exec(fmt.Sprintf("CREATE TRIGGER refuse BEFORE %s ON %s FOR EACH ROW EXECUTE FUNCTION refuse()", event, table))
			b.step(b.service)
			b.wantInt(0, "SELECT (SELECT count(*) FROM pull) + (SELECT count(*) FROM head) + (SELECT count(*) FROM evaluation)")
			b.wantInt(1, "SELECT cursor_page FROM authority")
			b.db.Exec(fmt.Sprintf("DROP TRIGGER refuse ON %s", table))
			b.db.Exec("UPDATE authority SET available_at = now()")
			b.drain(b.service)
			b.wantText("1:1 2:1 3:1", headGenerations)
		}
	})
	t.Run("RG-219 a base job queues the pull requests of that base and of no other", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.github.open(10, "main", 1, 3, 5)
		b.github.open(10, "release", 2, 4)
		b.accept("1", basePush(10, "release"))
		b.drain(b.service)
		b.wantText("2:1 4:1", headGenerations)
	})
	t.Run("RG-213 RG-278 a change scoped to the policy repository or to an archived one ends without a listing", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		archived := repo(12, "acme/attic")
		archived.Archived = true
		b.github.repos = append(b.github.repos, archived, repo(13, "acme/.github"))
		b.github.open(12, "main", 1)
		b.github.open(13, "main", 2)
		b.accept("1", store.AuthorityWork{Scope: store.ScopeRepository, Repository: 12, FullName: "acme/attic"})
		b.accept("2", store.AuthorityWork{Scope: store.ScopeRepository, Repository: 13, FullName: "acme/.github"})
		b.drain(b.service)
		b.wantInt(0, "SELECT (SELECT count(*) FROM authority) + (SELECT count(*) FROM evaluation)")
		if n := b.github.called("pulls"); n != 0 {
			t.Errorf("%d lists were read", n)
		}
	})
	t.Run("I7 a wake that cannot be sent changes nothing", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.wakes.err = nudge.ErrUnavailable
		b.github.open(10, "main", 1)
		b.accept("1", installationWide())
		b.drain(b.service)
		b.wantText("1:1", headGenerations)
	})
}

func TestRoutes(t *testing.T) {
	t.Parallel()
	t.Run("RG-224 a renamed repository is found by its id, and the reported route is used and kept", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.github.repos = []ghRepo{repo(10, "acme/platform")}
		b.github.open(10, "main", 1)
		b.accept("1", repositoryWide(10)) // stored as acme/api
		b.drain(b.service)
		b.wantText("1:1", headGenerations)
		b.wantText("acme/platform", "SELECT full_name FROM repository")
		if b.github.called("pulls acme/api") != 0 {
			t.Error("the old route was read")
		}
	})
	t.Run("RG-224 another repository under the old name is not read, also when it has no pull requests", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.github.repos = []ghRepo{repo(99, "acme/api"), repo(10, "acme/platform")}
		b.github.open(99, "main", 7)
		b.github.open(10, "main", 1)
		b.accept("1", repositoryWide(10))
		b.drain(b.service)
		b.wantText("1:1", headGenerations)
		b.wantInt(0, "SELECT count(*) FROM pull WHERE number = 7")
	})
	t.Run("RG-224 a route that is not known at all is asked for by id", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.github.open(10, "main", 1)
		b.accept("1", repositoryWide(10))
		b.db.Exec("DELETE FROM repository")
		b.drain(b.service)
		b.wantText("1:1", headGenerations)
	})
	t.Run("RG-224 a repository that moves between two pages is found again by the next pass", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.github.open(10, "main", 1, 2, 3)
		b.accept("1", repositoryWide(10))
		b.github.before = func(op string) error {
			if op == "pulls acme/api  3" {
				return ghErr("moved")
			}
			return nil
		}
		b.step(b.service)
		b.wantText("1:1 2:1", headGenerations)
		b.github.repos = []ghRepo{repo(10, "acme/platform")}
		b.db.Exec("UPDATE authority SET available_at = now()")
		b.drain(b.service)
		b.wantText("1:1 2:1 3:1", headGenerations)
		b.wantInt(0, "SELECT count(*) FROM authority")
	})
}
