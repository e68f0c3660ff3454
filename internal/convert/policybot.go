package convert

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A policy-bot file: a tree of rule names under policy.approval, and the rules.
type botFile struct {
	Policy struct {
		Approval    yaml.Node `yaml:"approval"`
		Disapproval yaml.Node `yaml:"disapproval"`
	} `yaml:"policy"`
	Rules    []botRule `yaml:"approval_rules"`
	Defaults struct {
		Options map[string]yaml.Node `yaml:"options"`
	} `yaml:"approval_defaults"`
	Remote string `yaml:"remote"`
}

type botRule struct {
	Name        string               `yaml:"name"`
	Description string               `yaml:"description"`
	If          map[string]yaml.Node `yaml:"if"`
	Options     map[string]yaml.Node `yaml:"options"`
	Requires    botRequires          `yaml:"requires"`
	line        int
}

type botRequires struct {
	Count         int                  `yaml:"count"`
	Users         []string             `yaml:"users"`
	Teams         []string             `yaml:"teams"`
	Organizations []string             `yaml:"organizations"`
	Permissions   []string             `yaml:"permissions"`
	Admins        bool                 `yaml:"admins"`
	Writers       bool                 `yaml:"write_collaborators"`
	Conditions    map[string]yaml.Node `yaml:"conditions"`
}

// UnmarshalYAML keeps where the rule stands.
func (b *botRule) UnmarshalYAML(n *yaml.Node) error {
	type plain botRule
	if err := n.Decode((*plain)(b)); err != nil {
		return err
	}
	b.line = n.Line
	return nil
}

// inherit takes the options that the file gives to every rule which does not say otherwise.
func (b *botRule) inherit(defaults map[string]yaml.Node) {
	for key, value := range defaults {
		if b.Options == nil {
			b.Options = map[string]yaml.Node{}
		}
		if _, said := b.Options[key]; !said {
			b.Options[key] = value
		}
	}
}

// botReader reads one file.
type botReader struct {
	path  string
	rules map[string]*botRule
	used  map[string]bool
	r     *Result
	d     *draft
}

func fromPolicyBot(sources []Source, r *Result) (draft, error) {
	d := draft{comments: []string{"CODEOWNERS decides who owns which path; these requirements add to it, as policy-bot's rules did."}}
	for _, s := range sources {
		var f botFile
		if err := yaml.Unmarshal([]byte(s.Text), &f); err != nil {
			return d, fmt.Errorf("%s is no policy of policy-bot: %w", s.Path, err)
		}
		if f.Remote != "" {
			r.lost(s.Path, 0, true, "a policy in another repository ("+oneLine(f.Remote)+")", "convert the file that it names, and put the result into each repository")
			continue
		}
		b := botReader{path: s.Path, rules: map[string]*botRule{}, used: map[string]bool{}, r: r, d: &d}
		for i := range f.Rules {
			f.Rules[i].inherit(f.Defaults.Options)
			b.rules[f.Rules[i].Name] = &f.Rules[i]
		}
		b.node(&f.Policy.Approval, "and")
		for i := range f.Rules {
			if rule := &f.Rules[i]; !b.used[rule.Name] {
				r.note("the rule %q is used by no policy and was left out", rule.Name)
			}
		}
		if f.Policy.Disapproval.Kind != 0 {
			r.lost(s.Path, f.Policy.Disapproval.Line, true, "disapproval", "a review that requests changes cancels that person's own approval only; require GitHub's own rule, or a label that a ruleset checks")
		}
	}
	r.note("policy-bot needs no CODEOWNERS; Countersign fails without one. Write one, if only with a comment in it, and the requirements below decide")
	return d, nil
}

// node reads a part of the tree: a name, a list, or {and: …}, {or: …}.
func (b *botReader) node(n *yaml.Node, join string) {
	switch n.Kind {
	case yaml.ScalarNode:
		b.rule(n.Value, n.Line)
	case yaml.SequenceNode:
		if join == "or" {
			b.or(n)
			return
		}
		for _, item := range n.Content {
			b.node(item, "and")
		}
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			b.node(n.Content[i+1], n.Content[i].Value)
		}
	case yaml.AliasNode:
		b.node(n.Alias, join)
	}
}

// rule carries one rule over that must hold.
func (b *botReader) rule(name string, line int) {
	rule := b.rules[name]
	if rule == nil {
		b.r.lost(b.path, line, true, fmt.Sprintf("the rule %q", name), "the file does not define it")
		return
	}
	b.used[name] = true
	q, ok := b.requirement(rule)
	if !ok {
		return
	}
	b.d.requirements = append(b.d.requirements, q)
	b.r.carried(b.path, rule.line, "the rule %q", name)
}

// or carries alternatives over as far as that only makes them stricter: those that name people are kept, for the same files as one
// requirement from all of them; the others are left out and told. It weakens only where nothing that is kept always applies.
func (b *botReader) or(n *yaml.Node) {
	if len(n.Content) == 1 {
		b.node(n.Content[0], "and")
		return
	}
	var kept []requirement
	var names [][]string
	var left []string
	for _, item := range n.Content {
		rule := b.rules[item.Value]
		if item.Kind != yaml.ScalarNode || rule == nil {
			left = append(left, "a combination of rules")
			b.use(item)
			continue
		}
		b.used[rule.Name] = true
		q, ok := b.alternative(rule)
		if !ok {
			left = append(left, "the rule "+strconv.Quote(rule.Name))
			continue
		}
		at := slices.IndexFunc(kept, func(k requirement) bool { return slices.Equal(k.paths, q.paths) && slices.Equal(k.exclude, q.exclude) })
		switch {
		case at < 0:
			kept, names = append(kept, q), append(names, []string{rule.Name})
		case kept[at].count == 1 && q.count == 1:
			kept[at].from = append(kept[at].from, q.from...)
			names[at] = append(names[at], rule.Name)
		default:
			left = append(left, "the rule "+strconv.Quote(rule.Name))
			continue
		}
		b.r.carried(b.path, rule.line, "the rule %q", rule.Name)
	}
	always := slices.ContainsFunc(kept, func(k requirement) bool { return slices.Equal(k.paths, []string{"*"}) && len(k.exclude) == 0 })
	for i, k := range kept {
		k.name = strings.Join(names[i], " or ")
		b.d.requirements = append(b.d.requirements, k)
	}
	if len(kept) > 1 {
		b.r.note("%s were alternatives and are each required now, for its own files", strings.Join(slices.Concat(names...), ", "))
	}
	for _, what := range left {
		b.r.lost(b.path, n.Line, !always, what+", an alternative (or)", "requirements are never alternatives. What passed by it alone needs the approvals of the others now, as far as one applies; give its paths to its people in CODEOWNERS, or name them in \"from\"")
	}
}

// use marks every rule below a node as spoken of.
func (b *botReader) use(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode {
		b.used[n.Value] = true
	}
	for _, below := range n.Content {
		b.use(below)
	}
}

// alternative is requirement for one of several: what it cannot say is told by or, once.
func (b *botReader) alternative(rule *botRule) (requirement, bool) {
	if rule.Requires.Count == 0 {
		return requirement{}, false
	}
	lost := len(b.r.Lost)
	q, ok := b.requirement(rule)
	if !ok {
		b.r.Lost = b.r.Lost[:lost]
	}
	return q, ok
}

// requirement is what a rule becomes; ok is false where it cannot be said, which is then in Lost.
func (b *botReader) requirement(rule *botRule) (requirement, bool) {
	what := fmt.Sprintf("the rule %q", rule.Name)
	q := requirement{name: rule.Name, paths: []string{"*"}, count: rule.Requires.Count}
	if len(rule.Requires.Conditions) > 0 {
		b.r.lost(b.path, rule.line, true, what, "it requires conditions such as a status or a label; require those checks in a ruleset")
		return q, false
	}
	if rule.Requires.Count > 50 || rule.Requires.Count < 0 {
		b.r.lost(b.path, rule.line, true, what, "it needs %d approvals, and at most 50 can be asked for", rule.Requires.Count)
		return q, false
	}
	if rule.Requires.Count == 0 {
		b.r.note("the rule %q needs nobody and was left out: what has no requirement and no owner passes", rule.Name)
		b.r.carried(b.path, rule.line, "%s (needs nobody)", what)
		return q, false
	}
	if !b.people(rule, what, &q) {
		return q, false
	}
	if !b.condition(rule, what, &q) {
		return q, false
	}
	b.options(rule, what, &q)
	return q, true
}

func (b *botReader) people(rule *botRule, what string, q *requirement) bool {
	for _, name := range slices.Concat(rule.Requires.Users, rule.Requires.Teams) {
		if strings.HasSuffix(name, "[bot]") {
			b.r.lost(b.path, rule.line, false, what+": the App "+oneLine(name), "enrol it in the organisation's policy and delegate paths to it")
			continue
		}
		owner, ok := ownerName("@" + name)
		if !ok {
			b.r.lost(b.path, rule.line, false, what+": "+oneLine(name), "it is neither a login nor org/team")
			continue
		}
		q.from = append(q.from, owner)
	}
	wide := len(rule.Requires.Organizations) > 0 || len(rule.Requires.Permissions) > 0 || rule.Requires.Admins || rule.Requires.Writers
	switch {
	case wide && len(q.from) > 0:
		b.r.lost(b.path, rule.line, false, what+": approval by an organisation's members or by permission", "only users and teams can be named; those that were named were kept, which is stricter. Make a team of the others")
	case wide:
		b.r.lost(b.path, rule.line, true, what, "who may approve is said by organisation or permission; make a team of them and name it in \"from\"")
		return false
	case len(q.from) == 0 && len(rule.Requires.Users)+len(rule.Requires.Teams) > 0:
		return false // each is in Lost
	case len(q.from) == 0:
		b.r.lost(b.path, rule.line, true, what, "anybody may approve: name the team of those who should in \"from\", or require the number of approvals in a ruleset")
		return false
	}
	if len(q.from) > 100 {
		b.r.lost(b.path, rule.line, true, what, "it names more than 100 people and teams; make a team of them")
		return false
	}
	return true
}

// condition carries "if" over: changed_files is what paths are; everything else selects pull requests, which no requirement does.
func (b *botReader) condition(rule *botRule, what string, q *requirement) bool {
	for _, key := range slices.Sorted(maps.Keys(rule.If)) {
		node := rule.If[key]
		if key == "targets_branch" {
			b.r.carried(b.path, rule.line, "%s: targets_branch", what)
			b.r.note("a policy decides pull requests into the branch that it is on: commit the file on the branches that targets_branch of %s means, and not on others", what)
			continue
		}
		if key != "changed_files" {
			b.r.lost(b.path, rule.line, true, what, "it applies only if %s, and a requirement applies by path; without the condition it would apply to more. Decide whether it may, and write it by hand", oneLine(key))
			return false
		}
		var files struct {
			Paths  []string `yaml:"paths"`
			Ignore []string `yaml:"ignore"`
		}
		if err := node.Decode(&files); err != nil {
			b.r.lost(b.path, rule.line, true, what, "its changed_files cannot be read: %s", oneLine(err.Error()))
			return false
		}
		q.paths = nil
		for _, expression := range files.Paths {
			patterns, ok := globs(expression)
			if !ok {
				b.r.lost(b.path, rule.line, true, what, "the regular expression %s is no path pattern; write the paths by hand, as in CODEOWNERS", oneLine(expression))
				return false
			}
			q.paths = append(q.paths, patterns...)
		}
		for _, expression := range files.Ignore {
			patterns, ok := globs(expression)
			if !ok {
				b.r.lost(b.path, rule.line, false, what+": ignore "+oneLine(expression), "the expression is no path pattern; these files are no longer taken away, which is stricter")
				continue
			}
			q.exclude = append(q.exclude, patterns...)
		}
		if len(files.Ignore) > 0 {
			b.r.note("%s: files that are ignored need no approval here; policy-bot only did not let them trigger the rule", what)
		}
	}
	if len(q.paths) > 100 || len(q.exclude) > 100 {
		b.r.lost(b.path, rule.line, true, what, "it has more than 100 paths; use directories")
		return false
	}
	return true
}

// options that are on by default in one tool and not in the other are told; the rest is lost by name.
func (b *botReader) options(rule *botRule, what string, q *requirement) {
	author := false
	for _, key := range slices.Sorted(maps.Keys(rule.Options)) {
		node := rule.Options[key]
		on := node.Value == "true"
		switch key {
		case "allow_author", "allow_contributor", "allow_non_author_contributor":
			author = author || on && key == "allow_author"
			if on && key == "allow_author" {
				b.r.lost(b.path, rule.line, false, what+": allow_author", "requirements count reviews, which GitHub refuses of authors; allow_author_as_codeowner lets an author count as an owner of CODEOWNERS")
			}
		case "invalidate_on_push":
			if !on {
				b.d.contentStable = true
			}
			b.r.carried(b.path, rule.line, "%s: invalidate_on_push", what)
		case "request_review":
			b.r.lost(b.path, rule.line, false, what+": request_review", "reviewers are requested by GitHub for owners of CODEOWNERS")
		case "methods":
			b.r.lost(b.path, rule.line, false, what+": methods", "only a review approves here, never a comment or a text")
		case "ignore_update_merges", "ignore_commits_by":
			b.r.carried(b.path, rule.line, "%s: %s (content_stable compares content, not commits)", what, oneLine(key))
		case "ignore_edited_comments":
			b.r.carried(b.path, rule.line, "%s: ignore_edited_comments (comments approve nothing)", what)
		default:
			b.r.lost(b.path, rule.line, false, what+": "+oneLine(key), "there is no such option here")
		}
	}
	if _, said := rule.Options["invalidate_on_push"]; !said {
		b.d.contentStable = true
		b.r.note("policy-bot keeps approvals over pushes unless told otherwise; content_stable keeps one only while what it was about is unchanged")
	}
	q.excludeAuthor = !author
}
