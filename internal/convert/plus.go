package convert

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// plusRule is one line of a .codeowners file.
type plusRule struct {
	from   Source
	line   int
	mark   byte // 0, '&' or '?'
	class  int  // its rank among the rules of its directory: what is more exact wins
	depth  int
	order  int
	target string // the pattern as CODEOWNERS writes it
	owners []string
}

// The classes, in which codeowners-plus ranks rules: the last wins.
const (
	plusFallback = iota
	plusGlobstar
	plusWildcard
	plusFile
)

// plusSettings is codeowners.toml, as far as it says who must approve.
type plusSettings struct {
	MinReviews   *int           `toml:"min_reviews"`
	MaxReviews   *int           `toml:"max_reviews"`
	Unskippable  []string       `toml:"unskippable_reviewers"`
	Ignore       []string       `toml:"ignore"`
	NoSmart      *bool          `toml:"disable_smart_dismissal"`
	AllowSelf    *bool          `toml:"allow_self_approval"`
	BothBranches *bool          `toml:"require_both_branch_reviewers"`
	Enforcement  map[string]any `toml:"enforcement"`
	AdminBypass  map[string]any `toml:"admin_bypass"`
}

func fromCodeownersPlus(sources []Source, r *Result) (draft, error) {
	d := draft{codeowners: []string{}, contentStable: true, comments: []string{"CODEOWNERS has the rules with one owner set; additional reviewers (&) and optional ones (?) are requirements."}}
	var rules []plusRule
	var ignore []string
	for _, s := range sources {
		switch path.Base(s.Path) {
		case ".codeowners":
			rules = append(rules, plusRules(s, r, len(rules))...)
		case "codeowners.toml":
			var err error
			if ignore, err = plusToml(s, r, &d); err != nil {
				return d, err
			}
		default:
			return d, fmt.Errorf("%s is neither .codeowners nor codeowners.toml", s.Path)
		}
	}
	if len(rules) == 0 {
		return d, fmt.Errorf("no rule in any .codeowners file: name the files of every directory")
	}
	slices.SortStableFunc(rules, func(a, b plusRule) int {
		return cmp.Or(cmp.Compare(a.class, b.class), cmp.Compare(a.depth, b.depth), cmp.Compare(a.order, b.order))
	})
	for _, rule := range rules {
		rule.add(r, &d, ignore)
	}
	for _, dir := range ignore {
		d.codeowners = append(d.codeowners, dir)
	}
	r.note("the rules of all directories are one CODEOWNERS file now, the weaker first, because the last that matches decides")
	return d, nil
}

func plusRules(s Source, r *Result, order int) []plusRule {
	dir := strings.Trim(path.Dir(path.Clean("/"+s.Path)), "/")
	var rules []plusRule
	for i, text := range strings.Split(s.Text, "\n") {
		if at := strings.Index(text, "#"); at >= 0 {
			text = text[:at]
		}
		fields := strings.Fields(text)
		if len(fields) == 0 {
			continue
		}
		rule := plusRule{from: s, line: i + 1, order: order + i}
		if mark := fields[0]; mark == "&" || mark == "?" {
			rule.mark, fields = mark[0], fields[1:]
		} else if mark[0] == '&' || mark[0] == '?' {
			rule.mark, fields[0] = mark[0], mark[1:]
		}
		if len(fields) == 0 {
			r.lost(s.Path, rule.line, true, "an unfinished rule", "it names no path")
			continue
		}
		if dir != "" {
			rule.depth = strings.Count(dir, "/") + 1
		}
		var ok bool
		if rule.target, rule.class, ok = plusPattern(dir, fields[0]); !ok {
			r.lost(s.Path, rule.line, true, "the rule "+oneLine(fields[0]), "the pattern has no counterpart in CODEOWNERS; write the paths out")
			continue
		}
		bad := ""
		for _, name := range fields[1:] {
			owner, ok := ownerName(name)
			if !ok {
				bad = name
				break
			}
			rule.owners = append(rule.owners, owner)
		}
		if bad != "" {
			r.lost(s.Path, rule.line, true, "the rule "+oneLine(fields[0]), "%s is no owner; write @user or @org/team", oneLine(bad))
			continue
		}
		rules = append(rules, rule)
	}
	return rules
}

// plusPattern is a pattern that is relative to its directory, as CODEOWNERS writes it.
func plusPattern(dir, p string) (target string, class int, ok bool) {
	p = strings.TrimLeft(p, "/")
	if strings.ContainsAny(p, "[]{}\\!") {
		return "", 0, false
	}
	root := "/"
	if dir != "" {
		root = "/" + dir + "/"
	}
	switch {
	case p == "*" && dir == "":
		return "*", plusFallback, true
	case p == "*":
		return root, plusFallback, true
	case p == "**" || p == "**/*":
		return cmp.Or(strings.TrimSuffix(root, "/"), "") + "/**", plusGlobstar, true
	case strings.HasSuffix(p, "/**") && !strings.Contains(strings.TrimSuffix(p, "/**"), "*"):
		return root + strings.TrimSuffix(p, "**"), plusGlobstar, true
	case strings.HasSuffix(p, "/"):
		return root + p, plusGlobstar, true
	case strings.Contains(p, "**"):
		for part := range strings.SplitSeq(p, "/") {
			if strings.Contains(part, "**") && part != "**" {
				return "", 0, false
			}
		}
		return root + p, plusGlobstar, true
	case strings.ContainsAny(p, "*?"):
		return root + p, plusWildcard, true
	default:
		return root + p, plusFile, true
	}
}

func (rule plusRule) add(r *Result, d *draft, ignore []string) {
	what := fmt.Sprintf("the rule %s", rule.target)
	var exclude []string
	for _, dir := range ignore {
		exclude = append(exclude, dir)
	}
	switch {
	case rule.mark == 0:
		d.codeowners = append(d.codeowners, strings.TrimSpace(rule.target+" "+strings.Join(unique(rule.owners), " ")))
	case len(rule.owners) == 0:
		r.lost(rule.from.Path, rule.line, false, what, "an additional rule without a reviewer asks for nothing")
		return
	case rule.mark == '&':
		d.requirements = append(d.requirements, requirement{name: "also " + rule.target, paths: []string{rule.target}, exclude: exclude, from: rule.owners, count: 1})
	default:
		d.requirements = append(d.requirements, requirement{name: "for information: " + rule.target, paths: []string{rule.target}, exclude: exclude, opt: rule.owners})
	}
	r.carried(rule.from.Path, rule.line, "%s", what)
}

func plusToml(s Source, r *Result, d *draft) (ignore []string, err error) {
	var c plusSettings
	if err := toml.Unmarshal([]byte(s.Text), &c); err != nil {
		return nil, fmt.Errorf("%s is no settings file of codeowners-plus: %w", s.Path, err)
	}
	if c.MinReviews != nil && *c.MinReviews > 1 {
		d.requirements = append(d.requirements, requirement{name: fmt.Sprintf("at least %d reviews", *c.MinReviews), paths: []string{"*"}, count: min(*c.MinReviews, 50)})
		r.carried(s.Path, 0, "min_reviews")
		r.note("min_reviews counted all approvals of a pull request; here every owner set needs %d of its own, which is stricter", *c.MinReviews)
	} else if c.MinReviews != nil {
		r.carried(s.Path, 0, "min_reviews")
	}
	for _, dir := range c.Ignore {
		clean := strings.Trim(path.Clean("/"+dir), "/")
		if clean == "" || strings.ContainsAny(clean, "*?[]{}\\! \t") {
			r.lost(s.Path, 0, false, "ignore "+oneLine(dir), "it is no plain directory; its files go on needing their owners")
			continue
		}
		ignore = append(ignore, "/"+clean+"/")
		r.carried(s.Path, 0, "ignore %s", clean)
	}
	if c.NoSmart != nil {
		d.contentStable = !*c.NoSmart
		r.carried(s.Path, 0, "disable_smart_dismissal")
		if *c.NoSmart {
			r.note("codeowners-plus then keeps approvals over every push; here every push makes them stale. content_stable = true keeps them while what they are about is unchanged")
		}
	} else {
		r.note("smart dismissal is content_stable here: it compares the content of what the owners own, not the lines of the change")
	}
	if c.MaxReviews != nil {
		r.lost(s.Path, 0, false, "max_reviews", "no owner set is ever skipped; give wide changes an owner of their own in CODEOWNERS")
	}
	if len(c.Unskippable) > 0 {
		r.carried(s.Path, 0, "unskippable_reviewers (nobody is skipped)")
	}
	if c.AllowSelf != nil {
		d.allowAuthor = *c.AllowSelf
		r.carried(s.Path, 0, "allow_self_approval")
	}
	if c.BothBranches != nil && *c.BothBranches {
		r.lost(s.Path, 0, true, "require_both_branch_reviewers", "the rules at the base decide alone; the change of CODEOWNERS itself is approved by who owns that file")
	}
	if len(c.Enforcement) > 0 {
		r.lost(s.Path, 0, false, "enforcement", "Countersign never approves; it is a check that a ruleset requires")
	}
	if enabled, _ := c.AdminBypass["enabled"].(bool); enabled {
		r.lost(s.Path, 0, false, "admin_bypass", "there is no silent bypass: give a team [break_glass], which two people use in the open")
	}
	return ignore, nil
}
