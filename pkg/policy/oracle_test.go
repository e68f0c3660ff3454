package policy_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/countersign/countersign/pkg/policy"
)

// oracle decides one pull request of the fixture's world by the sentences of
// section L and of docs/policy.md, one after another and without any of the
// evaluator's code: slow and plain.
type oracle struct {
	s policy.Snapshot
	r rules
	p policy.PullRequest
}

func (o oracle) approved() bool {
	for key, paths := range o.sets(everything) {
		approvers := o.approvers(ofSet(everything, key))
		if owners := strings.Fields(key); len(owners) > 0 && len(o.persons(approvers, owners, false, false)) == 0 && !o.byApps(approvers, owners, paths) {
			return o.released()
		}
	}
	for _, q := range o.r.requirements {
		if !o.meets(q) {
			return o.released()
		}
	}
	return true
}

// selection says whether a path with these owners (sorted) belongs to what is
// looked at.
type selection func(path string, owners []string) bool

func everything(string, []string) bool { return true }

func ofSet(within selection, key string) selection {
	return func(path string, owners []string) bool {
		return strings.Join(owners, " ") == key && within(path, owners)
	}
}

// released is break-glass with the two comments that the generator writes.
func (o oracle) released() bool {
	if !o.r.breakGlass || len(o.p.Comments.Items) < 2 {
		return false
	}
	ask, confirm := o.p.Comments.Items[0], o.p.Comments.Items[1]
	member := func(c policy.Comment) bool {
		return o.s.Memberships["acme/incident"][c.Author.Login] == policy.MembershipActive
	}
	_, rest, _ := strings.Cut(ask.Body, "until=")
	stamp, _, _ := strings.Cut(rest, " ")
	until, err := time.Parse(time.RFC3339, stamp)
	return err == nil && strings.Contains(ask.Body, "head="+headSHA+" ") && until.After(o.s.Now) && until.Sub(ask.CreatedAt) <= 4*time.Hour &&
		ask.Author.ID != confirm.Author.ID && member(ask) && member(confirm)
}

// sets groups the selected paths by their owners, joined; "" is nobody.
func (o oracle) sets(selected selection) map[string][]string {
	sets := map[string][]string{}
	for _, f := range o.p.Files.Items {
		for _, path := range []string{f.Path, f.PreviousPath} {
			if path == "" || path == f.PreviousPath && f.Status != "renamed" {
				continue
			}
			names := o.owners(path)
			if selected(path, names) {
				sets[strings.Join(names, " ")] = append(sets[strings.Join(names, " ")], path)
			}
		}
	}
	return sets
}

func (o oracle) owners(path string) []string {
	var names []string
	for _, owner := range policy.ParseCodeowners("", []byte(o.s.Bases[baseSHA].Codeowners.Text)).Match(path).Owners {
		names = append(names, owner.String())
	}
	slices.Sort(names)
	return names
}

// meets is the table of [[requirement]].
func (o oracle) meets(q requirementRule) bool {
	selected := func(path string, owners []string) bool {
		return matchesAny(q.paths, path) && !matchesAny(q.exclude, path) &&
			(len(q.owners) == 0 || slices.ContainsFunc(owners, func(owner string) bool { return slices.Contains(q.owners, owner) }))
	}
	sets := o.sets(selected)
	var all []string
	for _, paths := range sets {
		all = append(all, paths...)
	}
	if len(all) == 0 {
		return true
	}
	if len(q.from) > 0 {
		sets = map[string][]string{strings.Join(q.from, " "): all}
	}
	for key, paths := range sets {
		approvers := o.approvers(ofSet(selected, key))
		if len(q.from) > 0 {
			approvers = o.approvers(selected)
		}
		persons, apps := o.persons(approvers, strings.Fields(key), q.excludeAuthor, q.excludePusher), o.appsFor(approvers, strings.Fields(key), paths)
		if len(persons) < q.humans || len(persons)+len(apps) < q.count {
			return false
		}
	}
	for _, owner := range q.allOf {
		approvers := o.approvers(selected)
		if len(o.persons(approvers, []string{owner}, q.excludeAuthor, q.excludePusher))+len(o.appsFor(approvers, []string{owner}, all)) == 0 {
			return false
		}
	}
	return true
}

// appsFor are the approving Apps that cover every path by themselves.
func (o oracle) appsFor(approvers, owners, paths []string) []string {
	var out []string
	for _, login := range approvers {
		app, isBot := strings.CutSuffix(login, "[bot]")
		if isBot && !slices.ContainsFunc(paths, func(path string) bool { return !o.mayApprove(app, owners, path) }) {
			out = append(out, app)
		}
	}
	return out
}

// approvers are the logins whose latest opinion approves this head (RG-329,
// RG-330, RG-331), or an older one at which what is selected was the same.
func (o oracle) approvers(selected selection) []string {
	var out []string
	for _, login := range append(slices.Clone(people), bots...) {
		last := policy.Review{}
		for _, r := range o.p.Reviews.Items {
			opinion := r.State == "APPROVED" || r.State == "CHANGES_REQUESTED" || r.State == "DISMISSED"
			if opinion && r.Author.Login == login && r.SubmittedAt.After(last.SubmittedAt) {
				last = r
			}
		}
		if last.State == "APPROVED" && (last.CommitID == headSHA || o.survives(last, selected)) {
			out = append(out, login)
		}
	}
	return out
}

func (o oracle) survives(r policy.Review, selected selection) bool {
	if !o.r.contentStable || o.p.BaseChange.State == policy.FactPresent && !r.SubmittedAt.After(o.p.BaseChange.At) {
		return false
	}
	return maps.Equal(o.contents(o.p.OlderHeads[r.CommitID].Items, selected), o.contents(o.p.Files.Items, selected))
}

// contents maps each selected path to its content before and after.
func (o oracle) contents(files []policy.ChangedFile, selected selection) map[string]string {
	out := map[string]string{}
	put := func(path, side string, b *policy.Blob) {
		if selected(path, o.owners(path)) {
			out[path] += fmt.Sprint(side, *b, ";")
		}
	}
	for _, f := range files {
		if f.Status == "renamed" {
			put(f.PreviousPath, "before", f.Before)
		} else {
			put(f.Path, "before", f.Before)
		}
		put(f.Path, "after", f.After)
	}
	return out
}

// persons are the people who approved and stand for one of the owners.
func (o oracle) persons(approvers, owners []string, noAuthor, noPusher bool) []string {
	candidates := slices.Clone(approvers)
	if o.r.allowAuthor && !slices.Contains(candidates, o.p.Author.Login) {
		candidates = append(candidates, o.p.Author.Login)
	}
	var out []string
	for _, login := range candidates {
		excluded := (noAuthor || o.r.excludeAuthor) && login == o.p.Author.Login || (noPusher || o.r.excludePusher) && login == o.p.LastPusher.Actor.Login
		stands := slices.ContainsFunc(owners, func(owner string) bool { return slices.Contains(people, login) && o.stands(login, owner) })
		if stands && !excluded {
			out = append(out, login)
		}
	}
	return out
}

// stands is RG-333 and RG-334.
func (o oracle) stands(login, owner string) bool {
	org, slug, isTeam := strings.Cut(strings.TrimPrefix(owner, "@"), "/")
	if !isTeam {
		return org == login && slices.Contains([]string{"write", "maintain", "admin"}, o.s.Users[login].Permission)
	}
	team := o.s.Teams[org+"/"+slug]
	return org == "acme" && team.Privacy == "closed" && slices.Contains([]string{"push", "maintain", "admin"}, team.Permission) &&
		o.s.Memberships[org+"/"+slug][login] == policy.MembershipActive
}

// byApps is RG-340: every path is covered by some approving App.
func (o oracle) byApps(approvers, owners, paths []string) bool {
	for _, path := range paths {
		covered := false
		for _, login := range approvers {
			app, isBot := strings.CutSuffix(login, "[bot]")
			covered = covered || isBot && o.mayApprove(app, owners, path)
		}
		if !covered {
			return false
		}
	}
	return true
}

// mayApprove is RG-341…RG-345.
func (o oracle) mayApprove(app string, owners []string, path string) bool {
	if matchesAny(o.r.guardrails, path) || matchesAny([]string{"/.github/workflows/**"}, path) {
		return false
	}
	for _, d := range o.r.delegations {
		ok := d.app == app && matchesAny(d.paths, path)
		ok = ok && (d.owners[0] == "*" || slices.ContainsFunc(owners, func(owner string) bool { return slices.Contains(d.owners, owner) }))
		for _, label := range d.required {
			ok = ok && slices.Contains(o.p.Labels, label)
		}
		for _, label := range d.barred {
			ok = ok && !slices.Contains(o.p.Labels, label)
		}
		if ok {
			return true
		}
	}
	return false
}

func matchesAny(patterns []string, path string) bool {
	for _, pattern := range patterns {
		if policy.ParseCodeowners("", []byte(pattern+" @x\n")).Match(path).Matched {
			return true
		}
	}
	return false
}

func TestOracle(t *testing.T) {
	t.Parallel()
	t.Run("RG-314 RG-328 RG-340 the evaluator agrees with the sentences of the spec", func(t *testing.T) {
		t.Parallel()
		seen := &share{}
		rapid.Check(t, func(t *rapid.T) {
			s, r := genSnapshot(t)
			want := true
			for _, p := range s.Pulls {
				want = want && oracle{s: s, r: r, p: p}.approved()
			}
			v := policy.Evaluate(s)
			seen.see(v)
			if v.Conclusion.Approved() != want {
				t.Fatalf("%s: %s; the oracle says approved is %v\n%s\n%s", v.Conclusion, v.NextStep, want, r.toml(), s.Bases[baseSHA].Codeowners.Text)
			}
		})
		seen.enough(t)
	})
}
