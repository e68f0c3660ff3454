package policy

// The codes of a verdict. They are stable: a dashboard, a runbook or a test may
// name them. Each is used with the severity given here unless the comment says
// otherwise.
const (
	// Outcomes.
	CodeApproved        Code = "approved"
	CodeMissingApproval Code = "missing_approval"
	CodeBreakGlass      Code = "break_glass"

	// Policy files (errors).
	CodeRepositoryPolicyDisabled         Code = "repository_policy_disabled"
	CodeInvalidPolicy                    Code = "invalid_policy"
	CodePolicyUnreadable                 Code = "policy_unreadable"
	CodeAmbiguousPolicy                  Code = "ambiguous_policy"
	CodeUnenrolledApplication            Code = "unenrolled_application"
	CodeOrganizationPolicyRepositoryGone Code = "organization_policy_repository_unavailable"

	// CODEOWNERS (errors).
	CodeCodeownersMissing     Code = "codeowners_missing"
	CodeGitHubCodeownersError Code = "github_codeowners_error"
	CodeInvalidPattern        Code = "invalid_pattern"
	CodeInvalidOwner          Code = "invalid_owner"
	CodeCodeownersTooLarge    Code = "codeowners_too_large"
	CodeEmailOwner            Code = "email_owner_unsupported"

	// Evidence (errors).
	CodeEvidenceUnknown     Code = "evidence_unknown"
	CodeMalformedEvidence   Code = "malformed_github_evidence"
	CodeContradictory       Code = "contradictory_github_evidence"
	CodeMissingPermission   Code = "missing_permission"
	CodeEvidenceRefused     Code = "evidence_refused"
	CodePullTooLarge        Code = "pull_request_too_large"
	CodeEvidenceLimit       Code = "evidence_limit_exceeded"
	CodeComplexity          Code = "evaluation_complexity_exceeded"
	CodeIncompleteFiles     Code = "incomplete_changed_files"
	CodeNoPullRequest       Code = "no_open_pull_request"
	CodeUnsupportedSnapshot Code = "unsupported_snapshot_version"

	// Merge groups (errors; the last is a warning).
	CodeMergeGroupUnproved Code = "merge_group_unproved"
	CodeMergeGroupMember   Code = "merge_group_member_changed"
	CodeMergeQueueHidden   Code = "merge_queue_unreadable"

	// Approvals that do not count (warnings, or reasons inside a group).
	CodeStaleApproval       Code = "stale_approval_ignored"
	CodeAppIdentityMismatch Code = "app_identity_mismatch"
	CodeAppNotEnrolled      Code = "app_not_enrolled"
	CodeNotDelegated        Code = "not_delegated"
	CodeNotEligible         Code = "approver_not_eligible"
	CodeExcludedAuthor      Code = "author_excluded"
	CodeExcludedLastPusher  Code = "last_pusher_excluded"
	CodeContentChanged      Code = "owned_content_changed"

	// The operator's choice (warning).
	CodeInsecureChanges Code = "insecure_changes_allowed"

	// Ownership health (warnings, only where the policy asks for it).
	CodeOwnerUnresolved  Code = "owner_unresolved"
	CodeOwnerNoAccess    Code = "owner_without_write_access"
	CodeTeamSecret       Code = "team_secret"
	CodeTeamReadOnly     Code = "team_read_only"
	CodeTeamEmpty        Code = "team_empty"
	CodeForeignTeam      Code = "team_of_another_organization"
	CodeOnlyOwnerAuthor  Code = "only_owner_is_author"
	CodeOwnerHealthBlind Code = "owner_health_unknown"
)
