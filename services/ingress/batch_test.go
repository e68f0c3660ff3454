package ingress

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/countersign/countersign/pkg/store"
)

// gate is a store whose commits wait until the test lets them go.
type gate struct {
	*fakeStore
	// pass decides one commit; it may wait.
	pass func(ids []string) error

	mu      sync.Mutex
	batches [][]string // delivery ids, as committed
}

func (g *gate) AcceptBatch(ctx context.Context, b *store.DirectBatch) ([]store.DirectOutcome, error) {
	var ids []string
	for d := range b.All() {
		ids = append(ids, string(d.ID))
	}
	g.mu.Lock()
	g.batches = append(g.batches, ids)
	g.mu.Unlock()
	if err := g.pass(ids); err != nil {
		return nil, err
	}
	return g.fakeStore.AcceptBatch(ctx, b)
}

func (g *gate) committed() [][]string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([][]string(nil), g.batches...)
}

// riders are deliveries on their way through a batcher, in a bubble of synctest.
type riders struct {
	*batcher
	t    *testing.T
	mu   sync.Mutex
	errs map[string]error
}

func ride(t *testing.T, g *gate, commits int) *riders {
	t.Helper()
	m, err := newMetrics(nil)
	if err != nil {
		t.Fatal(err)
	}
	g.fakeStore = &fakeStore{}
	b := newBatcher(g, int32(2*commits), m, slog.New(slog.DiscardHandler))
	b.commits = commits
	return &riders{batcher: b, t: t, errs: map[string]error{}}
}

// send begins to accept a delivery about a pull request, and returns when it waits or is answered.
func (r *riders) send(ctx context.Context, id string, number int, head string) {
	go func() {
		w := store.DirectWork{Installation: 1, Repository: 2, Number: number, Head: store.SHA(head)}
		_, err := r.accept(ctx, store.Delivery{ID: store.DeliveryID(id)}, w)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.errs[id] = err
	}()
	synctest.Wait()
}

func (r *riders) answered(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.errs[id]
	return ok
}

func (r *riders) wantBatches(g *gate, want ...[]string) {
	r.t.Helper()
	synctest.Wait()
	if diff := cmp.Diff(want, g.committed()); diff != "" {
		r.t.Errorf("commits (-want +got):\n%s", diff)
	}
}

func TestBatcher(t *testing.T) {
	t.Parallel()
	t.Run("the first goes at once, and who comes during a commit shares the next", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			release := make(chan struct{})
			g := &gate{pass: func([]string) error { <-release; return nil }}
			r := ride(t, g, 1)
			r.send(t.Context(), "a", 1, headA)
			r.wantBatches(g, []string{"a"})
			r.send(t.Context(), "b", 2, headA)
			r.send(t.Context(), "c", 3, headB)
			r.send(t.Context(), "d", 3, headB)
			if r.answered("a") || r.answered("b") {
				t.Error("answered before its commit")
			}
			close(release)
			r.wantBatches(g, []string{"a"}, []string{"b", "c", "d"})
			for _, id := range []string{"a", "b", "c", "d"} {
				if !r.answered(id) {
					t.Errorf("%s was not answered", id)
				}
			}
		})
	})
	t.Run("a batch is bounded", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			release := make(chan struct{})
			g := &gate{pass: func([]string) error { <-release; return nil }}
			r := ride(t, g, 1)
			for n := range 2*batchSize + 2 {
				r.send(t.Context(), fmt.Sprint(n), n+1, headA)
			}
			close(release)
			synctest.Wait()
			var sizes []int
			for _, ids := range g.committed() {
				sizes = append(sizes, len(ids))
			}
			if diff := cmp.Diff([]int{1, batchSize, batchSize, 1}, sizes); diff != "" {
				t.Errorf("sizes (-want +got):\n%s", diff)
			}
		})
	})
	t.Run("no two commits under way have a row in common", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			release := make(chan struct{})
			g := &gate{pass: func([]string) error { <-release; return nil }}
			r := ride(t, g, 4)
			r.send(t.Context(), "a", 1, headA)
			r.send(t.Context(), "same pull", 1, headB)
			r.send(t.Context(), "same head", 2, headA)
			r.send(t.Context(), "other", 3, headB)
			r.wantBatches(g, []string{"a"}, []string{"other"})
			close(release)
			synctest.Wait()
			if n := r.stored(); n != 4 {
				t.Errorf("%d stored, want all", n)
			}
		})
	})
	t.Run("whoever leaves while waiting is not stored", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			release := make(chan struct{})
			g := &gate{pass: func([]string) error { <-release; return nil }}
			r := ride(t, g, 1)
			r.send(t.Context(), "a", 1, headA)
			leaving, leave := context.WithCancel(t.Context())
			r.send(leaving, "b", 2, headA)
			r.send(t.Context(), "c", 3, headA)
			leave()
			synctest.Wait()
			if !errors.Is(r.errs["b"], context.Canceled) {
				t.Errorf("whoever left got %v", r.errs["b"])
			}
			close(release)
			r.wantBatches(g, []string{"a"}, []string{"c"})
		})
	})
	t.Run("whoever leaves during the commit does not end it for the others", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			release := make(chan struct{})
			g := &gate{pass: func([]string) error { <-release; return nil }}
			r := ride(t, g, 1)
			r.send(t.Context(), "a", 1, headA)
			leaving, leave := context.WithTimeout(t.Context(), time.Second)
			defer leave()
			r.send(leaving, "b", 2, headA)
			r.send(t.Context(), "c", 3, headA)
			release <- struct{}{}
			r.wantBatches(g, []string{"a"}, []string{"b", "c"})
			time.Sleep(2 * time.Second)
			if !r.answered("b") || r.answered("c") {
				t.Error("want b gone and c waiting")
			}
			close(release)
			synctest.Wait()
			if n := r.stored(); n != 3 || r.errs["c"] != nil {
				t.Errorf("%d stored, c got %v", n, r.errs["c"])
			}
		})
	})
	t.Run("a spoiled batch is stored one by one, and only the culprit is refused", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			release := make(chan struct{})
			refused := errors.New("refused")
			g := &gate{}
			g.pass = func(ids []string) error {
				<-release
				for _, id := range ids {
					if id == "poison" && len(ids) > 1 {
						return fmt.Errorf("%w: %w", store.ErrSpoiled, refused)
					} else if id == "poison" {
						return refused
					}
				}
				return nil
			}
			r := ride(t, g, 1)
			r.send(t.Context(), "a", 1, headA)
			r.send(t.Context(), "b", 2, headA)
			r.send(t.Context(), "poison", 3, headA)
			r.send(t.Context(), "c", 4, headA)
			close(release)
			r.wantBatches(g, []string{"a"}, []string{"b", "poison", "c"}, []string{"b"}, []string{"poison"}, []string{"c"})
			if !errors.Is(r.errs["poison"], refused) || r.errs["b"] != nil || r.errs["c"] != nil {
				t.Errorf("outcomes %v", r.errs)
			}
		})
	})
	t.Run("deliveries stored by themselves leave one connection to the others", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			release, first := make(chan struct{}), make(chan struct{})
			g := &gate{}
			g.pass = func(ids []string) error {
				switch {
				case ids[0] == "a":
					<-first
				case len(ids) > 1 && ids[0] == "b":
					return store.ErrSpoiled
				case ids[0] == "b", ids[0] == "c":
					<-release // the row that somebody holds
				}
				return nil
			}
			r := ride(t, g, 2)
			r.send(t.Context(), "a", 1, headA)
			r.send(t.Context(), "b", 2, headA)
			r.send(t.Context(), "c", 3, headA)
			close(first)
			synctest.Wait()
			r.send(t.Context(), "d", 4, headB)
			if !r.answered("d") || r.answered("b") || r.answered("c") {
				t.Errorf("answered: %v; commits %v", r.errs, g.committed())
			}
			close(release)
			synctest.Wait()
			if n := r.stored(); n != 4 {
				t.Errorf("%d stored, want all", n)
			}
		})
	})
}

func (r *riders) stored() int { return r.store.(*gate).fakeStore.stored() }

func TestBatches(t *testing.T) {
	t.Parallel()
	t.Run("RG-160 an authority event never rides in a batch, nor waits for one", func(t *testing.T) {
		t.Parallel()
		release := make(chan struct{})
		g := &gate{fakeStore: &fakeStore{}, pass: func([]string) error { <-release; return nil }}
		b := start(t, g, offline(), nil)
		var wg sync.WaitGroup
		for n := range 5 {
			wg.Go(func() {
				b.deliver("pull_request", pullRequest("opened", n+1, headA, "open")).want(t, http.StatusAccepted)
			})
		}
		b.redeliver("team", "team", base("edited", nil)).wantBody(t, true, true) // while no commit ends
		close(release)
		wg.Wait()
		for _, ids := range g.committed() {
			for _, id := range ids {
				if id == "team" {
					t.Error("it rode in a batch")
				}
			}
		}
		if g.stored() != 6 {
			t.Errorf("stored %d, want all", g.stored())
		}
	})
	t.Run("RG-115 one delivery that the database refuses is 503, and those beside it are 202", func(t *testing.T) {
		t.Parallel()
		b := overPostgres(t, offline(), nil)
		b.exec("CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.number = 13 THEN RAISE EXCEPTION 'refused'; END IF; RETURN NEW; END $$")
		b.exec("CREATE TRIGGER refuse BEFORE INSERT ON evaluation FOR EACH ROW EXECUTE FUNCTION refuse()")
		var wg sync.WaitGroup
		for n := range 40 {
			wg.Go(func() {
				want := http.StatusAccepted
				if n+1 == 13 {
					want = http.StatusServiceUnavailable
				}
				b.deliver("pull_request", pullRequest("opened", n+1, fmt.Sprintf("%040x", n%7+1), "open")).want(t, want)
			})
		}
		wg.Wait()
		b.wantInt(39, deliveries)
		b.wantInt(0, "SELECT count(*) FROM pull WHERE number = 13")
		b.wantInt(39, "SELECT sum(generation) FROM head")
		b.wantInt(39, "SELECT count(DISTINCT (head_sha, head_generation)) FROM delivery")
	})
}
