package measure

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// Insert replaces what stands between the two markers of a page. An error names the markers that are missing.
func Insert(path, begin, end, table string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, found := strings.Cut(string(text), begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		return fmt.Errorf("%s: want the lines %q and %q", path, begin, end)
	}
	return os.WriteFile(path, []byte(before+begin+"\n"+table+end+after), 0o644)
}

// Median sorts all and returns its middle; of none, 0.
func Median(all []float64) float64 {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// Quantile sorts all and returns the value below which the share q of them lies; of none, 0.
func Quantile(all []time.Duration, q float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[min(len(all)-1, int(q*float64(len(all))))]
}

// Millis writes a duration in milliseconds.
func Millis(d time.Duration) string { return fmt.Sprintf("%.1f ms", d.Seconds()*1000) }
