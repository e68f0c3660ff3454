package githubsim

import (
	"slices"
)

// RequiredCheck is a check that a branch demands.
type RequiredCheck struct {
	Branch, Context string
	AppID           int64 // 0: any App satisfies it
	Ruleset         bool  // by a ruleset instead of branch protection
}

// RequireCheck makes a branch demand a check, without an event. The stand-in's merges do not ask for it: it is there to be read.
func (s *Sim) RequireCheck(fullName string, check RequiredCheck) {
	s.build(func(m *mutation) {
		r := m.mustRepo(fullName)
		r.required = append(slices.Clone(r.required), check)
	})
}

func (r *repo) requires(branch string, ruleset bool) (list []RequiredCheck) {
	for _, c := range r.required {
		if c.Branch == branch && c.Ruleset == ruleset {
			list = append(list, c)
		}
	}
	return list
}

func (r *repo) protects(branch string) bool {
	return slices.ContainsFunc(r.required, func(c RequiredCheck) bool { return c.Branch == branch })
}

// protection is what GET branches/{branch} shows of it without administration rights.
func (r *repo) protection(branch string) obj {
	contexts, checks := []string{}, []obj{}
	for _, c := range r.requires(branch, false) {
		contexts = append(contexts, c.Context)
		checks = append(checks, obj{"context": c.Context, "app_id": idOrNil(c.AppID)})
	}
	level := "off"
	if len(checks) > 0 {
		level = "everyone"
	}
	return obj{"enabled": len(checks) > 0, "required_status_checks": obj{"enforcement_level": level, "contexts": contexts, "checks": checks}}
}

// branchRules lists the active rules of all rulesets that apply to a branch, whether it exists or not.
func branchRules(c *call) answer {
	list := []obj{}
	for i, one := range paginate(c, c.repo.requires(c.vars["branch"], true)) {
		check := obj{"context": one.Context}
		if one.AppID != 0 {
			check["integration_id"] = one.AppID
		}
		list = append(list, obj{
			"type": "required_status_checks", "ruleset_source_type": "Repository", "ruleset_source": c.w.fullName(c.repo), "ruleset_id": i + 1,
			"parameters": obj{"strict_required_status_checks_policy": false, "do_not_enforce_on_create": false, "required_status_checks": []obj{check}},
		})
	}
	return ok(list)
}
