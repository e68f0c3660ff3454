package checkrun

import (
	"errors"
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/store"
)

// A pager rests on "unproved": neither a GitHub that does not answer nor a faster writer may be counted as it.
func TestWhyAHeadWasNotProved(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("new run 7: %w", ErrUnproved), "unproved"},
		{fmt.Errorf("reset: %w", store.ErrSuperseded), "superseded"},
		{&store.FenceError{Fence: store.FenceLease}, "superseded"},
		{ghclient.ErrUnavailable, "failed"},
		{errors.New("the database went away"), "failed"},
	} {
		if got := notProved(c.err); got != c.want {
			t.Errorf("%v counts as %s, want %s", c.err, got, c.want)
		}
	}
}

// The first increase of a counter that was not there before is invisible to increase().
func TestCountsBeginAtZero(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewPedanticRegistry()
	newMetrics(reg)
	for name, want := range map[string]int{"countersign_checkrun_proofs_total": 9, "countersign_checkrun_writes_total": 10} {
		if got, err := testutil.GatherAndCount(reg, name); err != nil || got != want {
			t.Errorf("%s has %d series before anything happened (%v), want %d", name, got, err, want)
		}
	}
}
