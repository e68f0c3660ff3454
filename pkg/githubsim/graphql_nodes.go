package githubsim

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// blobTextLimit is the size above which Blob.text is cut and isTruncated is true.
const blobTextLimit = 512_000

func (e *execution) root() *node {
	return &node{typ: "Query", fields: map[string]any{
		"repository":   func(a args) any { return e.findRepository(a) },
		"organization": func(a args) any { return e.findOrganization(a) },
		"rateLimit":    func(args) any { return e.rateLimit() },
	}}
}

func (e *execution) rateLimit() *node {
	b := e.c.s.budget(e.c.budgetKey())
	return &node{typ: "RateLimit", fields: map[string]any{
		"cost": 1, "limit": b.limit, "nodeCount": 1, "remaining": b.remaining(), "resetAt": stamp(b.reset), "used": b.used,
	}}
}

func (e *execution) findRepository(a args) any {
	full := fmt.Sprintf("%v/%v", a["owner"], a["name"])
	gone := gqlFailure{"NOT_FOUND", fmt.Sprintf("Could not resolve to a Repository with the name '%s'.", full)}
	r, moved := e.c.w.repoNamed(full)
	if r == nil || moved && a["followRenames"] == false {
		return gone
	}
	if e.c.who.user != nil {
		if e.c.w.userPermission(r, e.c.who.user.id) == "" {
			return gone
		}
	} else if r.private && !e.c.s.sees(e.c.w, e.c.who.token, r) {
		return gone
	}
	return e.repository(r)
}

// need guards a field by a permission of the token; people are not narrowed.
func (e *execution) need(r *repo, permission string, value func() any) any {
	if e.c.who.user == nil && r.private && levelRank[e.granted[permission]] < 1 {
		return gqlFailure{"FORBIDDEN", errForbidden.message}
	}
	return value()
}

func (e *execution) repository(r *repo) *node {
	if r == nil {
		return nil
	}
	return &node{typ: "Repository", fields: map[string]any{
		"id": nodeID("R", r.id), "databaseId": int32OrNil(r.id), "name": r.name, "nameWithOwner": e.c.w.fullName(r), "isPrivate": r.private, "isArchived": r.archived,
		"isFork": r.parentID != 0, "isEmpty": len(r.branches) == 0, "url": e.x.repoHTML(r), "owner": e.actor(r.ownerID),
		"defaultBranchRef": func(args) any { return e.ref(r, r.defaultBranch) },
		"ref":              func(a args) any { return e.ref(r, strings.TrimPrefix(fmt.Sprint(a["qualifiedName"]), "refs/heads/")) },
		"mergeQueue": func(a args) any {
			return e.need(r, "merge_queues", func() any { return e.mergeQueue(r, a) })
		},
		"object":     func(a args) any { return e.need(r, "contents", func() any { return e.gitObject(r, a) }) },
		"codeowners": func(a args) any { return e.need(r, "contents", func() any { return e.codeowners(r, a) }) },
		"pullRequest": func(a args) any {
			return e.need(r, "pull_requests", func() any {
				n := intArg(a, "number")
				if p := r.pulls[n]; p != nil {
					return e.pullRequest(r, p)
				}
				return gqlFailure{"NOT_FOUND", fmt.Sprintf("Could not resolve to a PullRequest with the number of %d.", n)}
			})
		},
		"pullRequests": func(a args) any { return e.need(r, "pull_requests", func() any { return e.pullRequests(r, a) }) },
	}}
}

func (e *execution) ref(r *repo, branch string) *node {
	sha := r.branches[branch]
	if sha == "" {
		return nil
	}
	return &node{typ: "Ref", fields: map[string]any{
		"id": "REF_" + branch, "name": branch, "prefix": "refs/heads/", "target": func(args) any { return e.commit(r, e.c.s.objects.commits[sha]) },
	}}
}

func (e *execution) gitNode(typ string, r *repo, sha string, fields map[string]any) *node {
	fields["oid"], fields["abbreviatedOid"], fields["id"] = sha, sha[:7], typ[:1]+"_"+sha
	fields["repository"] = func(args) any { return e.repository(r) }
	return &node{typ: typ, fields: fields}
}

func (e *execution) commit(r *repo, c *commit) *node {
	if c == nil {
		return nil
	}
	return e.gitNode("Commit", r, c.sha, map[string]any{
		"committedDate": stamp(c.when), "message": c.message, "tree": func(args) any { return e.tree(r, c.tree, "") },
		"file": func(a args) any { return e.need(r, "contents", func() any { return e.fileOf(r, c, a) }) },
	})
}

func (e *execution) tree(r *repo, sha, path string) *node {
	return e.gitNode("Tree", r, sha, map[string]any{"entries": func(args) any {
		list := []*node{}
		for _, one := range e.c.s.objects.trees[sha] {
			list = append(list, e.treeEntry(r, one, strings.TrimPrefix(path+"/"+one.name, "/")))
		}
		return list
	}})
}

func (e *execution) treeEntry(r *repo, one treeEntry, path string) *node {
	mode, _ := strconv.ParseInt(one.mode, 8, 32)
	kind := map[string]string{"40000": "tree", "160000": "commit"}[one.mode]
	if kind == "" {
		kind = "blob"
	}
	return &node{typ: "TreeEntry", fields: map[string]any{
		"name": one.name, "path": path, "oid": one.sha, "mode": mode, "type": kind, "object": func(args) any { return e.entry(r, one, path) },
	}}
}

// fileOf is the entry at a path of a commit, null when there is none.
func (e *execution) fileOf(r *repo, c *commit, a args) any {
	path := strings.Trim(fmt.Sprint(a["path"]), "/")
	found, is := e.c.s.objects.lookup(c.tree, path)
	if !is {
		return nil
	}
	return e.treeEntry(r, found, path)
}

func (e *execution) entry(r *repo, one treeEntry, path string) *node {
	switch one.mode {
	case "40000":
		return e.tree(r, one.sha, path)
	case "160000":
		return nil
	}
	return e.blob(r, one.sha)
}

// blob gives text for what is not binary, cut at the limit.
func (e *execution) blob(r *repo, sha string) *node {
	content := e.c.s.objects.blobs[sha]
	binary := bytes.IndexByte(content[:min(len(content), 8000)], 0) >= 0 || !utf8.Valid(content)
	text := any(nil)
	if !binary {
		text = strings.ToValidUTF8(string(content[:min(len(content), blobTextLimit)]), "")
	}
	return e.gitNode("Blob", r, sha, map[string]any{"byteSize": len(content), "isBinary": binary, "isTruncated": len(content) > blobTextLimit, "text": text})
}

// gitObject resolves "rev:path", "rev" or an oid; what is not there is null
// without an error.
func (e *execution) gitObject(r *repo, a args) any {
	c := *e.c
	c.repo = r
	if oid, given := a["oid"].(string); given {
		if found := c.s.objects.commits[oid]; found != nil {
			return e.commit(r, found)
		}
		if _, is := c.s.objects.blobs[oid]; is {
			return e.blob(r, oid)
		}
		return nil
	}
	expression, _ := a["expression"].(string)
	rev, path, hasPath := strings.Cut(expression, ":")
	at := c.resolve(rev)
	if at == nil {
		return nil
	}
	if !hasPath {
		return e.commit(r, at)
	}
	found, is := c.s.objects.lookup(at.tree, strings.Trim(path, "/"))
	if !is {
		return nil
	}
	return e.entry(r, found, strings.Trim(path, "/"))
}

func (e *execution) codeowners(r *repo, a args) any {
	c := *e.c
	c.repo = r
	ref, _ := a["refName"].(string)
	at := c.resolve(ref)
	if at == nil {
		return nil
	}
	errors, found := c.s.ownersErrors(c.w, r, at)
	if !found {
		return nil
	}
	list := []*node{}
	for _, one := range errors {
		list = append(list, &node{typ: "RepositoryCodeownersError", fields: one.json()})
	}
	return &node{typ: "RepositoryCodeowners", fields: map[string]any{"errors": list}}
}

// actor is null for a deleted account.
func (e *execution) actor(id int64) *node {
	a := e.c.w.accounts[id]
	if a == nil {
		return nil
	}
	login := a.login
	if a.kind == "Bot" {
		login = strings.TrimSuffix(login, "[bot]") // GraphQL shows a bot without the suffix
	}
	n := &node{typ: a.kind, fields: map[string]any{"id": nodeID(a.kind[:1], a.id), "databaseId": int32OrNil(a.id), "login": login, "name": nil, "url": e.x.account(a)["html_url"]}}
	if a.kind == "Organization" {
		n.fields["team"] = func(args args) any { return e.teamOf(a, args) }
	}
	return n
}

func (e *execution) findOrganization(a args) any {
	o := e.c.w.account(fmt.Sprint(a["login"]))
	if o == nil || o.kind != "Organization" {
		return gqlFailure{"NOT_FOUND", fmt.Sprintf("Could not resolve to an Organization with the login of '%v'.", a["login"])}
	}
	return e.actor(o.id)
}

func (e *execution) teamOf(o *account, a args) any {
	if e.c.who.user == nil {
		i := e.c.w.installs[e.c.who.token.installID]
		if i.accountID != o.id || levelRank[e.granted["members"]] < 1 {
			return gqlFailure{"FORBIDDEN", errForbidden.message}
		}
	}
	t := e.c.w.teamBySlug(o.id, fmt.Sprint(a["slug"]))
	if t == nil || t.privacy == "secret" && e.c.s.switches.SecretTeamsHidden {
		return nil
	}
	return e.team(t)
}

// connection is one page of a list. GitHub wants first or last, 1 to 100.
func connection(typ, name string, all []*node, a args) any {
	first, last := intArg(a, "first"), intArg(a, "last")
	if first == 0 && last == 0 {
		return gqlFailure{"MISSING_PAGINATION_BOUNDARIES", fmt.Sprintf("You must provide a `first` or `last` value to properly paginate the `%s` connection.", name)}
	}
	if n := max(first, last); n > 100 || min(first, last) < 0 {
		return gqlFailure{"EXCESSIVE_PAGINATION", fmt.Sprintf("Requesting %d records on the `%s` connection exceeds the `first` limit of 100 records.", n, name)}
	}
	from, to := 0, len(all)
	if after, given := a["after"].(string); given {
		from = min(cursorIndex(after), len(all))
	}
	if before, given := a["before"].(string); given {
		to = max(from, min(to, cursorIndex(before)-1))
	}
	if first > 0 {
		to = min(to, from+first)
	} else {
		from = max(from, to-last)
	}
	page := map[string]any{"hasNextPage": to < len(all), "hasPreviousPage": from > 0, "startCursor": nil, "endCursor": nil}
	if to > from {
		page["startCursor"], page["endCursor"] = cursor(from+1), cursor(to)
	}
	nodes, edges := slices.Concat([]*node{}, all[from:to]), []*node{}
	for i, n := range nodes {
		edge := map[string]any{"node": n, "cursor": cursor(from + i + 1)}
		maps.Copy(edge, n.edge)
		edges = append(edges, &node{typ: strings.TrimSuffix(typ, "Connection") + "Edge", fields: edge})
	}
	return &node{typ: typ, fields: map[string]any{"nodes": nodes, "edges": edges, "totalCount": len(all), "pageInfo": &node{typ: "PageInfo", fields: page}}}
}

func cursor(n int) string {
	return base64.StdEncoding.EncodeToString([]byte("cursor:v2:" + strconv.Itoa(n)))
}

func cursorIndex(text string) int {
	raw, _ := base64.StdEncoding.DecodeString(text)
	n, _ := strconv.Atoi(strings.TrimPrefix(string(raw), "cursor:v2:"))
	return n
}

func intArg(a args, name string) int {
	switch v := a[name].(type) {
	case int64:
		return int(v)
	case int:
		return v
	case float64:
		return int(v)
	case fmt.Stringer: // json.Number
		n, _ := strconv.Atoi(v.String())
		return n
	}
	return 0
}

// int32OrNil: an Int of GraphQL has 32 bits; a larger id is only to be had as
// fullDatabaseId.
func int32OrNil(id int64) any {
	if id > math.MaxInt32 {
		return nil
	}
	return id
}
