// Package explain answers the questions that people ask of Countersign: where does this pull request stand and why, on which
// evidence, what was decided before, what differs between two decisions, and where is its work now.
//
// # What it owns
//
// The presentation-free model that the console and the command line share: it reads rows of pkg/store and verdicts of pkg/policy
// and gives plain values with JSON names. Nothing in them is escaped: whoever shows them makes them safe for where they go.
//
// # What it guarantees
//
// Nothing here decides: no fence, no evaluation and no verdict rests on it. It reads only, but for Standings, which the evaluator
// stores beside a decision. The same rows give the same answer.
//
// # What it does not check
//
// Who may see what: the caller passes what its reader may see to pkg/store (PullFilter.Only).
package explain
