package githubsim

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// paging reads per_page and page: 30 and 1 by default, at most 100 a page.
func (c *call) paging() (page, perPage int) {
	page, perPage = 1, 30
	if n, err := strconv.Atoi(c.query("page")); err == nil && n > 0 {
		page = n
	}
	if n, err := strconv.Atoi(c.query("per_page")); err == nil && n > 0 {
		perPage = min(n, 100)
	}
	return page, perPage
}

// paginate cuts one page out of a list and sets Link. The targets are the
// aliases by id, as GitHub's are, in GitHub's order.
func paginate[T any](c *call, all []T) []T {
	page, perPage := c.paging()
	last := max(1, (len(all)+perPage-1)/perPage)
	if last > 1 {
		var links []string
		add := func(rel string, n int) { links = append(links, fmt.Sprintf("<%s>; rel=%q", c.pageURL(n), rel)) }
		if page > 1 {
			add("prev", min(page-1, last))
		}
		if page < last {
			add("next", page+1)
			add("last", last)
		}
		if page > 1 {
			if page < last {
				add("first", 1)
			} else {
				links = append(links, fmt.Sprintf("<%s>; rel=%q", c.pageURL(1), "first"))
			}
		}
		c.header.Set("Link", strings.Join(links, ", "))
	}
	from := min((page-1)*perPage, len(all))
	return all[from:min(from+perPage, len(all))]
}

// pageURL is the address of another page: by id, with the query as it was.
func (c *call) pageURL(page int) string {
	u := c.aliasPath()
	q := c.r.URL.Query()
	q.Set("page", strconv.Itoa(page))
	return u + "?" + q.Encode()
}

func (c *call) aliasPath() string {
	path := strings.TrimPrefix(c.r.URL.EscapedPath(), c.prefix)
	parts := strings.Split(path, "/")
	switch {
	case len(parts) > 3 && parts[1] == "repos" && c.repo != nil:
		path = fmt.Sprintf("/repositories/%d", c.repo.id)
		if len(parts) > 4 {
			path += "/" + strings.Join(parts[4:], "/")
		}
	case len(parts) > 4 && parts[1] == "orgs" && parts[3] == "teams":
		if t := c.teamOf(parts[2], parts[4]); t != nil {
			path = fmt.Sprintf("/organizations/%d/team/%d", t.orgID, t.id)
			if len(parts) > 5 {
				path += "/" + strings.Join(parts[5:], "/")
			}
		}
	}
	return c.apiRoot() + path
}

func (c *call) teamOf(org, slug string) *team {
	slug, _ = url.PathUnescape(slug)
	o := c.w.account(org)
	if o == nil {
		return nil
	}
	return c.w.teamBySlug(o.id, slug)
}

// escapePath escapes each segment of a path.
func escapePath(path string) string {
	parts := strings.Split(path, "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return strings.Join(parts, "/")
}
