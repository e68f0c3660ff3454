// Package chaos runs Countersign through schedules of events and faults that are drawn from a seed, while an observer inside
// the GitHub stand-in keeps, for every commit and moment, what somebody who sees everything would say of it.
//
// # What it owns
//
// The plan (plan.go: everything is drawn from the seed before the run begins), the world and what happens in it (world.go,
// act.go), the faults and who suffers them (fleet.go, gate.go, processes.go), the truth (truth.go, which does not use
// pkg/policy), the observer (observer.go) and what is looked at when it is over (verify.go).
//
// # What it finds
//
// See docs/reliability.md: five kinds of violation, and two windows that no client of GitHub can close, which are measured.
//
// # What it does not do
//
// Repeat a run exactly: a seed gives the same events and faults in the same order, and the machine's own timing decides the
// interleaving. It is built with the tag "chaos" (internal/hook).
package chaos
