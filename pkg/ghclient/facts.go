package ghclient

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Facts that only some policies ask for: comments (break-glass), who pushed last, and when the base branch was changed.

const (
	opComments   operation = "issues.list_comments"
	opActivity   operation = "repos.list_activity"
	opBaseChange operation = "graphql.base_change"
	// maxComments bounds what one evaluation reads of a long conversation.
	maxComments = 5000
)

// Comment is one comment in the conversation of a pull request. A comment whose UpdatedAt differs from CreatedAt was edited.
type Comment struct {
	ID        int64
	Author    Actor
	Body      string
	CreatedAt time.Time
	UpdatedAt time.Time
}

// Comments are all comments of the pull request's conversation, oldest first; deleted ones are gone. ErrTooLarge above 5000.
func (c *Client) Comments(ctx context.Context, r Repo, number int) ([]Comment, error) {
	path, err := r.path("issues", strconv.Itoa(number), "comments")
	if err != nil {
		return nil, err
	}
	var all []Comment
	seen := map[int64]bool{}
	list := call{op: opComments, method: http.MethodGet, path: path, installation: c.installation, perms: c.perms}
	err = c.app.each(ctx, list, "", aliases{repository: r.ID}, func(p *listPage) error {
		for _, item := range p.items {
			one := Comment{
				ID: item.object().at("id").id(), Author: readActor(item.at("user")), Body: item.at("body").optionalText(),
				CreatedAt: item.at("created_at").requiredInstant(), UpdatedAt: item.at("updated_at").requiredInstant(),
			}
			if seen[one.ID] {
				item.at("id").fail("an id that is not in the list twice")
			}
			seen[one.ID] = true
			all = append(all, one)
		}
		if len(all) > maxComments {
			return &apiError{sentinel: ErrTooLarge, op: opComments, text: fmt.Sprintf("more than %d comments", maxComments)}
		}
		return nil
	})
	if err != nil {
		return nil, doing(err, "list the comments of %s#%d", r.FullName(), number)
	}
	return all, nil
}

// Push is the arrival of a head on a branch.
type Push struct {
	Actor Actor // who pushed; zero when the account is deleted
	At    time.Time
}

// LastPush is who brought the pull request's present head onto its branch, from the head repository's own log; the author of a commit
// can't tell. Errors: ErrNotFound where the log doesn't have it or can't be seen, as in a fork outside the installation.
func (c *Client) LastPush(ctx context.Context, p Pull) (Push, error) {
	what := fmt.Sprintf("find who pushed %s to %s", p.HeadSHA, p.HeadRepo.FullName())
	if p.HeadRepo.ID == 0 || p.HeadRef == "" {
		return Push{}, doing(&apiError{sentinel: ErrNotFound, op: opActivity, text: "the head repository is gone"}, "%s", what)
	}
	path, err := p.HeadRepo.path("activity")
	if err != nil {
		return Push{}, err
	}
	query := url.Values{"ref": {branchPrefix + p.HeadRef}, "per_page": {strconv.Itoa(perPage)}}
	got, err := c.app.send(ctx, call{op: opActivity, method: http.MethodGet, path: path, query: query, installation: c.installation, perms: c.perms})
	if err != nil {
		return Push{}, doing(err, "%s", what)
	}
	root, err := parseAny(got.body)
	if err != nil {
		return Push{}, doing(malformed(opActivity, err), "%s", what)
	}
	var newest Push
	found := false
	for _, item := range root.list() {
		at := item.object().at("timestamp").requiredInstant()
		if item.at("ref").text() != branchPrefix+p.HeadRef || item.at("after").optionalText() != p.HeadSHA || found && !at.After(newest.At) {
			continue
		}
		newest, found = Push{Actor: readActor(item.at("actor")), At: at}, true
	}
	switch {
	case root.read.err != nil:
		return Push{}, doing(malformed(opActivity, root.read.err), "%s", what)
	case !found:
		return Push{}, doing(&apiError{sentinel: ErrNotFound, op: opActivity, text: "the log doesn't have this push"}, "%s", what)
	}
	return newest, nil
}

// BaseChange is when the pull request was last given another base branch; changed is false where it never was.
func (c *Client) BaseChange(ctx context.Context, r Repo, number int) (at time.Time, changed bool, err error) {
	data, err := c.query(ctx, opBaseChange, baseChangeQuery, map[string]any{"owner": r.Owner, "name": r.Name, "number": number})
	if err != nil {
		return time.Time{}, false, doing(err, "find the last change of base of %s#%d", r.FullName(), number)
	}
	repository := data.at("repository").object()
	item := repository.at("pullRequest").object()
	if item.at("number").number() != number {
		item.at("number").fail("the number that was asked for")
	}
	for _, event := range item.at("timelineItems").object().at("nodes").list() {
		at, changed = event.object().at("createdAt").requiredInstant(), true
	}
	id := repository.at("databaseId").id()
	if data.read.err != nil {
		return time.Time{}, false, doing(malformed(opBaseChange, data.read.err), "find the last change of base of %s#%d", r.FullName(), number)
	}
	if r.ID != 0 && id != r.ID {
		return time.Time{}, false, moved(opBaseChange, "the repository has another id")
	}
	return at, changed, nil
}
