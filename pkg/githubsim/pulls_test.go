package githubsim_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/countersign/countersign/pkg/githubsim"
)

// candidates are the numbers that commits/{sha}/pulls lists.
func (w *world) candidates(sha, token string) (numbers []int64) {
	w.t.Helper()
	r := w.get("/repos/acme/widgets/commits/"+sha+"/pulls", token).want(200)
	for i := range r.list() {
		numbers = append(numbers, r.id(i, "number"))
	}
	return numbers
}

func TestPullsOfACommit(t *testing.T) {
	t.Parallel()
	t.Run("are those that contain it, not only those whose head it is", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		n, token := w.pull(nil), w.token()
		first := w.sim.Head(repoName, n)
		second, err := w.sim.Push(repoName, n, "dave", map[string]string{"a": "b"})
		w.do(err)
		for _, sha := range []string{first, second} {
			if diff := cmp.Diff([]int64{1}, w.candidates(sha, token)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		}
	})
	t.Run("of a fork's head are none", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		n, err := w.sim.OpenPull(repoName, githubsim.Pull{Author: "mallory", Fork: "mallory", Files: map[string]string{"a": "b"}})
		w.do(err)
		if got := w.candidates(w.sim.Head(repoName, n), w.token()); len(got) != 0 {
			t.Errorf("listed %v", got)
		}
	})
	t.Run("of a commit on the default branch is the merged one alone", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		n, token := w.pull(nil), w.token()
		head := w.sim.Head(repoName, n)
		_, err := w.sim.OpenPull(repoName, githubsim.Pull{Author: "dave", Branch: "on-top", Files: map[string]string{"z": "z"}})
		w.do(err)
		merge, err := w.sim.MergePull(repoName, n, "alice")
		w.do(err)
		for _, sha := range []string{head, merge} {
			if diff := cmp.Diff([]int64{1}, w.candidates(sha, token)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		}
	})
	t.Run("leave out what was closed without a merge", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		n, token := w.pull(nil), w.token()
		w.do(w.sim.ClosePull(repoName, n, "dave"))
		if got := w.candidates(w.sim.Head(repoName, n), token); len(got) != 0 {
			t.Errorf("listed %v", got)
		}
	})
}

func TestFilesOfAPull(t *testing.T) {
	t.Parallel()
	t.Run("have GitHub's statuses, and a rename its previous name", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		n := w.pull(map[string]string{
			"src/main.go": "package main // 2\n", "docs/index.md": githubsim.Deleted, "handbook/start.md": "# docs\n", "new.txt": "1\n2\n", "README.md": githubsim.Deleted,
		})
		got := map[string]string{}
		for _, f := range w.get(fmt.Sprintf("/repos/acme/widgets/pulls/%d/files", n), w.token()).want(200).list() {
			text := fmt.Sprint(f["status"])
			if f["previous_filename"] != nil {
				text += " from " + fmt.Sprint(f["previous_filename"])
			}
			got[fmt.Sprint(f["filename"])] = text
		}
		want := map[string]string{
			"src/main.go": "modified", "handbook/start.md": "renamed from docs/index.md", "new.txt": "added", "README.md": "removed",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	t.Run("are cut at the limit while changed_files tells the truth", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.sim.Set(githubsim.Switches{PullFilesLimit: 5})
		files := map[string]string{}
		for i := range 8 {
			files[fmt.Sprintf("f%d", i)] = fmt.Sprint(i)
		}
		n, token := w.pull(files), w.token()
		path := fmt.Sprintf("/repos/acme/widgets/pulls/%d", n)
		if got := len(w.get(path+"/files?per_page=100", token).want(200).list()); got != 5 {
			t.Errorf("%d files listed", got)
		}
		if got := w.get(path, token).str("changed_files"); got != "8" {
			t.Errorf("changed_files %s", got)
		}
	})
	t.Run("are compared with the merge base, so that a push to the base adds none", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		n, token := w.pull(nil), w.token()
		_, err := w.sim.PushBase(repoName, "main", "alice", map[string]string{"other.txt": "x"})
		w.do(err)
		if got := w.get(fmt.Sprintf("/repos/acme/widgets/pulls/%d", n), token).str("changed_files"); got != "1" {
			t.Errorf("changed_files %s", got)
		}
	})
	t.Run("as a diff are refused above 300", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		files := map[string]string{}
		for i := range 301 {
			files[fmt.Sprintf("f%03d", i)] = "x"
		}
		n, token := w.pull(files), w.token()
		r := w.get(fmt.Sprintf("/repos/acme/widgets/pulls/%d", n), token, "Accept", "application/vnd.github.diff").want(406)
		if r.str("errors", 0, "code") != "too_large" {
			t.Errorf("answer %s", r.raw)
		}
	})
	t.Run("three thousand and more open in seconds", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		files := map[string]string{}
		for i := range 3100 {
			files[fmt.Sprintf("d%02d/f%d", i%50, i)] = fmt.Sprint(i)
		}
		n, token := w.pull(files), w.token()
		path := fmt.Sprintf("/repos/acme/widgets/pulls/%d", n)
		if got := w.get(path, token).str("changed_files"); got != "3100" {
			t.Errorf("changed_files %s", got)
		}
		r := w.get(path+"/files?per_page=100&page=30", token).want(200)
		if rels, _ := links(r); len(r.list()) != 100 || strings.Join(rels, " ") != "prev first" {
			t.Errorf("page 30 has %d files and links %v", len(r.list()), rels)
		}
	})
}

func TestHeadsAndBases(t *testing.T) {
	t.Parallel()
	t.Run("a deleted fork leaves repo, user and label null together", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		n, err := w.sim.OpenPull(repoName, githubsim.Pull{Author: "mallory", Fork: "mallory", Files: map[string]string{"a": "b"}})
		w.do(err)
		w.do(w.sim.DeleteRepo("mallory/widgets"))
		r := w.get(fmt.Sprintf("/repos/acme/widgets/pulls/%d", n), w.token()).want(200)
		if r.at("head", "repo") != nil || r.at("head", "user") != nil || r.at("head", "label") != nil || len(r.str("head", "sha")) != 40 {
			t.Errorf("head: %v", r.at("head"))
		}
	})
	t.Run("a force-push can go back to an earlier head", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		n := w.pull(nil)
		first := w.sim.Head(repoName, n)
		second, err := w.sim.Push(repoName, n, "dave", map[string]string{"a": "b"})
		w.do(err)
		w.settle()
		w.hook.clear()
		w.do(w.sim.ForcePush(repoName, n, "dave", first))
		w.settle()
		if w.sim.Head(repoName, n) != first {
			t.Error("the head did not move")
		}
		hooks := w.hook.hooks()
		if hooks[0].at("forced") != true || hooks[1].at("before") != second || hooks[1].at("after") != first {
			t.Errorf("webhooks: %s %s", hooks[0].body, hooks[1].body)
		}
	})
	t.Run("base.sha follows the branch, or stays where the switch says so", func(t *testing.T) {
		t.Parallel()
		for frozen, follows := range map[bool]bool{false: true, true: false} {
			w := newWorld(t)
			w.sim.Set(githubsim.Switches{FrozenBaseSHA: frozen})
			n, token := w.pull(nil), w.token()
			tip, err := w.sim.PushBase(repoName, "main", "alice", map[string]string{"x": "y"})
			w.do(err)
			rest := w.get(fmt.Sprintf("/repos/acme/widgets/pulls/%d", n), token).str("base", "sha")
			graph := w.graphql(token, `{ repository(owner: "acme", name: "widgets") { pullRequest(number: 1) { baseRefOid baseRef { target { oid } } } } }`, nil)
			if (rest == tip) != follows || graph.str("data", "repository", "pullRequest", "baseRefOid") != rest {
				t.Errorf("frozen %v: REST %s, GraphQL %s, tip %s", frozen, rest, graph.raw, tip)
			}
			if got := graph.str("data", "repository", "pullRequest", "baseRef", "target", "oid"); got != tip {
				t.Errorf("the branch's own tip is %s", got)
			}
			next, err := w.sim.Push(repoName, n, "dave", map[string]string{"z": "z"})
			w.do(err)
			if r := w.get(fmt.Sprintf("/repos/acme/widgets/pulls/%d", n), token); r.str("base", "sha") != tip || r.str("head", "sha") != next {
				t.Errorf("after a push to the head: base %s", r.str("base", "sha"))
			}
		}
	})
	t.Run("a retarget says what it was", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		_, err := w.sim.PushBase(repoName, "release", "alice", map[string]string{"x": "y"})
		w.do(err)
		n := w.pull(nil)
		w.settle()
		w.hook.clear()
		w.do(w.sim.Retarget(repoName, n, "release", "dave"))
		w.settle()
		if h := w.hook.hooks()[0]; h.name() != "pull_request.edited" || h.at("changes", "base", "ref", "from") != "main" {
			t.Errorf("webhook %s", h.body)
		}
		if err := w.sim.Retarget(repoName, n, "nowhere", "dave"); err == nil {
			t.Error("retargeted to a branch that is not there")
		}
	})
	t.Run("deleting the head branch closes the pull request", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		n := w.pull(nil)
		w.do(w.sim.SetBranch(repoName, "patch-1", "", "dave"))
		if p, _ := w.sim.PullState(repoName, n); p.Open {
			t.Error("it is still open")
		}
	})
	t.Run("a second pull request for the same branches is refused", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.pull(nil)
		if _, err := w.sim.OpenPull(repoName, githubsim.Pull{Author: "dave", Branch: "patch-1", Files: map[string]string{"a": "b"}}); err == nil || !strings.Contains(err.Error(), "already exists") {
			t.Errorf("error %v", err)
		}
	})
}

func TestMergeGroups(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := w.pull(map[string]string{"a": "1"}), w.pull(map[string]string{"b": "2"})
	w.settle()
	w.hook.clear()
	base := w.get("/repos/acme/widgets/branches/main", w.token()).str("commit", "sha")
	g, err := w.sim.EnqueueMergeGroup(repoName, "main", a, b)
	w.do(err)
	t.Run("have a head of their own, on which each member is merged in turn", func(t *testing.T) {
		if g.Head == w.sim.Head(repoName, a) || g.Head == w.sim.Head(repoName, b) || g.BaseSHA != base {
			t.Errorf("group %+v", g)
		}
		r := w.get("/repos/acme/widgets/commits/"+g.Head, w.token()).want(200)
		if r.str("parents", 1, "sha") != w.sim.Head(repoName, b) {
			t.Errorf("parents %v", r.at("parents"))
		}
		w.newRun(w.token(), g.Head, nil)
	})
	t.Run("ask for checks on that head", func(t *testing.T) {
		w.settle()
		h := w.hook.hooks()[0]
		if h.name() != "merge_group.checks_requested" || h.at("merge_group", "head_sha") != g.Head || h.at("merge_group", "base_ref") != "refs/heads/main" {
			t.Errorf("webhook %s", h.body)
		}
		if !strings.HasPrefix(g.HeadRef, fmt.Sprintf("refs/heads/gh-readonly-queue/main/pr-%d-", b)) {
			t.Errorf("head_ref %s", g.HeadRef)
		}
	})
	t.Run("are in the queue, which needs its own permission where the repository is private", func(t *testing.T) {
		const query = `{ repository(owner: "acme", name: "widgets") { mergeQueue(branch: "main") { entries(first: 10) { totalCount nodes { position state baseCommit { oid } headCommit { oid } pullRequest { number } } } } } }`
		r := w.graphql(w.token(), query, nil)
		at := func(path ...any) any {
			return r.at(append([]any{"data", "repository", "mergeQueue", "entries"}, path...)...)
		}
		if at("totalCount") != 2.0 || at("nodes", 0, "baseCommit", "oid") != base || at("nodes", 1, "headCommit", "oid") != g.Head || at("nodes", 1, "pullRequest", "number") != float64(b) ||
			at("nodes", 0, "headCommit", "oid") != at("nodes", 1, "baseCommit", "oid") {
			t.Errorf("queue %v", r.at("data"))
		}
	})
	t.Run("stacked and squashed, their commits have one parent", func(t *testing.T) {
		c := w.pull(map[string]string{"c": "3"})
		next, err := w.sim.EnqueueMergeGroupWith(repoName, "main", githubsim.GroupOptions{On: &g, Squash: true, NoEvent: true}, c)
		w.do(err)
		r := w.get("/repos/acme/widgets/commits/"+next.Head, w.token()).want(200)
		if parents, _ := r.at("parents").([]any); len(parents) != 1 || r.str("parents", 0, "sha") != g.Head || next.BaseSHA != g.Head {
			t.Errorf("parents %v", r.at("parents"))
		}
		w.do(w.sim.DestroyMergeGroup(repoName, next, "dequeued"))
	})
	t.Run("merged, they merge every member", func(t *testing.T) {
		w.do(w.sim.DestroyMergeGroup(repoName, g, "merged"))
		for _, n := range []int{a, b} {
			if p, _ := w.sim.PullState(repoName, n); !p.Merged {
				t.Errorf("#%d is not merged", n)
			}
		}
		if got := w.get("/repos/acme/widgets/branches/main", w.token()).str("commit", "sha"); got != g.Head {
			t.Errorf("main is at %s", got)
		}
		if err := w.sim.DestroyMergeGroup(repoName, g, "merged"); err == nil {
			t.Error("destroyed twice")
		}
	})
}

func TestTheActivityOfBranches(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n, token := w.pull(nil), w.token()
	first := w.sim.Head(repoName, n)
	if _, err := w.sim.Push(repoName, n, "erin", fileX); err == nil {
		t.Fatal("an unknown person pushed")
	}
	w.do(w.sim.SetCollaborator(repoName, "erin", "push"))
	second, err := w.sim.Push(repoName, n, "erin", fileX)
	w.do(err)
	w.do(w.sim.ForcePush(repoName, n, "dave", first))
	_, err = w.sim.MergePull(repoName, n, "alice")
	w.do(err)
	w.do(w.sim.SetBranch(repoName, "patch-1", "", "dave"))
	lines := func(query string) (list []string) {
		for _, a := range w.get("/repos/acme/widgets/activity"+query, token).want(200).list() {
			list = append(list, fmt.Sprint(a["activity_type"], " ", at(a["actor"], "login")))
		}
		return list
	}
	t.Run("says who moved it and how, newest first", func(t *testing.T) {
		want := []string{"branch_deletion dave", "force_push dave", "push erin", "branch_creation dave"}
		if diff := cmp.Diff(want, lines("?ref=refs/heads/patch-1")); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if got := lines("?ref=main"); len(got) != 1 || got[0] != "pr_merge alice" {
			t.Errorf("main: %v", got)
		}
		if got := lines("?activity_type=push"); len(got) != 1 {
			t.Errorf("pushes: %v", got)
		}
		r := w.get("/repos/acme/widgets/activity?ref=patch-1&activity_type=push", token)
		if r.str(0, "before") != first || r.str(0, "after") != second {
			t.Errorf("the push: %s", r.raw)
		}
	})
	t.Run("is paged by cursor", func(t *testing.T) {
		seen := 0
		for next := "/repos/acme/widgets/activity?per_page=2"; next != ""; {
			r := w.get(next, token).want(200)
			seen += len(r.list())
			_, targets := links(r)
			next = targets["next"]
		}
		if seen != 5 {
			t.Errorf("%d lines, want 5", seen)
		}
	})
}

func TestADeletedBaseBranch(t *testing.T) {
	t.Parallel()
	for name, merged := range map[string]bool{"that was merged moves its pull requests to where it went": true, "that was not merged closes them": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			below := w.pull(nil)
			above, err := w.sim.OpenPull(repoName, githubsim.Pull{Author: "dave", Base: "patch-1", Branch: "on-top", Files: fileX})
			w.do(err)
			if merged {
				_, err := w.sim.MergePull(repoName, below, "alice")
				w.do(err)
			}
			w.do(w.sim.SetBranch(repoName, "patch-1", "", "dave"))
			p, _ := w.sim.PullState(repoName, above)
			if p.Open != merged || merged && p.BaseRef != "main" {
				t.Errorf("the pull request above: %+v", p)
			}
			q := fmt.Sprintf(`{ repository(owner: "acme", name: "widgets") { pullRequest(number: %d) { timelineItems(last: 1, itemTypes: [AUTOMATIC_BASE_CHANGE_SUCCEEDED_EVENT]) { nodes { __typename ... on AutomaticBaseChangeSucceededEvent { oldBase newBase } } } } } }`, above)
			nodes := w.graphql(w.token(), q, nil).at(append(append([]any{}, prPath...), "timelineItems", "nodes")...)
			want := any([]any{})
			if merged {
				want = []any{fields{"__typename": "AutomaticBaseChangeSucceededEvent", "oldBase": "patch-1", "newBase": "main"}}
			}
			if diff := cmp.Diff(want, nodes); diff != "" {
				t.Errorf("timeline (-want +got):\n%s", diff)
			}
		})
	}
}
