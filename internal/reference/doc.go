// Package reference knows every service's configuration, and writes docs/configuration.md from it.
//
// It guarantees that the page says what the services read: a test compares the two, and
// `go generate` (or `make generate`) writes the page anew. It checks neither that a default is wise nor that a
// description is true.
package reference

//go:generate go test -run TestTheConfigurationPageIsCurrent . -args -update
