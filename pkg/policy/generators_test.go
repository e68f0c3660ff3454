package policy

import "fmt"

// rapid names a generator when it is first drawn from and reads the name without a lock. A
// generator that parallel tests share must be named before they start.
func init() {
	for _, g := range []fmt.Stringer{drawPatternName, drawPathName, drawPath, drawPattern} {
		_ = g.String()
	}
}
