// Package store is the only place that speaks SQL: Postgres is the truth, and this package is its grammar.
//
// # What it owns
//
// Deliveries, pull requests, heads, evaluations, authority work, decisions, leases (one file a table or a step), the guard
// around every write of a check run, the schema and its migrations.
//
// # What it guarantees
//
//   - Every transition is one conditional statement, or one transaction whose first statement is the condition; zero rows is
//     a named error (ErrNoWork, ErrLeaseLost, ErrSuperseded, FenceError).
//   - Generations and epochs only rise. A row that is deleted and made again goes on counting (pull.generation).
//   - A lease carries a token from one rising sequence; every later write repeats it. The database's clock decides; the
//     caller's clock never does.
//   - A webhook is stored whole or not at all (I1); an intent is stored before the write it announces (I9).
//
// # What it does not check
//
// Whether anything it is told about GitHub is true: facts are sightings (P5), evidence is the evaluator's. Nor what a verdict
// says: a decision's texts are opaque here.
//
// # Lock order
//
// Advisory: installation, repository, head. Rows: pull, head (by SHA), evaluation; then decision_chain, decision. Statements
// that touch several rows of one table sort them. A deadlock that happens all the same is retried by this package.
//
// # Isolation
//
// READ COMMITTED throughout: every condition is in the statement that acts on it.
//
// # A crash after each write
//
//   - after acceptance: the head waits for the invalidator, the evaluation for the head; polling finds both;
//   - after a claim: the lease expires and the next claimant is granted a higher token;
//   - after RecordIntent: the head carries an unconfirmed intent; the next claimant requeues it, and the invalidator replaces
//     the run, because a write may still be on its way;
//   - after ConfirmPublication and before CompleteEvaluation: the next claimant sees the published generation and only completes.
package store
