package policy

import (
	"cmp"
	"slices"
	"strings"
)

// maxListedRejections bounds how many rejected approvals one group lists.
const maxListedRejections = 20

// candidate is one approval that could count for a group.
type candidate struct {
	who    Actor
	login  string
	review *opinion // nil for an author who counts as an owner
}

func (c candidate) bot() bool { return c.who.Type == ActorBot }

// candidates are the approvals of a pull request: the latest opinion of an
// actor where it approves, and the author where policy says so (RG-330,
// RG-337). People and Apps are apart, each sorted by login.
func (p *pullPlan) candidates() (people, apps []candidate) {
	for i := range p.opinions {
		o := &p.opinions[i]
		if o.state != "APPROVED" {
			continue
		}
		c := candidate{who: o.actor, login: o.login, review: o}
		if c.bot() {
			apps = append(apps, c)
		} else {
			people = append(people, c)
		}
	}
	author := p.pull.Author
	if p.base.rules.AllowAuthor && author != nil && author.Type == ActorUser {
		// One candidate a person: a review of their own, perhaps of an older
		// commit, adds nothing to what the author has anyway.
		people = slices.DeleteFunc(people, func(c candidate) bool { return c.who.ID == author.ID })
		people = append(people, candidate{who: *author, login: strings.ToLower(author.Login)})
		slices.SortStableFunc(people, func(a, b candidate) int { return strings.Compare(a.login, b.login) })
	}
	return people, apps
}

// judgement is one group being judged.
type judgement struct {
	e      *evaluation
	p      *pullPlan
	g      *group
	v      GroupVerdict
	unsure []standing
	// approvers and humans count accounts; candidates are distinct.
	approvers, humans int
	// unchanged remembers what contentStable found about an older head.
	unchanged map[string]standing
	// represented are the owners of allOf that somebody stands for.
	represented map[Owner]bool
}

// judge decides one group: who approved, who did not count and why, and what
// is missing. unsure holds the facts that are unknown and could have mattered.
func (e *evaluation) judge(p *pullPlan, g *group, people, apps []candidate) (GroupVerdict, []standing) {
	j := &judgement{e: e, p: p, g: g}
	j.v = GroupVerdict{
		Kind: g.kind, Name: g.name, Owners: ownerNames(g.owners), AllOf: ownerNames(g.allOf),
		Required: g.count, HumansRequired: g.humans, Files: j.files(), Approvals: e.scratch[:0],
	}
	j.judgePeople(people)
	covered := j.judgeApps(apps)
	j.v.Satisfied = j.satisfied(covered)
	e.scratch, j.v.Approvals = j.v.Approvals, slices.Clone(j.v.Approvals)
	slices.SortFunc(j.v.Approvals, func(a, b ApprovalVerdict) int {
		return cmp.Or(strings.Compare(strings.ToLower(a.Login), strings.ToLower(b.Login)), cmp.Compare(a.ReviewID, b.ReviewID))
	})
	slices.SortFunc(j.v.Rejected, func(a, b RejectedApproval) int {
		return cmp.Or(strings.Compare(a.Login, b.Login), strings.Compare(string(a.Code), string(b.Code)), strings.Compare(a.Reason, b.Reason))
	})
	j.v.Rejected = slices.Clip(j.v.Rejected[:min(len(j.v.Rejected), maxListedRejections)])
	if j.v.Satisfied || g.kind == GroupOptional {
		return j.v, nil
	}
	j.v.Delegates = j.delegates()
	j.explainMissing()
	return j.v, j.unsure
}

func (j *judgement) files() []FileVerdict {
	files := make([]FileVerdict, len(j.g.paths))
	for i, q := range j.g.paths {
		files[i] = FileVerdict{Path: q.path, RenamedTo: q.renamedTo, Line: q.owners.Line, Pattern: q.owners.Pattern, NonDelegable: q.barred}
	}
	return files
}

// judgePeople looks at every person's approval that the group's owners make
// plausible; others are never asked about.
func (j *judgement) judgePeople(people []candidate) {
	owners, hasTeam := j.g.owners, j.hasTeam()
	for _, c := range people {
		if !hasTeam && !slices.Contains(owners, Owner{Kind: OwnerUser, Name: c.login}) {
			continue
		}
		j.judgePerson(c, owners)
	}
}

// hasTeam reports whether an owner is a team that people can be members of.
func (j *judgement) hasTeam() bool {
	return slices.ContainsFunc(j.g.owners, func(o Owner) bool { return o.Kind == OwnerTeam })
}

func (j *judgement) judgePerson(c candidate, owners []Owner) {
	admitted := j.admissible(c)
	if admitted.answer == no {
		j.reject(c, admitted)
		return
	}
	via, stands := j.standsFor(c, owners)
	switch {
	case stands.answer == no:
		j.reject(c, stands)
	case stands.answer == unsure || admitted.answer == unsure:
		for _, s := range []standing{admitted, stands} {
			if s.answer == unsure {
				j.unsure = append(j.unsure, s)
				j.reject(c, s)
			}
		}
	default:
		j.represent(via...)
		j.approve(c, ownerNames(via), nil)
	}
}

// standsFor says for which of the owners a person stands; the standing is the
// best that was found, with the first reason where that is not yes.
func (j *judgement) standsFor(c candidate, owners []Owner) (via []Owner, best standing) {
	for _, o := range owners {
		if o.Kind == OwnerUser && o.Name != c.login {
			continue
		}
		s := j.e.humanFor(c.who, c.login, o)
		if s.answer == yes {
			via = append(via, o)
		}
		if s.answer > best.answer || best.reason == "" && best.answer == no {
			best = s
		}
	}
	return via, best
}

// admissible says whether an approval may count for the group at all, before
// anybody asks who gave it: the exact head or unchanged content, and no
// excluded author or pusher.
func (j *judgement) admissible(c candidate) standing {
	if s := j.excluded(c); s.answer != yes {
		return s
	}
	if c.review == nil || c.review.commitID == j.p.head {
		return eligible
	}
	return j.contentStable(c)
}

func (j *judgement) excluded(c candidate) standing {
	author := j.p.pull.Author
	if j.g.excludeAuthor && author != nil && author.ID == c.who.ID {
		return refuse(CodeExcludedAuthor, "%s is the author, and the policy excludes the author", c.login)
	}
	if !j.g.excludeLastPusher {
		return eligible
	}
	pusher := j.p.pull.LastPusher
	if pusher.State == FactMissing {
		want(&j.e.wants.pushers, j.p.pull.Number)
	}
	switch {
	case pusher.State == FactPresent && pusher.Actor != nil && pusher.Actor.ID > 0:
		if pusher.Actor.ID == c.who.ID {
			return refuse(CodeExcludedLastPusher, "%s pushed the head last, and the policy excludes that person", c.login)
		}
		return eligible
	case pusher.State == FactAbsent:
		return unknownStanding("GitHub does not say who pushed the head last, and the policy excludes that person; push again")
	default:
		return unknownStanding("who pushed the head last could not be read")
	}
}

func (j *judgement) reject(c candidate, s standing) {
	if s.reason == "" {
		return
	}
	j.v.Rejected = append(j.v.Rejected, RejectedApproval{Login: c.login, Code: s.code, Reason: s.reason})
}

func (j *judgement) approve(c candidate, via, paths []string) {
	a := ApprovalVerdict{Login: c.who.Login, Bot: c.bot(), Via: via, Paths: paths, Author: c.review == nil}
	if c.review != nil {
		a.ReviewID, a.CommitID = c.review.reviewID, c.review.commitID
		a.ContentStable = c.review.commitID != j.p.head
	}
	j.v.Approvals = append(j.v.Approvals, a)
	if len(paths) > 0 {
		return // an App that covers a part is no approver of the whole
	}
	j.approvers++
	if !c.bot() {
		j.humans++
	}
}

// represent notes that somebody stands for owners, where that matters.
func (j *judgement) represent(owners ...Owner) {
	if len(j.g.allOf) == 0 {
		return
	}
	if j.represented == nil {
		j.represented = map[Owner]bool{}
	}
	for _, o := range owners {
		j.represented[o] = true
	}
}

func (j *judgement) satisfied(covered bool) bool {
	g := j.g
	for _, o := range g.allOf {
		if !j.represented[o] {
			return false
		}
	}
	switch g.kind {
	case GroupOwners:
		return j.humans > 0 || covered
	case GroupOptional:
		return j.approvers > 0
	}
	return j.approvers >= g.count && j.humans >= g.humans
}

// explainMissing fills Missing and NextStep of a group that is not satisfied.
func (j *judgement) explainMissing() {
	g := j.g
	files := j.v.Files[0].Path
	if n := len(j.v.Files) - 1; n > 0 {
		files += " and " + count(n, "more file")
	}
	files = clip(files, 200)
	switch {
	case len(g.owners) == 0:
		j.v.Missing = "these paths have no owner who could approve them"
		j.v.NextStep = message("give %s an owner in CODEOWNERS, or name who may approve with \"from\" in the requirement %q", files, g.name)
		return
	case len(g.allOf) > 0:
		var missing []string
		for _, o := range g.allOf {
			if !j.represented[o] {
				missing = append(missing, o.String())
			}
		}
		slices.Sort(missing)
		j.v.Missing = message("an approval of each of %s", strings.Join(missing, ", "))
		j.v.NextStep = message("%s must each approve %s", strings.Join(missing, " and "), files)
		if len(missing) == 1 {
			j.v.Missing = message("an approval of %s", missing[0])
			j.v.NextStep = message("%s must approve %s", missing[0], files)
		}
		return
	}
	lack := max(g.count-j.approvers, 0)
	lackHumans := max(g.humans-j.humans, 0)
	lack = max(lack, lackHumans, 1)
	who := listOr(j.v.Owners, 5)
	j.v.Missing = message("%s of %s", count(lack, "approval"), who)
	j.v.NextStep = message("%s must approve %s", who, files)
	if g.count > 1 || g.humans > 0 {
		j.v.Missing = message("%s of %s (has %d of %d)", count(lack, "approval"), who, j.approvers, g.count)
		j.v.NextStep = message("%s of %s must approve %s", count(lack, "more approver"), who, files)
		if lackHumans == lack {
			j.v.Missing += ", by people and not Apps"
		}
	}
}
