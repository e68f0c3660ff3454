package policy

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// MarshalCanonical gives the one JSON form of v: the fields in the order of
// the schema, no insignificant space, UTF-8, no trailing newline.
func (v Verdict) MarshalCanonical() []byte {
	if v.Codes == nil {
		v.Codes = []Code{}
	}
	if v.Pulls == nil {
		v.Pulls = []PullVerdict{}
	}
	return marshal(v)
}

// MarshalCanonical gives the one JSON form of s, whatever the order of its
// collections was (I8); DecodeSnapshot reads it back, and Evaluate decides the
// same from it (I9).
func (s Snapshot) MarshalCanonical() []byte { return marshal(s.normalized()) }

// Digest is "sha256:" and the hexadecimal digest of s.MarshalCanonical().
func Digest(s Snapshot) string {
	sum := sha256.Sum256(s.MarshalCanonical())
	return "sha256:" + hex.EncodeToString(sum[:])
}

// marshal cannot fail: the types hold nothing that JSON cannot say.
func marshal(v any) []byte {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		panic(fmt.Sprintf("policy: marshal %T: %v", v, err))
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// normalized is s with every collection in its fixed order and every time in
// UTC. It shares nothing that it changes with s.
func (s Snapshot) normalized() Snapshot {
	s.Now = s.Now.UTC()
	s.Pulls = slices.Clone(s.Pulls)
	slices.SortStableFunc(s.Pulls, func(a, b PullRequest) int { return cmp.Compare(a.Number, b.Number) })
	for i := range s.Pulls {
		s.Pulls[i] = s.Pulls[i].normalized()
	}
	if s.Pulls == nil {
		s.Pulls = []PullRequest{}
	}
	s.Unreadable = slices.Clone(s.Unreadable)
	slices.SortFunc(s.Unreadable, func(a, b Unreadable) int { return byText(a, b) })
	bases := make(map[string]Base, len(s.Bases))
	for sha, b := range s.Bases {
		b.CodeownersErrors.Items = b.CodeownersErrors.sorted()
		bases[sha] = b
	}
	s.Bases = bases
	s.MergeGroup = s.MergeGroup.normalized()
	return s
}

func (p PullRequest) normalized() PullRequest {
	p.Labels = slices.Clone(p.Labels)
	slices.Sort(p.Labels)
	if p.Labels == nil {
		p.Labels = []string{}
	}
	p.Files.Items = sortedFiles(p.Files.Items)
	older := make(map[string]FileList, len(p.OlderHeads))
	for sha, list := range p.OlderHeads {
		list.Items = sortedFiles(list.Items)
		older[sha] = list
	}
	p.OlderHeads = older
	p.BaseChange.At = utc(p.BaseChange.At)
	p.Reviews.Items = slices.Clone(p.Reviews.Items)
	for i := range p.Reviews.Items {
		p.Reviews.Items[i].SubmittedAt = utc(p.Reviews.Items[i].SubmittedAt)
	}
	slices.SortFunc(p.Reviews.Items, func(a, b Review) int {
		if c := cmp.Compare(a.ID, b.ID); c != 0 {
			return c
		}
		return byText(a, b)
	})
	p.Comments.Items = slices.Clone(p.Comments.Items)
	for i := range p.Comments.Items {
		c := &p.Comments.Items[i]
		c.CreatedAt, c.UpdatedAt = c.CreatedAt.UTC(), c.UpdatedAt.UTC()
	}
	slices.SortFunc(p.Comments.Items, func(a, b Comment) int {
		if c := cmp.Compare(a.ID, b.ID); c != 0 {
			return c
		}
		return byText(a, b)
	})
	return p
}

// byText orders elements that have one key: they contradict each other, but
// their order must not matter either.
func byText(a, b any) int { return bytes.Compare(marshal(a), marshal(b)) }

// utc keeps the zero time the zero time, so that omitzero still drops it.
func utc(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC()
}

func sortedFiles(files []ChangedFile) []ChangedFile {
	files = slices.Clone(files)
	slices.SortFunc(files, func(a, b ChangedFile) int {
		if c := strings.Compare(a.Path, b.Path); c != 0 {
			return c
		}
		return byText(a, b)
	})
	return files
}

func (l CodeownersErrorList) sorted() []CodeownersError {
	items := slices.Clone(l.Items)
	slices.SortFunc(items, func(a, b CodeownersError) int {
		if c := cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column)); c != 0 {
			return c
		}
		return byText(a, b)
	})
	return items
}
