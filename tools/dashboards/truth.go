package dashboards

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Metric is a row of docs/metrics.md, which is made from the code and held to it.
type Metric struct {
	Type   string
	Labels []string
}

var metricRow = regexp.MustCompile("^\\| `(countersign_[a-z0-9_]+)` \\| ([a-z]+) \\| ([^|]*) \\|")

// Metrics are the metrics of the code, and those of the Go runtime, the process and Prometheus that we use.
func Metrics(root string) (map[string]Metric, error) {
	f, err := os.Open(filepath.Join(root, "docs", "metrics.md"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	all := map[string]Metric{
		"up": {Type: "gauge"}, "process_resident_memory_bytes": {Type: "gauge"}, "process_cpu_seconds_total": {Type: "counter"},
		"process_start_time_seconds": {Type: "gauge"}, "go_goroutines": {Type: "gauge"}, "ALERTS": {Type: "gauge", Labels: []string{"alertname", "alertstate"}},
	}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		m := metricRow.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		metric := Metric{Type: m[2]}
		for _, l := range strings.Split(m[3], ",") {
			if l = strings.Trim(l, " `"); l != "" {
				metric.Labels = append(metric.Labels, l)
			}
		}
		all[m[1]] = metric
		if metric.Type == "histogram" {
			all[m[1]+"_bucket"] = Metric{Type: "bucket", Labels: append(slices.Clone(metric.Labels), "le")}
			all[m[1]+"_sum"], all[m[1]+"_count"] = metric, metric
			delete(all, m[1]) // a histogram has no series of its own name
		}
	}
	return all, lines.Err()
}

// Rule is a recording rule or an alert.
type Rule struct {
	Record, Alert, Expr string
	For                 string
	Labels, Annotations map[string]string
}

// Rules are those of deploy/prometheus/rules.yml.
func Rules(root string) ([]Rule, error) {
	body, err := os.ReadFile(filepath.Join(root, "deploy", "prometheus", "rules.yml"))
	if err != nil {
		return nil, err
	}
	var file struct {
		Groups []struct{ Rules []Rule }
	}
	if err := yaml.Unmarshal(body, &file); err != nil {
		return nil, fmt.Errorf("deploy/prometheus/rules.yml: %w", err)
	}
	var all []Rule
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	return all, nil
}

var (
	text     = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
	selector = regexp.MustCompile(`([a-zA-Z_:][a-zA-Z0-9_:]*)\s*\{([^}]*)\}`)
	series   = regexp.MustCompile(`\b(?:countersign|process|go)[_:][a-zA-Z0-9_:]*|\bup\b|\bALERTS\b`)
	grouping = regexp.MustCompile(`\b(?:by|on|without|ignoring|group_left|group_right)\s*\(([^)]*)\)`)
	matcher  = regexp.MustCompile(`([a-zA-Z_][a-zA-Z0-9_]*)\s*(?:=~|!~|!=|=)`)
)

// Unknown says what an expression names that nobody registers or records: metrics, and labels they do not have. recorded are the
// names that rules record. It does not parse the expression.
func Unknown(expr string, metrics map[string]Metric, recorded map[string]bool) []string {
	bare := text.ReplaceAllString(expr, `""`)
	var wrong []string
	grown := map[string]bool{"job": true, "instance": true, "slo": true, "queue": true, "service": true}
	for _, name := range series.FindAllString(bare, -1) {
		if m, known := metrics[name]; known {
			for _, l := range m.Labels {
				grown[l] = true
			}
		} else if !recorded[name] {
			wrong = append(wrong, "metric "+name)
		} else {
			for _, l := range []string{"lane", "state", "reason"} {
				grown[l] = true
			}
		}
	}
	for _, s := range selector.FindAllStringSubmatch(bare, -1) {
		m, known := metrics[s[1]]
		for _, l := range matcher.FindAllStringSubmatch(s[2], -1) {
			if known && !slices.Contains(m.Labels, l[1]) && l[1] != "job" && l[1] != "instance" {
				wrong = append(wrong, "label "+l[1]+" of "+s[1])
			}
		}
	}
	for _, g := range grouping.FindAllStringSubmatch(bare, -1) {
		for _, l := range strings.Split(g[1], ",") {
			if l = strings.TrimSpace(l); l != "" && !grown[l] {
				wrong = append(wrong, "label "+l+" in "+g[0])
			}
		}
	}
	return wrong
}

// AsRules are the expressions of every panel as recording rules, for promtool to parse: Grafana's variables are set as Check sets them.
func AsRules() ([]byte, error) {
	type rule struct {
		Record string `yaml:"record"`
		Expr   string `yaml:"expr"`
	}
	type group struct {
		Name  string `yaml:"name"`
		Rules []rule `yaml:"rules"`
	}
	var groups []group
	for _, d := range All() {
		g := group{Name: d.UID}
		for _, row := range d.Rows {
			for _, p := range row.Panels {
				for _, query := range p.Queries {
					g.Rules = append(g.Rules, rule{fmt.Sprintf("panel:%s:%d", strings.ReplaceAll(d.UID, "-", "_"), len(g.Rules)), concrete(query.Expr, "5m")})
				}
			}
		}
		groups = append(groups, g)
	}
	return yaml.Marshal(map[string]any{"groups": groups})
}

func concrete(expr, interval string) string {
	return strings.ReplaceAll(expr, "$__rate_interval", interval)
}
