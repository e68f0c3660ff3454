package explain

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/countersign/countersign/pkg/policy"
)

// Change is one difference between two decisions.
type Change struct {
	// What is verdict, pull, group, approval, finding or a FactKind: what the change is in.
	What string `json:"what"`
	// Subject names the thing; Before and After are what was said of it, "" where it was not there.
	Subject string `json:"subject"`
	Before  string `json:"before"`
	After   string `json:"after"`
}

// Diff lists what differs between two decisions about one pull request: the verdict first, then the evidence that explains it.
// The same decision twice has no difference.
func Diff(before, after Decision) []Change {
	changes := compare("verdict", verdictLines(before), verdictLines(after))
	changes = append(changes, compare("group", groupLines(before.Pull), groupLines(after.Pull))...)
	changes = append(changes, compare("approval", approvalLines(before.Pull), approvalLines(after.Pull))...)
	changes = append(changes, compare("finding", findingLines(before), findingLines(after))...)
	for _, kind := range []FactKind{FactFile, FactPull, FactReview, FactTeam, FactMembership, FactUser, FactApp, FactUnreadable, FactGroup} {
		changes = append(changes, compare(string(kind), factLines(before, kind), factLines(after, kind))...)
	}
	return changes
}

// compare lists the subjects whose text differs, sorted.
func compare(what string, before, after map[string]string) []Change {
	subjects := map[string]bool{}
	for _, side := range []map[string]string{before, after} {
		for s := range side {
			subjects[s] = true
		}
	}
	var changes []Change
	for _, s := range slices.Sorted(maps.Keys(subjects)) {
		if before[s] != after[s] {
			changes = append(changes, Change{What: what, Subject: s, Before: before[s], After: after[s]})
		}
	}
	return changes
}

func verdictLines(d Decision) map[string]string {
	lines := map[string]string{"conclusion": string(d.Conclusion), "check": d.Check, "head": d.Head}
	if d.Pull != nil {
		lines["pull request "+number(d.Pull.Number)] = string(d.Pull.Conclusion)
		lines["next step"] = d.Pull.NextStep
	}
	if d.Problem != "" {
		lines["unreadable"] = d.Problem
	}
	return lines
}

// GroupName names a group in words that stay the same while the group does.
func GroupName(g *policy.GroupVerdict) string {
	if g.Kind == policy.GroupOwners {
		return "owners " + cmp.Or(strings.Join(g.Owners, " "), "nobody")
	}
	return string(g.Kind) + " " + g.Name
}

func groupLines(p *policy.PullVerdict) map[string]string {
	lines := map[string]string{}
	if p == nil {
		return lines
	}
	for i := range p.Groups {
		g := &p.Groups[i]
		says := "satisfied"
		if !g.Satisfied {
			says = "missing: " + g.Missing
		}
		lines[GroupName(g)] = says + ", " + number(len(g.Files)) + " files"
	}
	return lines
}

func approvalLines(p *policy.PullVerdict) map[string]string {
	lines := map[string]string{}
	if p == nil {
		return lines
	}
	for i := range p.Groups {
		g := &p.Groups[i]
		for _, a := range g.Approvals {
			lines[a.Login+" for "+GroupName(g)] = "counts as " + strings.Join(a.Via, ", ")
		}
		for _, r := range g.Rejected {
			lines[r.Login+" for "+GroupName(g)] = "does not count: " + r.Reason
		}
	}
	return lines
}

func findingLines(d Decision) map[string]string {
	lines := map[string]string{}
	add := func(list []policy.Finding) {
		for _, f := range list {
			lines[joined(string(f.Code), f.Subject)] = string(f.Severity) + ": " + f.Message
		}
	}
	add(d.Verdict.Findings)
	if d.Pull != nil {
		add(d.Pull.Findings)
	}
	return lines
}

func factLines(d Decision, kind FactKind) map[string]string {
	lines := map[string]string{}
	for _, f := range d.Evidence.Facts {
		if f.Kind == kind {
			subject := f.Subject
			if was, twice := lines[subject]; twice {
				lines[subject] = was + "; " + f.Says
				continue
			}
			lines[subject] = f.Says
		}
	}
	return lines
}
