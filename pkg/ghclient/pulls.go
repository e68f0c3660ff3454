package ghclient

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

const (
	opPull          operation = "pulls.get"
	opOpenPulls     operation = "pulls.list"
	opPullsOfCommit operation = "repos.list_pulls_of_commit"
	// maxCommitPulls is RG-192: more candidates than this on one commit is not a situation to guess in.
	maxCommitPulls = 100
)

// Pull is one pull request by REST, whose base branch tip is therefore not known (BaseTip ""). The answer must be about the number and
// the base repository that were asked for (RG-195). Errors: ErrMoved where the base repository is another.
func (c *Client) Pull(ctx context.Context, r Repo, number int) (Pull, error) {
	path, err := r.path("pulls", strconv.Itoa(number))
	if err != nil {
		return Pull{}, err
	}
	root, err := c.get(ctx, opPull, path, nil)
	if err != nil {
		return Pull{}, doing(err, "read pull request %s#%d", r.FullName(), number)
	}
	pull, err := readPull(opPull, root, r)
	if err == nil && pull.Number != number {
		err = malformed(opPull, fmt.Errorf("pull request %d answered for %d", pull.Number, number))
	}
	if err != nil {
		return Pull{}, doing(err, "read pull request %s#%d", r.FullName(), number)
	}
	if !root.mentions("changed_files") {
		return Pull{}, doing(malformed(opPull, &FieldError{Field: "changed_files", Want: "an integer that is not negative"}), "read pull request %s#%d", r.FullName(), number)
	}
	return pull, nil
}

// readPull reads a pull request as REST has it, alone or in a list (where changed_files and merged are absent).
func readPull(op operation, item node, r Repo) (Pull, error) {
	head, base := item.object().at("head").object(), item.at("base").object()
	baseRepo := base.at("repo").object()
	pull := Pull{
		Number: item.at("number").number(), NodeID: item.at("node_id").optionalText(),
		State:   item.at("state").oneOf("open", "closed"),
		Merged:  item.at("merged").optionalFlag() || item.at("merged_at").optionalText() != "",
		Draft:   item.at("draft").optionalFlag(),
		HeadSHA: head.at("sha").sha(), HeadRef: head.at("ref").optionalText(), BaseRef: base.at("ref").text(), BaseSHA: base.at("sha").sha(),
		Author: readActor(item.at("user")), Title: item.at("title").optionalText(), HTMLURL: item.at("html_url").optionalText(),
		UpdatedAt: item.at("updated_at").requiredInstant(),
	}
	if head.has("repo") { // null once the fork is deleted
		pull.HeadRepoID = head.at("repo").at("id").id()
		pull.HeadRepo, _ = RepoFromFullName(pull.HeadRepoID, head.at("repo").at("full_name").optionalText())
	}
	if item.has("changed_files") {
		pull.ChangedFiles = item.at("changed_files").count()
	}
	for _, label := range item.at("labels").list() {
		pull.Labels = append(pull.Labels, label.object().at("name").text())
	}
	slices.Sort(pull.Labels)
	repo, ok := RepoFromFullName(baseRepo.at("id").id(), baseRepo.at("full_name").text())
	if !ok {
		baseRepo.at("full_name").fail("owner/name with exactly one slash")
	}
	pull.BaseRepo = repo
	if item.read.err != nil {
		return Pull{}, malformed(op, item.read.err)
	}
	return pull, r.mustBe(op, repo)
}

// readActor reads an account; null is one that was deleted. Half an account is malformed: evidence must not lose its author in silence.
func readActor(n node) Actor {
	if n.missing() {
		return Actor{}
	}
	return Actor{ID: n.object().at("id").id(), Login: n.at("login").text(), Type: n.at("type").text()}
}

// OpenPulls is a part of the open pull requests of r, of base only unless base is "", in ascending order of their numbers.
// page is a cursor: 1 for the beginning, then what next was; next 0 means that the list has ended. The cursor is the lowest number that
// has not been listed yet, so it stays exact when pull requests are closed between two calls, days later and in another process,
// where a page number would skip as many as were closed. It may run twice with the same cursor.
func (c *Client) OpenPulls(ctx context.Context, r Repo, base string, page int) (pulls []Pull, next int, err error) {
	path, err := r.path("pulls")
	if err != nil {
		return nil, 0, err
	}
	query := url.Values{"state": {"open"}, "sort": {"created"}, "direction": {"asc"}}
	if base != "" {
		query.Set("base", base)
	}
	walk := pullWalk{c: c, repo: r, list: call{op: opOpenPulls, method: http.MethodGet, path: path, query: query, installation: c.installation, perms: c.perms}}
	hint := fmt.Sprintf("%d|%s|%s|", c.installation, path, base)
	pulls, next, at, err := walk.from(ctx, page, c.app.hints.get(hint+strconv.Itoa(page)))
	if err != nil {
		return nil, 0, doing(err, "list the open pull requests of %s", r.FullName())
	}
	if next != 0 {
		c.app.hints.put(hint+strconv.Itoa(next), at+1)
	}
	return pulls, next, nil
}

// pullWalk finds a place in GitHub's numbered pages by the number of the pull requests on them.
type pullWalk struct {
	c    *Client
	repo Repo
	list call
}

// from lists what the page that holds the first pull request numbered low or more has of such. guess is the page to begin at.
// Pull requests that were closed meanwhile move the rest to earlier pages, hence the step back: usually to a page that hasn't changed
// since we read it, which costs no budget.
func (w pullWalk) from(ctx context.Context, low, guess int) (pulls []Pull, next, at int, err error) {
	at = max(1, guess)
	for {
		all, more, err := w.read(ctx, at)
		if err != nil {
			return nil, 0, 0, err
		}
		if !slices.IsSortedFunc(all, func(a, b Pull) int { return a.Number - b.Number }) {
			return w.sorted(ctx, low) // an imported repository: created in another order than numbered
		}
		if at > 1 && (len(all) == 0 || all[0].Number >= low) {
			before, _, err := w.read(ctx, at-1)
			if err != nil {
				return nil, 0, 0, err
			}
			if len(before) == 0 || before[len(before)-1].Number >= low {
				at--
				continue
			}
		}
		rest := pullsFrom(all, low)
		if len(rest) == 0 && more != 0 {
			at = more
			continue
		}
		if more == 0 {
			return rest, 0, at, nil
		}
		return rest, rest[len(rest)-1].Number + 1, at, nil
	}
}

// pullsFrom drops what is numbered below low.
func pullsFrom(all []Pull, low int) []Pull {
	i := slices.IndexFunc(all, func(p Pull) bool { return p.Number >= low })
	if i < 0 {
		return nil
	}
	return all[i:]
}

func (w pullWalk) read(ctx context.Context, page int) ([]Pull, int, error) {
	p, err := w.c.app.page(ctx, w.list, "", page, aliases{repository: w.repo.ID})
	if err != nil {
		return nil, 0, err
	}
	var pulls []Pull
	for _, item := range p.items {
		pull, err := readPull(w.list.op, item, w.repo)
		if err != nil {
			return nil, 0, err
		}
		pulls = append(pulls, pull)
	}
	for i := range pulls { // RG-413
		if i > 0 && pulls[i].Number == pulls[i-1].Number {
			return nil, 0, malformed(w.list.op, fmt.Errorf("pull request %d is listed twice", pulls[i].Number))
		}
	}
	return pulls, p.next, nil
}

// sorted reads every page and orders the whole itself.
func (w pullWalk) sorted(ctx context.Context, low int) (pulls []Pull, next, at int, err error) {
	seen := map[int]bool{}
	for page := 1; page != 0; {
		if page > maxPages {
			return nil, 0, 0, &apiError{sentinel: ErrTooLarge, op: w.list.op, text: fmt.Sprintf("more than %d pages", maxPages)}
		}
		all, more, err := w.read(ctx, page)
		if err != nil {
			return nil, 0, 0, err
		}
		for _, pull := range all {
			if seen[pull.Number] {
				return nil, 0, 0, malformed(w.list.op, fmt.Errorf("pull request %d is listed twice", pull.Number))
			}
			seen[pull.Number] = true
			if pull.Number >= low {
				pulls = append(pulls, pull)
			}
		}
		page = more
	}
	slices.SortFunc(pulls, func(a, b Pull) int { return a.Number - b.Number })
	if len(pulls) > perPage {
		return pulls[:perPage], pulls[perPage].Number, 1, nil
	}
	return pulls, 0, 1, nil
}

// PullsOfCommit lists the pull requests GitHub associates with a commit: hints, not a complete set (RG-193; it is empty for a fork's
// head). Two entries that contradict each other are ErrMalformed (RG-194), more than 100 are ErrTooLarge (RG-192).
func (c *Client) PullsOfCommit(ctx context.Context, r Repo, sha string) ([]PullSummary, error) {
	path, err := r.path("commits", sha, "pulls")
	if err != nil {
		return nil, err
	}
	var all []PullSummary
	at := map[int]int{}
	list := call{op: opPullsOfCommit, method: http.MethodGet, path: path, installation: c.installation, perms: c.perms}
	err = c.app.each(ctx, list, "", aliases{repository: r.ID}, func(p *listPage) error {
		for _, item := range p.items {
			one := PullSummary{
				Number:  item.object().at("number").number(),
				State:   item.at("state").oneOf("open", "closed"),
				HeadSHA: item.at("head").object().at("sha").sha(),
				Merged:  item.at("merged_at").optionalText() != "",
			}
			if base := item.at("base").at("repo").at("id").optionalID(); base != 0 && r.ID != 0 && base != r.ID {
				continue // a pull request of another repository of the network is none of ours
			}
			if i, seen := at[one.Number]; seen {
				if all[i] != one {
					item.fail("the same as the other entry of this number")
				}
				continue
			}
			at[one.Number] = len(all)
			all = append(all, one)
		}
		if len(all) > maxCommitPulls {
			return &apiError{sentinel: ErrTooLarge, op: opPullsOfCommit, text: fmt.Sprintf("more than %d pull requests contain the commit", maxCommitPulls)}
		}
		return nil
	})
	if err != nil {
		return nil, doing(err, "list the pull requests of %s@%s", r.FullName(), sha)
	}
	return all, nil
}

// lowerLogin is how logins are compared: GitHub's are case-insensitive.
func lowerLogin(s string) string { return strings.ToLower(s) }
