package fanout

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/nudge"
	"github.com/countersign/countersign/pkg/store"
)

// errStopping ends a pass between two pages because the process was told to stop.
var errStopping = errors.New("the process is stopping")

// pass is one walk over what one authority row covers, from where the row's cursor stands.
type pass struct {
	service   *Service
	authority store.Authority
	github    GitHub
	stopping  <-chan struct{}

	// what is reported when it has ended
	route        string // "" until GitHub has confirmed one
	pages        int
	pulls        int
	repositories int
	why          map[why]int
	skipped      string // why nothing was queued; "" otherwise
}

// run works the pass while its lease is renewed beside it. Losing the lease stops it, whatever it was waiting for.
func (p *pass) run(ctx context.Context) error {
	held, release := p.service.hold(ctx, p.authority)
	defer release()
	var err error
	switch p.authority.Scope {
	case store.ScopeInstallation:
		err = p.split(held)
	default:
		err = p.queue(held)
	}
	if cause := context.Cause(held); err != nil && errors.Is(cause, store.ErrLeaseLost) {
		return cause // the cancelled request is only how we noticed
	}
	return err
}

// split turns an installation's change into one row for each repository it reaches (RG-212). The installation's own row blocks
// publication until all of them exist (RG-214), so one list that is whole is needed, and nothing else: what is wrong with one
// repository is found out by that repository's pass.
func (p *pass) split(ctx context.Context) error {
	listed, err := p.github.Repositories(ctx)
	if err != nil {
		return err
	}
	var refs []store.RepositoryRef
	for _, r := range listed {
		if r.Archived || p.policyRepository(r.Repo) {
			continue // RG-213
		}
		refs = append(refs, store.RepositoryRef{ID: store.RepositoryID(r.ID), FullName: r.FullName()})
	}
	if err := p.service.deps.Store.SplitInstallation(ctx, p.authority, refs); err != nil {
		return err
	}
	p.repositories = len(refs)
	if len(refs) > 0 {
		p.service.wake(ctx, nudge.Wake{Subject: nudge.Fanout, InstallationID: int64(p.authority.Installation)})
	}
	return nil
}

// queue advances the head of every open pull request of the repository, or of one base branch of it, and queues its evaluation
// (RG-219).
func (p *pass) queue(ctx context.Context) error {
	repo, err := p.locate(ctx)
	if err != nil {
		return err
	}
	p.route = repo.FullName()
	switch {
	case p.policyRepository(repo.Repo):
		p.skipped = "policy_repository" // nothing in it is evaluated (RG-278)
	case repo.Archived:
		p.skipped = "archived" // nothing in it can be merged; unarchiving is an installation-wide change (RG-079)
	default:
		return p.walk(ctx, repo.Repo)
	}
	return p.service.deps.Store.FinishAuthority(ctx, p.authority)
}

// walk goes on at the row's cursor and ends with the last page, which deletes the row. Each page is recorded before the next
// is asked for: whoever takes over goes on behind it.
func (p *pass) walk(ctx context.Context, repo ghclient.Repo) error {
	rules, err := p.readRules(ctx, repo)
	if err != nil {
		return err
	}
	for {
		pulls, next, err := p.github.OpenPulls(ctx, repo, p.authority.BaseRef, p.authority.Page)
		if err != nil {
			return err
		}
		queued, err := p.advance(ctx, repo, rules, pulls, next)
		if err != nil {
			return err
		}
		p.pages++
		p.pulls += queued
		if queued > 0 {
			p.service.wake(ctx, nudge.Wake{
				Subject: nudge.Invalidate, InstallationID: int64(p.authority.Installation), RepositoryID: int64(p.authority.Repository),
			})
		}
		if next == 0 {
			p.service.wake(ctx, nudge.Wake{Subject: nudge.Evaluate, InstallationID: int64(p.authority.Installation), RepositoryID: int64(p.authority.Repository)})
			return nil
		}
		p.authority.Page = next
		select {
		case <-p.stopping:
			return errStopping
		default:
		}
	}
}

// facts are the pull requests as the listing shows them: sightings, never evidence (P5).
func facts(pulls []ghclient.Pull) []store.PullFact {
	out := make([]store.PullFact, 0, len(pulls))
	for _, pull := range pulls {
		out = append(out, store.PullFact{
			Number: pull.Number, Head: store.SHA(pull.HeadSHA), BaseRef: pull.BaseRef, State: pull.State, Merged: pull.Merged,
			Title: pull.Title, AuthorLogin: pull.Author.Login, UpdatedAt: pull.UpdatedAt,
		})
	}
	return out
}

// locate asks GitHub where the row's repository is now (RG-224). The stored name is tried first; where it leads elsewhere or
// nowhere, the installation's own list is asked for the repository's id, and the route it reports is used.
// An error that is ghclient.ErrNotFound says that the installation does not reach the repository any more.
func (p *pass) locate(ctx context.Context) (ghclient.RepositoryInfo, error) {
	id := int64(p.authority.Repository)
	if repo, ok := ghclient.RepoFromFullName(id, p.authority.FullName); ok {
		info, err := p.github.Repository(ctx, repo)
		if err == nil || !(errors.Is(err, ghclient.ErrMoved) || errors.Is(err, ghclient.ErrNotFound)) {
			return info, err
		}
	}
	listed, err := p.github.Repositories(ctx)
	if err != nil {
		return ghclient.RepositoryInfo{}, err
	}
	for _, r := range listed {
		if r.ID == id {
			return r, nil
		}
	}
	return ghclient.RepositoryInfo{}, fmt.Errorf("the installation does not reach repository %d: %w", id, ghclient.ErrNotFound)
}

// policyRepository reports whether r holds the organization's policy; its name is compared without case (RG-087).
func (p *pass) policyRepository(r ghclient.Repo) bool {
	return strings.EqualFold(r.Name, p.service.cfg.GitHub.OrgRepository)
}

func (p *pass) fullName() string {
	if p.route != "" {
		return p.route
	}
	return p.authority.FullName
}
