package policy

import (
	"fmt"
	"slices"
	"strings"
)

// judgeApps reports whether Apps together cover every path (RG-340).
func (j *judgement) judgeApps(apps []candidate) bool {
	covered := map[string]bool{}
	for _, c := range apps {
		app, s := j.e.enrolledApp(c.who, c.login)
		if app == nil {
			if s.code != CodeAppNotEnrolled {
				j.reject(c, s)
			}
			continue
		}
		paths, why := j.appPaths(app.Alias, j.g.owners)
		if len(paths) == 0 {
			j.reject(c, refuse(CodeNotDelegated, "the App %s may not approve here: %s", app.Alias, why))
			continue
		}
		if !j.admitApp(c, app) {
			continue
		}
		for _, path := range paths {
			covered[path] = true
		}
		whole := paths
		if len(paths) == len(j.g.paths) {
			whole = nil
			j.representByApp(app.Alias)
		}
		j.approve(c, []string{app.Alias}, whole)
	}
	return len(covered) == len(j.g.paths)
}

// admitApp checks an App's review as such: unlike the delegation it does not
// depend on the paths.
func (j *judgement) admitApp(c candidate, app *EnrolledApp) bool {
	admitted := j.admissible(c)
	if admitted.answer == no {
		j.reject(c, admitted)
		return false
	}
	identity := j.e.appIdentity(app)
	if identity.answer == no {
		j.reject(c, identity)
		return false
	}
	ok := true
	for _, s := range []standing{admitted, identity} {
		if s.answer == unsure {
			j.unsure = append(j.unsure, s)
			j.reject(c, s)
			ok = false
		}
	}
	return ok
}

// appPaths are the paths of the group that an App may approve for owners, and
// why not the others (the first such reason).
func (j *judgement) appPaths(alias string, owners []Owner) (paths []string, why string) {
	for _, q := range j.g.paths {
		effective := owners
		if j.g.kind == GroupOwners {
			effective = q.owners.Owners
		}
		ok, reason := j.p.delegated(alias, q, effective)
		if ok {
			paths = append(paths, q.path)
			continue
		}
		// What a delegation asks for tells more than that there is none.
		if why == "" || strings.HasPrefix(why, noDelegation) && reason != noDelegation {
			why = fmt.Sprintf("%s (%s)", reason, q.path)
		}
	}
	return paths, clip(why, 300)
}

// representByApp lets an App stand for an owner of all_of only where its
// delegation covers every path for that very owner.
func (j *judgement) representByApp(alias string) {
	for _, o := range j.g.allOf {
		if paths, _ := j.appPaths(alias, []Owner{o}); len(paths) == len(j.g.paths) {
			j.represent(o)
		}
	}
}

// delegates says what each App with a delegation may do for the group.
func (j *judgement) delegates() []DelegateVerdict {
	if j.e.org.rules == nil {
		return nil
	}
	seen := map[string]bool{}
	var out []DelegateVerdict
	for i := range j.p.base.rules.Delegations {
		alias := j.p.base.rules.Delegations[i].App
		app, ok := j.e.org.rules.Apps[alias]
		if seen[alias] || !ok {
			continue
		}
		seen[alias] = true
		paths, why := j.appPaths(alias, j.g.owners)
		if len(paths) == 0 && strings.HasPrefix(why, noDelegation) {
			continue
		}
		out = append(out, DelegateVerdict{Alias: alias, Login: app.BotLogin(), Covers: len(paths), Why: why})
	}
	slices.SortFunc(out, func(a, b DelegateVerdict) int { return strings.Compare(a.Alias, b.Alias) })
	return out
}
