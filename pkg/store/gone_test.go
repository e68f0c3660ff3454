package store_test

import (
	"context"
	"errors"
	"testing"

	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/store/storetest"
)

func (b *bundle) old() {
	b.db.Exec("UPDATE installation SET created_at = now() - interval '1 day'")
	b.db.Exec("UPDATE repository SET updated_at = now() - interval '1 day'")
}

func (b *bundle) parked() int64 {
	return b.db.QueryInt(`SELECT (SELECT count(*) FROM evaluation WHERE available_at = 'infinity') + (SELECT count(*) FROM authority WHERE available_at = 'infinity')
		+ (SELECT count(*) FROM head WHERE invalidation_available_at = 'infinity')`)
}

func TestGone(t *testing.T) {
	t.Parallel()
	ids := func(list ...store.InstallationID) []store.InstallationID { return list }
	stage := func(t *testing.T) *bundle {
		t.Helper()
		b := setup(t)
		b.accept(t, "d1", direct(7, headA))
		b.authority(t, "d2", store.AuthorityWork{Installation: 1, Scope: store.ScopeRepository, Repository: 10, FullName: "acme/api", Reason: "label.created"})
		b.old()
		return b
	}
	t.Run("P14 the work of an installation that is no longer listed is parked, counted, and wakes when it is listed again", func(t *testing.T) {
		t.Parallel()
		b := stage(t)
		p, err := b.reconciler.MarkInstallations(t.Context(), ids(2), nil)
		if err != nil || p.Gone != 1 || p.Parked != 3 || b.parked() != 3 {
			t.Fatalf("%+v, %v, %d parked", p, err, b.parked())
		}
		if _, err := b.invalidator.ClaimInvalidation(t.Context(), "invalidator-1", ttl); !errors.Is(err, store.ErrNoWork) {
			t.Errorf("claimed: %v", err)
		}
		if _, err := b.evaluator.ClaimEvaluation(t.Context(), "evaluator-1", ttl); !errors.Is(err, store.ErrNoWork) {
			t.Errorf("claimed: %v", err)
		}
		lanes, err := b.reconciler.ReadInvalidationBacklog(t.Context())
		if err != nil || len(lanes) != 1 || lanes[0].Parked != 1 || lanes[0].Waiting != 0 || lanes[0].OldestAge != 0 {
			t.Errorf("%+v, %v", lanes, err)
		}
		if a, err := b.reconciler.ReadAuthorityBacklog(t.Context()); err != nil || a.Parked != 1 {
			t.Errorf("%+v, %v", a, err)
		}
		if p, err := b.reconciler.MarkInstallations(t.Context(), ids(2), nil); err != nil || p != (store.Presence{}) {
			t.Errorf("a second time: %+v, %v", p, err)
		}
		p, err = b.reconciler.MarkInstallations(t.Context(), ids(1), nil)
		if err != nil || p.Returned != 1 || p.Woken != 3 || b.parked() != 0 {
			t.Errorf("%+v, %v", p, err)
		}
		b.invalidate(t)
	})
	t.Run("P14 a suspended installation is parked, and its unsuspend event wakes it at once", func(t *testing.T) {
		t.Parallel()
		b := stage(t)
		if p, err := b.reconciler.MarkInstallations(t.Context(), ids(1), ids(1)); err != nil || p.Parked != 3 {
			t.Fatalf("%+v, %v", p, err)
		}
		b.authority(t, "d3", store.AuthorityWork{Installation: 1, Scope: store.ScopeInstallation, Reason: "installation.unsuspend"})
		if b.parked() != 0 || b.db.QueryInt("SELECT count(*) FROM installation WHERE gone_at IS NOT NULL") != 0 {
			t.Errorf("%d rows are still parked", b.parked())
		}
	})
	t.Run("P14 a repository that was removed is parked alone, and wakes when it was added again", func(t *testing.T) {
		t.Parallel()
		b := stage(t)
		other := direct(8, headB)
		other.Repository, other.FullName = 11, "acme/web"
		b.accept(t, "d3", other)
		p, err := b.reconciler.MarkRepositories(t.Context(), 1, []store.RepositoryID{11})
		if err != nil || p.Gone != 1 || p.Parked != 3 {
			t.Fatalf("%+v, %v", p, err)
		}
		if inv := b.invalidate(t); inv.Head.Repository != 11 {
			t.Errorf("claimed %v", inv.Head)
		}
		p, err = b.reconciler.MarkRepositories(t.Context(), 1, []store.RepositoryID{10, 11})
		if err != nil || p.Returned != 1 || p.Woken != 3 || b.parked() != 0 {
			t.Errorf("%+v, %v", p, err)
		}
	})
	t.Run("P14 an event of a gone installation is work at once, and the rest wakes with the next listing", func(t *testing.T) {
		t.Parallel()
		b := stage(t)
		if _, err := b.reconciler.MarkInstallations(t.Context(), ids(2), nil); err != nil {
			t.Fatal(err)
		}
		b.accept(t, "d3", direct(7, headA))
		b.invalidate(t)
		if p, err := b.reconciler.MarkInstallations(t.Context(), ids(1), nil); err != nil || p.Woken != 1 || b.parked() != 0 {
			t.Errorf("%+v, %v", p, err)
		}
	})
	t.Run("P14 an installation first seen a moment ago is not gone: a listing lags", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.accept(t, "d1", direct(7, headA))
		if p, err := b.reconciler.MarkInstallations(t.Context(), nil, nil); err != nil || p != (store.Presence{}) {
			t.Errorf("%+v, %v", p, err)
		}
	})
	t.Run("P14 a purge removes what is gone but its decisions, and nothing that is not gone", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.accept(t, "d1", direct(7, headA))
		b.publish(t, 500)
		owner := b.db.Store(storetest.Owner)
		if _, err := owner.PurgeInstallation(t.Context(), 1); !errors.Is(err, store.ErrNotGone) {
			t.Errorf("purged: %v", err)
		}
		if _, err := owner.PurgeInstallation(t.Context(), 9); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("purged: %v", err)
		}
		b.old()
		if _, err := b.reconciler.MarkInstallations(t.Context(), nil, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := b.reconciler.PurgeInstallation(t.Context(), 1); err == nil {
			t.Error("a service's role may purge")
		}
		removed, err := owner.PurgeInstallation(t.Context(), 1)
		if err != nil || removed == 0 {
			t.Fatalf("%d, %v", removed, err)
		}
		for _, table := range []string{"installation", "repository", "pull", "head", "evaluation", "authority", "delivery"} {
			if n := b.db.QueryInt("SELECT count(*) FROM " + table); n != 0 {
				t.Errorf("%d rows of %s remain", n, table)
			}
		}
		if n, err := owner.VerifyChain(context.Background(), 1); err != nil || n != 1 {
			t.Errorf("%d decisions, %v", n, err)
		}
	})
}
