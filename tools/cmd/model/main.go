// Model explores the protocol of revocation and publication within its large bounds, and what happens when a fence is taken away.
//
//	model            every world in every position of GitHub's switch, then every removal
//	model -history   with the shortest history that each removal leads to
//
// It prints a table of markdown and one summary as its last line, and exits 1 when a world breaks a property or a removal is not
// found out. It needs about a gigabyte of memory.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/countersign/countersign/internal/interleave"
)

func main() {
	history := flag.Bool("history", false, "print the shortest history of every removal")
	flag.Parse()
	if failed := run(*history); failed > 0 {
		os.Exit(1)
	}
}

func run(history bool) (failed int) {
	states, worlds := 0, 0
	fmt.Println("| GitHub | world | states | transitions | longest history | result |\n|---|---|---:|---:|---:|---|")
	for i, name := range []string{"complies", "ignores", "refuses"} {
		small, large := interleave.Worlds(interleave.Switch(i)) //nolint:gosec // three positions
		for _, w := range append(small, large...) {
			r, err := interleave.Explore(w.Config)
			result := "holds"
			if err != nil || r.Flaw != "" {
				result = fmt.Sprint(r.Flaw, err)
				failed++
				fmt.Fprintln(os.Stderr, r)
			}
			fmt.Printf("| %s | %s | %d | %d | %d | %s |\n", name, w.Name, r.States, r.Transitions, r.Depth, result)
			states += r.States
			worlds++
		}
	}
	fmt.Println("\n| taken away | found after | what breaks |\n|---|---:|---|")
	for _, removal := range interleave.Removals() {
		c := removal.World
		c.Without = removal.Fences
		r, err := interleave.Explore(c)
		if err != nil || r.Flaw == "" {
			failed++
			r.Flaw = fmt.Sprint("nothing ", err)
		}
		fmt.Printf("| %s | %d steps | %s |\n", strings.Join(removal.Fences.Names(), " and "), max(len(r.History)-1, 0), r.Flaw)
		if history {
			fmt.Fprintln(os.Stderr, r)
		}
	}
	fmt.Printf("\nmodel: %d worlds, %d states, %d removals, %d failed\n", worlds, states, len(interleave.Removals()), failed)
	return failed
}
