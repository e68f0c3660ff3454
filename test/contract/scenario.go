package main

import (
	"fmt"
	"strings"

	"github.com/countersign/countersign/pkg/githubsim"
)

const widgets = "/repos/acme/widgets"

// scenario calls every route of the stand-in and makes every webhook.
func (s *stage) scenario() {
	app := s.example.App
	jwt := s.jwt(app)
	token, _ := asObject(s.call(201, "POST", fmt.Sprintf("/app/installations/%d/access_tokens", s.example.Installation), jwt, nil))["token"].(string)
	s.authentication(jwt)
	s.pulls(token)
	s.files(token)
	s.organization(token)
	s.people()
	s.branches(token)
	s.settings(jwt, token)
	s.required(token)
	s.newcomers()
	s.refusals(jwt, token)
	s.changes()
	s.deliveries(jwt)
}

func (s *stage) authentication(jwt string) {
	id := s.example.Installation
	tokens := fmt.Sprintf("/app/installations/%d/access_tokens", id)
	s.call(201, "POST", tokens, jwt, object{"repositories": []string{"widgets"}, "permissions": object{"checks": "write", "metadata": "read"}})
	throwaway, _ := asObject(s.call(201, "POST", tokens, jwt, object{}))["token"].(string)
	s.call(200, "GET", "/installation/repositories", throwaway, nil)
	s.call(204, "DELETE", "/installation/token", throwaway, nil)
	s.call(401, "GET", "/installation/repositories", throwaway, nil)
	for _, path := range []string{
		"/app", "/app/hook/config", "/app/installations", "/app/installations?per_page=100", fmt.Sprintf("/app/installations/%d", id),
		"/orgs/acme/installation", widgets + "/installation", "/apps/countersign", "/rate_limit", "/meta", "/versions",
	} {
		s.call(200, "GET", path, jwt, nil)
	}
}

func (s *stage) pulls(token string) {
	full := s.example.Repository
	n, err := s.sim.OpenPull(full, githubsim.Pull{Author: "dave", Title: "Say hello", Body: "Hello.", Labels: []string{"ready"}, Files: map[string]string{
		"src/main.go": "package main\n\nfunc main() { println(1) }\n", "docs/index.md": githubsim.Deleted, "docs/start.md": "# Widgets\n", "logo.png": "\x89PNG\x00",
	}})
	must(err)
	must(s.sim.RequestReview(full, n, []string{"alice"}, []string{"core"}, "dave"))
	head := s.sim.Head(full, n)
	pull := fmt.Sprintf("%s/pulls/%d", widgets, n)
	issue := fmt.Sprintf("%s/issues/%d", widgets, n)
	review := s.call(200, "POST", pull+"/reviews", token, object{"event": "APPROVE", "commit_id": head})
	pending := s.call(200, "POST", pull+"/reviews", token, object{"body": "later"})
	s.call(200, "POST", fmt.Sprintf("%s/reviews/%d/events", pull, number(pending, "id")), token, object{"event": "COMMENT", "body": "now"})
	s.call(200, "GET", fmt.Sprintf("%s/reviews/%d", pull, number(review, "id")), token, nil)
	s.call(200, "PUT", fmt.Sprintf("%s/reviews/%d/dismissals", pull, number(review, "id")), token, object{"message": "stale"})
	s.call(201, "POST", pull+"/requested_reviewers", token, object{"reviewers": []string{"bob"}, "team_reviewers": []string{"docs"}})
	s.call(201, "POST", issue+"/comments", token, object{"body": "Thank you."})
	s.call(200, "POST", issue+"/labels", token, object{"labels": []string{"Big", "small"}})
	s.call(200, "DELETE", issue+"/labels/small", token, nil)
	for _, path := range []string{
		"/pulls", "/pulls?state=all&base=main&per_page=1", "/pulls?state=open&sort=updated&direction=desc", fmt.Sprintf("/pulls/%d", n),
		fmt.Sprintf("/pulls/%d/files?per_page=2", n), fmt.Sprintf("/pulls/%d/commits", n), fmt.Sprintf("/pulls/%d/reviews?per_page=100", n),
		fmt.Sprintf("/pulls/%d/requested_reviewers", n), fmt.Sprintf("/issues/%d/comments", n), "/commits/" + head + "/pulls",
	} {
		s.call(200, "GET", widgets+path, token, nil)
	}
	s.call(200, "GET", pull, token, nil, "Accept", "application/vnd.github.diff")
	s.checks(token, head)
	s.call(200, "PATCH", pull, token, object{"title": "Say hello twice"})
	s.call(200, "PUT", pull+"/merge", token, object{"sha": head})
	s.call(200, "GET", pull, token, nil)
	s.fork(token)
}

// fork is a pull request whose head repository goes away.
func (s *stage) fork(token string) {
	full := s.example.Repository
	n, err := s.sim.OpenPull(full, githubsim.Pull{Author: "mallory", Fork: "mallory", Files: map[string]string{"src/x.go": "package main\n"}})
	must(err)
	path := fmt.Sprintf("%s/pulls/%d", widgets, n)
	s.call(200, "GET", path, token, nil)
	_, err = s.sim.Review(full, n, "mallory", "COMMENTED")
	must(err)
	must(s.sim.DeleteRepo("mallory/widgets"))
	must(s.sim.DeleteUser("mallory"))
	s.call(200, "GET", path, token, nil)
	s.call(200, "GET", widgets+"/pulls", token, nil)
	s.call(200, "GET", path+"/reviews", token, nil)
	s.call(200, "GET", "/repos/acme/widgets/commits/"+s.sim.Head(full, n)+"/pulls", token, nil)
	must(s.sim.ClosePull(full, n, "alice"))
}

func (s *stage) checks(token, head string) {
	run := s.call(201, "POST", widgets+"/check-runs", token, object{"name": "gate", "head_sha": head, "status": "in_progress", "external_id": "7", "started_at": "2026-01-02T03:04:05Z"})
	id := number(run, "id")
	path := fmt.Sprintf("%s/check-runs/%d", widgets, id)
	s.call(200, "PATCH", path, token, object{
		"status": "completed", "conclusion": "success", "completed_at": "2026-01-02T03:05:05Z", "details_url": "https://countersign.example/7",
		"output": object{"title": "Approved", "summary": "By all.", "text": "Text.", "annotations": []object{{
			"path": "src/main.go", "start_line": 1, "end_line": 1, "annotation_level": "notice", "message": "Here.", "title": "There",
		}}},
		"actions": []object{{"label": "Re-evaluate", "description": "Ask again", "identifier": "re-evaluate"}},
	})
	s.call(200, "GET", path, token, nil)
	s.call(200, "GET", path+"/annotations", token, nil)
	s.call(200, "PATCH", path, token, object{"status": "in_progress"})
	s.call(201, "POST", widgets+"/check-runs", token, object{"name": "other", "head_sha": head, "conclusion": "neutral", "output": object{"title": "Shadow", "summary": ""}})
	for _, q := range []string{"", "?check_name=gate&filter=latest&app_id=" + fmt.Sprint(s.example.App.ID), "?filter=all&status=completed&per_page=1&page=2"} {
		s.call(200, "GET", widgets+"/commits/"+head+"/check-runs"+q, token, nil)
	}
	suites := s.call(200, "GET", widgets+"/commits/"+head+"/check-suites", token, nil)
	s.call(200, "GET", fmt.Sprintf("%s/check-suites/%d/check-runs", widgets, number(suites, "check_suites", 0, "id")), token, nil)
	must(s.sim.RerequestCheck(s.example.Repository, id, "alice"))
	must(s.sim.PressCheckAction(s.example.Repository, id, "re-evaluate", "alice"))
}

func (s *stage) files(token string) {
	full := s.example.Repository
	tip, err := s.sim.PushBase(full, "main", "alice", map[string]string{
		"big.txt": strings.Repeat("0123456789abcdef", 80_000), "run.sh": githubsim.Executable("#!/bin/sh\n"), "link": githubsim.Symlink("run.sh"),
		"vendor/lib": githubsim.Submodule(strings.Repeat("a", 40)), "docs/a b/c.md": "x\n",
	})
	must(err)
	s.sim.AddCommits(full, "main", 3)
	_, err = s.sim.PushBase(full, "release/1.x", "alice", map[string]string{"VERSION": "1\n"})
	must(err)
	for _, path := range []string{
		"", "/branches?per_page=2", "/branches/main", "/branches/release%2F1.x", "/contents/README.md", "/contents/README.md?ref=release/1.x", "/contents/docs/a%20b/c.md",
		"/contents/big.txt", "/contents/link", "/contents/vendor/lib", "/contents/src", "/contents/vendor", "/git/ref/heads/main", "/git/commits/" + tip, "/git/trees/" + tip,
		"/git/trees/main?recursive=1", "/commits/" + tip, "/commits/release%2F1.x", "/compare/release%2F1.x...main", "/compare/" + tip + "...main?per_page=1",
		"/activity?ref=main&per_page=1", "/activity", "/codeowners/errors?ref=main", "/codeowners/errors", "/collaborators/dave/permission", "/collaborators/renovate%5Bbot%5D/permission",
	} {
		s.call(200, "GET", widgets+path, token, nil)
	}
	s.call(200, "GET", widgets+"/contents/README.md", token, nil, "Accept", "application/vnd.github.raw+json")
	file := asObject(s.call(200, "GET", widgets+"/contents/run.sh", token, nil))
	s.call(200, "GET", fmt.Sprintf("%s/git/blobs/%s", widgets, file["sha"]), token, nil)
	put := s.call(201, "PUT", widgets+"/contents/new.txt", token, object{"message": "Add", "content": "aGVsbG8K"})
	s.call(200, "PUT", widgets+"/contents/new.txt", token, object{"message": "Change", "content": "aGVsbG8hCg==", "sha": asObject(asObject(put)["content"])["sha"]})
	_, err = s.sim.PushBase(full, "main", "alice", map[string]string{".github/CODEOWNERS": "* @acme/core\n!x @acme/core\n*.go @nobody-here\n*.md docs@\n/a[b] @alice\n***/x @alice\n"})
	must(err)
	s.call(200, "GET", widgets+"/codeowners/errors", token, nil)
}

func (s *stage) organization(token string) {
	for _, path := range []string{
		"/orgs/acme/teams/core", "/orgs/acme/teams/core/members?per_page=1", "/orgs/acme/teams/core/memberships/alice", "/users/alice", "/users/renovate%5Bbot%5D",
	} {
		s.call(200, "GET", path, token, nil)
	}
	s.call(204, "GET", "/orgs/acme/teams/core/repos/acme/widgets", token, nil)
	s.call(200, "GET", "/orgs/acme/teams/core/repos/acme/widgets", token, nil, "Accept", "application/vnd.github.v3.repository+json")
	s.call(404, "GET", "/orgs/acme/teams/docs/memberships/alice", token, nil)
	s.call(200, "PUT", "/orgs/acme/teams/docs/memberships/alice", token, object{"role": "member"})
	s.call(204, "DELETE", "/orgs/acme/teams/docs/memberships/alice", token, nil)
	s.call(200, "POST", "/graphql", token, object{"query": `query($n: Int!) { repository(owner: "acme", name: "widgets") { databaseId codeowners(refName: "main") { errors { line column kind source suggestion message path } }
  object(expression: "main:src") { __typename ... on Tree { entries { name mode type oid } } }
  pullRequest(number: $n) { number state author { login __typename } labels(first: 5) { nodes { name } } files(first: 10) { nodes { path changeType } } commits(first: 1) { totalCount }
    timelineItems(last: 1) { nodes { __typename ... on BaseRefChangedEvent { createdAt previousRefName currentRefName actor { login } } } }
    reviews(first: 100) { totalCount nodes { fullDatabaseId state author { login } onBehalfOf(first: 5) { nodes { slug } } commit { oid } } pageInfo { hasNextPage endCursor } } } }
  organization(login: "acme") { team(slug: "core") { combinedSlug privacy members(first: 10) { edges { role node { login } } } repositories(first: 10) { edges { permission node { name } } } } }
  rateLimit { cost remaining resetAt } }`, "variables": object{"n": 1}})
}

// settings changes what people and teams may do, and the repository itself.
func (s *stage) settings(jwt, token string) {
	team := "/orgs/acme/teams/core"
	s.call(200, "PATCH", team, token, object{"privacy": "secret"})
	s.call(200, "PATCH", team, token, object{"privacy": "closed"})
	s.call(204, "DELETE", team+"/repos/acme/widgets", token, nil)
	s.call(204, "PUT", team+"/repos/acme/widgets", token, object{"permission": "push"})
	s.call(204, "PUT", widgets+"/collaborators/carol", token, object{"permission": "maintain"})
	s.call(204, "DELETE", widgets+"/collaborators/carol", token, nil)
	s.call(200, "PATCH", widgets, token, object{"archived": true, "default_branch": "release/1.x"})
	s.call(200, "PATCH", widgets, token, object{"archived": false, "default_branch": "main"})
	suspended := fmt.Sprintf("/app/installations/%d/suspended", s.example.Installation)
	s.call(204, "PUT", suspended, jwt, nil)
	s.call(403, "GET", widgets, token, nil)
	s.call(204, "DELETE", suspended, jwt, nil)
}

// required are the checks that branch protection and rulesets demand.
func (s *stage) required(token string) {
	for _, one := range []githubsim.RequiredCheck{
		{Branch: "main", Context: "gate", AppID: s.example.App.ID}, {Branch: "main", Context: "lint"},
		{Branch: "main", Context: "gate", AppID: s.example.App.ID, Ruleset: true}, {Branch: "main", Context: "lint", Ruleset: true},
	} {
		s.sim.RequireCheck(s.example.Repository, one)
	}
	for _, path := range []string{"/branches/main", "/rules/branches/main", "/rules/branches/main?per_page=1", "/rules/branches/release%2F1.x", "/branches"} {
		s.call(200, "GET", widgets+path, token, nil)
	}
}

// newcomers register an App from a manifest, and sign in with one.
func (s *stage) newcomers() {
	code, err := s.sim.RegisterManifest("acme", []byte(`{"name":"Second gate","url":"https://countersign.example","redirect_url":"http://127.0.0.1/back",
  "hook_attributes":{"url":"https://countersign.example/webhooks/github","active":true},"public":false,"default_permissions":{"checks":"write"},"default_events":["check_run"]}`))
	must(err)
	s.call(201, "POST", "/app-manifests/"+code+"/conversions", "", nil)
	s.call(404, "POST", "/app-manifests/"+code+"/conversions", "", nil)
	person := s.sim.AppUserToken(s.example.App.ID, "alice")
	s.call(200, "GET", "/user/installations", person, nil)
	s.call(200, "GET", fmt.Sprintf("/user/installations/%d/repositories?per_page=1", s.example.Installation), person, nil)
	s.call(200, "GET", "/orgs/acme/teams/core/memberships/alice", person, nil)
}

// branches pushes and opens a pull request as a person does.
func (s *stage) branches(token string) {
	main := asObject(asObject(s.call(200, "GET", widgets+"/git/ref/heads/main", token, nil))["object"])["sha"]
	s.call(201, "POST", widgets+"/git/refs", token, object{"ref": "refs/heads/topic/x", "sha": main})
	put := asObject(s.call(201, "PUT", widgets+"/contents/topic.txt", token, object{"message": "Add", "content": "eA==", "branch": "topic/x"}))
	tip := asObject(put["commit"])["sha"]
	pull := s.call(201, "POST", widgets+"/pulls", token, object{"title": "Topic", "head": "topic/x", "base": "main", "body": "b", "draft": true})
	path := fmt.Sprintf("%s/pulls/%d", widgets, number(pull, "number"))
	s.call(201, "POST", path+"/requested_reviewers", token, object{"reviewers": []string{"alice"}, "team_reviewers": []string{"core"}})
	s.call(200, "DELETE", path+"/requested_reviewers", token, object{"reviewers": []string{"alice"}, "team_reviewers": []string{"core"}})
	review := s.call(200, "POST", path+"/reviews", token, object{"event": "COMMENT", "body": "a"})
	s.call(200, "PUT", fmt.Sprintf("%s/reviews/%d", path, number(review, "id")), token, object{"body": "b"})
	run := s.call(201, "POST", widgets+"/check-runs", token, object{"name": "gate", "head_sha": tip})
	s.call(201, "POST", fmt.Sprintf("%s/check-runs/%d/rerequest", widgets, number(run, "id")), token, nil)
	s.call(200, "DELETE", widgets+"/contents/topic.txt", token, object{"message": "Remove", "branch": "topic/x", "sha": asObject(put["content"])["sha"]})
	s.call(200, "PATCH", widgets+"/git/refs/heads/topic%2Fx", token, object{"sha": tip, "force": true})
	s.call(422, "POST", widgets+"/pulls", token, object{"title": "Topic", "head": "nowhere", "base": "main"})
	s.call(204, "DELETE", widgets+"/git/refs/heads/topic%2Fx", token, nil)
}

// people acts as a person does, with a person's token.
func (s *stage) people() {
	alice := s.example.Tokens["alice"]
	s.call(200, "GET", "/user", alice, nil)
	n, err := s.sim.OpenPull(s.example.Repository, githubsim.Pull{Author: "dave", Draft: true, Files: map[string]string{"src/y.go": "package main\n"}})
	must(err)
	pull := fmt.Sprintf("%s/pulls/%d", widgets, n)
	s.call(200, "POST", pull+"/reviews", alice, object{"event": "REQUEST_CHANGES", "body": "No."})
	s.call(200, "PATCH", pull, alice, object{"state": "closed"})
	s.call(200, "PATCH", pull, alice, object{"state": "open", "base": "release/1.x"})
}

func (s *stage) refusals(jwt, token string) {
	dave := s.example.Tokens["dave"]
	s.call(401, "GET", "/app", "nonsense", nil)
	s.call(401, "GET", "/installation/repositories", "", nil)
	s.call(404, "GET", "/repos/acme/nowhere", token, nil)
	s.call(404, "GET", widgets+"/contents/nowhere", token, nil)
	s.call(422, "POST", widgets+"/pulls/3/reviews", dave, object{"event": "APPROVE"})
	s.call(422, "POST", widgets+"/check-runs", token, object{"name": "gate", "head_sha": strings.Repeat("0", 40)})
	s.call(422, "POST", widgets+"/check-runs", token, object{"name": "gate", "head_sha": s.sim.Head(s.example.Repository, 1), "status": "completed"})
	s.call(422, "POST", widgets+"/pulls/3/requested_reviewers", token, object{"reviewers": []string{"dave"}})
	s.call(422, "POST", fmt.Sprintf("/app/installations/%d/access_tokens", s.example.Installation), jwt, object{"permissions": object{"secrets": "write"}})
	other, _ := asObject(s.call(201, "POST", fmt.Sprintf("/app/installations/%d/access_tokens", s.example.Installation), jwt, object{"permissions": object{"contents": "read"}}))["token"].(string)
	s.call(403, "GET", widgets+"/pulls/3/files", other, nil)
	s.sim.Inject(githubsim.Fault{Answer: githubsim.AnswerPrimary})
	s.call(403, "GET", widgets, token, nil)
	s.sim.Inject(githubsim.Fault{Answer: githubsim.AnswerSecondary, Status: 429})
	s.call(429, "GET", widgets, token, nil)
	s.sim.Inject(githubsim.Fault{Answer: githubsim.AnswerHTML})
	s.call(502, "GET", widgets, token, nil)
	must(s.sim.RenameRepo("acme/widgets", "gadgets"))
	s.call(301, "GET", widgets, token, nil)
	must(s.sim.RenameRepo("acme/gadgets", "widgets"))
}

// queue reads a merge queue and its group, as the evaluator does.
func (s *stage) queue(g githubsim.MergeGroup) {
	token, _ := asObject(s.call(201, "POST", fmt.Sprintf("/app/installations/%d/access_tokens", s.example.Installation), s.jwt(s.example.App), object{
		"permissions": object{"contents": "read", "merge_queues": "read", "pull_requests": "read"},
	}))["token"].(string)
	s.call(200, "POST", "/graphql", token, object{"query": `query($ref: String!) { repository(owner: "acme", name: "widgets") {
		ref(qualifiedName: $ref) { target { oid } }
		mergeQueue(branch: "main") { id url entries(first: 100) { totalCount pageInfo { hasNextPage endCursor }
			nodes { id position state enqueuedAt baseCommit { oid } headCommit { oid } pullRequest { number headRefOid } } } } } }`,
		"variables": object{"ref": g.HeadRef}})
	s.call(200, "GET", fmt.Sprintf("%s/compare/%s...%s?per_page=100&page=1", widgets, g.BaseSHA, g.Head), token, nil)
}

// changes makes every webhook that the requests did not.
func (s *stage) changes() {
	sim, full := s.sim, s.example.Repository
	n, err := sim.OpenPull(full, githubsim.Pull{Author: "dave", Files: map[string]string{"src/z.go": "package main\n"}})
	must(err)
	id, err := sim.Review(full, n, "bob", "APPROVED")
	must(err)
	must(sim.EditReview(full, n, id, "with reasons"))
	first := sim.Head(full, n)
	_, err = sim.Push(full, n, "dave", map[string]string{"src/z.go": "package main // 2\n"})
	must(err)
	must(sim.ForcePush(full, n, "dave", first))
	must(sim.DismissReview(full, n, id, "alice"))
	must(sim.SetDraft(full, n, true, "dave"))
	must(sim.SetDraft(full, n, false, "dave"))
	must(sim.Label(full, n, "urgent", "alice"))
	must(sim.Unlabel(full, n, "urgent", "alice"))
	must(sim.RequestReview(full, n, []string{"bob"}, nil, "dave"))
	must(sim.RemoveReviewRequest(full, n, "bob", "dave"))
	must(sim.Retitle(full, n, "Better", "dave"))
	must(sim.Retarget(full, n, "release/1.x", "dave"))
	must(sim.Comment(full, n, "alice", "Fine."))
	m, err := sim.OpenPull(full, githubsim.Pull{Author: "dave", Files: map[string]string{"src/q.go": "package main\n"}})
	must(err)
	for _, reason := range []string{"dequeued", "invalidated", "merged"} {
		g, err := sim.EnqueueMergeGroup(full, "main", m)
		must(err)
		s.queue(g)
		must(sim.DestroyMergeGroup(full, g, reason))
	}
	must(sim.SetBranch(full, "release/2.x", first, "alice"))
	must(sim.SetBranch(full, "release/2.x", "", "alice"))
	for _, permission := range []string{"push", "maintain", ""} {
		must(sim.SetCollaborator(full, "frank", permission))
		must(sim.SetTeamPermission("acme", "docs", ".github", permission))
	}
	must(sim.AddTeamMember("acme", "core", "frank"))
	must(sim.RemoveTeamMember("acme", "core", "frank"))
	must(sim.EditTeam("acme", "docs", githubsim.TeamEdit{Privacy: "secret"}))
	must(sim.SetOrgRole("acme", "grace", "member"))
	must(sim.SetOrgRole("acme", "grace", ""))
	must(sim.DeleteTeam("acme", "docs"))
	must(sim.SetArchived(full, true))
	must(sim.SetArchived(full, false))
	must(sim.SetDefaultBranch(full, "release/1.x"))
	must(sim.SetDefaultBranch(full, "main"))
	sim.AddRepo("acme", "temporary", map[string]string{"a": "b\n"})
	sim.AddOrg("octo-org")
	must(sim.TransferRepo("acme/temporary", "octo-org"))
	i := s.example.Installation
	must(sim.AcceptPermissions(i))
	must(sim.SuspendInstallation(i))
	must(sim.UnsuspendInstallation(i))
	must(sim.RenameOrg("acme", "acme-inc"))
	must(sim.RenameOrg("acme-inc", "acme"))
}

func (s *stage) deliveries(jwt string) {
	_, _, err := s.settle()
	must(err)
	list := s.call(200, "GET", "/app/hook/deliveries?per_page=5", jwt, nil)
	s.call(200, "GET", "/app/hook/deliveries?per_page=100&status=success", jwt, nil)
	id := number(list, 0, "id")
	s.call(200, "GET", fmt.Sprintf("/app/hook/deliveries/%d", id), jwt, nil)
	s.call(202, "POST", fmt.Sprintf("/app/hook/deliveries/%d/attempts", id), jwt, nil)
	must(s.sim.DeleteInstallation(s.example.Installation))
}
