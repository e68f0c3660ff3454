package reference

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const metricsPage = "../../docs/metrics.md"

func sourceMetrics(t *testing.T) []Metric {
	t.Helper()
	all, err := Metrics("../..")
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 60 {
		t.Fatalf("%d metrics found, want all", len(all))
	}
	return all
}

func TestTheMetricsPageIsCurrent(t *testing.T) {
	t.Parallel()
	var want bytes.Buffer
	if err := WriteMetrics(&want, sourceMetrics(t)); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(metricsPage, want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(metricsPage)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.String(), string(got)); diff != "" {
		t.Errorf("docs/metrics.md is not what the code registers (-code +page); run make generate:\n%s", diff)
	}
}

var (
	metricForm = regexp.MustCompile(`^countersign(_[a-z0-9]+)+$`)
	// A name ends in what it counts or in its unit.
	units = regexp.MustCompile(`_(total|seconds|bytes|rows|requests|messages|deliveries|attempts|installations|connections|limit|remaining|connected|passed|info)$`)
)

func TestMetricsAreNamedAlike(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, m := range sourceMetrics(t) {
		if before, twice := seen[m.Name]; twice {
			t.Errorf("%s is registered by %s and by %s", m.Name, before, m.Package)
		}
		seen[m.Name] = m.Package
		if !metricForm.MatchString(m.Name) || !units.MatchString(m.Name) {
			t.Errorf("%s (%s): want countersign_<service>_<thing>_<unit>", m.Name, m.Package)
		}
		if (m.Type == "counter") != strings.HasSuffix(m.Name, "_total") {
			t.Errorf("%s is a %s: counters, and only they, end in _total", m.Name, m.Type)
		}
		if !strings.HasSuffix(m.Help, ".") {
			t.Errorf("%s: its help %q is no sentence", m.Name, m.Help)
		}
		t.Run("RG-474 labels of "+m.Name+" are on the list", func(t *testing.T) {
			t.Parallel()
			for _, l := range m.Labels {
				if labels[l] == "" {
					t.Errorf("label %s is not on the list of closed sets in metrics.go", l)
				}
			}
		})
	}
}
