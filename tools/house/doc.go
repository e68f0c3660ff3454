// Package house holds the rules of the repository itself, as tests: who may
// import what, that every package says what it is, that documents link to things
// that exist, and that no test or document names a line which the specification does not have.
//
// It reads source text; nothing is compiled. A rule that is broken names the
// file, the line and what to do instead.
package house
