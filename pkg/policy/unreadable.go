package policy

import "slices"

// unreadableMends is what mends each kind of unreadable evidence.
var unreadableMends = map[Code]string{
	CodeMissingPermission: "an owner of the account grants it on the App's installation page; if the App does not ask for it yet, its settings come first",
	CodeEvidenceRefused:   "an operator finds the request in the evaluator's log",
	CodeEvidenceLimit:     "open a new pull request, or split this one",
	CodePullTooLarge:      "split the pull request",
	CodePolicyUnreadable:  "replace it by a plain file of UTF-8 text of at most 1,000,000 bytes",
	CodeMalformedEvidence: "it is read again",
}

// finding says what could not be read, why, and what mends it.
func (u Unreadable) finding() Finding {
	mend, known := unreadableMends[u.Code]
	if !known { // never a reason to pass: the caller is newer than this build
		return failure(CodeEvidenceUnknown, u.Subject, "%s could not be read; it is read again", u.Subject)
	}
	switch u.Code {
	case CodeMissingPermission:
		return failure(u.Code, u.Subject, "GitHub does not show Countersign %s: the permission %s is missing; %s", u.Subject, u.Detail, mend)
	case CodeEvidenceRefused:
		return failure(u.Code, u.Subject, "GitHub refuses to answer about %s (%s); %s", u.Subject, u.Detail, mend)
	case CodePolicyUnreadable:
		return failure(u.Code, u.Subject, "%s is no usable policy file (%s); %s", u.Subject, u.Detail, mend)
	case CodeMalformedEvidence:
		return failure(u.Code, u.Subject, "what GitHub answers about %s is not usable as evidence (%s); %s", u.Subject, u.Detail, mend)
	default:
		return failure(u.Code, u.Subject, "%s: more than can be decided (%s); %s", u.Subject, u.Detail, mend)
	}
}

// policyUnreadable reports whether a policy file that cannot be read is all
// that blocks: then nobody is told that the change is refused (RG-357).
func (v *Verdict) policyUnreadable() bool {
	return len(v.Findings) > 0 && !slices.ContainsFunc(v.Findings, func(f Finding) bool { return f.Code != CodePolicyUnreadable })
}
