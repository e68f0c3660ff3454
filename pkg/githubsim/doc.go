// Package githubsim is a stand-in for GitHub: a real HTTP server with state, on
// which Countersign is tested and on which a policy author rehearses.
//
// It owns a world in memory (accounts, teams, repositories with real git
// objects, pull requests, reviews, check runs, Apps and their installations)
// and serves the REST routes, the GraphQL fields and the webhooks that
// Countersign uses, as GitHub documents them or was recorded to behave.
//
// # What it guarantees
//
//   - Every change of the world goes through one lock, is visible to the next
//     request (unless Switches.ReadLag says otherwise) and enqueues exactly the
//     webhooks that GitHub would send for it, signed, in the order of the changes.
//   - Object ids are git's own: a blob, tree or commit has the SHA-1 that git
//     would give it.
//   - An App sees what its installation, its token's permissions and the
//     repositories of the token allow, and nothing else.
//   - Every deviation is asked for by name: see Switches, Fault and WebhookFault.
//
// # What it does not check
//
// Branch protection, rulesets, Actions, billing, organisation policies and every
// route that no part of Countersign calls. A path it does not know answers 404 and is
// kept in the request log with an empty Route, so that a test can notice.
//
// # Order of things in one request
//
// fault "before" → authentication → rate limit → route, repository, permission →
// handler → fault "after" → entity tag → answer. A request that is refused at one
// step has no effect of a later step. Nothing survives Close: there is no disk.
package githubsim
