// Command evaluator runs the service of the same name: see services/evaluator.
package main

import (
	"github.com/countersign/countersign/pkg/daemon"
	"github.com/countersign/countersign/services/evaluator"
)

func main() { daemon.Main("evaluator", evaluator.Run) }
