package ghclient

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
)

// MergeQueueGaps says what an App's registration, or an installation of it, lacks for merge queues, in words that say how to mend it;
// nothing where all is there. events nil leaves the subscription out: an installation's own list is not always complete.
func MergeQueueGaps(permissions map[string]string, events []string) []string {
	var gaps []string
	if level := permissions["merge_queues"]; level != "read" && level != "write" {
		gaps = append(gaps, "permission merge_queues:read is missing: GitHub sends no merge_group events, and a required check is never reported on a merge group; grant it (Merge queues: Read-only)")
	}
	if events != nil && !slices.Contains(events, "merge_group") {
		gaps = append(gaps, "event merge_group is not subscribed: a required check is never reported on a merge group; subscribe the App to it")
	}
	return gaps
}

// MergeQueueReadiness keeps what the App's registration was last seen to lack for merge queues. Without a merge queue nothing needs
// it, so it degrades a service and never stops it. Safe for concurrent use.
type MergeQueueReadiness struct {
	mu   sync.Mutex
	gaps []string
}

// NewMergeQueueReadiness knows of no gap until Saw tells it.
func NewMergeQueueReadiness() *MergeQueueReadiness { return &MergeQueueReadiness{} }

// Saw takes a fresh identity of the App.
func (r *MergeQueueReadiness) Saw(id AppIdentity) {
	events := id.Events
	if events == nil {
		events = []string{}
	}
	gaps := MergeQueueGaps(id.Permissions, events)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gaps = gaps
}

// Check is a readiness check: an error that names every gap.
func (r *MergeQueueReadiness) Check(context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.gaps) == 0 {
		return nil
	}
	return errors.New(strings.Join(r.gaps, "; "))
}
