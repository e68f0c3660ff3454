package ghclient

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// Pagination that can't be led astray and never ends a list in silence (RG-409…414).

const (
	perPage = 100
	// maxPages bounds any list: 100,000 elements. What is longer is an error, not a truncation.
	maxPages = 1000
)

// aliases are the forms in which GitHub writes the route of a next link: by numeric id where we asked by name. Zero: unknown, then any
// id is accepted, because the elements themselves are checked against the identity.
type aliases struct {
	repository   int64
	organization int64
	team         int64
}

// nextPage reads the Link header of an answer to asked, whose page number was page and which held items elements.
// It is 0 at the end of the list. asked is the URL that was requested.
func nextPage(link []string, asked *url.URL, page, items int, known aliases) (int, error) {
	if len(link) == 0 || len(link) == 1 && strings.TrimSpace(link[0]) == "" {
		if items >= perPage { // RG-411: servers that send no Link at all
			return page + 1, nil
		}
		return 0, nil
	}
	links, err := parseLinks(strings.Join(link, ", "))
	if err != nil {
		return 0, err
	}
	target, ok := links["next"]
	if !ok {
		return 0, nil // RG-409: the header is there and says that this is the last page
	}
	next, err := url.Parse(target)
	if err != nil {
		return 0, errors.New("the next link is not a URL")
	}
	if next.Scheme != asked.Scheme || next.Host != asked.Host || next.User != nil {
		return 0, errors.New("the next link leaves the server that was asked")
	}
	if !samePath(asked.EscapedPath(), next.EscapedPath(), known) {
		return 0, errors.New("the next link leads to another list")
	}
	return pageOf(asked.Query(), next, page)
}

// pageOf checks that next differs from the asked query in its page only, and that this is the page after ours.
func pageOf(asked url.Values, next *url.URL, page int) (int, error) {
	query, err := url.ParseQuery(next.RawQuery)
	if err != nil {
		return 0, errors.New("the next link's query cannot be read")
	}
	pages := query["page"]
	query.Del("page")
	asked.Del("page")
	if query.Encode() != asked.Encode() {
		return 0, errors.New("the next link changes the query")
	}
	if len(pages) != 1 || !asciiDigits(pages[0]) {
		return 0, errors.New("the next link has no plain page number")
	}
	if n, err := strconv.Atoi(pages[0]); err != nil || n != page+1 {
		return 0, fmt.Errorf("the next link does not lead to page %d", page+1)
	}
	return page + 1, nil
}

func asciiDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// samePath accepts the asked path, or its alias by numeric id with an identical rest (RG-414).
func samePath(asked, next string, known aliases) bool {
	if asked == next {
		return true
	}
	prefix, rest, ok := cutRoute(asked, "/repos/", 2)
	if ok {
		p, r, ok := cutRoute(next, "/repositories/", 1)
		return ok && p.base == prefix.base && r == rest && idMatches(p.ids[0], known.repository)
	}
	// /orgs/{org}/teams/{slug}/rest ↔ /organizations/{id}/team/{id}/rest
	org, rest, ok := cutRoute(asked, "/orgs/", 1)
	if !ok {
		return false
	}
	p, r, ok := cutRoute(next, "/organizations/", 1)
	if !ok || p.base != org.base || !idMatches(p.ids[0], known.organization) {
		return false
	}
	if rest == r {
		return true
	}
	_, after, ok1 := cutRoute(rest, "/teams/", 1)
	team, r2, ok2 := cutRoute(r, "/team/", 1)
	return ok1 && ok2 && after == r2 && idMatches(team.ids[0], known.team)
}

type route struct {
	base string   // what precedes the marker: /api/v3 on a server of one's own
	ids  []string // the segments after the marker
}

// cutRoute splits path at marker and n segments after it. The rest starts with a slash or is empty.
func cutRoute(path, marker string, n int) (route, string, bool) {
	base, after, ok := strings.Cut(path, marker)
	if !ok {
		return route{}, "", false
	}
	parts := strings.SplitN(after, "/", n+1)
	if len(parts) < n {
		return route{}, "", false
	}
	rest := ""
	if len(parts) > n {
		rest = "/" + parts[n]
	}
	return route{base: base, ids: parts[:n]}, rest, true
}

func idMatches(text string, known int64) bool {
	if !asciiDigits(text) {
		return false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return err == nil && n > 0 && (known == 0 || n == known)
}

// parseLinks reads a Link header strictly: what is not well formed, or says two things about one relation, is an error (RG-414).
func parseLinks(header string) (map[string]string, error) {
	malformed := errors.New("the Link header is malformed")
	links := map[string]string{}
	for rest := strings.TrimSpace(header); rest != ""; {
		target, after, ok := strings.Cut(strings.TrimPrefix(rest, "<"), ">")
		if !ok || !strings.HasPrefix(rest, "<") || target == "" || strings.ContainsAny(target, "<\" ") {
			return nil, malformed
		}
		params, tail := cutUnquoted(after)
		relations := 0
		for param := range strings.SplitSeq(params, ";") {
			name, value, _ := strings.Cut(strings.TrimSpace(param), "=")
			if !strings.EqualFold(strings.TrimSpace(name), "rel") {
				continue
			}
			relations++
			value = strings.TrimSpace(value)
			if strings.Count(value, `"`)%2 != 0 {
				return nil, malformed
			}
			for relation := range strings.FieldsSeq(strings.ToLower(strings.Trim(value, `"`))) {
				if _, twice := links[relation]; twice {
					return nil, fmt.Errorf("the Link header has two links for one relation")
				}
				links[relation] = target
			}
		}
		if relations != 1 {
			return nil, malformed
		}
		rest = strings.TrimSpace(tail)
	}
	return links, nil
}

// cutUnquoted splits at the first comma outside quotes.
func cutUnquoted(s string) (before, after string) {
	quoted := false
	for i := range len(s) {
		switch {
		case s[i] == '"':
			quoted = !quoted
		case s[i] == ',' && !quoted:
			return s[:i], s[i+1:]
		}
	}
	return s, ""
}

// listPage is one page of a list.
type listPage struct {
	root   node // the whole answer
	items  []node
	next   int  // 0: this is the last page
	linked bool // a Link header said so; otherwise next is a guess from the number of items
}

// page requests one page. list names the field that holds the elements; "" when the answer is the list itself.
func (a *App) page(ctx context.Context, c call, list string, page int, known aliases) (listPage, error) {
	query := url.Values{}
	for name, values := range c.query {
		query[name] = values
	}
	query.Set("per_page", strconv.Itoa(perPage))
	if page > 1 {
		query.Set("page", strconv.Itoa(page))
	}
	c.query = query
	got, err := a.send(ctx, c)
	if err != nil {
		return listPage{}, err
	}
	root, err := parseAny(got.body)
	if err != nil {
		return listPage{}, &apiError{sentinel: ErrMalformed, op: c.op, cause: err}
	}
	elements := root
	if list != "" {
		elements = root.object().at(list)
	}
	p := listPage{root: root, items: elements.list()}
	if root.read.err != nil {
		return listPage{}, &apiError{sentinel: ErrMalformed, op: c.op, cause: root.read.err}
	}
	asked, err := url.Parse(a.rest.String() + strings.TrimPrefix(c.path, "/") + "?" + query.Encode())
	if err != nil {
		return listPage{}, &apiError{sentinel: ErrInvalid, op: c.op, cause: errors.New("the route cannot be written as a URL")}
	}
	header := got.header.Values("Link")
	p.linked = len(header) > 0
	if p.next, err = nextPage(header, asked, page, len(p.items), known); err != nil {
		return listPage{}, &apiError{sentinel: ErrMalformed, op: c.op, cause: err}
	}
	return p, nil
}

// each reads a whole list and hands every page to use, which reports through the page's nodes what is wrong with it.
func (a *App) each(ctx context.Context, c call, list string, known aliases, use func(*listPage) error) error {
	for page := 1; page != 0; {
		if page > maxPages {
			return &apiError{sentinel: ErrTooLarge, op: c.op, text: fmt.Sprintf("more than %d pages", maxPages)}
		}
		p, err := a.page(ctx, c, list, page, known)
		if err != nil {
			return err
		}
		if err := use(&p); err != nil {
			return err
		}
		if p.root.read.err != nil {
			return &apiError{sentinel: ErrMalformed, op: c.op, cause: p.root.read.err}
		}
		page = p.next
	}
	return nil
}
