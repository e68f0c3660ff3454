package githubsim

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

func getApp(c *call) answer {
	o := c.renderer().app(c.who.app)
	count := 0
	for _, i := range c.w.installs {
		if i.appID == c.who.app.id {
			count++
		}
	}
	o["installations_count"] = count
	return ok(o)
}

func getAppBySlug(c *call) answer {
	a := c.w.appBySlug(c.vars["app_slug"])
	if a == nil || c.who.token != nil && (c.who.app == nil || c.who.app.id != a.id) {
		return refused(errNotFound) // an installation token reads no other App
	}
	return ok(c.renderer().app(a))
}

func getHookConfig(c *call) answer {
	o := obj{"content_type": "json", "insecure_ssl": "0", "url": c.who.app.hookURL}
	if c.who.app.hookSecret != "" {
		o["secret"] = "********"
	}
	return ok(o)
}

func listInstallations(c *call) answer {
	var all []*installation
	for _, id := range sortedKeys(c.w.installs) {
		if i := c.w.installs[id]; i.appID == c.who.app.id {
			all = append(all, i)
		}
	}
	list, x := []obj{}, c.renderer()
	for _, i := range paginate(c, all) {
		list = append(list, x.installation(i))
	}
	return ok(list)
}

func (c *call) installation() *installation {
	id, _ := strconv.ParseInt(c.vars["installation_id"], 10, 64)
	if i := c.w.installs[id]; i != nil && i.appID == c.who.app.id {
		return i
	}
	return nil
}

func getInstallation(c *call) answer {
	i := c.installation()
	if i == nil {
		return refused(errNotFound)
	}
	return ok(c.renderer().installation(i))
}

func getOrgInstallation(c *call) answer {
	o := c.w.account(c.vars["org"])
	for _, id := range sortedKeys(c.w.installs) {
		if i := c.w.installs[id]; o != nil && i.accountID == o.id && i.appID == c.who.app.id {
			return ok(c.renderer().installation(i))
		}
	}
	return refused(errNotFound)
}

func getRepoInstallation(c *call) answer {
	r, _ := c.w.repoNamed(c.vars["owner"] + "/" + c.vars["repo"])
	for _, id := range sortedKeys(c.w.installs) {
		if i := c.w.installs[id]; r != nil && i.has(r) && i.appID == c.who.app.id {
			return ok(c.renderer().installation(i))
		}
	}
	return refused(errNotFound)
}

// createToken mints an installation token, narrowed to what the body asks for.
func createToken(c *call) answer {
	i := c.installation()
	if i == nil {
		return refused(errNotFound)
	}
	if i.suspendedAt != nil {
		return refused(errSuspended)
	}
	var ask struct {
		Repositories  []string          `json:"repositories"`
		RepositoryIDs []int64           `json:"repository_ids"`
		Permissions   map[string]string `json:"permissions"`
	}
	if len(c.body) > 0 && json.Unmarshal(c.body, &ask) != nil {
		return refused(errParse)
	}
	t := &token{installID: i.id, permissions: i.permissions, expires: c.s.now().Add(time.Hour)}
	if len(ask.Permissions) > 0 {
		for name, level := range ask.Permissions {
			if levelRank[level] == 0 || levelRank[i.permissions[name]] < levelRank[level] {
				return refused(unprocessableMessage("The permissions requested are not granted to this installation."))
			}
		}
		t.permissions = ask.Permissions
		t.permissions["metadata"] = "read"
	}
	repos, e := c.narrow(i, ask.Repositories, ask.RepositoryIDs)
	if e != nil {
		return refused(e)
	}
	x := c.renderer()
	o := obj{"expires_at": stamp(t.expires), "permissions": t.permissions, "repository_selection": i.selection()}
	if repos != nil {
		t.repos = map[int64]bool{}
		list := []obj{}
		for _, r := range repos {
			t.repos[r.id] = true
			list = append(list, x.repo(r))
		}
		o["repositories"], o["repository_selection"] = list, "selected"
	}
	o["token"] = c.s.issue(t, i.appID)
	return answer{status: http.StatusCreated, body: o}
}

func (c *call) narrow(i *installation, names []string, ids []int64) ([]*repo, *refusal) {
	if len(names)+len(ids) == 0 {
		return nil, nil
	}
	inaccessible := unprocessableMessage("There is at least one repository that does not exist or is not accessible to the parent installation.")
	if len(names)+len(ids) > 500 {
		return nil, unprocessableMessage("The number of repositories requested is above the limit of 500.")
	}
	var repos []*repo
	for _, name := range names {
		r, _ := c.w.repoNamed(c.w.accounts[i.accountID].login + "/" + name)
		if r == nil || !i.has(r) {
			return nil, inaccessible
		}
		repos = append(repos, r)
	}
	for _, id := range ids {
		r := c.w.repos[id]
		if r == nil || !i.has(r) {
			return nil, inaccessible
		}
		if !slices.Contains(repos, r) {
			repos = append(repos, r)
		}
	}
	return repos, nil
}

func revokeToken(c *call) answer {
	if c.who.user != nil {
		return refused(errForbidden)
	}
	for text, t := range c.s.tokens {
		if t == c.who.token {
			delete(c.s.tokens, text)
		}
	}
	return answer{status: http.StatusNoContent}
}

func listInstallationRepos(c *call) answer {
	i := c.w.installs[c.who.token.installID]
	if i == nil {
		return refused(errForbidden)
	}
	var all []*repo
	for _, id := range sortedKeys(c.w.repos) {
		if r := c.w.repos[id]; c.s.sees(c.w, c.who.token, r) {
			all = append(all, r)
		}
	}
	list, x := []obj{}, c.renderer()
	for _, r := range paginate(c, all) {
		o := x.repo(r)
		o["permissions"] = rights("pull")
		list = append(list, o)
	}
	return ok(obj{"total_count": len(all), "repository_selection": i.selection(), "repositories": list})
}

// listDeliveries is newest first and paged by cursor; only prev and next.
func listDeliveries(c *call) answer {
	all := c.s.hooks.sent(c.who.app.id)
	if status := c.query("status"); status != "" {
		all = slices.DeleteFunc(all, func(v *delivery) bool {
			if status == "failure" { // the filter covers answers of 400 to 599 only
				return v.code < 400 || v.code > 599
			}
			return v.code < 200 || v.code > 399
		})
	}
	_, perPage := c.paging()
	from := 0
	if cursor, given := strings.CutPrefix(c.query("cursor"), "v1_"); given {
		id, _ := strconv.ParseInt(cursor, 10, 64)
		from = slices.IndexFunc(all, func(v *delivery) bool { return v.id == id })
		if from < 0 {
			return refused(unprocessableMessage("Invalid cursor"))
		}
	}
	to := min(from+perPage, len(all))
	var links []string
	if to < len(all) {
		links = append(links, c.cursorLink(all[to].id, "next"))
	}
	if from > 0 {
		links = append(links, c.cursorLink(all[max(0, from-perPage)].id, "prev"))
	}
	if len(links) > 0 {
		c.header.Set("Link", strings.Join(links, ", "))
	}
	list := []obj{}
	for _, v := range all[from:to] {
		list = append(list, v.item())
	}
	return ok(list)
}

func (c *call) cursorLink(id int64, rel string) string {
	q := c.r.URL.Query()
	q.Set("cursor", fmt.Sprintf("v1_%d", id))
	return fmt.Sprintf("<%s/app/hook/deliveries?%s>; rel=%q", c.apiRoot(), q.Encode(), rel)
}

func (v *delivery) item() obj {
	return obj{
		"id": v.id, "guid": v.guid, "delivered_at": stamp(v.deliveredAt), "redelivery": v.redelivery, "duration": v.duration.Seconds(),
		"status": v.status, "status_code": v.code, "event": v.event, "action": stringOrNil(v.action),
		"installation_id": idOrNil(v.installID), "repository_id": idOrNil(v.repoID), "throttled_at": nil,
	}
}

func idOrNil(id int64) any {
	if id == 0 {
		return nil
	}
	return id
}

func getDelivery(c *call) answer {
	id, _ := strconv.ParseInt(c.vars["delivery_id"], 10, 64)
	for _, v := range c.s.hooks.sent(c.who.app.id) {
		if v.id == id {
			o := v.item()
			var payload obj
			_ = json.Unmarshal(v.body, &payload) // our own marshalling
			o["url"] = v.url
			o["request"] = obj{"headers": v.requestHeaders, "payload": payload}
			o["response"] = obj{"headers": v.responseHeaders, "payload": v.responseBody}
			return ok(o)
		}
	}
	return refused(errNotFound)
}

func redeliver(c *call) answer {
	id, _ := strconv.ParseInt(c.vars["delivery_id"], 10, 64)
	if !c.s.hooks.redeliver(c.who.app.id, id) {
		return refused(errNotFound)
	}
	return answer{status: http.StatusAccepted, body: obj{}}
}

func getRateLimit(c *call) answer {
	if c.s.unlimited() {
		return refused(refuse(404, "Rate limiting is not enabled."))
	}
	core, graph := c.budgetKey(), c.budgetKey()
	core.resource, graph.resource = "core", "graphql"
	resources := obj{}
	for name, b := range map[string]*budget{"core": c.s.budget(core), "graphql": c.s.budget(graph)} {
		resources[name] = obj{"limit": b.limit, "used": b.used, "remaining": b.remaining(), "reset": b.reset.Unix()}
	}
	resources["search"] = obj{"limit": 30, "used": 0, "remaining": 30, "reset": c.s.tick().Add(time.Minute).Unix()}
	o := obj{"resources": resources}
	if c.version == defaultAPIVersion {
		o["rate"] = resources["core"]
	}
	return ok(o)
}

func getMeta(c *call) answer {
	o := obj{"verifiable_password_authentication": false}
	if v := c.s.opts.Enterprise; v != "" {
		o["installed_version"] = v
	}
	return ok(o)
}

// getVersions lists the REST API versions that are served.
func getVersions(c *call) answer { return ok(c.s.opts.APIVersions) }
