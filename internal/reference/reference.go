package reference

import (
	"io"

	"github.com/countersign/countersign/pkg/daemon"
	"github.com/countersign/countersign/services/console"
	"github.com/countersign/countersign/services/evaluator"
	"github.com/countersign/countersign/services/fanout"
	"github.com/countersign/countersign/services/ingress"
	"github.com/countersign/countersign/services/invalidator"
	"github.com/countersign/countersign/services/reconciler"
)

// process is what a service's own process reads: its settings, and those of its plumbing.
type process[C any] struct {
	Service C
	Daemon  daemon.Config
}

// Sections returns the configuration of every process, in the order of the data.
func Sections() []daemon.Section {
	return []daemon.Section{
		{Name: "ingress", Config: process[ingress.Config]{}},
		{Name: "invalidator", Config: process[invalidator.Config]{}},
		{Name: "fanout", Config: process[fanout.Config]{}},
		{Name: "evaluator", Config: process[evaluator.Config]{}},
		{Name: "reconciler", Config: process[reconciler.Config]{}},
		{Name: "console", Config: process[console.Config]{}},
	}
}

// Write writes the page.
func Write(w io.Writer) error { return daemon.WriteReference(w, Sections()) }
