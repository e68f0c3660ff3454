package chaos

import (
	"fmt"
	"slices"
	"strings"

	"github.com/countersign/countersign/pkg/githubsim"
)

// act plays one event. What it does is decided by the step's draws and by the world as the events before it left it, so a
// seed plays the same events whatever Countersign does. It says in words what happened; "" is nothing.
func (w *world) act(s Step) string {
	repo := w.repos[s.Draw[0]%uint64(len(w.repos))]
	a := &action{world: w, step: s, repo: repo, route: w.routes[repo], org: w.owner[repo]}
	w.sim.Look(func(v githubsim.View) {
		for _, p := range v.Pulls(repo) {
			a.pulls = append(a.pulls, p)
			if p.Open {
				a.open = append(a.open, p)
			}
		}
	})
	f, ok := actions[s.Kind]
	if !ok {
		panic("no event " + s.Kind) //nolint:forbidigo // the plan draws from the same list
	}
	what, err := f(a)
	if err != nil {
		return fmt.Sprintf("%s: refused: %v", what, err)
	}
	return what
}

type action struct {
	*world
	step  Step
	repo  int64
	route string
	org   string
	pulls []githubsim.PullLook
	open  []githubsim.PullLook
}

func (a *action) d(i int) uint64 { return a.step.Draw[i] }

// onOpen runs f on one open pull request.
func onOpen(f func(a *action, p githubsim.PullLook) (string, error)) func(a *action) (string, error) {
	return func(a *action) (string, error) {
		p, ok := pick(a.open, a.d(1))
		if !ok {
			return "", nil
		}
		what, err := f(a, p)
		if what == "" {
			return "", err
		}
		return fmt.Sprintf("%s#%d: %s", a.route, p.Number, what), err
	}
}

func (a *action) person(i int) string { return people[a.d(i)%uint64(len(people))] }

func (a *action) content() map[string]string {
	n := 1 + a.d(3)%2
	m := map[string]string{}
	for i := range n {
		f := files[(a.d(2)+i*3)%uint64(len(files))]
		m[f] = fmt.Sprintf("%s %x\n", f, a.d(1))
	}
	return m
}

var actions = map[string]func(a *action) (string, error){
	"open":        (*action).openPull,
	"open_shared": onOpen((*action).openShared),
	"push": onOpen(func(a *action, p githubsim.PullLook) (string, error) {
		sha, err := a.sim.Push(a.route, p.Number, p.Author, a.content())
		return "push " + short(sha), err
	}),
	"force_back":    onOpen((*action).forceBack),
	"approve_all":   onOpen((*action).approveAll),
	"approve":       onOpen(func(a *action, p githubsim.PullLook) (string, error) { return a.review(p, a.person(2), "APPROVED", "") }),
	"approve_stale": onOpen((*action).approveStale),
	"request_changes": onOpen(func(a *action, p githubsim.PullLook) (string, error) {
		return a.review(p, a.person(2), "CHANGES_REQUESTED", "")
	}),
	"dismiss": onOpen((*action).dismiss),
	"comment": onOpen(func(a *action, p githubsim.PullLook) (string, error) {
		return a.review(p, a.person(2), "COMMENTED", "")
	}),
	"delegate": onOpen(func(a *action, p githubsim.PullLook) (string, error) {
		return a.review(p, "renovate[bot]", "APPROVED", "")
	}),
	"close": onOpen(func(a *action, p githubsim.PullLook) (string, error) {
		return "close", a.sim.ClosePull(a.route, p.Number, p.Author)
	}),
	"reopen": (*action).reopen,
	"merge":  onOpen((*action).merge),
	"retitle": onOpen(func(a *action, p githubsim.PullLook) (string, error) {
		return "retitle", a.sim.Retitle(a.route, p.Number, fmt.Sprintf("Title %x", a.d(2)), p.Author)
	}),
	"label": onOpen((*action).label),
	"draft": onOpen(func(a *action, p githubsim.PullLook) (string, error) {
		return fmt.Sprintf("draft %t", !p.Draft), a.sim.SetDraft(a.route, p.Number, !p.Draft, p.Author)
	}),
	"retarget":            onOpen((*action).retarget),
	"member":              (*action).member,
	"team_permission":     (*action).teamPermission,
	"team_privacy":        (*action).teamPrivacy,
	"collaborator":        (*action).collaborator,
	"codeowners":          (*action).codeowners,
	"policy":              (*action).policy,
	"organization_policy": (*action).organizationPolicy,
	"base_push": func(a *action) (string, error) {
		branch := branches[a.d(1)%2]
		_, err := a.sim.PushBase(a.route, branch, "", map[string]string{"CHANGES": fmt.Sprintf("%x\n", a.d(2))})
		return a.route + ": push to " + branch, err
	},
	"rename":    (*action).rename,
	"rerequest": onOpen((*action).rerequest),
}

func (a *action) openPull() (string, error) {
	if len(a.open) >= 5 {
		return "", nil
	}
	p := githubsim.Pull{Author: a.person(1), Base: branches[a.d(3)%2], Files: a.content()}
	n, err := a.sim.OpenPull(a.route, p)
	return fmt.Sprintf("%s: open #%d by %s on %s", a.route, n, p.Author, p.Base), err
}

// openShared opens a second pull request whose head is another's.
func (a *action) openShared(p githubsim.PullLook) (string, error) {
	if len(a.open) >= 6 {
		return "", nil
	}
	n, err := a.sim.OpenPull(a.route, githubsim.Pull{Author: a.person(2), Base: branches[a.d(3)%2], Branch: fmt.Sprintf("shared-%x", a.d(2)), Head: p.Head})
	return fmt.Sprintf("open #%d on the same head", n), err
}

func (a *action) forceBack(p githubsim.PullLook) (string, error) {
	var heads []string
	for _, sha := range a.sim.Heads(a.route, p.Number) {
		if sha != p.Head {
			heads = append(heads, sha)
		}
	}
	sha, ok := pick(heads, a.d(2))
	if !ok {
		return "", nil
	}
	return "force-push back to " + short(sha), a.sim.ForcePush(a.route, p.Number, p.Author, sha)
}

func (a *action) review(p githubsim.PullLook, who, state, commit string) (string, error) {
	if who == p.Author {
		return "", nil
	}
	_, err := a.sim.SubmitReview(a.route, p.Number, githubsim.ReviewOf{User: who, State: state, Commit: commit})
	return fmt.Sprintf("%s by %s", strings.ToLower(state), who), err
}

// approveAll lets everybody approve who might be asked: most schedules would have no success to lose otherwise.
func (a *action) approveAll(p githubsim.PullLook) (string, error) {
	for _, who := range people {
		if _, err := a.review(p, who, "APPROVED", ""); err != nil {
			return "approve_all", err
		}
	}
	return "approved by all", nil
}

func (a *action) approveStale(p githubsim.PullLook) (string, error) {
	heads := a.sim.Heads(a.route, p.Number)
	sha, ok := pick(heads, a.d(3))
	if !ok {
		return "", nil
	}
	return a.review(p, a.person(2), "APPROVED", sha)
}

func (a *action) dismiss(p githubsim.PullLook) (string, error) {
	var live []githubsim.ReviewLook
	for _, r := range p.Reviews {
		if r.State == "APPROVED" || r.State == "CHANGES_REQUESTED" {
			live = append(live, r)
		}
	}
	slices.Reverse(live) // mostly the newest: an old one changes nothing
	if len(live) > 6 {
		live = live[:6]
	}
	r, ok := pick(live, a.d(2))
	if !ok {
		return "", nil
	}
	return fmt.Sprintf("dismiss the review of %s", r.User), a.sim.DismissReview(a.route, p.Number, r.ID, "dave")
}

func (a *action) reopen() (string, error) {
	var closed []githubsim.PullLook
	for _, p := range a.pulls {
		if !p.Open && !p.Merged {
			closed = append(closed, p)
		}
	}
	p, ok := pick(closed, a.d(1))
	if !ok {
		return "", nil
	}
	return fmt.Sprintf("%s#%d: reopen", a.route, p.Number), a.sim.ReopenPull(a.route, p.Number, p.Author)
}

// merge leaves heads alone that other pull requests share: what they change would become empty, with no event about them.
func (a *action) merge(p githubsim.PullLook) (string, error) {
	for _, other := range a.pulls {
		if other.Number != p.Number && slices.Contains(a.sim.Heads(a.route, other.Number), p.Head) {
			return "", nil
		}
	}
	_, err := a.sim.MergePull(a.route, p.Number, "dave")
	return "merge", err
}

func (a *action) label(p githubsim.PullLook) (string, error) {
	if slices.Contains(p.Labels, "ready") {
		return "unlabel", a.sim.Unlabel(a.route, p.Number, "ready", p.Author)
	}
	return "label", a.sim.Label(a.route, p.Number, "ready", p.Author)
}

func (a *action) retarget(p githubsim.PullLook) (string, error) {
	to := branches[0]
	if p.BaseRef == to {
		to = branches[1]
	}
	return "retarget to " + to, a.sim.Retarget(a.route, p.Number, to, p.Author)
}

func (a *action) team() string { return []string{"core", "docs", "operations"}[a.d(1)%3] }

// member moves one person in or out of a team; a team of one keeps its member now and then.
func (a *action) member() (string, error) {
	team, who, in := a.team(), a.person(2), false
	a.sim.Look(func(v githubsim.View) {
		t, _ := v.Team(a.org, team, a.repo)
		in = t.Members[who]
	})
	if in {
		return fmt.Sprintf("%s leaves @%s/%s", who, a.org, team), a.sim.RemoveTeamMember(a.org, team, who)
	}
	return fmt.Sprintf("%s joins @%s/%s", who, a.org, team), a.sim.AddTeamMember(a.org, team, who)
}

func (a *action) teamPermission() (string, error) {
	team, to := a.team(), "push"
	_, name, _ := strings.Cut(a.route, "/")
	a.sim.Look(func(v githubsim.View) {
		if t, _ := v.Team(a.org, team, a.repo); t.Permission == "push" {
			to = []string{"pull", "maintain", ""}[a.d(2)%3]
		}
	})
	return fmt.Sprintf("@%s/%s may %q on %s", a.org, team, to, name), a.sim.SetTeamPermission(a.org, team, name, to)
}

func (a *action) teamPrivacy() (string, error) {
	team, to := a.team(), "closed"
	a.sim.Look(func(v githubsim.View) {
		if t, _ := v.Team(a.org, team, a.repo); t.Visible {
			to = "secret"
		}
	})
	return fmt.Sprintf("@%s/%s is %s", a.org, team, to), a.sim.EditTeam(a.org, team, githubsim.TeamEdit{Privacy: to})
}

func (a *action) collaborator() (string, error) {
	who, to := []string{"carol", "dave"}[a.d(1)%2], []string{"push", "pull", "triage", "push"}[a.d(2)%4]
	return fmt.Sprintf("%s may %s on %s", who, to, a.route), a.sim.SetCollaborator(a.route, who, to)
}

func (a *action) codeowners() (string, error) {
	branch := branches[a.d(1)%2]
	_, err := a.sim.PushBase(a.route, branch, "", map[string]string{ownersAt: ownersFile(a.org, a.d(2)) + fmt.Sprintf("# %x\n", a.d(3))})
	return fmt.Sprintf("%s: CODEOWNERS %d on %s", a.route, a.d(2)%uint64(len(ownersFiles)), branch), err
}

// policy switches the gate off on one branch, and on again soon: three of four draws enable it.
func (a *action) policy() (string, error) {
	branch, text := branches[a.d(1)%2], fmt.Sprintf(enabled, a.org)
	if a.d(2)%4 == 0 {
		text = disabled
	}
	_, err := a.sim.PushBase(a.route, branch, "", map[string]string{policyAt: text + fmt.Sprintf("# %x\n", a.d(3))})
	return fmt.Sprintf("%s: policy enabled %t on %s", a.route, a.d(2)%4 != 0, branch), err
}

func (a *action) organizationPolicy() (string, error) {
	enrolled := a.d(2)%2 == 0
	_, err := a.sim.PushBase(a.org+"/.github", "main", "", map[string]string{policyAt: organizationPolicy(enrolled, a.delegate) + fmt.Sprintf("# %x\n", a.d(3))})
	return fmt.Sprintf("%s: renovate enrolled %t", a.org, enrolled), err
}

func (a *action) rename() (string, error) {
	a.names++
	name := fmt.Sprintf("renamed-%d", a.names)
	from := a.route
	if err := a.sim.RenameRepo(from, name); err != nil {
		return "rename " + from, err
	}
	a.routes[a.repo] = a.org + "/" + name
	return fmt.Sprintf("rename %s to %s", from, name), nil
}

func (a *action) rerequest(p githubsim.PullLook) (string, error) {
	c, ok := a.sim.LatestCheck(a.route, p.Head, CheckName)
	if !ok || c.Status != "completed" {
		return "", nil
	}
	return "re-run the check", a.sim.RerequestCheck(a.route, c.ID, "dave")
}

func short(sha string) string { return sha[:min(8, len(sha))] }
