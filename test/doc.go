// Package test is the root of the end-to-end module: tests that run several
// services together, kill them, take NATS or PostgreSQL away, and then ask the
// oracle (store.CheckInvariants) whether anything wrong was left behind.
//
// It is a module of its own so that its heavy dependencies never reach the
// services' go.mod.
package test
