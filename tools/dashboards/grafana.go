package dashboards

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// Dir is where the files are, from the root of the repository.
const Dir = "deploy/grafana/dashboards"

// The datasources' ids, as deploy/grafana/provisioning/datasources has them.
const (
	PrometheusUID = "prometheus"
	TracesUID     = "traces"
)

type object = map[string]any

// JSON is the dashboard as Grafana reads it from a file.
func (d Dashboard) JSON() ([]byte, error) {
	var panels []object
	id, y := 0, 0
	next := func(p object, x, w, h int) {
		id++
		p["id"] = id
		p["gridPos"] = object{"x": x, "y": y, "w": w, "h": h}
		panels = append(panels, p)
	}
	for _, row := range d.Rows {
		next(object{"type": "row", "title": row.Title, "collapsed": false, "panels": []object{}}, 0, 24, 1)
		y++
		x, height := 0, 0
		for _, p := range row.Panels {
			w, h := p.size()
			if x+w > 24 {
				x, y = 0, y+height
				height = 0
			}
			next(p.object(), x, w, h)
			x, height = x+w, max(height, h)
		}
		y += height
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(object{
		"uid": d.UID, "title": "Countersign / " + d.Title, "description": d.About, "tags": []string{"countersign"}, "schemaVersion": 39,
		"editable": false, "graphTooltip": 1, "refresh": "30s", "time": object{"from": "now-3h", "to": "now"}, "timezone": "",
		"links": []object{{
			"type": "dashboards", "tags": []string{"countersign"}, "asDropdown": true, "title": "Countersign", "includeVars": false, "keepTime": true,
		}},
		"templating": object{"list": []object{}}, "annotations": object{"list": []object{{
			"name": "Firing alerts", "enable": true, "iconColor": "red", "datasource": prometheus(),
			"expr": `sum by (alertname) (ALERTS{alertname=~"Countersign.*",alertstate="firing"})`, "titleFormat": "{{alertname}}",
		}}},
		"panels": panels,
	})
	return b.Bytes(), err
}

func prometheus() object { return object{"type": "prometheus", "uid": PrometheusUID} }

func (p Panel) size() (w, h int) {
	w, h = p.Width, 8
	if w == 0 {
		w = 8
	}
	if p.Kind != Lines {
		h = 4
	}
	return w, h
}

// Description is what Grafana shows with the panel.
func (p Panel) Description() string { return "Normal: " + p.Normal + "\n\nOtherwise: " + p.Do }

func (p Panel) object() object {
	if p.Kind == Firing {
		return object{
			"type": "alertlist", "title": p.Title, "description": p.Description(),
			"options": object{
				"alertInstanceLabelFilter": "", "datasource": "Prometheus", "viewMode": "list", "groupMode": "default", "maxItems": 20, "sortOrder": 3,
				"stateFilter": object{"firing": true, "pending": true, "noData": false, "normal": false, "error": true},
			},
		}
	}
	targets := make([]object, len(p.Queries))
	for i, query := range p.Queries {
		targets[i] = object{
			"refId": string(rune('A' + i)), "expr": query.Expr, "legendFormat": query.Legend, "datasource": prometheus(),
			"editorMode": "code", "range": p.Kind == Lines, "instant": p.Kind == Number, "exemplar": query.Traces,
		}
	}
	steps := []object{{"color": "green", "value": nil}}
	if p.Alert > 0 {
		steps = append(steps, object{"color": "red", "value": p.Alert})
	}
	defaults := object{"unit": string(p.Unit), "min": 0, "noValue": "none", "thresholds": object{"mode": "absolute", "steps": steps}}
	options := object{"legend": object{"displayMode": "list", "placement": "bottom", "showLegend": true}, "tooltip": object{"mode": "multi", "sort": "desc"}}
	switch p.Kind {
	case Lines:
		custom := object{"lineWidth": 1, "fillOpacity": 8, "showPoints": "never", "spanNulls": false}
		if p.Alert > 0 {
			custom["thresholdsStyle"] = object{"mode": "line"}
		}
		defaults["custom"] = custom
	case Number:
		options = object{"reduceOptions": object{"calcs": []string{"lastNotNull"}}, "colorMode": "value", "graphMode": "area", "textMode": "auto"}
	}
	return object{
		"type": string(p.Kind), "title": p.Title, "description": p.Description(), "datasource": prometheus(), "targets": targets,
		"fieldConfig": object{"defaults": defaults, "overrides": []object{}}, "options": options,
	}
}

// Write writes every dashboard below root, the repository.
func Write(root string) error {
	dir := filepath.Join(root, filepath.FromSlash(Dir))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, d := range All() {
		text, err := d.JSON()
		if err != nil {
			return fmt.Errorf("encode %s: %w", d.UID, err)
		}
		if err := os.WriteFile(filepath.Join(dir, d.UID+".json"), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
