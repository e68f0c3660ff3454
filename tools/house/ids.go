package house

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/countersign/countersign/tools/conformance"
)

// CheckIDs returns one line for each place that names a line of the
// specification which does not exist: source, tests, pages and configuration alike.
// The tests of this package and of the conformance report invent ids on purpose.
func CheckIDs(root string, known map[string]bool) ([]string, error) {
	var broken []string
	err := Walk(root, func(p string) error {
		switch filepath.Ext(p) {
		case ".go", ".md", ".sql", ".proto", ".yaml", ".yml", ".toml":
		default:
			return nil
		}
		if strings.HasPrefix(p, "tools/house/") || strings.HasPrefix(p, "tools/conformance/") || strings.HasPrefix(p, "tools/gotest/") {
			return nil
		}
		body, err := os.ReadFile(filepath.Join(root, p))
		if err != nil {
			return err
		}
		n := 0
		for line := range strings.Lines(string(body)) {
			n++
			for _, id := range conformance.IDs(line) {
				if !known[id] {
					broken = append(broken, fmt.Sprintf("%s:%d: %s is not in docs/spec/review-gate.md", p, n, id))
				}
			}
		}
		return nil
	})
	return broken, err
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
