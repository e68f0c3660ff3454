package policy

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
	// Status is "completed" or, for LookPending, for a policy file that cannot
	// be read (RG-357) and for RenderInProgress, "in_progress".
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
