package ingress

import (
	"net/http"
	"testing"

	"github.com/countersign/countersign/pkg/store"
)

const groupRef = "refs/heads/gh-readonly-queue/release/1.2/pr-7-" + headB

func mergeGroup(action, head string) obj {
	p := base(action, target())
	p["merge_group"] = obj{
		"head_sha": head, "head_ref": groupRef, "base_sha": headB, "base_ref": "refs/heads/release/1.2",
		"head_commit": obj{"id": head, "message": "Merge pull request #7"},
	}
	return p
}

func TestClassifyMergeGroups(t *testing.T) {
	t.Parallel()
	group := func(action, ended string) Work {
		return Work{Group: &store.GroupWork{
			Installation: installedAs, AccountLogin: "acme", Repository: repoID, FullName: "acme/widgets", Head: headA, HeadRef: groupRef,
			BaseRef: "release/1.2", BaseSHA: headB, Ended: ended != "", EndedReason: ended, Reason: "merge_group." + action,
		}}
	}
	t.Run("D6 a group that asks for checks is work of its own", func(t *testing.T) {
		t.Parallel()
		compare(t, classify(t, "merge_group", mergeGroup("checks_requested", headA)), group("checks_requested", ""))
	})
	for reason, want := range map[string]string{"merged": "merged", "invalidated": "invalidated", "dequeued": "dequeued", "a new word": "unknown", "": "unknown"} {
		t.Run("D6 a group destroyed for "+reason+" is over", func(t *testing.T) {
			t.Parallel()
			compare(t, classify(t, "merge_group", with(mergeGroup("destroyed", headA), "reason", reason)), group("destroyed", want))
		})
	}
	t.Run("D6 RG-055 groups of the organization's policy repository are not gated", func(t *testing.T) {
		t.Parallel()
		compare(t, classify(t, "merge_group", with(mergeGroup("checks_requested", headA), "repository", orgPolicy())), Work{Why: WhyOrgGroup})
	})
}

func TestMergeGroups(t *testing.T) {
	t.Parallel()
	t.Run("D6 P13 a group is stored whole before it is acknowledged, once, and its end ends its work", func(t *testing.T) {
		t.Parallel()
		b := overPostgres(t, offline(), nil)
		b.redeliver("d1", "merge_group", mergeGroup("checks_requested", headA)).wantBody(t, true, true)
		b.redeliver("d1", "merge_group", mergeGroup("checks_requested", headA)).wantBody(t, false, false)
		b.wantInt(1, "SELECT count(*) FROM merge_group WHERE head_sha = $1 AND base_ref = 'release/1.2' AND waiting AND generation = 1", headA)
		b.wantInt(1, "SELECT count(*) FROM head WHERE head_sha = $1 AND generation = 1 AND invalidated_generation = 0", headA)
		b.redeliver("d2", "merge_group", with(mergeGroup("destroyed", headA), "reason", "dequeued")).wantBody(t, true, true)
		b.wantInt(1, "SELECT count(*) FROM merge_group WHERE state = 'ended' AND ended_reason = 'dequeued' AND NOT waiting")
		b.wantInt(2, "SELECT generation FROM head WHERE head_sha = $1", headA)
	})
	t.Run("D6 RG-032 RG-033 a group without a well-formed head or refs is 400", func(t *testing.T) {
		t.Parallel()
		for field, value := range map[string]any{"head_sha": "HEAD", "base_sha": nil, "head_ref": 7, "base_ref": nil} {
			b, st := fake(t, nil)
			p := mergeGroup("checks_requested", headA)
			p["merge_group"] = with(p["merge_group"].(obj), field, value)
			wantRefused(t, b, st, b.deliver("merge_group", p), http.StatusBadRequest, resultPayload, "merge_group."+field)
		}
	})
}
