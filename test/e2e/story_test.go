package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/countersign/countersign/pkg/policy"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/store/storetest"
)

func TestStory(t *testing.T) {
	t.Parallel()
	t.Run("two replicas of every service: the story completes and no row was worked by two holders of one token", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		sys := b.start(t, 2)
		b.play(t)
		b.stop(t, sys)
		b.noLeaseLeft(t)
		if n := b.db.QueryInt("SELECT count(DISTINCT token) FROM lease_grant"); n < 10 {
			t.Errorf("the oracle saw %d grants: it proves nothing", n)
		}
		b.replayDecisions(t)
		t.Run("RG-444 I10 key, secret and tokens are in no log line and in no row", b.noSecretAnywhere)
	})
	t.Run("I7 NATS taken away in mid-story: it completes, slower", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.stage.Hook = func(step int, done bool) {
			if step == 2 && done {
				b.nats.Stop()
			}
			if step == 7 && !done {
				if err := b.nats.Restart(context.Background()); err != nil {
					t.Error(err)
				}
			}
		}
		sys := b.start(t, 1)
		b.play(t)
		b.stop(t, sys)
		b.noLeaseLeft(t)
	})
	t.Run("I7 no NATS at all: the story completes by polling", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.nats.Stop()
		sys := b.startUnready(t)
		b.play(t)
		b.stop(t, sys)
	})
}

// replayDecisions: the recorded evidence gives the recorded verdict, for every decision (I9), and the chain holds.
func (b *bench) replayDecisions(t *testing.T) {
	t.Helper()
	reader := b.db.Store(storetest.Reader)
	list, err := reader.ListDecisions(t.Context(), store.PullKey{}, 0, 1000)
	if err != nil || len(list) == 0 {
		t.Fatalf("%d decisions, %v", len(list), err)
	}
	for _, d := range list {
		snapshot, err := policy.DecodeSnapshot([]byte(d.Evidence))
		if err != nil {
			t.Errorf("decision %d: %v", d.ID, err)
			continue
		}
		if got := string(policy.Evaluate(snapshot).MarshalCanonical()); got != d.Verdict {
			t.Errorf("decision %d: replay differs", d.ID)
		}
	}
	if n, err := reader.VerifyChain(t.Context(), store.InstallationID(b.stage.World.Installation)); err != nil || n != len(list) {
		t.Errorf("chain: %d of %d verified, %v", n, len(list), err)
	}
}

// secrets are what no text may hold: the planted webhook secret, a line of the App's key, and what every key and token begins with.
func (b *bench) secrets() []string {
	key := strings.Split(string(b.stage.World.App.PEM), "\n")[1]
	return []string{secret, key, "PRIVATE KEY", "ghs_", "Bearer "}
}

// noSecretAnywhere: key, secret and tokens are in no log line and in no row (I10, RG-444).
func (b *bench) noSecretAnywhere(t *testing.T) {
	t.Helper()
	secrets := b.secrets()
	for _, s := range secrets {
		if strings.Contains(b.log.String(), s) {
			t.Errorf("RG-444 I10: the log holds %.12q…", s)
		}
	}
	conn, err := pgx.Connect(t.Context(), b.db.URL(storetest.Owner))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	rows, err := conn.Query(t.Context(), "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'")
	if err != nil {
		t.Fatal(err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range tables {
		for _, s := range secrets {
			if n := b.db.QueryInt("SELECT count(*) FROM "+pgx.Identifier{table}.Sanitize()+" AS row WHERE strpos(row::text, $1) > 0", s); n > 0 {
				t.Errorf("RG-444 I10: table %s holds %.12q… in %d rows", table, s, n)
			}
		}
	}
}

func TestStop(t *testing.T) {
	t.Parallel()
	t.Run("stopped in the middle of the story, every service drains and no lease is left behind", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		sys := b.start(t, 2)
		ctx, cancel := context.WithCancel(t.Context())
		b.stage.Hook = func(step int, done bool) {
			if step == 6 && done {
				time.AfterFunc(20*time.Millisecond, cancel) // while the effect is on its way
			}
		}
		_ = b.playUntil(ctx)
		b.stop(t, sys)
		b.noLeaseLeft(t)
	})
}
