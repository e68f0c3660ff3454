// Package gotest reads the event stream of `go test -json` (see `go doc
// test2json`), prints it in the plain form that people know, and keeps the
// outcome of every test for those who ask afterwards.
//
// It owns no process: cmd/testrun feeds it. Lines that are not events (a
// compiler's words on standard output) are passed through unchanged, never dropped.
package gotest
