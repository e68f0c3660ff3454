package reconciler

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
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

// journal is the order of everything a scan does, and the place where a test interferes.
type journal struct {
	mu    sync.Mutex
	steps []string
	// on is asked ahead of every step; its error is the step's.
	on func(ctx context.Context, step string) error
}

func (j *journal) step(ctx context.Context, format string, args ...any) error {
	step := fmt.Sprintf(format, args...)
	j.mu.Lock()
	j.steps = append(j.steps, step)
	on := j.on
	j.mu.Unlock()
	if on == nil {
		return nil
	}
	return on(ctx, step)
}

func (j *journal) taken() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.steps)
}

func (j *journal) count(prefix string) (n int) {
	for _, s := range j.taken() {
		if strings.HasPrefix(s, prefix) {
			n++
		}
	}
	return n
}

// fakeGitHub is every installation of the App.
type fakeGitHub struct {
	*journal
	installations []ghclient.Installation
	repos         map[int64][]ghclient.RepositoryInfo // by installation
	pulls         map[int64][]ghclient.Pull           // by repository
	page          int
	log           []ghclient.Delivery     // newest first
	runs          map[string]ghclient.Run // the latest of a head
}

// Deliveries pages by position: the cursor is how many to pass over.
func (f *fakeGitHub) Deliveries(ctx context.Context, cursor string) ([]ghclient.Delivery, string, error) {
	if err := f.step(ctx, "deliveries %q", cursor); err != nil {
		return nil, "", err
	}
	from, _ := strconv.Atoi(cursor)
	to := min(len(f.log), from+f.page)
	if to == len(f.log) {
		return f.log[from:to], "", nil
	}
	return f.log[from:to], strconv.Itoa(to), nil
}

func (f *fakeGitHub) Redeliver(ctx context.Context, id int64) error {
	return f.step(ctx, "redeliver %d", id)
}

func (f *fakeGitHub) Installations(ctx context.Context) ([]ghclient.Installation, error) {
	if err := f.step(ctx, "installations"); err != nil {
		return nil, err
	}
	return f.installations, nil
}

type fakeClient struct {
	*fakeGitHub
	installation int64
}

func (c fakeClient) Repositories(ctx context.Context) ([]ghclient.RepositoryInfo, error) {
	if err := c.step(ctx, "repositories %d", c.installation); err != nil {
		return nil, err
	}
	return c.repos[c.installation], nil
}

func (c fakeClient) OpenPulls(ctx context.Context, r ghclient.Repo, base string, page int) ([]ghclient.Pull, int, error) {
	if err := c.step(ctx, "pulls %s from %d", r.FullName(), page); err != nil {
		return nil, 0, err
	}
	var out []ghclient.Pull
	for _, p := range c.pulls[r.ID] {
		if p.Number < page {
			continue
		}
		if len(out) == c.page {
			return out, p.Number, nil
		}
		out = append(out, p)
	}
	return out, 0, nil
}

func (c fakeClient) FindRun(ctx context.Context, r ghclient.Repo, sha, _ string) (ghclient.Run, bool, error) {
	if err := c.step(ctx, "run %s", sha); err != nil {
		return ghclient.Run{}, false, err
	}
	run, found := c.runs[sha]
	return run, found, nil
}

func repo(id int64, full string) ghclient.RepositoryInfo {
	r, _ := ghclient.RepoFromFullName(id, full)
	return ghclient.RepositoryInfo{Repo: r, DefaultBranch: "main", OwnerType: "Organization"}
}

func sha(n int) string { return fmt.Sprintf("%040x", n) }

func pull(number, head int) ghclient.Pull {
	return ghclient.Pull{Number: number, State: "open", HeadSHA: sha(head), BaseRef: "main", UpdatedAt: time.Unix(int64(head), 0)}
}

// world is one installation with one repository and the given pull requests.
func world(pulls ...ghclient.Pull) *fakeGitHub {
	return &fakeGitHub{
		journal: &journal{}, page: 2,
		installations: []ghclient.Installation{{ID: 1, AccountLogin: "acme"}},
		repos:         map[int64][]ghclient.RepositoryInfo{1: {repo(10, "acme/api")}},
		pulls:         map[int64][]ghclient.Pull{10: pulls},
	}
}

// journaledStore writes every call into the journal ahead of doing it. Without a real store it does nothing and succeeds.
type journaledStore struct {
	*journal
	real   Store
	result string // of the last resignation
}

// otherDuty tells the steps of the scan, which have no prefix, from those of another duty.
func otherDuty(lease string) string {
	if lease == leaseName {
		return ""
	}
	return lease + ": "
}

func (s *journaledStore) ElectDue(ctx context.Context, name, holder string, ttl, every time.Duration) (store.Term, error) {
	if err := s.step(ctx, "%select", otherDuty(name)); err != nil {
		return store.Term{}, err
	}
	if s.real == nil {
		return store.Term{Name: name, Token: 1}, nil
	}
	return s.real.ElectDue(ctx, name, holder, ttl, every)
}

func (s *journaledStore) RenewTerm(ctx context.Context, t store.Term, ttl time.Duration) error {
	if err := s.step(ctx, "%srenew", otherDuty(t.Name)); err != nil || s.real == nil {
		return err
	}
	return s.real.RenewTerm(ctx, t, ttl)
}

func (s *journaledStore) ResignTerm(ctx context.Context, t store.Term, result string) error {
	s.mu.Lock()
	s.result = result
	s.mu.Unlock()
	if err := s.step(ctx, "%sresign %q", otherDuty(t.Name), result); err != nil || s.real == nil {
		return err
	}
	return s.real.ResignTerm(ctx, t, result)
}

func (s *journaledStore) ReadLease(ctx context.Context, name string) (store.LeaseStatus, error) {
	if s.real == nil {
		return store.LeaseStatus{}, nil
	}
	return s.real.ReadLease(ctx, name)
}

func (s *journaledStore) PruneDeliveries(ctx context.Context, age time.Duration, limit int) (int, error) {
	if err := s.step(ctx, "prune deliveries"); err != nil || s.real == nil {
		return 0, err
	}
	return s.real.PruneDeliveries(ctx, age, limit)
}

func (s *journaledStore) PruneHeads(ctx context.Context, age time.Duration, limit int) (int, error) {
	if err := s.step(ctx, "prune heads"); err != nil || s.real == nil {
		return 0, err
	}
	return s.real.PruneHeads(ctx, age, limit)
}

func (s *journaledStore) KeepInstallation(ctx context.Context, i store.InstallationID, login string) error {
	if err := s.step(ctx, "keep %d", i); err != nil || s.real == nil {
		return err
	}
	return s.real.KeepInstallation(ctx, i, login)
}

func (s *journaledStore) MarkInstallations(ctx context.Context, present, suspended []store.InstallationID) (store.Presence, error) {
	if err := s.step(ctx, "mark installations"); err != nil || s.real == nil {
		return store.Presence{}, err
	}
	return s.real.MarkInstallations(ctx, present, suspended)
}

func (s *journaledStore) MarkRepositories(ctx context.Context, i store.InstallationID, present []store.RepositoryID) (store.Presence, error) {
	if err := s.step(ctx, "mark repositories %d", i); err != nil || s.real == nil {
		return store.Presence{}, err
	}
	return s.real.MarkRepositories(ctx, i, present)
}

func (s *journaledStore) WakeParked(ctx context.Context, i store.InstallationID, repos []store.RepositoryID) (int, error) {
	if err := s.step(ctx, "wake parked %d", i); err != nil || s.real == nil {
		return 0, err
	}
	return s.real.WakeParked(ctx, i, repos)
}

func (s *journaledStore) EnqueueIdle(ctx context.Context, key store.PullKey, full string, fact store.PullFact, age time.Duration) (bool, error) {
	if err := s.step(ctx, "enqueue %s#%d", full, key.Number); err != nil || s.real == nil {
		return err == nil, err
	}
	return s.real.EnqueueIdle(ctx, key, full, fact, age)
}

func (s *journaledStore) ReadLogPosition(ctx context.Context) (store.LogPosition, error) {
	if err := s.step(ctx, "position"); err != nil || s.real == nil {
		return store.LogPosition{}, err
	}
	return s.real.ReadLogPosition(ctx)
}

func (s *journaledStore) KeepLogPosition(ctx context.Context, p store.LogPosition) error {
	if err := s.step(ctx, "keep position"); err != nil || s.real == nil {
		return err
	}
	return s.real.KeepLogPosition(ctx, p)
}

func (s *journaledStore) RecordLog(ctx context.Context, log []store.LoggedDelivery) (store.GapCount, error) {
	if err := s.step(ctx, "record %d", len(log)); err != nil || s.real == nil {
		return store.GapCount{}, err
	}
	return s.real.RecordLog(ctx, log)
}

func (s *journaledStore) SettleGaps(ctx context.Context) (map[store.GapState]int, error) {
	if err := s.step(ctx, "settle"); err != nil || s.real == nil {
		return nil, err
	}
	return s.real.SettleGaps(ctx)
}

func (s *journaledStore) TakeGap(ctx context.Context, recovered time.Time) (store.Gap, error) {
	if err := s.step(ctx, "take"); err != nil {
		return store.Gap{}, err
	}
	if s.real == nil {
		return store.Gap{}, store.ErrNoWork
	}
	return s.real.TakeGap(ctx, recovered)
}

func (s *journaledStore) GapNotAsked(ctx context.Context, g store.Gap, expired, spend bool, delay time.Duration, cause string) error {
	if err := s.step(ctx, "not asked %s", g.GUID); err != nil || s.real == nil {
		return err
	}
	return s.real.GapNotAsked(ctx, g, expired, spend, delay, cause)
}

func (s *journaledStore) ReadGapBacklog(ctx context.Context) (store.GapBacklog, error) {
	if s.real == nil {
		return store.GapBacklog{}, nil
	}
	return s.real.ReadGapBacklog(ctx)
}

func (s *journaledStore) PruneGaps(ctx context.Context, age time.Duration, limit int) (int, error) {
	if err := s.step(ctx, "prune gaps"); err != nil || s.real == nil {
		return 0, err
	}
	return s.real.PruneGaps(ctx, age, limit)
}

func (s *journaledStore) NextDecided(ctx context.Context, window, rest time.Duration, limit int) ([]store.DecidedHead, error) {
	if err := s.step(ctx, "decided"); err != nil || s.real == nil {
		return nil, err
	}
	return s.real.NextDecided(ctx, window, rest, limit)
}

func (s *journaledStore) KeepDriftCursor(ctx context.Context, d store.DecidedHead) error {
	if err := s.step(ctx, "keep cursor"); err != nil || s.real == nil {
		return err
	}
	return s.real.KeepDriftCursor(ctx, d)
}

func (s *journaledStore) RevokeDrift(ctx context.Context, d store.DecidedHead) (bool, error) {
	if err := s.step(ctx, "revoke %s", d.Head.SHA); err != nil || s.real == nil {
		return false, err
	}
	return s.real.RevokeDrift(ctx, d)
}

// wakes collects what was sent.
type wakes struct {
	mu   sync.Mutex
	sent []nudge.Wake
}

func (w *wakes) Wake(_ context.Context, wake nudge.Wake) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent = append(w.sent, wake)
	return nudge.ErrUnavailable
}

func testConfig() Config {
	return Config{ScanEvery: time.Minute, Recheck: 15 * time.Minute, RetentionDays: 30, LogInterval: time.Minute, LogAsks: 30, DriftHeads: 200}
}

// bundle is a service over the fakes; with a database when db is set.
type bundle struct {
	t        *testing.T
	db       *storetest.DB
	github   *fakeGitHub
	store    *journaledStore
	wakes    *wakes
	registry *prometheus.Registry
	log      *bytes.Buffer
	service  *Service
}

// setupFake is a service whose store does nothing; its journal is GitHub's too.
func setupFake(t *testing.T, g *fakeGitHub) *bundle {
	t.Helper()
	b := &bundle{
		t: t, github: g, store: &journaledStore{journal: g.journal}, wakes: &wakes{}, registry: prometheus.NewRegistry(), log: &bytes.Buffer{},
	}
	b.service = b.replica("reconciler-1", b.registry)
	return b
}

// setup is a service over a database of its own.
func setup(t *testing.T, g *fakeGitHub) *bundle {
	t.Helper()
	b := setupFake(t, g)
	b.db = storetest.New(t)
	b.store.real = b.db.Store(storetest.Reconciler)
	t.Cleanup(func() { storetest.CheckInvariants(t, b.db) })
	return b
}

func (b *bundle) replica(holder string, r prometheus.Registerer) *Service {
	b.t.Helper()
	s, err := New(testConfig(), Deps{
		Store: b.store, App: b.github, Waker: b.wakes, Holder: holder, Metrics: r,
		Log:    slog.New(slog.NewJSONHandler(b.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Client: func(i int64) Client { return fakeClient{b.github, i} },
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

// scan is one attempt; it returns the result the lease recorded.
func (b *bundle) scan() string {
	b.t.Helper()
	b.store.result = "none"
	b.service.attempt(b.t.Context(), nudge.ViaPoll, 0)
	return b.store.result
}

func (b *bundle) wantResult(want string) {
	b.t.Helper()
	if got := b.scan(); got != want {
		b.t.Errorf("result %q, want %q; steps %v; log %s", got, want, b.github.taken(), b.log)
	}
}

func (b *bundle) wantSteps(want ...string) {
	b.t.Helper()
	if got := b.github.taken(); !slices.Equal(got, want) {
		b.t.Errorf("steps\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func (b *bundle) wantText(want, sql string, args ...any) {
	b.t.Helper()
	if got := b.db.QueryText(sql, args...); got != want {
		b.t.Errorf("%s = %q, want %q", sql, got, want)
	}
}

func (b *bundle) wantInt(want int64, sql string, args ...any) {
	b.t.Helper()
	if got := b.db.QueryInt(sql, args...); got != want {
		b.t.Errorf("%s = %d, want %d", sql, got, want)
	}
}

// counter reads one series by its only label's value.
func (b *bundle) counter(name, label string) float64 {
	b.t.Helper()
	families, err := b.registry.Gather()
	if err != nil {
		b.t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && (len(m.GetLabel()) == 0 || m.GetLabel()[0].GetValue() == label) {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return 0
}
