package githubsim_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/countersign/countersign/pkg/githubsim"
)

func TestObjectIDsAreGits(t *testing.T) {
	t.Parallel()
	sim := githubsim.New(githubsim.Options{Listen: "-", Now: func() time.Time { return time.Unix(1767225600, 0) }})
	t.Cleanup(sim.Close)
	sim.AddUser("alice")
	sim.AddRepo("alice", "files", map[string]string{
		"a.txt": "one\n", "a/b.txt": "two\n", "b/run.sh": githubsim.Executable("#!/bin/sh\n"), "link": githubsim.Symlink("a.txt"),
	})
	w := &world{t: t, sim: sim}
	// Made once with git itself, with the same author, time and files.
	const commit, tree = "cf92e1bdceb98e46ff860da6d7dfecc6a005696e", "5ef47fd6295e935da6a3cbd6846f73744328d192"
	r := w.get("/repos/alice/files/git/commits/"+commit, sim.UserToken("alice")).want(200)
	if r.str("tree", "sha") != tree {
		t.Errorf("tree %s, want %s", r.str("tree", "sha"), tree)
	}
}

func TestContents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	big, small := strings.Repeat("0123456789abcde\n", 1<<16+1), "hello\n"
	_, err := w.sim.PushBase(repoName, "main", "alice", map[string]string{
		"big.txt": big, "small.txt": small, "link": githubsim.Symlink("small.txt"), "vendor/lib": githubsim.Submodule(strings.Repeat("a", 40)),
	})
	w.do(err)
	token := w.token()
	t.Run("are base64 in lines of sixty", func(t *testing.T) {
		r := w.get("/repos/acme/widgets/contents/small.txt", token).want(200)
		raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(r.str("content")))
		if err != nil || string(raw) != small || r.str("encoding") != "base64" {
			t.Errorf("content %q", r.str("content"))
		}
	})
	t.Run("above one megabyte have encoding none and no content, but raw", func(t *testing.T) {
		r := w.get("/repos/acme/widgets/contents/big.txt", token).want(200)
		if r.str("encoding") != "none" || r.str("content") != "" || r.id("size") != int64(len(big)) {
			t.Errorf("encoding %s, %d bytes of content, size %d", r.str("encoding"), len(r.str("content")), r.id("size"))
		}
		for _, accept := range []string{"application/vnd.github.raw+json", "application/vnd.github.v3.raw"} {
			if raw := w.get("/repos/acme/widgets/contents/big.txt", token, "Accept", accept).want(200); string(raw.raw) != big {
				t.Errorf("%s: %d bytes", accept, len(raw.raw))
			}
		}
	})
	t.Run("of a directory are a list, of a link its target, of a submodule no file", func(t *testing.T) {
		if r := w.get("/repos/acme/widgets/contents/src", token).want(200); r.str(0, "path") != "src/main.go" {
			t.Errorf("directory %s", r.raw)
		}
		if r := w.get("/repos/acme/widgets/contents/link", token).want(200); r.str("type") != "symlink" || r.str("target") != "small.txt" {
			t.Errorf("link %s", r.raw)
		}
		if r := w.get("/repos/acme/widgets/contents/vendor/lib", token).want(200); r.str("type") != "submodule" {
			t.Errorf("submodule %s", r.raw)
		}
	})
	t.Run("list a submodule as a file in the older API version only", func(t *testing.T) {
		for version, want := range map[string]string{"2022-11-28": "file", "2026-03-10": "submodule"} {
			if got := w.get("/repos/acme/widgets/contents/vendor", token, "X-GitHub-Api-Version", version).want(200).str(0, "type"); got != want {
				t.Errorf("%s: %s", version, got)
			}
		}
	})
	t.Run("at a ref: a branch with a slash, a commit, or 404", func(t *testing.T) {
		sha, err := w.sim.PushBase(repoName, "release/1.x", "alice", map[string]string{"VERSION": "1\n"})
		w.do(err)
		for _, ref := range []string{"release/1.x", sha, sha[:10], "refs/heads/release/1.x"} {
			w.get("/repos/acme/widgets/contents/VERSION?ref="+ref, token).want(200)
		}
		w.get("/repos/acme/widgets/contents/VERSION", token).want(404)
		if r := w.get("/repos/acme/widgets/contents/VERSION?ref=nowhere", token).want(404); !strings.Contains(r.str("message"), "No commit found") {
			t.Errorf("message %s", r.raw)
		}
	})
	t.Run("of an empty repository are 404, its tree 409", func(t *testing.T) {
		w.sim.AddRepo("acme", "empty", nil)
		w.get("/repos/acme/empty/contents/README.md", token).want(404)
		w.get("/repos/acme/empty/git/trees/main", token).want(409)
	})
}

func TestTrees(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	token := w.token()
	entries := func(r reply) (paths []string) {
		for _, e := range r.at("tree").([]any) { //nolint:forcetypeassert // a test
			paths = append(paths, fmt.Sprint(at(e, "path")))
		}
		return paths
	}
	t.Run("are one level, or all when recursive", func(t *testing.T) {
		if diff := cmp.Diff([]string{".github", "README.md", "docs", "src"}, entries(w.get("/repos/acme/widgets/git/trees/main", token).want(200))); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		want := []string{".github", ".github/CODEOWNERS", "README.md", "docs", "docs/index.md", "src", "src/main.go"}
		for _, value := range []string{"1", "0"} { // any value is recursive
			if diff := cmp.Diff(want, entries(w.get("/repos/acme/widgets/git/trees/main?recursive="+value, token).want(200))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		}
	})
	t.Run("are cut at the limit and say so; a subtree can be read alone", func(t *testing.T) {
		w.sim.Set(githubsim.Switches{TreeLimit: 3})
		r := w.get("/repos/acme/widgets/git/trees/main?recursive=1", token).want(200)
		if r.str("truncated") != "true" || len(entries(r)) != 3 {
			t.Errorf("truncated %s, %v", r.str("truncated"), entries(r))
		}
		top := w.get("/repos/acme/widgets/git/trees/main", token)
		sub := w.get("/repos/acme/widgets/git/trees/"+top.str("tree", 0, "sha")+"?recursive=1", token).want(200)
		if diff := cmp.Diff([]string{"CODEOWNERS"}, entries(sub)); diff != "" || sub.str("truncated") != "false" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestCompare(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	files := map[string]string{}
	for i := range 310 {
		files[fmt.Sprintf("f%03d", i)] = "x"
	}
	n := w.pull(files)
	token, head := w.token(), w.sim.Head(repoName, n)
	_, err := w.sim.PushBase(repoName, "main", "alice", map[string]string{"x": "y"})
	w.do(err)
	r := w.get("/repos/acme/widgets/compare/main..."+head, token).want(200)
	if got := r.str("status") + " " + r.str("ahead_by") + " " + r.str("behind_by"); got != "diverged 1 1" {
		t.Errorf("%s", got)
	}
	if got := len(r.at("files").([]any)); got != 300 { //nolint:forcetypeassert // a test
		t.Errorf("%d files, want at most 300", got)
	}
	if got := len(w.get("/repos/acme/widgets/compare/main..."+head+"?page=2", token).want(200).at("files").([]any)); got != 0 { //nolint:forcetypeassert // a test
		t.Errorf("%d files on page 2", got)
	}
	w.get("/repos/acme/widgets/compare/main...nowhere", token).want(404)
}

// TestFilesOfAPullAreWhatWasWritten: whatever is written on top of the base, the
// listed changes applied to the base give the head.
func TestFilesOfAPullAreWhatWasWritten(t *testing.T) {
	t.Parallel()
	names := []string{"a", "b", "d/a", "d/b", "d/e/f", "src/main.go", "README.md"}
	content := []string{"1\n", "2\n", "1\n2\n3\n4\n", "1\n2\n3\n5\n", githubsim.Deleted}
	rapid.Check(t, func(rt *rapid.T) {
		sim := githubsim.New(githubsim.Options{Listen: "-"})
		defer sim.Close()
		sim.AddUser("alice")
		draw := func(label string) map[string]string {
			return rapid.MapOf(rapid.SampledFrom(names), rapid.SampledFrom(content)).Draw(rt, label)
		}
		base := draw("base")
		base["keep"] = "k\n"
		sim.AddRepo("alice", "r", base)
		change := draw("change")
		n, err := sim.OpenPull("alice/r", githubsim.Pull{Author: "bob", Files: change})
		if err != nil {
			rt.Fatal(err)
		}
		want := map[string]bool{}
		for name, now := range change {
			was, existed := base[name]
			existed = existed && was != githubsim.Deleted
			if existed && now == was || !existed && now == githubsim.Deleted {
				continue
			}
			want[name] = true
		}
		w := &world{t: t, sim: sim}
		got := map[string]bool{}
		for _, f := range w.get(fmt.Sprintf("/repos/alice/r/pulls/%d/files", n), sim.UserToken("alice")).want(200).list() {
			got[fmt.Sprint(f["filename"])] = true
			if f["previous_filename"] != nil {
				got[fmt.Sprint(f["previous_filename"])] = true
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			rt.Fatalf("base %v, change %v (-want +got):\n%s", base, change, diff)
		}
	})
}
