package dashboards

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Answer is what a Prometheus said of one expression.
type Answer struct {
	// Where names the panel or the rule.
	Where, Expr string
	Series      int
	// Quiet: it may be empty while the system is healthy.
	Quiet bool
	Err   error
}

// Bad reports whether the expression failed, or is empty and may not be.
func (a Answer) Bad() bool { return a.Err != nil || a.Series == 0 && !a.Quiet }

// quietRules have no data in a healthy or a young system, besides every alert: their long windows, or a lane without events.
var quietRules = []string{"countersign:fence_refusals:ratio15m", "countersign:work_found_by_nudge:ratio15m"}

// Check asks the Prometheus at base every expression of every panel and rule. interval stands for Grafana's $__rate_interval.
func Check(ctx context.Context, root, base, interval string) ([]Answer, error) {
	rules, err := Rules(root)
	if err != nil {
		return nil, err
	}
	var all []Answer
	for _, d := range All() {
		for _, row := range d.Rows {
			for _, p := range row.Panels {
				for _, query := range p.Queries {
					all = append(all, Answer{Where: d.Title + " / " + p.Title, Expr: concrete(query.Expr, interval), Quiet: query.Quiet})
				}
			}
		}
	}
	for _, r := range rules {
		a := Answer{Where: "rule " + r.Record, Expr: r.Expr, Quiet: slices.Contains(quietRules, r.Record)}
		if r.Alert != "" {
			a.Where, a.Quiet = "alert "+r.Alert, true
		}
		all = append(all, a)
	}
	for i := range all {
		all[i].Series, all[i].Err = ask(ctx, base, all[i].Expr)
	}
	return all, nil
}

// ask counts the series with a value; NaN, a share of nothing, is none.
func ask(ctx context.Context, base, expr string) (int, error) {
	var result struct {
		Result []struct {
			Value [2]any
		}
	}
	if err := get(ctx, base, "/api/v1/query", url.Values{"query": {expr}}, &result); err != nil {
		return 0, err
	}
	n := 0
	for _, s := range result.Result {
		if v, _ := s.Value[1].(string); v != "NaN" {
			n++
		}
	}
	return n, nil
}

// get reads one answer of Prometheus' HTTP API.
func get(ctx context.Context, base, path string, params url.Values, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(base, "/")+path+"?"+params.Encode(), nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, 64<<20)).Decode(&answer); err != nil {
		return fmt.Errorf("answer %s of %s: %w", res.Status, path, err)
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s", answer.Error)
	}
	return json.Unmarshal(answer.Data, into)
}

// Summary is one line about all of them.
func Summary(all []Answer) string {
	data, empty, bad := 0, 0, 0
	for _, a := range all {
		switch {
		case a.Bad():
			bad++
		case a.Series == 0:
			empty++
		default:
			data++
		}
	}
	return fmt.Sprintf("%d expressions checked: %d with data, %d empty as declared, %d failed or empty without being declared", len(all), data, empty, bad)
}
