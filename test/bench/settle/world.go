package main

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/countersign/countersign/internal/system"
	"github.com/countersign/countersign/pkg/githubsim"
	"github.com/countersign/countersign/pkg/nudge/localnats"
	"github.com/countersign/countersign/pkg/store/localpg"
)

const (
	checkName = "Countersign / approval"
	secret    = "a-webhook-secret-of-the-benchmarks-0123456789"
	// patience is how long one event may take before the benchmark gives up.
	patience = 3 * time.Minute
	author   = "dave"
)

// world is a whole Countersign over a stand-in with two organisations.
type world struct {
	pg    *localpg.Server
	db    *pgxpool.Pool
	nats  *localnats.Server
	sim   *githubsim.Sim
	sys   *system.System
	watch *watch
	rtt   time.Duration
}

// open starts everything but the services that are left out.
func open(ctx context.Context, rtt time.Duration, replicas map[string]int) (*world, error) {
	w := &world{watch: newWatch(), rtt: rtt}
	if err := w.start(ctx, replicas); err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

func (w *world) start(ctx context.Context, replicas map[string]int) (err error) {
	log := func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
	if w.pg, err = localpg.Start(ctx, localpg.Options{Sync: true, MaxConnections: 500, Log: log}); err != nil {
		return err
	}
	owner := w.pg.URL("postgres")
	if err := system.Prepare(ctx, owner, false); err != nil {
		return err
	}
	if w.db, err = pgxpool.New(ctx, owner); err != nil {
		return err
	}
	if w.nats, err = localnats.Start(ctx, localnats.Options{}); err != nil {
		return err
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	w.sim = githubsim.New(githubsim.Options{DeliveryConcurrency: 16})
	w.sim.Set(githubsim.Switches{RateLimit: 100_000_000}) // the hour's budget is a figure of its own
	w.sim.HoldWebhooks()
	app := w.sim.AddApp(githubsim.App{PrivateKey: key, WebhookURL: "http://" + listener.Addr().String() + "/webhooks/github", WebhookSecret: secret})
	for _, org := range []string{"acme", "octo-org"} {
		w.organization(app, org)
	}
	w.sim.Observe(w.watch)
	w.sys, err = system.Start(ctx, system.Options{
		Ingress: listener, Replicas: replicas,
		RoleURL: func(role string) string {
			u, err := url.Parse(owner)
			if err != nil {
				return owner
			}
			u.User = url.User(role)
			return u.String()
		},
		Environ: map[string]string{
			"COUNTERSIGN_NATS_URL": w.nats.URL(), "COUNTERSIGN_GITHUB_API_URL": w.sim.URL(), "COUNTERSIGN_GITHUB_APP_ID": strconv.FormatInt(app.ID, 10),
			"COUNTERSIGN_GITHUB_PRIVATE_KEY": string(app.PEM), "COUNTERSIGN_WEBHOOK_SECRET": secret, "COUNTERSIGN_INGRESS_REQUEST_RATE": "0",
		},
	})
	if err != nil {
		return err
	}
	ready, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return w.sys.Ready(ready)
}

// organization has a team that owns everything in two repositories.
func (w *world) organization(app githubsim.App, org string) {
	w.sim.AddOrg(org, "alice", "bob", author)
	w.sim.AddRepo(org, ".github", map[string]string{".github/countersign.toml": "schema_version = 1\n"})
	grants := map[string]string{}
	for _, name := range []string{"widgets", "storm"} {
		w.sim.AddRepo(org, name, map[string]string{
			".github/CODEOWNERS": "* @" + org + "/core\n", ".github/countersign.toml": "schema_version = 1\nenabled = true\n", "src/main.go": "package main\n",
		})
		grants[name] = "push"
	}
	w.sim.AddTeam(githubsim.Team{Org: org, Slug: "core", Repos: grants, Members: []string{"alice", "bob"}})
	w.sim.AddInstallation(app.ID, org)
}

// pulls opens n pull requests of their own heads, quietly where webhooks are held.
func (w *world) pulls(repo string, n int) ([]pull, error) {
	all := make([]pull, n)
	for i := range all {
		number, err := w.sim.OpenPull(repo, githubsim.Pull{Author: author, Files: map[string]string{"src/main.go": fmt.Sprintf("package main // %s %d\n", repo, i)}})
		if err != nil {
			return nil, err
		}
		all[i] = pull{repo, number, w.sim.Head(repo, number)}
	}
	return all, nil
}

type pull struct {
	repo   string
	number int
	head   string
}

func (w *world) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if w.sys != nil {
		_ = w.sys.Stop(ctx)
	}
	if w.sim != nil {
		w.sim.Close()
	}
	if w.nats != nil {
		w.nats.Close()
	}
	if w.db != nil {
		w.db.Close()
	}
	if w.pg != nil {
		_ = w.pg.Stop(ctx)
	}
}

// count is one number from the database.
func (w *world) count(ctx context.Context, sql string, args ...any) (n int, err error) {
	err = w.db.QueryRow(ctx, sql, args...).Scan(&n)
	return n, err
}

// drain waits until a query counts nothing any more.
func (w *world) drain(ctx context.Context, sql string) error {
	for {
		n, err := w.count(ctx, sql)
		if err != nil || n == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d are left: %w", n, context.Cause(ctx))
		case <-time.After(5 * time.Millisecond):
		}
	}
}

const (
	waiting   = "SELECT (SELECT count(*) FROM evaluation WHERE NOT recheck) + (SELECT count(*) FROM authority) + (SELECT count(*) FROM head WHERE invalidated_generation < generation)"
	unrevoked = "SELECT count(*) FROM head WHERE invalidated_generation < generation"
	decisions = "SELECT count(*) FROM decision"
)

// moment is one write of a check run that took effect.
type moment struct {
	at    time.Time
	state string // its conclusion, or in_progress
}

// watch keeps what happened to the checks of each head; the stand-in calls it under its lock.
type watch struct {
	mu     sync.Mutex
	moved  *sync.Cond
	writes map[string][]moment
}

func newWatch() *watch {
	w := &watch{writes: map[string][]moment{}}
	w.moved = sync.NewCond(&w.mu)
	return w
}

// Run keeps a write.
func (w *watch) Run(_ githubsim.View, run githubsim.RunWrite) {
	state := run.After.Conclusion
	if state == "" {
		state = run.After.Status
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writes[run.SHA] = append(w.writes[run.SHA], moment{time.Now(), state})
	w.moved.Broadcast()
}

// Changed, Lagged and Answered are of no interest here.
func (*watch) Changed(githubsim.View, []githubsim.Sent) {}

// Lagged is of no interest here.
func (*watch) Lagged(int64, int64) {}

// Answered is of no interest here.
func (*watch) Answered(githubsim.View, githubsim.Sent) {}

// await waits until a head's check reaches a state after a moment, and returns when that was and when the one before was left.
func (w *watch) await(sha string, since time.Time, state string) (left, reached time.Time, err error) {
	timer := time.AfterFunc(patience, w.moved.Broadcast)
	defer timer.Stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		for _, m := range w.writes[sha] {
			if m.at.Before(since) {
				continue
			}
			if left.IsZero() {
				left = m.at
			}
			if m.state == state {
				return left, m.at, nil
			}
		}
		if time.Since(since) > patience {
			return left, reached, fmt.Errorf("the check of %s did not reach %s within %s", sha, state, patience)
		}
		left = time.Time{}
		w.moved.Wait()
	}
}
