package githubsim_test

import (
	"encoding/base64"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/countersign/countersign/pkg/githubsim"
)

// TestRehearsingOverTheAPI plays docs/stand-in.md: everything that people do is
// done with their tokens, over GitHub's own routes, and sends GitHub's webhooks.
func TestRehearsingOverTheAPI(t *testing.T) {
	t.Parallel()
	hook := newReceiver(t)
	sim := githubsim.New(githubsim.Options{Listen: "-"})
	t.Cleanup(sim.Close)
	e := githubsim.AddExample(sim, githubsim.ExampleOptions{App: githubsim.App{PrivateKey: testKey(), WebhookURL: hook.url, WebhookSecret: "s"}})
	w := &world{t: t, sim: sim, app: e.App, hook: hook}
	const repo = "/repos/acme/widgets"
	dave, alice, grace := e.Tokens["dave"], e.Tokens["alice"], e.Tokens["grace"]
	main := w.get(repo+"/git/ref/heads/main", dave).want(200).str("object", "sha")
	w.call("POST", repo+"/git/refs", dave, fields{"ref": "refs/heads/topic", "sha": main}).want(201)
	content := base64.StdEncoding.EncodeToString([]byte("package main\n"))
	w.call("PUT", repo+"/contents/src/new.go", dave, fields{"message": "Add", "content": content, "branch": "topic"}).want(201)
	w.settle()
	hook.clear()

	n := w.call("POST", repo+"/pulls", dave, fields{"title": "Add", "head": "topic", "base": "main"}).want(201).id("number")
	pull := fmt.Sprintf("%s/pulls/%d", repo, n)
	w.call("POST", pull+"/reviews", alice, fields{"event": "APPROVE"}).want(200)
	first := w.get(pull, dave).str("head", "sha")
	file := w.get(repo+"/contents/src/new.go?ref=topic", dave).str("sha")
	w.call("DELETE", repo+"/contents/src/new.go", dave, fields{"message": "Remove", "branch": "topic", "sha": file}).want(200)
	w.call("PATCH", repo+"/git/refs/heads/topic", dave, fields{"sha": first}).want(422) // no fast forward
	w.call("PATCH", repo+"/git/refs/heads/topic", dave, fields{"sha": first, "force": true}).want(200)
	w.call("DELETE", "/orgs/acme/teams/core/memberships/alice", grace, nil).want(204)
	w.call("PUT", repo+"/collaborators/dave", grace, fields{"permission": "pull"}).want(204)
	w.call("PATCH", "/orgs/acme/teams/core", grace, fields{"privacy": "secret"}).want(200)
	w.call("PATCH", repo, grace, fields{"name": "gadgets"}).want(200)
	w.settle()
	want := []string{
		"pull_request.opened", "pull_request_review.submitted", "push", "pull_request.synchronize", "push", "pull_request.synchronize",
		"membership.removed", "member.edited", "team.edited", "repository.renamed",
	}
	if diff := cmp.Diff(want, hook.names()); diff != "" {
		t.Errorf("webhooks (-want +got):\n%s", diff)
	}
	t.Run("people may do what they may do", func(t *testing.T) {
		const repo = "/repos/acme/gadgets"
		for name, r := range map[string]reply{
			"a reader cannot push":            w.call("POST", repo+"/git/refs", dave, fields{"ref": "refs/heads/x", "sha": main}),
			"a member cannot change a team":   w.call("PUT", "/orgs/acme/teams/core/memberships/dave", dave, nil),
			"a writer cannot rename":          w.call("PATCH", repo, e.Tokens["bob"], fields{"name": "x"}),
			"a writer cannot give permission": w.call("PUT", repo+"/collaborators/dave", e.Tokens["bob"], fields{"permission": "admin"}),
		} {
			if r.status != 403 {
				t.Errorf("%s: %d %s", name, r.status, r.raw)
			}
		}
		w.call("PUT", fmt.Sprintf("%s/pulls/%d/reviews/%d", repo, n, w.get(fmt.Sprintf("%s/pulls/%d/reviews", repo, n), grace).id(0, "id")), grace, fields{"body": "x"}).want(403)
	})
	t.Run("nothing is opened without a difference, a branch or a base", func(t *testing.T) {
		const repo = "/repos/acme/gadgets"
		for _, body := range []fields{{"title": "t", "head": "main", "base": "main"}, {"title": "t", "head": "nowhere", "base": "main"}, {"title": "t", "head": "topic", "base": "nowhere"}} {
			w.call("POST", repo+"/pulls", grace, body).want(422)
		}
	})
}
