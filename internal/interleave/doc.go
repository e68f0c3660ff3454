// Package interleave is the protocol of revocation and publication as a state machine small enough to explore whole: two pull
// requests on one head, two evaluators, one invalidator, the fast path, one dismissal, one change of authority with its
// fan-out, a crash of any process at any step, lost, delayed and refused answers, and leases that run out under a living holder.
//
// # What it owns
//
// The transitions ([Config.next]), the properties that every state must have ([State.broken]), and a breadth-first search that
// visits every interleaving within the bounds ([Explore]) and returns the shortest history that breaks a property.
//
// # What it guarantees
//
// Within its bounds it is exhaustive: no interleaving is sampled. With every fence in place no property breaks (I3, I4, I5), and
// every reachable state can still settle. With a [Fence] removed, or the smallest set of fences that overlap, it finds a history
// that breaks one: [Fences] is the list, and the tests hold the sets to it.
//
// # What it does not check
//
// That the code does what the model says: services and pkg/checkrun have directed tests for each step, and the chaos runs play
// random histories against the real rows. Time is not modelled (a lease ends at any moment within the budget), nor are lagging
// reads (P5), other heads (P7), rate limits, and merge groups (P13).
//
// # Abstractions
//
// One step is one transaction or one request. What Postgres makes atomic is one step; what it does not is several. GitHub's
// "latest" is the run with the highest id. Numbers that only rise are kept as they are; the budgets bound them.
package interleave
