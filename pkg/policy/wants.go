package policy

import (
	"cmp"
	"slices"
	"strings"
)

// wantSet records the facts that an evaluation looked for and did not find.
// Needs is an evaluation of which only this is kept, so that what is asked for
// is exactly what a verdict would rest on.
type wantSet struct {
	teams        map[TeamKey]bool
	sizes        map[TeamKey]bool
	members      map[MembershipKey]bool
	users        map[string]bool
	apps         map[string]bool
	comments     map[int]bool
	pushers      map[int]bool
	baseChanges  map[int]bool
	fileContents map[int]bool
	olderHeads   map[OlderHeadKey]bool
}

// want notes one fact in one of the sets.
func want[K comparable](set *map[K]bool, key K) {
	if *set == nil {
		*set = map[K]bool{}
	}
	(*set)[key] = true
}

// add takes over everything that another set wants.
func (w *wantSet) add(other *wantSet) {
	merge(&w.teams, other.teams)
	merge(&w.sizes, other.sizes)
	merge(&w.members, other.members)
	merge(&w.users, other.users)
	merge(&w.apps, other.apps)
	merge(&w.comments, other.comments)
	merge(&w.pushers, other.pushers)
	merge(&w.baseChanges, other.baseChanges)
	merge(&w.fileContents, other.fileContents)
	merge(&w.olderHeads, other.olderHeads)
}

func merge[K comparable](into *map[K]bool, from map[K]bool) {
	for key := range from {
		want(into, key)
	}
}

func (w *wantSet) requirements() Requirements {
	return Requirements{
		Teams: sortedSet(w.teams, compareTeams), TeamSizes: sortedSet(w.sizes, compareTeams),
		Memberships: sortedSet(w.members, func(a, b MembershipKey) int {
			return cmp.Or(compareTeams(a.Team, b.Team), strings.Compare(a.Login, b.Login))
		}),
		Users: sortedSet(w.users, strings.Compare), Apps: sortedSet(w.apps, strings.Compare),
		Comments: sortedSet(w.comments, cmp.Compare[int]), LastPushers: sortedSet(w.pushers, cmp.Compare[int]),
		BaseChanges: sortedSet(w.baseChanges, cmp.Compare[int]), FileContents: sortedSet(w.fileContents, cmp.Compare[int]),
		OlderHeads: sortedSet(w.olderHeads, func(a, b OlderHeadKey) int {
			return cmp.Or(cmp.Compare(a.Pull, b.Pull), strings.Compare(a.SHA, b.SHA))
		}),
	}
}

func compareTeams(a, b TeamKey) int {
	return cmp.Or(strings.Compare(a.Org, b.Org), strings.Compare(a.Slug, b.Slug))
}

func sortedSet[K comparable](set map[K]bool, compare func(a, b K) int) []K {
	if len(set) == 0 {
		return nil
	}
	keys := make([]K, 0, len(set))
	for k := range set {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, compare)
	return keys
}
