package policy

import (
	"cmp"
	"slices"
	"strings"
)

// evaluation is one run over one snapshot.
type evaluation struct {
	s     *Snapshot
	wants *wantSet
	org   compiledOrganization
	bases map[string]*compiledBase
	// scratch is memory for one group's approvals while they are counted.
	scratch []ApprovalVerdict
}

// Needs says which facts are still missing from s. The caller reads them, puts
// each into s (with FactUnknown where GitHub settled nothing) and asks again
// until the answer is Empty; three rounds are always enough. It is pure and
// deterministic, and asks about a person only where an approval of theirs
// could count.
func Needs(s Snapshot) Requirements {
	_, wants := evaluate(&s)
	return wants.requirements()
}

// Evaluate decides. It is pure: no clock, no I/O, no order of collections, no
// state (RG-004, I8). A fact that is missing, unknown, stale or contradictory
// never turns into approval (RG-005…RG-008, I6).
func Evaluate(s Snapshot) Verdict {
	v, _ := evaluate(&s)
	return v
}

func evaluate(s *Snapshot) (Verdict, *wantSet) {
	e := &evaluation{s: s, wants: &wantSet{}, bases: map[string]*compiledBase{}}
	v := Verdict{Version: VerdictVersion, Conclusion: ConclusionBlocked, HeadSHA: s.HeadSHA, Repository: s.Repository.FullName}
	v.Findings = e.checkSnapshot()
	v.MergeGroup = s.MergeGroup.verdict()
	if len(v.Findings) == 0 {
		v.Findings = s.MergeGroup.warnings()
		e.org = compileOrganization(s.Repository, s.OrganizationPolicy)
		for _, pull := range sortedPulls(s.Pulls) {
			pv, unsettled, due := e.evaluatePull(pull)
			v.Pulls = append(v.Pulls, pv)
			v.Unsettled = v.Unsettled || unsettled
			v.Managed = v.Managed || pv.Managed
			if due != nil && (v.NextDue == nil || due.Before(*v.NextDue)) {
				v.NextDue = due
			}
		}
	} else {
		v.Unsettled = s.PullsState != FactPresent
		v.Managed = true
	}
	v.conclude()
	return v, e.wants
}

// checkSnapshot finds what makes the whole snapshot unusable.
func (e *evaluation) checkSnapshot() []Finding {
	s := e.s
	var out []Finding
	fail := func(code Code, format string, args ...any) { out = append(out, failure(code, "", format, args...)) }
	if s.Version != SnapshotVersion {
		fail(CodeUnsupportedSnapshot, "the snapshot has version %d and this build reads %d", s.Version, SnapshotVersion)
	}
	if s.Repository.ID <= 0 || !validRoute(s.Repository) || (s.Repository.OwnerType != "Organization" && s.Repository.OwnerType != "User") {
		fail(CodeMalformedEvidence, "the repository's id, name or owner is missing or malformed")
	}
	if !isSHA(s.HeadSHA) {
		fail(CodeMalformedEvidence, "the head commit is not 40 or 64 lower-case hexadecimal digits")
	}
	if s.Now.IsZero() {
		fail(CodeMalformedEvidence, "the snapshot has no time")
	}
	for i := range s.Unreadable {
		out = append(out, s.Unreadable[i].finding())
	}
	switch {
	case len(s.Unreadable) > 0: // what it leaves unknown needs no second reason
	case s.PullsState != FactPresent:
		fail(CodeEvidenceUnknown, "the open pull requests on this commit could not be listed in full; they are read again")
	case len(s.Pulls) == 0:
		fail(CodeNoPullRequest, "no open pull request has this commit as its head")
	}
	numbers := map[int]bool{}
	for i := range s.Pulls {
		if n := s.Pulls[i].Number; numbers[n] {
			fail(CodeContradictory, "pull request %d is in the snapshot twice", n)
		}
		numbers[s.Pulls[i].Number] = true
	}
	out = append(out, s.checkMergeGroup()...)
	slices.SortFunc(out, compareFindings)
	return slices.Compact(out)
}

func validRoute(r Repository) bool {
	owner, name, ok := strings.Cut(r.FullName, "/")
	return ok && owner != "" && name != "" && !strings.Contains(name, "/") && strings.EqualFold(owner, r.Owner)
}

func sortedPulls(pulls []PullRequest) []*PullRequest {
	out := make([]*PullRequest, len(pulls))
	for i := range pulls {
		out[i] = &pulls[i]
	}
	slices.SortFunc(out, func(a, b *PullRequest) int { return cmp.Compare(a.Number, b.Number) })
	return out
}

// base compiles what was read at a base commit, once a snapshot.
func (e *evaluation) base(sha string) *compiledBase {
	b := e.bases[sha]
	if b == nil {
		b = compileBase(e.s.Bases[sha], e.s.Settings.AllowInsecureChanges)
		e.bases[sha] = b
	}
	return b
}

// conclude derives the head's conclusion, codes and next step from its pull
// requests: all must be approved (D7).
func (v *Verdict) conclude() {
	approved := len(v.Pulls) > 0 && !hasError(v.Findings)
	missingOnly := !hasError(v.Findings)
	codes := map[Code]bool{}
	collect := func(findings []Finding) {
		for _, f := range findings {
			codes[f.Code] = true
		}
	}
	collect(v.Findings)
	for i := range v.Pulls {
		p := &v.Pulls[i]
		approved = approved && p.Conclusion.Approved()
		missingOnly = missingOnly && !hasError(p.Findings)
		v.BreakGlass = v.BreakGlass || (p.BreakGlass != nil && p.BreakGlass.Active)
		collect(p.Findings)
		if !p.Conclusion.Approved() && !hasError(p.Findings) {
			codes[CodeMissingApproval] = true
		}
	}
	if v.BreakGlass {
		codes[CodeBreakGlass] = true
	}
	if approved {
		v.Conclusion = ConclusionApproved
		v.Unsettled = false
		codes[CodeApproved] = true
	}
	v.MissingOnly = missingOnly && !approved
	v.NextStep = v.nextStep()
	v.Codes = sortedSet(codes, func(a, b Code) int { return strings.Compare(string(a), string(b)) })
}

func hasError(findings []Finding) bool {
	return slices.ContainsFunc(findings, func(f Finding) bool { return f.Severity == SeverityError })
}

func (v *Verdict) nextStep() string {
	if v.Conclusion.Approved() {
		for i := range v.Pulls {
			if b := v.Pulls[i].BreakGlass; b != nil && b.Active && b.ExpiresAt.Equal(*v.NextDue) {
				return nothingNext(b)
			}
		}
		return nothingNext(nil)
	}
	for _, f := range v.Findings {
		if f.Severity == SeverityError {
			return f.Message
		}
	}
	for i := range v.Pulls {
		if p := &v.Pulls[i]; !p.Conclusion.Approved() {
			if len(v.Pulls) > 1 {
				return message("pull request #%d: %s", p.Number, p.NextStep)
			}
			return p.NextStep
		}
	}
	return "nothing can be decided from this snapshot"
}
