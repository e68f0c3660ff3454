// Command observe runs the whole system beside a real Prometheus and looks at it.
//
// It starts a private PostgreSQL, NATS, the GitHub stand-in and two replicas of every service in this process, each with an operator
// address of its own; a Prometheus with the rules of deploy/prometheus that scrapes them; plays the demo's story; and, when it was
// scraped for a while, runs the command that it was given, with {url} replaced by Prometheus' address. Its exit code is that
// command's. It checks nothing itself.
//
//	go run ./test/observe -prometheus .cache/prometheus/prometheus -- go run ./tools/cmd/dashboards -check {url} -interval 5m
package main
