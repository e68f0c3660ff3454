// Command reconciler finds what a lost event left behind, and prunes what is no longer needed.
package main

import (
	"github.com/countersign/countersign/pkg/daemon"
	"github.com/countersign/countersign/services/reconciler"
)

func main() { daemon.Main("reconciler", reconciler.Run) }
