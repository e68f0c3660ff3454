// Package costs counts what the services ask of GitHub, by route, for the events that happen most. It has tests only: they hold
// the table in docs/performance.md to what is really sent, so that the page cannot go stale. It owns no rows and guarantees nothing
// at run time; the fast path and other pull requests' requests are not in its numbers.
package costs
