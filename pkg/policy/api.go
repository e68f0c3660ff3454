package policy

import "errors"

// errNotBuilt marks what this package does not do yet. It is never success.
var errNotBuilt = errors.New("policy: not built yet")

// Requirements are facts that must still be read from GitHub before a verdict
// can rest on them. All slices are sorted and hold each entry once.
type Requirements struct {
	// Teams, each with the team's permission on the repository.
	Teams []TeamKey `json:"teams,omitempty"`
	// TeamSizes are teams whose number of active members is wanted too.
	TeamSizes []TeamKey `json:"team_sizes,omitempty"`
	// Memberships of people whose approval could count.
	Memberships []MembershipKey `json:"memberships,omitempty"`
	// Users are logins whose permission on the repository is wanted.
	Users []string `json:"users,omitempty"`
	// Apps are bot logins ("slug[bot]") whose identity is wanted.
	Apps []string `json:"apps,omitempty"`
	// Comments, LastPushers, BaseChanges and FileContents are numbers of pull
	// requests for which that fact is wanted. FileContents asks for Before and
	// After of every changed file at the current head.
	Comments     []int `json:"comments,omitempty"`
	LastPushers  []int `json:"last_pushers,omitempty"`
	BaseChanges  []int `json:"base_changes,omitempty"`
	FileContents []int `json:"file_contents,omitempty"`
	// OlderHeads asks for what a pull request changed at an older head, with
	// content.
	OlderHeads []OlderHeadKey `json:"older_heads,omitempty"`
}

// TeamKey names a team; both parts are lower case. String is the key of
// Snapshot.Teams and Snapshot.Memberships.
type TeamKey struct {
	Org  string `json:"org"`
	Slug string `json:"slug"`
}

func (k TeamKey) String() string { return k.Org + "/" + k.Slug }

// MembershipKey names one person in one team; all parts are lower case.
type MembershipKey struct {
	Team  TeamKey `json:"team"`
	Login string  `json:"login"`
}

// OlderHeadKey names an older head of a pull request.
type OlderHeadKey struct {
	Pull int    `json:"pull"`
	SHA  string `json:"sha"`
}

// Empty reports whether nothing is wanted.
func (r Requirements) Empty() bool {
	return len(r.Teams)+len(r.TeamSizes)+len(r.Memberships)+len(r.Users)+len(r.Apps)+
		len(r.Comments)+len(r.LastPushers)+len(r.BaseChanges)+len(r.FileContents)+len(r.OlderHeads) == 0
}

// Needs says which facts are still missing from s. The caller reads them, puts
// each into s (with FactUnknown where GitHub settled nothing) and asks again
// until the answer is Empty; three rounds are always enough. It is pure and
// deterministic, and asks about a person only where an approval of theirs
// could count.
func Needs(s Snapshot) Requirements { return Requirements{} }

// Evaluate decides. It is pure: no clock, no I/O, no order of collections, no
// state. A fact that is missing, unknown, stale or contradictory never turns
// into approval (RG-005…RG-008, I6).
func Evaluate(s Snapshot) Verdict { return Verdict{Version: VerdictVersion, Conclusion: ConclusionBlocked} }

// DecodeSnapshot reads the JSON form strictly: unknown or repeated keys, wrong
// types, another version, trailing data are errors that name the place.
func DecodeSnapshot(data []byte) (Snapshot, error) { return Snapshot{}, errNotBuilt }

// MarshalCanonical gives the one JSON form of v: fixed key order, sorted
// collections, no insignificant space, UTF-8, no trailing newline.
func (v Verdict) MarshalCanonical() []byte { return nil }

// MarshalCanonical gives the one JSON form of s, whatever the order of its
// collections was; DecodeSnapshot reads it back.
func (s Snapshot) MarshalCanonical() []byte { return nil }

// Digest is "sha256:" and the hexadecimal digest of s.MarshalCanonical().
func Digest(s Snapshot) string { return "" }

// Look is how a missing approval looks on GitHub (D10).
type Look string

// The looks. The zero value is LookFailure.
const (
	LookFailure        Look = "failure"
	LookActionRequired Look = "action_required"
	// LookPending leaves the run in_progress: not red, never a pass.
	LookPending Look = "pending"
)

// RenderInput is what a check needs beyond the verdict.
type RenderInput struct {
	// MissingApproval is the look of a verdict that only lacks approvals.
	MissingApproval Look
	// Insecure adds the warning of RG-299.
	Insecure bool
}

// CheckOutput is a Check Run's content, ready to send: everything in it is
// escaped, within GitHub's limits, and the same for the same verdict (I8).
type CheckOutput struct {
	// Status is "completed" or, for LookPending and RenderInProgress,
	// "in_progress".
	Status string `json:"status"`
	// Conclusion is "success", "failure" or "action_required"; empty unless
	// Status is "completed".
	Conclusion string        `json:"conclusion,omitempty"`
	Title      string        `json:"title"`
	Summary    string        `json:"summary"`
	Text       string        `json:"text"`
	Actions    []CheckAction `json:"actions,omitempty"`
}

// CheckAction is a button on the run (RG-300).
type CheckAction struct {
	Label       string `json:"label"`
	Description string `json:"description"`
	Identifier  string `json:"identifier"`
}

// Render turns a verdict into a Check Run's content (spec section K).
func Render(v Verdict, in RenderInput) CheckOutput { return CheckOutput{} }

// InProgressReason says why a run is unfinished; the set is closed.
type InProgressReason string

// The reasons of an unfinished run.
const (
	// InProgressEvaluating: the first evaluation of this head.
	InProgressEvaluating InProgressReason = "evaluating"
	// InProgressReevaluating: evidence changed, an earlier result is revoked.
	InProgressReevaluating InProgressReason = "reevaluating"
	// InProgressUncertain: the outcome of a write is not known, or evidence
	// could not be read; the work is retried.
	InProgressUncertain InProgressReason = "uncertain"
)

// RenderInProgress is the content of an unfinished run.
func RenderInProgress(reason InProgressReason) CheckOutput {
	return CheckOutput{Status: "in_progress", Title: "Evaluating"}
}
