package githubsim_test

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/countersign/countersign/pkg/githubsim"
)

var linkTarget = regexp.MustCompile(`<([^>]+)>; rel="(\w+)"`)

// links are the rels of a Link header in order, and their targets.
func links(r reply) (rels []string, targets map[string]string) {
	targets = map[string]string{}
	for _, m := range linkTarget.FindAllStringSubmatch(r.header.Get("Link"), -1) {
		rels = append(rels, m[2])
		targets[m[2]] = m[1]
	}
	return rels, targets
}

func TestPagination(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 7 {
		w.pull(nil)
	}
	token := w.token()
	repo := w.get("/repos/acme/widgets", token).id("id")
	t.Run("Link names next and last on the first page, then prev next last first, then prev first", func(t *testing.T) {
		for page, want := range map[int][]string{1: {"next", "last"}, 2: {"prev", "next", "last", "first"}, 3: {"prev", "first"}} {
			r := w.get(fmt.Sprintf("/repos/acme/widgets/pulls?per_page=3&page=%d&state=open", page), token).want(200)
			rels, _ := links(r)
			if diff := cmp.Diff(want, rels); diff != "" {
				t.Errorf("page %d (-want +got):\n%s", page, diff)
			}
		}
	})
	t.Run("targets are the aliases by id, keep the query, and answer", func(t *testing.T) {
		r := w.get("/repos/acme/widgets/pulls?per_page=3&state=open", token).want(200)
		_, targets := links(r)
		u, err := url.Parse(targets["next"])
		w.do(err)
		if u.Path != fmt.Sprintf("/repositories/%d/pulls", repo) || u.Query().Get("state") != "open" || u.Query().Get("page") != "2" {
			t.Errorf("next is %s", u)
		}
		var numbers []float64
		for next := targets["next"]; next != ""; {
			r := w.get(next, token).want(200)
			for _, p := range r.list() {
				numbers = append(numbers, p["number"].(float64)) //nolint:forcetypeassert // a test
			}
			_, targets := links(r)
			next = targets["next"]
		}
		if diff := cmp.Diff([]float64{4, 3, 2, 1}, numbers); diff != "" {
			t.Errorf("pages 2 and 3 (-want +got):\n%s", diff)
		}
	})
	t.Run("team targets are by the ids of organisation and team", func(t *testing.T) {
		r := w.get("/orgs/acme/teams/core/members?per_page=1", token).want(200)
		_, targets := links(r)
		if !regexp.MustCompile(`/organizations/\d+/team/\d+/members\?`).MatchString(targets["next"]) {
			t.Fatalf("next is %s", targets["next"])
		}
		if got := w.get(targets["next"], token).want(200).str(0, "login"); got != "bob" {
			t.Errorf("the second member is %s", got)
		}
	})
	t.Run("one page has no Link", func(t *testing.T) {
		if link := w.get("/repos/acme/widgets/pulls", token).header.Get("Link"); link != "" {
			t.Errorf("Link %q", link)
		}
	})
	t.Run("thirty a page by default and at most a hundred", func(t *testing.T) {
		w := newWorld(t)
		w.sim.SetWebhook(w.app.ID, "", "")
		for range 120 {
			w.pull(nil)
		}
		token := w.token()
		for query, want := range map[string]int{"": 30, "?per_page=1000": 100, "?per_page=100&page=2": 20, "?per_page=100&page=9": 0} {
			if got := len(w.get("/repos/acme/widgets/pulls"+query, token).want(200).list()); got != want {
				t.Errorf("%q gave %d, want %d", query, got, want)
			}
		}
	})
	t.Run("installation repositories carry a total", func(t *testing.T) {
		w := newWorld(t)
		w.sim.AddRepo("acme", "gears", map[string]string{"a": "b\n"})
		r := w.get("/installation/repositories?per_page=1", w.token()).want(200)
		if r.str("total_count") != "2" || r.str("repository_selection") != "all" || len(r.at("repositories").([]any)) != 1 { //nolint:forcetypeassert // a test
			t.Errorf("answer %s", r.raw)
		}
		if _, targets := links(r); !strings.Contains(targets["next"], "/installation/repositories?") {
			t.Errorf("next is %s", targets["next"])
		}
	})
}

func TestEntityTags(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.pull(nil)
	token := w.token()
	path := fmt.Sprintf("/repos/acme/widgets/pulls/%d", n)
	first := w.get(path, token).want(200)
	tag := first.header.Get("ETag")
	if !regexp.MustCompile(`^W/"[0-9a-f]{64}"$`).MatchString(tag) {
		t.Fatalf("ETag %q", tag)
	}
	remaining := func(r reply) string { return r.header.Get("X-RateLimit-Remaining") }
	t.Run("an unchanged answer is 304, without a body, without W/, and costs nothing", func(t *testing.T) {
		before := remaining(w.get("/rate_limit", token))
		r := w.get(path, token, "If-None-Match", tag).want(304)
		if len(r.raw) != 0 || r.header.Get("ETag") != strings.TrimPrefix(tag, "W/") || remaining(r) != before {
			t.Errorf("body %q, ETag %q, remaining %s, before %s", r.raw, r.header.Get("ETag"), remaining(r), before)
		}
		log := w.sim.Requests()
		if last := log[len(log)-1]; last.Status != 304 || last.Cost != 0 {
			t.Errorf("logged as %+v", last)
		}
	})
	t.Run("another token or media type has another tag", func(t *testing.T) {
		w.get(path, w.token(), "If-None-Match", tag).want(200)
		w.get(path, token, "If-None-Match", tag, "Accept", "application/json").want(200)
		if vary := first.header.Get("Vary"); !strings.Contains(vary, "Authorization") || !strings.Contains(vary, "Accept") {
			t.Errorf("Vary %q", vary)
		}
	})
	t.Run("a change has another tag", func(t *testing.T) {
		w.do(w.sim.Retitle(repoName, n, "Another", ""))
		if r := w.get(path, token, "If-None-Match", tag).want(200); r.header.Get("ETag") == tag {
			t.Error("the same tag for another answer")
		}
	})
}

func TestRenamedAndTransferredRepositories(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.pull(nil)
	token := w.token()
	id := w.get("/repos/acme/widgets", token).id("id")
	w.do(w.sim.RenameRepo("acme/widgets", "gadgets"))
	t.Run("the old name answers 301 to the alias by id", func(t *testing.T) {
		r := w.get(fmt.Sprintf("/repos/acme/widgets/pulls/%d?x=1", n), token).want(301)
		want := fmt.Sprintf("%s/repositories/%d/pulls/%d?x=1", w.sim.URL(), id, n)
		if got := r.header.Get("Location"); got != want {
			t.Fatalf("Location %s, want %s", got, want)
		}
		if got := w.get(want, token).want(200).str("base", "repo", "full_name"); got != "acme/gadgets" {
			t.Errorf("the target says %s", got)
		}
	})
	t.Run("a transfer moves it out of the installation", func(t *testing.T) {
		w.sim.AddOrg("octo-org")
		w.do(w.sim.TransferRepo("acme/gadgets", "octo-org"))
		w.get(fmt.Sprintf("/repositories/%d", id), token).want(404)
	})
	t.Run("webhooks say what it was", func(t *testing.T) {
		w.settle()
		for _, h := range w.hook.hooks() {
			if h.name() == "repository.renamed" {
				if h.at("changes", "repository", "name", "from") != "widgets" || h.at("repository", "full_name") != "acme/gadgets" {
					t.Errorf("payload %s", h.body)
				}
				return
			}
		}
		t.Errorf("no repository.renamed among %v", w.hook.names())
	})
}

func TestRateLimits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	token := w.token()
	limited := func(t *testing.T, r reply, status int, text string) {
		t.Helper()
		if r.want(status); !strings.Contains(string(r.raw), text) {
			t.Errorf("answer %s", r.raw)
		}
	}
	t.Run("every answer says limit, remaining, used, reset and resource", func(t *testing.T) {
		h := w.get("/repos/acme/widgets", token).want(200).header
		for _, name := range []string{"Limit", "Remaining", "Used", "Reset", "Resource"} {
			if h.Get("X-Ratelimit-"+name) == "" {
				t.Errorf("no X-RateLimit-%s", name)
			}
		}
		if h.Get("X-Ratelimit-Limit") != "5000" || h.Get("X-Ratelimit-Resource") != "core" {
			t.Errorf("limit %s of %s", h.Get("X-Ratelimit-Limit"), h.Get("X-Ratelimit-Resource"))
		}
	})
	t.Run("a primary limit is 403 or 429 with nothing remaining", func(t *testing.T) {
		for _, status := range []int{403, 429} {
			w.sim.Inject(githubsim.Fault{Answer: githubsim.AnswerPrimary, Status: status})
			r := w.get("/repos/acme/widgets", token)
			limited(t, r, status, fmt.Sprintf("API rate limit exceeded for installation ID %d.", w.inst))
			if r.header.Get("X-Ratelimit-Remaining") != "0" {
				t.Errorf("remaining %s", r.header.Get("X-Ratelimit-Remaining"))
			}
		}
	})
	t.Run("a secondary limit leaves the budget and may say when to retry", func(t *testing.T) {
		w.sim.Inject(githubsim.Fault{Answer: githubsim.AnswerSecondary, Status: 429, RetryAfter: "7"})
		r := w.get("/repos/acme/widgets", token)
		limited(t, r, 429, "You have exceeded a secondary rate limit")
		if r.header.Get("Retry-After") != "7" || r.header.Get("X-Ratelimit-Remaining") == "0" || !strings.HasSuffix(r.str("documentation_url"), "#about-secondary-rate-limits") {
			t.Errorf("retry-after %q, answer %s", r.header.Get("Retry-After"), r.raw)
		}
	})
	t.Run("GraphQL says both with status 200", func(t *testing.T) {
		for _, answer := range []githubsim.Answer{githubsim.AnswerPrimary, githubsim.AnswerSecondary} {
			w.sim.Inject(githubsim.Fault{Answer: answer})
			limited(t, w.graphql(token, "{ rateLimit { cost } }", nil), 200, "RATE_LIMITED")
		}
	})
	t.Run("a budget runs out on its own", func(t *testing.T) {
		w := newWorld(t)
		w.sim.Set(githubsim.Switches{RateLimit: 3, RateLimitStatus: 429})
		token := w.token()
		for range 3 {
			w.get("/repos/acme/widgets", token).want(200)
		}
		w.get("/repos/acme/widgets", token).want(429)
		if r := w.get("/rate_limit", token).want(200); r.str("resources", "core", "remaining") != "0" {
			t.Errorf("rate_limit: %s", r.raw)
		}
		w.graphql(token, "{ rateLimit { cost } }", nil).want(200) // a budget of its own
	})
	t.Run("an installation on many repositories has more", func(t *testing.T) {
		w := newWorld(t)
		for i := range 29 {
			w.sim.AddRepo("acme", fmt.Sprintf("r%d", i), nil)
		}
		if got := w.get("/rate_limit", w.token()).str("resources", "core", "limit"); got != "5500" {
			t.Errorf("limit %s of 30 repositories", got)
		}
	})
	t.Run("creating too much content in a minute is a secondary limit", func(t *testing.T) {
		w := newWorld(t)
		w.sim.Set(githubsim.Switches{MaxContentPerMinute: 2})
		n, token := w.pull(nil), w.token()
		body := map[string]any{"name": "gate", "head_sha": w.sim.Head(repoName, n)}
		for range 2 {
			w.call("POST", "/repos/acme/widgets/check-runs", token, body).want(201)
		}
		limited(t, w.call("POST", "/repos/acme/widgets/check-runs", token, body), 403, "secondary rate limit")
		w.get("/repos/acme/widgets", token).want(200)
	})
	t.Run("too many requests at once are a secondary limit", func(t *testing.T) {
		w := newWorld(t)
		w.sim.Set(githubsim.Switches{MaxConcurrent: 1})
		token, hold, seen := w.token(), make(chan struct{}), make(chan struct{})
		w.sim.Inject(githubsim.Fault{Answer: githubsim.AnswerTruth, Until: hold, Seen: seen})
		done := make(chan reply)
		go func() { done <- w.get("/repos/acme/widgets", token) }()
		<-seen
		limited(t, w.get("/repos/acme/widgets", token), 403, "secondary rate limit")
		close(hold)
		if r := <-done; r.status != 200 {
			t.Errorf("the first request: %d", r.status)
		}
	})
}
