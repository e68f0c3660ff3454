// Package helm holds the chart of deploy/helm to what it promises, by rendering it through Helm's own engine.
//
// It is a module outside the workspace: Helm brings Kubernetes' types, whose versions are nobody else's business and whose compilation
// takes a minute (`make helm`). It installs nothing, and needs no cluster.
package helm
