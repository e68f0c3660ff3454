package githubsim_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/countersign/countersign/pkg/githubsim"
)

// pr wraps a selection of the first pull request.
func pr(selection string) string {
	head := "query"
	if strings.Contains(selection, "$after") {
		head += "($after: String)"
	}
	return head + ` { repository(owner: "acme", name: "widgets") { pullRequest(number: 1) { ` + selection + ` } } }`
}

var prPath = []any{"data", "repository", "pullRequest"}

func TestGraphQLErrors(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.pull(nil)
	token := w.token()
	for name, c := range map[string]struct{ query, kind, text string }{
		"an unknown repository":              {`{ repository(owner: "acme", name: "none") { name } }`, "NOT_FOUND", "Could not resolve to a Repository with the name 'acme/none'."},
		"an unknown pull request":            {`{ repository(owner: "acme", name: "widgets") { pullRequest(number: 99) { number } } }`, "NOT_FOUND", "Could not resolve to a PullRequest with the number of 99."},
		"a connection without first or last": {pr("reviews { totalCount }"), "MISSING_PAGINATION_BOUNDARIES", "You must provide a `first` or `last` value"},
		"more than a hundred of a list":      {pr("reviews(first: 101) { totalCount }"), "EXCESSIVE_PAGINATION", "exceeds the `first` limit of 100 records."},
		"an unknown field":                   {pr("nothing"), "<nil>", "nothing"},
		"a missing variable":                 {`query($n: Int!) { repository(owner: "acme", name: "widgets") { pullRequest(number: $n) { number } } }`, "<nil>", "must be defined"},
		"no query at all":                    {`{`, "<nil>", "Expected"},
	} {
		t.Run(name, func(t *testing.T) {
			r := w.graphql(token, c.query, nil).want(200)
			if r.str("errors", 0, "type") != c.kind || !strings.Contains(r.str("errors", 0, "message"), c.text) {
				t.Errorf("answer %s", r.raw)
			}
		})
	}
	t.Run("no credential is 401, and no JSON 400", func(t *testing.T) {
		w.graphql("", "{ rateLimit { cost } }", nil).want(401)
		w.call("POST", "/graphql", token, "{").want(400)
	})
	t.Run("a null where none may be makes what holds it null", func(t *testing.T) {
		r := w.graphql(token, pr(`number latest: latestOpinionatedReviews(first: 1) { totalCount } commits { totalCount }`), nil)
		if r.at("data", "repository", "pullRequest") != nil || r.at("data", "repository") == nil {
			t.Errorf("answer %s", r.raw)
		}
	})
}

func TestGraphQLConnections(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.pull(nil)
	for i := range 5 {
		w.review(n, "alice", []string{"APPROVED", "COMMENTED", "CHANGES_REQUESTED", "APPROVED", "COMMENTED"}[i])
	}
	w.sim.AddUser("stranger")
	w.review(n, "stranger", "APPROVED")
	token := w.token()
	states := func(r reply, field string) (list []string) {
		for i := range len(r.at(append(append([]any{}, prPath...), field, "nodes")...).([]any)) { //nolint:forcetypeassert // a test
			list = append(list, r.str(append(append([]any{}, prPath...), field, "nodes", i, "state")...))
		}
		return list
	}
	t.Run("are walked by cursor", func(t *testing.T) {
		var all []string
		after := any(nil)
		for range 10 {
			r := w.graphql(token, pr(`reviews(first: 2, after: $after) { nodes { state } pageInfo { hasNextPage endCursor } }`), fields{"after": after}).want(200)
			all = append(all, states(r, "reviews")...)
			after = r.at("data", "repository", "pullRequest", "reviews", "pageInfo", "endCursor")
			if r.at("data", "repository", "pullRequest", "reviews", "pageInfo", "hasNextPage") != true {
				break
			}
		}
		if diff := cmp.Diff([]string{"APPROVED", "COMMENTED", "CHANGES_REQUESTED", "APPROVED", "COMMENTED", "APPROVED"}, all); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	t.Run("from the end with last", func(t *testing.T) {
		r := w.graphql(token, pr(`reviews(last: 2) { nodes { state } pageInfo { hasPreviousPage } }`), nil)
		if diff := cmp.Diff([]string{"COMMENTED", "APPROVED"}, states(r, "reviews")); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	t.Run("opinionated reviews are one of each reviewer, of writers when asked", func(t *testing.T) {
		r := w.graphql(token, pr(`all: latestOpinionatedReviews(first: 10) { nodes { state } } writers: latestOpinionatedReviews(first: 10, writersOnly: true) { nodes { state } }`), nil)
		if diff := cmp.Diff([]string{"APPROVED", "APPROVED"}, states(r, "all")); diff != "" {
			t.Errorf("all (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"APPROVED"}, states(r, "writers")); diff != "" {
			t.Errorf("writers (-want +got):\n%s", diff)
		}
	})
}

func TestGraphQLObjects(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	text := strings.Repeat("x", 600_000)
	_, err := w.sim.PushBase(repoName, "main", "alice", map[string]string{"big.txt": text, "logo.png": "\x89PNG\x00\x01", "vendor/lib": githubsim.Submodule(strings.Repeat("a", 40))})
	w.do(err)
	token := w.token()
	blob := func(path string) reply {
		return w.graphql(token, fmt.Sprintf(`{ repository(owner: "acme", name: "widgets") { object(expression: "main:%s") { __typename ... on Blob { text byteSize isTruncated isBinary oid } } } }`, path), nil).want(200)
	}
	at := func(r reply, key string) any { return r.at("data", "repository", "object", key) }
	t.Run("a large text is cut and says so", func(t *testing.T) {
		r := blob("big.txt")
		if at(r, "isTruncated") != true || at(r, "byteSize") != float64(len(text)) || len(fmt.Sprint(at(r, "text"))) >= len(text) {
			t.Errorf("truncated %v, byteSize %v", at(r, "isTruncated"), at(r, "byteSize"))
		}
	})
	t.Run("a binary has no text", func(t *testing.T) {
		if r := blob("logo.png"); at(r, "isBinary") != true || at(r, "text") != nil {
			t.Errorf("answer %s", r.raw)
		}
	})
	t.Run("a directory is a tree, what is not there is null without an error", func(t *testing.T) {
		if r := blob("src"); at(r, "__typename") != "Tree" {
			t.Errorf("answer %s", r.raw)
		}
		if r := blob("nowhere"); r.at("data", "repository", "object") != nil || r.at("errors") != nil {
			t.Errorf("answer %s", r.raw)
		}
	})
	t.Run("an id beyond 32 bits is to be had as fullDatabaseId only", func(t *testing.T) {
		n := w.pull(nil)
		id := w.review(n, "alice", "APPROVED")
		r := w.graphql(token, pr(`reviews(first: 1) { nodes { databaseId fullDatabaseId } }`), nil)
		got := r.at("data", "repository", "pullRequest", "reviews", "nodes", 0)
		if diff := cmp.Diff(any(fields{"databaseId": nil, "fullDatabaseId": fmt.Sprint(id)}), got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	t.Run("a bot's login has no suffix", func(t *testing.T) {
		_, err := w.sim.SubmitReview(repoName, 1, githubsim.ReviewOf{User: "countersign[bot]", State: "COMMENTED"})
		w.do(err)
		r := w.graphql(token, pr(`reviews(last: 1) { nodes { author { __typename login } } }`), nil)
		got := r.at("data", "repository", "pullRequest", "reviews", "nodes", 0, "author")
		if diff := cmp.Diff(any(fields{"__typename": "Bot", "login": "countersign"}), got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	t.Run("skip, include, aliases and fragments", func(t *testing.T) {
		r := w.graphql(token, `query($yes: Boolean!) { repository(owner: "acme", name: "widgets") { ...N a: name @skip(if: $yes) b: name @include(if: $yes) } } fragment N on Repository { nameWithOwner owner { __typename login } }`, fields{"yes": true})
		want := any(fields{"nameWithOwner": "acme/widgets", "owner": fields{"__typename": "Organization", "login": "acme"}, "b": "widgets"})
		if diff := cmp.Diff(want, r.at("data", "repository")); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}
