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
		satisfied = e.judgeGroups(p, &v)
		e.warnStale(p)
		e.warnApps(p, &v)
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
	unsettled = !v.Conclusion.Approved() && slices.ContainsFunc(v.Findings, func(f Finding) bool { return f.Code == CodeEvidenceUnknown })
	return v, unsettled, due
}

// judgeGroups judges every group and reports whether all that are required are
// satisfied. A group that an unknown fact could have satisfied is an error of
// evidence, not a missing approval.
func (e *evaluation) judgeGroups(p *pullPlan, v *PullVerdict) bool {
	people, apps := p.candidates()
	satisfied := true
	for i := range p.groups {
		g := &p.groups[i]
		verdict, unsure := e.judge(p, g, people, apps)
		v.Groups = append(v.Groups, verdict)
		if g.kind == GroupOptional || verdict.Satisfied {
			continue
		}
		satisfied = false
		for _, s := range unsure {
			p.fail(failure(CodeEvidenceUnknown, "", "%s; it is read again", s.reason))
		}
	}
	return satisfied
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
		if c.review == nil || c.review.commitID == e.s.HeadSHA || p.base.rules.ContentStable {
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
		if o := &p.opinions[i]; o.state == "APPROVED" && o.commitID != e.s.HeadSHA {
			p.fail(warning(CodeStaleApproval, o.login, "the approval of %s is for an older commit and no longer counts; ask for a new review", o.login))
		}
	}
}

// warnApps is RG-339's warning: an enrolled App whose identity does not hold.
func (e *evaluation) warnApps(p *pullPlan, v *PullVerdict) {
	for i := range v.Groups {
		for _, r := range v.Groups[i].Rejected {
			if r.Code == CodeAppIdentityMismatch {
				p.fail(warning(CodeAppIdentityMismatch, r.Login, "%s", r.Reason))
			}
		}
	}
}

func (v *PullVerdict) nextStep() string {
	if v.Conclusion.Approved() {
		return "nothing: every required approval is there"
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
