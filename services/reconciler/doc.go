// Package reconciler finds what a lost event left behind: one elected replica scans every open pull request now and then, and
// queues those that nothing is waiting for.
//
// # What it owns
//
// The lease "reconciler" (RG-400), retention of deliveries and heads (RG-405), and the scan:
//
//	elect → prune deliveries → prune heads → list installations → for each: list repositories → for each: list open pull
//	requests → queue the idle ones → resign with the result
//
// A second duty, with a lease of its own ("reconciler.deliveries", fill.go), reads GitHub's log of what it delivered to this App
// and asks for what failed, or was never stored:
//
//	elect → prune → read pages, newest first, folding each into the gaps → settle → count an ask, ask → … → resign
//
// A third ("reconciler.drift", drift.go) compares recently decided heads with the latest run that GitHub shows on them, and revokes
// where they differ (P12).
//
// It writes no Check Run. What it queues goes the ordinary way: the head's generation rises, the invalidator resets the check,
// the evaluator decides.
//
// # What it guarantees
//
//   - One scan at a time over all replicas, immediately at start and then every interval (RG-427); a nudge asks for one now.
//   - The list of installations is whole and valid, or nothing of it is used (RG-423). A malformed list of repositories or
//     pull requests costs that list and nothing else (RG-424).
//   - Where an evaluation waits already, neither it nor its head changes (RG-402).
//   - When the process is told to stop, or the lease is lost, no further step begins: no retention step, no request to GitHub
//     (not even the next page of a list, see gate.go), no insertion (RG-420). What has begun is let finish (RG-421).
//   - complete means: nothing was left out. Anything else is partial, or failure when there was no list to scan (RG-415, RG-416).
//
// # What it does not check
//
// The text of a check, and decisions older than the window (drift.go). It takes an open pull request for idle when no evaluation waits and its head was evaluated less than the recheck age ago
// (RG-404); a pull request that was closed unseen is not looked for, because nobody can merge it.
//
// # Order of writes, and a crash after each
//
// lease → deletions → (head, evaluation) of one pull request in one transaction, × pull requests → lease freed with the result.
//
//   - after the lease: it expires, and another replica scans from the beginning; that is at most max(300 s, twice the interval);
//   - anywhere in the scan: what was queued stays queued, and is not queued again, because it is no longer idle;
//   - before the lease is freed: the attempt is not recorded, so the last success does not advance (RG-416).
package reconciler
