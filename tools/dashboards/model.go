package dashboards

// Dashboard is one page of Grafana.
type Dashboard struct {
	// UID is also the name of its file.
	UID, Title string
	// About says which question the page answers.
	About string
	Rows  []Row
}

// Row is a title with the panels below it, left to right.
type Row struct {
	Title  string
	Panels []Panel
}

// Panel is one graph or number.
type Panel struct {
	Title string
	// Normal and Do are shown with the panel: what a healthy system looks like, and what to do where it looks otherwise.
	Normal, Do string
	Kind       Kind
	Unit       Unit
	// Width is of 24; 0 means 8.
	Width int
	// Alert draws a line at this value; 0: none.
	Alert   float64
	Queries []Query
}

// Kind is how a panel looks.
type Kind string

// The kinds.
const (
	Lines  Kind = "timeseries"
	Number Kind = "stat"
	Firing Kind = "alertlist"
)

// Unit is Grafana's name of a unit.
type Unit string

// The units.
const (
	Seconds   Unit = "s"
	PerSecond Unit = "reqps"
	Share     Unit = "percentunit"
	Count     Unit = "short"
	Bytes     Unit = "bytes"
)

// Query is one expression of a panel.
type Query struct {
	Expr, Legend string
	// Quiet declares that the expression has no data while the system is healthy.
	Quiet bool
	// Traces shows the exemplars of the histogram, each a link to its trace.
	Traces bool
}

// All are the dashboards, the one to begin with first.
func All() []Dashboard {
	return []Dashboard{
		overview(), queues(), github(),
		ingress(), invalidator(), fanout(), evaluator(), reconciler(), console(),
	}
}

// lines is a panel of lines.
func lines(title, normal, do string, unit Unit, queries ...Query) Panel {
	return Panel{Title: title, Normal: normal, Do: do, Kind: Lines, Unit: unit, Queries: queries}
}

// number is a panel of one number a query.
func number(title, normal, do string, unit Unit, queries ...Query) Panel {
	return Panel{Title: title, Normal: normal, Do: do, Kind: Number, Unit: unit, Width: 4, Queries: queries}
}

// q is a query that always has data; quiet has none while all is well.
func q(expr, legend string) Query     { return Query{Expr: expr, Legend: legend} }
func quiet(expr, legend string) Query { return Query{Expr: expr, Legend: legend, Quiet: true} }

// within is the duration that so many of a hundred observations keep, by the labels given.
func within(percent, histogram, by string) Query {
	group, legend := "le", "p"+percent
	if by != "" {
		group, legend = by+", le", "p"+percent+" {{"+by+"}}"
	}
	return Query{
		Expr:   "histogram_quantile(0." + percent + ", sum by (" + group + ") (rate(" + histogram + "_bucket[$__rate_interval])))",
		Legend: legend,
	}
}

// traced is within, with the exemplars of the histogram.
func traced(percent, histogram, by string) Query {
	query := within(percent, histogram, by)
	query.Traces = true
	return query
}

// rate is the rate of a counter by a label.
func rate(counter, by string) Query {
	return q("sum by ("+by+") (rate("+counter+"[$__rate_interval]))", "{{"+by+"}}")
}

// alertAt draws a line.
func (p Panel) alertAt(v float64) Panel { p.Alert = v; return p }

func (p Panel) wide(w int) Panel { p.Width = w; return p }
