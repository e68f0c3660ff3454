package githubsim_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAPullRequestFromOpenedToMerged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.wire = true
	w.settle()
	w.hook.clear()
	n := w.pull(nil)
	token := w.token()
	path := fmt.Sprintf("/repos/acme/widgets/pulls/%d", n)

	p := w.get(path, token).want(200)
	if got := p.str("state") + " " + p.str("user", "login") + " " + p.str("changed_files"); got != "open dave 1" {
		t.Fatalf("pull request: %s", got)
	}
	head := p.str("head", "sha")
	run := w.call("POST", "/repos/acme/widgets/check-runs", token, map[string]any{"name": "gate", "head_sha": head, "status": "in_progress"}).want(201)
	if _, err := w.sim.Review(repoName, n, "alice", "APPROVED"); err != nil {
		t.Fatal(err)
	}
	if got := w.get(path+"/reviews", token).want(200).str(0, "state"); got != "APPROVED" {
		t.Fatalf("review state %s", got)
	}
	done := map[string]any{"status": "completed", "conclusion": "success", "output": map[string]any{"title": "ok", "summary": "ok"}}
	w.call("PATCH", fmt.Sprintf("/repos/acme/widgets/check-runs/%d", run.id("id")), token, done).want(200)
	list := w.get("/repos/acme/widgets/commits/"+head+"/check-runs", token).want(200)
	if got := list.str("check_runs", 0, "conclusion") + list.str("total_count"); got != "success1" {
		t.Fatalf("check run %s", got)
	}
	next, err := w.sim.Push(repoName, n, "dave", map[string]string{"src/more.go": "package main\n"})
	w.do(err)
	if got := w.get(path, token).str("head", "sha"); got != next {
		t.Fatalf("head %s after a push, want %s", got, next)
	}
	if _, err := w.sim.MergePull(repoName, n, "alice"); err != nil {
		t.Fatal(err)
	}
	if p := w.get(path, token); p.str("state")+p.str("merged") != "closedtrue" {
		t.Fatalf("after the merge: %s %s", p.str("state"), p.str("merged"))
	}
	w.settle()
	want := []string{
		"push", "pull_request.opened", "check_run.created", "pull_request_review.submitted", "check_run.completed",
		"push", "pull_request.synchronize", "pull_request.closed", "push",
	}
	if diff := cmp.Diff(want, w.hook.names()); diff != "" {
		t.Errorf("webhooks (-want +got):\n%s", diff)
	}
}

func TestGraphQLShowsWhatRESTShows(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.pull(nil)
	_, err := w.sim.Review(repoName, n, "alice", "APPROVED")
	w.do(err)
	w.do(w.sim.Label(repoName, n, "ready", ""))
	r := w.graphql(w.token(), `query($n: Int!) {
  repository(owner: "acme", name: "widgets") {
    databaseId nameWithOwner
    owners: object(expression: "main:.github/CODEOWNERS") { ... on Blob { text byteSize isTruncated isBinary oid } }
    absent: object(expression: "main:CODEOWNERS") { ... on Blob { text } }
    codeowners(refName: "main") { errors { line kind message } }
    pullRequest(number: $n) {
      number state merged isDraft headRefOid baseRefOid baseRefName changedFiles title url updatedAt
      author { __typename login ... on User { databaseId } ... on Bot { databaseId } }
      labels(first: 10) { nodes { name } }
      headRepository { databaseId }
      reviews(first: 100) { nodes { databaseId fullDatabaseId state author { login } commit { oid } submittedAt } pageInfo { hasNextPage endCursor } }
    }
  }
  rateLimit { cost remaining resetAt }
}`, map[string]any{"n": n}).want(200)
	if r.at("errors") != nil {
		t.Fatalf("errors: %s", r.raw)
	}
	pr := func(path ...any) string { return r.str(append([]any{"data", "repository", "pullRequest"}, path...)...) }
	got := []string{
		pr("state"), pr("headRefOid"), pr("author", "__typename"), pr("author", "login"), pr("labels", "nodes", 0, "name"), pr("reviews", "nodes", 0, "state"),
		pr("reviews", "nodes", 0, "commit", "oid"), r.str("data", "repository", "owners", "text"), r.str("data", "repository", "absent"),
	}
	head := w.sim.Head(repoName, n)
	want := []string{"OPEN", head, "User", "dave", "ready", "APPROVED", head, codeowners, "<nil>"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
