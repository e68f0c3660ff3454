package ghclient

import (
	"strings"
	"testing"
)

func TestMergeQueueGaps(t *testing.T) {
	t.Parallel()
	events := []string{"push", "merge_group"}
	for name, row := range map[string]struct {
		permissions map[string]string
		events      []string
		want        []string
	}{
		"nothing":                    {map[string]string{"merge_queues": "read"}, events, nil},
		"nothing, with more":         {map[string]string{"merge_queues": "write"}, events, nil},
		"the permission":             {map[string]string{"checks": "write"}, events, []string{"merge_queues:read"}},
		"the event":                  {map[string]string{"merge_queues": "read"}, []string{"push"}, []string{"event merge_group"}},
		"both":                       {nil, []string{}, []string{"merge_queues:read", "event merge_group"}},
		"an installation's own list": {map[string]string{"merge_queues": "read"}, nil, nil},
	} {
		t.Run("D6 what is missing for merge queues is said as what it is: "+name, func(t *testing.T) {
			t.Parallel()
			gaps := MergeQueueGaps(row.permissions, row.events)
			if len(gaps) != len(row.want) {
				t.Fatalf("gaps %q, want %q", gaps, row.want)
			}
			for i, w := range row.want {
				if !strings.Contains(gaps[i], w) {
					t.Errorf("gap %q does not name %q", gaps[i], w)
				}
			}
		})
	}
	t.Run("D6 readiness knows no gap until it saw the App, and forgets one that was mended", func(t *testing.T) {
		t.Parallel()
		r := NewMergeQueueReadiness()
		if err := r.Check(t.Context()); err != nil {
			t.Errorf("before anything was seen: %v", err)
		}
		r.Saw(AppIdentity{})
		if err := r.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "merge_queues:read") || !strings.Contains(err.Error(), "merge_group") {
			t.Errorf("check %v", err)
		}
		r.Saw(AppIdentity{Permissions: map[string]string{"merge_queues": "read"}, Events: events})
		if err := r.Check(t.Context()); err != nil {
			t.Errorf("after it was mended: %v", err)
		}
	})
}

func TestMergeQueuePull(t *testing.T) {
	t.Parallel()
	for ref, want := range map[string]int{
		"refs/heads/gh-readonly-queue/main/pr-104-79f1fb75f54ef0b8ad4e4a3f5b01d5a8e4bb3d7e": 104,
		"refs/heads/gh-readonly-queue/release/1.2/pr-7-x":                                   7,
		"refs/heads/gh-readonly-queue/main/pr-x-1":                                          0,
		"refs/heads/main": 0, "": 0, "pr--5": 0,
	} {
		if got := MergeQueuePull(ref); got != want {
			t.Errorf("%q is about %d, want %d", ref, got, want)
		}
	}
}
