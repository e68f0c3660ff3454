package demo

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/countersign/countersign/pkg/githubsim"
)

// Stage is the stand-in with the example world and one pull request that the story is about.
type Stage struct {
	Sim       *githubsim.Sim
	World     githubsim.Example
	CheckName string
	// Patience is how long a step may take; zero means one minute.
	Patience time.Duration
	// Hook, when set, is called before each step and once more after the step has changed the stand-in, while its effect is
	// still on its way: where a test brings its faults.
	Hook func(step int, done bool)

	number  int
	heads   []string // heads of the pull request, oldest first
	reviews map[string]int64
}

// NewStage builds the example world for App.
func NewStage(sim *githubsim.Sim, app githubsim.App, checkName string) *Stage {
	return &Stage{
		Sim: sim, World: githubsim.AddExample(sim, githubsim.ExampleOptions{App: app}), CheckName: checkName, reviews: map[string]int64{},
	}
}

// Result is one step that was reached.
type Result struct {
	Step    string
	Took    time.Duration
	Title   string // of the check
	Status  string
	SHA     string
	Summary string
}

// step is one thing that happens and what must follow from it.
type step struct {
	name string
	do   func(*Stage) error
	want func(*Stage) (reached bool, got githubsim.Check)
}

// Story is what Play plays, by name.
func Story() []string {
	var names []string
	for _, s := range story {
		names = append(names, s.name)
	}
	return names
}

// Play plays the story once and reports every step as it is reached. An error names the step that was not.
func (s *Stage) Play(ctx context.Context, report func(Result)) error {
	for i, st := range story {
		if err := s.play(ctx, i, st, report); err != nil {
			return fmt.Errorf("step %d of %d, %q: %w", i+1, len(story), st.name, err)
		}
	}
	return nil
}

func (s *Stage) play(ctx context.Context, i int, st step, report func(Result)) error {
	s.hook(i, false)
	started := time.Now()
	if st.do != nil {
		if err := st.do(s); err != nil {
			return err
		}
	}
	s.hook(i, true)
	patience := s.Patience
	if patience == 0 {
		patience = time.Minute
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		reached, check := st.want(s)
		if reached {
			report(Result{Step: st.name, Took: time.Since(started), Title: check.Title, Status: look(check), SHA: check.HeadSHA, Summary: check.Summary})
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not reached after %s: the check says %q %q", time.Since(started).Round(time.Millisecond), look(check), check.Title)
		case <-tick.C:
		}
	}
}

func (s *Stage) hook(step int, done bool) {
	if s.Hook != nil {
		s.Hook(step, done)
	}
}

// look is a check's state in one word.
func look(c githubsim.Check) string {
	switch {
	case c.ID == 0:
		return "no check"
	case c.Conclusion != "":
		return c.Conclusion
	}
	return c.Status
}

const author = "dave"

// story is the life of one pull request that touches what @acme/core and @acme/docs own.
var story = []step{
	{"a pull request that two owner sets own opens; the check is in progress", (*Stage).open, started},
	{"blocked, naming who may approve what", nil, blockedNaming("@acme/core", "@acme/docs")},
	{"alice of @acme/core approves: still blocked, @acme/docs is missing", approve("alice"), blockedNaming("@acme/docs")},
	{"carol of @acme/docs approves: success", approve("carol"), concluded("success")},
	{"a push: the old success is revoked", (*Stage).push, oldRevoked},
	{"blocked: the approvals are for the old head", nil, blockedNaming("@acme/core", "@acme/docs")},
	{"both approve the new head: success", approve("alice", "carol"), concluded("success")},
	{"alice leaves @acme/core: evaluated again and blocked", leave("core", "alice"), blockedNaming("@acme/core")},
	{"the enrolled App renovate approves what @acme/core delegated to it: success", (*Stage).delegate, concluded("success")},
}

func (s *Stage) head() string { return s.heads[len(s.heads)-1] }

func (s *Stage) check(sha string) githubsim.Check {
	check, _ := s.Sim.LatestCheck(s.World.Repository, sha, s.CheckName)
	return check
}

func (s *Stage) open() error {
	number, err := s.Sim.OpenPull(s.World.Repository, githubsim.Pull{
		Author: author, Title: "Update a dependency and its page", Files: map[string]string{"go.sum": "example.com/x v1.0.1\n", "docs/index.md": "# Widgets, again\n"},
	})
	s.number = number
	s.heads = append(s.heads, s.Sim.Head(s.World.Repository, number))
	return err
}

func (s *Stage) push() error {
	sha, err := s.Sim.Push(s.World.Repository, s.number, author, map[string]string{"go.sum": "example.com/x v1.0.2\n"})
	s.heads = append(s.heads, sha)
	return err
}

func approve(logins ...string) func(*Stage) error {
	return func(s *Stage) error {
		for _, login := range logins {
			id, err := s.Sim.Review(s.World.Repository, s.number, login, "APPROVED")
			if err != nil {
				return err
			}
			s.reviews[login] = id
		}
		return nil
	}
}

func leave(team, login string) func(*Stage) error {
	return func(s *Stage) error { return s.Sim.RemoveTeamMember("acme", team, login) }
}

func (s *Stage) delegate() error {
	_, err := s.Sim.Review(s.World.Repository, s.number, s.World.Delegate.Slug+"[bot]", "APPROVED")
	return err
}

// started: a run exists on the head. It is made unfinished, and it was there before anything was decided.
func started(s *Stage) (bool, githubsim.Check) {
	check := s.check(s.head())
	return check.ID != 0, check
}

// blockedNaming: the check on the newest head failed and its text names every one of these owners as missing.
func blockedNaming(owners ...string) func(*Stage) (bool, githubsim.Check) {
	return func(s *Stage) (bool, githubsim.Check) {
		check := s.check(s.head())
		if check.Conclusion != "failure" {
			return false, check
		}
		for _, o := range owners {
			if !strings.Contains(check.Title+check.Summary+check.Text, o) {
				return false, check
			}
		}
		return len(owners) > 1 || strings.Contains(check.Title, owners[0]), check
	}
}

func concluded(conclusion string) func(*Stage) (bool, githubsim.Check) {
	return func(s *Stage) (bool, githubsim.Check) {
		check := s.check(s.head())
		return check.Conclusion == conclusion, check
	}
}

// oldRevoked: no run of ours says success on the head that was left.
func oldRevoked(s *Stage) (bool, githubsim.Check) {
	old := s.heads[len(s.heads)-2]
	for _, c := range s.Sim.Checks(s.World.Repository, old) {
		if c.Name == s.CheckName && c.Conclusion == "success" {
			return false, c
		}
	}
	return true, s.check(old)
}
