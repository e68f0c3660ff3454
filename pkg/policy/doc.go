// Package policy decides whether a commit is approved: it turns one complete
// Snapshot of evidence into one Verdict with its whole explanation, and a
// Verdict into the content of a Check Run.
//
// # What it owns
//
// The meaning of CODEOWNERS (ParseCodeowners), of the organisation's and the
// repository's policy file (ParseOrganizationPolicy, ParseRepositoryPolicy), of
// reviews, teams, Apps and break-glass comments (Evaluate), and the words in
// which GitHub's users read all that (Render).
//
// # What it guarantees
//
//   - It is pure: no clock, no I/O, no goroutine, no global state that changes.
//     A test holds its imports to an allow-list (RG-003).
//   - The same snapshot gives the same bytes of verdict and of check, in any
//     order of its collections (RG-004, I8).
//   - It fails closed: the zero Snapshot and the zero Verdict block, and a fact
//     that is missing, unknown, stale, truncated or contradictory never turns
//     into approval (RG-005…RG-008, I6).
//   - Policy only narrows. A requirement, a guardrail or an exclusion can turn
//     approval into refusal and never the other way; what widens (delegation,
//     author as owner, content-stable approvals, break-glass) is off until the
//     policy at the base commit asks for it (RG-355, RG-492).
//   - Nothing from outside can forge the layout of a check (RG-298, RG-497).
//
// # What it does not check
//
// That the snapshot is true, complete and fresh: whoever collects it says so
// with the state of each fact, and the fences around publishing hold it to that.
// It does not know which check is published, nor whether one exists.
//
// # How it is used
//
// The collector reads the pull requests on a head with their files, reviews and
// base files, then asks Needs which further facts a verdict would rest on, reads
// those, and asks again until nothing is wanted. Evaluate decides, Render writes
// the check. Nothing here is written anywhere, so there is nothing that a crash
// could leave half done.
//
// Reading order: snapshot.go, verdict.go, evaluate.go, groups.go, judge.go,
// eligibility.go; then codeowners.go, policyrepo.go, render.go.
package policy
