package rig

import (
	"context"
	"fmt"
	"strings"

	"github.com/countersign/countersign/pkg/githubsim"
	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/store/storetest"
)

// Enqueue builds a merge group of the stand-in's queue, on main, and stores its webhook as ingress would.
func (r *Rig) Enqueue(o githubsim.GroupOptions, numbers ...int) (githubsim.MergeGroup, store.HeadKey) {
	r.TB.Helper()
	g, err := r.Sim.EnqueueMergeGroupWith(r.World.Repository, "main", o, numbers...)
	if err != nil {
		r.TB.Fatalf("enqueue: %v", err)
	}
	return g, r.AcceptGroup(g, "")
}

// Destroy ends a merge group at the stand-in and stores its webhook as ingress would.
func (r *Rig) Destroy(g githubsim.MergeGroup, reason string) {
	r.TB.Helper()
	if err := r.Sim.DestroyMergeGroup(r.World.Repository, g, reason); err != nil {
		r.TB.Fatalf("destroy: %v", err)
	}
	r.AcceptGroup(g, reason)
}

// AcceptGroup stores a delivery about a merge group; ended "" asks for checks.
func (r *Rig) AcceptGroup(g githubsim.MergeGroup, ended string) store.HeadKey {
	r.TB.Helper()
	action := "checks_requested"
	if ended != "" {
		action = "destroyed"
	}
	r.mu.Lock()
	r.next++
	id := store.DeliveryID(fmt.Sprintf("delivery-%d", r.next))
	r.mu.Unlock()
	w := store.GroupWork{
		Installation: store.InstallationID(r.World.Installation), AccountLogin: "acme", Repository: store.RepositoryID(r.RepositoryID()), FullName: r.World.Repository,
		Head: store.SHA(g.Head), HeadRef: g.HeadRef, BaseRef: strings.TrimPrefix(g.Base, "refs/heads/"), BaseSHA: store.SHA(g.BaseSHA),
		Ended: ended != "", EndedReason: ended, Reason: "merge_group." + action,
	}
	a, err := r.Store(storetest.Ingress).AcceptMergeGroup(context.Background(), store.Delivery{ID: id, Event: "merge_group", Action: action}, w)
	if err != nil {
		r.TB.Fatalf("accept merge group: %v", err)
	}
	return a.Head
}
