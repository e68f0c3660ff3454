// Package containers runs the whole system as deploy/compose.yaml describes it, in the containers of whatever engine there is,
// and plays the demo's story through it: scaled to two, with each container killed in turn, without NATS for a minute, and
// with every service restarted under load (`make containers`; build tag containers).
//
// It needs a Docker engine, Compose (v2 or 1.29) and the images: `make images`, and where none can be pulled also
// `make images-offline`. Grafana and the trace store are left out (deploy/compose.offline.yaml): the story does not touch
// them. What can be known of the files without an engine is in test/compose.
//
// It drives the compose file and describes no container a second time: see docs/decisions/0163.
package containers
