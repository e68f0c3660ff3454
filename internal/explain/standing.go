package explain

import (
	"cmp"
	"slices"
	"strings"

	"github.com/countersign/countersign/pkg/policy"
	"github.com/countersign/countersign/pkg/store"
)

// Standings is what a verdict says of each pull request at the snapshot's own head, for lists. A member of a merge group stands
// where its own head's verdict says, not the group's: it is left out.
func Standings(s policy.Snapshot, v policy.Verdict) []store.Standing {
	var standings []store.Standing
	for i := range v.Pulls {
		p := &v.Pulls[i]
		if !slices.ContainsFunc(s.Pulls, func(q policy.PullRequest) bool { return q.Number == p.Number && q.HeadSHA == s.HeadSHA }) {
			continue
		}
		st := store.Standing{Number: p.Number, State: stateOf(v, p), NextStep: p.NextStep}
		if len(v.Findings) > 0 && v.Findings[0].Severity == policy.SeverityError {
			st.NextStep = v.NextStep
		}
		if !p.Conclusion.Approved() {
			st.Waiting = waitingOf(s, p)
		}
		standings = append(standings, st)
	}
	return standings
}

// stateOf: a pull request is approved only where the whole head is, because the check is the head's (D7); what only lacks
// approvals is told from what has to be mended first.
func stateOf(v policy.Verdict, p *policy.PullVerdict) store.State {
	failed := func(list []policy.Finding) bool {
		return slices.ContainsFunc(list, func(f policy.Finding) bool { return f.Severity == policy.SeverityError })
	}
	switch {
	case failed(v.Findings) || failed(p.Findings):
		return store.StateBlocked
	case p.Conclusion.Approved() && p.BreakGlass != nil && p.BreakGlass.Active:
		return store.StateReleased
	case p.Conclusion.Approved():
		return store.StateApproved
	case slices.ContainsFunc(p.Groups, func(g policy.GroupVerdict) bool { return len(g.WaitsOn()) > 0 }):
		return store.StateMissing
	default:
		return store.StateBlocked
	}
}

func waitingOf(s policy.Snapshot, p *policy.PullVerdict) []store.WaitingOwner {
	files := map[string]map[string]bool{}
	for i := range p.Groups {
		g := &p.Groups[i]
		for _, owner := range g.WaitsOn() {
			name := strings.ToLower(owner)
			if files[name] == nil {
				files[name] = map[string]bool{}
			}
			for _, f := range g.Files {
				files[name][f.Path] = true
			}
		}
	}
	problems := problemsOf(s, files)
	var list []store.WaitingOwner
	for name, of := range files {
		list = append(list, store.WaitingOwner{Owner: name, Files: len(of), Problem: problems[name]})
	}
	slices.SortFunc(list, func(a, b store.WaitingOwner) int { return cmp.Compare(a.Owner, b.Owner) })
	return list
}

// problemsOf is ownership health as far as this evidence shows it; what was not asked is no problem.
func problemsOf(s policy.Snapshot, owners map[string]map[string]bool) map[string]string {
	var list []policy.Owner
	for name := range owners {
		if o, ok := policy.ParseOwner(name); ok {
			list = append(list, o)
		}
	}
	problems := map[string]string{}
	for _, f := range policy.OwnersHealth(s.Repository, list, s.Teams, s.Users) {
		if f.Code != policy.CodeOwnerHealthBlind {
			problems[strings.ToLower(f.Subject)] = string(f.Code)
		}
	}
	return problems
}
