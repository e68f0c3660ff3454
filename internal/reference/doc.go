// Package reference knows every service's configuration and every metric, and writes docs/configuration.md and docs/metrics.md
// from them.
//
// It guarantees that the pages say what the services read and register: tests compare the two, and
// `go generate` (or `make generate`) writes the pages anew. It checks neither that a default is wise nor that a
// description is true.
package reference

//go:generate go test -run PageIsCurrent . -args -update
