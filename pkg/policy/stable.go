package policy

import (
	"slices"
	"strings"
)

// pathContent is what a pull request does to one path: the blob and mode
// before and after. Renames and copies are split into their paths, so that
// whether GitHub noticed a rename does not matter.
type pathContent struct {
	path          string
	set           int // owner set by the current CODEOWNERS (pullPlan.setOf)
	before, after *Blob
}

// contents is what a pull request does to every path, sorted, or why that is
// not known.
type contents struct {
	standing standing
	paths    []pathContent
	// bySet and selected index paths: by owner set, and by the requirement
	// that applies; made when first asked for.
	bySet    map[int][]int32
	selected map[*Requirement][]int32
}

// contentStable says whether an approval of an older head still counts for the
// group: the content that the group owns (path, mode, blob before and after)
// is the same at both heads, and the base branch was not changed since
// (policy [approvals] content_stable; D12). The default is no (RG-331).
func (j *judgement) contentStable(c candidate) standing {
	if !j.p.base.rules.ContentStable {
		return refuse(CodeStaleApproval, "%s approved an older commit", c.login)
	}
	sha := c.review.commitID
	if !isSHA(sha) {
		return refuse(CodeStaleApproval, "GitHub no longer knows which commit %s approved", c.login)
	}
	if s := j.baseUnchangedSince(c); s.answer == no {
		return s
	}
	older := j.olderContents(sha)
	current := j.currentContents()
	base := j.baseUnchangedSince(c)
	for _, s := range []standing{older.standing, current.standing, base} {
		if s.answer != yes {
			return s
		}
	}
	if _, known := j.unchanged[sha]; !known {
		if j.unchanged == nil {
			j.unchanged = map[string]standing{}
		}
		j.unchanged[sha] = eligible
		if path, same := j.sameContent(older, current); !same {
			j.unchanged[sha] = refuse(CodeContentChanged, "an older commit was approved, and %s changed since; a new review is needed", path)
		}
	}
	return j.unchanged[sha]
}

func (j *judgement) baseUnchangedSince(c candidate) standing {
	change := j.p.pull.BaseChange
	switch change.State {
	case FactAbsent:
		return eligible
	case FactPresent:
		if !change.At.IsZero() && c.review.at.After(change.At) {
			return eligible
		}
		return refuse(CodeStaleApproval, "the base branch was changed after %s approved; a new review is needed", c.login)
	case FactMissing:
		want(&j.e.wants.baseChanges, j.p.pull.Number)
		fallthrough
	default:
		return unknownStanding("when the base branch was last changed could not be read")
	}
}

// olderContents says that it wants what is missing each time it is asked, also where the contents were made before: the group that
// asked first may be satisfied without them, and what that one wanted is forgotten (judgeMinimal).
func (j *judgement) olderContents(sha string) *contents {
	list := j.p.pull.OlderHeads[sha]
	if list.State == FactMissing {
		want(&j.e.wants.olderHeads, OlderHeadKey{j.p.pull.Number, sha})
	}
	if have := j.p.older[sha]; have != nil {
		return have
	}
	var made *contents
	switch list.State {
	case FactAbsent:
		made = &contents{standing: refuse(CodeStaleApproval, "the approved commit is gone; a new review is needed")}
	case FactMissing:
		made = &contents{standing: unknownStanding("what the pull request changed at an older commit could not be read")}
	default:
		made = j.p.contentsOf(list)
	}
	if j.p.older == nil {
		j.p.older = map[string]*contents{}
	}
	j.p.older[sha] = made
	return made
}

func (j *judgement) currentContents() *contents {
	if j.p.pull.Files.ContentState == FactMissing {
		want(&j.e.wants.fileContents, j.p.pull.Number)
	}
	if j.p.current == nil {
		j.p.current = j.p.contentsOf(j.p.pull.Files)
	}
	return j.p.current
}

// contentsOf reduces a list of files to what happens to each path.
func (p *pullPlan) contentsOf(list FileList) *contents {
	incomplete := &contents{standing: unknownStanding("the content of the changed files could not be read in full")}
	if list.State != FactPresent || list.ContentState != FactPresent {
		return incomplete
	}
	paths := make([]pathContent, 0, len(list.Items)+len(list.Items)/16)
	for i := range list.Items {
		f := &list.Items[i]
		if fileFault(f) != "" {
			return incomplete
		}
		var ok bool
		if paths, ok = appendSides(paths, f); !ok {
			return incomplete
		}
	}
	byPath := func(a, b pathContent) int { return strings.Compare(a.path, b.path) }
	if !slices.IsSortedFunc(paths, byPath) {
		slices.SortFunc(paths, byPath) // sides of one path are merged, in any order
	}
	merged := paths[:0]
	for _, next := range paths {
		if n := len(merged); n > 0 && merged[n-1].path == next.path {
			if !merged[n-1].merge(next) {
				return incomplete
			}
			continue
		}
		merged = append(merged, next)
	}
	names := make([]string, len(merged))
	for i := range merged {
		names[i] = merged[i].path
	}
	for i, ownership := range p.base.codeowners.MatchAll(names) {
		merged[i].set = p.setOf(ownership)
	}
	return &contents{standing: eligible, paths: merged}
}

// appendSides splits a changed file into its paths; ok is false when a side
// that must exist is missing.
func appendSides(paths []pathContent, f *ChangedFile) (_ []pathContent, ok bool) {
	switch f.Status {
	case "unchanged":
		return paths, true
	case "added", "copied":
		return append(paths, pathContent{path: f.Path, after: f.After}), f.After != nil
	case "removed":
		return append(paths, pathContent{path: f.Path, before: f.Before}), f.Before != nil
	case "renamed":
		return append(paths, pathContent{path: f.PreviousPath, before: f.Before}, pathContent{path: f.Path, after: f.After}), f.Before != nil && f.After != nil
	default:
		return append(paths, pathContent{path: f.Path, before: f.Before, after: f.After}), f.Before != nil && f.After != nil
	}
}

// merge joins two sides of one path (the old path of a rename that is also a
// new file); false when they contradict each other.
func (c *pathContent) merge(other pathContent) bool {
	if (c.before != nil && other.before != nil) || (c.after != nil && other.after != nil) {
		return false
	}
	if c.before == nil {
		c.before = other.before
	}
	if c.after == nil {
		c.after = other.after
	}
	return true
}

// sameContent compares what the group owns at two heads; path is the first
// difference.
func (j *judgement) sameContent(older, current *contents) (path string, same bool) {
	olds, news := j.owned(older), j.owned(current)
	for i := range min(len(olds), len(news)) {
		a, b := &older.paths[olds[i]], &current.paths[news[i]]
		if a.path != b.path {
			return min(a.path, b.path), false
		}
		if !sameBlob(a.before, b.before) || !sameBlob(a.after, b.after) {
			return a.path, false
		}
	}
	switch {
	case len(olds) > len(news):
		return older.paths[olds[len(news)]].path, false
	case len(news) > len(olds):
		return current.paths[news[len(olds)]].path, false
	}
	return "", true
}

// owned indexes the paths that belong to the group, by the current CODEOWNERS.
func (j *judgement) owned(c *contents) []int32 {
	switch r := j.g.requirement; {
	case r == nil:
		return c.ofSet(j.g.set)
	case !j.g.perSet:
		return c.selectedBy(r, j.p.sets)
	default:
		var out []int32
		for _, i := range c.selectedBy(r, j.p.sets) {
			if c.paths[i].set == j.g.set {
				out = append(out, i)
			}
		}
		return out
	}
}

func (c *contents) ofSet(set int) []int32 {
	if c.bySet == nil {
		c.bySet = map[int][]int32{}
		for i := range c.paths {
			c.bySet[c.paths[i].set] = append(c.bySet[c.paths[i].set], int32(i))
		}
	}
	return c.bySet[set]
}

// selectedBy indexes the paths that a requirement applies to.
func (c *contents) selectedBy(r *Requirement, sets [][]Owner) []int32 {
	if have, ok := c.selected[r]; ok {
		return have
	}
	var out []int32
	selector := r.selector()
	for i := range c.paths {
		var owners []Owner
		if set := c.paths[i].set; set != unowned {
			owners = sets[set]
		}
		if selector.selects(c.paths[i].path, owners) {
			out = append(out, int32(i))
		}
	}
	if c.selected == nil {
		c.selected = map[*Requirement][]int32{}
	}
	c.selected[r] = out
	return out
}

func sameBlob(a, b *Blob) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b && a.SHA != "" && a.Mode != ""
}
