// Package nudge is everything Countersign knows about NATS: wake-ups between
// services, and the request by which ingress asks for a head to be reset now.
//
// # What it owns
//
// One JetStream stream (COUNTERSIGN), one subject a service, one durable pull
// consumer a subject, shared by that service's replicas; the fast path's
// request subject; the table of which service may say and hear what
// (Permissions), from which deploy/nats/nats.conf is generated.
//
// # What it guarantees
//
// Nothing about delivery. A wake is sent after a commit, names a row, may be
// lost, doubled, late or out of order, and grants nothing (I7). Work closes the
// gap: it polls Postgres at a jittered interval, so a lost wake costs at most
// one and a half intervals. Connect never waits for a server and Wake never
// holds a caller longer than the configured bound.
//
// A worker that learns of work by a wake received after the row's commit finds
// that row: Work calls Step after it received the wake, never before. That is
// what lets wakes coalesce.
//
// # What it does not check
//
// That a wake is true, that its sender committed anything, or that a request's
// keys exist: the receiver reads Postgres and decides there.
//
// # Order of writes, and a crash after each
//
// commit → Wake → claim. After the commit: the row is found by the poll. After
// the wake: another replica takes it, or the poll does. A wake is taken from the
// stream when it is received, not when its work is done, so a crash between the
// two loses the wake and nothing else.
package nudge
