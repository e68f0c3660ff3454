package main

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"log/slog"

	"github.com/countersign/countersign/pkg/nudge"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/store/localpg"
	"github.com/countersign/countersign/services/ingress"
)

const (
	secret       = "0123456789abcdef0123456789abcdef"
	bodySize     = 25 << 10
	repositories = 20
)

// payload is a signed body, made before the clock runs: a sender only sends.
type payload struct {
	body   []byte
	sign   string
	repo   int64
	number int
	head   string
}

// world is the database, both servers and the bodies.
type world struct {
	settings
	pg       *localpg.Server
	store    *store.Store
	bare     *pgxpool.Pool
	payloads []payload
	servers  []*http.Server
	ingress  string // URL
	limit    string // URL of the server that only verifies
}

func newWorld(ctx context.Context, s settings) (*world, error) {
	roles, err := os.ReadFile(s.roles)
	if err != nil {
		return nil, fmt.Errorf("read the grants: %w", err)
	}
	w := &world{settings: s, payloads: payloads(s.pulls)}
	log := func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
	if w.pg, err = localpg.Start(ctx, localpg.Options{Sync: true, MaxConnections: s.senders + 40, Log: log}); err != nil {
		return nil, err
	}
	if err := w.open(ctx, string(roles)); err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

func (w *world) open(ctx context.Context, roles string) error {
	url := w.pg.URL("postgres")
	err := store.Migrate(ctx, url, roles, time.Minute)
	if err != nil {
		return err
	}
	cfg := store.Config{URL: url, MaxConns: 8, GuardConns: 1, ConnectTimeout: 3 * time.Second, PoolTimeout: 2 * time.Second, StatementLimit: 3 * time.Second}
	if w.store, err = store.Open(ctx, cfg); err != nil {
		return err
	}
	bare, err := pgxpool.ParseConfig(url)
	if err != nil {
		return err
	}
	bare.MaxConns = int32(w.senders)
	if w.bare, err = pgxpool.NewWithConfig(ctx, bare); err != nil {
		return err
	}
	server, err := ingress.New(ingress.Deps{Store: w.store, Bus: (*nudge.Bus)(nil), Config: ingressConfig(cfg),
		Log: slog.New(slog.NewJSONHandler(discard{}, nil)), Metrics: prometheus.NewRegistry()})
	if err != nil {
		return err
	}
	if w.ingress, err = w.serve(server); err != nil {
		return err
	}
	w.limit, err = w.serve(http.HandlerFunc(verifyOnly))
	return err
}

func ingressConfig(db store.Config) ingress.Config {
	return ingress.Config{
		Store: db, WebhookSecret: secret, AppID: 4242, OrgRepository: ".github",
		PolicyPaths:     []string{".github/countersign.toml", ".github/extra-codeowners.toml"},
		FastPathTimeout: 5 * time.Second, MaxInFlight: 256, BodyMemory: 128 << 20, // no RequestRate: it is what is asked for
	}
}

// discard takes what is logged; the lines are made and encoded as in production.
type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// verifyOnly is the limit of any webhook server: the body is read and its signature proved.
func verifyOnly(w http.ResponseWriter, r *http.Request) {
	var body bytes.Buffer
	body.Grow(int(max(r.ContentLength, 0)) + bytes.MinRead)
	if _, err := body.ReadFrom(r.Body); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if r.Header.Get("X-Hub-Signature-256") != sign(body.Bytes()) {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

func (w *world) serve(handler http.Handler) (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	w.servers = append(w.servers, server)
	go func() { _ = server.Serve(ln) }() // ends with close
	return "http://" + ln.Addr().String() + ingress.Route, nil
}

func (w *world) close() {
	for _, server := range w.servers {
		_ = server.Close()
	}
	if w.bare != nil {
		w.bare.Close()
	}
	if w.store != nil {
		w.store.Close()
	}
	_ = w.pg.Stop(context.Background())
}

// empty gives each measurement the same tables to begin with.
func (w *world) empty(ctx context.Context) error {
	_, err := w.bare.Exec(ctx, "TRUNCATE delivery, evaluation, head, pull, repository, installation CASCADE")
	if err != nil {
		return fmt.Errorf("empty the tables: %w", err)
	}
	_, err = w.bare.Exec(ctx, "CHECKPOINT")
	return err
}

func sign(body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

// payloads are pull_request events as large as GitHub's; all but two dozen fields are of no interest, as there.
func payloads(n int) []payload {
	all := make([]payload, n)
	for i := range all {
		p := payload{repo: int64(500 + i%repositories), number: 1 + i/repositories}
		sum := sha256.Sum256(fmt.Appendf(nil, "head of %d#%d", p.repo, p.number))
		p.head = hex.EncodeToString(sum[:20])
		p.body = body(p)
		p.sign = sign(p.body)
		all[i] = p
	}
	return all
}

type object = map[string]any

func body(p payload) []byte {
	user := object{"login": "alice", "id": 5, "type": "User", "site_admin": false}
	for _, name := range []string{"avatar", "html", "followers", "following", "gists", "starred", "subscriptions", "organizations", "repos", "events"} {
		user[name+"_url"] = "https://api.example/users/alice/" + name
	}
	repo := object{"id": p.repo, "name": fmt.Sprint("r", p.repo), "full_name": fmt.Sprint("acme/r", p.repo), "default_branch": "main", "owner": user, "archived": false}
	event := object{
		"action": "synchronize", "number": p.number, "installation": object{"id": 77}, "repository": repo, "sender": user,
		"pull_request": object{
			"number": p.number, "state": "open", "draft": false, "merged": false, "merged_at": nil, "title": "Change widgets", "user": user,
			"updated_at": "2026-05-01T10:00:00Z", "head": object{"sha": p.head, "ref": "topic", "repo": repo, "user": user},
			"base": object{"ref": "main", "sha": strings.Repeat("b", 40), "repo": repo, "user": user}, "requested_reviewers": []object{},
		},
	}
	text, err := json.Marshal(event)
	if err != nil {
		panic(err) // cannot happen: plain maps
	}
	more, err := json.Marshal(user)
	if err != nil {
		panic(err)
	}
	links := (bodySize - len(text)) / (len(more) + 1)
	filler := bytes.Repeat(append(more, ','), links)
	return append(text[:len(text)-1], []byte(`,"assignees":[`+string(filler[:len(filler)-1])+`]}`)...)
}
