package ghclient

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/google/go-github/v66/github"
)

const (
	opCompare operation = "repos.compare"
	opTree    operation = "git.get_tree"
)

// Bounds of the exact walk: what is beyond them is ErrTooLarge, never cut short.
const (
	maxChangedPaths = 200_000
	maxTreeRequests = 2_000
)

// ChangedFiles are the changed paths of a pull request, exactly. want is its changed_files: a list that doesn't agree with it is
// ErrMalformed (RG-349). GitHub lists 3,000 files at most; from there on the trees of the merge base and the head are compared instead,
// which has no such limit (D11). That walk doesn't know renames: a renamed file is there as removed and as added, so both of its paths
// count, as they do for a rename (RG-326).
func (c *Client) ChangedFiles(ctx context.Context, r Repo, number, want int) ([]ChangedFile, error) {
	what := fmt.Sprintf("list the changed files of %s#%d", r.FullName(), number)
	if want < maxListedFiles {
		files, err := c.listChangedFiles(ctx, r, number, want)
		return files, doing(err, "%s", what)
	}
	pull, err := c.PullState(ctx, r, number)
	if err != nil {
		return nil, err
	}
	if pull.ChangedFiles != want {
		return nil, doing(countMismatch(pull.ChangedFiles, want), "%s", what)
	}
	files, err := c.changedByTrees(ctx, r, pull)
	return files, doing(err, "%s", what)
}

// changedByTrees compares the trees of the merge base and the head: object id and mode of every path.
func (c *Client) changedByTrees(ctx context.Context, r Repo, pull Pull) ([]ChangedFile, error) {
	changes, err := c.contentChanges(ctx, r, cmp.Or(pull.BaseTip, pull.BaseSHA), pull.HeadSHA)
	if err != nil {
		return nil, err
	}
	// Each file GitHub counts is one or, where it sees a rename, two of ours. Anything else means that we compared something else.
	added, removed, modified := 0, 0, 0
	files := make([]ChangedFile, 0, len(changes))
	for _, change := range changes {
		file := ChangedFile{Path: change.Path, Status: "modified"}
		switch {
		case change.Before == nil:
			added++
			file.Status = "added"
		case change.After == nil:
			removed++
			file.Status = "removed"
		default:
			modified++
		}
		if change.After != nil {
			file.BlobSHA = change.After.SHA
		}
		files = append(files, file)
	}
	least, most := modified+max(added, removed), modified+added+removed
	if pull.ChangedFiles < least || pull.ChangedFiles > most {
		return nil, malformed(opTree, fmt.Errorf("the trees differ in %d to %d files where the pull request says %d", least, most, pull.ChangedFiles))
	}
	return files, nil
}

// ChangedContent is what head changes relative to its merge base with base, by content: every path whose object or mode differs, with both
// sides, sorted by path. A renamed file is two paths. Both are commits; head may be one that the pull request has left (P7, D12).
// Errors: ErrNotFound where a commit no longer exists, ErrTooLarge.
func (c *Client) ChangedContent(ctx context.Context, r Repo, base, head string) ([]ContentChange, error) {
	changes, err := c.contentChanges(ctx, r, base, head)
	return changes, doing(err, "compare the content of %s at %s and %s", r.FullName(), base, head)
}

func (c *Client) contentChanges(ctx context.Context, r Repo, base, head string) ([]ContentChange, error) {
	from, err := c.mergeBase(ctx, r, base, head)
	if err != nil {
		return nil, err
	}
	walk := treeWalk{c: c, repo: r, limit: maxTreeRequests}
	if err := walk.compare(ctx, from, head, ""); err != nil {
		return nil, err
	}
	slices.SortFunc(walk.changed, func(a, b ContentChange) int { return strings.Compare(a.Path, b.Path) })
	return walk.changed, nil
}

// ContentChange is one path whose content differs; a nil side is one where the path doesn't exist.
type ContentChange struct {
	Path          string
	Before, After *Blob
}

// Blob is what a path holds: a file, a symbolic link or a submodule.
type Blob struct {
	SHA  string
	Mode string // 100644, 100755, 120000 or 160000
}

// mergeBase is the commit GitHub's own list of files is relative to. The files of the comparison itself are cut at 300; a page beyond
// the last keeps them and the commits out of the answer.
func (c *Client) mergeBase(ctx context.Context, r Repo, base, head string) (string, error) {
	path, err := r.path("compare", base+"..."+head)
	if err != nil {
		return "", err
	}
	root, err := c.get(ctx, opCompare, path, url.Values{"per_page": {"1"}, "page": {"2"}})
	if err != nil {
		return "", err
	}
	sha := root.at("merge_base_commit").object().at("sha").sha()
	if root.read.err != nil {
		return "", malformed(opCompare, root.read.err)
	}
	return sha, nil
}

// treeWalk collects the paths in which two trees differ. Subtrees with the same object id are equal and never requested.
type treeWalk struct {
	c       *Client
	repo    Repo
	limit   int // requests left
	changed []ContentChange
}

// compare adds the differences between two trees; "" is the empty tree. It asks for whole trees first, and goes down one level only
// where GitHub cut the answer.
func (w *treeWalk) compare(ctx context.Context, from, to, prefix string) error {
	if from == to {
		return nil
	}
	old, oldCut, err := w.recursive(ctx, from)
	if err != nil {
		return err
	}
	fresh, freshCut, err := w.recursive(ctx, to)
	if err != nil {
		return err
	}
	if oldCut || freshCut {
		return w.level(ctx, from, to, prefix)
	}
	return w.diff(old, fresh, prefix)
}

func (w *treeWalk) diff(old, fresh map[string]Blob, prefix string) error {
	for path, now := range fresh {
		before, existed := old[path]
		switch {
		case !existed:
			w.changed = append(w.changed, ContentChange{Path: prefix + path, After: &now})
		case before != now:
			w.changed = append(w.changed, ContentChange{Path: prefix + path, Before: &before, After: &now})
		}
	}
	for path, before := range old {
		if _, still := fresh[path]; !still {
			w.changed = append(w.changed, ContentChange{Path: prefix + path, Before: &before})
		}
	}
	if len(w.changed) > maxChangedPaths {
		return &apiError{sentinel: ErrTooLarge, op: opTree, text: fmt.Sprintf("more than %d changed paths", maxChangedPaths)}
	}
	return nil
}

// level compares one level of two trees and walks into the subtrees that differ.
func (w *treeWalk) level(ctx context.Context, from, to, prefix string) error {
	old, oldDirs, err := w.oneLevel(ctx, from)
	if err != nil {
		return err
	}
	fresh, freshDirs, err := w.oneLevel(ctx, to)
	if err != nil {
		return err
	}
	if err := w.diff(old, fresh, prefix); err != nil {
		return err
	}
	for name, sha := range freshDirs {
		if err := w.compare(ctx, oldDirs[name], sha, prefix+name+"/"); err != nil {
			return err
		}
	}
	for name, sha := range oldDirs {
		if _, still := freshDirs[name]; !still {
			if err := w.compare(ctx, sha, "", prefix+name+"/"); err != nil {
				return err
			}
		}
	}
	return nil
}

// recursive is a whole tree, or cut where GitHub truncated it.
func (w *treeWalk) recursive(ctx context.Context, sha string) (leaves map[string]Blob, cut bool, err error) {
	tree, err := w.get(ctx, sha, true)
	if err != nil || tree == nil {
		return nil, false, err
	}
	if tree.Truncated == nil || *tree.Truncated {
		return nil, true, nil
	}
	leaves = make(map[string]Blob, len(tree.Entries))
	for _, e := range tree.Entries {
		if e.GetType() == "tree" {
			continue
		}
		leaves[e.GetPath()] = Blob{Mode: e.GetMode(), SHA: e.GetSHA()}
	}
	return leaves, false, nil
}

func (w *treeWalk) oneLevel(ctx context.Context, sha string) (leaves map[string]Blob, dirs map[string]string, err error) {
	tree, err := w.get(ctx, sha, false)
	if err != nil || tree == nil {
		return nil, nil, err
	}
	if tree.Truncated == nil || *tree.Truncated {
		return nil, nil, &apiError{sentinel: ErrTooLarge, op: opTree, text: "GitHub does not give one directory whole"}
	}
	leaves, dirs = map[string]Blob{}, map[string]string{}
	for _, e := range tree.Entries {
		if e.GetType() == "tree" {
			dirs[e.GetPath()] = e.GetSHA()
			continue
		}
		leaves[e.GetPath()] = Blob{Mode: e.GetMode(), SHA: e.GetSHA()}
	}
	return leaves, dirs, nil
}

// get reads one tree; a commit's id stands for its tree. "" is the empty tree, which nobody has to be asked about.
func (w *treeWalk) get(ctx context.Context, sha string, recursive bool) (*github.Tree, error) {
	if sha == "" {
		return nil, nil
	}
	if w.limit--; w.limit < 0 {
		return nil, &apiError{sentinel: ErrTooLarge, op: opTree, text: fmt.Sprintf("more than %d trees to compare", maxTreeRequests)}
	}
	path, err := w.repo.path("git", "trees", sha)
	if err != nil {
		return nil, err
	}
	query := url.Values{}
	if recursive {
		query.Set("recursive", "1")
	}
	got, err := w.c.app.send(ctx, call{op: opTree, method: http.MethodGet, path: path, query: query, installation: w.c.installation, perms: w.c.perms})
	if err != nil {
		return nil, err
	}
	var tree github.Tree
	if err := json.Unmarshal(got.body, &tree); err != nil {
		return nil, malformed(opTree, errors.New("the tree cannot be read"))
	}
	for _, e := range tree.Entries {
		if e.GetPath() == "" || e.GetMode() == "" || !IsSHA(e.GetSHA()) || !slices.Contains([]string{"blob", "tree", "commit"}, e.GetType()) {
			return nil, malformed(opTree, errors.New("an entry of the tree has no path, mode, type or object id"))
		}
	}
	return &tree, nil
}
