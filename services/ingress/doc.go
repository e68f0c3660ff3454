// Package ingress receives GitHub's webhooks: it turns a signed delivery into committed rows and answers.
//
// # What it owns
//
// The public listener, which serves POST /webhooks/github and nothing else (RG-479); the map from an event to the work it
// creates (Classify); the order in which a delivery is limited, verified, stored, announced and answered. It holds the webhook
// secrets and no key of GitHub's: what has to be written there is asked of the invalidator over NATS (D3).
//
// # What it guarantees
//
//   - No field of a body is read before the signature over its exact bytes was proved (RG-020).
//   - 202 for an event that creates work means that its rows are committed, and nothing more: not "passed", not "already reset"
//     (I1, RG-118). Whatever the fast path does after the commit, the answer stays 202.
//   - 503 means that nothing was stored by this request, so that the same delivery id sent again is new. A commit whose answer
//     was lost is the exception: then the redelivery is answered as a duplicate, and its token is the first one's.
//   - A body costs memory as it arrives, from one budget, and at most 10 MiB; a payload's text never reaches a log line, an
//     answer or a metric label.
//
// # What it does not check
//
// Whether anything a payload says is true. A payload says where to look (I2); the numbers, names and commits it carries become
// row keys and lower bounds (P5), never evidence.
//
// # Order of writes, and a crash after each
//
// limit → envelope → body → verify → decode → classify → one transaction → nudge → fast path → 202.
//
// The transaction of a delivery about a pull request may hold others that arrived with it (batcher); that of an authority event
// never does.
//
//   - before the commit: no row; GitHub sees no answer or a 5xx, and the delivery can be sent again as new;
//   - after the commit, before the nudge: the head waits for the invalidator and the authority row for the fan-out; both are
//     found by polling (I7);
//   - after the nudge, before or during the fast path: the durable pass resets the head; a redelivery tries the fast path again
//     only while that generation still waits (RG-143);
//   - after the fast path, before the answer: GitHub shows a failed delivery; a redelivery is answered as a duplicate.
//
// Of comments, only break-glass commands create work. A merge group's webhook has no fast path: nothing of it was decided before.
package ingress
