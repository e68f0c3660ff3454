// Command fanout carries changes of authority to the pull requests they may concern.
package main

import (
	"github.com/countersign/countersign/pkg/daemon"
	"github.com/countersign/countersign/services/fanout"
)

func main() { daemon.Main("fanout", fanout.Run) }
