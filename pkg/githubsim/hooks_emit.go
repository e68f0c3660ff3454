package githubsim

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
)

// event is one webhook to be, before it is known who receives it.
type event struct {
	name, action string
	repo         *repo
	account      int64 // owner, where repo is nil
	sender       int64
	install      *installation // when set, only this installation's App receives it
	app          int64         // when set, only this App receives it
	always       bool          // needs no subscription
}

// eventPermission is what an installation must have granted to be sent an event.
var eventPermission = map[string]string{
	"check_run": "checks", "check_suite": "checks", "create": "contents", "delete": "contents", "issue_comment": "pull_requests", "label": "metadata",
	"member": "members", "membership": "members", "merge_group": "merge_queues", "organization": "members", "pull_request": "pull_requests",
	"pull_request_review": "pull_requests", "push": "contents", "repository": "metadata", "status": "statuses", "team": "members", "team_add": "members",
}

// maxPayload is the size above which GitHub does not send a webhook at all.
const maxPayload = 25 << 20

type (
	userRef int64 // rendered as simple-user when the payload is made
	teamRef int64
)

// emit sends an event to every App that is installed on the repository (or the
// account), granted the permission and subscribed. body is called once a
// receiver, and not at all when there is none.
func (m *mutation) emit(e event, body func(x *renderer) obj) {
	for _, id := range sortedKeys(m.w.installs) {
		i := m.w.installs[id]
		if !m.receives(i, e) {
			continue
		}
		x := m.s.renderer(m.w)
		x.hook = true
		o := obj{}
		maps.Copy(o, body(x))
		m.envelope(x, o, i, e)
		if d := m.s.newDelivery(m.w.apps[i.appID], i, e, o); len(d.body) <= maxPayload {
			m.outbox = append(m.outbox, d)
		}
	}
}

func (m *mutation) receives(i *installation, e event) bool {
	a := m.w.apps[i.appID]
	switch {
	case a == nil || a.hookURL == "":
		return false
	case e.install != nil && e.install.id != i.id, e.app != 0 && e.app != i.appID:
		return false
	case e.always:
		return true
	case i.suspendedAt != nil:
		return false
	case e.repo != nil && !i.has(e.repo), e.repo == nil && e.install == nil && i.accountID != e.account:
		return false
	}
	if p := eventPermission[e.name]; p != "" && i.permissions[p] == "" {
		return false
	}
	return slices.Contains(i.events, e.name)
}

// envelope adds what every payload has, and renders references.
func (m *mutation) envelope(x *renderer, o obj, i *installation, e event) {
	for k, v := range o {
		switch ref := v.(type) {
		case userRef:
			o[k] = x.user(int64(ref))
		case teamRef:
			o[k] = x.team(m.w.teams[int64(ref)])
		}
	}
	if e.action != "" {
		o["action"] = e.action
	}
	o["sender"] = x.user(e.sender)
	if o["sender"] == nil {
		o["sender"] = x.user(m.w.apps[i.appID].ownerID)
	}
	if _, set := o["installation"]; !set {
		o["installation"] = obj{"id": i.id, "node_id": nodeID("I", i.id)}
	}
	ownerID := e.account
	if e.repo != nil {
		o["repository"], ownerID = x.repo(e.repo), e.repo.ownerID
		if e.name == "push" {
			o["repository"] = x.pushRepo(e.repo)
		}
	}
	if owner := m.w.accounts[ownerID]; owner != nil && owner.kind == "Organization" {
		o["organization"] = x.organization(owner)
	}
}

func (s *Sim) newDelivery(a *app, i *installation, e event, body obj) *delivery {
	raw, err := json.Marshal(body)
	if err != nil {
		misuse("payload of %s: %v", e.name, err) // only our own maps are marshalled
	}
	d := &delivery{id: s.nextBigID(), guid: newGUID(), event: e.name, action: e.action, appID: a.id, installID: i.id, url: a.hookURL, secret: a.hookSecret, body: raw}
	if e.repo != nil {
		d.repoID = e.repo.id
	}
	return d
}

func newGUID() string {
	b := randomBytes(16)
	b[6], b[8] = b[6]&0x0f|0x10, b[8]&0x3f|0x80 // GitHub's are of version 1
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

func (m *mutation) emitPull(r *repo, p *pull, action string, by *account, extra obj) {
	m.emit(event{name: "pull_request", action: action, repo: r, sender: by.id}, func(x *renderer) obj {
		o := obj{"number": p.number, "pull_request": x.pull(r, p)}
		maps.Copy(o, extra)
		return o
	})
}

func (m *mutation) emitLabel(r *repo, p *pull, action, name string, by *account) {
	m.emit(event{name: "pull_request", action: action, repo: r, sender: by.id}, func(x *renderer) obj {
		return obj{"number": p.number, "pull_request": x.pull(r, p), "label": x.label(r, name)}
	})
}

func (m *mutation) emitReview(r *repo, p *pull, v *review, action string, by *account) {
	m.emit(event{name: "pull_request_review", action: action, repo: r, sender: by.id}, func(x *renderer) obj {
		return obj{"review": x.review(r, p, v), "pull_request": x.pullSimple(r, p)}
	})
}

func (m *mutation) emitReviewEdited(r *repo, p *pull, v *review, was string, by *account) {
	m.emit(event{name: "pull_request_review", action: "edited", repo: r, sender: by.id}, func(x *renderer) obj {
		return obj{"review": x.review(r, p, v), "pull_request": x.pullSimple(r, p), "changes": obj{"body": obj{"from": was}}}
	})
}

// emitPush sends push; GitHub puts at most 2,048 commits into it.
func (m *mutation) emitPush(r *repo, branch, before, after string, by *account) {
	m.emit(event{name: "push", repo: r, sender: by.id}, func(x *renderer) obj {
		commits, head := []obj{}, any(nil)
		if after != zeroSHA {
			c := m.s.objects.commits[after]
			head = x.hookCommit(r, c)
			from := before
			if from == zeroSHA {
				from = r.branches[r.defaultBranch]
			}
			list := m.s.objects.commitsBetween(from, after)
			if len(list) > 2048 {
				list = list[len(list)-2048:]
			}
			for _, one := range list {
				commits = append(commits, x.hookCommit(r, one))
			}
		}
		return obj{
			"ref": "refs/heads/" + branch, "before": before, "after": after, "created": before == zeroSHA, "deleted": after == zeroSHA,
			"forced": before != zeroSHA && after != zeroSHA && !m.s.objects.ancestor(before, after), "base_ref": nil, "head_commit": head, "commits": commits,
			"compare": fmt.Sprintf("%s/compare/%.12s...%.12s", x.repoHTML(r), before, after),
			"pusher":  obj{"name": by.login, "email": by.login + "@users.noreply.github.example"},
		}
	})
}

// pushRepo is the shape of repository that push events alone carry: epoch
// numbers for times and an owner with name and email.
func (r *renderer) pushRepo(repo *repo) obj {
	o := r.repo(repo)
	o["created_at"], o["pushed_at"] = repo.createdAt.Unix(), repo.pushedAt.Unix()
	o["master_branch"], o["stargazers"] = repo.defaultBranch, 0
	owner := r.account(r.w.accounts[repo.ownerID])
	owner["name"], owner["email"] = owner["login"], nil
	o["owner"] = owner
	return o
}

func (m *mutation) emitMembership(t *team, u *account, action string) {
	m.emit(event{name: "membership", action: action, account: t.orgID, sender: t.orgID}, func(x *renderer) obj {
		return obj{"scope": "team", "member": x.account(u), "team": x.team(t)}
	})
}

func (m *mutation) emitRepo(r *repo, action string, extra obj) {
	m.emit(event{name: "repository", action: action, repo: r, sender: r.ownerID}, func(*renderer) obj { return maps.Clone(extra) })
}

func (m *mutation) emitRun(r *repo, c *checkRun, action string, by *account, extra obj) {
	e := event{name: "check_run", action: action, repo: r, sender: by.id}
	if action == "rerequested" || action == "requested_action" {
		e.app = c.appID // only the App that made the run
	}
	m.emit(e, func(x *renderer) obj {
		o := obj{"check_run": x.checkRun(r, c)}
		maps.Copy(o, extra)
		return o
	})
}

func (m *mutation) installedRepos(i *installation) []obj {
	list := []obj{}
	for _, id := range sortedKeys(m.w.repos) {
		if r := m.w.repos[id]; i.has(r) {
			list = append(list, m.hookRepoRef(r))
		}
	}
	return list
}

func (m *mutation) hookRepoRef(r *repo) obj {
	return obj{"id": r.id, "node_id": nodeID("R", r.id), "name": r.name, "full_name": m.w.fullName(r), "private": r.private}
}

func (m *mutation) emitInstallation(i *installation, action string, sender int64, extra obj) {
	e := event{name: "installation", action: action, account: i.accountID, sender: sender, install: i, always: true}
	m.emit(e, func(x *renderer) obj {
		o := obj{"installation": x.hookInstallation(i)}
		maps.Copy(o, extra)
		return o
	})
}

// hookInstallation is the installation as its own events carry it.
func (r *renderer) hookInstallation(i *installation) obj { return r.installation(i) }

func (m *mutation) emitInstallationRepos(i *installation, action string, repos []*repo) {
	added, removed := []obj{}, []obj{}
	for _, r := range repos {
		if action == "added" {
			added = append(added, m.hookRepoRef(r))
		} else {
			removed = append(removed, m.hookRepoRef(r))
		}
	}
	e := event{name: "installation_repositories", action: action, account: i.accountID, sender: i.accountID, install: i, always: i.suspendedAt == nil}
	m.emit(e, func(x *renderer) obj {
		return obj{
			"installation": x.hookInstallation(i), "repository_selection": i.selection(),
			"repositories_added": added, "repositories_removed": removed, "requester": nil,
		}
	})
}

func (m *mutation) emitTargetRenamed(i *installation, a *account, from string) {
	e := event{name: "installation_target", action: "renamed", account: a.id, sender: a.id, install: i, always: true}
	m.emit(e, func(x *renderer) obj {
		account := x.account(a)
		if a.kind == "Organization" {
			maps.Copy(account, x.organizationFull(a))
		}
		return obj{"account": account, "changes": obj{"login": obj{"from": from}}, "target_type": a.kind}
	})
}

// issue is the issue behind a pull request, as issue_comment carries it.
func (r *renderer) issue(repo *repo, p *pull) obj {
	s := r.pullSimple(repo, p)
	url := fmt.Sprintf("%s/issues/%d", r.repoURL(repo), p.number)
	return obj{
		"id": p.id, "node_id": s["node_id"], "number": p.number, "title": p.title, "body": s["body"], "state": s["state"], "locked": false, "user": s["user"],
		"url": url, "html_url": s["html_url"], "repository_url": r.repoURL(repo), "labels_url": url + "/labels{/name}", "comments_url": url + "/comments",
		"events_url": url + "/events", "timeline_url": url + "/timeline", "labels": s["labels"], "assignee": nil, "assignees": []obj{}, "milestone": nil,
		"comments": len(repo.comments[p.number]), "created_at": s["created_at"], "updated_at": s["updated_at"], "closed_at": s["closed_at"],
		"author_association": s["author_association"], "active_lock_reason": nil, "draft": p.draft, "performed_via_github_app": nil, "state_reason": nil, "reactions": reactions(url),
		"pull_request": obj{"url": s["url"], "html_url": s["html_url"], "diff_url": s["diff_url"], "patch_url": s["patch_url"], "merged_at": s["merged_at"]},
	}
}

// delivery is one attempt to send a webhook, as the delivery log keeps it.
type delivery struct {
	id, appID, installID, repoID int64
	guid, event, action          string
	url, secret                  string
	body                         []byte
	redelivery, unreachable      bool
	wait                         time.Duration // before it is sent: WebhookFault

	requestHeaders  map[string]string
	deliveredAt     time.Time
	duration        time.Duration
	status          string // OK, Invalid HTTP Response: 500, failed to connect, timed out
	code            int    // 0 when there was no answer
	responseHeaders map[string]string
	responseBody    string
}
