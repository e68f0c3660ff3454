package githubsim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// listActivity is the log of a repository's branches, newest first unless asked
// otherwise, paged by cursor: who moved which branch from where to where. It is the only
// place where GitHub says who pushed a commit, who need not have written it.
func listActivity(c *call) answer {
	q := c.r.URL.Query()
	var all []activity
	for _, a := range c.repo.activity {
		if ref := q.Get("ref"); ref != "" && a.ref != "refs/heads/"+strings.TrimPrefix(ref, "refs/heads/") {
			continue
		}
		actor := c.w.accounts[a.actorID]
		if q.Get("activity_type") != "" && q.Get("activity_type") != a.kind || q.Get("actor") != "" && (actor == nil || !strings.EqualFold(actor.login, q.Get("actor"))) {
			continue
		}
		all = append(all, a)
	}
	if q.Get("direction") != "asc" {
		slices.Reverse(all)
	}
	list, x := []obj{}, c.renderer()
	for _, a := range cursorPage(c, all, func(a activity) int64 { return a.id }) {
		list = append(list, obj{
			"id": a.id, "node_id": nodeID("PSH", a.id), "before": a.before, "after": a.after, "ref": a.ref, "timestamp": stamp(a.at), "activity_type": a.kind, "actor": x.user(a.actorID),
		})
	}
	return ok(list)
}

// cursorPage cuts one page by the cursors after and before, and sets Link with
// next and prev.
func cursorPage[T any](c *call, all []T, id func(T) int64) []T {
	_, perPage := c.paging()
	at := func(name string) int {
		n, _ := strconv.ParseInt(c.query(name), 10, 64)
		return slices.IndexFunc(all, func(one T) bool { return id(one) == n })
	}
	from := 0
	if c.query("after") != "" {
		from = at("after") + 1
	} else if before := at("before"); c.query("before") != "" && before >= 0 {
		from = max(0, before-perPage)
	}
	to := min(from+perPage, len(all))
	var links []string
	link := func(rel, name string, n int64) {
		q := c.r.URL.Query()
		q.Del("after")
		q.Del("before")
		q.Set(name, strconv.FormatInt(n, 10))
		links = append(links, fmt.Sprintf("<%s?%s>; rel=%q", c.aliasPath(), q.Encode(), rel))
	}
	if to < len(all) {
		link("next", "after", id(all[to-1]))
	}
	if from > 0 {
		link("prev", "before", id(all[from]))
	}
	if len(links) > 0 {
		c.header.Set("Link", strings.Join(links, ", "))
	}
	return all[from:to]
}
