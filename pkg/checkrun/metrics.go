package checkrun

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/countersign/countersign/pkg/store"
)

// Why a head was not proved unfinished: the values of the metric's label that are no Proof.
const (
	notProvedUnproved   = "unproved"   // GitHub answered, and the run reads finished all the same
	notProvedSuperseded = "superseded" // somebody newer has the head
	notProvedFailed     = "failed"     // GitHub or the database could not be asked
)

func notProved(err error) string {
	switch {
	case errors.Is(err, ErrUnproved):
		return notProvedUnproved
	case errors.Is(err, store.ErrSuperseded), errors.Is(err, store.ErrLeaseLost):
		return notProvedSuperseded
	}
	return notProvedFailed
}

type metrics struct {
	writes *prometheus.CounterVec
	proofs *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "countersign_checkrun_writes_total",
			Help: "Writes of check runs to GitHub, by operation (create, reset, publish, supersede, cancel) and outcome (ok, error).",
		}, []string{"operation", "outcome"}),
		proofs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "countersign_checkrun_proofs_total",
			Help: "How heads were proved unfinished: known (already proved), read (GET alone), reset (PATCH and GET), replaced (new run), created (first run), none (no managed run); or were not: unproved (GitHub complied and the run still reads finished), superseded (somebody newer has the head), failed (no answer).",
		}, []string{"how"}),
	}
	// Every count begins at zero, so that an alert sees the first one too.
	for _, p := range []Proof{ProofKnown, ProofRead, ProofReset, ProofReplaced, ProofCreated, ProofNone, notProvedUnproved, notProvedSuperseded, notProvedFailed} {
		m.proofs.WithLabelValues(string(p))
	}
	for _, operation := range []string{"create", "reset", "publish", "supersede", "cancel"} {
		m.writes.WithLabelValues(operation, "ok")
		m.writes.WithLabelValues(operation, "error")
	}
	if reg != nil {
		reg.MustRegister(m.writes, m.proofs)
	}
	return m
}
