package policy

import (
	"cmp"
	"fmt"
	"slices"
)

// MergeGroup says what a merge queue's group is made of. Its head is the head
// of no pull request; it is approved when every member is, each at the head
// that it has inside the group, by its own base and policy (architecture P13).
type MergeGroup struct {
	BaseRef string `json:"base_ref"`
	HeadRef string `json:"head_ref"`
	// State is FactPresent when Members is proved to be every pull request
	// between the base branch and the head. Anything else blocks.
	State FactState `json:"state,omitempty"`
	// Problem says why it is not, for the reader.
	Problem string `json:"problem,omitempty"`
	// Members are the pull requests of the group.
	Members []MergeGroupMember `json:"members,omitempty"`
	// QueueState is FactPresent when GitHub's merge queue could be read and
	// agreed. Otherwise the group's commits alone prove the members, and
	// QueueProblem says why.
	QueueState   FactState `json:"queue_state,omitempty"`
	QueueProblem string    `json:"queue_problem,omitempty"`
}

// MergeGroupMember is one pull request and the head that it has inside the
// group.
type MergeGroupMember struct {
	Number  int    `json:"number"`
	HeadSHA string `json:"head_sha"`
}

// MergeGroupVerdict is the group that a verdict is about.
type MergeGroupVerdict struct {
	BaseRef string             `json:"base_ref"`
	HeadRef string             `json:"head_ref"`
	Members []MergeGroupMember `json:"members,omitempty"`
}

// headOf is the commit that is judged for a pull request.
func (s *Snapshot) headOf(number int) string {
	if s.MergeGroup != nil {
		for _, m := range s.MergeGroup.Members {
			if m.Number == number {
				return m.HeadSHA
			}
		}
	}
	return s.HeadSHA
}

// checkMergeGroup finds what makes a group unusable: members that are not
// proved to be all, and a member that is not open at its head inside the
// group, on the group's base.
func (s *Snapshot) checkMergeGroup() []Finding {
	g := s.MergeGroup
	if g == nil {
		return nil
	}
	var out []Finding
	fail := func(code Code, format string, args ...any) { out = append(out, failure(code, "", format, args...)) }
	if g.State != FactPresent || len(g.Members) == 0 {
		problem := cmp.Or(g.Problem, "its pull requests could not be read in full")
		fail(CodeMergeGroupUnproved, "this merge group is not proved to hold only what was approved: %s", problem)
		return out
	}
	if g.BaseRef == "" || g.HeadRef == "" {
		fail(CodeMalformedEvidence, "the merge group has no base branch or no branch of its own")
	}
	seen := map[int]bool{}
	for _, m := range g.normalized().Members {
		switch i := slices.IndexFunc(s.Pulls, func(p PullRequest) bool { return p.Number == m.Number }); {
		case m.Number <= 0 || !isSHA(m.HeadSHA) || seen[m.Number]:
			fail(CodeMalformedEvidence, "member %d of the merge group is malformed, or in it twice", m.Number)
		case i < 0:
			fail(CodeMergeGroupMember, "pull request %d is in this merge group at commit %s and is not open there any more; add it to the queue again", m.Number, m.HeadSHA)
		case s.Pulls[i].HeadSHA != m.HeadSHA:
			fail(CodeMergeGroupMember, "pull request %d has moved to another commit since it was queued; add it to the queue again", m.Number)
		case s.Pulls[i].BaseRef != g.BaseRef:
			fail(CodeMergeGroupMember, "pull request %d goes into another branch than this merge group; add it to the right queue", m.Number)
		}
		seen[m.Number] = true
	}
	return out
}

// warnings tell of what could not be seen and does not decide.
func (g *MergeGroup) warnings() []Finding {
	if g == nil || g.QueueState == FactPresent {
		return nil
	}
	return []Finding{warning(CodeMergeQueueHidden, "", "GitHub's merge queue could not be read, so the members are proved by the group's commits alone: %s",
		cmp.Or(g.QueueProblem, "no reason was given"))}
}

func (g *MergeGroup) verdict() *MergeGroupVerdict {
	if g == nil {
		return nil
	}
	return &MergeGroupVerdict{BaseRef: g.BaseRef, HeadRef: g.HeadRef, Members: g.normalized().Members}
}

func (g *MergeGroup) normalized() *MergeGroup {
	if g == nil {
		return nil
	}
	out := *g
	out.Members = slices.Clone(g.Members)
	slices.SortFunc(out.Members, func(a, b MergeGroupMember) int {
		return cmp.Or(cmp.Compare(a.Number, b.Number), cmp.Compare(a.HeadSHA, b.HeadSHA))
	})
	return &out
}

// writeMergeGroup is the summary's part about a group: each member with its
// own result.
func writeMergeGroup(doc *document, v Verdict) {
	g := v.MergeGroup
	doc.blank()
	doc.line(fmt.Sprintf("This commit is a merge group of %s into %s. Each must be approved at its own head inside the group:", count(len(g.Members), "pull request"), code(g.BaseRef)))
	doc.blank()
	for _, m := range g.Members {
		i := slices.IndexFunc(v.Pulls, func(p PullVerdict) bool { return p.Number == m.Number })
		if i < 0 {
			doc.line(fmt.Sprintf("- %s pull request %d at %s: not judged", mark(false), m.Number, code(m.HeadSHA)))
			continue
		}
		p := &v.Pulls[i]
		doc.line(fmt.Sprintf("- %s pull request %d at %s: %s", mark(p.Conclusion.Approved()), m.Number, code(m.HeadSHA), prose(p.NextStep)))
	}
}
