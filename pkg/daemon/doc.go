// Package daemon is the plumbing of a process: configuration, signals and
// drain, logs, health, metrics, traces, and the operator address.
//
// # What it owns
//
// Main and its exit codes; the reading of flags, COUNTERSIGN_ variables and
// secret files (Load), and the page that describes them (WriteReference); the
// keys of log lines; Runtime, which holds one service's plumbing so that
// several services live in one process.
//
// # What it guarantees
//
// A configuration that is not understood whole starts nothing. A secret that
// Load read is in no error, log line or answer of the operator address (I10):
// values are replaced by search, credentials by their shape, and attributes by
// their name. Liveness depends on the process's own tasks only; readiness names
// what is missing. A process that is told to stop becomes not ready, finishes
// what it has begun within its grace, and exits 0.
//
// # What it does not check
//
// What settings mean: a service's Validate does. Whether a service returns when
// its ctx ends: if it does not, the process ends at the grace with 1, and what
// it held is released by the database's clock (leases) and by the end of its
// connections (guards).
//
// # Order of a start, and of a stop
//
// configuration → telemetry → operator address → service. Until the service has
// registered a required check, readiness says that it has not finished starting.
//
// not ready → ctx ends → service returns → operator address closes → spans are
// flushed. A crash at any point loses buffered spans and nothing else: this
// package writes no durable state.
package daemon
