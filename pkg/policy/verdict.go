package policy

import (
	"slices"
	"time"
)

// VerdictVersion is the version of the verdict's JSON form.
const VerdictVersion = 1

// Conclusion is what a verdict says. The zero value blocks (I6): use Approved,
// never a comparison with ConclusionBlocked.
type Conclusion string

// The two conclusions.
const (
	ConclusionBlocked  Conclusion = "blocked"
	ConclusionApproved Conclusion = "approved"
)

// Approved is the only way to read a permission out of a conclusion.
func (c Conclusion) Approved() bool { return c == ConclusionApproved }

// Code is a stable, machine-readable reason. The set is closed: codes.go.
type Code string

// Verdict is the decision on one head commit with its whole explanation. The
// zero value blocks. schema/verdict.schema.json describes the JSON form.
type Verdict struct {
	// Version is VerdictVersion.
	Version    int        `json:"version"`
	Conclusion Conclusion `json:"conclusion"`
	// Managed is false when no pull request on the head has a policy file at
	// its base: the caller then writes nothing unless a managed check already
	// exists (RG-241), in which case it publishes this verdict, which is
	// blocked with CodeRepositoryPolicyDisabled (RG-354).
	Managed bool `json:"managed"`
	// Unsettled is true when the verdict is blocked and a fact that is missing
	// or unknown could have changed that: the caller should read again before
	// it tells anybody that an approval is missing.
	Unsettled bool `json:"unsettled"`
	// MissingOnly is true when nothing but missing approvals blocks: only then
	// does Settings.MissingApproval change the look (D10).
	MissingOnly bool `json:"missing_only"`
	// BreakGlass is true when at least one pull request passes only because
	// of a break-glass release.
	BreakGlass bool `json:"break_glass"`
	// NextDue is when the same facts would give another verdict (the earliest
	// expiry of a break-glass request); nil when time changes nothing.
	NextDue *time.Time `json:"next_due,omitempty"`
	HeadSHA string     `json:"head_sha"`
	// MergeGroup says what the head is the merge group of; nil for the head of
	// a pull request.
	MergeGroup *MergeGroupVerdict `json:"merge_group,omitempty"`
	// Repository is the full name, for the reader.
	Repository string `json:"repository"`
	// Codes are all reason codes of the verdict and its pull requests, sorted,
	// each once.
	Codes []Code `json:"codes"`
	// NextStep is the one thing to do next, in plain words (unescaped: Render
	// makes it safe to show).
	NextStep string `json:"next_step"`
	// Findings are reasons that belong to no single pull request.
	Findings []Finding `json:"findings,omitempty"`
	// Pulls are sorted by number. The conclusion is their conjunction (D7).
	Pulls []PullVerdict `json:"pulls"`
}

// Severity ranks a finding.
type Severity string

// The severities. Only SeverityError blocks by itself.
const (
	SeverityError   Severity = "error"
	SeverityWarning Severity = "warning"
	SeverityNotice  Severity = "notice"
)

// Finding is one reason that is not simply a missing approval.
type Finding struct {
	Severity Severity `json:"severity"`
	Code     Code     `json:"code"`
	// Subject is what the finding is about: a path, a login, a team, a file.
	Subject string `json:"subject,omitempty"`
	// Line is the line of a file the finding is about, 0 when none.
	Line int `json:"line,omitempty"`
	// Message says what is wrong and what mends it, at most 1,000 characters
	// (RG-496).
	Message string `json:"message"`
}

// PullVerdict is the verdict of one pull request, with its own base and its
// own policy.
type PullVerdict struct {
	Number     int        `json:"number"`
	Conclusion Conclusion `json:"conclusion"`
	// Managed is false when there is no policy file at the base.
	Managed bool   `json:"managed"`
	BaseRef string `json:"base_ref"`
	BaseSHA string `json:"base_sha"`
	// PolicyPath and CodeownersPath say which files decided.
	PolicyPath     string    `json:"policy_path,omitempty"`
	CodeownersPath string    `json:"codeowners_path,omitempty"`
	Findings       []Finding `json:"findings,omitempty"`
	// Groups are the owner sets of CODEOWNERS that the change touches, then
	// the requirements of the policy, each in a fixed order. All must be
	// satisfied.
	Groups []GroupVerdict `json:"groups,omitempty"`
	// Unowned are changed paths that no rule gives an owner; they require
	// nothing (RG-323).
	Unowned    []string           `json:"unowned,omitempty"`
	BreakGlass *BreakGlassVerdict `json:"break_glass,omitempty"`
	NextStep   string             `json:"next_step"`
}

// GroupKind says where a group comes from.
type GroupKind string

// The kinds of group.
const (
	GroupOwners      GroupKind = "owners"
	GroupRequirement GroupKind = "requirement"
	GroupOptional    GroupKind = "optional"
)

// GroupVerdict is one thing that must be approved: an owner set with the files
// it owns, or a requirement with the files it applies to.
type GroupVerdict struct {
	Kind GroupKind `json:"kind"`
	// Name is the requirement's name; empty for an owner set.
	Name string `json:"name,omitempty"`
	// Owners are who may approve, in CODEOWNERS form, sorted.
	Owners []string `json:"owners"`
	// Satisfied says that nothing is missing; of an optional group, that
	// somebody approved.
	Satisfied bool `json:"satisfied"`
	// Files are the paths of this group, sorted.
	Files []FileVerdict `json:"files"`
	// Required and HumansRequired are how many distinct approvers and how many
	// people among them are needed.
	Required       int `json:"required"`
	HumansRequired int `json:"humans_required,omitempty"`
	// AllOf lists the owners that must each be represented; Missing those that
	// are not yet.
	AllOf []string `json:"all_of,omitempty"`
	// Approvals are the ones that count here, sorted by approver.
	Approvals []ApprovalVerdict `json:"approvals,omitempty"`
	// Rejected are approvals that do not count here, and why.
	Rejected []RejectedApproval `json:"rejected,omitempty"`
	// Delegates are the Apps that may stand in for the owners, per alias.
	Delegates []DelegateVerdict `json:"delegates,omitempty"`
	// Missing says what is missing, empty when satisfied.
	Missing string `json:"missing,omitempty"`
	// NextStep says who does what to satisfy the group, empty when satisfied.
	NextStep string `json:"next_step,omitempty"`
}

// WaitsOn lists the owners one of whose approvals (of all_of, each of whose
// approvals) would bring the group forward, in CODEOWNERS form; nobody where
// nothing is missing or nothing is required.
func (g *GroupVerdict) WaitsOn() []string {
	if g.Satisfied || g.Kind == GroupOptional {
		return nil
	}
	if len(g.AllOf) == 0 {
		return g.Owners
	}
	var missing []string
	for _, o := range g.AllOf {
		if !slices.ContainsFunc(g.Approvals, func(a ApprovalVerdict) bool { return slices.Contains(a.Via, o) }) {
			missing = append(missing, o)
		}
	}
	return missing
}

// FileVerdict is one path of a group.
type FileVerdict struct {
	Path string `json:"path"`
	// RenamedTo is set on the old path of a rename, which needs its own owners'
	// approval too (RG-326).
	RenamedTo string `json:"renamed_to,omitempty"`
	// Line and Pattern name the CODEOWNERS rule that decides.
	Line    int    `json:"line,omitempty"`
	Pattern string `json:"pattern,omitempty"`
	// NonDelegable names the pattern that keeps Apps out; empty when none does.
	NonDelegable string `json:"non_delegable,omitempty"`
}

// ApprovalVerdict is one approval that counts for a group.
type ApprovalVerdict struct {
	Login string `json:"login"`
	// Bot is true for an App.
	Bot bool `json:"bot,omitempty"`
	// Via are the owners this approver stands for ("@acme/platform"), or the
	// delegation's App alias for an App.
	Via []string `json:"via"`
	// ReviewID is 0 for an author who counts as an owner (RG-337).
	ReviewID int64 `json:"review_id,omitempty"`
	// CommitID is the head that was approved; it differs from the verdict's
	// head only where ContentStable is true.
	CommitID      string `json:"commit_id,omitempty"`
	ContentStable bool   `json:"content_stable,omitempty"`
	// Author is true where the pull request's author counts as an owner
	// without a review (RG-337).
	Author bool `json:"author,omitempty"`
	// Paths are the paths an App's delegation covers, where that is not the
	// whole group.
	Paths []string `json:"paths,omitempty"`
}

// RejectedApproval is an approval that does not count for a group.
type RejectedApproval struct {
	Login  string `json:"login"`
	Code   Code   `json:"code"`
	Reason string `json:"reason"`
}

// DelegateVerdict says what one enrolled App may do for a group.
type DelegateVerdict struct {
	Alias string `json:"alias"`
	Login string `json:"login"`
	// Covers is how many of the group's paths the App may approve.
	Covers int `json:"covers"`
	// Why says what keeps it from the others, empty when it covers all.
	Why string `json:"why,omitempty"`
}

// BreakGlassVerdict is the state of a break-glass release (policy
// [break_glass]).
type BreakGlassVerdict struct {
	// Active is true when a confirmed request releases the pull request now.
	Active      bool      `json:"active"`
	RequestID   int64     `json:"request_id,omitempty"`
	RequestedBy string    `json:"requested_by,omitempty"`
	ConfirmID   int64     `json:"confirm_id,omitempty"`
	ConfirmedBy string    `json:"confirmed_by,omitempty"`
	Reason      string    `json:"reason,omitempty"`
	ExpiresAt   time.Time `json:"expires_at,omitzero"`
	// Missing says what is missing, empty when active.
	Missing string `json:"missing,omitempty"`
	// Rejected are comments of the fixed form that release nothing, and why.
	Rejected []RejectedComment `json:"rejected,omitempty"`
}

// RejectedComment is a break-glass comment that releases nothing.
type RejectedComment struct {
	ID     int64  `json:"id"`
	Login  string `json:"login,omitempty"`
	Reason string `json:"reason"`
}
