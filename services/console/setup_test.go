package console

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/countersign/countersign/internal/explain"
	"github.com/countersign/countersign/pkg/githubsim"
	"github.com/countersign/countersign/pkg/policy"
	"github.com/countersign/countersign/pkg/store/storetest"
)

// A goroutine that outlives its test is one that outlives its page.
func TestMain(m *testing.M) {
	code := m.Run()
	http.DefaultClient.CloseIdleConnections() // the tests' own
	if code == 0 {
		if err := goleak.Find(
			goleak.IgnoreAnyFunction("github.com/countersign/countersign/pkg/store/localpg.spawn.func1"),
			goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"),
		); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

const (
	head  = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	other = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
	base  = "cccccccccccccccccccccccccccccccccccccccc"
)

// subject is one pull request as it is put into a database.
type subject struct {
	installation, repository int64
	name                     string
	number                   int
	title, author, ref       string
	head                     string
	reason                   string
	snapshot                 policy.Snapshot
}

// newSubject is a pull request that lacks an approval of each of two owner sets.
func newSubject(installation, repository int64, name string, number int) subject {
	owner, _, _ := strings.Cut(name, "/")
	s := subject{installation: installation, repository: repository, name: name, number: number, title: "A change", author: "dave", ref: "main", head: head, reason: "pull_request.opened"}
	s.snapshot = policy.Snapshot{
		Version: policy.SnapshotVersion, Now: time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC), HeadSHA: head,
		Repository: policy.Repository{ID: repository, FullName: name, Owner: owner, OwnerType: "Organization"}, Settings: policy.Settings{CheckName: "Countersign / approval"},
		PullsState: policy.FactPresent,
		Pulls: []policy.PullRequest{{
			Number: number, Author: &policy.Actor{ID: 5, Login: "dave", Type: "User"}, BaseRef: "main", BaseSHA: base, HeadSHA: head, Labels: []string{}, ChangedFiles: 2,
			Files:   policy.FileList{State: policy.FactPresent, Items: []policy.ChangedFile{{Path: "a.go", Status: "modified"}, {Path: "web/x.ts", Status: "modified"}}},
			Reviews: policy.ReviewList{State: policy.FactPresent},
		}},
		Bases: map[string]policy.Base{base: {
			Codeowners:       policy.FileFact{State: policy.FactPresent, Path: ".github/CODEOWNERS", Text: "* @" + owner + "/core\n/web/ @alice\n"},
			CodeownersErrors: policy.CodeownersErrorList{State: policy.FactPresent},
			Policy:           policy.FileFact{State: policy.FactPresent, Path: policy.PolicyPath, Text: "schema_version = 1\nenabled = true\n"},
			FallbackPolicy:   policy.FileFact{State: policy.FactAbsent},
		}},
		OrganizationPolicy: policy.OrganizationPolicy{Repository: policy.FactPresent, Policy: policy.FileFact{State: policy.FactAbsent}, FallbackPolicy: policy.FileFact{State: policy.FactAbsent}},
		Teams:              map[string]policy.TeamFact{owner + "/core": {State: policy.FactPresent, ID: 1, Privacy: "secret", Permission: "push"}},
		Users:              map[string]policy.UserFact{},
	}
	return s
}

// approve lets alice approve the head.
func (s *subject) approve() {
	s.snapshot.Pulls[0].Reviews.Items = append(s.snapshot.Pulls[0].Reviews.Items, policy.Review{
		ID: 9, State: "APPROVED", Author: &policy.Actor{ID: 6, Login: "alice", Type: "User"}, CommitID: head, SubmittedAt: s.snapshot.Now,
	})
	s.snapshot.Users["alice"] = policy.UserFact{State: policy.FactPresent, ID: 6, Permission: "write"}
	s.reason = "pull_request_review.submitted"
}

// put writes what the services would have written, as far as readers look at it: the rows of a pull request and one confirmed decision.
func put(db *storetest.DB, s subject) (decision int64) {
	verdict := policy.Evaluate(s.snapshot)
	out := policy.Render(verdict, policy.RenderInput{})
	db.Exec(`INSERT INTO installation (installation_id, account_login) VALUES ($1, $2) ON CONFLICT DO NOTHING`, s.installation, "acme")
	db.Exec(`INSERT INTO repository (installation_id, repository_id, full_name) VALUES ($1, $2, lower($3)) ON CONFLICT DO NOTHING`, s.installation, s.repository, s.name)
	db.Exec(`INSERT INTO pull (installation_id, repository_id, number, head_sha, base_ref, title, author_login, generation) VALUES ($1, $2, $3, $4, $5, $6, $7, 1)
		ON CONFLICT (installation_id, repository_id, number) DO UPDATE SET generation = pull.generation + 1, updated_at = now()`, s.installation, s.repository, s.number, s.head, s.ref, s.title, s.author)
	db.Exec(`INSERT INTO head (installation_id, repository_id, head_sha, generation, invalidated_generation, run_id, run_generation) VALUES ($1, $2, $3, 1, 1, 77, 1)
		ON CONFLICT (installation_id, repository_id, head_sha) DO UPDATE SET generation = head.generation + 1, invalidated_generation = head.generation + 1, run_generation = head.generation + 1`,
		s.installation, s.repository, s.head)
	generation := db.QueryInt(`SELECT generation FROM head WHERE installation_id = $1 AND repository_id = $2 AND head_sha = $3`, s.installation, s.repository, s.head)
	db.Exec(`INSERT INTO decision (installation_id, sequence, repository_id, full_name, number, head_sha, generation, head_generation, authority_epoch, delivery_id, reason,
			evidence_digest, evidence, verdict, conclusion, title, summary, explanation, check_run_id, requested_at, decided_at, outcome, settled_at, previous_hash, hash)
		VALUES ($1, (SELECT count(*) + 1 FROM decision WHERE installation_id = $1), $2, $3, $4, $5, $6, $6, 1, 'delivery', $7, 'digest', $8, $9, 'failure', $10, '', '', 77, now(), now(), 'confirmed', now(), '', '')`,
		s.installation, s.repository, s.name, s.number, s.head, generation, s.reason, string(s.snapshot.MarshalCanonical()), string(verdict.MarshalCanonical()), out.Title)
	decision = db.QueryInt(`SELECT max(decision_id) FROM decision WHERE installation_id = $1`, s.installation)
	db.Exec(`UPDATE head SET published_decision_id = $4, published_generation = generation WHERE installation_id = $1 AND repository_id = $2 AND head_sha = $3`, s.installation, s.repository, s.head, decision)
	for _, st := range explain.Standings(s.snapshot, verdict) {
		db.Exec(`INSERT INTO standing (installation_id, repository_id, number, decision_id, head_sha, state, next_step) VALUES ($1, $2, $3, $4, $5, $6, left($7, 500))
			ON CONFLICT (installation_id, repository_id, number) DO UPDATE SET decision_id = $4, state = $6, next_step = left($7, 500)`, s.installation, s.repository, st.Number, decision, s.head, string(st.State), st.NextStep)
		db.Exec(`DELETE FROM waiting WHERE installation_id = $1 AND repository_id = $2 AND number = $3`, s.installation, s.repository, st.Number)
		for _, w := range st.Waiting {
			if len(w.Owner) <= 300 {
				db.Exec(`INSERT INTO waiting (installation_id, repository_id, number, owner, files, problem) VALUES ($1, $2, $3, $4, $5, $6)`, s.installation, s.repository, st.Number, w.Owner, w.Files, w.Problem)
			}
		}
	}
	return decision
}

// world is a console over a database and a GitHub with people.
type world struct {
	t   *testing.T
	db  *storetest.DB
	sim *githubsim.Sim
	ex  githubsim.Example
	srv *httptest.Server
	c   *Console
	cfg Config
	now time.Time
}

func newWorld(t *testing.T, change func(*Config)) *world {
	t.Helper()
	w := &world{t: t, db: storetest.New(t), sim: githubsim.New(githubsim.Options{}), now: time.Now()}
	t.Cleanup(w.sim.Close)
	w.ex = githubsim.AddExample(w.sim, githubsim.ExampleOptions{})
	w.srv = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { w.c.ServeHTTP(rw, r) }))
	t.Cleanup(w.srv.Close)
	w.cfg = Config{
		PublicURL: w.srv.URL, Listen: "127.0.0.1:0", SessionKey: strings.Repeat("k", 32), AccessAge: time.Minute, Session: time.Hour, MaxLive: 10, Operators: "acme/operations",
	}
	w.cfg.GitHub.APIURL = w.sim.URL()
	w.cfg.SignIn.ClientID, w.cfg.SignIn.ClientSecret = w.ex.App.ClientID, w.ex.App.ClientSecret
	if change != nil {
		change(&w.cfg)
	}
	var err error
	w.c, err = New(w.cfg, Deps{Store: w.db.Store(storetest.Console), LivePause: 10 * time.Millisecond, Now: func() time.Time { return w.now }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.c.Close) // before the server, which waits for open pages
	return w
}

func open(c *Config) { c.Open, c.SessionKey = true, "" }

// browser is somebody's; "" is nobody's.
func (w *world) browser(login string) *http.Client {
	w.t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		w.t.Fatal(err)
	}
	b := &http.Client{Jar: jar, Timeout: time.Minute}
	b.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
		if strings.HasPrefix(r.URL.Path, "/login/oauth/authorize") {
			q := r.URL.Query()
			q.Set("login", login) // they are signed in to GitHub
			r.URL.RawQuery = q.Encode()
		}
		return nil
	}
	return b
}

func (w *world) get(b *http.Client, path string) (*http.Response, string) {
	w.t.Helper()
	resp, err := b.Get(w.srv.URL + path)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return resp, string(body)
}

// ids are the stand-in's numeric ids of a repository of acme.
func (w *world) repositoryID(name string) int64 {
	w.t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, w.sim.URL()+"/repos/acme/"+name, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+w.ex.Tokens["grace"])
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	var repo struct{ ID int64 }
	if err := json.NewDecoder(resp.Body).Decode(&repo); err != nil || repo.ID == 0 {
		w.t.Fatalf("repository %s: %v", name, err)
	}
	return repo.ID
}

// put adds a pull request of a repository of acme.
func (w *world) put(name string, number int, change func(*subject)) int64 {
	w.t.Helper()
	s := newSubject(w.ex.Installation, w.repositoryID(name), "acme/"+name, number)
	if change != nil {
		change(&s)
	}
	return put(w.db, s)
}

func pathOf(name string, number int) string { return fmt.Sprintf("/pull/acme/%s/%d", name, number) }
