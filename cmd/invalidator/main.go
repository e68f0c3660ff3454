// Command invalidator runs the service of the same name: see services/invalidator.
package main

import (
	"github.com/countersign/countersign/pkg/daemon"
	"github.com/countersign/countersign/services/invalidator"
)

func main() { daemon.Main("invalidator", invalidator.Run) }
