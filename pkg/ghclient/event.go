package ghclient

import "time"

// Event is a webhook reduced to what routing needs. None of it is evidence (I2): it says where to look, never what is true.
type Event struct {
	Name   string
	Action string
	// Mapped reports that (Name, Action) may create work, so that every field such work needs was checked (RG-032…034).
	// Where it is false only Name and Action are sure to be set; the other fields are filled as far as they were well formed.
	Mapped bool

	Installation int64
	AccountLogin string // owner of the installation, lower case: decides which repository holds the organization's policy
	Repository   RepoRef
	// OrgPolicy reports that Repository (by its present or its previous name) is the organization's policy repository (RG-087).
	OrgPolicy bool
	Sender    Actor

	Pull       *PullRef
	Review     *ReviewRef
	CheckRun   *CheckRunRef
	Push       *PushRef
	Removed    *RemovedRepos
	Added      []RepoRef // installation_repositories.added, installation.created; only well-formed entries
	MergeGroup *MergeGroupRef
	Comment    *CommentRef
	Team       *TeamRef

	PreviousName         string // repository renamed or transferred: the former full name, lower case
	PreviousAccount      string // organization or installation_target renamed, repository transferred: the former owner, lower case
	DefaultBranchChanged bool
}

// RepoRef is a repository as a payload names it.
type RepoRef struct {
	ID            int64
	FullName      string // lower case, exactly one slash
	DefaultBranch string
	Archived      bool
}

// PullRef is the pull request of a payload: a lower bound for what a later read must show (P5).
type PullRef struct {
	Number    int
	HeadSHA   string
	BeforeSHA string // synchronize: the head that was left, which is revoked too (P7); "" otherwise
	BaseRef   string
	BaseSHA   string
	State     string // open or closed
	Merged    bool
	Draft     bool
	UpdatedAt time.Time
	// Title and Author are for people's eyes, on pages and in lists, until GitHub is read: at most 256 characters, "" where the
	// payload has none. Nothing is decided by them (RG-002).
	Title  string
	Author string
}

// ReviewRef is the review of a payload.
type ReviewRef struct {
	ID        int64
	State     string // lower case as webhooks have it: approved, changes_requested, commented, dismissed
	CommitID  string
	UpdatedAt time.Time // updated_at, or submitted_at where a payload has no updated_at
}

// CheckRunRef is the check run of a payload.
type CheckRunRef struct {
	AppID      int64
	ID         int64
	Name       string
	HeadSHA    string
	Pulls      []int // numbers; empty for a fork's head
	Identifier string
}

// PushRef is a push.
type PushRef struct {
	Ref     string // full: refs/heads/main
	Branch  string // without refs/heads/; "" for anything that is not a branch
	Before  string
	After   string
	Deleted bool
	Forced  bool
	// CommitsComplete reports that every pushed commit is listed with well-formed paths, so that TouchesPolicy is the whole truth.
	// False makes the push conservative (RG-074).
	CommitsComplete bool
	TouchesPolicy   bool // a listed commit adds, changes or removes one of the policy paths
	Commits         int
}

// RemovedRepos is the removal list of installation_repositories.removed (RG-083…085).
type RemovedRepos struct {
	WellFormed bool     // not empty and every element has a numeric id and a full name
	Names      []string // lower case, of the well-formed elements
	IDs        []int64
}

// MergeGroupRef is a merge queue's group.
type MergeGroupRef struct {
	HeadSHA string
	HeadRef string
	BaseSHA string
	BaseRef string // full: refs/heads/main
	Reason  string // destroyed: merged, invalidated or dequeued
}

// CommentRef is a comment on an issue or a pull request.
type CommentRef struct {
	ID        int64
	Issue     int
	OnPull    bool
	State     string // open or closed
	Author    Actor
	UpdatedAt time.Time
}

// TeamRef is the team of a team, team_add or membership payload.
type TeamRef struct {
	ID   int64
	Slug string
}
