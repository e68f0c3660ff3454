package dashboards

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

const root = "../.."

func known(t *testing.T) (map[string]Metric, map[string]bool, []Rule) {
	t.Helper()
	metrics, err := Metrics(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(metrics) < 60 {
		t.Fatalf("%d metrics in docs/metrics.md, want all", len(metrics))
	}
	rules, err := Rules(root)
	if err != nil {
		t.Fatal(err)
	}
	recorded := map[string]bool{}
	for _, r := range rules {
		if r.Record != "" {
			recorded[r.Record] = true
		}
	}
	return metrics, recorded, rules
}

func TestTheFilesAreCurrent(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(root, Dir, "*.json"))
	if err != nil || len(files) != len(All()) {
		t.Errorf("%d files in %s (%v), want %d", len(files), Dir, err, len(All()))
	}
	for _, d := range All() {
		want, err := d.JSON()
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(root, Dir, d.UID+".json"))
		if err != nil {
			t.Error(err)
		} else if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s.json is not what the code says (-code +file); run make dashboards:\n%s", d.UID, diff)
		}
	}
}

func TestEveryPanelSaysWhatIsNormal(t *testing.T) {
	t.Parallel()
	n := 0
	for _, d := range All() {
		if d.About == "" {
			t.Errorf("%s does not say what it answers", d.UID)
		}
		for _, row := range d.Rows {
			for _, p := range row.Panels {
				n++
				if p.Normal == "" || p.Do == "" || !strings.ContainsAny(p.Normal[len(p.Normal)-1:], ".?") || !strings.ContainsAny(p.Do[len(p.Do)-1:], ".?") {
					t.Errorf("%s / %s: normal %q, do %q: want two sentences", d.Title, p.Title, p.Normal, p.Do)
				}
				if p.Kind != Firing && len(p.Queries) == 0 {
					t.Errorf("%s / %s asks nothing", d.Title, p.Title)
				}
			}
		}
	}
	if n < 80 {
		t.Errorf("%d panels, want all", n)
	}
}

// What a panel tells a reader to open must be there.
func TestPanelsNameAlertsThatExist(t *testing.T) {
	t.Parallel()
	_, _, rules := known(t)
	alerts := map[string]bool{}
	for _, r := range rules {
		alerts[r.Alert] = true
	}
	name := regexp.MustCompile(`Countersign[A-Z]\w+`)
	for _, d := range All() {
		text, err := d.JSON()
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range name.FindAllString(string(text), -1) {
			if !alerts[a] {
				t.Errorf("%s names the alert %s, which does not exist", d.UID, a)
			}
		}
	}
}

func TestExpressionsNameWhatExists(t *testing.T) {
	t.Parallel()
	metrics, recorded, rules := known(t)
	for _, d := range All() {
		for _, row := range d.Rows {
			for _, p := range row.Panels {
				for _, query := range p.Queries {
					for _, u := range Unknown(query.Expr, metrics, recorded) {
						t.Errorf("%s / %s: unknown %s in %s", d.Title, p.Title, u, query.Expr)
					}
				}
			}
		}
	}
	for _, r := range rules {
		for _, u := range Unknown(r.Expr, metrics, recorded) {
			t.Errorf("rule %s%s: unknown %s", r.Record, r.Alert, u)
		}
	}
}

func TestUnknownFindsEveryKind(t *testing.T) {
	t.Parallel()
	metrics, recorded, _ := known(t)
	for expr, want := range map[string]string{
		`rate(countersign_ingress_deliveries_tota[5m])`:                      "metric countersign_ingress_deliveries_tota",
		`countersign_invalidator_revocation_seconds`:                         "metric countersign_invalidator_revocation_seconds",
		`countersign:nobody_records:this`:                                    "metric countersign:nobody_records:this",
		`countersign_ingress_deliveries_total{outcome="accepted"}`:           "label outcome of countersign_ingress_deliveries_total",
		`sum by (lane) (countersign_ingress_deliveries_total{event="push"})`: "label lane in by (lane)",
		`sum by (event) (countersign_ingress_deliveries_total)`:              "",
	} {
		if got := strings.Join(Unknown(expr, metrics, recorded), "; "); got != want {
			t.Errorf("%s: %q, want %q", expr, got, want)
		}
	}
}

// An alert without a severity reaches nobody, and one without a section helps nobody.
func TestEveryAlertHasARunbook(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(root, "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, _, rules := known(t)
	const base = "https://github.com/countersign/countersign/blob/main/docs/operations.md#"
	n := 0
	for _, r := range rules {
		if r.Alert == "" {
			continue
		}
		n++
		if s := r.Labels["severity"]; s != "page" && s != "ticket" {
			t.Errorf("%s has severity %q, want page or ticket", r.Alert, s)
		}
		if r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
			t.Errorf("%s lacks a summary or a description", r.Alert)
		}
		if want := base + strings.ToLower(r.Alert); r.Annotations["runbook_url"] != want {
			t.Errorf("%s leads to %q, want %s", r.Alert, r.Annotations["runbook_url"], want)
		}
		_, section, found := strings.Cut(string(page), "\n### "+r.Alert+"\n")
		section, _, _ = strings.Cut(section, "\n#")
		if !found {
			t.Errorf("docs/operations.md has no section %s", r.Alert)
			continue
		}
		for _, part := range []string{"**Meaning.**", "**Confirm.**", "**Do.**", "**Stop.**"} {
			if !strings.Contains(section, part) {
				t.Errorf("docs/operations.md, %s lacks %s", r.Alert, part)
			}
		}
	}
	if n < 20 {
		t.Errorf("%d alerts, want all", n)
	}
}

// promtool plays the tests (make rules); this holds them to be complete.
func TestEveryAlertIsTestedFiringAndNot(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(root, "deploy", "prometheus", "tests", "*.yml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	fires, quiet := map[string]bool{}, map[string]bool{}
	for _, path := range files {
		body, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var file struct {
			Tests []struct {
				Alerts []struct {
					Name string `yaml:"alertname"`
					Want []any  `yaml:"exp_alerts"`
				} `yaml:"alert_rule_test"`
			}
		}
		if err := yaml.Unmarshal(body, &file); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		for _, test := range file.Tests {
			for _, a := range test.Alerts {
				if len(a.Want) > 0 {
					fires[a.Name] = true
				} else {
					quiet[a.Name] = true
				}
			}
		}
	}
	_, _, rules := known(t)
	for _, r := range rules {
		if r.Alert != "" && (!fires[r.Alert] || !quiet[r.Alert]) {
			t.Errorf("%s: tested firing %t, not firing %t; want both", r.Alert, fires[r.Alert], quiet[r.Alert])
		}
	}
}

func TestProvisioning(t *testing.T) {
	t.Parallel()
	body, err := os.ReadFile(filepath.Join(root, "deploy", "grafana", "provisioning", "datasources", "countersign.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Datasources []struct {
			Name, UID, Type string
			JSONData        struct {
				Exemplars []struct {
					Name, DatasourceUID string `yaml:",omitempty"`
				} `yaml:"exemplarTraceIdDestinations"`
			} `yaml:"jsonData"`
		}
	}
	if err := yaml.Unmarshal(body, &file); err != nil {
		t.Fatal(err)
	}
	have := map[string]string{}
	for _, d := range file.Datasources {
		have[d.UID] = d.Type
		if d.UID == PrometheusUID && (len(d.JSONData.Exemplars) != 1 || d.JSONData.Exemplars[0].Name != "trace_id") {
			t.Errorf("exemplars lead to %+v, want the label trace_id", d.JSONData.Exemplars)
		}
	}
	if diff := cmp.Diff(map[string]string{PrometheusUID: "prometheus", TracesUID: "tempo"}, have); diff != "" {
		t.Errorf("datasources (-want +have):\n%s", diff)
	}
}

func TestCheckTellsDataFromNone(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		expr := r.URL.Query().Get("query")
		switch {
		case strings.Contains(expr, "$__"):
			t.Errorf("a variable of Grafana is left in %s", expr)
		case expr == "countersign:queue_oldest_seconds":
			_, _ = w.Write([]byte(`{"status":"error","error":"no such thing"}`))
		case strings.Contains(expr, "goroutines"):
			_, _ = w.Write([]byte(`{"status":"success","data":{"result":[{"value":[1,"NaN"]}]}}`))
		default:
			_, _ = w.Write([]byte(`{"status":"success","data":{"result":[{"value":[1,"0"]},{"value":[1,"2"]}]}}`))
		}
	}))
	defer server.Close()
	all, err := Check(context.Background(), root, server.URL, "1m")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		want := a.Expr == "countersign:queue_oldest_seconds" || strings.Contains(a.Expr, "goroutines") && !a.Quiet
		if a.Bad() != want {
			t.Errorf("%s: bad %t, want %t (%+v)", a.Where, a.Bad(), want, a)
		}
	}
	if s := Summary(all); !strings.Contains(s, "7 failed or empty") {
		t.Errorf("summary %q", s)
	}
}
