// Package convert turns the policy of other tools into CODEOWNERS and a Countersign policy, and says what it could not carry over.
//
// # What it owns
//
// The readers of native GitHub rules (CODEOWNERS with an exported ruleset or branch protection), policy-bot's .policy.yml,
// codeowners-plus' .codeowners files with codeowners.toml, and extra-codeowners' TOML files; and the writer of what they become.
//
// # What it guarantees
//
//   - It never widens: what cannot be said is left out of the result and listed as lost, with where it stands and what to do; where
//     leaving it out would let more pass than before, the item says so (Weakens).
//   - What it writes is read by pkg/policy without a mistake; a result that is not is an error, not a file.
//   - It is pure: no file, no network, no clock. The same input gives the same output.
//
// # What it does not check
//
// Whether the owners exist and may approve: countersign policy lint --live does.
package convert
