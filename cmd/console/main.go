// Command console shows people where their pull requests stand and why.
package main

import (
	"github.com/countersign/countersign/pkg/daemon"
	"github.com/countersign/countersign/services/console"
)

func main() { daemon.Main("console", console.Run) }
