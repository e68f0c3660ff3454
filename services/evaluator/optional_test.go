package evaluator

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/countersign/countersign/pkg/githubsim"
	"github.com/countersign/countersign/pkg/store"
)

// withPolicy replaces the repository's policy file on the base branch.
func (b *bench) withPolicy(t *testing.T, more string) {
	t.Helper()
	text := "schema_version = 1\nenabled = true\n\n" + more
	if _, err := b.Sim.PushBase(b.World.Repository, "main", "alice", map[string]string{".github/countersign.toml": text}); err != nil {
		t.Fatal(err)
	}
}

// decide evaluates a pull request as it is now.
func (b *bench) decide(t *testing.T, number int) githubsim.Check {
	t.Helper()
	key := b.ready(number)
	b.Now()
	b.step(t)
	return b.Check(key.SHA)
}

func (b *bench) push(t *testing.T, number int, by string, files map[string]string) {
	t.Helper()
	if _, err := b.Sim.Push(b.World.Repository, number, by, files); err != nil {
		t.Fatal(err)
	}
}

func TestOptInPolicies(t *testing.T) {
	t.Parallel()
	t.Run("D12 content_stable: an approval survives a push that leaves its owners' content alone", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.withPolicy(t, "[approvals]\ncontent_stable = true\n")
		n := b.approved()
		if c := b.decide(t, n); c.Conclusion != "success" {
			t.Fatalf("the stage is not set: %+v\n%s", c, b.Log)
		}
		b.push(t, n, "dave", map[string]string{"docs/index.md": "# once more\n"})
		c := b.decide(t, n)
		if c.Conclusion != "failure" || strings.Contains(c.Title, "acme/core") || !strings.Contains(c.Title, "acme/docs") {
			t.Errorf("core's content is unchanged, docs' is not: %q %q", c.Conclusion, c.Title)
		}
		b.Approve(n, "carol")
		if c := b.decide(t, n); c.Conclusion != "success" {
			t.Errorf("after the docs approval: %q %q", c.Conclusion, c.Title)
		}
	})
	t.Run("D12 content_stable: a change of base branch always resets", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.withPolicy(t, "[approvals]\ncontent_stable = true\n")
		if err := b.Sim.SetBranch(b.World.Repository, "release", b.branchTip(t), "alice"); err != nil {
			t.Fatal(err)
		}
		n := b.approved()
		b.push(t, n, "dave", map[string]string{"docs/index.md": "# once more\n"})
		if err := b.Sim.Retarget(b.World.Repository, n, "release", "dave"); err != nil {
			t.Fatal(err)
		}
		if c := b.decide(t, n); c.Conclusion != "failure" || !strings.Contains(c.Text, "acme/core") {
			t.Errorf("%q %q", c.Conclusion, c.Title)
		}
	})
	t.Run("D12 exclude_last_pusher: who pushed last does not approve", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.withPolicy(t, "[approvals]\nexclude_last_pusher = true\n")
		n := b.Open(map[string]string{"go.sum": "v1\n"})
		b.push(t, n, "alice", map[string]string{"go.sum": "v2\n"})
		b.Approve(n, "alice")
		if c := b.decide(t, n); c.Conclusion != "failure" {
			t.Errorf("the last pusher's approval counted: %q %q", c.Conclusion, c.Title)
		}
		b.Approve(n, "bob")
		if c := b.decide(t, n); c.Conclusion != "success" {
			t.Errorf("another owner's approval: %q %q\n%s", c.Conclusion, c.Title, c.Text)
		}
	})
	t.Run("break-glass: two people release the exact head until it expires, and the title says so", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.withPolicy(t, "[break_glass]\nteams = [\"@acme/operations\"]\nmax_duration = \"4h\"\n")
		n := b.Open(nil)
		key := b.Key(n)
		until := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
		request := fmt.Sprintf("/countersign break-glass head=%s until=%s reason=the login page is down", key.SHA, until)
		if err := b.Sim.Comment(b.World.Repository, n, "bob", request); err != nil {
			t.Fatal(err)
		}
		c := b.decide(t, n)
		if c.Conclusion != "failure" {
			t.Fatalf("one person released it: %q", c.Title)
		}
		confirm := confirmLine(c)
		if confirm == "" {
			t.Fatalf("the check does not show the line that confirms:\n%s\n%s", c.Summary, c.Text)
		}
		if err := b.Sim.Comment(b.World.Repository, n, "erin", confirm); err != nil {
			t.Fatal(err)
		}
		c = b.decide(t, n)
		if c.Conclusion != "success" || !strings.HasPrefix(c.Title, "BREAK-GLASS") {
			t.Fatalf("confirmed by a second person: %q %q\n%s", c.Conclusion, c.Title, c.Text)
		}
		if got := b.DB.QueryInt("SELECT count(*) FROM evaluation WHERE recheck AND available_at <= now() + interval '31 seconds'"); got != 1 {
			t.Error("no look is kept")
		}
		b.push(t, n, "dave", map[string]string{"go.sum": "v3\n"})
		if c := b.decide(t, n); c.Conclusion != "failure" {
			t.Errorf("the release outlived its head: %q", c.Title)
		}
	})
	t.Run("break-glass: at its expiry the row is due and the success is revoked", func(t *testing.T) {
		t.Parallel()
		b := setup(t, func(c *Config) { c.RecheckAfter = 0 })
		b.withPolicy(t, "[break_glass]\nteams = [\"@acme/operations\"]\nmax_duration = \"4h\"\n")
		n := b.Open(nil)
		key := b.Key(n)
		until := time.Now().Add(5 * time.Minute).UTC().Format(time.RFC3339)
		if err := b.Sim.Comment(b.World.Repository, n, "bob", fmt.Sprintf("/countersign break-glass head=%s until=%s reason=the login page is down", key.SHA, until)); err != nil {
			t.Fatal(err)
		}
		if err := b.Sim.Comment(b.World.Repository, n, "erin", confirmLine(b.decide(t, n))); err != nil {
			t.Fatal(err)
		}
		if c := b.decide(t, n); c.Conclusion != "success" {
			t.Fatalf("not released: %q\n%s", c.Title, c.Text)
		}
		wait := b.DB.QueryInt("SELECT extract(epoch FROM available_at - now())::int FROM evaluation WHERE recheck AND reason = 'verdict.expires'")
		if wait < 200 || wait > 310 {
			t.Errorf("due in %d s, want shortly after the five minutes", wait)
		}
		b.w.Deps.Store = b.laterStore(t, 10*time.Minute)
		b.Now()
		b.step(t) // the recheck finds another verdict and sends the head back
		b.Now()   // the invalidator's clock has not been moved
		b.Invalidate()
		if b.Successes(key.SHA) != 0 {
			t.Error("the expired success stands")
		}
		b.step(t)
		if c := b.Check(key.SHA); c.Conclusion != "failure" {
			t.Errorf("after its expiry: %q %q", c.Conclusion, c.Title)
		}
	})
}

// confirmLine is the line that the check tells a second person to comment.
func confirmLine(c githubsim.Check) string {
	text := c.Title + "\n" + c.Summary + "\n" + c.Text
	i := strings.Index(text, "/countersign confirm-break-glass")
	if i < 0 {
		return ""
	}
	line, _, _ := strings.Cut(text[i:], "\n")
	for _, end := range []string{"</code>", "`"} {
		line, _, _ = strings.Cut(line, end)
	}
	return strings.TrimSpace(line)
}

// laterStore is the evaluator's store over a database whose clock is ahead: every statement's now() is shifted by a function
// of the same name that is found first.
func (b *bench) laterStore(t *testing.T, ahead time.Duration) *store.Store {
	t.Helper()
	b.DB.Exec(fmt.Sprintf("CREATE SCHEMA later; GRANT USAGE ON SCHEMA later TO PUBLIC; CREATE FUNCTION later.now() RETURNS timestamptz LANGUAGE sql STABLE AS $$ SELECT pg_catalog.now() + interval '%d seconds' $$", int(ahead.Seconds())))
	b.DB.Exec("ALTER ROLE countersign_evaluator IN DATABASE " + b.DB.Name + " SET search_path = later, pg_catalog, public")
	return b.DB.Store("countersign_evaluator")
}
