package ghclient

import (
	"strings"
	"time"
)

// Repo is a route to a repository together with the identity it must have.
// A name alone is never trusted: every answer that carries a repository is compared with ID, and a difference is ErrMoved.
// ID 0 means the identity isn't known yet; then the answer's id is taken.
type Repo struct {
	ID    int64
	Owner string
	Name  string
}

// FullName is the route in the form work is keyed by: lower case (RG-035).
func (r Repo) FullName() string { return strings.ToLower(r.Owner + "/" + r.Name) }

// RepoFromFullName splits "owner/name". It reports false unless there is exactly one slash with text on both sides.
func RepoFromFullName(id int64, full string) (Repo, bool) {
	owner, name, ok := strings.Cut(full, "/")
	if !ok || owner == "" || name == "" || strings.Contains(name, "/") {
		return Repo{}, false
	}
	return Repo{ID: id, Owner: owner, Name: name}, true
}

// Actor is an account. The zero value stands for an account that was deleted: GitHub answers null for it.
type Actor struct {
	ID    int64
	Login string
	Type  string // User, Bot, Organization, Mannequin, EnterpriseUserAccount; "" when deleted
}

// RepositoryInfo is a repository as GitHub reports it now.
type RepositoryInfo struct {
	Repo
	DefaultBranch string
	Archived      bool
	Private       bool
	OwnerType     string // User or Organization
}

// Pull is the core of a pull request: every field the publication fences compare (RG-247, RG-248).
type Pull struct {
	Number       int
	NodeID       string
	State        string // open or closed
	Merged       bool
	Draft        bool
	HeadSHA      string // head commit, 40 or 64 lower-case hex
	HeadRef      string // branch name in the head repository
	HeadRepoID   int64  // 0: the fork was deleted
	HeadRepo     Repo   // zero: the fork was deleted
	BaseRef      string // branch name without refs/heads/
	BaseSHA      string // the base commit GitHub recorded with the pull request; it may be older than the tip of BaseRef by years
	BaseTip      string // tip of BaseRef, known only where the answer came by GraphQL (Evidence, PullState); "" otherwise
	BaseRepo     Repo
	ChangedFiles int
	Commits      int      // known only where the answer came by GraphQL
	Labels       []string // sorted
	Author       Actor
	Title        string
	HTMLURL      string
	UpdatedAt    time.Time
}

// PullSummary is one entry of the pull requests that contain a commit. It is a hint: each is fetched before it is used (RG-189).
type PullSummary struct {
	Number  int
	State   string
	HeadSHA string
	Merged  bool
}

// Review is one review in the order GitHub keeps them. Nothing is reduced here.
type Review struct {
	ID          int64
	State       string // APPROVED, CHANGES_REQUESTED, COMMENTED, DISMISSED, PENDING
	Author      Actor
	CommitID    string    // "" when GitHub no longer knows the commit
	SubmittedAt time.Time // zero while pending
}

// File is the content of one path at one commit.
type File struct {
	Path string
	Text []byte
	Ref  string // the commit it was read at
	SHA  string // git blob id
	// Symlink: the path is a symbolic link. Its text is the name of another file, so it is left out.
	Symlink bool
}

// ChangedFile is one changed path of a pull request.
type ChangedFile struct {
	Path         string
	PreviousPath string // set for a rename
	Status       string // added removed modified renamed copied changed unchanged
	BlobSHA      string // blob at the head; "" where GitHub gives none
}

// CodeownersError is one line of CODEOWNERS that GitHub itself can't use.
type CodeownersError struct {
	Line, Column                            int
	Kind, Source, Suggestion, Message, Path string
}

// Evidence is what one evaluation rests on, read in one request where GitHub allows it.
type Evidence struct {
	Pull             Pull
	Repository       RepositoryInfo // of the base
	Reviews          []Review
	RulesRef         string // the commit the files below were read at: tip of the base branch
	CodeownersFiles  []File // present ones of the three locations, in search order
	PolicyFiles      []File // present ones, in the order of Config.PolicyPaths
	CodeownersErrors []CodeownersError
	Org              OrgRules
}

// OrgRules are the organization's policy repository and what it says, at the tip of its default branch.
type OrgRules struct {
	Available     bool // false: it doesn't exist, or the installation can't see it (RG-356)
	Repo          Repo
	DefaultBranch string
	RulesRef      string
	PolicyFiles   []File // present ones, in the order of Config.PolicyPaths
}

// Team is a team as its organization sees it.
type Team struct {
	ID      int64
	Slug    string
	Privacy string // closed (visible) or secret
}

// Run is a check run as GitHub reports it.
type Run struct {
	ID          int64
	AppID       int64
	Name        string
	HeadSHA     string
	Status      string // queued in_progress completed waiting requested pending
	Conclusion  string // as reported: GitHub has been seen to keep it on a run that is no longer completed
	ExternalID  string
	StartedAt   *time.Time
	CompletedAt *time.Time
}

// RunSpec is a check run to be written. The limits of RG-293 are checked before anything is sent.
type RunSpec struct {
	Name       string
	HeadSHA    string
	Status     string
	Conclusion string
	ExternalID string
	DetailsURL string
	Title      string
	Summary    string
	Text       string
	// ReEvaluateAction adds the button of RG-300.
	ReEvaluateAction bool
}

// AppIdentity is what GET /app says about the App whose key we hold.
type AppIdentity struct {
	ID          int64
	Slug        string
	Name        string
	Permissions map[string]string
	Events      []string
}

// Installation is one installation of the App, validated (RG-423, RG-426).
type Installation struct {
	ID           int64
	AccountLogin string
	AccountID    int64
	AccountType  string
	SuspendedAt  *time.Time
	Permissions  map[string]string
}

// Permissions is what an installation token is narrowed to, permission name → read or write.
type Permissions map[string]string

// The narrowest permissions each service can work with (architecture, table of services; RG-244).
var (
	EvaluatorPermissions   = Permissions{"checks": "write", "contents": "read", "members": "read", "pull_requests": "read"}
	InvalidatorPermissions = Permissions{"checks": "write", "contents": "read", "pull_requests": "read"}
	FanoutPermissions      = Permissions{"contents": "read", "pull_requests": "read"}
	ReconcilerPermissions  = Permissions{"checks": "read", "contents": "read", "pull_requests": "read"}
)

// Membership states of a team member.
const (
	MembershipActive  = "active"
	MembershipPending = "pending"
)
