package main

import "errors"

// The exit codes of every subcommand.
const (
	exitFine     = 0
	exitFindings = 1
	exitUsage    = 2
)

// findingsError ends a command that did its work and found something: exit 1.
// An empty message prints nothing; the findings are already on stdout.
type findingsError struct{ message string }

func (e findingsError) Error() string { return e.message }

// findings is the error for "checked, and not fine".
func findings(message string) error { return findingsError{message: message} }

// exitCode maps a command's error to the process's exit code. Whatever is not
// a finding (unknown flag, unreadable file, cancelled) is exit 2, so that a CI
// job never mistakes "could not check" for "checked and fine".
func exitCode(err error) int {
	var f findingsError
	switch {
	case err == nil:
		return exitFine
	case errors.As(err, &f):
		return exitFindings
	default:
		return exitUsage
	}
}
