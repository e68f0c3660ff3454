package ingress

import (
	"strings"

	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/store"
)

// Why says why an event creates no work. It is a closed set, for the log.
type Why string

// The reasons for which a delivery is acknowledged and not retained.
const (
	WhyUnmapped    Why = "event or action creates no work"
	WhyClosed      Why = "pull request is closed"
	WhyOrgPolicy   Why = "pull requests of the organization's policy repository are not gated"
	WhyOrgGroup    Why = "merge groups of the organization's policy repository are not gated"
	WhyOtherAction Why = "requested action is not ours"
	WhyOtherBranch Why = "branch decides nothing"
	WhyNoPolicy    Why = "push leaves the organization's policy alone"
	WhyRepository  Why = "change of the repository decides nothing"
	WhyRemoved     Why = "only ordinary repositories were removed"
	WhyUnseen      Why = "comment is on a pull request never seen"
	WhyUnknownHead Why = "check run is of a commit that nothing open is known to be at"
)

// actionReEvaluate is the identifier of the button on a completed check (RG-054, RG-300).
const actionReEvaluate = "re-evaluate"

// Work is what one event asks for: Direct for one pull request, Group for a merge group, Known for whatever is known of a commit, or
// Authority for a change of who may approve or what is asked. Where all are nil, Why says why the event is acknowledged without
// being retained.
type Work struct {
	Direct    *store.DirectWork
	Authority *store.AuthorityWork
	Group     *store.GroupWork
	Known     *store.HeadWork
	Why       Why
}

func none(why Why) Work { return Work{Why: why} }

// Classify is the map of spec sections C and D. It is pure, and total: an event it does not know creates no work (RG-036).
// Of an event that is not Mapped it reads the name alone. It may be asked about an event that DecodeEvent refused, to learn
// whether anything would have come of it: a field that was not well formed is empty, and never turns work into none.
func Classify(e ghclient.Event) Work {
	switch {
	case !e.Mapped:
		return none(WhyUnmapped)
	}
	switch e.Name {
	case "pull_request", "pull_request_review":
		return pullWork(e)
	case "check_run":
		return checkRunWork(e)
	case "merge_group":
		return groupWork(e) // D6
	case "issue_comment":
		return commentWork(e)
	case "push":
		return pushWork(e)
	case "label", "member", "team_add":
		return repositoryWork(e) // RG-076
	case "membership", "team", "organization", "installation", "installation_target":
		return installationWork(e) // RG-077, RG-081, RG-086; which actions count is DecodeEvent's Mapped
	case "repository":
		return repositoryEventWork(e)
	case "installation_repositories":
		return selectionWork(e)
	}
	return none(WhyUnmapped)
}

// pullWork is RG-050…052. A closed pull request has nothing to decide but its own closing, which revokes or finishes (P7).
func pullWork(e ghclient.Event) Work {
	closing := e.Name == "pull_request" && e.Action == "closed"
	switch {
	case e.OrgPolicy:
		return none(WhyOrgPolicy) // RG-055
	case e.Pull.State == "closed" && !closing:
		return none(WhyClosed)
	}
	w := direct(e, e.Pull.Number, e.Pull.HeadSHA)
	w.Before = before(e.Pull)
	w.BaseRef = e.Pull.BaseRef
	w.State = e.Pull.State
	w.Title, w.AuthorLogin = e.Pull.Title, e.Pull.Author
	// A payload that is open and merged contradicts itself; only a merged pull request keeps its success (P7), so doubt means no.
	w.Merged = e.Pull.Merged && e.Pull.State == "closed"
	w.Watermark.UpdatedAt = e.Pull.UpdatedAt
	if e.Review != nil {
		w.Watermark.ReviewID = e.Review.ID
		w.Watermark.ReviewState = strings.ToUpper(e.Review.State) // as GitHub's API spells it, which is what it is compared with
	}
	return Work{Direct: w}
}

// before is the head that a push left behind, revoked as well (P7).
func before(p *ghclient.PullRef) store.SHA {
	if strings.Trim(p.BeforeSHA, "0") == "" || p.BeforeSHA == p.HeadSHA {
		return "" // git's name for "no commit", or no move at all
	}
	return store.SHA(p.BeforeSHA)
}

// checkRunWork is RG-053, RG-054 and RG-039 as D21 has it: the run of a fork's head or of a merge group's names no pull request, and
// that of a shared head several; the press counts for the commit, where something open is known to be at it. DecodeEvent maps only runs of our own App (RG-037, RG-038).
func checkRunWork(e ghclient.Event) Work {
	run := e.CheckRun
	switch {
	case e.Action == "requested_action" && run.Identifier != actionReEvaluate:
		return none(WhyOtherAction)
	case e.OrgPolicy:
		return none(WhyOrgPolicy)
	case len(run.Pulls) != 1:
		return Work{Known: &store.HeadWork{
			Installation: store.InstallationID(e.Installation), AccountLogin: e.AccountLogin, Repository: store.RepositoryID(e.Repository.ID),
			FullName: e.Repository.FullName, Head: store.SHA(run.HeadSHA), Reason: reason(e),
		}}
	}
	w := direct(e, run.Pulls[0], run.HeadSHA)
	// The payload does not say; a pull request already seen keeps what was seen of it, because this carries no time (P5).
	w.State = "open"
	return Work{Direct: w}
}

// groupWork is D6: a merge group that asks for checks is evaluated, and one that is destroyed is over. A group in the organization's
// policy repository is not gated, like its pull requests (RG-055).
func groupWork(e ghclient.Event) Work {
	if e.OrgPolicy {
		return none(WhyOrgGroup)
	}
	g := e.MergeGroup
	if g == nil {
		return Work{Group: &store.GroupWork{}} // refused for its fields, never ignored for them
	}
	return Work{Group: &store.GroupWork{
		Installation: store.InstallationID(e.Installation),
		AccountLogin: e.AccountLogin,
		Repository:   store.RepositoryID(e.Repository.ID),
		FullName:     e.Repository.FullName,
		Head:         store.SHA(g.HeadSHA),
		HeadRef:      g.HeadRef,
		BaseRef:      strings.TrimPrefix(g.BaseRef, "refs/heads/"),
		BaseSHA:      store.SHA(g.BaseSHA),
		Ended:        e.Action == "destroyed",
		EndedReason:  endedReason(e),
		Reason:       reason(e),
	}}
}

// endedReason is why a group was destroyed, in GitHub's words as far as they are known here.
func endedReason(e ghclient.Event) string {
	switch why := e.MergeGroup.Reason; {
	case e.Action != "destroyed":
		return ""
	case why == "merged", why == "invalidated", why == "dequeued":
		return why
	}
	return "unknown"
}

// commentWork is break-glass: a comment of the fixed form, an edit of one or its deletion. The payload names no head; the pull
// request's last seen one is revoked (store.AcceptKnownPull). DecodeEvent maps no other comment.
func commentWork(e ghclient.Event) Work {
	switch {
	case e.OrgPolicy:
		return none(WhyOrgPolicy)
	case e.Comment.State == "closed":
		return none(WhyClosed)
	}
	return Work{Direct: direct(e, e.Comment.Issue, "")}
}

func direct(e ghclient.Event, number int, head string) *store.DirectWork {
	return &store.DirectWork{
		Installation: store.InstallationID(e.Installation),
		AccountLogin: e.AccountLogin,
		Repository:   store.RepositoryID(e.Repository.ID),
		FullName:     e.Repository.FullName,
		Number:       number,
		Head:         store.SHA(head),
		Watermark:    store.Watermark{Head: store.SHA(head)},
		Reason:       reason(e),
	}
}

// pushWork is RG-070…075. DecodeEvent does not map tags and deletions (RG-071).
func pushWork(e ghclient.Event) Work {
	p := e.Push
	switch {
	case p.Branch == "" || p.Deleted:
		return none(WhyUnmapped)
	case !e.OrgPolicy:
		w := authority(e, store.ScopeBase)
		w.Repository, w.FullName, w.BaseRef = store.RepositoryID(e.Repository.ID), e.Repository.FullName, p.Branch
		if !p.Forced { // a branch that was rewound or rewritten leaves no pull request as it was (P15)
			w.Before, w.After = commit(p.Before), commit(p.After)
		}
		return Work{Authority: w}
	case e.Repository.DefaultBranch != "" && p.Branch != e.Repository.DefaultBranch:
		return none(WhyOtherBranch)
	case p.TouchesPolicy || p.Forced || !p.CommitsComplete: // RG-074: a push not known in full may have touched it
		return installationWork(e)
	}
	return none(WhyNoPolicy)
}

// commit is a payload's commit id, "" where it has not the form of one.
func commit(text string) store.SHA {
	if sha := store.SHA(text); sha.Valid() {
		return sha
	}
	return ""
}

// repositoryEventWork is RG-078…080.
func repositoryEventWork(e ghclient.Event) Work {
	switch e.Action {
	case "renamed", "transferred":
		return installationWork(e)
	case "unarchived":
		if !e.OrgPolicy {
			return installationWork(e) // RG-079 is about targets; a policy repository is read whether it is archived or not
		}
	case "deleted":
		if e.OrgPolicy {
			return installationWork(e)
		}
	case "edited":
		if e.OrgPolicy && e.DefaultBranchChanged {
			return installationWork(e)
		}
	}
	return none(WhyRepository)
}

// selectionWork is RG-082…085: repositories were given to or taken from the installation.
func selectionWork(e ghclient.Event) Work {
	if e.Action == "removed" && e.Removed != nil && e.Removed.WellFormed && !e.OrgPolicy {
		return none(WhyRemoved) // nothing of them can be read or written any more
	}
	return installationWork(e)
}

func installationWork(e ghclient.Event) Work {
	return Work{Authority: authority(e, store.ScopeInstallation)}
}

func repositoryWork(e ghclient.Event) Work {
	w := authority(e, store.ScopeRepository)
	w.Repository, w.FullName = store.RepositoryID(e.Repository.ID), e.Repository.FullName
	return Work{Authority: w}
}

func authority(e ghclient.Event, scope store.Scope) *store.AuthorityWork {
	return &store.AuthorityWork{
		Installation: store.InstallationID(e.Installation),
		AccountLogin: e.AccountLogin,
		Scope:        scope,
		Reason:       reason(e),
	}
}

// reason is RG-056. A push has no action and is its own reason.
func reason(e ghclient.Event) string {
	if e.Action == "" {
		return e.Name
	}
	return e.Name + "." + e.Action
}
