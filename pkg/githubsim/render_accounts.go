package githubsim

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// obj is one JSON object of an answer or a webhook.
type obj = map[string]any

// renderer writes entities as GitHub's JSON. It reads the world and holds the
// lock's promise: it is used only while the lock is held.
type renderer struct {
	s       *Sim
	w       *world
	api     string // root of url fields
	html    string // root of html_url fields
	version string // REST API version of the answer
	hook    bool   // a webhook payload, whose shapes differ in places
	repos   map[int64]json.RawMessage
}

func (s *Sim) renderer(w *world) *renderer {
	r := &renderer{s: s, w: w, api: s.url, html: s.url, version: defaultAPIVersion}
	if s.opts.Enterprise != "" {
		r.api += "/api/v3"
	}
	return r
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

// epoch zero of accounts made without a time
func stampOrNil(t *time.Time) any {
	if t == nil {
		return nil
	}
	return stamp(*t)
}

func stringOrNil(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// user is GitHub's simple-user; nil (JSON null) for a deleted account.
func (r *renderer) user(id int64) any {
	a := r.w.accounts[id]
	if a == nil {
		return nil
	}
	return r.account(a)
}

func (r *renderer) account(a *account) obj {
	url := r.api + "/users/" + escapeLogin(a.login)
	html := r.html + "/" + a.login
	if a.kind == "Bot" {
		html = r.html + "/apps/" + strings.TrimSuffix(a.login, "[bot]")
	}
	return obj{
		"login": a.login, "id": a.id, "node_id": nodeID(a.kind[:1], a.id), "type": a.kind, "site_admin": false,
		"avatar_url": fmt.Sprintf("%s/avatars/u/%d?v=4", r.html, a.id), "gravatar_id": "", "user_view_type": "public",
		"url": url, "html_url": html,
		"followers_url": url + "/followers", "following_url": url + "/following{/other_user}",
		"gists_url": url + "/gists{/gist_id}", "starred_url": url + "/starred{/owner}{/repo}",
		"subscriptions_url": url + "/subscriptions", "organizations_url": url + "/orgs", "repos_url": url + "/repos",
		"events_url": url + "/events{/privacy}", "received_events_url": url + "/received_events",
	}
}

// escapeLogin is how GitHub writes a bot's login in a URL.
func escapeLogin(login string) string {
	return strings.NewReplacer("[", "%5B", "]", "%5D").Replace(login)
}

func (r *renderer) publicUser(a *account) obj {
	u := r.account(a)
	maps.Copy(u, obj{
		"name": nil, "company": nil, "blog": "", "location": nil, "email": nil, "hireable": nil, "bio": nil, "twitter_username": nil,
		"public_repos": 0, "public_gists": 0, "followers": 0, "following": 0,
		"created_at": stamp(a.createdAt), "updated_at": stamp(a.createdAt),
	})
	return u
}

func (r *renderer) organization(a *account) obj {
	url := r.api + "/orgs/" + a.login
	return obj{
		"login": a.login, "id": a.id, "node_id": nodeID("O", a.id), "url": url, "repos_url": url + "/repos",
		"events_url": url + "/events", "hooks_url": url + "/hooks", "issues_url": url + "/issues",
		"members_url": url + "/members{/member}", "public_members_url": url + "/public_members{/member}",
		"avatar_url": fmt.Sprintf("%s/avatars/u/%d?v=4", r.html, a.id), "description": nil,
	}
}

func (r *renderer) organizationFull(a *account) obj {
	o := r.organization(a)
	maps.Copy(o, obj{
		"has_organization_projects": true, "has_repository_projects": true, "public_repos": 0, "public_gists": 0,
		"followers": 0, "following": 0, "html_url": r.html + "/" + a.login, "type": "Organization",
		"created_at": stamp(a.createdAt), "updated_at": stamp(a.createdAt), "archived_at": nil,
	})
	return o
}

func (r *renderer) team(t *team) obj {
	org := r.w.accounts[t.orgID]
	url := fmt.Sprintf("%s/organizations/%d/team/%d", r.api, t.orgID, t.id)
	o := obj{
		"id": t.id, "node_id": nodeID("T", t.id), "name": t.name, "slug": t.slug, "description": "", "privacy": t.privacy,
		"notification_setting": "notifications_enabled", "permission": "pull", "url": url,
		"html_url":    fmt.Sprintf("%s/orgs/%s/teams/%s", r.html, org.login, t.slug),
		"members_url": url + "/members{/member}", "repositories_url": url + "/repos", "parent": nil,
		"type": "organization", "organization_id": t.orgID,
	}
	if p := r.w.teams[t.parentID]; p != nil {
		parent := r.team(p)
		delete(parent, "parent")
		o["parent"] = parent
	}
	return o
}

func (r *renderer) teamFull(t *team) obj {
	o := r.team(t)
	org := r.w.accounts[t.orgID]
	maps.Copy(o, obj{
		"created_at": stamp(org.createdAt), "updated_at": stamp(org.createdAt),
		"members_count": len(r.w.teamMembers(t)), "repos_count": len(t.repos), "organization": r.organizationFull(org),
	})
	return o
}

func (r *renderer) app(a *app) obj {
	return obj{
		"id": a.id, "client_id": a.clientID, "slug": a.slug, "node_id": nodeID("A", a.id), "owner": r.user(a.ownerID),
		"name": a.name, "description": "", "external_url": "https://" + a.slug + ".example", "html_url": r.html + "/apps/" + a.slug,
		"created_at": stamp(a.createdAt), "updated_at": stamp(a.createdAt),
		"permissions": maps.Clone(a.permissions), "events": sortedEvents(a.events),
	}
}

func sortedEvents(events []string) []string {
	return append([]string{}, slices.Sorted(slices.Values(events))...)
}

func (r *renderer) installation(i *installation) obj {
	account, owner := r.w.apps[i.appID], r.w.accounts[i.accountID]
	url := fmt.Sprintf("%s/app/installations/%d", r.api, i.id)
	html := fmt.Sprintf("%s/organizations/%s/settings/installations/%d", r.html, owner.login, i.id)
	if owner.kind != "Organization" {
		html = fmt.Sprintf("%s/settings/installations/%d", r.html, i.id)
	}
	o := obj{
		"id": i.id, "client_id": account.clientID, "account": r.account(owner), "app_id": i.appID, "app_slug": account.slug,
		"target_id": owner.id, "target_type": owner.kind, "repository_selection": i.selection(),
		"access_tokens_url": url + "/access_tokens", "repositories_url": r.api + "/installation/repositories", "html_url": html,
		"permissions": maps.Clone(i.permissions), "events": sortedEvents(i.events),
		"created_at": stamp(i.createdAt), "updated_at": stamp(i.updatedAt),
		"single_file_name": nil, "has_multiple_single_files": false, "single_file_paths": []string{},
		"suspended_by": nil, "suspended_at": stampOrNil(i.suspendedAt),
	}
	if i.suspendedAt != nil {
		o["suspended_by"] = r.user(account.ownerID)
	}
	return o
}

func (i *installation) selection() string {
	if i.all {
		return "all"
	}
	return "selected"
}

// associationOf is GitHub's author_association.
func (r *renderer) associationOf(repo *repo, userID int64) string {
	owner := r.w.accounts[repo.ownerID]
	switch {
	case userID == owner.id:
		return "OWNER"
	case owner.members[userID] != "":
		return "MEMBER"
	case repo.collaborators[userID] != "":
		return "COLLABORATOR"
	}
	return "NONE"
}

// legacyPermission is the permission word of GET collaborators/{user}/permission:
// maintain is reported as write and triage as read, the exact word is role_name.
func legacyPermission(granted string) (permission, role string) {
	permission = map[string]string{"": "none", "pull": "read", "triage": "read", "push": "write", "maintain": "write", "admin": "admin"}[granted]
	role = map[string]string{"pull": "read", "push": "write"}[granted]
	return permission, cmp.Or(role, granted)
}

// rights is the permissions object of a repository or of a user in it.
func rights(granted string) obj {
	rank := permissionRank[granted]
	return obj{"pull": rank >= 1, "triage": rank >= 2, "push": rank >= 3, "maintain": rank >= 4, "admin": rank >= 5}
}
