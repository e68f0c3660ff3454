// Package probe asks a real GitHub the questions that its documentation leaves open, each of which is a switch of pkg/githubsim,
// and says which position is true there.
//
// It owns check runs of one name of its own on one head that the caller names, and nothing else: no rows, no managed check. It
// guarantees that every run it made is completed as neutral before Run returns, or that the report says which is not; that it stops
// before the first write where the name is in use; and that what it cannot ask is reported with the reason.
//
// It does not check whether a ruleset requires the name: an App without administration rights cannot read that.
//
// Order of writes: create, complete, reopen, complete; create two, complete the later, complete the earlier. A crash after any of
// them leaves runs of the probe's name on that head, unfinished or neutral; running it again with the caller's consent ends none of
// them, but they are harmless unless a ruleset requires that name.
package probe
