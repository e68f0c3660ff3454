package ingress

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/countersign/countersign/pkg/nudge"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/store/storetest"
)

const (
	secret      = "0123456789abcdef0123456789abcdef"
	oldSecret   = "fedcba9876543210fedcba9876543210"
	appID       = 4242
	headA       = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	headB       = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
	headSHA256  = "cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"
	installedAs = 77
	repoID      = 501
	orgRepoID   = 502
)

func testConfig() Config {
	return Config{
		WebhookSecret: secret, PreviousSecret: oldSecret, AppID: appID, OrgRepository: ".github",
		PolicyPaths:     []string{".github/countersign.toml", ".github/extra-codeowners.toml"},
		FastPathTimeout: 5 * time.Second, MaxInFlight: 64, BodyMemory: 64 << 20, Listen: "127.0.0.1:0",
	}
}

// logBuffer is a log that a test reads while the server writes.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// lines decodes the log.
func (l *logBuffer) lines(tb testing.TB) []map[string]any {
	tb.Helper()
	var all []map[string]any
	for text := range strings.Lines(l.String()) {
		var line map[string]any
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			tb.Fatalf("log line %q: %v", text, err)
		}
		all = append(all, line)
	}
	return all
}

// bench is one running ingress.
type bench struct {
	tb      testing.TB
	server  *Server
	http    *httptest.Server
	log     *logBuffer
	metrics *prometheus.Registry
	db      *storetest.DB // nil when the store is a fake
	mu      sync.Mutex
	next    int
	owner   *pgxpool.Pool // reads what was left behind, over connections that are kept
}

// start serves an ingress over a store and a bus.
func start(tb testing.TB, st Store, bus Bus, change func(*Config)) *bench {
	tb.Helper()
	cfg := testConfig()
	if change != nil {
		change(&cfg)
	}
	b := &bench{tb: tb, log: &logBuffer{}, metrics: prometheus.NewRegistry()}
	log := slog.New(slog.NewJSONHandler(b.log, nil))
	var err error
	b.server, err = New(Deps{Store: st, Bus: bus, Config: cfg, Log: log, Metrics: b.metrics})
	if err != nil {
		tb.Fatal(err)
	}
	b.http = httptest.NewServer(b.server)
	tb.Cleanup(b.http.Close)
	return b
}

// overPostgres serves an ingress over a database of its own, under ingress's role, and ends with the oracle.
func overPostgres(tb testing.TB, bus Bus, change func(*Config)) *bench {
	tb.Helper()
	db := storetest.New(tb)
	tb.Cleanup(func() { storetest.CheckInvariants(tb, db) })
	b := start(tb, db.Store(storetest.Ingress), bus, change)
	b.db = db
	owner, err := pgxpool.New(context.Background(), db.URL(storetest.Owner))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(owner.Close)
	b.owner = owner
	return b
}

// offline is a bus that is never connected.
func offline() Bus { return (*nudge.Bus)(nil) }

type reply struct {
	status int
	text   string
	header http.Header
}

// body is what a 202 says.
func (r reply) body(tb testing.TB) (accepted, queued bool) {
	tb.Helper()
	var body map[string]bool
	if err := json.Unmarshal([]byte(r.text), &body); err != nil || len(body) != 2 {
		tb.Fatalf("status %d, body %q: want accepted and queued", r.status, r.text)
	}
	return body["accepted"], body["queued"]
}

func (r reply) want(tb testing.TB, status int) reply {
	tb.Helper()
	if r.status != status {
		tb.Errorf("status %d %s, want %d", r.status, strings.TrimSpace(r.text), status)
	}
	return r
}

func (r reply) wantBody(tb testing.TB, accepted, queued bool) reply {
	tb.Helper()
	r.want(tb, http.StatusAccepted)
	if r.status == http.StatusAccepted {
		if a, q := r.body(tb); a != accepted || q != queued {
			tb.Errorf("accepted %t queued %t, want %t %t", a, q, accepted, queued)
		}
	}
	return r
}

// deliveryID is a new one.
func (b *bench) deliveryID() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.next++
	return fmt.Sprintf("00000000-0000-4000-8000-%012d", b.next)
}

// deliver signs and posts an event under a new delivery id.
func (b *bench) deliver(event string, payload any) reply {
	b.tb.Helper()
	return b.redeliver(b.deliveryID(), event, payload)
}

// redeliver signs and posts an event under a given delivery id.
func (b *bench) redeliver(id, event string, payload any) reply {
	b.tb.Helper()
	return b.post(id, event, encode(b.tb, payload), nil)
}

// post sends raw bytes, signed unless change says otherwise.
func (b *bench) post(id, event string, body []byte, change func(*http.Request)) reply {
	b.tb.Helper()
	req := request(b.tb, b.http.URL+Route, id, event, body)
	if change != nil {
		change(req)
	}
	resp, err := b.http.Client().Do(req)
	if err != nil {
		b.tb.Fatalf("post %s: %v", event, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.tb.Fatalf("read the answer: %v", err)
	}
	return reply{resp.StatusCode, string(text), resp.Header}
}

func request(tb testing.TB, url, id, event string, body []byte) *http.Request {
	tb.Helper()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		tb.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-GitHub-Delivery", id)
	req.Header.Set("X-GitHub-Event", event)
	req.Header.Set("X-Hub-Signature-256", sign(secret, body))
	return req
}

func sign(key string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

func encode(tb testing.TB, payload any) []byte {
	tb.Helper()
	if raw, ok := payload.([]byte); ok {
		return raw
	}
	body, err := json.Marshal(payload)
	if err != nil {
		tb.Fatal(err)
	}
	return body
}

// counted reads a counter of deliveries.
func (b *bench) counted(event string, res result) float64 {
	return testutil.ToFloat64(b.server.metrics.deliveries.WithLabelValues(event, string(res)))
}

func (b *bench) fastCounted(label string) float64 {
	return testutil.ToFloat64(b.server.metrics.fastPath.WithLabelValues(label))
}

// workTables are the tables that ingress may write.
var workTables = []string{"delivery", "installation", "repository", "pull", "head", "evaluation", "authority"}

// rows counts what each of them holds.
func (b *bench) rows() map[string]int64 {
	b.tb.Helper()
	counts := make([]int64, len(workTables))
	var each []string
	var dest []any
	for i, table := range workTables {
		each = append(each, "(SELECT count(*) FROM "+table+")")
		dest = append(dest, &counts[i])
	}
	if err := b.owner.QueryRow(context.Background(), "SELECT "+strings.Join(each, ", ")).Scan(dest...); err != nil {
		b.tb.Fatalf("count rows: %v", err)
	}
	all := map[string]int64{}
	for i, table := range workTables {
		all[table] = counts[i]
	}
	return all
}

// number reads one number as the owner.
func (b *bench) number(sql string, args ...any) int64 {
	b.tb.Helper()
	var n int64
	if err := b.owner.QueryRow(context.Background(), sql, args...).Scan(&n); err != nil {
		b.tb.Fatalf("query %q: %v", sql, err)
	}
	return n
}

// exec arranges what ingress could not.
func (b *bench) exec(sql string) {
	b.tb.Helper()
	if _, err := b.owner.Exec(context.Background(), sql); err != nil {
		b.tb.Fatalf("exec %q: %v", sql, err)
	}
}

func (b *bench) wantNoRows() {
	b.tb.Helper()
	for table, n := range b.rows() {
		if n != 0 {
			b.tb.Errorf("%d rows in %s, want none", n, table)
		}
	}
}

// wantInt runs a query that must give one number.
func (b *bench) wantInt(want int64, sql string, args ...any) {
	b.tb.Helper()
	if got := b.number(sql, args...); got != want {
		b.tb.Errorf("%s %v = %d, want %d", sql, args, got, want)
	}
}

// fakeStore records what it is asked to accept.
type fakeStore struct {
	mu        sync.Mutex
	direct    []store.DirectWork
	authority []store.AuthorityWork
	groups    []store.GroupWork
	ids       []store.DeliveryID
	traces    []string
	wait      time.Duration
	err       error
}

func (f *fakeStore) acceptDirect(_ context.Context, d store.Delivery, w store.DirectWork) (store.Acceptance, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return store.Acceptance{}, f.err
	}
	f.direct, f.ids, f.traces = append(f.direct, w), append(f.ids, d.ID), append(f.traces, d.Traceparent)
	return store.Acceptance{New: true, Head: store.HeadKey{Installation: w.Installation, Repository: w.Repository, SHA: w.Head}, HeadGeneration: 1, Pending: true}, nil
}

func (f *fakeStore) AcceptBatch(ctx context.Context, b *store.DirectBatch) ([]store.DirectOutcome, error) {
	var all []store.DirectOutcome
	for d, w := range b.All() {
		a, err := f.acceptDirect(ctx, d, w)
		if err != nil {
			return nil, err
		}
		all = append(all, store.DirectOutcome{Acceptance: a})
	}
	return all, nil
}

func (f *fakeStore) AcceptMergeGroup(_ context.Context, d store.Delivery, w store.GroupWork) (store.Acceptance, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return store.Acceptance{}, f.err
	}
	f.groups, f.ids = append(f.groups, w), append(f.ids, d.ID)
	return store.Acceptance{New: true, Head: store.HeadKey{Installation: w.Installation, Repository: w.Repository, SHA: w.Head}, HeadGeneration: 1, Pending: true}, nil
}

func (f *fakeStore) AcceptKnownPull(ctx context.Context, d store.Delivery, w store.DirectWork) (store.Acceptance, bool, error) {
	a, err := f.acceptDirect(ctx, d, w)
	return a, err == nil, err
}

func (f *fakeStore) AcceptKnownHead(context.Context, store.Delivery, store.HeadWork) (store.Acceptance, int, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return store.Acceptance{}, 0, false, f.err // nothing is known of any head
}

func (f *fakeStore) AcceptAuthority(_ context.Context, d store.Delivery, w store.AuthorityWork, wait time.Duration) (store.Acceptance, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wait = wait
	if f.err != nil {
		return store.Acceptance{}, f.err
	}
	f.authority, f.ids = append(f.authority, w), append(f.ids, d.ID)
	return store.Acceptance{New: true}, nil
}

func (f *fakeStore) stored() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.ids)
}

// obj is a JSON object of a payload.
type obj = map[string]any

func repository(id int64, fullName string) obj {
	owner, name, _ := strings.Cut(fullName, "/")
	return obj{"id": id, "name": name, "full_name": fullName, "default_branch": "main", "archived": false, "owner": obj{"login": owner, "id": 9}}
}

func target() obj    { return repository(repoID, "Acme/Widgets") }
func orgPolicy() obj { return repository(orgRepoID, "Acme/.GitHub") }

// base is what every payload of the App's own hook has.
func base(action string, repo obj) obj {
	p := obj{"installation": obj{"id": installedAs}, "sender": obj{"login": "alice", "id": 3, "type": "User"}}
	if action != "" {
		p["action"] = action
	}
	if repo != nil {
		p["repository"] = repo
	}
	return p
}

func pullRequest(action string, number int, head, state string) obj {
	p := base(action, target())
	p["number"] = number
	p["pull_request"] = pullObject(number, head, state)
	return p
}

func pullObject(number int, head, state string) obj {
	return obj{
		"number": number, "state": state, "draft": false, "merged": false, "merged_at": nil, "title": "Change widgets", "user": obj{"login": "alice", "id": 3},
		"updated_at": "2024-05-01T10:00:00Z", "head": obj{"sha": head, "ref": "topic"}, "base": obj{"ref": "main", "sha": headB},
	}
}

func review(action string, number int, head, state string) obj {
	p := pullRequest(action, number, head, state)
	p["review"] = obj{"id": 900, "state": "approved", "commit_id": head, "submitted_at": "2024-05-01T10:00:00Z"}
	return p
}

func checkRun(action string, app int64, pulls ...int) obj {
	p := base(action, target())
	list := []obj{}
	for _, n := range pulls {
		list = append(list, obj{"number": n, "id": 1000 + n})
	}
	p["check_run"] = obj{"id": 31, "name": "Countersign / approval", "head_sha": headA, "app": obj{"id": app}, "pull_requests": list}
	return p
}

func push(repo obj, ref string) obj {
	p := base("", repo)
	p["ref"], p["before"], p["after"] = ref, headA, headB
	p["deleted"], p["forced"], p["created"] = false, false, false
	p["commits"] = []obj{{"added": []string{}, "modified": []string{"README.md"}, "removed": []string{}}}
	return p
}

func removed(repos any) obj {
	p := base("removed", nil)
	if repos != nil {
		p["repositories_removed"] = repos
	}
	return p
}

// with returns a payload with one field set (or, for a nil value, taken away) at a dotted path.
func with(p obj, path string, value any) obj {
	parts := strings.Split(path, ".")
	at := p
	for _, part := range parts[:len(parts)-1] {
		at = at[part].(obj)
	}
	last := parts[len(parts)-1]
	if value == nil {
		delete(at, last)
		return p
	}
	at[last] = value
	return p
}
