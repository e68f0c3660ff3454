package githubsim

import (
	"fmt"
	"strings"
)

func (e *execution) team(t *team) *node {
	privacy := "VISIBLE"
	if t.privacy == "secret" {
		privacy = "SECRET"
	}
	return &node{typ: "Team", fields: map[string]any{
		"id": nodeID("T", t.id), "databaseId": int32OrNil(t.id), "slug": t.slug, "name": t.name, "privacy": privacy,
		"combinedSlug": e.c.w.accounts[t.orgID].login + "/" + t.slug,
		"members":      func(a args) any { return e.teamMembers(t, a) },
		"repositories": func(a args) any { return e.teamRepositories(t, a) },
	}}
}

func (e *execution) teamMembers(t *team, a args) any {
	members := e.c.w.teamMembers(t)
	var list []*node
	for _, id := range sortedKeys(members) {
		direct := t.members[id] != ""
		if a["membership"] == "IMMEDIATE" && !direct || a["membership"] == "CHILD_TEAM" && direct {
			continue
		}
		n := e.actor(id)
		if n == nil || a["query"] != nil && !strings.Contains(strings.ToLower(e.c.w.accounts[id].login), strings.ToLower(fmt.Sprint(a["query"]))) {
			continue
		}
		n.edge = map[string]any{"role": strings.ToUpper(members[id]), "memberAccessUrl": n.fields["url"]}
		list = append(list, n)
	}
	return connection("TeamMemberConnection", "members", list, a)
}

// teamRepositories shows what the token sees of the repositories that a team
// may use, each with the team's permission. The query matches names.
func (e *execution) teamRepositories(t *team, a args) any {
	words := map[string]string{"pull": "READ", "triage": "TRIAGE", "push": "WRITE", "maintain": "MAINTAIN", "admin": "ADMIN"}
	query, _ := a["query"].(string)
	var list []*node
	for _, id := range sortedKeys(e.c.w.repos) {
		r := e.c.w.repos[id]
		granted := e.c.w.teamPermission(t, id)
		if granted == "" || r.ownerID != t.orgID || !strings.Contains(strings.ToLower(r.name), strings.ToLower(query)) {
			continue
		}
		if e.c.who.user == nil && r.private && !e.c.s.sees(e.c.w, e.c.who.token, r) {
			continue
		}
		n := e.repository(r)
		n.edge = map[string]any{"permission": words[granted]}
		list = append(list, n)
	}
	return connection("TeamRepositoryConnection", "repositories", list, a)
}
