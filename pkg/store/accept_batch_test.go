package store_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/store/storetest"
)

func sha(n int) store.SHA { return store.SHA(fmt.Sprintf("%040x", n+1)) }

func opened(id store.DeliveryID) store.Delivery {
	return store.Delivery{ID: id, Event: "pull_request", Action: "opened"}
}

func TestDirectBatch(t *testing.T) {
	t.Parallel()
	moved := direct(7, headB)
	moved.Before = headA
	rows := []struct {
		name string
		id   store.DeliveryID
		w    store.DirectWork
		want bool
	}{
		{"another pull request on the same head", "d2", direct(8, headA), true},
		{"the same pull request at the same head", "d2", direct(7, headA), true},
		{"the same pull request at a head that nothing names", "d2", direct(7, headB), false},
		{"the same pull request, leaving a head for one that nothing names", "d2", moved, false},
		{"the same delivery", "d1", direct(7, headA), false},
		{"the same delivery for something else", "d1", direct(9, headB), false},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			var b store.DirectBatch
			b.Add(opened("d1"), direct(7, headA))
			if got := b.Add(opened(row.id), row.w); got != row.want {
				t.Errorf("added: %v, want %v", got, row.want)
			}
		})
	}
	t.Run("a batch touches its pull requests and the heads it names", func(t *testing.T) {
		t.Parallel()
		var b store.DirectBatch
		b.Add(opened("d1"), moved)
		elsewhere := direct(7, headA)
		elsewhere.Repository++
		for _, row := range []struct {
			w    store.DirectWork
			want bool
		}{{direct(7, sha(3)), true}, {direct(8, headA), true}, {direct(8, headB), true}, {direct(8, sha(3)), false}, {elsewhere, false}} {
			if got := b.Touches(row.w); got != row.want {
				t.Errorf("%d at %s: %v, want %v", row.w.Number, row.w.Head, got, row.want)
			}
		}
	})
}

func TestAcceptBatch(t *testing.T) {
	t.Parallel()
	t.Run("RG-100 one refused row leaves nothing of the batch, and says that it may be one", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.db.Exec("CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.number = 13 THEN RAISE EXCEPTION 'refused'; END IF; RETURN NEW; END $$")
		for _, table := range []string{"delivery", "pull", "evaluation"} {
			b.db.Exec(fmt.Sprintf("CREATE TRIGGER refuse BEFORE INSERT ON %s FOR EACH ROW EXECUTE FUNCTION refuse()", table))
			var batch store.DirectBatch
			for n := 10; n < 16; n++ {
				batch.Add(opened(store.DeliveryID(fmt.Sprint("d", n))), direct(n, headA))
				batch.Add(opened(store.DeliveryID(fmt.Sprint("again", n))), direct(n, headA))
			}
			_, err := b.ingress.AcceptBatch(t.Context(), &batch)
			wantErr(t, err, store.ErrSpoiled)
			if n := b.db.QueryInt("SELECT (SELECT count(*) FROM delivery) + (SELECT count(*) FROM pull) + (SELECT count(*) FROM head) + (SELECT count(*) FROM evaluation)"); n != 0 {
				t.Errorf("refused %s: %d rows left behind", table, n)
			}
			b.db.Exec(fmt.Sprintf("DROP TRIGGER refuse ON %s", table))
		}
	})
	t.Run("a row that somebody holds spoils the batch soon, and a database that is gone does not", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.accept(t, "d0", direct(7, headA))
		conn, err := pgx.Connect(t.Context(), b.db.URL(storetest.Owner))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.Background())
		if _, err := conn.Exec(t.Context(), "BEGIN; SELECT FROM pull WHERE number = 7 FOR UPDATE"); err != nil {
			t.Fatal(err)
		}
		var batch store.DirectBatch
		batch.Add(opened("d7"), direct(7, headA))
		batch.Add(opened("d8"), direct(8, headA))
		began := time.Now()
		_, err = b.ingress.AcceptBatch(t.Context(), &batch)
		wantErr(t, err, store.ErrSpoiled)
		if took := time.Since(began); took > 10*time.Second { // the statement's own bound is 20 s here
			t.Errorf("it took %s", took)
		}
		if _, err := b.ingress.AcceptDirect(t.Context(), opened("d8"), direct(8, headA)); err != nil {
			t.Errorf("the other delivery by itself: %v", err)
		}
		if n := b.db.QueryInt("SELECT count(*) FROM delivery"); n != 2 {
			t.Errorf("%d deliveries, want the first and the other one", n)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := b.ingress.AcceptBatch(gone, &batch); err == nil || errors.Is(err, store.ErrSpoiled) {
			t.Errorf("without a database: %v", err)
		}
	})
	t.Run("RG-101 RG-103 RG-105 each delivery has its own outcome", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		first := b.accept(t, "d1", direct(7, headA))
		b.accept(t, "d2", direct(7, headA))
		b.accept(t, "d3", direct(8, headB))
		var batch store.DirectBatch
		batch.Add(opened("d3"), direct(9, headB))
		batch.Add(opened("new"), direct(9, headB))
		batch.Add(opened("d1"), direct(7, headA))
		got, err := b.ingress.AcceptBatch(t.Context(), &batch)
		if err != nil {
			t.Fatal(err)
		}
		wantErr(t, got[0].Err, store.ErrDeliveryConflict)
		if got[1].Err != nil || !got[1].New || got[1].HeadGeneration != 2 {
			t.Errorf("the new one: %+v", got[1])
		}
		if got[2].Err != nil || got[2].New || got[2].HeadGeneration != first.HeadGeneration {
			t.Errorf("the replayed one: %+v", got[2])
		}
	})
}

// TestAcceptBatchRace: batches over two connections, whose pull requests share heads crosswise, all in random order. Locked in any
// order but that of their keys they would deadlock, which costs a second each.
func TestAcceptBatchRace(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const rounds, pulls = 40, 12
	var wg sync.WaitGroup
	var stored atomic.Int64
	for racer := range 2 {
		s := b.db.Store(storetest.Ingress)
		wg.Go(func() {
			for round := range rounds {
				var batch store.DirectBatch
				for i := range pulls {
					n := i
					if (racer+round)%2 == 0 {
						n = pulls - 1 - i
					}
					w := direct(n+1, sha((n*5+racer+round)%pulls))
					w.Before = sha((n*7 + racer) % pulls)
					batch.Add(opened(store.DeliveryID(fmt.Sprintf("d-%d-%d-%d", racer, round, n))), w)
				}
				_, err := s.AcceptBatch(context.Background(), &batch)
				for errors.Is(err, store.ErrSpoiled) { // the other's commit took longer than a batch waits
					_, err = s.AcceptBatch(context.Background(), &batch)
				}
				if err != nil {
					t.Errorf("racer %d round %d: %v", racer, round, err)
					return
				}
				stored.Add(int64(batch.Len()))
			}
		})
	}
	wg.Wait()
	if n := b.db.QueryInt("SELECT count(*) FROM delivery"); n != stored.Load() || n == 0 {
		t.Errorf("%d deliveries, want %d", n, stored.Load())
	}
	if n := b.db.QueryInt("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"); n != 0 {
		t.Errorf("%d deadlocks", n)
	}
}

// TestAcceptBatchIsOneByOne: what a batch leaves and answers is what its deliveries leave and are answered when they are stored one
// after the other in the order of their keys.
func TestAcceptBatchIsOneByOne(t *testing.T) {
	t.Parallel()
	b := setup(t)
	owner, err := pgx.Connect(t.Context(), b.db.URL(storetest.Owner))
	if err != nil {
		t.Fatal(err)
	}
	defer owner.Close(context.Background())
	worlds := store.InstallationID(0)
	rapid.Check(t, func(rt *rapid.T) {
		worlds += 10
		together, single := worlds, worlds+5
		deliveries := drawDeliveries(rt)
		for len(deliveries) > 0 {
			var batch store.DirectBatch
			var aboard, left []drawn
			for i, d := range deliveries {
				if i > 12 || !batch.Add(d.in(together)) {
					left = append(left, d)
					continue
				}
				aboard = append(aboard, d)
			}
			deliveries = left
			got, err := b.ingress.AcceptBatch(context.Background(), &batch)
			if err != nil {
				rt.Fatalf("accept: %v", err)
			}
			for _, i := range order(aboard) {
				d, w := aboard[i].in(single)
				a, err := b.ingress.AcceptDirect(context.Background(), d, w)
				want := store.DirectOutcome{Acceptance: a, Err: err}
				same := (err == nil) == (got[i].Err == nil)
				if want.Head.Installation -= 5; want.Head.Installation < 0 {
					want.Head.Installation = 0
				}
				if err != nil && !same || err == nil && !gocmp.Equal(got[i], want) {
					rt.Fatalf("%+v: in the batch %+v, by itself %+v", aboard[i], got[i], want)
				}
			}
			if rapid.Bool().Draw(rt, "invalidate") {
				for _, q := range []string{"UPDATE head SET invalidated_generation = generation", "UPDATE evaluation SET awaits_revocation = false"} {
					if _, err := owner.Exec(context.Background(), q+" WHERE installation_id BETWEEN $1 AND $2", worlds, worlds+9); err != nil {
						rt.Fatal(err)
					}
				}
			}
			if diff := gocmp.Diff(rowsOf(rt, owner, single, 5), rowsOf(rt, owner, together, 0)); diff != "" {
				rt.Fatalf("rows (-one by one +batch):\n%s", diff)
			}
		}
	})
}

// drawn is one delivery, in any world.
type drawn struct {
	id   string
	work store.DirectWork // Installation is an offset
}

func (d drawn) in(world store.InstallationID) (store.Delivery, store.DirectWork) {
	w := d.work
	w.Installation += world
	id := fmt.Sprintf("%d-%s", world, d.id)
	return store.Delivery{ID: store.DeliveryID(id), Event: "pull_request", Action: "edited", Traceparent: d.id}, w
}

func drawDeliveries(rt *rapid.T) []drawn {
	ids := rapid.StringMatching(`[a-m][a-e]`) // few, so that some come twice
	heads := rapid.IntRange(0, 3)
	start := time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC)
	return rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) drawn {
		w := direct(rapid.IntRange(1, 4).Draw(rt, "number"), sha(heads.Draw(rt, "head")))
		w.Installation = store.InstallationID(rapid.IntRange(0, 1).Draw(rt, "installation"))
		w.Repository = store.RepositoryID(rapid.IntRange(10, 11).Draw(rt, "repository"))
		w.FullName = rapid.SampledFrom([]string{"acme/api", "acme/web"}).Draw(rt, "name")
		w.AccountLogin = rapid.SampledFrom([]string{"acme", "octo-org"}).Draw(rt, "account")
		if rapid.Bool().Draw(rt, "left") {
			w.Before = sha(heads.Draw(rt, "before"))
		}
		if at := rapid.IntRange(0, 5).Draw(rt, "time"); at > 0 {
			w.Watermark = store.Watermark{Head: w.Head, UpdatedAt: start.Add(time.Duration(at) * time.Minute)}
		}
		if review := rapid.Int64Range(0, 3).Draw(rt, "review"); review > 0 {
			w.Watermark.ReviewID, w.Watermark.ReviewState = review, rapid.SampledFrom([]string{"APPROVED", "DISMISSED"}).Draw(rt, "state")
		}
		return drawn{ids.Draw(rt, "id"), w}
	}), 1, 20).Draw(rt, "deliveries")
}

// order is that in which a batch stores: the second delivery of a pull request after the first of all, each time by key.
func order(aboard []drawn) []int {
	seen := map[store.PullKey]int{}
	round := make([]int, len(aboard))
	all := make([]int, len(aboard))
	for i, d := range aboard {
		key := store.PullKey{Installation: d.work.Installation, Repository: d.work.Repository, Number: d.work.Number}
		round[i], all[i] = seen[key], i
		seen[key]++
	}
	slices.SortStableFunc(all, func(x, y int) int {
		a, b := aboard[x].work, aboard[y].work
		return cmp.Or(cmp.Compare(round[x], round[y]), cmp.Compare(a.Installation, b.Installation), cmp.Compare(a.Repository, b.Repository), cmp.Compare(a.Number, b.Number))
	})
	return all
}

// rowsOf is everything two installations have, but for the clock.
func rowsOf(rt *rapid.T, owner *pgx.Conn, world store.InstallationID, shift int) (rows string) {
	err := owner.QueryRow(context.Background(), `
		SELECT coalesce(string_agg(line, E'\n' ORDER BY line), '') FROM (
			SELECT format('installation %s %s %s', installation_id - $2::bigint, account_login, authority_epoch) AS line, installation_id FROM installation
			UNION ALL SELECT format('repository %s %s %s', installation_id - $2::bigint, repository_id, full_name), installation_id FROM repository
			UNION ALL SELECT format('pull %s %s %s %s %s %s', installation_id - $2::bigint, repository_id, number, generation, head_sha, github_updated_at), installation_id FROM pull
			UNION ALL SELECT format('head %s %s %s %s %s %s %s', installation_id - $2::bigint, repository_id, head_sha, generation, invalidated_generation, lane, traceparent), installation_id FROM head
			UNION ALL SELECT format('evaluation %s %s %s %s %s %s %s %s %s %s %s %s %s', installation_id - $2::bigint, repository_id, number, generation, head_sha, head_generation,
				authority_epoch, substr(delivery_id, strpos(delivery_id, '-')), traceparent, watermark_head, watermark_updated_at, watermark_review_id, watermark_review_state), installation_id FROM evaluation
			UNION ALL SELECT format('delivery %s %s %s %s %s %s %s', installation_id - $2::bigint, substr(delivery_id, strpos(delivery_id, '-')), repository_id, number, head_sha, head_generation, traceparent), installation_id FROM delivery
		) AS lines WHERE installation_id BETWEEN $1 AND $1 + 4`, world, shift).Scan(&rows)
	if err != nil {
		rt.Fatal(err)
	}
	return rows
}
