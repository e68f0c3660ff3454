// Package invalidator revokes: it resets the managed check of an exact head as soon as anything it rests on may have changed,
// and queues every pull request open on that commit for a new evaluation.
//
// # What it owns
//
// The pass over one head generation (pass.go) and the fast path that ingress asks for (fastpath.go).
//
// # What it guarantees
//
//   - A head counts as invalidated only when its run was proved unfinished by read-back, when it has none, or when every pull
//     request that used it was merged (P2).
//   - It writes only inside the head's guard, after lease, expiry and generation were verified there (RG-183…185).
//   - Every pull request found open on the exact commit is queued, bound to the same head generation (RG-190, P6): GitHub's
//     listing together with the pull requests seen on the head, because the listing is empty for heads of forks.
//   - The fast path marks its delivery and nothing else; the durable pass still does both halves.
//
// # What it does not check
//
// Whether the change mattered. Every accepted trigger revokes. GitHub may omit a pull request from its listing that we never
// saw: that cannot be detected (RG-193), and the reconciler's scan is the net below it.
//
// # Order of writes, and a crash after each
//
// claim → run reset (package checkrun) → candidates queued and generation invalidated in one transaction → nudge.
// After the claim: the lease expires. After the reset: the next pass finds the run proved and asks nothing again. After the
// commit: evaluators find the rows by polling.
package invalidator
