package fanout

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/nudge"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/store/storetest"
)

func TestMain(m *testing.M) {
	// The test server's own waiter outlives the tests on purpose: it serves every package.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/countersign/countersign/pkg/store/localpg.spawn.func1"))
}

// fakeGitHub is one installation as a pass sees it, with the cursor of the real client: the lowest number not listed yet.
type fakeGitHub struct {
	mu    sync.Mutex
	repos []ghclient.RepositoryInfo
	pulls map[int64][]ghclient.Pull
	page  int
	// before is asked ahead of every call, op and its argument; its error is the answer.
	before func(op string) error
	calls  []string
}

func repo(id int64, full string) ghclient.RepositoryInfo {
	r, _ := ghclient.RepoFromFullName(id, full)
	return ghclient.RepositoryInfo{Repo: r, DefaultBranch: "main", OwnerType: "Organization"}
}

func sha(n int) string { return fmt.Sprintf("%040x", n) }

// open adds numbered pull requests, each on a head of its own.
func (f *fakeGitHub) open(repository int64, base string, numbers ...int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range numbers {
		f.pulls[repository] = append(f.pulls[repository], ghclient.Pull{
			Number: n, State: "open", HeadSHA: sha(int(repository)*1000 + n), BaseRef: base, UpdatedAt: time.Unix(int64(n), 0), Title: "change",
			Author: ghclient.Actor{ID: 1, Login: "alice", Type: "User"},
		})
	}
}

func (f *fakeGitHub) close(repository int64, number int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pulls[repository] = slices.DeleteFunc(f.pulls[repository], func(p ghclient.Pull) bool { return p.Number == number })
}

func (f *fakeGitHub) ask(ctx context.Context, op string) error {
	f.mu.Lock()
	f.calls = append(f.calls, op)
	before := f.before
	f.mu.Unlock()
	if before != nil {
		if err := before(op); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (f *fakeGitHub) called(prefix string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.calls {
		if strings.HasPrefix(c, prefix) {
			n++
		}
	}
	return n
}

func (f *fakeGitHub) Repositories(ctx context.Context) ([]ghclient.RepositoryInfo, error) {
	if err := f.ask(ctx, "repositories"); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.repos), nil
}

func (f *fakeGitHub) Repository(ctx context.Context, r ghclient.Repo) (ghclient.RepositoryInfo, error) {
	if err := f.ask(ctx, "repository "+r.FullName()); err != nil {
		return ghclient.RepositoryInfo{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, known := range f.repos {
		if known.FullName() == r.FullName() {
			if known.ID != r.ID {
				return ghclient.RepositoryInfo{}, fmt.Errorf("read: %w", ghclient.ErrMoved)
			}
			return known, nil
		}
	}
	return ghclient.RepositoryInfo{}, fmt.Errorf("read: %w", ghclient.ErrNotFound)
}

func (f *fakeGitHub) OpenPulls(ctx context.Context, r ghclient.Repo, base string, page int) ([]ghclient.Pull, int, error) {
	if err := f.ask(ctx, fmt.Sprintf("pulls %s %s %d", r.FullName(), base, page)); err != nil {
		return nil, 0, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	all := slices.Clone(f.pulls[r.ID])
	slices.SortFunc(all, func(a, b ghclient.Pull) int { return cmp.Compare(a.Number, b.Number) })
	var out []ghclient.Pull
	for _, p := range all {
		if p.Number < page || (base != "" && p.BaseRef != base) {
			continue
		}
		if len(out) == f.page {
			return out, p.Number, nil
		}
		out = append(out, p)
	}
	return out, 0, nil
}

// The fake's branches have no rules that can be named, so that nothing is narrowed; narrow_test.go has the stand-in.
func (f *fakeGitHub) BaseRules(ctx context.Context, r ghclient.Repo, branch string) (ghclient.BaseRules, error) {
	return ghclient.BaseRules{}, f.ask(ctx, "rules "+branch)
}

func (f *fakeGitHub) Changes(ctx context.Context, r ghclient.Repo, numbers []int) (map[int]ghclient.Pull, error) {
	return nil, f.ask(ctx, "changes")
}

// wakes collects what was sent.
type wakes struct {
	mu   sync.Mutex
	sent []nudge.Wake
	err  error
}

func (w *wakes) Wake(_ context.Context, wake nudge.Wake) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent = append(w.sent, wake)
	return w.err
}

func (w *wakes) of(s nudge.Subject) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, wake := range w.sent {
		if wake.Subject == s {
			n++
		}
	}
	return n
}

// bundle is one test's database, GitHub and service.
type bundle struct {
	t        *testing.T
	db       *storetest.DB
	ingress  *store.Store
	fanout   *store.Store
	github   *fakeGitHub
	wakes    *wakes
	registry *prometheus.Registry
	service  *Service
}

func setup(t *testing.T) *bundle {
	t.Helper()
	db := storetest.New(t)
	b := &bundle{
		t: t, db: db, ingress: db.Store(storetest.Ingress), fanout: db.Store(storetest.Fanout),
		github: &fakeGitHub{page: 2, pulls: map[int64][]ghclient.Pull{}, repos: []ghclient.RepositoryInfo{repo(10, "acme/api")}},
		wakes:  &wakes{}, registry: prometheus.NewRegistry(),
	}
	b.service = b.replica(b.fanout, "fanout-1", b.registry)
	t.Cleanup(func() { storetest.CheckInvariants(t, db) })
	return b
}

func testConfig() Config {
	return Config{
		Worker: store.WorkerConfig{Concurrency: 2, Lease: time.Minute, Poll: 20 * time.Millisecond, RetryMax: time.Minute}, InaccessibleRetryMax: 6 * time.Hour,
	}
}

func (b *bundle) replica(s Store, holder string, r prometheus.Registerer) *Service {
	b.t.Helper()
	service, err := New(testConfig(), Deps{
		Store: s, Waker: b.wakes, Holder: holder, Metrics: r, GitHub: func(store.InstallationID) GitHub { return b.github },
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return service
}

// accept plays ingress storing an authority webhook.
func (b *bundle) accept(id store.DeliveryID, w store.AuthorityWork) {
	b.t.Helper()
	if w.Installation == 0 {
		w.Installation = 1
	}
	w.AccountLogin = "acme"
	if w.Reason == "" {
		w.Reason = "team.edited"
	}
	if w.Repository != 0 && w.FullName == "" {
		w.FullName = "acme/api"
	}
	if _, err := b.ingress.AcceptAuthority(b.t.Context(), store.Delivery{ID: id, Event: "team", Action: "edited"}, w, time.Second); err != nil {
		b.t.Fatalf("accept: %v", err)
	}
}

func installationWide() store.AuthorityWork {
	return store.AuthorityWork{Scope: store.ScopeInstallation}
}

func repositoryWide(id store.RepositoryID) store.AuthorityWork {
	return store.AuthorityWork{Scope: store.ScopeRepository, Repository: id}
}

func basePush(id store.RepositoryID, ref string) store.AuthorityWork {
	return store.AuthorityWork{Scope: store.ScopeBase, Repository: id, BaseRef: ref, Reason: "push"}
}

// step works one row with the given replica; it fails the test on an error.
func (b *bundle) step(s *Service) bool {
	b.t.Helper()
	did, err := s.step(b.t.Context(), nil, nudge.ViaPoll)
	if err != nil {
		b.t.Fatalf("step: %v", err)
	}
	return did
}

// stepWaits is a step after which the one row is due again in so many seconds, to the moment at which the step put it off,
// however long the machine takes to look.
func (b *bundle) stepWaits(seconds int) {
	b.t.Helper()
	before := b.db.QueryText("SELECT now()::text")
	b.step(b.service)
	after := b.db.QueryText("SELECT now()::text")
	b.wantText("", `SELECT coalesce(string_agg('due at ' || available_at || ', stepped from ' || $1 || ' to ' || $2, ''), '') FROM authority
		WHERE available_at NOT BETWEEN $1::timestamptz + make_interval(secs => $3) AND $2::timestamptz + make_interval(secs => $3)`, before, after, seconds)
	b.wantInt(1, "SELECT count(*) FROM authority")
}

// drain works until nothing is due.
func (b *bundle) drain(s *Service) {
	b.t.Helper()
	for n := 0; b.step(s); n++ {
		if n > 200 {
			b.t.Fatal("work never ends")
		}
	}
}

func (b *bundle) wantInt(want int64, sql string, args ...any) {
	b.t.Helper()
	if got := b.db.QueryInt(sql, args...); got != want {
		b.t.Errorf("%s = %d, want %d", sql, got, want)
	}
}

func (b *bundle) wantText(want, sql string, args ...any) {
	b.t.Helper()
	if got := b.db.QueryText(sql, args...); got != want {
		b.t.Errorf("%s = %q, want %q", sql, got, want)
	}
}

// headGenerations is "number:generation …" of the pull requests' heads.
const headGenerations = `SELECT coalesce(string_agg(format('%s:%s', p.number, h.generation), ' ' ORDER BY p.number), '')
	FROM pull p JOIN head h USING (installation_id, repository_id, head_sha)`

// faultyStore is the real one with faults: before replaces a call, after replaces its answer once it has happened.
type faultyStore struct {
	Store
	mu     sync.Mutex
	before map[string]error
	after  map[string]error
}

func (f *faultyStore) fault(op string, call func() error) error {
	f.mu.Lock()
	before, after := f.before[op], f.after[op]
	f.mu.Unlock()
	if before != nil {
		return before
	}
	if err := call(); err != nil {
		return err
	}
	return after
}

func (f *faultyStore) ClaimAuthority(ctx context.Context, holder string, ttl time.Duration) (a store.Authority, err error) {
	err = f.fault("claim", func() error { a, err = f.Store.ClaimAuthority(ctx, holder, ttl); return err })
	return a, err
}

func (f *faultyStore) RenewAuthority(ctx context.Context, a store.Authority, ttl time.Duration) error {
	return f.fault("renew", func() error { return f.Store.RenewAuthority(ctx, a, ttl) })
}

func (f *faultyStore) DeferAuthority(ctx context.Context, a store.Authority, d time.Duration, cause string, spend bool) error {
	return f.fault("defer", func() error { return f.Store.DeferAuthority(ctx, a, d, cause, spend) })
}

func (f *faultyStore) ParkAuthority(ctx context.Context, a store.Authority, first, most time.Duration, cause string) (d time.Duration, err error) {
	err = f.fault("park", func() error { d, err = f.Store.ParkAuthority(ctx, a, first, most, cause); return err })
	return d, err
}

func (f *faultyStore) SplitInstallation(ctx context.Context, a store.Authority, repos []store.RepositoryRef) error {
	return f.fault("split", func() error { return f.Store.SplitInstallation(ctx, a, repos) })
}

func (f *faultyStore) AdvancePage(ctx context.Context, a store.Authority, full string, pulls []store.PullFact, next int) error {
	return f.fault("advance", func() error { return f.Store.AdvancePage(ctx, a, full, pulls, next) })
}

func (f *faultyStore) FinishAuthority(ctx context.Context, a store.Authority) error {
	return f.fault("finish", func() error { return f.Store.FinishAuthority(ctx, a) })
}

type ghRepo = ghclient.RepositoryInfo

// ghErr is an error as the client wraps it.
func ghErr(kind string) error {
	return fmt.Errorf("list: %w", map[string]error{
		"unavailable": ghclient.ErrUnavailable, "malformed": ghclient.ErrMalformed, "moved": ghclient.ErrMoved,
		"not_found": ghclient.ErrNotFound, "suspended": ghclient.ErrSuspended, "gone": ghclient.ErrInstallationGone,
		"unauthorized": ghclient.ErrUnauthorized, "forbidden": ghclient.ErrForbidden,
	}[kind])
}
