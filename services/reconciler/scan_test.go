package reconciler

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/nudge"
	"github.com/countersign/countersign/pkg/store"
)

// fullScan is everything a scan of world(1, 2, 3) does, in order.
var fullScan = []string{
	"elect", "prune deliveries", "prune heads", "installations", "mark installations", "keep 1", "repositories 1", "mark repositories 1", "wake parked 1",
	"pulls acme/api from 1", "pulls acme/api from 3", "enqueue acme/api#1", "enqueue acme/api#2", "enqueue acme/api#3", `resign "complete"`,
}

func threePulls() *fakeGitHub { return world(pull(1, 1), pull(2, 2), pull(3, 3)) }

func TestScanOrder(t *testing.T) {
	t.Parallel()
	t.Run("RG-405 retention under the same lease and before the installations are listed, then every open pull request", func(t *testing.T) {
		t.Parallel()
		b := setupFake(t, threePulls())
		b.wantResult("complete")
		b.wantSteps(fullScan...)
		if len(b.wakes.sent) != 1 || b.wakes.sent[0].Subject != nudge.Invalidate {
			t.Errorf("wakes %+v", b.wakes.sent)
		}
	})
	t.Run("RG-407 discovery that fails does not postpone pruning, pruning that fails does not prevent discovery", func(t *testing.T) {
		t.Parallel()
		b := setupFake(t, threePulls())
		b.github.on = func(_ context.Context, step string) error {
			if step == "installations" {
				return fmt.Errorf("list: %w", ghclient.ErrUnavailable)
			}
			return nil
		}
		b.wantResult("failure")
		b.wantSteps("elect", "prune deliveries", "prune heads", "installations", `resign "failure"`)

		b = setupFake(t, threePulls())
		b.github.on = func(_ context.Context, step string) error {
			if step == "prune deliveries" {
				return errors.New("deadlock")
			}
			return nil
		}
		b.wantResult("partial")
		if b.github.count("prune heads") != 1 || b.github.count("enqueue") != 3 {
			t.Errorf("steps %v", b.github.taken())
		}
	})
	t.Run("RG-423 a list of installations that is not valid fails the attempt, and none of it is processed", func(t *testing.T) {
		t.Parallel()
		b := setupFake(t, threePulls())
		b.github.on = func(_ context.Context, step string) error {
			if step == "installations" {
				return fmt.Errorf("list: %w", ghclient.ErrMalformed)
			}
			return nil
		}
		b.wantResult("failure")
		if b.github.count("repositories") != 0 {
			t.Errorf("steps %v", b.github.taken())
		}
		if got := b.counter("countersign_reconciler_scans_total", "failure"); got != 1 {
			t.Errorf("%v failures counted", got)
		}
	})
	t.Run("RG-424 RG-415 a malformed list of repositories or pull requests fails that installation only; later ones run", func(t *testing.T) {
		t.Parallel()
		for _, broken := range []string{"repositories 1", "pulls acme/api from 1", "pulls acme/api from 3", "keep 1", "mark repositories 1", "wake parked 1"} {
			g := threePulls()
			g.installations = append(g.installations, ghclient.Installation{ID: 2, AccountLogin: "octo-org"})
			g.repos[2] = []ghclient.RepositoryInfo{repo(20, "octo-org/site")}
			g.pulls[20] = []ghclient.Pull{pull(9, 9)}
			b := setupFake(t, g)
			b.github.on = func(_ context.Context, step string) error {
				if step == broken {
					return fmt.Errorf("list: %w", ghclient.ErrMalformed)
				}
				return nil
			}
			b.wantResult("partial")
			if b.github.count("enqueue octo-org/site#9") != 1 {
				t.Errorf("%s broken: the second installation was not scanned: %v", broken, b.github.taken())
			}
			if queued := b.github.count("enqueue acme/api"); strings.HasPrefix(broken, "pulls") && queued != 0 {
				t.Errorf("%s broken: %d of its list were queued", broken, queued)
			}
		}
	})
	t.Run("RG-424 a repository whose list is malformed does not keep the others of its installation waiting", func(t *testing.T) {
		t.Parallel()
		g := threePulls()
		g.repos[1] = append(g.repos[1], repo(11, "acme/web"))
		g.pulls[11] = []ghclient.Pull{pull(4, 4)}
		b := setupFake(t, g)
		b.github.on = func(_ context.Context, step string) error {
			if step == "pulls acme/api from 1" {
				return fmt.Errorf("list: %w", ghclient.ErrMalformed)
			}
			return nil
		}
		b.wantResult("partial")
		if b.github.count("enqueue acme/web#4") != 1 {
			t.Errorf("steps %v", b.github.taken())
		}
	})
	t.Run("RG-197 an installation that is rate limited is left alone at once", func(t *testing.T) {
		t.Parallel()
		g := threePulls()
		g.repos[1] = append(g.repos[1], repo(11, "acme/web"))
		b := setupFake(t, g)
		b.github.on = func(_ context.Context, step string) error {
			if step == "pulls acme/api from 1" {
				return fmt.Errorf("list: %w", &ghclient.RateLimitError{After: time.Hour, Kind: "primary", Installation: 1})
			}
			return nil
		}
		b.wantResult("partial")
		if b.github.count("pulls acme/web") != 0 {
			t.Errorf("steps %v", b.github.taken())
		}
	})
	t.Run("RG-413 a pull request listed on two pages is a malformed list", func(t *testing.T) {
		t.Parallel()
		b := setupFake(t, world(pull(1, 1), pull(2, 2), pull(2, 3), pull(4, 4)))
		b.wantResult("partial")
		if b.github.count("enqueue") != 0 || b.counter("countersign_reconciler_left_out_total", "malformed") != 1 {
			t.Errorf("steps %v", b.github.taken())
		}
	})
	t.Run("RG-415 a queue failure is partial; what was queued stays, later repositories run", func(t *testing.T) {
		t.Parallel()
		g := threePulls()
		g.repos[1] = append(g.repos[1], repo(11, "acme/web"))
		g.pulls[11] = []ghclient.Pull{pull(4, 4)}
		b := setupFake(t, g)
		b.github.on = func(_ context.Context, step string) error {
			if step == "enqueue acme/api#2" {
				return errors.New("connection reset")
			}
			return nil
		}
		b.wantResult("partial")
		if b.github.count("enqueue acme/web#4") != 1 || b.counter("countersign_reconciler_left_out_total", "queue") != 1 {
			t.Errorf("steps %v", b.github.taken())
		}
		if got := b.counter("countersign_reconciler_pulls_total", "queued"); got != 2 {
			t.Errorf("%v counted as queued, want 2", got)
		}
	})
	t.Run("RG-417 RG-425 suspended installations, archived repositories and the policy repository are passed over, and the scan is complete", func(t *testing.T) {
		t.Parallel()
		suspended := time.Unix(1, 0)
		g := threePulls()
		archived := repo(11, "acme/attic")
		archived.Archived = true
		g.repos[1] = append(g.repos[1], archived, repo(12, "acme/.GitHub"))
		g.installations = append(g.installations, ghclient.Installation{ID: 2, AccountLogin: "octo-org", SuspendedAt: &suspended})
		b := setupFake(t, g)
		b.wantResult("complete")
		b.wantSteps(fullScan...)
	})
	t.Run("RG-426 what was malformed is logged by a fixed code and never by its value", func(t *testing.T) {
		t.Parallel()
		b := setupFake(t, threePulls())
		b.github.on = func(_ context.Context, step string) error {
			if step == "pulls acme/api from 1" {
				return fmt.Errorf("number: got %q: %w", "<script>forged", ghclient.ErrMalformed)
			}
			return nil
		}
		b.scan()
		if log := b.log.String(); strings.Contains(log, "forged") || !strings.Contains(log, `"reason":"malformed"`) {
			t.Errorf("log %s", log)
		}
	})
	t.Run("RG-474 no label names a repository, a person or a pull request", func(t *testing.T) {
		t.Parallel()
		b := setupFake(t, threePulls())
		b.scan()
		if err := checkMetrics(b); err != nil {
			t.Error(err)
		}
	})
}

func TestIdle(t *testing.T) {
	t.Parallel()
	rows := "SELECT coalesce(string_agg(format('%s at %s: pull %s head %s of %s', p.number, right(e.head_sha, 2), p.generation, e.head_generation, h.generation), ', ' ORDER BY p.number), '') " +
		"FROM pull p JOIN evaluation e USING (installation_id, repository_id, number) JOIN head h ON (h.installation_id, h.repository_id, h.head_sha) = (e.installation_id, e.repository_id, e.head_sha)"
	// done plays the services that follow: everything queued was evaluated just now.
	done := func(b *bundle) {
		b.db.Exec("DELETE FROM evaluation")
		b.db.Exec("UPDATE head SET invalidated_generation = generation; UPDATE evaluation SET awaits_revocation = false")
		b.db.Exec("UPDATE pull SET evaluated_at = now()")
	}
	t.Run("RG-401 a pull request nothing waits for: head generation, pending revocation and evaluation", func(t *testing.T) {
		t.Parallel()
		b := setup(t, world(pull(1, 1)))
		b.wantResult("complete")
		b.wantText("1 at 01: pull 1 head 1 of 1", rows)
		b.wantInt(1, "SELECT count(*) FROM head WHERE invalidated_generation < generation AND lane = 2")
		b.wantText("reconcile.scan", "SELECT reason FROM evaluation")
		done(b)
		b.db.Exec("UPDATE pull SET evaluated_at = now() - interval '1 hour'")
		b.wantResult("complete")
		b.wantText("1 at 01: pull 2 head 2 of 2", rows)
		b.wantInt(1, "SELECT count(*) FROM head WHERE invalidated_generation < generation")
	})
	t.Run("RG-401 in one transaction: where the evaluation cannot be inserted the head does not rise", func(t *testing.T) {
		t.Parallel()
		for _, table := range []string{"pull", "head", "evaluation"} {
			b := setup(t, world(pull(1, 1)))
			b.db.Exec("CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'refused'; END $$")
			b.db.Exec("CREATE TRIGGER refuse BEFORE INSERT ON " + table + " FOR EACH ROW EXECUTE FUNCTION refuse()")
			b.wantResult("partial")
			b.wantInt(0, "SELECT (SELECT count(*) FROM pull) + (SELECT count(*) FROM head) + (SELECT count(*) FROM evaluation)")
		}
	})
	t.Run("RG-402 where an evaluation waits neither row nor generation changes", func(t *testing.T) {
		t.Parallel()
		b := setup(t, world(pull(1, 1)))
		b.scan()
		b.db.Exec("UPDATE evaluation SET attempts = 3, available_at = now() + interval '1 minute', delivery_id = 'd1'")
		b.github.pulls[10] = []ghclient.Pull{pull(1, 2)} // also at another head: its own event will say so
		b.wantResult("complete")
		b.wantText("1 at 01: pull 1 head 1 of 1", rows)
		b.wantInt(1, "SELECT count(*) FROM evaluation WHERE attempts = 3 AND delivery_id = 'd1'")
		b.wantInt(1, "SELECT count(*) FROM head")
	})
	t.Run("RG-404 evaluated less than the recheck age ago at the same head: left alone; older or at another head: queued", func(t *testing.T) {
		t.Parallel()
		b := setup(t, world(pull(1, 1), pull(2, 2), pull(3, 3)))
		b.scan()
		done(b)
		b.wantResult("complete")
		b.wantText("", rows)
		b.db.Exec("UPDATE pull SET evaluated_at = now() - interval '901 seconds' WHERE number = 2")
		b.github.pulls[10][2] = pull(3, 4)
		b.wantResult("complete")
		b.wantText("2 at 02: pull 2 head 2 of 2, 3 at 04: pull 2 head 1 of 1", rows)
	})
	t.Run("RG-403 the head an authoritative read finds is advanced and bound in one transaction, and a lost claim rolls it back", func(t *testing.T) {
		t.Parallel()
		b := setup(t, world(pull(1, 1)))
		b.scan()
		b.db.Exec("UPDATE head SET invalidated_generation = generation; UPDATE evaluation SET awaits_revocation = false")
		evaluator := b.db.Store("countersign_evaluator")
		read := []store.PullFact{{Number: 1, Head: store.SHA(sha(2)), BaseRef: "main", State: "open", UpdatedAt: time.Unix(2, 0)}}
		lost, err := evaluator.ClaimEvaluation(t.Context(), "one", time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		b.db.Exec("UPDATE head SET evaluation_expires_at = now() - interval '1 second'")
		if err := evaluator.AdvanceEvaluation(t.Context(), lost, read); !errors.Is(err, store.ErrLeaseLost) {
			t.Errorf("the lost claim: %v", err)
		}
		b.wantInt(1, "SELECT count(*) FROM head")
		held, err := evaluator.ClaimEvaluation(t.Context(), "two", time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if err := evaluator.AdvanceEvaluation(t.Context(), held, read); err != nil {
			t.Fatal(err)
		}
		b.wantInt(1, "SELECT count(*) FROM evaluation e JOIN head h USING (installation_id, repository_id, head_sha) WHERE e.head_sha = $1 AND e.head_generation = h.generation AND h.invalidated_generation < h.generation", sha(2))
	})
	t.Run("P14 parked authority work of a repository that is listed again is due at once", func(t *testing.T) {
		t.Parallel()
		b := setup(t, world())
		b.db.Exec("INSERT INTO authority (installation_id, scope, repository_id, epoch, reason, parked_at, available_at) VALUES (1, 'repository', 10, 1, 'label.edited', now(), now() + interval '6 hours'), (1, 'repository', 11, 1, 'label.edited', now(), now() + interval '6 hours')")
		b.db.Exec("INSERT INTO installation (installation_id) VALUES (1)")
		b.wantResult("complete")
		b.wantText("10", "SELECT string_agg(repository_id::text, ' ') FROM authority WHERE available_at <= now()")
		if len(b.wakes.sent) != 1 || b.wakes.sent[0].Subject != nudge.Fanout {
			t.Errorf("wakes %+v", b.wakes.sent)
		}
	})
}

func TestRetention(t *testing.T) {
	t.Parallel()
	head := func(b *bundle, n int, generation, invalidated int, old bool) {
		age := "0 days"
		if old {
			age = "31 days"
		}
		b.db.Exec("INSERT INTO head (installation_id, repository_id, head_sha, generation, invalidated_generation, updated_at) VALUES (1, 10, $1, $2, $3, now() - $4::interval)", sha(n), generation, invalidated, age)
	}
	t.Run("RG-428 RG-405 deliveries older than the retention go, younger ones stay", func(t *testing.T) {
		t.Parallel()
		b := setup(t, world())
		for id, age := range map[string]string{"old": "30 days 1 minute", "young": "29 days 23 hours"} {
			b.db.Exec("INSERT INTO delivery (delivery_id, event, action, installation_id, scope, received_at) VALUES ($1, 'team', 'edited', 1, 'installation', now() - $2::interval)", id, age)
		}
		b.wantResult("complete")
		b.wantText("young", "SELECT string_agg(delivery_id, ' ') FROM delivery")
		if got := b.counter("countersign_reconciler_pruned_rows_total", "deliveries"); got != 1 {
			t.Errorf("%v counted", got)
		}
	})
	t.Run("RG-428 more than one batch goes in one scan", func(t *testing.T) {
		t.Parallel()
		b := setup(t, world())
		b.db.Exec("INSERT INTO delivery (delivery_id, event, action, installation_id, scope, received_at) SELECT format('d%s', n), 'team', 'edited', 1, 'installation', now() - interval '40 days' FROM generate_series(1, 2500) AS n")
		b.wantResult("complete")
		b.wantInt(0, "SELECT count(*) FROM delivery")
		if got := b.github.count("prune deliveries"); got != 3 {
			t.Errorf("%d batches, want 3", got)
		}
	})
	t.Run("RG-406 a head is pruned only when its latest generation is invalidated, no evaluation refers to it and nobody holds it", func(t *testing.T) {
		t.Parallel()
		b := setup(t, world())
		head(b, 1, 2, 2, true)  // goes
		head(b, 2, 2, 1, true)  // not invalidated
		head(b, 3, 2, 2, false) // young
		head(b, 4, 2, 2, true)  // an evaluation refers to it
		b.db.Exec("INSERT INTO pull (installation_id, repository_id, number, generation, state) VALUES (1, 10, 4, 1, 'closed')")
		b.db.Exec("INSERT INTO evaluation (installation_id, repository_id, number, generation, head_sha, head_generation, authority_epoch, reason, awaits_revocation) VALUES (1, 10, 4, 1, $1, 2, 1, 'x', false)", sha(4))
		head(b, 5, 2, 2, true) // its revocation is leased
		b.db.Exec("UPDATE head SET invalidation_holder = 'x', invalidation_expires_at = now() + interval '1 minute' WHERE head_sha = $1", sha(5))
		head(b, 6, 2, 2, true) // its evaluation is leased
		b.db.Exec("UPDATE head SET evaluation_holder = 'x', evaluation_expires_at = now() + interval '1 minute' WHERE head_sha = $1", sha(6))
		b.wantResult("complete")
		b.wantText("2 3 4 5 6", "SELECT string_agg(ltrim(right(head_sha, 2), '0'), ' ' ORDER BY head_sha) FROM head")
	})
	t.Run("RG-405 a replica that is not elected prunes nothing", func(t *testing.T) {
		t.Parallel()
		b := setup(t, world())
		head(b, 1, 2, 2, true)
		if _, err := b.db.Store("countersign_reconciler").Elect(t.Context(), leaseName, "another", time.Minute); err != nil {
			t.Fatal(err)
		}
		b.wantResult("none")
		b.wantSteps("elect")
		b.wantInt(1, "SELECT count(*) FROM head")
	})
}
