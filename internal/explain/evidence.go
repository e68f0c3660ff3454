package explain

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/countersign/countersign/pkg/policy"
)

// Evidence is what a verdict rests on, as one list of facts.
type Evidence struct {
	// ReadAt is the moment of the snapshot by the database's clock: everything in it was read after the claim and before the
	// decision.
	ReadAt  time.Time `json:"read_at"`
	HeadSHA string    `json:"head_sha"`
	Digest  string    `json:"digest,omitempty"`
	Facts   []Fact    `json:"facts"`
}

// FactKind groups facts for a reader. The set is closed.
type FactKind string

// The kinds, in the order in which they are listed.
const (
	FactFile       FactKind = "file"        // CODEOWNERS and policy files
	FactPull       FactKind = "pull"        // base, head, labels, files of the pull request
	FactReview     FactKind = "review"      // a review, in whatever state
	FactTeam       FactKind = "team"        // a team's access
	FactMembership FactKind = "membership"  // a person in a team
	FactUser       FactKind = "user"        // a person's permission
	FactApp        FactKind = "app"         // an App's identity
	FactUnreadable FactKind = "unreadable"  // what GitHub refused to show
	FactGroup      FactKind = "merge_group" // the queue's group
)

// Fact is one thing that was read.
type Fact struct {
	Kind FactKind `json:"kind"`
	// Subject names what the fact is about and is the same in every decision; Says is what was found.
	Subject string `json:"subject"`
	Says    string `json:"says"`
	// At is GitHub's own time of it, where there is one: when a review was submitted.
	At time.Time `json:"at,omitzero"`
}

// EvidenceOf lists what a snapshot holds for one pull request of it. Other pull requests of the head are left out; what they share
// is not.
func EvidenceOf(s policy.Snapshot, number int) Evidence {
	e := Evidence{ReadAt: s.Now, HeadSHA: s.HeadSHA, Facts: []Fact{}}
	add := func(kind FactKind, subject, says string, at time.Time) {
		e.Facts = append(e.Facts, Fact{Kind: kind, Subject: subject, Says: says, At: at})
	}
	for _, u := range s.Unreadable {
		add(FactUnreadable, u.Subject, joined(string(u.Code), u.Detail), time.Time{})
	}
	if g := s.MergeGroup; g != nil {
		add(FactGroup, "merge group of "+g.BaseRef, "head "+s.HeadSHA, time.Time{})
	}
	for i := range s.Pulls {
		if p := &s.Pulls[i]; p.Number == number {
			addBase(add, s.Bases[p.BaseSHA])
			addPull(add, p)
		}
	}
	addFile(add, "organisation policy", s.OrganizationPolicy.Policy)
	addFile(add, "organisation policy (fallback)", s.OrganizationPolicy.FallbackPolicy)
	addPeople(add, s)
	return e
}

type adder func(kind FactKind, subject, says string, at time.Time)

func addBase(add adder, b policy.Base) {
	addFile(add, "CODEOWNERS", b.Codeowners)
	addFile(add, policy.PolicyPath, b.Policy)
	addFile(add, policy.FallbackPolicyPath, b.FallbackPolicy)
	for _, problem := range b.CodeownersErrors.Items {
		add(FactFile, "GitHub's errors of CODEOWNERS", joined("line "+number(problem.Line), problem.Kind), time.Time{})
	}
}

func addFile(add adder, what string, f policy.FileFact) {
	switch f.State {
	case policy.FactPresent:
		add(FactFile, what, joined(f.Path, number(strings.Count(f.Text, "\n")+1)+" lines, "+shortDigest(f.Text)), time.Time{})
	case policy.FactAbsent:
		add(FactFile, what, "there is none", time.Time{})
	case policy.FactUnknown:
		add(FactFile, what, "could not be read", time.Time{})
	case policy.FactMissing: // nobody asked
	}
}

func addPull(add adder, p *policy.PullRequest) {
	add(FactPull, "base", joined(p.BaseRef, p.BaseSHA), time.Time{})
	add(FactPull, "head", p.HeadSHA, time.Time{})
	add(FactPull, "author", actorName(p.Author), time.Time{})
	if p.Draft {
		add(FactPull, "draft", "yes", time.Time{})
	}
	labels := slices.Clone(p.Labels)
	slices.Sort(labels)
	add(FactPull, "labels", cmp.Or(strings.Join(labels, ", "), "none"), time.Time{})
	add(FactPull, "changed files", number(p.ChangedFiles), time.Time{})
	if p.LastPusher.State == policy.FactPresent {
		add(FactPull, "last pusher", actorName(p.LastPusher.Actor), time.Time{})
	}
	reviews := slices.Clone(p.Reviews.Items)
	slices.SortFunc(reviews, func(a, b policy.Review) int { return cmp.Compare(a.ID, b.ID) })
	for _, r := range reviews {
		says := r.State
		if r.CommitID != "" {
			says += " of commit " + r.CommitID
		}
		add(FactReview, "review "+number(int(r.ID))+" of "+actorName(r.Author), says, r.SubmittedAt)
	}
}

func addPeople(add adder, s policy.Snapshot) {
	for _, key := range slices.Sorted(maps.Keys(s.Teams)) {
		t := s.Teams[key]
		says := string(t.State)
		if t.State == policy.FactPresent {
			says = joined(t.Privacy, cmp.Or(t.Permission, "unknown")+" permission")
			if t.Members != nil && *t.Members >= 0 {
				says += ", " + number(*t.Members) + " members"
			}
		}
		add(FactTeam, "@"+key, cmp.Or(says, "not asked"), time.Time{})
	}
	for _, team := range slices.Sorted(maps.Keys(s.Memberships)) {
		for _, login := range slices.Sorted(maps.Keys(s.Memberships[team])) {
			add(FactMembership, login+" in @"+team, string(s.Memberships[team][login]), time.Time{})
		}
	}
	for _, login := range slices.Sorted(maps.Keys(s.Users)) {
		u := s.Users[login]
		says := string(u.State)
		if u.State == policy.FactPresent {
			says = cmp.Or(u.Permission, "unknown") + " permission"
		}
		add(FactUser, login, cmp.Or(says, "not asked"), time.Time{})
	}
	for _, login := range slices.Sorted(maps.Keys(s.Apps)) {
		a := s.Apps[login]
		says := string(a.State)
		if a.State == policy.FactPresent {
			says = joined(a.Type, "account "+number(int(a.ID)))
		}
		add(FactApp, login, cmp.Or(says, "not asked"), time.Time{})
	}
}
