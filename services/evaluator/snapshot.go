package evaluator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"

	"github.com/countersign/countersign/internal/hook"
	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/policy"
	"github.com/countersign/countersign/pkg/store"
)

// evidence is a complete snapshot with what the final read compares.
type evidence struct {
	snapshot policy.Snapshot
	pulls    []ghclient.Pull // as they were when the snapshot was made
	rulesRef map[int]string  // the commit each pull request's rules were read at
	rules    map[int]string  // which rules those are, for the next base push (P15)
	contents bool            // contents of files at the base were compared, too
	moved    []store.PullFact
	closed   []store.PullFact // rows whose pull request is closed by now
	htmlURL  string
	refusal  error // why the snapshot holds unreadable evidence, nil when it does not
}

// baseRefs are the base refs whose authority a verdict rests on (RG-225).
func (e evidence) baseRefs() []string {
	var refs []string
	for _, p := range e.pulls {
		refs = append(refs, p.BaseRef)
	}
	slices.Sort(refs)
	return slices.Compact(refs)
}

// bases are what a push to a base branch can change of this evidence.
func (e evidence) bases() []store.Basis {
	var bases []store.Basis
	for _, p := range e.pulls {
		b := store.Basis{Number: p.Number, Head: store.SHA(p.HeadSHA), BaseRef: p.BaseRef, Rules: e.rules[p.Number], Change: p.ChangeDigest()}
		if e.contents {
			b.Rules = "" // what else the base has enters the verdict
		}
		bases = append(bases, b)
	}
	return bases
}

// maxPolicyBytes bounds a policy file (RG-357).
const maxPolicyBytes = 1_000_000

// collect reads everything a verdict about the head rests on: the pull requests on it, and those inside the merge group whose head
// it is, each with its own base and policy, and then the facts that pkg/policy asks for, until it asks for nothing more.
func (w *Worker) collect(ctx context.Context, gh GitHub, repo ghclient.Repo, ev store.Evaluation, group groupView) (evidence, error) {
	seen, err := w.Store.SeenPulls(ctx, ev.Head)
	if err != nil {
		return evidence{}, err
	}
	if truncated(seen, ev.Rows) {
		return evidence{}, errTooManyPulls
	}
	c := &collector{w: w, gh: gh, repo: repo, ev: ev, evidence: evidence{rulesRef: map[int]string{}, rules: map[int]string{}}, members: map[string]map[string]bool{}}
	c.snapshot = policy.Snapshot{
		Version: policy.SnapshotVersion, Now: ev.ClaimedAt.UTC(), HeadSHA: string(ev.Head.SHA), Settings: w.Config.settings(),
		Repository: policy.Repository{ID: repo.ID, FullName: repo.FullName(), Owner: repo.Owner},
		Bases:      map[string]policy.Base{}, Teams: map[string]policy.TeamFact{}, Memberships: map[string]map[string]policy.Membership{},
		Users: map[string]policy.UserFact{}, Apps: map[string]policy.AppFact{},
	}
	if err := c.readPulls(ctx, seen); err != nil {
		return evidence{}, err
	}
	if err := c.readMembers(ctx, group); err != nil {
		return evidence{}, err
	}
	if len(c.moved) > 0 || len(c.snapshot.Pulls) == 0 {
		return c.evidence, nil
	}
	// A cheap look before the many reads of facts: the fences would refuse what they led to (RG-225).
	if pending, err := w.Store.AuthorityPending(ctx, ev.Head, c.baseRefs()); err != nil || pending {
		return evidence{}, cmp.Or(err, errAuthorityPending)
	}
	if c.refusal == nil { // otherwise nothing more could change the verdict
		if err := c.readFacts(ctx); err != nil {
			if err := c.refuse(err, "who may approve"); err != nil {
				return evidence{}, err
			}
		}
	}
	return c.evidence, nil
}

// truncated reports whether the store may know of more open pull requests on the head than it gave: a conjunction over a part
// of them is no evidence (P4, I6).
func truncated(seen []store.SeenPull, rows []store.EvaluationRow) bool {
	open := 0
	for _, p := range seen {
		if p.State == "open" {
			open++
		}
	}
	return open >= store.MaxPullsOnHead || len(rows) >= store.MaxPullsOnHead
}

// collector fills one evidence; its methods lock mu where they run side by side.
type collector struct {
	evidence
	w    *Worker
	gh   GitHub
	repo ghclient.Repo
	ev   store.Evaluation
	mu   sync.Mutex
	// members of teams whose list is complete, by "org/slug" and lower-case login.
	members map[string]map[string]bool
}

// readPulls reads the pull requests known to be on the head and GitHub's listing side by side, then those that only the
// listing knew (P6).
func (c *collector) readPulls(ctx context.Context, seen []store.SeenPull) error {
	known := c.knownNumbers(seen)
	var listed []ghclient.PullSummary
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(6)
	group.Go(func() (err error) {
		if listed, err = c.gh.PullsOfCommit(gctx, c.repo, string(c.ev.Head.SHA)); err != nil {
			return c.refuse(err, "the pull requests of this commit")
		}
		return nil
	})
	for _, n := range known {
		group.Go(func() error { return c.readPull(gctx, n) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for _, p := range listed {
		if p.HeadSHA == string(c.ev.Head.SHA) && p.State == "open" && !slices.Contains(known, p.Number) && !hook.Removed(hook.OneHead) {
			if err := c.readPull(ctx, p.Number); err != nil {
				return err
			}
		}
	}
	if c.refusal == nil {
		c.snapshot.PullsState = policy.FactPresent
	}
	slices.SortFunc(c.pulls, func(a, b ghclient.Pull) int { return a.Number - b.Number })
	return nil
}

func (c *collector) knownNumbers(seen []store.SeenPull) []int {
	var numbers []int
	for _, r := range c.ev.Rows {
		numbers = append(numbers, r.Number)
	}
	for _, p := range seen {
		if p.State == "open" && !hook.Removed(hook.OneHead) && !hook.Removed(hook.Candidates) {
			numbers = append(numbers, p.Number)
		}
	}
	slices.Sort(numbers)
	return slices.Compact(numbers)
}

// readPull files one pull request: on this head, moved to another, or gone from it.
func (c *collector) readPull(ctx context.Context, number int) error {
	e, err := c.gh.Evidence(ctx, c.repo, number)
	if errors.Is(err, ghclient.ErrNotFound) && !c.isRow(number) {
		return nil // seen once, deleted since
	}
	if err != nil {
		return c.holdUnread(ctx, number, fmt.Errorf("read evidence of pull request %d: %w", number, err))
	}
	if row, ok := c.row(number); ok && (lags(row.Watermark, e.Pull) || lagsReview(row.Watermark, e)) {
		return fmt.Errorf("pull request %d: %w", number, errLagging)
	}
	if c.elsewhere(e.Pull) {
		return nil
	}
	files, err := c.gh.ChangedFiles(ctx, c.repo, number, e.Pull.ChangedFiles)
	if err != nil {
		return c.hold(e, fmt.Errorf("list files of pull request %d: %w", number, err), "the changed files")
	}
	if err := c.add(e, files); err != nil {
		return c.hold(e, err, "the policy")
	}
	return nil
}

// elsewhere files a pull request that is closed or on another head by now.
func (c *collector) elsewhere(pull ghclient.Pull) bool {
	switch {
	case pull.State != "open":
		c.note(&c.closed, pull)
	case pull.HeadSHA != string(c.ev.Head.SHA):
		c.note(&c.moved, pull)
	default:
		return false
	}
	return true
}

// note keeps what a row's pull request is now, where it no longer is open on this head.
func (c *collector) note(list *[]store.PullFact, p ghclient.Pull) {
	if !c.isRow(p.Number) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	*list = append(*list, factOf(p))
}

func (c *collector) row(number int) (store.EvaluationRow, bool) {
	for _, r := range c.ev.Rows {
		if r.Number == number {
			return r, true
		}
	}
	return store.EvaluationRow{}, false
}

func (c *collector) isRow(number int) bool {
	_, ok := c.row(number)
	return ok
}

// lags reports whether a read is older than what the trigger promised: a replica that has not caught up (P5).
func lags(mark store.Watermark, p ghclient.Pull) bool {
	return !hook.Removed(hook.Watermark) && !mark.UpdatedAt.IsZero() && p.UpdatedAt.Before(mark.UpdatedAt)
}

// lagsReview reports whether the review that triggered the work is not visible yet, or not in the state it was given.
func lagsReview(mark store.Watermark, e ghclient.Evidence) bool {
	if mark.ReviewID == 0 || hook.Removed(hook.Watermark) {
		return false
	}
	for _, r := range e.Reviews {
		if r.ID == mark.ReviewID {
			// Webhooks spell states in lower case, ingress stores them as GitHub's API does.
			return strings.EqualFold(mark.ReviewState, "DISMISSED") && !strings.EqualFold(r.State, "DISMISSED")
		}
	}
	return true
}

// add puts one open pull request of the head into the snapshot.
func (c *collector) add(e ghclient.Evidence, files []ghclient.ChangedFile) error {
	base, err := baseOf(e)
	if err != nil {
		return fmt.Errorf("pull request %d: %w", e.Pull.Number, err)
	}
	organization, err := organizationOf(e.Org)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keep(e)
	c.snapshot.Bases[e.RulesRef] = base
	c.snapshot.OrganizationPolicy = organization
	c.snapshot.Pulls = append(c.snapshot.Pulls, pullOf(e, files))
	return nil
}

// keep remembers what the final read compares, and whose repository it is; mu is held.
func (c *collector) keep(e ghclient.Evidence) {
	c.pulls = append(c.pulls, e.Pull)
	if e.Repository.OwnerType != "" {
		c.snapshot.Repository.OwnerType = e.Repository.OwnerType
	}
	c.rulesRef[e.Pull.Number] = e.RulesRef
	c.rules[e.Pull.Number] = e.RulesDigest()
	if c.htmlURL == "" || e.Pull.Number == c.ev.Trigger().Number {
		c.htmlURL = e.Pull.HTMLURL
	}
}

func pullOf(e ghclient.Evidence, files []ghclient.ChangedFile) policy.PullRequest {
	p := policy.PullRequest{
		Number: e.Pull.Number, Author: actorOf(e.Pull.Author), BaseRef: e.Pull.BaseRef, BaseSHA: e.RulesRef, HeadSHA: e.Pull.HeadSHA,
		Draft: e.Pull.Draft, Labels: e.Pull.Labels, ChangedFiles: e.Pull.ChangedFiles,
		Files: policy.FileList{State: policy.FactPresent}, Reviews: policy.ReviewList{State: policy.FactPresent},
	}
	for _, f := range files {
		p.Files.Items = append(p.Files.Items, policy.ChangedFile{Path: f.Path, PreviousPath: f.PreviousPath, Status: f.Status})
	}
	for _, r := range e.Reviews {
		p.Reviews.Items = append(p.Reviews.Items, policy.Review{ID: r.ID, State: r.State, Author: actorOf(r.Author), CommitID: r.CommitID, SubmittedAt: r.SubmittedAt.UTC()})
	}
	return p
}

func actorOf(a ghclient.Actor) *policy.Actor {
	if a == (ghclient.Actor{}) {
		return nil
	}
	return &policy.Actor{ID: a.ID, Login: a.Login, Type: a.Type}
}

func baseOf(e ghclient.Evidence) (policy.Base, error) {
	base := policy.Base{
		Codeowners: policy.FileFact{State: policy.FactAbsent}, CodeownersErrors: policy.CodeownersErrorList{State: policy.FactPresent},
	}
	if len(e.CodeownersFiles) > 0 { // first found only (RG-315)
		base.Codeowners = fileFact(e.CodeownersFiles[0])
	}
	for _, x := range e.CodeownersErrors {
		base.CodeownersErrors.Items = append(base.CodeownersErrors.Items, policy.CodeownersError{
			Line: x.Line, Column: x.Column, Kind: x.Kind, Source: x.Source, Suggestion: x.Suggestion, Message: x.Message, Path: x.Path,
		})
	}
	var err error
	base.Policy, base.FallbackPolicy, err = policyFacts("", e.PolicyFiles)
	return base, err
}

func organizationOf(org ghclient.OrgRules) (policy.OrganizationPolicy, error) {
	if !org.Available {
		return policy.OrganizationPolicy{Repository: policy.FactAbsent, Policy: policy.FileFact{State: policy.FactAbsent}, FallbackPolicy: policy.FileFact{State: policy.FactAbsent}}, nil
	}
	own, fallback, err := policyFacts(org.Repo.FullName()+": ", org.PolicyFiles)
	return policy.OrganizationPolicy{Repository: policy.FactPresent, Policy: own, FallbackPolicy: fallback}, err
}

// policyFacts sorts the policy files found into the two paths of D5. A file that is too large or not text is a *policyError:
// the check stays in progress, says so, and the work is retried (RG-357). where names another repository than the pull request's.
func policyFacts(where string, files []ghclient.File) (own, fallback policy.FileFact, err error) {
	own, fallback = policy.FileFact{State: policy.FactAbsent}, policy.FileFact{State: policy.FactAbsent}
	for _, f := range files {
		if reason := policyFault(f); reason != "" {
			return own, fallback, &policyError{path: where + f.Path, reason: reason}
		}
		switch f.Path {
		case policy.PolicyPath:
			own = fileFact(f)
		case policy.FallbackPolicyPath:
			fallback = fileFact(f)
		}
	}
	return own, fallback, nil
}

func policyFault(f ghclient.File) string {
	switch {
	case f.Symlink:
		return "it is a symbolic link"
	case len(f.Text) > maxPolicyBytes:
		return fmt.Sprintf("it has %d bytes", len(f.Text))
	case !utf8.Valid(f.Text):
		return "it is not UTF-8"
	}
	return ""
}

// fileFact is unknown where the text has no JSON form, or is only the name of another file; unknown blocks (I6).
func fileFact(f ghclient.File) policy.FileFact {
	if f.Symlink || !utf8.Valid(f.Text) {
		return policy.FileFact{State: policy.FactUnknown, Path: f.Path}
	}
	return policy.FileFact{State: policy.FactPresent, Path: f.Path, Text: string(f.Text)}
}

// factOf is a fresh read as the store keeps it.
func factOf(p ghclient.Pull) store.PullFact {
	return store.PullFact{
		Number: p.Number, Head: store.SHA(p.HeadSHA), BaseRef: p.BaseRef, State: p.State, Merged: p.Merged,
		Title: p.Title, AuthorLogin: p.Author.Login, UpdatedAt: p.UpdatedAt,
	}
}
