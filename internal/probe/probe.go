package probe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/countersign/countersign/pkg/ghclient"
)

// CheckName is the name of the probe's own runs; nothing may require it.
const CheckName = "Countersign / probe"

// ErrInUse: runs of the probe's name exist on the head already.
var ErrInUse = errors.New("the check name is in use on this head")

// GitHub is what the probe asks of an installation.
type GitHub interface {
	FindRun(ctx context.Context, repo ghclient.Repo, sha, name string) (ghclient.Run, bool, error)
	GetRun(ctx context.Context, repo ghclient.Repo, id int64) (ghclient.Run, error)
	CreateRun(ctx context.Context, repo ghclient.Repo, spec ghclient.RunSpec) (ghclient.Run, error)
	UpdateRun(ctx context.Context, repo ghclient.Repo, id int64, spec ghclient.RunSpec) (ghclient.Run, error)
	PullState(ctx context.Context, repo ghclient.Repo, number int) (ghclient.Pull, error)
	PullsOfCommit(ctx context.Context, repo ghclient.Repo, sha string) ([]ghclient.PullSummary, error)
	TeamsFor(ctx context.Context, org string, slugs []string, repo ghclient.Repo) (map[string]ghclient.TeamFacts, error)
	TokenLength(ctx context.Context) (int, error)
}

// Options say what the probe may use. Repo and Pull are required.
type Options struct {
	Repo ghclient.Repo
	// Pull is a pull request of the repository; the runs are made on its head.
	Pull int
	// BaseMoved is the caller's word that the base branch was pushed to after the pull request's last push: only then does the
	// recorded base commit tell anything.
	BaseMoved bool
	// SecretTeam is the slug of a secret team of the owner, "" where there is none.
	SecretTeam string
	// ForkPull is a pull request from a fork, 0 where there is none.
	ForkPull int
	// InUse allows runs of the probe's name to exist.
	InUse bool
	// Pause waits; nil is a timer. Tests move GitHub's clock instead.
	Pause func(ctx context.Context, d time.Duration) error
}

// Result is what one question came to.
type Result struct {
	// Switch is the switch of pkg/githubsim, or a short name where there is none.
	Switch string `json:"switch"`
	// Question in words.
	Question string `json:"question"`
	// Position is the switch's position, "" where it was not found out.
	Position string `json:"position,omitempty"`
	// Reason says why it was not probed, or what went wrong.
	Reason string `json:"reason,omitempty"`
	// Failed: the question was asked and something went wrong.
	Failed bool `json:"failed,omitempty"`
}

// maxLag bounds how many reads are made until a write shows.
const maxLag = 20

type prober struct {
	Options
	gh   GitHub
	sha  string
	lag  int
	made []int64
	out  []Result
}

// Run asks every question and cleans up. The results are complete also where some failed. Errors: ErrInUse and GitHub's, before
// anything was written.
func Run(ctx context.Context, gh GitHub, o Options) ([]Result, error) {
	if o.Pause == nil {
		o.Pause = pause
	}
	pull, err := gh.PullState(ctx, o.Repo, o.Pull)
	if err != nil {
		return nil, err
	}
	_, found, err := gh.FindRun(ctx, o.Repo, pull.HeadSHA, CheckName)
	if err != nil {
		return nil, err
	}
	if found && !o.InUse {
		return nil, fmt.Errorf("%q on %s: %w", CheckName, pull.HeadSHA, ErrInUse)
	}
	p := &prober{Options: o, gh: gh, sha: pull.HeadSHA}
	defer p.cleanUp(ctx)
	p.ask("ReadLag", "how many reads of a check run after a write still show what was before", func() (string, error) { return p.readLag(ctx) })
	p.ask("ReopenRun", "what a PATCH of a completed run to in_progress does", func() (string, error) { return p.reopen(ctx) })
	p.ask("LatestBy", "which of two runs of one name filter=latest shows", func() (string, error) { return p.latest(ctx) })
	p.ask("ShortTokens", "which form an installation's token has", func() (string, error) { return p.tokens(ctx) })
	p.frozen(pull)
	p.secret(ctx)
	p.fork(ctx)
	p.unasked()
	p.cleanUp(ctx)
	return p.out, nil
}

func (p *prober) ask(name, question string, find func() (string, error)) {
	r := Result{Switch: name, Question: question}
	var err error
	if r.Position, err = find(); err != nil {
		r.Position, r.Reason, r.Failed = "", err.Error(), true
	}
	p.out = append(p.out, r)
}

func (p *prober) skip(name, question, reason string) {
	p.out = append(p.out, Result{Switch: name, Question: question, Reason: reason})
}

func (p *prober) spec(status, conclusion, mark string) ghclient.RunSpec {
	return ghclient.RunSpec{
		Name: CheckName, HeadSHA: p.sha, Status: status, Conclusion: conclusion, ExternalID: "countersign:probe:" + mark,
		Title: "Countersign asks GitHub how it behaves", Summary: "This run decides nothing. Do not require it.",
	}
}

func (p *prober) create(ctx context.Context, mark string) (ghclient.Run, error) {
	run, err := p.gh.CreateRun(ctx, p.Repo, p.spec("in_progress", "", mark))
	if err == nil {
		p.made = append(p.made, run.ID)
	}
	return run, err
}

// readLag writes a mark and counts the reads that do not show it.
func (p *prober) readLag(ctx context.Context) (string, error) {
	run, err := p.create(ctx, "lag")
	if err != nil {
		return "", err
	}
	if _, err := p.gh.UpdateRun(ctx, p.Repo, run.ID, p.spec("in_progress", "", "written")); err != nil {
		return "", err
	}
	for p.lag = 0; p.lag < maxLag; p.lag++ {
		read, err := p.gh.GetRun(ctx, p.Repo, run.ID)
		if err != nil && !errors.Is(err, ghclient.ErrNotFound) {
			return "", err
		}
		if err == nil && read.ExternalID == "countersign:probe:written" {
			return fmt.Sprint(p.lag), nil
		}
	}
	return "", fmt.Errorf("after %d reads the write does not show", maxLag)
}

// settled reads a run past every read that may still show an older state.
func (p *prober) settled(ctx context.Context, id int64) (run ghclient.Run, err error) {
	for range p.lag + 1 {
		run, err = p.gh.GetRun(ctx, p.Repo, id)
	}
	return run, err
}

func (p *prober) reopen(ctx context.Context) (string, error) {
	run, err := p.create(ctx, "reopen")
	if err != nil {
		return "", err
	}
	if _, err := p.gh.UpdateRun(ctx, p.Repo, run.ID, p.spec("completed", "neutral", "completed")); err != nil {
		return "", err
	}
	if done, err := p.settled(ctx, run.ID); err != nil || done.Status != "completed" {
		return "", cmp.Or(err, fmt.Errorf("the completed run reads %q", done.Status))
	}
	_, err = p.gh.UpdateRun(ctx, p.Repo, run.ID, p.spec("in_progress", "", "reopened"))
	switch {
	case errors.Is(err, ghclient.ErrInvalid), errors.Is(err, ghclient.ErrForbidden):
		return "ReopenRefused", nil
	case err != nil:
		return "", err
	}
	back, err := p.settled(ctx, run.ID)
	switch {
	case err != nil:
		return "", err
	case back.Status == "completed":
		return "ReopenIgnored", nil
	case back.Conclusion != "":
		return "", fmt.Errorf("the run is %s and keeps the conclusion %s", back.Status, back.Conclusion)
	}
	return "ReopenTakesEffect", nil
}

// latest completes the run that was made last first, and looks which one counts.
func (p *prober) latest(ctx context.Context) (string, error) {
	early, err := p.create(ctx, "early")
	if err != nil {
		return "", err
	}
	late, err := p.create(ctx, "late")
	if err != nil {
		return "", err
	}
	for _, run := range []ghclient.Run{late, early} {
		if err := p.Pause(ctx, 2*time.Second); err != nil { // completed_at has whole seconds
			return "", err
		}
		if _, err := p.gh.UpdateRun(ctx, p.Repo, run.ID, p.spec("completed", "neutral", "done")); err != nil {
			return "", err
		}
	}
	var shown ghclient.Run
	found := false
	for range p.lag + 1 {
		if shown, found, err = p.gh.FindRun(ctx, p.Repo, p.sha, CheckName); err != nil {
			return "", err
		}
	}
	switch {
	case found && shown.ID == late.ID:
		return "LatestByID", nil
	case found && shown.ID == early.ID:
		return "LatestByCompletedAt", nil
	}
	return "", fmt.Errorf("it shows run %d, which is neither", shown.ID)
}

// shortToken is the length of the older form: ghs_ and 36 characters.
const shortToken = 40

func (p *prober) tokens(ctx context.Context) (string, error) {
	n, err := p.gh.TokenLength(ctx)
	return fmt.Sprint(n <= shortToken), err
}

func (p *prober) frozen(pull ghclient.Pull) {
	const name, question = "FrozenBaseSHA", "whether a pull request's base commit stays behind when its base branch moves"
	switch {
	case pull.BaseTip == "":
		p.skip(name, question, "the base branch of the pull request is gone")
	case pull.BaseSHA != pull.BaseTip:
		p.out = append(p.out, Result{Switch: name, Question: question, Position: "true"})
	case p.BaseMoved:
		p.out = append(p.out, Result{Switch: name, Question: question, Position: "false"})
	default:
		p.skip(name, question, "base commit and branch agree, which tells nothing unless the branch moved: push to the base branch, then run again with --base-moved")
	}
}

func (p *prober) secret(ctx context.Context) {
	const name, question = "SecretTeamsHidden", "whether an App is shown a secret team"
	if p.SecretTeam == "" {
		p.skip(name, question, "no secret team was named: --secret-team SLUG")
		return
	}
	p.ask(name, question, func() (string, error) {
		teams, err := p.gh.TeamsFor(ctx, p.Repo.Owner, []string{p.SecretTeam}, p.Repo)
		team := teams[p.SecretTeam]
		switch {
		case err != nil:
			return "", err
		case !team.Found:
			return "true", nil
		case team.Privacy != "secret":
			return "", fmt.Errorf("the team %s is %s: name a secret one", p.SecretTeam, team.Privacy)
		}
		return "false", nil
	})
}

func (p *prober) fork(ctx context.Context) {
	const name, question = "fork heads", "whether the pull requests of a commit are listed where the commit is in a fork"
	if p.ForkPull == 0 {
		p.skip(name, question, "no pull request from a fork was named: --fork-pull NUMBER")
		return
	}
	p.ask(name, question, func() (string, error) {
		pull, err := p.gh.PullState(ctx, p.Repo, p.ForkPull)
		if err != nil {
			return "", err
		}
		if pull.HeadRepoID == p.Repo.ID {
			return "", fmt.Errorf("the head of pull request %d is not in a fork", p.ForkPull)
		}
		list, err := p.gh.PullsOfCommit(ctx, p.Repo, pull.HeadSHA)
		if errors.Is(err, ghclient.ErrNotFound) {
			return "not listed", nil
		}
		if err != nil {
			return "", err
		}
		for _, l := range list {
			if l.Number == p.ForkPull {
				return "listed", nil
			}
		}
		return "not listed", nil
	})
}

// unasked are the questions that an App cannot settle, or not without doing harm.
func (p *prober) unasked() {
	for _, q := range [][3]string{
		{"RateLimit, RateLimitStatus", "what an exceeded hourly budget is answered with", "the budget would have to be used up"},
		{"MaxConcurrent, MaxContentPerMinute", "where the secondary limits are", "they would have to be exceeded, which GitHub may punish"},
		{"PullFilesLimit, TreeLimit", "where lists are cut", "it takes a pull request of 3,000 files and a tree of 100,000 entries; both cuts are handled wherever they are"},
		{"Latency", "how long answers take", "it is measured always: countersign_github_request_duration_seconds"},
		{"order of webhooks", "whether webhooks arrive in the order of the changes", "it takes a receiver and many changes, and one run proves no promise; no order is relied on"},
		{"one bad owner", "whether one bad owner takes the whole CODEOWNERS line with it; byte order marks, inner #, old paths of renames", "only GitHub's own review requests show it, and an App may not push or request; all of them fail closed here"},
		{"collaborator permission", "whether maintain is reported as maintain or write", "it takes a collaborator of that role; both are accepted"},
		{"onBehalfOf", "which teams a review answers where several were requested", "it takes a person's review; it is never used as evidence"},
	} {
		p.skip(q[0], q[1], q[2])
	}
}

// cleanUp completes every run that was made as neutral, also when ctx has ended, and reports the one it could not.
func (p *prober) cleanUp(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	for _, id := range p.made {
		if _, err := p.gh.UpdateRun(ctx, p.Repo, id, p.spec("completed", "neutral", "over")); err != nil {
			p.out = append(p.out, Result{Switch: "clean-up", Question: fmt.Sprintf("run %d is completed as neutral", id), Reason: err.Error(), Failed: true})
		}
	}
	p.made = nil
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
