package store_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestMetrics(t *testing.T) {
	t.Parallel()
	b := setup(t)
	reg := prometheus.NewPedanticRegistry()
	if err := reg.Register(b.ingress.Metrics()); err != nil {
		t.Fatal(err)
	}
	b.accept(t, "d1", direct(7, headA))
	want := `
# HELP countersign_store_connections_limit Connections that a pool may have at most.
# TYPE countersign_store_connections_limit gauge
countersign_store_connections_limit{pool="guards"} 4
countersign_store_connections_limit{pool="statements"} 4
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "countersign_store_connections_limit"); err != nil {
		t.Error(err)
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	acquired, conns := 0.0, 0.0
	for _, f := range families {
		for _, m := range f.GetMetric() {
			switch f.GetName() {
			case "countersign_store_acquires_total":
				acquired += m.GetCounter().GetValue()
			case "countersign_store_connections":
				conns += m.GetGauge().GetValue()
			}
		}
	}
	if acquired < 1 || conns < 1 {
		t.Errorf("%v connections were taken, %v are open; want at least one each", acquired, conns)
	}
}
