package fanout

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/nudge"
	"github.com/countersign/countersign/pkg/store"
)

// leaseStore is a store of one row for ever: what a pass does to it is recorded, when it renews is up to renew.
type leaseStore struct {
	Store
	renew    func(n int) error
	renewals []time.Duration
	began    time.Time
	settled  []string
}

func (l *leaseStore) ClaimAuthority(context.Context, string, time.Duration) (store.Authority, error) {
	l.began = time.Now()
	return store.Authority{Installation: 1, Scope: store.ScopeRepository, Repository: 10, FullName: "acme/api", Generation: 1, PassGeneration: 1, Page: 1, Token: 1}, nil
}

func (l *leaseStore) RenewAuthority(context.Context, store.Authority, time.Duration) error {
	l.renewals = append(l.renewals, time.Since(l.began))
	return l.renew(len(l.renewals))
}

func (l *leaseStore) DeferAuthority(_ context.Context, _ store.Authority, _ time.Duration, cause string, _ bool) error {
	l.settled = append(l.settled, cause)
	return nil
}

func (l *leaseStore) AdvancePage(context.Context, store.Authority, string, []store.PullFact, int) error {
	l.settled = append(l.settled, "advanced")
	return nil
}

// slowGitHub answers after a while, or when it is cancelled.
type slowGitHub struct {
	fakeGitHub
	takes time.Duration
}

func (s *slowGitHub) OpenPulls(ctx context.Context, r ghclient.Repo, base string, page int) ([]ghclient.Pull, int, error) {
	select {
	case <-ctx.Done():
		return nil, 0, fmt.Errorf("list: %w", ctx.Err())
	case <-time.After(s.takes):
		return nil, 0, nil
	}
}

func TestLease(t *testing.T) {
	t.Parallel()
	run := func(t *testing.T, st *leaseStore, takes time.Duration) (string, time.Duration) {
		t.Helper()
		github := &slowGitHub{takes: takes, fakeGitHub: fakeGitHub{repos: []ghRepo{repo(10, "acme/api")}}}
		cfg := testConfig()
		cfg.Worker.Lease = 2 * time.Minute
		service, err := New(cfg, Deps{Store: st, Waker: &wakes{}, Holder: "x", GitHub: func(store.InstallationID) GitHub { return github }})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := service.step(t.Context(), nil, nudge.ViaPoll); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(st.settled), time.Since(began)
	}
	t.Run("RG-275 renewed every third of the lease for as long as the pass takes", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			st := &leaseStore{renew: func(int) error { return nil }}
			settled, _ := run(t, st, 3*time.Minute)
			if settled != "[advanced]" || fmt.Sprint(st.renewals) != "[40s 1m20s 2m0s 2m40s]" {
				t.Errorf("settled %s, renewed at %v", settled, st.renewals)
			}
		})
	})
	t.Run("RG-229 a lost lease cancels what the pass waits for, and nothing is written afterwards", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			st := &leaseStore{renew: func(n int) error {
				if n == 2 {
					return store.ErrLeaseLost
				}
				return nil
			}}
			settled, took := run(t, st, time.Hour)
			if settled != "[]" || took != 80*time.Second {
				t.Errorf("settled %s after %s", settled, took)
			}
		})
	})
	t.Run("a lease that cannot be renewed is given up before it may be somebody else's", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			st := &leaseStore{renew: func(int) error { return errors.New("connection refused") }}
			settled, took := run(t, st, time.Hour)
			if settled != "[]" || took >= 2*time.Minute {
				t.Errorf("settled %s after %s, the lease was 2m", settled, took)
			}
		})
	})
	t.Run("one renewal that fails is tried again", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			st := &leaseStore{renew: func(n int) error {
				if n == 1 {
					return errors.New("connection refused")
				}
				return nil
			}}
			if settled, _ := run(t, st, 5*time.Minute); settled != "[advanced]" {
				t.Errorf("settled %s", settled)
			}
		})
	})
}
