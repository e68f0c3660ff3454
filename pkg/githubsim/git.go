package githubsim

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // git's object ids are SHA-1
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"
)

// objects is the git object store, shared by all repositories. Objects are
// immutable and never removed, so a head that was force-pushed away can still be
// read and pushed back to.
type objects struct {
	blobs   map[string][]byte
	trees   map[string][]treeEntry
	commits map[string]*commit
	bases   map[[2]string]string       // merge base cache
	diffs   map[[2]string][]fileChange // see diff
}

type treeEntry struct {
	name, mode, sha string
}

func (e treeEntry) isTree() bool { return e.mode == "40000" }

type commit struct {
	sha, tree string
	parents   []string
	message   string
	author    string // name; login of the account
	email     string
	when      time.Time
	depth     int // 1 + the largest depth of a parent: prunes ancestor walks
}

func newObjects() *objects {
	return &objects{blobs: map[string][]byte{}, trees: map[string][]treeEntry{}, commits: map[string]*commit{}, bases: map[[2]string]string{}, diffs: map[[2]string][]fileChange{}}
}

func objectID(kind string, content []byte) string {
	h := sha1.New() //nolint:gosec // see import
	fmt.Fprintf(h, "%s %d\x00", kind, len(content))
	h.Write(content)
	return hex.EncodeToString(h.Sum(nil))
}

func (o *objects) putBlob(content []byte) string {
	sha := objectID("blob", content)
	if _, ok := o.blobs[sha]; !ok {
		o.blobs[sha] = bytes.Clone(content)
	}
	return sha
}

func (o *objects) putTree(entries []treeEntry) string {
	sort.Slice(entries, func(i, j int) bool { return treeOrder(entries[i]) < treeOrder(entries[j]) })
	var b bytes.Buffer
	for _, e := range entries {
		raw, _ := hex.DecodeString(e.sha)
		fmt.Fprintf(&b, "%s %s\x00", e.mode, e.name)
		b.Write(raw)
	}
	sha := objectID("tree", b.Bytes())
	if _, ok := o.trees[sha]; !ok {
		o.trees[sha] = slices.Clone(entries)
	}
	return sha
}

// treeOrder is git's: a directory sorts as if its name ended in a slash.
func treeOrder(e treeEntry) string {
	if e.isTree() {
		return e.name + "/"
	}
	return e.name
}

func (o *objects) putCommit(c commit) *commit {
	var b strings.Builder
	fmt.Fprintf(&b, "tree %s\n", c.tree)
	for _, p := range c.parents {
		fmt.Fprintf(&b, "parent %s\n", p)
		c.depth = max(c.depth, o.commits[p].depth)
	}
	c.depth++
	stamp := strconv.FormatInt(c.when.Unix(), 10) + " +0000"
	fmt.Fprintf(&b, "author %s <%s> %s\ncommitter %s <%s> %s\n\n%s", c.author, c.email, stamp, c.author, c.email, stamp, c.message)
	c.sha = objectID("commit", []byte(b.String()))
	if old, ok := o.commits[c.sha]; ok {
		return old
	}
	o.commits[c.sha] = &c
	return &c
}

// write returns the tree that results from putting files into a tree. A file
// whose content is Deleted is removed; a directory left empty disappears.
func (o *objects) write(tree string, files map[string]string) string {
	type dirChange struct{ files map[string]string }
	entries := map[string]treeEntry{}
	for _, e := range o.trees[tree] {
		entries[e.name] = e
	}
	below := map[string]dirChange{}
	for path, content := range files {
		first, rest, nested := strings.Cut(path, "/")
		if nested {
			if below[first].files == nil {
				below[first] = dirChange{files: map[string]string{}}
			}
			below[first].files[rest] = content
			continue
		}
		if content == Deleted {
			delete(entries, path)
			continue
		}
		entries[path] = fileEntry(path, o, content)
	}
	for dir, change := range below {
		old := ""
		if e, ok := entries[dir]; ok && e.isTree() {
			old = e.sha
		}
		sub := o.write(old, change.files)
		if len(o.trees[sub]) == 0 {
			delete(entries, dir)
			continue
		}
		entries[dir] = treeEntry{name: dir, mode: "40000", sha: sub}
	}
	return o.putTree(slices.Collect(maps.Values(entries)))
}

func fileEntry(name string, o *objects, content string) treeEntry {
	mode := "100644"
	if rest, ok := strings.CutPrefix(content, executableMark); ok {
		mode, content = "100755", rest
	}
	if target, ok := strings.CutPrefix(content, symlinkMark); ok {
		mode, content = "120000", target
	}
	if sha, ok := strings.CutPrefix(content, submoduleMark); ok {
		return treeEntry{name: name, mode: "160000", sha: sha}
	}
	return treeEntry{name: name, mode: mode, sha: o.putBlob([]byte(content))}
}

// lookup finds the entry at a path; the empty path is the tree itself.
func (o *objects) lookup(tree, path string) (treeEntry, bool) {
	at := treeEntry{mode: "40000", sha: tree}
	if path == "" {
		return at, true
	}
	for _, name := range strings.Split(path, "/") {
		if !at.isTree() {
			return treeEntry{}, false
		}
		i := slices.IndexFunc(o.trees[at.sha], func(e treeEntry) bool { return e.name == name })
		if i < 0 {
			return treeEntry{}, false
		}
		at = o.trees[at.sha][i]
	}
	return at, true
}

// walk visits every entry below a tree in git's order, directories first
// before what they hold. It stops when visit answers false.
func (o *objects) walk(tree, prefix string, visit func(path string, e treeEntry) bool) bool {
	for _, e := range o.trees[tree] {
		path := prefix + e.name
		if !visit(path, e) {
			return false
		}
		if e.isTree() && !o.walk(e.sha, path+"/", visit) {
			return false
		}
	}
	return true
}

// ancestor reports whether a is b or an ancestor of b.
func (o *objects) ancestor(a, b string) bool {
	want := o.commits[a]
	if want == nil || o.commits[b] == nil {
		return false
	}
	seen := map[string]bool{}
	queue := []string{b}
	for len(queue) > 0 {
		at := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		if at == a {
			return true
		}
		if seen[at] || o.commits[at].depth <= want.depth {
			continue
		}
		seen[at] = true
		queue = append(queue, o.commits[at].parents...)
	}
	return false
}

// mergeBase is the best common ancestor of two commits, "" when there is none.
func (o *objects) mergeBase(a, b string) string {
	key := [2]string{a, b}
	if base, ok := o.bases[key]; ok {
		return base
	}
	ofA := map[string]bool{}
	o.eachAncestor(a, func(c *commit) bool { ofA[c.sha] = true; return true })
	var best *commit
	o.eachAncestor(b, func(c *commit) bool {
		if ofA[c.sha] {
			if best == nil || c.depth > best.depth || (c.depth == best.depth && c.sha < best.sha) {
				best = c
			}
			return false
		}
		return true
	})
	base := ""
	if best != nil {
		base = best.sha
	}
	o.bases[key] = base
	return base
}

// eachAncestor visits a commit and its ancestors; where visit answers false the
// parents of that commit are not followed.
func (o *objects) eachAncestor(sha string, visit func(*commit) bool) {
	seen := map[string]bool{}
	queue := []string{sha}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		c := o.commits[at]
		if c == nil || seen[at] {
			continue
		}
		seen[at] = true
		if visit(c) {
			queue = append(queue, c.parents...)
		}
	}
}

// commitsBetween lists what head has and base has not, oldest first.
func (o *objects) commitsBetween(base, head string) []*commit {
	ofBase := map[string]bool{}
	if mb := o.mergeBase(base, head); mb != "" {
		o.eachAncestor(mb, func(c *commit) bool { ofBase[c.sha] = true; return true })
	}
	var list []*commit
	o.eachAncestor(head, func(c *commit) bool {
		if ofBase[c.sha] || o.ancestor(c.sha, base) {
			return false
		}
		list = append(list, c)
		return true
	})
	sort.SliceStable(list, func(i, j int) bool { return list[i].depth < list[j].depth })
	return list
}
