// Package ghclient is all that Countersign knows of GitHub's JSON: webhooks, REST and GraphQL.
//
// # What it owns
//
// The App's key and the installation tokens (in memory only), the classification of every answer into a closed set of
// sentinels, the request budget of each installation, pagination, and the decoding and validation of everything GitHub says.
// Types of the libraries beneath it never leave it.
//
// # What it guarantees
//
//   - Every error is one of the sentinels of errors.go or the context's. Error texts are at most 1000 characters and hold no credential.
//   - A list is whole or an error: pagination is validated (RG-409…414), counts are compared, and nothing is cut in silence.
//   - A name is a route. Every answer is compared with the numeric identity the caller expects; a difference is ErrMoved.
//   - A write that may have been applied without a proof of it is ErrUnknownOutcome. It is never repeated here: only the caller
//     can read back what happened (architecture, P2 and P11).
//   - An installation GitHub told us to leave alone is not asked again before its time, by any replica (BudgetStore; RG-144, RG-145).
//   - Under go test a request to anything but a loopback address is refused.
//
// # What it does not check
//
// Whether evidence is sufficient, fresh relative to a webhook, or eligible: that is for the evaluator and pkg/policy. It doesn't
// retry, but for one case: a 401 evicts the installation token and the request is made once more, within the same deadline (RG-245).
package ghclient
