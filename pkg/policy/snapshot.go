package policy

import "time"

// SnapshotVersion is the version of the JSON form that this package reads and
// writes. Any other version is refused, never guessed at.
const SnapshotVersion = 1

// FactState says what is known about one fact. The zero value means that
// nobody has asked GitHub yet; Needs asks for such a fact where a decision
// rests on it. Neither a missing nor an unknown fact ever grants anything (I6).
type FactState string

// The states of a fact.
const (
	// FactMissing: not asked yet. Needs names it when it matters.
	FactMissing FactState = ""
	// FactUnknown: asked, and the answer settled nothing (an error, a
	// truncated page, no access). Needs does not name it again.
	FactUnknown FactState = "unknown"
	// FactAbsent: GitHub says that it does not exist (404).
	FactAbsent FactState = "absent"
	// FactPresent: read in full and believed complete.
	FactPresent FactState = "present"
)

// Snapshot is everything a verdict rests on: one head commit of one
// repository, every open pull request on it (Differences D7), and the facts of
// GitHub that they share. It is read after the claim, never taken from a
// webhook payload (I2), and does not change once it is given to Evaluate
// (RG-246). The order of its collections carries no meaning (I8).
//
// docs/snapshot.md and schema/snapshot.schema.json describe the JSON form;
// DecodeSnapshot reads it strictly and Snapshot.MarshalCanonical writes it.
type Snapshot struct {
	// Version is SnapshotVersion.
	Version int `json:"version"`
	// Now is the moment of the snapshot by the database's clock. Evaluate has
	// no clock of its own: expiry of a break-glass release is judged by it.
	Now time.Time `json:"now"`
	// Repository is the base repository of every pull request in Pulls.
	Repository Repository `json:"repository"`
	// HeadSHA is the exact head commit under judgement: 40 or 64 lower-case
	// hexadecimal digits.
	HeadSHA string `json:"head_sha"`
	// Settings are the operator's settings that a verdict depends on.
	Settings Settings `json:"settings"`

	// Unreadable is evidence that GitHub refuses to show, or more than is ever
	// read. Any entry blocks, and the verdict says what mends it.
	Unreadable []Unreadable `json:"unreadable,omitempty"`

	// PullsState is FactPresent when Pulls is known to hold every open pull
	// request on HeadSHA (architecture P6). Anything else blocks.
	PullsState FactState `json:"pulls_state"`
	// Pulls are the open pull requests whose head is HeadSHA.
	Pulls []PullRequest `json:"pulls"`

	// MergeGroup is set where HeadSHA is the head of a merge queue's group:
	// then Pulls also holds the group's members, each at its own head inside
	// the group (architecture P13).
	MergeGroup *MergeGroup `json:"merge_group,omitempty"`

	// Bases holds what was read at each base commit, keyed by base SHA. Pull
	// requests with the same base share one entry.
	Bases map[string]Base `json:"bases"`
	// OrganizationPolicy is the policy file of the repository <owner>/.github
	// at its default branch.
	OrganizationPolicy OrganizationPolicy `json:"organization_policy"`

	// Teams is keyed by "org/slug", lower case.
	Teams map[string]TeamFact `json:"teams,omitempty"`
	// Memberships is keyed by "org/slug", then by login, both lower case.
	// A login without an entry has not been asked about.
	Memberships map[string]map[string]Membership `json:"memberships,omitempty"`
	// Users is keyed by login, lower case: the user's permission on Repository.
	Users map[string]UserFact `json:"users,omitempty"`
	// Apps is keyed by the bot's login, "slug[bot]", lower case: the identity
	// fetched independently of the review (RG-338).
	Apps map[string]AppFact `json:"apps,omitempty"`
}

// Unreadable is a part of the evidence that asking again does not bring: a
// permission is missing, a limit is exceeded, a file is no policy file.
type Unreadable struct {
	// Code is missing_permission, evidence_refused, evidence_limit_exceeded,
	// pull_request_too_large, policy_unreadable or malformed_github_evidence.
	Code Code `json:"code"`
	// Subject is what could not be read, in words.
	Subject string `json:"subject"`
	// Detail is the missing permission, or what GitHub said.
	Detail string `json:"detail,omitempty"`
}

// Repository identifies the base repository. ID is the identity; FullName is
// the route that GitHub reported for it, already checked by the caller (D2).
type Repository struct {
	ID       int64  `json:"id"`
	FullName string `json:"full_name"`
	// Owner is the login of the owner, the part of FullName before the slash.
	Owner string `json:"owner"`
	// OwnerType is "Organization" or "User", as GitHub spells it. Teams exist
	// only where it is "Organization".
	OwnerType string `json:"owner_type"`
}

// Settings are the operator's settings that enter a verdict.
type Settings struct {
	// CheckName is the name of the managed check, for the text only.
	CheckName string `json:"check_name"`
	// AllowInsecureChanges removes the built-in non-delegable paths, never an
	// organisation's guardrails (RG-346).
	AllowInsecureChanges bool `json:"allow_insecure_changes"`
	// MissingApproval is how a missing approval looks (D10): "" or "failure",
	// "action_required", "pending". It never changes what is allowed.
	MissingApproval Look `json:"missing_approval,omitempty"`
}

// Actor is a user or a bot as GitHub names it.
type Actor struct {
	ID    int64  `json:"id"`
	Login string `json:"login"`
	// Type is "User" or "Bot"; every other type is refused as evidence (RG-332).
	Type string `json:"type"`
}

// Actor types that may give evidence.
const (
	ActorUser = "User"
	ActorBot  = "Bot"
)

// PullRequest is one open pull request on the head.
type PullRequest struct {
	Number int `json:"number"`
	// Author is nil when GitHub no longer knows the account.
	Author  *Actor   `json:"author"`
	BaseRef string   `json:"base_ref"`
	BaseSHA string   `json:"base_sha"`
	HeadSHA string   `json:"head_sha"`
	Draft   bool     `json:"draft"`
	Labels  []string `json:"labels"`
	// ChangedFiles is the count that the pull request itself reports; it must
	// equal the number of files read (RG-349). From 3,000 on, where the list
	// comes from trees, a rename may be a removed and an added file.
	ChangedFiles int      `json:"changed_files"`
	Files        FileList `json:"files"`
	// Reviews are all reviews of the pull request, of whatever state.
	Reviews ReviewList `json:"reviews"`
	// LastPusher is who pushed the head last. Asked for only where the policy
	// excludes that person.
	LastPusher ActorFact `json:"last_pusher"`
	// BaseChange says when the pull request's base branch was last changed.
	// Asked for only where content-stable approvals are on (a change of base
	// branch always resets them).
	BaseChange BaseChangeFact `json:"base_change"`
	// OlderHeads holds what the pull request changed at an older head, keyed
	// by that head's SHA. Asked for only where content-stable approvals are on.
	OlderHeads map[string]FileList `json:"older_heads,omitempty"`
	// Comments are the issue comments of the pull request. Asked for only
	// where break-glass is on.
	Comments CommentList `json:"comments"`
}

// FileList is a list of changed files with its state: FactPresent means that
// Items is every file.
type FileList struct {
	State FactState     `json:"state,omitempty"`
	Items []ChangedFile `json:"items,omitempty"`
	// ContentState is FactPresent when every item carries Before and After
	// wherever such a side exists. Only content-stable approvals need it.
	ContentState FactState `json:"content_state,omitempty"`
}

// ChangedFile is one file of a pull request.
type ChangedFile struct {
	Path string `json:"path"`
	// PreviousPath is required for status "renamed" and, where GitHub gives
	// it, present for "copied".
	PreviousPath string `json:"previous_path,omitempty"`
	// Status is added, removed, modified, renamed, copied, changed or
	// unchanged, as GitHub spells it.
	Status string `json:"status"`
	// Before is the file at the base side of the comparison, under PreviousPath or Path; nil
	// where there was none (or where content was not asked for).
	Before *Blob `json:"before,omitempty"`
	// After is the file at the head; nil where there is none.
	After *Blob `json:"after,omitempty"`
}

// Blob is the content of one path in one tree: the git object id and mode
// ("100644", "100755", "120000", "160000").
type Blob struct {
	SHA  string `json:"sha"`
	Mode string `json:"mode"`
}

// ReviewList is a list of reviews with its state: FactPresent means that Items
// is every review.
type ReviewList struct {
	State FactState `json:"state,omitempty"`
	Items []Review  `json:"items,omitempty"`
}

// Review is one review of a pull request, in whatever state.
type Review struct {
	ID int64 `json:"id"`
	// State is APPROVED, CHANGES_REQUESTED, DISMISSED, COMMENTED or PENDING.
	State string `json:"state"`
	// Author is nil when GitHub no longer knows the account; such an
	// opinionated review is an error (RG-332), never skipped.
	Author   *Actor `json:"author"`
	CommitID string `json:"commit_id"`
	// SubmittedAt is the zero time for a review that was never submitted.
	SubmittedAt time.Time `json:"submitted_at,omitzero"`
}

// ActorFact is a fact that names one actor. FactAbsent means that GitHub
// names none.
type ActorFact struct {
	State FactState `json:"state,omitempty"`
	Actor *Actor    `json:"actor,omitempty"`
}

// BaseChangeFact says when the base branch was last changed; FactAbsent means
// never.
type BaseChangeFact struct {
	State FactState `json:"state,omitempty"`
	At    time.Time `json:"at,omitzero"`
}

// CommentList is a list of issue comments with its state.
type CommentList struct {
	State FactState `json:"state,omitempty"`
	Items []Comment `json:"items,omitempty"`
}

// Comment is one issue comment. A comment whose UpdatedAt differs from its
// CreatedAt was edited and releases nothing.
type Comment struct {
	ID        int64     `json:"id"`
	Author    *Actor    `json:"author"`
	Body      string    `json:"body"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// Base is what was read at one base commit.
type Base struct {
	// Codeowners is the first CODEOWNERS file found in .github/, the root and
	// docs/, in that order (RG-315).
	Codeowners FileFact `json:"codeowners"`
	// CodeownersErrors is what GitHub's codeowners/errors endpoint reports at
	// this commit. FactPresent with no items means that it reports none.
	CodeownersErrors CodeownersErrorList `json:"codeowners_errors"`
	// Policy is .github/countersign.toml, FallbackPolicy is
	// .github/extra-codeowners.toml (D5). Both are always read.
	Policy         FileFact `json:"policy"`
	FallbackPolicy FileFact `json:"fallback_policy"`
}

// FileFact is one file at one commit.
type FileFact struct {
	State FactState `json:"state,omitempty"`
	// Path is where the file was found, relative to the repository's root.
	Path string `json:"path,omitempty"`
	// Text is the whole file. The caller refuses a file that is not UTF-8
	// with FactUnknown: it has no JSON form.
	Text string `json:"text,omitempty"`
}

// CodeownersErrorList is the answer of GitHub's codeowners/errors endpoint.
type CodeownersErrorList struct {
	State FactState         `json:"state,omitempty"`
	Items []CodeownersError `json:"items,omitempty"`
}

// CodeownersError is one entry of GitHub's codeowners/errors endpoint.
type CodeownersError struct {
	Line       int    `json:"line"`
	Column     int    `json:"column"`
	Kind       string `json:"kind"`
	Source     string `json:"source,omitempty"`
	Suggestion string `json:"suggestion,omitempty"`
	Message    string `json:"message,omitempty"`
	Path       string `json:"path,omitempty"`
}

// OrganizationPolicy is the policy file of the repository <owner>/.github.
type OrganizationPolicy struct {
	// Repository is FactPresent when that repository is in the installation,
	// FactAbsent when it is not (RG-356: blocks), otherwise unknown.
	Repository FactState `json:"repository,omitempty"`
	// Policy and FallbackPolicy are the two paths of D5 at its default branch.
	// Both absent means an empty organisation policy.
	Policy         FileFact `json:"policy"`
	FallbackPolicy FileFact `json:"fallback_policy"`
}

// TeamFact is one team as the installation sees it now.
type TeamFact struct {
	State FactState `json:"state,omitempty"`
	ID    int64     `json:"id,omitempty"`
	// Privacy is "closed" (visible) or "secret". Only a visible team counts
	// (RG-334).
	Privacy string `json:"privacy,omitempty"`
	// Permission is the team's permission on the repository: admin, maintain,
	// push, triage, pull; "none" when it has no access; "" when unknown.
	Permission string `json:"permission,omitempty"`
	// Members is the number of active members, nil when not asked and -1 when
	// GitHub did not say. Only ownership health reads it.
	Members *int `json:"members,omitempty"`
}

// Membership is the state of one person in one team.
type Membership string

// The states of a membership. The zero value and MembershipUnknown never
// grant anything.
const (
	MembershipUnknown Membership = "unknown"
	MembershipNone    Membership = "none"
	MembershipPending Membership = "pending"
	MembershipActive  Membership = "active"
)

// UserFact is one user's permission on the repository now. FactAbsent means
// that GitHub knows no such user or answers 404 (RG-335: not eligible).
type UserFact struct {
	State FactState `json:"state,omitempty"`
	// ID must equal the id of the review's author: a login can be given up and
	// taken by somebody else.
	ID int64 `json:"id,omitempty"`
	// Permission is admin, maintain, write, triage, read or none. The caller
	// gives the finest that GitHub reports (role_name before permission).
	Permission string `json:"permission,omitempty"`
}

// AppFact is the bot account of an App, fetched by its login and not taken
// from a review.
type AppFact struct {
	State FactState `json:"state,omitempty"`
	ID    int64     `json:"id,omitempty"`
	Login string    `json:"login,omitempty"`
	Type  string    `json:"type,omitempty"`
}
