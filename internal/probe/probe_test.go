package probe

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/githubsim"
)

// world is the stand-in with a pull request whose base has moved, one from a fork, and a secret team.
type world struct {
	sim    *githubsim.Sim
	client *ghclient.Client
	o      Options
}

func setup(t *testing.T, w githubsim.Switches) *world {
	t.Helper()
	var ahead atomic.Int64
	sim := githubsim.New(githubsim.Options{Now: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }})
	t.Cleanup(sim.Close)
	ex := githubsim.AddExample(sim, githubsim.ExampleOptions{})
	sim.AddTeam(githubsim.Team{Org: "acme", Slug: "hidden", Privacy: "secret", Members: []string{"alice"}})
	now := w
	now.ReadLag = 0 // the world is there; only what the probe writes is late
	sim.Set(now)
	number, err := sim.OpenPull(ex.Repository, githubsim.Pull{Author: "dave", Files: map[string]string{"src/x": "x"}})
	if err != nil {
		t.Fatal(err)
	}
	fork, err := sim.OpenPull(ex.Repository, githubsim.Pull{Author: "erin", Fork: "erin", Files: map[string]string{"src/y": "y"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sim.PushBase(ex.Repository, "main", "alice", map[string]string{"README.md": "moved\n"}); err != nil {
		t.Fatal(err)
	}
	app, err := ghclient.NewApp(ghclient.Config{APIURL: sim.URL(), AppID: ex.App.ID, PrivateKey: string(ex.App.PEM)}, ghclient.Options{})
	if err != nil {
		t.Fatal(err)
	}
	client := app.Client(ex.Installation, ghclient.EvaluatorPermissions)
	repo, _ := ghclient.RepoFromFullName(0, ex.Repository)
	info, err := client.Repository(t.Context(), repo)
	if err != nil {
		t.Fatal(err)
	}
	sim.Set(w)
	return &world{sim: sim, client: client, o: Options{
		Repo: info.Repo, Pull: number, BaseMoved: true, SecretTeam: "hidden", ForkPull: fork,
		Pause: func(_ context.Context, d time.Duration) error { ahead.Add(int64(d)); return nil },
	}}
}

// TestEveryPosition sets each switch to each of its positions: the probe reports that one, and leaves only neutral runs behind.
func TestEveryPosition(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, position string
		set            githubsim.Switches
	}{
		{"ReopenRun", "ReopenTakesEffect", githubsim.Switches{ReopenRun: githubsim.ReopenTakesEffect}},
		{"ReopenRun", "ReopenIgnored", githubsim.Switches{ReopenRun: githubsim.ReopenIgnored}},
		{"ReopenRun", "ReopenRefused", githubsim.Switches{ReopenRun: githubsim.ReopenRefused}},
		{"LatestBy", "LatestByID", githubsim.Switches{LatestBy: githubsim.LatestByID}},
		{"LatestBy", "LatestByCompletedAt", githubsim.Switches{LatestBy: githubsim.LatestByCompletedAt}},
		{"FrozenBaseSHA", "false", githubsim.Switches{}},
		{"FrozenBaseSHA", "true", githubsim.Switches{FrozenBaseSHA: true}},
		{"ShortTokens", "false", githubsim.Switches{}},
		{"ShortTokens", "true", githubsim.Switches{ShortTokens: true}},
		{"SecretTeamsHidden", "false", githubsim.Switches{}},
		{"SecretTeamsHidden", "true", githubsim.Switches{SecretTeamsHidden: true}},
		{"ReadLag", "0", githubsim.Switches{}},
		{"ReadLag", "3", githubsim.Switches{ReadLag: 3}},
		{"fork heads", "not listed", githubsim.Switches{}},
		// A lag hides no other answer.
		{"ReopenRun", "ReopenTakesEffect", githubsim.Switches{ReadLag: 2}},
		{"ReopenRun", "ReopenIgnored", githubsim.Switches{ReadLag: 2, ReopenRun: githubsim.ReopenIgnored}},
		{"LatestBy", "LatestByCompletedAt", githubsim.Switches{ReadLag: 2, LatestBy: githubsim.LatestByCompletedAt}},
	} {
		t.Run(tt.name+" "+tt.position, func(t *testing.T) {
			t.Parallel()
			w := setup(t, tt.set)
			results, err := Run(t.Context(), w.client, w.o)
			if err != nil {
				t.Fatal(err)
			}
			seen := false
			for _, r := range results {
				if r.Failed || r.Position == "" && r.Reason == "" {
					t.Errorf("%+v", r)
				}
				if r.Switch == tt.name {
					seen = true
					if r.Position != tt.position {
						t.Errorf("%+v, want %s", r, tt.position)
					}
				}
			}
			if !seen {
				t.Error("not reported")
			}
			w.onlyNeutral(t)
		})
	}
}

func (w *world) onlyNeutral(t *testing.T) {
	t.Helper()
	runs := w.sim.Checks("acme/widgets", w.sim.Head("acme/widgets", w.o.Pull))
	if len(runs) == 0 {
		t.Error("no run was made")
	}
	for _, c := range runs {
		if c.Name != CheckName || c.Status != "completed" || c.Conclusion != "neutral" {
			t.Errorf("left behind: %+v", c)
		}
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	t.Run("a name that is in use is refused before anything is written, unless allowed", func(t *testing.T) {
		t.Parallel()
		w := setup(t, githubsim.Switches{})
		if _, err := Run(t.Context(), w.client, w.o); err != nil {
			t.Fatal(err)
		}
		w.sim.ResetRequests()
		if _, err := Run(t.Context(), w.client, w.o); !errors.Is(err, ErrInUse) {
			t.Errorf("got %v", err)
		}
		for _, q := range w.sim.Requests() {
			if q.Method == "PATCH" || q.Method == "POST" && strings.Contains(q.Route, "check-runs") {
				t.Errorf("wrote %s %s", q.Method, q.Route)
			}
		}
		w.o.InUse = true
		if _, err := Run(t.Context(), w.client, w.o); err != nil {
			t.Error(err)
		}
	})
	t.Run("what was not named is not probed, with the reason", func(t *testing.T) {
		t.Parallel()
		w := setup(t, githubsim.Switches{})
		w.o.BaseMoved, w.o.SecretTeam, w.o.ForkPull = false, "", 0
		results, err := Run(t.Context(), w.client, w.o)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"FrozenBaseSHA": "--base-moved", "SecretTeamsHidden": "--secret-team", "fork heads": "--fork-pull"}
		for _, r := range results {
			if flag, is := want[r.Switch]; is && (r.Position != "" || !strings.Contains(r.Reason, flag)) {
				t.Errorf("%+v", r)
			}
		}
	})
	t.Run("an interruption leaves no unfinished run", func(t *testing.T) {
		t.Parallel()
		w := setup(t, githubsim.Switches{})
		ctx, cancel := context.WithCancel(t.Context())
		w.o.Pause = func(context.Context, time.Duration) error { cancel(); return ctx.Err() }
		results, err := Run(ctx, w.client, w.o)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range results {
			if r.Switch == "LatestBy" && !r.Failed {
				t.Errorf("%+v", r)
			}
		}
		w.onlyNeutral(t)
	})
}
