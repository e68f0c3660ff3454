// Package evaluator decides: it claims a head, reads everything a verdict rests on, asks pkg/policy, and publishes through the
// fences.
//
//	claim head lease ─► (first run, if none) ─► snapshot ─► policy.Evaluate ─► guard: fences ─► final read ─► intent
//	      ─► PATCH ─► read back ─► confirm ─► rows done
//
// # What it owns
//
// One claimed head from claim to completion (evaluate.go), the collection of evidence (snapshot.go, facts.go), the final read
// (revisions.go), the recheck after a success (recheck.go).
//
// # What it guarantees
//
//   - Every field a verdict rests on was read from GitHub after the claim (I2); a read older than what the trigger promised is
//     a lagging replica and is repeated, without spending an attempt and without moving anything back (P5).
//   - The snapshot covers every open pull request on the head, under one lease a head (P4, D7).
//   - Nothing completed is written unless every fence held before the request and after the answer (I3); the doubtful case is
//     set back before the guard is released (package checkrun).
//   - Work is never lost: what could not be decided is due again, with bounded backoff, for ever (RG-269).
//
// # What it does not check
//
// Whether the policy is wise. Whether GitHub's listing of a commit's pull requests is complete (RG-193): the pull requests seen
// on the head are added to it.
//
// # A crash after each write
//
// After the claim: the lease expires, the next claimant's rows carry new generations (RG-274). After the intent: the next
// claimant requeues the head, and the invalidator replaces the run. After the confirmation: the next claimant only completes.
package evaluator
