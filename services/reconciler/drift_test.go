package reconciler

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/countersign/countersign/internal/rig"
	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/nudge"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/store/storetest"
)

// driftBench is the service over the rig, with one decided head.
type driftBench struct {
	*rig.Rig
	service *Service
	wakes   *wakes
	number  int
	key     store.HeadKey
}

func setupDrift(t *testing.T) *driftBench {
	t.Helper()
	b := &driftBench{Rig: rig.New(t), wakes: &wakes{}}
	b.number = b.Open(nil)
	b.key = b.Key(b.number)
	b.decide(b.number)
	var err error
	b.service, err = New(testConfig(), Deps{
		Store: b.Store(storetest.Reconciler), App: world(), Waker: b.wakes, Holder: "reconciler-1", Log: b.Logger(), Metrics: prometheus.NewRegistry(),
		Client: func(int64) Client { return b.Client(ghclient.ReconcilerPermissions) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// decide publishes a success on the head of a pull request, long enough ago to be compared.
func (b *driftBench) decide(number int) {
	b.Trigger(number)
	b.Invalidate()
	b.Publish(number, "success")
	b.DB.Exec("UPDATE decision SET settled_at = now() - interval '1 hour'")
	if b.Check(b.Key(number).SHA).Conclusion != "success" {
		b.TB.Fatal("the stage is not set: no success")
	}
}

func (b *driftBench) compare(t *testing.T) {
	t.Helper()
	b.service.attemptDuty(t.Context(), b.service.comparing(), nudge.ViaPoll, 0)
}

// foreign is another holder of the App's key.
func (b *driftBench) foreign() *ghclient.Client { return b.Client(ghclient.EvaluatorPermissions) }

func spec(b *driftBench, conclusion, externalID string) ghclient.RunSpec {
	return ghclient.RunSpec{Name: rig.CheckName, HeadSHA: string(b.key.SHA), Status: "completed", Conclusion: conclusion, ExternalID: externalID, Title: "t", Summary: "s"}
}

func (b *driftBench) decision() string {
	return strconv.FormatInt(b.DB.QueryInt("SELECT published_decision_id FROM head WHERE head_sha = $1", b.key.SHA), 10)
}

func TestDrift(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		kind string
		do   func(t *testing.T, b *driftBench)
	}{
		"a newer run with a success of another holder of the key": {driftReplaced, func(t *testing.T, b *driftBench) {
			if _, err := b.foreign().CreateRun(t.Context(), b.Repo(), spec(b, "success", "foreign")); err != nil {
				t.Fatal(err)
			}
		}},
		"the conclusion was changed": {driftConclusion, func(t *testing.T, b *driftBench) {
			if _, err := b.foreign().UpdateRun(t.Context(), b.Repo(), b.Head(b.key).RunID, spec(b, "neutral", b.decision())); err != nil {
				t.Fatal(err)
			}
		}},
		"the run was written over with the same conclusion": {driftEdited, func(t *testing.T, b *driftBench) {
			if _, err := b.foreign().UpdateRun(t.Context(), b.Repo(), b.Head(b.key).RunID, spec(b, "success", "mine now")); err != nil {
				t.Fatal(err)
			}
		}},
		"the run has another name now": {driftMissing, func(t *testing.T, b *driftBench) {
			s := spec(b, "success", b.decision())
			s.Name = "something else"
			if _, err := b.foreign().UpdateRun(t.Context(), b.Repo(), b.Head(b.key).RunID, s); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run("P12 "+name+": revoked, counted, and no success remains in any reading", func(t *testing.T) {
			t.Parallel()
			b := setupDrift(t)
			row.do(t, b)
			before := b.Head(b.key)
			b.compare(t)
			h := b.Head(b.key)
			if h.Generation != before.Generation+1 || h.InvalidatedGeneration != before.Generation || !h.Drifted {
				t.Errorf("head %+v", h)
			}
			if got := b.DB.QueryText("SELECT reason FROM evaluation WHERE NOT recheck"); got != "reconcile.drift" {
				t.Errorf("reason %q", got)
			}
			if got := testutil.ToFloat64(b.service.metrics.drift.WithLabelValues(row.kind)); got != 1 {
				t.Errorf("%v counted as %s; log %s", got, row.kind, b.Log)
			}
			b.Invalidate()
			if n := b.Successes(b.key.SHA); n != 0 {
				t.Errorf("%d successes remain", n)
			}
			if c := b.Check(b.key.SHA); c.Status != "in_progress" {
				t.Errorf("the latest run reads %+v", c)
			}
			if h := b.Head(b.key); h.Drifted || !h.RunProved() {
				t.Errorf("head %+v", h)
			}
			b.Publish(b.number, "success")
			if n := b.Successes(b.key.SHA); n != 1 {
				t.Errorf("%d successes after the new decision", n)
			}
			b.compare(t)
			if after := b.Head(b.key); after.Generation != h.Generation {
				t.Error("revoked again without a difference")
			}
		})
	}
	t.Run("P12 a head that shows what was decided is left alone, and costs a conditional request", func(t *testing.T) {
		t.Parallel()
		b := setupDrift(t)
		b.compare(t)
		before := b.Head(b.key)
		b.Sim.ResetRequests()
		b.compare(t)
		if b.Head(b.key).Generation != before.Generation || b.DB.QueryInt("SELECT count(*) FROM head WHERE drifted_generation > 0") != 0 {
			t.Error("revoked")
		}
		for _, q := range b.Sim.Requests() {
			if q.Status != 304 {
				t.Errorf("%s %s was answered %d", q.Method, q.Path, q.Status)
			}
		}
		if len(b.Sim.Requests()) != 1 {
			t.Errorf("%d requests", len(b.Sim.Requests()))
		}
	})
	t.Run("P12 a decision that was just written, or is no longer the head's, is not compared", func(t *testing.T) {
		t.Parallel()
		b := setupDrift(t)
		b.DB.Exec("UPDATE decision SET settled_at = now()")
		b.Sim.ResetRequests()
		b.compare(t)
		b.DB.Exec("UPDATE decision SET settled_at = now() - interval '1 hour'")
		b.Trigger(b.number)
		b.compare(t)
		for _, q := range b.Sim.Requests() {
			if q.Route == rig.RouteRunsOf {
				t.Error("compared")
			}
		}
	})
	t.Run("P12 I5 a head that moves on between the reading and the revocation is left alone", func(t *testing.T) {
		t.Parallel()
		b := setupDrift(t)
		list, err := b.Store(storetest.Reconciler).NextDecided(t.Context(), driftWindow, driftRest, 10)
		if err != nil || len(list) != 1 || !list[0].Current {
			t.Fatalf("%+v, %v", list, err)
		}
		b.Trigger(b.number)
		generation := b.Head(b.key).Generation
		revoked, err := b.Store(storetest.Reconciler).RevokeDrift(t.Context(), list[0])
		if err != nil || revoked || b.Head(b.key).Generation != generation {
			t.Errorf("revoked %v, %v", revoked, err)
		}
	})
	t.Run("P12 each decided head is visited once a round, so many a walk", func(t *testing.T) {
		t.Parallel()
		b := setupDrift(t)
		heads := []store.SHA{b.key.SHA}
		for n := range 2 {
			number := b.Open(map[string]string{fmt.Sprintf("f%d", n): "x\n"})
			b.decide(number)
			heads = append(heads, b.Key(number).SHA)
		}
		for n, sha := range heads {
			b.DB.Exec("UPDATE decision SET settled_at = now() - make_interval(mins => $1) WHERE head_sha = $2", 60-n, sha)
		}
		b.service.cfg.DriftHeads = 1
		b.Sim.ResetRequests()
		for range 2 * len(heads) {
			b.compare(t)
		}
		var order []store.SHA
		for _, q := range b.Sim.Requests() {
			for _, sha := range heads {
				if q.Route == rig.RouteRunsOf && q.Path == "/repos/acme/widgets/commits/"+string(sha)+"/check-runs" {
					order = append(order, sha)
				}
			}
		}
		if len(order) < 5 || order[0] != heads[0] || order[1] != heads[1] || order[2] != heads[2] || order[3] != heads[0] {
			t.Errorf("visited %v of %v", order, heads)
		}
	})
	t.Run("P12 a head that cannot be read holds up no other; the walk is partial", func(t *testing.T) {
		t.Parallel()
		b := setupDrift(t)
		b.service.deps.Client = func(int64) Client {
			return fakeClient{&fakeGitHub{journal: &journal{on: func(context.Context, string) error { return ghclient.ErrUnavailable }}}, 1}
		}
		b.compare(t)
		if got := b.DB.QueryText("SELECT last_result FROM lease WHERE name = $1", driftLease); got != "partial" {
			t.Errorf("result %q", got)
		}
	})
}
