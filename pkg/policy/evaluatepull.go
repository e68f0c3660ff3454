package policy

import (
	"slices"
	"time"
)

// evaluatePull decides one pull request by its own base and policy. unsettled
// means that an unknown fact could have changed a blocked verdict; due is when
// time alone changes it.
func (e *evaluation) evaluatePull(pull *PullRequest) (v PullVerdict, unsettled bool, due *time.Time) {
	p := e.plan(pull)
	v = PullVerdict{
		Number: pull.Number, Conclusion: ConclusionBlocked, Managed: p.base.managed,
		BaseRef: pull.BaseRef, BaseSHA: pull.BaseSHA, PolicyPath: p.base.policyPath, CodeownersPath: p.base.codeownersPath,
	}
	satisfied := true
	if p.base.rules != nil && p.base.rules.Enabled {
		e.limitLookups(p)
		satisfied, due = e.judgeGroups(p, &v)
		e.warnStale(p)
		e.warnApps(p, &v)
		if p.base.rules.Health {
			e.health(p)
		}
	}
	for i := range p.paths {
		if p.paths[i].set < 0 {
			v.Unowned = append(v.Unowned, p.paths[i].path)
		}
	}
	slices.SortFunc(p.findings, compareFindings)
	v.Findings = slices.Compact(p.findings)
	if !hasError(v.Findings) && satisfied {
		v.Conclusion = ConclusionApproved
	}
	v.NextStep = v.nextStep()
	unsettled = slices.ContainsFunc(v.Findings, func(f Finding) bool { return f.Code == CodeEvidenceUnknown })
	return v, unsettled, due
}

// judgeGroups judges every group and reports whether all that are required are
// satisfied, by their owners or by a break-glass release. A group that an
// unknown fact could have satisfied is an error of evidence, not a missing
// approval.
func (e *evaluation) judgeGroups(p *pullPlan, v *PullVerdict) (satisfied bool, due *time.Time) {
	people, apps := p.candidates()
	satisfied = true
	var doubts []standing
	for i := range p.groups {
		g := &p.groups[i]
		verdict, unsure := e.judgeMinimal(p, g, people, apps)
		v.Groups = append(v.Groups, verdict)
		if g.kind != GroupOptional && !verdict.Satisfied {
			satisfied = false
			doubts = append(doubts, unsure...)
		}
	}
	if satisfied {
		return true, nil
	}
	// A release replaces approvals and nothing else: where evidence itself is
	// at fault it is not even looked for.
	if p.base.rules.BreakGlass != nil && !p.blocked() {
		glass, unsure := e.breakGlass(p)
		v.BreakGlass = glass
		if !glass.ExpiresAt.IsZero() {
			due = &glass.ExpiresAt
		}
		if glass.Active {
			p.fail(warning(CodeBreakGlass, "", "released by break-glass until %s by %s, confirmed by %s: %s",
				glass.ExpiresAt.Format(time.RFC3339), glass.RequestedBy, glass.ConfirmedBy, glass.Reason))
			return true, due
		}
		doubts = append(doubts, unsure...)
	}
	told := map[string]bool{}
	for _, s := range doubts {
		if !told[s.reason] {
			told[s.reason] = true
			p.fail(failure(CodeEvidenceUnknown, "", "%s; it is read again", s.reason))
		}
	}
	return false, due
}

// judgeMinimal judges a group and forgets which facts it looked for where it is
// satisfied without them: nothing rests on those.
func (e *evaluation) judgeMinimal(p *pullPlan, g *group, people, apps []candidate) (GroupVerdict, []standing) {
	outer := e.wants
	e.wants = &wantSet{}
	verdict, unsure := e.judge(p, g, people, apps)
	if !verdict.Satisfied {
		outer.add(e.wants)
	}
	e.wants = outer
	return verdict, unsure
}

// limitLookups is RG-351: approvals × teams that would have to be looked up.
func (e *evaluation) limitLookups(p *pullPlan) {
	teams := map[Owner]bool{}
	for i := range p.groups {
		for _, o := range p.groups[i].owners {
			if _, ours := e.teamKey(o); ours && o.Kind == OwnerTeam {
				teams[o] = true
			}
		}
	}
	people, _ := p.candidates()
	approvals := 0
	for _, c := range people {
		if c.review == nil || c.review.commitID == p.head || p.base.rules.ContentStable {
			approvals++
		}
	}
	if n := approvals * len(teams); n > MaxTeamLookups {
		p.fail(failure(CodeEvidenceLimit, "", "%s of %s would need %d membership look-ups and at most %d are made; split the pull request",
			count(approvals, "approval"), count(len(teams), "team"), n, MaxTeamLookups))
		p.groups = nil
	}
}

// warnStale is RG-331's warning: approvals of an older commit.
func (e *evaluation) warnStale(p *pullPlan) {
	if p.base.rules.ContentStable {
		return // each group says whether the approval still counts for it
	}
	for i := range p.opinions {
		if o := &p.opinions[i]; o.state == "APPROVED" && o.commitID != p.head {
			p.fail(warning(CodeStaleApproval, o.login, "the approval of %s is for an older commit and no longer counts; ask for a new review", o.login))
		}
	}
}

// warnApps is RG-339's warning: an enrolled App whose identity does not hold.
func (e *evaluation) warnApps(p *pullPlan, v *PullVerdict) {
	told := map[string]bool{}
	for i := range v.Groups {
		for _, r := range v.Groups[i].Rejected {
			if r.Code == CodeAppIdentityMismatch && !told[r.Reason] {
				told[r.Reason] = true
				p.fail(warning(CodeAppIdentityMismatch, r.Login, "%s", r.Reason))
			}
		}
	}
}

// nothingNext is the next step of what is approved.
func nothingNext(b *BreakGlassVerdict) string {
	if b != nil && b.Active {
		return "nothing until " + b.ExpiresAt.Format(minuteFormat) + ", when the break-glass release ends"
	}
	return "nothing: every required approval is there"
}

// minuteFormat is how a moment reads in a title or a next step; always UTC.
const minuteFormat = "2006-01-02 15:04 UTC"

func (v *PullVerdict) nextStep() string {
	if v.Conclusion.Approved() {
		return nothingNext(v.BreakGlass)
	}
	for _, f := range v.Findings {
		if f.Severity == SeverityError {
			return f.Message
		}
	}
	for i := range v.Groups {
		if g := &v.Groups[i]; g.NextStep != "" {
			return g.NextStep
		}
	}
	return "nothing can be decided from this snapshot"
}
