package reference

import (
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Metric is one metric as its registration in the source has it.
type Metric struct {
	Name, Type, Help string
	Labels           []string
	// Package is the directory that registers it, from the root of the repository.
	Package string
}

// labels are all labels that a metric of ours may have, with what their values are. Each is a closed set; none names a
// repository, pull request, person, path, commit or delivery (RG-474).
var labels = map[string]string{
	"check":     "database, nats, github_identity, merge_queues, start, stop",
	"event":     "GitHub's event; other: one that is not subscribed to, none: refused before it was read",
	"go":        "version of the compiler",
	"how":       "how a head was proved unfinished",
	"kind":      "what kind of thing it was; the metric says which there are",
	"lane":      "interactive, fanout, reconcile, recheck; of requests to GitHub: revocation, fresh, fanout, reconcile",
	"operation": "what was asked of GitHub, one name for each call in the code",
	"outcome":   "how a request ended",
	"page":      "which of the console's pages, by a name of the code",
	"pool":      "statements, guards",
	"reason":    "why, from the code's own list",
	"resource":  "GitHub's budget: core, graphql",
	"result":    "how it ended; the metric says which there are",
	"revision":  "commit the binary was built from",
	"scope":     "installation, repository, base",
	"service":   "the service that did the work",
	"state":     "state of a row or a connection; the metric says which there are",
	"status":    "class of an answer's status: 2xx, 3xx, 4xx, 5xx",
	"subject":   "the four subjects of wake-ups",
	"version":   "version of the binary",
	"via":       "nudge, poll, sweep",
	"why":       "why, from the code's own list",
}

// Metrics finds every metric that code below root registers, sorted by name. Root is the repository. It is an error when a name,
// a help text or a label is not a literal, so that what is read here is what is registered.
func Metrics(root string) ([]Metric, error) {
	var all []Metric
	var errs []error
	for _, top := range []string{"pkg", "services", "internal", "cmd"} {
		errs = append(errs, filepath.WalkDir(filepath.Join(root, top), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			found, err := metricsOf(root, path)
			all = append(all, found...)
			return err
		}))
	}
	slices.SortFunc(all, func(a, b Metric) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Package, b.Package)) })
	return all, errors.Join(errs...)
}

func metricsOf(root, path string) ([]Metric, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, nil, 0)
	if err != nil {
		return nil, err
	}
	dir, err := filepath.Rel(root, filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	var all []Metric
	var errs []error
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		m, is, err := metricOf(call)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", set.Position(call.Pos()), err))
		} else if is {
			m.Package = filepath.ToSlash(dir)
			all = append(all, m)
		}
		return true
	})
	return all, errors.Join(errs...)
}

// constructors of the Prometheus client, by the type they make.
var constructors = map[string]string{
	"NewCounter": "counter", "NewCounterVec": "counter", "NewCounterFunc": "counter", "NewGauge": "gauge", "NewGaugeVec": "gauge",
	"NewGaugeFunc": "gauge", "NewHistogram": "histogram", "NewHistogramVec": "histogram", "NewSummary": "summary", "NewSummaryVec": "summary",
	"NewDesc": "",
}

func metricOf(call *ast.CallExpr) (m Metric, is bool, err error) {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || len(call.Args) == 0 {
		return m, false, nil
	}
	if pkg, ok := sel.X.(*ast.Ident); !ok || pkg.Name != "prometheus" {
		return m, false, nil
	}
	kind, ok := constructors[sel.Sel.Name]
	if !ok {
		return m, false, nil
	}
	m.Type = kind
	var names ast.Expr
	if sel.Sel.Name == "NewDesc" {
		if m.Name, err = literal(call.Args[0], nil); err == nil {
			m.Help, err = literal(call.Args[1], nil)
		}
		names = call.Args[2]
		m.Type = "gauge"
		if strings.HasSuffix(m.Name, "_total") {
			m.Type = "counter"
		}
	} else {
		err = m.options(call.Args[0])
		if len(call.Args) > 1 && strings.HasSuffix(sel.Sel.Name, "Vec") {
			names = call.Args[1]
		}
	}
	if err == nil && names != nil {
		m.Labels, err = literals(names)
	}
	return m, true, err
}

// options reads the Name and the Help of CounterOpts and its like.
func (m *Metric) options(e ast.Expr) error {
	opts, ok := e.(*ast.CompositeLit)
	if !ok {
		return errors.New("a metric's options are written where it is made")
	}
	for _, element := range opts.Elts {
		field, ok := element.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		var err error
		switch name, _ := field.Key.(*ast.Ident); {
		case name == nil:
		case name.Name == "Name":
			m.Name, err = literal(field.Value, err)
		case name.Name == "Help":
			m.Help, err = literal(field.Value, err)
		case name.Name == "Namespace", name.Name == "Subsystem", name.Name == "ConstLabels":
			err = fmt.Errorf("%s: write the whole name in Name, and labels as labels", name.Name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func literals(e ast.Expr) ([]string, error) {
	list, ok := e.(*ast.CompositeLit)
	if !ok {
		if id, is := e.(*ast.Ident); is && id.Name == "nil" {
			return nil, nil
		}
		return nil, errors.New("a metric's labels are written where it is made")
	}
	var all []string
	for _, element := range list.Elts {
		s, err := literal(element, nil)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// literal is the value of a string, or of several added.
func literal(e ast.Expr, err error) (string, error) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			return strconv.Unquote(e.Value)
		}
	case *ast.BinaryExpr:
		left, errLeft := literal(e.X, err)
		right, errRight := literal(e.Y, err)
		return left + right, errors.Join(errLeft, errRight)
	}
	return "", errors.New("a metric's name, help and labels are literals")
}

// exposedBy says in whose /metrics a metric is found.
func exposedBy(dir string) string {
	if service, ok := strings.CutPrefix(dir, "services/"); ok {
		name, _, _ := strings.Cut(service, "/")
		return name
	}
	switch dir {
	case "pkg/checkrun":
		return "invalidator, evaluator"
	case "pkg/ghclient":
		return "all but ingress"
	}
	return "all"
}

// WriteMetrics writes docs/metrics.md.
func WriteMetrics(w io.Writer, all []Metric) error {
	var b strings.Builder
	b.WriteString(`# Metrics

Every metric of Countersign, made from the code by ` + "`make generate`" + `; do not edit it. Each service serves its own at
` + "`GET /metrics`" + ` on its operator address, beside those of the Go runtime and the process. What to look at for which question is in
[operations.md](operations.md#what-to-watch).

A time from an accepted trigger begins when its delivery was committed, by the database's clock. The three histograms of the path of a
webhook (` + "`countersign_ingress_request_duration_seconds`, `countersign_invalidator_revocation_seconds` and `countersign_evaluator_lag_seconds`" + `)
carry exemplars with a ` + "`trace_id`" + ` when traces are exported and the scraper asks for OpenMetrics.

| metric | type | labels | services | meaning |
|---|---|---|---|---|
`)
	for _, m := range all {
		names := make([]string, len(m.Labels))
		for i, l := range m.Labels {
			names[i] = "`" + l + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", m.Name, m.Type, strings.Join(names, ", "), exposedBy(m.Package), strings.ReplaceAll(m.Help, "|", "\\|"))
	}
	b.WriteString(`
## Labels

There are no others. Each has few values, and none names a repository, a pull request, a person, a path, a commit or a delivery.

| label | values |
|---|---|
`)
	used := map[string]bool{}
	for _, m := range all {
		for _, l := range m.Labels {
			used[l] = true
		}
	}
	for _, l := range slices.Sorted(maps.Keys(used)) {
		fmt.Fprintf(&b, "| `%s` | %s |\n", l, labels[l])
	}
	_, err := io.WriteString(w, b.String())
	return err
}
