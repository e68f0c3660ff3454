package ghclient

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	opIdentity      operation = "apps.get"
	opInstallations operation = "apps.list_installations"
	opRepository    operation = "repos.get"
	opRepositories  operation = "apps.list_repositories"
)

// opError says what was attempted on which object. Its text is bounded as every error's (RG-496).
type opError struct {
	what string
	err  error
}

func (e *opError) Error() string { return clip(e.what + ": " + e.err.Error()) }
func (e *opError) Unwrap() error { return e.err }

// doing wraps an error with what was attempted; nil stays nil.
func doing(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return &opError{what: fmt.Sprintf(format, args...), err: err}
}

// malformed wraps what a reader found wrong.
func malformed(op operation, cause error) error {
	return &apiError{sentinel: ErrMalformed, op: op, cause: cause}
}

// moved is ErrMoved with what differs.
func moved(op operation, text string) error {
	return &apiError{sentinel: ErrMoved, op: op, text: text}
}

// segments joins an escaped route. A segment that would change the route's shape makes it unusable.
func segments(parts ...string) (string, error) {
	escaped := make([]string, len(parts))
	for i, part := range parts {
		if part == "" || part == "." || part == ".." || strings.ContainsFunc(part, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return "", &apiError{sentinel: ErrInvalid, op: "route", text: "a part of the route is empty, a dot path or has control characters"}
		}
		escaped[i] = url.PathEscape(part)
	}
	return strings.Join(escaped, "/"), nil
}

func (r Repo) path(parts ...string) (string, error) {
	return segments(append([]string{"repos", r.Owner, r.Name}, parts...)...)
}

// get requests one object as the installation.
func (c *Client) get(ctx context.Context, op operation, path string, query url.Values) (node, error) {
	got, err := c.app.send(ctx, call{op: op, method: http.MethodGet, path: path, query: query, installation: c.installation, perms: c.perms})
	if err != nil {
		return node{}, err
	}
	root, err := parseObject(got.body)
	if err != nil {
		return node{}, malformed(op, err)
	}
	return root, nil
}

// Identity is who GitHub takes our key for. It proves that key and App id belong together (RG-472).
// Errors: ErrUnauthorized for a key of another App, ErrMalformed where the answer names another App.
func (a *App) Identity(ctx context.Context) (AppIdentity, error) {
	got, err := a.send(ctx, call{op: opIdentity, method: http.MethodGet, path: "app"})
	if err != nil {
		return AppIdentity{}, doing(err, "read the identity of App %d", a.cfg.AppID)
	}
	root, err := parseObject(got.body)
	if err != nil {
		return AppIdentity{}, malformed(opIdentity, err)
	}
	id := AppIdentity{ID: root.at("id").id(), Slug: root.at("slug").text(), Name: root.at("name").text(), Permissions: root.at("permissions").stringMap()}
	for _, event := range root.at("events").list() {
		id.Events = append(id.Events, event.text())
	}
	if id.ID != a.cfg.AppID {
		root.at("id").fail("the configured App id")
	}
	if root.read.err != nil {
		return AppIdentity{}, malformed(opIdentity, root.read.err)
	}
	return id, nil
}

// Installations are all installations, suspended ones included. Every record of every page is validated before any is returned: one
// malformed record fails the whole list (RG-423, RG-425, RG-426).
func (a *App) Installations(ctx context.Context) ([]Installation, error) {
	var all []Installation
	seen := map[int64]bool{}
	c := call{op: opInstallations, method: http.MethodGet, path: "app/installations"}
	err := a.each(ctx, c, "", aliases{}, func(p *listPage) error {
		for _, item := range p.items {
			one := readInstallation(item.object())
			if seen[one.ID] {
				item.at("id").fail("an id that is not in the list twice") // RG-413
			}
			seen[one.ID] = true
			all = append(all, one)
		}
		return nil
	})
	if err != nil {
		return nil, doing(err, "list the installations of App %d", a.cfg.AppID)
	}
	return all, nil
}

func readInstallation(item node) Installation {
	account := item.at("account").object()
	one := Installation{
		ID: item.at("id").id(), AccountID: account.at("id").id(),
		AccountLogin: account.at("login").optionalText(), AccountType: account.at("type").optionalText(),
		Permissions: item.at("permissions").stringMap(),
	}
	if one.AccountLogin == "" { // an enterprise has a slug and no login
		one.AccountLogin = account.at("slug").text()
		one.AccountType = "Enterprise"
	}
	if item.has("suspended_at") {
		at, err := time.Parse(time.RFC3339, item.at("suspended_at").text())
		if err != nil {
			item.at("suspended_at").fail("null or an ISO 8601 time with an offset")
		}
		one.SuspendedAt = &at
	} else if !item.mentions("suspended_at") {
		// Absent is not null: an answer that doesn't say whether it is suspended isn't a record we know.
		item.at("suspended_at").fail("null or an ISO 8601 time with an offset")
	}
	return one
}

// Repository is what the route leads to now. Errors: ErrMoved when that isn't the expected repository.
func (c *Client) Repository(ctx context.Context, r Repo) (RepositoryInfo, error) {
	path, err := r.path()
	if err != nil {
		return RepositoryInfo{}, err
	}
	root, err := c.get(ctx, opRepository, path, nil)
	if err != nil {
		return RepositoryInfo{}, doing(err, "read repository %s", r.FullName())
	}
	info := readRepository(root)
	if root.read.err != nil {
		return RepositoryInfo{}, doing(malformed(opRepository, root.read.err), "read repository %s", r.FullName())
	}
	return info, doing(r.mustBe(opRepository, info.Repo), "read repository %s", r.FullName())
}

// mustBe compares a route with the repository an answer speaks of.
func (r Repo) mustBe(op operation, got Repo) error {
	switch {
	case r.ID != 0 && r.ID != got.ID:
		return moved(op, fmt.Sprintf("repository id %d answered for %d", got.ID, r.ID))
	case r.FullName() != got.FullName():
		return moved(op, "the repository has another name now")
	}
	return nil
}

func readRepository(item node) RepositoryInfo {
	owner := item.at("owner").object()
	info := RepositoryInfo{
		Repo:          Repo{ID: item.at("id").id(), Owner: owner.at("login").text(), Name: item.at("name").text()},
		DefaultBranch: item.at("default_branch").optionalText(),
		Archived:      item.at("archived").flag(),
		Private:       item.at("private").flag(),
		OwnerType:     owner.at("type").optionalText(),
	}
	if full := item.at("full_name").fullName(); full != info.FullName() {
		item.at("full_name").fail("the owner's login and the repository's name")
	}
	return info
}

// Repositories are all repositories the installation can reach, archived ones included. total_count must be the same on every page and
// equal to what was listed (RG-412), ids and names must not repeat (RG-413), and every record is validated before any is returned.
func (c *Client) Repositories(ctx context.Context) ([]RepositoryInfo, error) {
	var all []RepositoryInfo
	total := -1
	seen := map[string]bool{}
	list := call{op: opRepositories, method: http.MethodGet, path: "installation/repositories", installation: c.installation, perms: c.perms}
	err := c.app.each(ctx, list, "repositories", aliases{}, func(p *listPage) error {
		count := p.root.at("total_count").count()
		if total >= 0 && count != total {
			p.root.at("total_count").fail("the same count on every page")
		}
		total = count
		for _, item := range p.items {
			one := readRepository(item.object())
			id := fmt.Sprint(one.ID)
			if seen[id] || seen[one.FullName()] {
				item.fail("a repository that is not in the list twice")
			}
			seen[id], seen[one.FullName()] = true, true
			all = append(all, one)
		}
		if !p.linked && len(all) >= total {
			p.next = 0 // a full page without a Link header, and the count is satisfied
		}
		if p.next == 0 && len(all) != total {
			p.root.at("total_count").fail("the number of listed repositories")
		}
		return nil
	})
	if err != nil {
		return nil, doing(err, "list the repositories of installation %d", c.installation)
	}
	return all, nil
}
