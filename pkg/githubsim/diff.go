package githubsim

import (
	"bytes"
	"fmt"
	"slices"
	"sort"
	"strings"
)

// fileChange is one file of a comparison, with GitHub's words for its status.
type fileChange struct {
	path, previous       string
	status               string // added removed modified renamed
	oldSHA, newSHA       string
	additions, deletions int
	patch                string
}

// diffLimit is the number of comparisons that are remembered.
const diffLimit = 5000

// diff is changedFiles with lines counted. Trees never change, so neither does what
// lies between two of them: it is remembered, and callers must not write to it.
func (o *objects) diff(oldTree, newTree string) []fileChange {
	key := [2]string{oldTree, newTree}
	if known, ok := o.diffs[key]; ok {
		return known
	}
	changes := o.changedFiles(oldTree, newTree)
	for i := range changes {
		o.countLines(&changes[i])
	}
	if len(o.diffs) >= diffLimit {
		clear(o.diffs)
	}
	o.diffs[key] = changes
	return changes
}

// changedFiles compares two trees, detecting renames as git does: identical
// content first, then content that is at least half the same.
func (o *objects) changedFiles(oldTree, newTree string) []fileChange {
	var removed, added, changes []fileChange
	o.diffTrees(oldTree, newTree, "", func(path string, before, after treeEntry) {
		switch {
		case before.sha == "":
			added = append(added, fileChange{path: path, status: "added", newSHA: after.sha})
		case after.sha == "":
			removed = append(removed, fileChange{path: path, status: "removed", oldSHA: before.sha, newSHA: before.sha})
		default:
			changes = append(changes, fileChange{path: path, status: "modified", oldSHA: before.sha, newSHA: after.sha})
		}
	})
	added, removed, renamed := o.pairRenames(added, removed)
	changes = slices.Concat(changes, added, removed, renamed)
	sort.Slice(changes, func(i, j int) bool { return changes[i].path < changes[j].path })
	return changes
}

// diffTrees reports every file that differs, without descending into
// directories whose ids are equal.
func (o *objects) diffTrees(oldTree, newTree, prefix string, report func(path string, before, after treeEntry)) {
	if oldTree == newTree {
		return
	}
	before := map[string]treeEntry{}
	for _, e := range o.trees[oldTree] {
		before[e.name] = e
	}
	for _, e := range o.trees[newTree] {
		was := before[e.name]
		delete(before, e.name)
		o.diffEntry(prefix+e.name, was, e, report)
	}
	for _, name := range sortedKeys(before) {
		o.diffEntry(prefix+name, before[name], treeEntry{}, report)
	}
}

func (o *objects) diffEntry(path string, before, after treeEntry, report func(string, treeEntry, treeEntry)) {
	if before.sha == after.sha && before.mode == after.mode {
		return
	}
	oldSub, newSub := "", ""
	if before.isTree() {
		oldSub, before = before.sha, treeEntry{}
	}
	if after.isTree() {
		newSub, after = after.sha, treeEntry{}
	}
	if oldSub != "" || newSub != "" {
		o.diffTrees(oldSub, newSub, path+"/", report)
	}
	if before.sha != "" || after.sha != "" {
		report(path, before, after)
	}
}

// renameLimit is git's diff.renameLimit: above it only identical files pair.
const renameLimit = 1000

func (o *objects) pairRenames(added, removed []fileChange) (restAdded, restRemoved, renamed []fileChange) {
	byContent := map[string][]int{}
	for i, r := range removed {
		byContent[r.oldSHA] = append(byContent[r.oldSHA], i)
	}
	used := make([]bool, len(removed))
	pair := func(a fileChange, i int) {
		used[i] = true
		renamed = append(renamed, fileChange{path: a.path, previous: removed[i].path, status: "renamed", oldSHA: removed[i].oldSHA, newSHA: a.newSHA})
	}
	var open []fileChange
	for _, a := range added {
		if left := byContent[a.newSHA]; len(left) > 0 {
			byContent[a.newSHA] = left[1:]
			pair(a, left[0])
			continue
		}
		open = append(open, a)
	}
	for _, a := range open {
		best, at := 0.5, -1
		for i, r := range removed {
			if used[i] || len(open)*len(removed) > renameLimit*renameLimit {
				continue
			}
			if same := similarity(o.blobs[r.oldSHA], o.blobs[a.newSHA]); same >= best {
				best, at = same, i
			}
		}
		if at >= 0 {
			pair(a, at)
			continue
		}
		restAdded = append(restAdded, a)
	}
	for i, r := range removed {
		if !used[i] {
			restRemoved = append(restRemoved, r)
		}
	}
	return restAdded, restRemoved, renamed
}

// similarity is the share of lines that two files have in common.
func similarity(a, b []byte) float64 {
	la, lb := lines(a), lines(b)
	if len(la) == 0 || len(lb) == 0 {
		return 0
	}
	return float64(commonLines(la, lb)) / float64(max(len(la), len(lb)))
}

func lines(b []byte) []string {
	if len(b) == 0 {
		return nil
	}
	return strings.SplitAfter(strings.TrimSuffix(string(b), "\n"), "\n")
}

func commonLines(a, b []string) int {
	count := map[string]int{}
	for _, l := range a {
		count[strings.TrimSuffix(l, "\n")]++
	}
	common := 0
	for _, l := range b {
		if l = strings.TrimSuffix(l, "\n"); count[l] > 0 {
			count[l]--
			common++
		}
	}
	return common
}

// countLines fills additions, deletions and, for a small text file, a patch of
// one hunk that replaces what lies between the common beginning and end.
func (o *objects) countLines(c *fileChange) {
	var before, after []byte
	if c.status != "added" {
		before = o.blobs[c.oldSHA]
	}
	if c.status != "removed" {
		after = o.blobs[c.newSHA]
	}
	if bytes.IndexByte(before, 0) >= 0 || bytes.IndexByte(after, 0) >= 0 {
		return // binary: GitHub gives no patch and counts no lines
	}
	la, lb := lines(before), lines(after)
	common := commonLines(la, lb)
	c.additions, c.deletions = len(lb)-common, len(la)-common
	if len(before)+len(after) < 20_000 && !bytes.Equal(before, after) {
		c.patch = hunk(la, lb)
	}
}

func hunk(a, b []string) string {
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	var out strings.Builder
	fmt.Fprintf(&out, "@@ -%d,%d +%d,%d @@", head+1, len(a)-head-tail, head+1, len(b)-head-tail)
	for _, l := range a[head : len(a)-tail] {
		out.WriteString("\n-" + strings.TrimSuffix(l, "\n"))
	}
	for _, l := range b[head : len(b)-tail] {
		out.WriteString("\n+" + strings.TrimSuffix(l, "\n"))
	}
	return out.String()
}
