// Package dashboards is Grafana's dashboards as code, with what holds them to the truth.
//
// It guarantees that the files of deploy/grafana/dashboards are what this package says (a test compares them), that every panel
// says what is normal and what to do, and that every metric and label of an expression, here and in deploy/prometheus, is one
// that the code registers. Check asks a running Prometheus every expression and tells which have data. It does not judge whether
// a threshold is wise, and it does not parse PromQL: promtool does (`make rules`).
package dashboards
