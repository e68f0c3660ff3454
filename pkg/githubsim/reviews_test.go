package githubsim_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/countersign/countersign/pkg/githubsim"
)

// states are the review states of a pull request, in the order they are listed.
func (w *world) states(n int, token string) (states []string) {
	w.t.Helper()
	for _, v := range w.get(fmt.Sprintf("/repos/acme/widgets/pulls/%d/reviews", n), token).want(200).list() {
		states = append(states, fmt.Sprint(v["state"]))
	}
	return states
}

func (w *world) review(n int, user, state string) int64 {
	w.t.Helper()
	id, err := w.sim.Review(repoName, n, user, state)
	w.do(err)
	return id
}

func TestReviews(t *testing.T) {
	t.Parallel()
	t.Run("are listed in the order they were made and none replaces another", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		n, token := w.pull(nil), w.token()
		w.review(n, "alice", "APPROVED")
		w.review(n, "alice", "COMMENTED")
		w.review(n, "alice", "CHANGES_REQUESTED")
		if diff := cmp.Diff([]string{"APPROVED", "COMMENTED", "CHANGES_REQUESTED"}, w.states(n, token)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	t.Run("a dismissal replaces the state in place and keeps the time", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		n, token := w.pull(nil), w.token()
		id := w.review(n, "alice", "APPROVED")
		path := fmt.Sprintf("/repos/acme/widgets/pulls/%d/reviews/%d", n, id)
		before := w.get(path, token).want(200)
		w.do(w.sim.DismissReview(repoName, n, id, "bob"))
		after := w.get(path, token).want(200)
		if after.str("state") != "DISMISSED" || after.str("submitted_at") != before.str("submitted_at") {
			t.Errorf("after: %s", after.raw)
		}
		if err := w.sim.DismissReview(repoName, n, w.review(n, "bob", "COMMENTED"), "alice"); err == nil {
			t.Error("a comment was dismissed")
		}
	})
	t.Run("a pending one is seen by its author alone and has no time", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		n, token := w.pull(nil), w.token()
		w.review(n, "alice", "PENDING")
		if got := w.states(n, token); len(got) != 0 {
			t.Errorf("the App sees %v", got)
		}
		r := w.get(fmt.Sprintf("/repos/acme/widgets/pulls/%d/reviews", n), w.sim.UserToken("alice")).want(200)
		if r.str(0, "state") != "PENDING" || r.at(0, "submitted_at") != nil {
			t.Errorf("alice sees %s", r.raw)
		}
		if _, err := w.sim.Review(repoName, n, "alice", "PENDING"); err == nil || !strings.Contains(err.Error(), "one pending review") {
			t.Errorf("a second pending review: %v", err)
		}
	})
	t.Run("name the commit that was reviewed, after a push too", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		n, token := w.pull(nil), w.token()
		old := w.sim.Head(repoName, n)
		w.review(n, "alice", "APPROVED")
		_, err := w.sim.Push(repoName, n, "dave", map[string]string{"a": "b"})
		w.do(err)
		r := w.get(fmt.Sprintf("/repos/acme/widgets/pulls/%d/reviews", n), token).want(200)
		if r.str(0, "commit_id") != old || r.str(0, "state") != "APPROVED" {
			t.Errorf("after the push: %s", r.raw)
		}
	})
	t.Run("of a deleted account have user null", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		n, token := w.pull(nil), w.token()
		w.review(n, "alice", "APPROVED")
		w.do(w.sim.DeleteUser("alice"))
		r := w.get(fmt.Sprintf("/repos/acme/widgets/pulls/%d/reviews", n), token).want(200)
		if r.at(0, "user") != nil {
			t.Errorf("user %v", r.at(0, "user"))
		}
	})
	t.Run("an author cannot approve, nor request changes, but can comment", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		n := w.pull(nil)
		dave := w.sim.UserToken("dave")
		w.do(w.sim.SetCollaborator(repoName, "dave", "push"))
		path := fmt.Sprintf("/repos/acme/widgets/pulls/%d/reviews", n)
		r := w.call("POST", path, dave, fields{"event": "APPROVE"}).want(422)
		if r.str("message") != "Unprocessable Entity" || r.str("errors", 0) != "Can not approve your own pull request" {
			t.Errorf("answer %s", r.raw)
		}
		w.call("POST", path, dave, fields{"event": "REQUEST_CHANGES", "body": "no"}).want(422)
		w.call("POST", path, dave, fields{"event": "COMMENT", "body": "hm"}).want(200)
	})
	t.Run("an App approves as its bot user", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		n := w.pull(nil)
		bot := w.sim.AddApp(githubsim.App{Slug: "renovate", PrivateKey: testKey(), Permissions: map[string]string{"pull_requests": "write"}})
		second := &world{t: t, sim: w.sim, app: bot, inst: w.sim.AddInstallation(bot.ID, "acme")}
		r := second.call("POST", fmt.Sprintf("/repos/acme/widgets/pulls/%d/reviews", n), second.token(), fields{"event": "APPROVE"}).want(200)
		if r.str("user", "login") != "renovate[bot]" || r.str("user", "type") != "Bot" || r.id("user", "id") != bot.BotID {
			t.Errorf("by %v", r.at("user"))
		}
		if who := w.get("/users/renovate%5Bbot%5D", w.token()).want(200); who.id("id") != bot.BotID || who.str("type") != "Bot" {
			t.Errorf("user: %s", who.raw)
		}
	})
	t.Run("take the reviewer and the reviewer's team out of the requested, and say for which team", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		n, token := w.pull(nil), w.token()
		w.do(w.sim.RequestReview(repoName, n, []string{"alice"}, []string{"core", "docs"}, "dave"))
		w.review(n, "alice", "APPROVED")
		r := w.get(fmt.Sprintf("/repos/acme/widgets/pulls/%d/requested_reviewers", n), token).want(200)
		if len(r.at("users").([]any)) != 0 || len(r.at("teams").([]any)) != 1 || r.str("teams", 0, "slug") != "docs" { //nolint:forcetypeassert // a test
			t.Errorf("requested: %s", r.raw)
		}
		q := w.graphql(token, `{ repository(owner: "acme", name: "widgets") { pullRequest(number: 1) { reviews(first: 1) { nodes { onBehalfOf(first: 5) { nodes { slug } } } } } } }`, nil)
		if got := q.str("data", "repository", "pullRequest", "reviews", "nodes", 0, "onBehalfOf", "nodes", 0, "slug"); got != "core" {
			t.Errorf("onBehalfOf %s", q.raw)
		}
	})
}

func TestRequestedReviewers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.pull(nil)
	w.do(w.sim.SetCollaborator(repoName, "dave", "push"))
	dave := w.sim.UserToken("dave")
	w.sim.AddUser("stranger")
	path := fmt.Sprintf("/repos/acme/widgets/pulls/%d/requested_reviewers", n)
	for name, c := range map[string]struct {
		body    fields
		message string
	}{
		"one who is no collaborator fails the whole request": {fields{"reviewers": []string{"alice", "stranger"}}, "not a collaborator of the acme/widgets repository."},
		"the author is refused":                              {fields{"reviewers": []string{"dave"}}, "Review cannot be requested from pull request author."},
	} {
		t.Run(name, func(t *testing.T) {
			r := w.call("POST", path, dave, c.body).want(422)
			if !strings.Contains(r.str("message"), c.message) {
				t.Errorf("message %s", r.raw)
			}
			if left := w.get(path, dave).want(200); len(left.at("users").([]any)) != 0 { //nolint:forcetypeassert // a test
				t.Errorf("requested: %s", left.raw)
			}
		})
	}
	t.Run("a good request is 201", func(t *testing.T) { w.call("POST", path, dave, fields{"reviewers": []string{"alice"}}).want(201) })
}

func TestTeamsAndPermissions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	token := w.token()
	t.Run("collaborators permission: none with an empty role for a stranger, 404 for nobody", func(t *testing.T) {
		w.sim.AddUser("stranger")
		r := w.get("/repos/acme/widgets/collaborators/stranger/permission", token).want(200)
		if r.str("permission") != "none" || r.str("role_name") != "" {
			t.Errorf("answer %s", r.raw)
		}
		w.get("/repos/acme/widgets/collaborators/nobody-at-all/permission", token).want(404)
	})
	for granted, want := range map[string][3]string{
		"pull": {"read", "read", "false"}, "triage": {"read", "triage", "false"}, "push": {"write", "write", "true"},
		"maintain": {"write", "maintain", "true"}, "admin": {"admin", "admin", "true"},
	} {
		t.Run("collaborators permission of "+granted, func(t *testing.T) {
			w.do(w.sim.SetCollaborator(repoName, "erin", granted))
			r := w.get("/repos/acme/widgets/collaborators/erin/permission", token).want(200)
			got := [3]string{r.str("permission"), r.str("role_name"), r.str("user", "permissions", "push")}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	t.Run("a team's permission reaches its members", func(t *testing.T) {
		if got := w.get("/repos/acme/widgets/collaborators/alice/permission", token).str("permission"); got != "write" {
			t.Errorf("alice has %s", got)
		}
	})
	repos := "/orgs/acme/teams/core/repos/acme/widgets"
	t.Run("a team's repository is 204, the repository with its media type, or 404", func(t *testing.T) {
		if r := w.get(repos, token).want(204); len(r.raw) != 0 {
			t.Errorf("body %s", r.raw)
		}
		r := w.get(repos, token, "Accept", "application/vnd.github.v3.repository+json").want(200)
		if r.str("permissions", "push") != "true" || r.str("permissions", "admin") != "false" || r.str("role_name") != "write" {
			t.Errorf("answer %s", r.raw)
		}
		w.do(w.sim.SetTeamPermission("acme", "docs", "widgets", ""))
		w.get("/orgs/acme/teams/docs/repos/acme/widgets", token).want(404)
	})
	t.Run("membership is active, pending, or 404", func(t *testing.T) {
		w.do(w.sim.InviteTeamMember("acme", "core", "frank"))
		for user, want := range map[string]string{"alice": "active", "frank": "pending"} {
			if got := w.get("/orgs/acme/teams/core/memberships/"+user, token).want(200).str("state"); got != want {
				t.Errorf("%s is %s", user, got)
			}
		}
		w.get("/orgs/acme/teams/core/memberships/carol", token).want(404)
	})
	t.Run("members include those of child teams, marked inherited", func(t *testing.T) {
		w.sim.AddTeam(githubsim.Team{Org: "acme", Slug: "core-night", Parent: "core", Members: []string{"nina"}})
		var inherited []string
		for _, m := range w.get("/orgs/acme/teams/core/members", token).want(200).list() {
			if m["inherited"] == true {
				inherited = append(inherited, fmt.Sprint(m["login"]))
			}
		}
		if diff := cmp.Diff([]string{"nina"}, inherited); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		w.get("/orgs/acme/teams/core/memberships/nina", token).want(200)
	})
	t.Run("a secret team shows its privacy, or nothing where the switch says so", func(t *testing.T) {
		w.sim.AddTeam(githubsim.Team{Org: "acme", Slug: "shadow", Privacy: "secret"})
		if got := w.get("/orgs/acme/teams/shadow", token).want(200).str("privacy"); got != "secret" {
			t.Errorf("privacy %s", got)
		}
		w.sim.Set(githubsim.Switches{SecretTeamsHidden: true})
		defer w.sim.Set(githubsim.Switches{})
		w.get("/orgs/acme/teams/shadow", token).want(404)
	})
	t.Run("a team of another organisation is 404", func(t *testing.T) {
		w.sim.AddOrg("octo-org")
		w.sim.AddTeam(githubsim.Team{Org: "octo-org", Slug: "core"})
		w.get("/orgs/octo-org/teams/core", token).want(404)
	})
	t.Run("an App with no right to members sees no team", func(t *testing.T) {
		r := w.call(http.MethodPost, fmt.Sprintf("/app/installations/%d/access_tokens", w.inst), w.jwt(), fields{"permissions": fields{"contents": "read"}})
		w.get("/orgs/acme/teams/core", r.want(201).str("token")).want(404)
	})
}
