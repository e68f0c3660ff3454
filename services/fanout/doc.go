// Package fanout carries a change of authority (a team, a membership, a label, a policy, a base branch) to the pull requests
// it may concern.
//
// # What it owns
//
// The authority rows. It claims one, broadest first (RG-211), and works one pass over it:
//
//	installation   list the repositories → one repository row each, in one transaction (RG-212, RG-214)
//	repository     list the open pull requests → each head's generation rises and its evaluation is queued (RG-219)
//	base           the same for the pull requests of one base branch
//
// It writes no Check Run and holds no token that could (D18): a risen generation is the invalidator's work, and it is woken.
//
// # What it guarantees
//
//   - While a row exists, nothing it covers is published (fence 4), so a pass may be slow, crash and start again; it is never
//     abandoned. Work is retried for ever (RG-227): disposition.go is the one place that says when.
//   - No pull request is passed over. The cursor is the lowest number that was not listed yet, kept in the row in the same
//     transaction as the heads it covers; a pass that has recorded something is finished before a newer one begins (P8).
//   - A name is a route. Before a pass lists anything, GitHub is asked which repository the route leads to; where that is not
//     the row's repository id, the route GitHub reports for that id is used instead (RG-224). An empty list of the wrong
//     repository is therefore never taken for "nothing to do".
//   - Losing the lease, or a newer event, ends a pass without a further write (RG-229).
//
// # What it does not check
//
// Whether a change really alters a verdict, but for a push to a base branch: narrow.go compares the rules at the new tip, and what
// GitHub compares for each pull request, with what the last decision rested on, and leaves alone what is the same (P15). Nor can
// it revoke what it can no longer reach: once an installation is gone, so is the token that could write there (RG-230).
//
// # Order of writes, and a crash after each
//
// claim → (page of pull requests → heads, evaluations and cursor in one transaction) × pages → row deleted with the last page.
//
//   - after the claim: the lease expires, the next claimant goes on with a higher token;
//   - after a page: the next claimant goes on behind it; no pull request is missed, none of that page is queued again;
//   - after the last page: nothing is left to do; wakes that were not sent cost one poll of the invalidator.
package fanout
