package interleave_test

import (
	"math/bits"
	"strings"
	"testing"

	"github.com/countersign/countersign/internal/interleave"
)

// TestProtocol explores the small worlds whole; `make model` does the large ones.
func TestProtocol(t *testing.T) {
	t.Parallel()
	for name, github := range map[string]interleave.Switch{"complies": interleave.Complies, "ignores": interleave.Ignores, "refuses": interleave.Refuses} {
		small, _ := interleave.Worlds(github)
		for _, w := range small {
			t.Run("I3 I4 I5 P1 P2 P4 P11 "+name+": "+w.Name, func(t *testing.T) {
				t.Parallel()
				r, err := interleave.Explore(w.Config)
				if err != nil || r.Flaw != "" {
					t.Fatalf("%v %v", err, r)
				}
				if r.States < 100 || r.Depth < 20 {
					t.Fatalf("explored too little to mean anything: %v", r)
				}
			})
		}
	}
}

// TestRemovals: each fence, or the smallest set where fences overlap, is needed.
func TestRemovals(t *testing.T) {
	t.Parallel()
	var covered interleave.Fence
	for _, r := range interleave.Removals() {
		covered |= r.Fences
		t.Run(strings.Join(r.Fences.Names(), " and "), func(t *testing.T) {
			t.Parallel()
			c := r.World
			c.Without = r.Fences
			got, err := interleave.Explore(c)
			if err != nil || got.Flaw == "" {
				t.Fatalf("nothing is found without it: %v %v", err, got)
			}
			if len(got.History) < 5 {
				t.Fatalf("the history explains nothing: %v", got)
			}
			for _, f := range interleave.Fences() { // minimal: each member alone, put back, mends it
				if r.Fences&f.Fence == 0 || bits.OnesCount32(uint32(r.Fences)) == 1 {
					continue
				}
				c.Without = r.Fences &^ f.Fence
				if got, err := interleave.Explore(c); err != nil || got.Flaw != "" {
					if r.Fences&interleave.FenceDrift != 0 && c.Without == interleave.FenceDrift {
						continue // the reconciler is needed by itself, elsewhere
					}
					t.Errorf("%q put back changes nothing: %v %v", f.Name, err, got)
				}
			}
		})
	}
	for _, f := range interleave.Fences() {
		if (covered|interleave.Redundant)&f.Fence == 0 {
			t.Errorf("no experiment takes away %q", f.Name)
		}
		if covered&interleave.Redundant&f.Fence != 0 {
			t.Errorf("%q is listed as redundant and decides", f.Name)
		}
	}
}

// TestRedundant holds the claim that these decide nothing alone: when one begins to, it belongs in the table.
func TestRedundant(t *testing.T) {
	t.Parallel()
	small, _ := interleave.Worlds(interleave.Complies)
	for _, w := range small[1:] {
		t.Run(w.Name, func(t *testing.T) {
			t.Parallel()
			c := w.Config
			c.Without = interleave.Redundant
			if got, err := interleave.Explore(c); err != nil || got.Flaw != "" {
				t.Fatalf("%v %v", err, got)
			}
		})
	}
}

func TestLimit(t *testing.T) {
	t.Parallel()
	if _, err := interleave.Explore(interleave.Config{Dismissal: true, Evaluators: 1, Limit: 50}); err == nil {
		t.Fatal("a cut exploration passes for a whole one")
	}
}
