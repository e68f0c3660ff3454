// Package system runs all of Countersign in one process: the five services over one Postgres and one NATS, any number of
// replicas each. `countersign dev` is a front of it, and the end-to-end tests drive it.
//
// # What it owns
//
// Putting the services together: a role's database URL each, one configuration from the same variables that production reads,
// one runtime (logs, metrics, health) a replica, and stopping them.
//
// # What it guarantees
//
// A service here runs the code that its own process runs; nothing is shared between two of them but the process. Stop drains
// as a SIGTERM would.
//
// # What it does not do
//
// Start Postgres or NATS (store/localpg and nudge/localnats do), or kill a service as a crash would: that needs a process.
package system
