package ghclient

import (
	"slices"
	"strings"
)

// DecodeEvent reads a webhook whose signature was verified. name is X-GitHub-Event; self is our App; orgPolicyRepo is the name
// of the repository that holds an organization's policy (".github"); policyPaths are the paths whose change matters there.
//
// A body that is not one JSON object in UTF-8 and an action that is not a string are refused for every event (RG-029, RG-030).
// An event that can create work (Event.Mapped) is refused when a field such work needs is not what it must be (RG-032…034);
// any other event is never refused for its fields. Every refusal is a *FieldError. It is pure, and may run twice.
func DecodeEvent(name string, body []byte, self AppIdentity, orgPolicyRepo string, policyPaths []string) (Event, error) {
	root, err := parseObject(body)
	if err != nil {
		return Event{}, err
	}
	e := Event{Name: name}
	if root.mentions("action") {
		text, ok := root.at("action").value.str()
		if !ok {
			return Event{}, &FieldError{Field: "action", Want: "a string"}
		}
		e.Action = text
	}
	decode, known := decoders[name]
	if !known {
		return e, nil
	}
	d := decoder{self: self, orgRepo: orgPolicyRepo, paths: policyPaths, event: &e}
	d.common(root.lenient())
	if e.Mapped = d.mapped(root.lenient()); !e.Mapped {
		decode(&d, root.lenient())
		return e, nil
	}
	decode(&d, root)
	e.OrgPolicy = e.OrgPolicy || d.isOrgPolicy(e.Repository.FullName) || d.isOrgPolicy(e.PreviousName)
	return e, root.read.err
}

type decoder struct {
	self    AppIdentity
	orgRepo string
	paths   []string
	event   *Event
}

var decoders = map[string]func(*decoder, node){
	"pull_request":              (*decoder).pullRequest,
	"pull_request_review":       (*decoder).review,
	"check_run":                 (*decoder).checkRun,
	"push":                      (*decoder).push,
	"label":                     (*decoder).inRepository,
	"member":                    (*decoder).inRepository,
	"team_add":                  (*decoder).team,
	"membership":                (*decoder).team,
	"team":                      (*decoder).team,
	"organization":              (*decoder).organization,
	"repository":                (*decoder).repository,
	"installation":              (*decoder).installation,
	"installation_repositories": (*decoder).installationRepositories,
	"installation_target":       (*decoder).installationTarget,
	"merge_group":               (*decoder).mergeGroup,
	"issue_comment":             (*decoder).comment,
}

// mappedActions: which actions may create work (spec C, D). An event that isn't here maps whatever its action.
var mappedActions = map[string][]string{
	"pull_request": {"opened", "reopened", "synchronize", "ready_for_review", "converted_to_draft", "edited", "labeled",
		"unlabeled", "review_requested", "review_request_removed", "closed"},
	"pull_request_review":       {"submitted", "edited", "dismissed"},
	"check_run":                 {"rerequested", "requested_action"},
	"repository":                {"deleted", "renamed", "transferred", "edited", "unarchived"},
	"installation":              {"created", "unsuspend", "new_permissions_accepted"},
	"installation_repositories": {"added", "removed"},
	"installation_target":       {"renamed"},
	"merge_group":               {"checks_requested", "destroyed"},
	"issue_comment":             {"created", "edited", "deleted"},
}

// mapped decides strictness. It reads leniently: a payload that is unmapped must not be refused for a field nobody would use.
func (d *decoder) mapped(root node) bool {
	actions, limited := mappedActions[d.event.Name]
	if limited && !slices.Contains(actions, d.event.Action) {
		return false
	}
	switch d.event.Name {
	case "push": // RG-071: tags and deletions are no work
		branch := strings.HasPrefix(root.at("ref").optionalText(), branchPrefix)
		return (branch || root.at("ref").optionalText() == "") && !root.at("deleted").optionalFlag()
	case "check_run": // RG-037, RG-038: another App's run is none of our business
		app := root.at("check_run").at("app").at("id").optionalID()
		return app == 0 || app == d.self.ID
	case "repository": // RG-080
		return d.event.Action != "edited" || root.at("changes").has("default_branch")
	case "issue_comment": // break-glass is asked for, confirmed and taken back by comments of a fixed form; all others decide nothing
		return root.at("issue").has("pull_request") && (isCommand(root.at("comment").at("body")) || isCommand(root.at("changes").at("body").at("from")))
	}
	return true
}

// common fills what most payloads have, without insisting on any of it.
func (d *decoder) common(root node) {
	e := d.event
	e.Installation = root.at("installation").at("id").optionalID()
	e.Sender = root.at("sender").actor()
	for _, owner := range []node{root.at("installation").at("account"), root.at("organization"), root.at("repository").at("owner")} {
		if e.AccountLogin == "" {
			e.AccountLogin = strings.ToLower(owner.at("login").optionalText())
		}
		if e.AccountLogin == "" { // an enterprise account has a slug; the owner of a push has a name
			e.AccountLogin = strings.ToLower(owner.at("slug").optionalText())
		}
	}
	if root.has("repository") {
		e.Repository = repoRef(root.at("repository"))
		e.OrgPolicy = d.isOrgPolicy(e.Repository.FullName)
	}
}

func repoRef(repo node) RepoRef {
	return RepoRef{
		ID:            repo.object().at("id").id(),
		FullName:      repo.at("full_name").fullName(),
		DefaultBranch: repo.at("default_branch").optionalText(),
		Archived:      repo.at("archived").optionalFlag(),
	}
}

// isOrgPolicy compares the name part only: a payload's repository always belongs to the installation's account, and after a
// rename of the account the two spellings of the owner differ for a while (RG-087).
func (d *decoder) isOrgPolicy(fullName string) bool {
	_, name, ok := strings.Cut(fullName, "/")
	return ok && d.orgRepo != "" && strings.EqualFold(name, d.orgRepo)
}

func (d *decoder) installationID(root node) {
	d.event.Installation = root.at("installation").object().at("id").id()
}

func (d *decoder) inRepository(root node) {
	d.installationID(root)
	d.event.Repository = repoRef(root.at("repository"))
}

func (d *decoder) pullRequest(root node) {
	d.inRepository(root)
	d.event.Pull = pullRef(root.at("pull_request"))
	if root.has("number") && root.at("number").number() != d.event.Pull.Number {
		root.at("number").fail("the number of pull_request")
	}
	if d.event.Action == "synchronize" {
		// A push of a first commit to an emptied branch has no usable before; then nothing older is revoked by it.
		d.event.Pull.BeforeSHA = root.at("before").optionalSHA()
	}
}

func pullRef(pull node) *PullRef {
	pull.object()
	return &PullRef{
		Number:    pull.at("number").number(),
		HeadSHA:   pull.at("head").object().at("sha").sha(),
		BaseRef:   pull.at("base").object().at("ref").text(),
		BaseSHA:   pull.at("base").at("sha").optionalSHA(),
		State:     pull.at("state").oneOf("open", "closed"), // RG-034
		Merged:    pull.at("merged").optionalFlag() || pull.at("merged_at").optionalText() != "",
		Draft:     pull.at("draft").optionalFlag(),
		UpdatedAt: pull.at("updated_at").instant(),
		Title:     shown(pull.at("title").optionalText()),
		Author:    shown(pull.at("user").at("login").optionalText()),
	}
}

// maxShown is how much of a text that is only shown is kept: GitHub's own bound of a title.
const maxShown = 256

// shown makes a text of the outside fit to be stored: valid, without NUL, bounded.
func shown(text string) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
	if runes := []rune(text); len(runes) > maxShown {
		return string(runes[:maxShown])
	}
	return text
}

func (d *decoder) review(root node) {
	d.inRepository(root)
	d.event.Pull = pullRef(root.at("pull_request"))
	review := root.at("review").object()
	d.event.Review = &ReviewRef{
		ID:        review.at("id").id(),
		State:     strings.ToLower(review.at("state").text()),
		CommitID:  review.at("commit_id").optionalSHA(),
		UpdatedAt: review.at("updated_at").instant(),
	}
	if d.event.Review.UpdatedAt.IsZero() {
		d.event.Review.UpdatedAt = review.at("submitted_at").instant()
	}
}

func (d *decoder) checkRun(root node) {
	d.inRepository(root)
	run := root.at("check_run").object()
	ref := &CheckRunRef{
		AppID:   run.at("app").object().at("id").id(),
		ID:      run.at("id").id(),
		Name:    run.at("name").optionalText(),
		HeadSHA: run.at("head_sha").sha(),
	}
	for _, pull := range run.at("pull_requests").list() {
		ref.Pulls = append(ref.Pulls, pull.object().at("number").number())
	}
	if d.event.Action == "requested_action" {
		ref.Identifier = root.at("requested_action").object().at("identifier").text()
	}
	d.event.CheckRun = ref
}

func (d *decoder) mergeGroup(root node) {
	d.inRepository(root)
	group := root.at("merge_group").object()
	d.event.MergeGroup = &MergeGroupRef{
		HeadSHA: group.at("head_sha").sha(),
		HeadRef: group.at("head_ref").text(),
		BaseSHA: group.at("base_sha").sha(),
		BaseRef: group.at("base_ref").text(),
		Reason:  root.at("reason").optionalText(),
	}
}

// CommandPrefix begins every comment that Countersign reads.
const CommandPrefix = "/countersign "

func isCommand(body node) bool {
	return strings.HasPrefix(strings.TrimLeft(body.optionalText(), " \t\r\n"), CommandPrefix)
}

func (d *decoder) comment(root node) {
	d.inRepository(root)
	issue, comment := root.at("issue").object(), root.at("comment").object()
	d.event.Comment = &CommentRef{
		ID:        comment.at("id").id(),
		Issue:     issue.at("number").number(),
		OnPull:    issue.has("pull_request"),
		State:     issue.at("state").oneOf("open", "closed"),
		Author:    comment.at("user").actor(),
		UpdatedAt: comment.at("updated_at").instant(),
	}
}
