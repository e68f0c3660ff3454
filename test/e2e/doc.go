// Package e2e plays the demo's story over the whole system: two replicas of everything, NATS taken away, services killed as
// real processes, services told to stop. Each test ends with the oracle over the database.
package e2e
