package githubsim_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/countersign/countersign/pkg/githubsim"
)

func TestEnterpriseServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *githubsim.Options) {
		o.Enterprise = "3.17.2"
		o.WithoutGraphQL = []string{"Repository.codeowners"}
	})
	n := w.pull(nil)
	token := w.token()
	path := fmt.Sprintf("/api/v3/repos/acme/widgets/pulls/%d", n)
	t.Run("has its API below /api/v3, in url fields and in Link too", func(t *testing.T) {
		r := w.get(path, token).want(200)
		if !strings.HasPrefix(r.str("url"), w.sim.URL()+"/api/v3/repos/") {
			t.Errorf("url %s", r.str("url"))
		}
		w.pull(nil)
		_, targets := links(w.get("/api/v3/repos/acme/widgets/pulls?per_page=1", token).want(200))
		if !strings.HasPrefix(targets["next"], w.sim.URL()+"/api/v3/repositories/") {
			t.Fatalf("next %s", targets["next"])
		}
		w.get(targets["next"], token).want(200)
	})
	t.Run("says which version it is", func(t *testing.T) {
		if got := w.get(path, token).header.Get("X-Github-Enterprise-Version"); got != "3.17.2" {
			t.Errorf("X-GitHub-Enterprise-Version %q", got)
		}
		if got := w.get("/api/v3/meta", token).want(200).str("installed_version"); got != "3.17.2" {
			t.Errorf("installed_version %q", got)
		}
	})
	t.Run("has no rate limits until one is set", func(t *testing.T) {
		if got := w.get(path, token).header.Get("X-Ratelimit-Remaining"); got != "" {
			t.Errorf("X-RateLimit-Remaining %q", got)
		}
		if r := w.get("/api/v3/rate_limit", token).want(404); r.str("message") != "Rate limiting is not enabled." {
			t.Errorf("answer %s", r.raw)
		}
		w.sim.Set(githubsim.Switches{RateLimit: 100})
		defer w.sim.Set(githubsim.Switches{})
		if got := w.get(path, token).header.Get("X-Ratelimit-Limit"); got != "100" {
			t.Errorf("X-RateLimit-Limit %q", got)
		}
	})
	t.Run("refuses the later API version", func(t *testing.T) {
		w.get(path, token, "X-GitHub-Api-Version", "2026-03-10").want(400)
		w.get(path, token, "X-GitHub-Api-Version", "2022-11-28").want(200)
	})
	t.Run("says which GraphQL field it has not got, in GitHub's words", func(t *testing.T) {
		r := w.graphql(token, `{ repository(owner: "acme", name: "widgets") { codeowners { errors { line } } } }`, nil).want(200)
		if r.str("errors", 0, "message") != "Field 'codeowners' doesn't exist on type 'Repository'" || r.str("errors", 0, "extensions", "code") != "undefinedField" || r.at("data") != nil {
			t.Errorf("answer %s", r.raw)
		}
	})
	t.Run("an argument that a field does not take is refused too", func(t *testing.T) {
		r := w.graphql(token, `{ repository(owner: "acme", name: "widgets", when: "now") { name } }`, nil).want(200)
		if r.str("errors", 0, "message") != "Field 'repository' doesn't accept argument 'when'" {
			t.Errorf("answer %s", r.raw)
		}
	})
}
