package ghclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

const (
	opEvidence  operation = "graphql.evidence"
	opPullState operation = "graphql.pull_state"
	opReviews   operation = "graphql.reviews"
	// maxReviews is RG-350.
	maxReviews = 1000
)

// Evidence reads what one evaluation rests on: the pull request, all its reviews, the rules of the repository and of the organization.
// Usually that is one request. More are made only where GitHub leaves no choice: for reviews beyond 100, for a base branch that isn't
// the default one and wasn't seen before, for a file whose text doesn't hash to its object id, and for CODEOWNERS errors on such a branch.
//
// The rules are read at the tip of the base branch, RulesRef: that is what GitHub itself applies to the pull request, while the base
// commit recorded with it (BaseSHA) may be older by years (decision 0054). Only where the branch is gone is BaseSHA used.
// Errors: ErrNotFound, ErrMoved, ErrTooLarge above 1000 reviews.
func (c *Client) Evidence(ctx context.Context, r Repo, number int) (Evidence, error) {
	e, err := c.evidence(ctx, r, number)
	if err != nil {
		return Evidence{}, doing(err, "read the evidence of %s#%d", r.FullName(), number)
	}
	return e, nil
}

func (c *Client) evidence(ctx context.Context, r Repo, number int) (Evidence, error) {
	guess := c.app.hints.branch(c.installation, r, number)
	data, withFiles, err := c.askEvidence(ctx, r, number, guess)
	if err != nil {
		return Evidence{}, err
	}
	repository := data.at("repository").object()
	item := repository.at("pullRequest")
	pull, err := readPullCore(opEvidence, repository, item, r, number)
	if err != nil {
		return Evidence{}, err
	}
	e := Evidence{Pull: pull, Repository: RepositoryInfo{
		Repo: pull.BaseRepo, DefaultBranch: repository.at("defaultBranchRef").at("name").optionalText(),
		Archived: repository.at("isArchived").flag(), Private: repository.at("isPrivate").flag(), OwnerType: repository.at("owner").object().at("__typename").text(),
	}}
	if e.Reviews, err = c.reviews(ctx, r, pull, item.at("reviews")); err != nil {
		return Evidence{}, err
	}
	if err := c.rules(ctx, r, &e, item.at("baseRef").at("target"), withFiles); err != nil {
		return Evidence{}, err
	}
	assumed := guess
	if assumed == "" {
		assumed = e.Repository.DefaultBranch
	}
	c.app.hints.putBranch(c.installation, r, number, pull.BaseRef)
	if err := c.ownerErrors(ctx, r, &e, repository.at("codeowners"), assumed == pull.BaseRef && pull.BaseTip != ""); err != nil {
		return Evidence{}, err
	}
	if err := c.orgRules(ctx, r, &e, data.at("org"), withFiles); err != nil {
		return Evidence{}, err
	}
	if data.read.err != nil {
		return Evidence{}, malformed(opEvidence, data.read.err)
	}
	return e, nil
}

// featureMemory is how long a server's refusal of a field is remembered; an upgrade is noticed that much later.
const featureMemory = time.Hour

// askEvidence makes the query, on a server that doesn't know all of its fields without them; withFiles says which it was.
func (c *Client) askEvidence(ctx context.Context, r Repo, number int, branch string) (data node, withFiles bool, err error) {
	cfg := c.app.cfg
	variables := map[string]any{"owner": r.Owner, "name": r.Name, "number": number, "org": cfg.OrgRepository, "branch": nil}
	if branch != "" {
		variables["branch"] = branch
	}
	if c.app.lacks.has(featureFiles, c.app.now()) {
		data, err = c.query(ctx, opEvidence, evidenceQuery(0, false), variables, "org", "repository.codeowners")
		return data, false, err
	}
	full := maps.Clone(variables)
	for i, path := range cfg.PolicyPaths {
		full[fmt.Sprintf("p%d", i)] = path
	}
	data, err = c.query(ctx, opEvidence, evidenceQuery(len(cfg.PolicyPaths), true), full, "org", "repository.codeowners")
	if !errors.Is(err, ErrInvalid) {
		return data, true, err
	}
	data, plainErr := c.query(ctx, opEvidence, evidenceQuery(0, false), variables, "org", "repository.codeowners")
	if plainErr != nil {
		return node{}, false, plainErr
	}
	c.app.lacks.note(featureFiles, c.app.now().Add(featureMemory))
	c.app.log.InfoContext(ctx, "github cannot read files by graphql; they are read one by one", "err", err.Error())
	return data, false, nil
}

// PullState is the re-read immediately before a publication, with all the fences compare, the tip of the base branch included.
func (c *Client) PullState(ctx context.Context, r Repo, number int) (Pull, error) {
	data, err := c.query(ctx, opPullState, pullStateQuery, map[string]any{"owner": r.Owner, "name": r.Name, "number": number})
	if err != nil {
		return Pull{}, doing(err, "read the state of %s#%d", r.FullName(), number)
	}
	repository := data.at("repository").object()
	pull, err := readPullCore(opPullState, repository, repository.at("pullRequest"), r, number)
	if err != nil {
		return Pull{}, doing(err, "read the state of %s#%d", r.FullName(), number)
	}
	return pull, nil
}

// readPullCore reads the pull request as GraphQL has it and holds it against what was asked for (RG-195).
func readPullCore(op operation, repository, item node, r Repo, number int) (Pull, error) {
	item.object()
	base := item.at("baseRepository").object()
	baseRepo, ok := RepoFromFullName(base.at("databaseId").id(), base.at("nameWithOwner").text())
	if !ok {
		base.at("nameWithOwner").fail("owner/name with exactly one slash")
	}
	pull := Pull{
		Number: item.at("number").number(), NodeID: item.at("id").text(), Merged: item.at("merged").flag(), Draft: item.at("isDraft").flag(),
		HeadSHA: item.at("headRefOid").sha(), HeadRef: item.at("headRefName").optionalText(), HeadRepoID: item.at("headRepository").at("databaseId").optionalID(),
		BaseRef: item.at("baseRefName").text(), BaseSHA: item.at("baseRefOid").sha(), BaseRepo: baseRepo,
		ChangedFiles: item.at("changedFiles").count(), Commits: item.at("commits").object().at("totalCount").count(), Author: item.at("author").who(),
		Title: item.at("title").optionalText(), HTMLURL: item.at("url").text(), UpdatedAt: item.at("updatedAt").requiredInstant(),
	}
	if pull.HeadRepoID != 0 {
		pull.HeadRepo, _ = RepoFromFullName(pull.HeadRepoID, item.at("headRepository").at("nameWithOwner").optionalText())
	}
	switch item.at("state").oneOf("OPEN", "CLOSED", "MERGED") {
	case "OPEN":
		pull.State = "open"
	default:
		pull.State = "closed"
	}
	if target := item.at("baseRef").at("target"); !target.missing() {
		pull.BaseTip = target.at("oid").sha()
	}
	for _, label := range item.at("labels").at("nodes").list() {
		pull.Labels = append(pull.Labels, label.object().at("name").text())
	}
	if item.at("labels").at("totalCount").count() != len(pull.Labels) {
		item.at("labels").fail("as many labels as it counts (at most 100)")
	}
	slices.Sort(pull.Labels)
	if pull.Number != number {
		item.at("number").fail("the number that was asked for")
	}
	id := repository.at("databaseId").id()
	if item.read.err != nil {
		return Pull{}, malformed(op, item.read.err)
	}
	if id != baseRepo.ID {
		return Pull{}, moved(op, "the pull request's base repository is not the one that was asked")
	}
	return pull, r.mustBe(op, baseRepo)
}

// reviews reads the first page and follows until it has all. A count that changes, or a head that moves meanwhile, is an error: then the
// pages are not of one state.
func (c *Client) reviews(ctx context.Context, r Repo, pull Pull, first node) ([]Review, error) {
	var all []Review
	seen := map[int64]bool{}
	for page := first; ; {
		total := page.object().at("totalCount").count()
		for _, item := range page.at("nodes").list() {
			one := readReview(item.object())
			if seen[one.ID] {
				item.fail("a review that is not in the list twice")
			}
			seen[one.ID] = true
			all = append(all, one)
		}
		more, after := page.at("pageInfo").at("hasNextPage").flag(), page.at("pageInfo").at("endCursor").optionalText()
		switch {
		case page.read.err != nil:
			return nil, malformed(opReviews, page.read.err)
		case total > maxReviews || len(all) > maxReviews:
			return nil, &apiError{sentinel: ErrTooLarge, op: opReviews, text: fmt.Sprintf("more than %d reviews", maxReviews)}
		case !more && len(all) != total:
			return nil, malformed(opReviews, fmt.Errorf("%d reviews listed of %d", len(all), total))
		case !more:
			return all, nil
		case after == "":
			return nil, malformed(opReviews, errors.New("there are more reviews but no cursor to them"))
		}
		data, err := c.query(ctx, opReviews, reviewsQuery, map[string]any{"owner": r.Owner, "name": r.Name, "number": pull.Number, "after": after})
		if err != nil {
			return nil, err
		}
		item := data.at("repository").object().at("pullRequest").object()
		if item.at("number").number() != pull.Number || item.at("headRefOid").sha() != pull.HeadSHA {
			return nil, malformed(opReviews, errors.New("the pull request changed while its reviews were read"))
		}
		page = item.at("reviews")
	}
}

func readReview(item node) Review {
	one := Review{
		ID:       item.at("fullDatabaseId").bigID(),
		State:    item.at("state").text(), // unknown states are the policy's to refuse (RG-332)
		Author:   item.at("author").who(),
		CommitID: item.at("commit").at("oid").optionalSHA(),
	}
	if item.has("submittedAt") {
		one.SubmittedAt = item.at("submittedAt").requiredInstant()
	}
	return one
}

// rules fills the repository's files from the tree at target, or from the recorded base commit where the branch is gone.
func (c *Client) rules(ctx context.Context, r Repo, e *Evidence, target node, withFiles bool) error {
	e.RulesRef = cmp.Or(e.Pull.BaseTip, e.Pull.BaseSHA)
	if e.Pull.BaseTip == "" || !withFiles {
		if err := c.present(ctx, r, e.RulesRef, codeownersPaths, &e.CodeownersFiles); err != nil {
			return err
		}
		return c.present(ctx, r, e.RulesRef, c.app.cfg.PolicyPaths, &e.PolicyFiles)
	}
	for i, path := range codeownersPaths {
		if err := c.entry(ctx, r, e.RulesRef, path, target.at(fmt.Sprintf("c%d", i)), &e.CodeownersFiles); err != nil {
			return err
		}
	}
	for i, path := range c.app.cfg.PolicyPaths {
		if err := c.entry(ctx, r, e.RulesRef, path, target.at(fmt.Sprintf("p%d", i)), &e.PolicyFiles); err != nil {
			return err
		}
	}
	return nil
}

// present reads those of paths that exist at ref, one request each.
func (c *Client) present(ctx context.Context, r Repo, ref string, paths []string, files *[]File) error {
	for _, path := range paths {
		file, err := c.File(ctx, r, ref, path)
		if errors.Is(err, ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		*files = append(*files, file)
	}
	return nil
}

// symlinkMode is git's file mode of a symbolic link, as GraphQL writes it: in decimal.
const symlinkMode = 0o120000

// entry appends the file behind one tree entry, if it is a file. Its text must hash to its object id; where GraphQL cut it, decoded it
// or left it out, the bytes are fetched (1 to 3 MiB of CODEOWNERS come this way).
func (c *Client) entry(ctx context.Context, r Repo, ref, path string, entry node, files *[]File) error {
	if entry.missing() || entry.object().at("type").text() != "blob" {
		return nil // absent, a directory or a submodule: not a file
	}
	file := File{Path: path, Ref: ref}
	if entry.at("mode").count() == symlinkMode {
		file.Symlink = true
		*files = append(*files, file)
		return nil
	}
	blob := entry.at("object").object()
	file.SHA = blob.at("oid").sha()
	if entry.read.err != nil {
		return malformed(opEvidence, entry.read.err)
	}
	if text, ok := blob.at("text").value.str(); ok && !blob.at("isTruncated").optionalFlag() && isBlob([]byte(text), file.SHA) {
		file.Text = []byte(text)
	} else {
		bytes, err := c.blob(ctx, r, file.SHA)
		if err != nil {
			return err
		}
		file.Text = bytes
	}
	*files = append(*files, file)
	return nil
}

// ownerErrors are what GitHub can't use in the CODEOWNERS that counts. sameBranch says that the query asked about the base branch;
// otherwise, and where GraphQL gave none, REST is asked for the exact commit. A CODEOWNERS that is a symbolic link is such an error too.
func (c *Client) ownerErrors(ctx context.Context, r Repo, e *Evidence, codeowners node, sameBranch bool) error {
	if len(e.CodeownersFiles) == 0 {
		return nil
	}
	if first := e.CodeownersFiles[0]; first.Symlink {
		e.CodeownersErrors = []CodeownersError{{Line: 1, Column: 1, Kind: "Symbolic link", Path: first.Path,
			Message: "CODEOWNERS is a symbolic link; GitHub does not follow it. Replace it by the file itself."}}
		return nil
	}
	if sameBranch && !codeowners.missing() {
		e.CodeownersErrors = readCodeownersErrors(codeowners.at("errors"))
		return nil
	}
	found, err := c.CodeownersErrors(ctx, r, e.RulesRef)
	if err != nil {
		return err
	}
	e.CodeownersErrors = found
	return nil
}

// orgRules fills the organization's part. A repository that isn't there, or that our token may not see, is not available (RG-356).
func (c *Client) orgRules(ctx context.Context, r Repo, e *Evidence, org node, withFiles bool) error {
	if org.missing() {
		return nil
	}
	full := org.object().at("nameWithOwner").text()
	repo, ok := RepoFromFullName(org.at("databaseId").id(), full)
	if !ok || !strings.EqualFold(repo.Owner, r.Owner) || !strings.EqualFold(repo.Name, c.app.cfg.OrgRepository) {
		org.at("nameWithOwner").fail("the organization's policy repository")
		return nil
	}
	e.Org = OrgRules{Available: true, Repo: repo}
	branch := org.at("defaultBranchRef")
	if branch.missing() {
		return nil // no commit yet: available, and without a policy
	}
	e.Org.DefaultBranch, e.Org.RulesRef = branch.at("name").text(), branch.at("target").object().at("oid").sha()
	if org.read.err != nil {
		return malformed(opEvidence, org.read.err)
	}
	if !withFiles {
		return c.present(ctx, repo, e.Org.RulesRef, c.app.cfg.PolicyPaths, &e.Org.PolicyFiles)
	}
	for i, path := range c.app.cfg.PolicyPaths {
		if err := c.entry(ctx, repo, e.Org.RulesRef, path, branch.at("target").at(fmt.Sprintf("p%d", i)), &e.Org.PolicyFiles); err != nil {
			return err
		}
	}
	return nil
}
