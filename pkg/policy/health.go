package policy

import "strings"

// health names owners of the touched paths that cannot do what CODEOWNERS
// expects of them, before that blocks somebody by surprise (policy
// ownership_health = true). It never changes a conclusion.
func (e *evaluation) health(p *pullPlan) {
	seen := map[Owner]bool{}
	for i := range p.groups {
		g := &p.groups[i]
		if g.kind != GroupOwners {
			continue
		}
		for _, o := range g.owners {
			if !seen[o] {
				seen[o] = true
				e.ownerHealth(p, o)
			}
		}
		e.soleOwnerHealth(p, g)
	}
}

func (e *evaluation) ownerHealth(p *pullPlan, o Owner) {
	switch o.Kind {
	case OwnerUser:
		fact := e.s.Users[o.Name]
		if fact.State == FactMissing {
			want(&e.wants.users, o.Name)
		}
		e.userHealth(p, o, fact)
	case OwnerTeam:
		key, ours := e.teamKey(o)
		if !ours {
			p.fail(warning(CodeForeignTeam, o.String(), "the owner %s belongs to another organisation and can never approve here; name a team of %s", o, e.s.Repository.Owner))
			return
		}
		fact := e.s.Teams[key.String()]
		if fact.State == FactMissing {
			want(&e.wants.teams, key)
		}
		if (fact.State == FactMissing || fact.State == FactPresent) && fact.Members == nil {
			want(&e.wants.sizes, key)
		}
		e.teamHealth(p, o, fact)
	}
}

func (e *evaluation) userHealth(p *pullPlan, o Owner, fact UserFact) {
	switch {
	case fact.State == FactAbsent:
		p.fail(warning(CodeOwnerUnresolved, o.String(), "the owner %s does not exist or has no access; correct CODEOWNERS", o))
	case fact.State != FactPresent:
		p.fail(notice(CodeOwnerHealthBlind, o.String(), "whether the owner %s can approve could not be read", o))
	case fact.Permission == "triage" || fact.Permission == "read" || fact.Permission == "none":
		p.fail(warning(CodeOwnerNoAccess, o.String(), "the owner %s has only %s permission and cannot approve; give write access or correct CODEOWNERS", o, fact.Permission))
	}
}

func (e *evaluation) teamHealth(p *pullPlan, o Owner, fact TeamFact) {
	s := teamStanding(o, fact)
	switch {
	case fact.State == FactAbsent:
		p.fail(warning(CodeOwnerUnresolved, o.String(), "the owner %s does not exist, or this App may not see it; correct CODEOWNERS or the App's access", o))
		return
	case s.answer == unsure:
		p.fail(notice(CodeOwnerHealthBlind, o.String(), "whether the owner %s can approve could not be read", o))
		return
	case s.code == CodeTeamSecret:
		p.fail(warning(CodeTeamSecret, o.String(), "the owner %s is a secret team and its members cannot approve; make the team visible", o))
	case s.code == CodeTeamReadOnly:
		p.fail(warning(CodeTeamReadOnly, o.String(), "the owner %s has no write access and its members cannot approve; give the team write access", o))
	}
	if fact.Members != nil && *fact.Members == 0 {
		p.fail(warning(CodeTeamEmpty, o.String(), "the owner %s has no members; add one or name another owner", o))
	}
}

// soleOwnerHealth warns of a set whose only owner is the author, who cannot
// review their own pull request on GitHub.
func (e *evaluation) soleOwnerHealth(p *pullPlan, g *group) {
	author := p.pull.Author
	if author == nil || len(g.owners) != 1 || p.base.rules.AllowAuthor {
		return
	}
	o, login := g.owners[0], strings.ToLower(author.Login)
	alone := o.Kind == OwnerUser && o.Name == login
	if key, ours := e.teamKey(o); o.Kind == OwnerTeam && ours {
		fact := e.s.Teams[key.String()]
		alone = fact.Members != nil && *fact.Members == 1 && e.s.Memberships[key.String()][login] == MembershipActive
	}
	if alone {
		p.fail(warning(CodeOnlyOwnerAuthor, o.String(), "the only owner of %s is the author, who cannot approve it; add another owner", g.paths[0].path))
	}
}

func notice(code Code, subject, format string, args ...any) Finding {
	return Finding{Severity: SeverityNotice, Code: code, Subject: clip(subject, MaxMessageChars), Message: message(format, args...)}
}
