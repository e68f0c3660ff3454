// Package conformance says which lines of the specification have a passing test.
//
// A test claims a line by its name: t.Run("RG-103 redelivery returns the same
// token", …). An id is proved when a test or subtest that names it passed and
// none that names it failed or never ended; a skipped test proves nothing. The package cannot
// see whether a test really proves the line: that is the reviewer's part.
package conformance
