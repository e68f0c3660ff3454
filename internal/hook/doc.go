// Package hook is where a chaos run reaches into the product: it makes waiting shorter, and it takes single fences away to see
// whether anything notices.
//
// # What it guarantees
//
// In a normal build every function here is a constant that the compiler removes: no variable, no setting and no argument can
// remove a fence of a binary that was not built with the tag "chaos" (off.go, on.go). A build with the tag says so in its
// version and refuses to be quiet about it.
//
// # What it does not do
//
// Know what a fence protects: each is looked up at the one place that holds it.
package hook
