package policy

import (
	"slices"
	"strings"
)

// pullPlan is one pull request, validated and compiled: what must be approved
// (groups) and who approved (opinions).
type pullPlan struct {
	pull *PullRequest
	base *compiledBase
	// head is the commit that is judged for this pull request: the snapshot's,
	// or its own inside a merge group.
	head     string
	findings []Finding
	paths    []ownedPath
	// sets are the distinct owner sets, each sorted; ownedPath.set is an index.
	sets     [][]Owner
	setKeys  map[string]int
	setLines map[int]int // line of CODEOWNERS → set
	// covers holds, for each delegation of the policy, which paths it matches;
	// made when first asked for.
	covers   [][]bool
	groups   []group
	opinions []opinion
	labels   map[string]bool
	// current and older hold what the pull request changes, path by path, at
	// its head and at older ones; made when first asked for.
	current *contents
	older   map[string]*contents
}

// group is one thing that must be approved.
type group struct {
	kind   GroupKind
	name   string
	owners []Owner
	paths  []*ownedPath
	count  int
	humans int
	allOf  []Owner
	// perSet is true where the group holds the paths of exactly one owner set,
	// which set numbers.
	perSet            bool
	set               int
	requirement       *Requirement
	excludeAuthor     bool
	excludeLastPusher bool
}

func (p *pullPlan) fail(f Finding) { p.findings = append(p.findings, f) }

func (p *pullPlan) blocked() bool {
	return slices.ContainsFunc(p.findings, func(f Finding) bool { return f.Severity == SeverityError })
}

// plan validates a pull request and works out its groups. It goes on after an
// error as far as it can, so that the reader sees every reason at once.
func (e *evaluation) plan(pull *PullRequest) *pullPlan {
	p := &pullPlan{pull: pull, base: e.base(pull.BaseSHA), head: e.s.headOf(pull.Number), setKeys: map[string]int{}, setLines: map[int]int{}}
	p.findings = append(p.findings, p.base.findings...)
	e.checkPull(p)
	if p.base.rules == nil || !p.base.rules.Enabled {
		return p
	}
	p.findings = append(p.findings, e.org.findings...)
	e.checkEnrolment(p)
	p.labels = map[string]bool{}
	for _, label := range pull.Labels {
		p.labels[strings.ToLower(label)] = true
	}
	opinions, findings := readOpinions(pull)
	p.opinions, p.findings = opinions, append(p.findings, findings...)
	paths, findings := checkFiles(pull)
	p.findings = append(p.findings, findings...)
	if p.base.codeowners == nil {
		return p
	}
	p.paths = paths
	e.assignOwners(p)
	p.groups = append(p.ownerGroups(), p.requirementGroups()...)
	e.limitComplexity(p)
	return p
}

// limitComplexity bounds time and memory by what there is to compare (D11
// replaces RG-352's bound on files): paths × delegations and groups × reviews.
func (e *evaluation) limitComplexity(p *pullPlan) {
	paths := 0
	for i := range p.groups {
		paths += len(p.groups[i].paths)
	}
	comparisons := paths*max(1, len(p.base.rules.Delegations)) + len(p.groups)*len(p.opinions)
	if paths > MaxGroupPaths || comparisons > MaxComparisons {
		p.fail(failure(CodeComplexity, "", "the pull request needs %d comparisons over %d paths in %s and at most %d over %d are made; split it, or use fewer requirements and delegations",
			comparisons, paths, count(len(p.groups), "group"), MaxComparisons, MaxGroupPaths))
		p.groups = nil
	}
}

func (e *evaluation) checkPull(p *pullPlan) {
	pull := p.pull
	switch {
	case pull.Number <= 0 || pull.BaseRef == "" || !isSHA(pull.BaseSHA):
		p.fail(failure(CodeMalformedEvidence, "", "the pull request's number, base or file count is missing or malformed"))
	case pull.Author != nil && (pull.Author.ID <= 0 || pull.Author.Login == ""):
		p.fail(failure(CodeMalformedEvidence, "", "the pull request's author has no id or login"))
	case pull.HeadSHA != p.head:
		p.fail(failure(CodeContradictory, "", "the pull request's head is not the commit under judgement; it is read again"))
	}
}

// checkEnrolment is RG-378: a delegation to an App that the organisation does
// not enroll.
func (e *evaluation) checkEnrolment(p *pullPlan) {
	if e.org.rules == nil {
		return
	}
	for i := range p.base.rules.Delegations {
		d := &p.base.rules.Delegations[i]
		if _, ok := e.org.rules.Apps[d.App]; !ok {
			f := failure(CodeUnenrolledApplication, d.App,
				"%s:%d delegates to the App %s, which the organisation policy does not enroll; add [apps.%s] there or remove the delegation", p.base.policyPath, d.Line, d.App, d.App)
			f.Line = d.Line
			p.fail(f)
		}
	}
}

// assignOwners finds the effective owners of every path (RG-313, RG-323) and
// what bars Apps from it (RG-344…RG-347).
func (e *evaluation) assignOwners(p *pullPlan) {
	names := make([]string, len(p.paths))
	for i := range p.paths {
		names[i] = p.paths[i].path
	}
	rails, builtIn := pathMatcher{}, pathMatcher{set: builtins}
	if e.org.rules != nil {
		rails.set = e.org.rules.NonDelegable
	}
	emails := 0
	for i, ownership := range p.base.codeowners.MatchAll(names) {
		q := &p.paths[i]
		q.owners, q.index, q.set = ownership, i, p.setOf(ownership)
		// Also where nobody owns the path: a requirement may still ask for it.
		if len(p.base.rules.Delegations) > 0 {
			q.barred = e.barred(p.base, q.path, &rails, &builtIn)
		}
		if slices.ContainsFunc(ownership.Owners, func(o Owner) bool { return o.Kind == OwnerEmail }) {
			if emails++; emails <= maxListedProblems {
				f := failure(CodeEmailOwner, q.path, "line %d of %s gives %s to an e-mail address, which cannot be matched to a reviewer; name @user or @org/team instead",
					ownership.Line, p.base.codeownersPath, q.path)
				f.Line = ownership.Line
				p.fail(f)
			}
		}
	}
}

// barred names the pattern that keeps Apps from a path, "" when none does.
func (e *evaluation) barred(base *compiledBase, path string, rails, builtIn *pathMatcher) string {
	if e.org.rules == nil {
		return "the organisation policy that could not be read"
	}
	if pattern, ok := rails.match(path); ok {
		return pattern
	}
	if e.s.Settings.AllowInsecureChanges || (base.rules.DelegatePolicyFile && path == base.policyPath) {
		return ""
	}
	pattern, _ := builtIn.match(path)
	return pattern
}

// setOf numbers an owner set; the order of its owners does not matter.
func (p *pullPlan) setOf(ownership Ownership) int {
	if len(ownership.Owners) == 0 {
		return unowned
	}
	if n, ok := p.setLines[ownership.Line]; ok {
		return n
	}
	key := setKey(ownership.Owners)
	n, ok := p.setKeys[key]
	if !ok {
		n = len(p.sets)
		p.setKeys[key] = n
		set := slices.Clone(ownership.Owners)
		slices.SortFunc(set, compareOwners)
		p.sets = append(p.sets, set)
	}
	p.setLines[ownership.Line] = n
	return n
}

func setKey(owners []Owner) string { return strings.Join(ownerNames(owners), " ") }

func compareOwners(a, b Owner) int { return strings.Compare(a.String(), b.String()) }

// ownerGroups makes one group an owner set (RG-313), sorted by its owners.
func (p *pullPlan) ownerGroups() []group {
	groups := make([]group, len(p.sets))
	for i, set := range p.sets {
		groups[i] = group{
			kind: GroupOwners, owners: set, perSet: true, set: i, count: 1,
			excludeAuthor: p.base.rules.ExcludeAuthor, excludeLastPusher: p.base.rules.ExcludeLastPusher,
		}
	}
	for i := range p.paths {
		if q := &p.paths[i]; q.set >= 0 {
			groups[q.set].paths = append(groups[q.set].paths, q)
		}
	}
	sortGroups(groups)
	return groups
}

// sortGroups orders groups by their owners. Each key is made once.
func sortGroups(groups []group) {
	keys := make(map[int]string, len(groups))
	for i := range groups {
		keys[groups[i].set] = setKey(groups[i].owners)
	}
	slices.SortFunc(groups, func(a, b group) int { return strings.Compare(keys[a.set], keys[b.set]) })
}

// requirementGroups makes the groups of the policy's requirements, in the
// order of the file, then by owner set.
func (p *pullPlan) requirementGroups() []group {
	var groups []group
	paths := 0
	for i := range p.base.rules.Requirements {
		more := p.groupsOf(&p.base.rules.Requirements[i])
		for n := range more {
			paths += len(more[n].paths)
		}
		if groups = append(groups, more...); paths > MaxGroupPaths {
			break // limitComplexity refuses what there is already
		}
	}
	return groups
}

func (p *pullPlan) groupsOf(r *Requirement) []group {
	var selected []*ownedPath
	selector := r.selector()
	for i := range p.paths {
		if selector.selects(p.paths[i].path, p.paths[i].owners.Owners) {
			selected = append(selected, &p.paths[i])
		}
	}
	if len(selected) == 0 {
		return nil
	}
	base := group{
		kind: GroupRequirement, name: r.Name, requirement: r, count: r.Count, humans: r.HumansMin,
		excludeAuthor:     r.ExcludeAuthor || p.base.rules.ExcludeAuthor,
		excludeLastPusher: r.ExcludeLastPusher || p.base.rules.ExcludeLastPusher,
	}
	var groups []group
	if r.Count > 0 {
		groups = p.splitBySet(base, selected)
	}
	if len(r.AllOf) > 0 {
		g := base
		g.owners, g.allOf, g.paths, g.count, g.humans = r.AllOf, r.AllOf, selected, 0, 0
		groups = append(groups, g)
	}
	if len(r.Optional) > 0 {
		g := base
		g.kind, g.owners, g.paths, g.count, g.humans = GroupOptional, r.Optional, selected, 0, 0
		groups = append(groups, g)
	}
	return groups
}

// splitBySet gives one group over all paths where the requirement names who
// may approve, else one group an owner set.
func (p *pullPlan) splitBySet(base group, selected []*ownedPath) []group {
	if len(base.requirement.From) > 0 {
		base.owners, base.paths = base.requirement.From, selected
		return []group{base}
	}
	bySet := map[int]*group{}
	for _, q := range selected {
		g := bySet[q.set]
		if g == nil {
			copied := base
			g = &copied
			g.perSet, g.set = true, q.set
			if q.set >= 0 {
				g.owners = p.sets[q.set]
			}
			bySet[q.set] = g
		}
		g.paths = append(g.paths, q)
	}
	groups := make([]group, 0, len(bySet))
	for _, g := range bySet {
		groups = append(groups, *g)
	}
	sortGroups(groups)
	return groups
}

// selector says to which paths a requirement applies.
type selector struct {
	r              *Requirement
	paths, exclude pathMatcher
}

func (r *Requirement) selector() *selector {
	return &selector{r: r, paths: pathMatcher{set: r.Paths}, exclude: pathMatcher{set: r.Exclude}}
}

// selects says whether the requirement applies to a path with these owners.
func (s *selector) selects(path string, owners []Owner) bool {
	if s.r.Paths != nil {
		if _, ok := s.paths.match(path); !ok {
			return false
		}
	}
	if len(s.r.ForOwners) > 0 && !slices.ContainsFunc(owners, func(o Owner) bool { return slices.Contains(s.r.ForOwners, o) }) {
		return false
	}
	_, excluded := s.exclude.match(path)
	return !excluded
}

// covered says whether delegation i of the policy matches a path.
func (p *pullPlan) covered(i int, path *ownedPath) bool {
	if p.covers == nil {
		p.covers = make([][]bool, len(p.base.rules.Delegations))
	}
	if p.covers[i] == nil {
		p.covers[i] = make([]bool, len(p.paths))
		matcher := pathMatcher{set: p.base.rules.Delegations[i].Paths}
		for n := range p.paths {
			_, p.covers[i][n] = matcher.match(p.paths[n].path)
		}
	}
	return p.covers[i][path.index]
}

func isSHA(s string) bool {
	if len(s) != 40 && len(s) != 64 {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
