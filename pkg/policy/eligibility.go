package policy

import (
	"slices"
	"strings"
)

// answer is what evidence says to one question. The zero value says no.
type answer uint8

const (
	no answer = iota
	unsure
	yes
)

// standing is whether somebody may approve for an owner, and why not.
type standing struct {
	answer answer
	code   Code
	reason string
}

var eligible = standing{answer: yes}

func refuse(code Code, format string, args ...any) standing {
	return standing{answer: no, code: code, reason: message(format, args...)}
}

func unknownStanding(format string, args ...any) standing {
	return standing{answer: unsure, code: CodeEvidenceUnknown, reason: message(format, args...)}
}

// humanFor says whether a user stands for an owner now (RG-333…RG-335). Facts
// that are missing are recorded as wanted.
func (e *evaluation) humanFor(who Actor, login string, owner Owner) standing {
	switch owner.Kind {
	case OwnerUser:
		if owner.Name != login {
			return refuse(CodeNotEligible, "@%s is not %s", login, owner)
		}
		return e.userStanding(who, login)
	case OwnerTeam:
		return e.memberStanding(login, owner)
	default:
		return refuse(CodeEmailOwner, "an e-mail owner cannot be matched to a reviewer")
	}
}

func (e *evaluation) userStanding(who Actor, login string) standing {
	fact := e.s.Users[login]
	switch fact.State {
	case FactPresent:
	case FactAbsent:
		return refuse(CodeNotEligible, "@%s has no access to the repository", login)
	case FactMissing:
		want(&e.wants.users, login)
		fallthrough
	default:
		return unknownStanding("the permission of @%s on the repository could not be read", login)
	}
	if fact.ID != who.ID {
		return refuse(CodeContradictory, "@%s is now another account (%d) than the one that approved (%d)", login, fact.ID, who.ID)
	}
	switch fact.Permission {
	case "admin", "maintain", "write":
		return eligible
	case "triage", "read", "none":
		return refuse(CodeNotEligible, "@%s has only %s permission on the repository; write is needed", login, fact.Permission)
	default:
		return unknownStanding("the permission of @%s on the repository is not understood", login)
	}
}

func (e *evaluation) memberStanding(login string, team Owner) standing {
	key, ours := e.teamKey(team)
	if !ours {
		return refuse(CodeForeignTeam, "%s belongs to another organisation than the repository", team)
	}
	fact := e.s.Teams[key.String()]
	if fact.State == FactMissing {
		want(&e.wants.teams, key)
	}
	s := teamStanding(team, fact)
	if s.answer == no {
		return s
	}
	// Asked for together with the team: one round trip less. Who is no member
	// needs to know nothing about the team.
	switch e.membership(key, login) {
	case MembershipActive:
		return s
	case MembershipPending:
		return refuse(CodeNotEligible, "@%s has not accepted the invitation to %s", login, team)
	case MembershipNone:
		return refuse(CodeNotEligible, "@%s is not a member of %s", login, team)
	default:
		return unknownStanding("whether @%s is a member of %s could not be read", login, team)
	}
}

// membership reads one membership and records it as wanted where it is missing.
func (e *evaluation) membership(key TeamKey, login string) Membership {
	m := e.s.Memberships[key.String()][login]
	if m == "" {
		want(&e.wants.members, MembershipKey{key, login})
	}
	return m
}

// teamStanding says whether a team can own anything here (RG-334).
func teamStanding(team Owner, fact TeamFact) standing {
	switch fact.State {
	case FactPresent:
	case FactAbsent:
		return refuse(CodeNotEligible, "%s does not exist, or this App may not see it", team)
	default:
		return unknownStanding("%s could not be read", team)
	}
	switch fact.Privacy {
	case "closed":
	case "secret":
		return refuse(CodeTeamSecret, "%s is a secret team; GitHub accepts only visible teams as owners", team)
	default:
		return unknownStanding("whether %s is visible could not be read", team)
	}
	switch fact.Permission {
	case "admin", "maintain", "push":
		return eligible
	case "triage", "pull", "none":
		return refuse(CodeTeamReadOnly, "%s has no write access to the repository", team)
	default:
		return unknownStanding("the permission of %s on the repository could not be read", team)
	}
}

// teamKey splits a team's name; ours is false for a team that cannot own
// anything in this repository.
func (e *evaluation) teamKey(team Owner) (key TeamKey, ours bool) {
	org, slug, _ := strings.Cut(team.Name, "/")
	return TeamKey{Org: org, Slug: slug}, e.s.Repository.OwnerType == "Organization" && org == strings.ToLower(e.s.Repository.Owner)
}

// enrolledApp finds the enrolled App that a bot's review claims to come from.
// It is nil when the review is nobody's evidence (RG-338, RG-339).
func (e *evaluation) enrolledApp(who Actor, login string) (*EnrolledApp, standing) {
	if e.org.rules == nil {
		return nil, unknownStanding("the organisation policy could not be read")
	}
	for _, alias := range sortedKeys(e.org.rules.Apps) {
		app := e.org.rules.Apps[alias]
		switch {
		case app.BotUserID == who.ID && app.BotLogin() == login:
			return &app, eligible
		case app.BotUserID == who.ID || app.BotLogin() == login:
			return nil, refuse(CodeAppIdentityMismatch, "the review's account does not match the enrolled App %s; its review is ignored", app.Alias)
		}
	}
	return nil, refuse(CodeAppNotEnrolled, "%s is not enrolled in the organisation policy", login)
}

// appIdentity compares an enrolled App with the account that GitHub itself
// shows under its login, fetched independently of any review (RG-338).
func (e *evaluation) appIdentity(app *EnrolledApp) standing {
	fact := e.s.Apps[app.BotLogin()]
	switch fact.State {
	case FactPresent:
	case FactAbsent:
		return refuse(CodeAppIdentityMismatch, "GitHub knows no account of the enrolled App %s; its review is ignored", app.Alias)
	case FactMissing:
		want(&e.wants.apps, app.BotLogin())
		fallthrough
	default:
		return unknownStanding("the identity of the App %s could not be read", app.Alias)
	}
	if fact.ID != app.BotUserID || strings.ToLower(fact.Login) != app.BotLogin() || fact.Type != ActorBot {
		return refuse(CodeAppIdentityMismatch, "GitHub's account of the enrolled App %s is another one now; its review is ignored", app.Alias)
	}
	return eligible
}

const noDelegation = "no delegation covers the path"

// delegated says whether an App may stand in for owners on a path (RG-340…
// RG-344), and otherwise what keeps it out.
func (p *pullPlan) delegated(alias string, path *ownedPath, owners []Owner) (bool, string) {
	if path.barred != "" {
		return false, "the path is protected from Apps by " + path.barred
	}
	why := noDelegation
	for i := range p.base.rules.Delegations {
		d := &p.base.rules.Delegations[i]
		if d.App != alias || !p.covered(i, path) {
			continue
		}
		if reason := delegationGate(d, p.labels, owners); reason != "" {
			why = reason
			continue
		}
		return true, ""
	}
	return false, why
}

// delegationGate checks owners and labels of one entry; entries never combine
// (RG-341, RG-342).
func delegationGate(d *Delegation, labels map[string]bool, owners []Owner) string {
	if !d.AnyOwner && !slices.ContainsFunc(owners, func(o Owner) bool { return slices.Contains(d.ForOwners, o) }) {
		return "the delegation is for other owners"
	}
	for _, label := range d.RequiredLabels {
		if !labels[label] {
			return "the label " + label + " is missing"
		}
	}
	for _, label := range d.ForbiddenLabels {
		if labels[label] {
			return "the label " + label + " forbids it"
		}
	}
	return ""
}
