// Package measure holds what the benchmarks of a whole system share: processor time of this process and its database, medians
// and quantiles, and the replacement of a table between its markers in a page. It reads /proc and writes one page; it may run
// twice.
package measure
