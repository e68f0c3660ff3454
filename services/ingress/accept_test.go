package ingress

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
)

const (
	countPulls = "SELECT count(*) FROM pull"
	countHeads = "SELECT count(*) FROM head"
	deliveries = "SELECT count(*) FROM delivery"
)

func TestAcceptance(t *testing.T) {
	t.Parallel()
	t.Run("RG-001 RG-100 RG-102 RG-116 RG-117 RG-118 202 is a delivery, a pull request, a pending head and an evaluation", func(t *testing.T) {
		t.Parallel()
		b := overPostgres(t, offline(), nil)
		b.redeliver("d1", "pull_request", pullRequest("opened", 7, headA, "open")).wantBody(t, true, true)
		b.wantInt(1, "SELECT count(*) FROM delivery WHERE delivery_id = 'd1' AND event = 'pull_request' AND action = 'opened' AND head_sha = $1 AND head_generation = 1 AND number = 7", headA)
		b.wantInt(1, "SELECT count(*) FROM pull WHERE installation_id = $1 AND repository_id = $2 AND number = 7 AND state = 'open' AND base_ref = 'main' AND generation = 1", installedAs, repoID)
		// Durable, and not reset: the head still waits for its proof.
		b.wantInt(1, "SELECT count(*) FROM head WHERE head_sha = $1 AND generation = 1 AND invalidated_generation = 0", headA)
		b.wantInt(1, "SELECT count(*) FROM evaluation WHERE number = 7 AND head_generation = 1 AND reason = 'pull_request.opened' AND delivery_id = 'd1' AND lane = 0")
	})
	for _, table := range []string{"delivery", "pull", "head", "evaluation"} {
		t.Run("RG-001 RG-100 RG-115 a failure in "+table+" is 503 and leaves nothing, and the same id is new afterwards", func(t *testing.T) {
			t.Parallel()
			b := overPostgres(t, offline(), nil)
			b.exec("CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'refused'; END $$")
			b.exec(fmt.Sprintf("CREATE TRIGGER refuse BEFORE INSERT ON %s FOR EACH ROW EXECUTE FUNCTION refuse()", table))
			b.redeliver("d1", "pull_request", pullRequest("opened", 7, headA, "open")).want(t, http.StatusServiceUnavailable)
			b.wantNoRows()
			b.exec(fmt.Sprintf("DROP TRIGGER refuse ON %s", table))
			b.redeliver("d1", "pull_request", pullRequest("opened", 7, headA, "open")).wantBody(t, true, true)
		})
	}
	t.Run("RG-001 RG-115 without a database it is 503 for work, and still 202 for what asks for none", func(t *testing.T) {
		t.Parallel()
		b := overPostgres(t, offline(), nil)
		b.server.store.(interface{ Close() }).Close()
		b.deliver("pull_request", pullRequest("opened", 7, headA, "open")).want(t, http.StatusServiceUnavailable)
		b.deliver("team", base("edited", nil)).want(t, http.StatusServiceUnavailable)
		b.deliver("ping", obj{}).wantBody(t, true, false)
		b.wantNoRows()
	})
	t.Run("RG-101 RG-103 RG-104 RG-116 a redelivery changes nothing and keeps its first token", func(t *testing.T) {
		t.Parallel()
		b := overPostgres(t, offline(), nil)
		open := pullRequest("opened", 7, headA, "open")
		b.redeliver("d1", "pull_request", open).wantBody(t, true, true)
		b.redeliver("d2", "pull_request", open).wantBody(t, true, true)
		before := b.rows()
		b.redeliver("d1", "pull_request", open).wantBody(t, false, false)
		for table, n := range b.rows() {
			if before[table] != n {
				t.Errorf("%s: %d rows, %d before the redelivery", table, n, before[table])
			}
		}
		b.wantInt(1, "SELECT head_generation FROM delivery WHERE delivery_id = 'd1'")
		b.wantInt(2, "SELECT head_generation FROM delivery WHERE delivery_id = 'd2'")
		b.wantInt(2, "SELECT generation FROM head")
		b.wantInt(2, "SELECT generation FROM pull")
		if n := b.counted("pull_request", resultDuplicate); n != 1 {
			t.Errorf("counted %v duplicates, want 1", n)
		}
	})
	t.Run("RG-105 one delivery id for another event is 503", func(t *testing.T) {
		t.Parallel()
		b := overPostgres(t, offline(), nil)
		b.redeliver("d1", "pull_request", pullRequest("opened", 7, headA, "open")).wantBody(t, true, true)
		before := b.rows()
		b.redeliver("d1", "pull_request_review", review("submitted", 7, headA, "open")).want(t, http.StatusServiceUnavailable)
		b.redeliver("d1", "pull_request", pullRequest("edited", 7, headA, "open")).want(t, http.StatusServiceUnavailable)
		b.redeliver("d1", "team", base("edited", nil)).want(t, http.StatusServiceUnavailable)
		b.wantSame(before)
	})
	for name, change := range map[string]func(obj) obj{
		"installation": func(p obj) obj { return with(p, "installation.id", 78) },
		"repository":   func(p obj) obj { return with(p, "repository", repository(600, "acme/gadgets")) },
		"pull request": func(p obj) obj { return with(with(p, "pull_request.number", 8), "number", 8) },
		"head":         func(p obj) obj { return with(p, "pull_request.head.sha", headB) },
	} {
		t.Run("RG-106 one delivery id for another "+name+" is 503", func(t *testing.T) {
			t.Parallel()
			b := overPostgres(t, offline(), nil)
			b.redeliver("d1", "pull_request", pullRequest("opened", 7, headA, "open")).wantBody(t, true, true)
			before := b.rows()
			b.redeliver("d1", "pull_request", change(pullRequest("opened", 7, headA, "open"))).want(t, http.StatusServiceUnavailable)
			b.wantSame(before)
			if n := b.counted("pull_request", resultConflict); n != 1 {
				t.Errorf("counted %v conflicts, want 1", n)
			}
		})
	}
	t.Run("RG-106 one delivery id for another scope of authority is 503", func(t *testing.T) {
		t.Parallel()
		b := overPostgres(t, offline(), nil)
		b.redeliver("d1", "push", push(target(), "refs/heads/main")).wantBody(t, true, true)
		b.redeliver("d1", "push", push(target(), "refs/heads/main")).wantBody(t, false, false)
		before := b.rows()
		b.redeliver("d1", "push", push(target(), "refs/heads/other")).want(t, http.StatusServiceUnavailable)
		b.redeliver("d1", "pull_request", pullRequest("opened", 7, headA, "open")).want(t, http.StatusServiceUnavailable)
		b.wantSame(before)
	})
}

// wantSame checks that no row came or went.
func (b *bench) wantSame(before map[string]int64) {
	b.tb.Helper()
	for table, n := range b.rows() {
		if n != before[table] {
			b.tb.Errorf("%s: %d rows, %d before", table, n, before[table])
		}
	}
}

func TestCoalescing(t *testing.T) {
	t.Parallel()
	t.Run("RG-107 RG-111 triggers of one pull request coalesce to one row with a rising generation, due at once", func(t *testing.T) {
		t.Parallel()
		b := overPostgres(t, offline(), nil)
		b.deliver("pull_request", pullRequest("opened", 7, headA, "open")).wantBody(t, true, true)
		b.exec("UPDATE evaluation SET attempts = 5, last_error = 'x', available_at = now() + interval '1 hour'")
		b.exec("UPDATE head SET evaluation_holder = 'somebody', evaluation_expires_at = now() + interval '1 hour'")
		b.deliver("pull_request_review", review("submitted", 7, headA, "open")).wantBody(t, true, true)
		b.wantInt(1, "SELECT count(*) FROM evaluation")
		b.wantInt(1, "SELECT count(*) FROM evaluation WHERE generation = 2 AND attempts = 0 AND last_error = '' AND available_at <= now() AND reason = 'pull_request_review.submitted' AND watermark_review_id = 900")
		b.wantInt(1, "SELECT count(*) FROM head WHERE evaluation_holder = '' AND evaluation_expires_at IS NULL")
	})
	t.Run("RG-035 mixed-case names coalesce on one row", func(t *testing.T) {
		t.Parallel()
		b := overPostgres(t, offline(), nil)
		for _, name := range []string{"acme/widgets", "Acme/Widgets", "ACME/WIDGETS"} {
			b.deliver("pull_request", with(pullRequest("edited", 7, headA, "open"), "repository", repository(repoID, name))).wantBody(t, true, true)
		}
		b.wantInt(1, "SELECT count(*) FROM evaluation WHERE generation = 3")
		b.wantInt(1, "SELECT count(*) FROM repository WHERE full_name = 'acme/widgets'")
		b.wantInt(1, countPulls)
	})
	t.Run("RG-108 heads have their own generation", func(t *testing.T) {
		t.Parallel()
		b := overPostgres(t, offline(), nil)
		b.deliver("pull_request", pullRequest("opened", 7, headA, "open")).wantBody(t, true, true)
		b.deliver("pull_request", pullRequest("opened", 8, headA, "open")).wantBody(t, true, true)
		b.deliver("pull_request", pullRequest("opened", 9, headB, "open")).wantBody(t, true, true)
		b.wantInt(2, "SELECT generation FROM head WHERE head_sha = $1", headA)
		b.wantInt(1, "SELECT generation FROM head WHERE head_sha = $1", headB)
		b.wantInt(1, "SELECT max(generation) FROM pull")
	})
	t.Run("RG-113 a SHA-256 head is a head of its own", func(t *testing.T) {
		t.Parallel()
		b := overPostgres(t, offline(), nil)
		b.deliver("pull_request", pullRequest("opened", 7, headSHA256, "open")).wantBody(t, true, true)
		b.deliver("pull_request", pullRequest("opened", 8, headSHA256[:40], "open")).wantBody(t, true, true)
		b.wantInt(2, "SELECT count(*) FROM head WHERE generation = 1")
	})
	t.Run("RG-114 returning to a former head advances its generation, and leaving revokes", func(t *testing.T) {
		t.Parallel()
		b := overPostgres(t, offline(), nil)
		moved := func(head, before, at string) obj {
			p := with(pullRequest("synchronize", 7, head, "open"), "before", before)
			return with(p, "pull_request.updated_at", at)
		}
		b.deliver("pull_request", pullRequest("opened", 7, headA, "open")).wantBody(t, true, true)
		b.exec("UPDATE head SET invalidated_generation = generation; UPDATE evaluation SET awaits_revocation = false")
		b.deliver("pull_request", moved(headB, headA, "2024-05-01T11:00:00Z")).wantBody(t, true, true)
		b.wantInt(1, "SELECT count(*) FROM head WHERE head_sha = $1 AND generation = 2 AND invalidated_generation = 1", headA)
		b.deliver("pull_request", moved(headA, headB, "2024-05-01T12:00:00Z")).wantBody(t, true, true)
		b.wantInt(3, "SELECT generation FROM head WHERE head_sha = $1", headA)
		b.wantInt(1, "SELECT count(*) FROM pull WHERE head_sha = $1 AND generation = 3", headA)
	})
	t.Run("RG-112 two deliveries racing to create one pull request are both kept", func(t *testing.T) {
		t.Parallel()
		b := overPostgres(t, offline(), nil)
		const rounds = 10
		for n := range rounds {
			var wg sync.WaitGroup
			for _, event := range []string{"pull_request", "pull_request_review"} {
				wg.Go(func() {
					p := review("edited", n+1, headA, "open")
					if r := b.redeliver(fmt.Sprintf("%s-%d", event, n), event, p); r.status != http.StatusAccepted {
						t.Errorf("round %d: %s is %d %s", n, event, r.status, r.text)
					}
				})
			}
			wg.Wait()
		}
		b.wantInt(2*rounds, deliveries)
		b.wantInt(rounds, "SELECT count(*) FROM pull WHERE generation = 2")
		b.wantInt(rounds, "SELECT count(*) FROM evaluation WHERE generation = 2")
		b.wantInt(2*rounds, "SELECT generation FROM head")
		b.wantInt(2*rounds, "SELECT count(DISTINCT head_generation) FROM delivery")
	})
	t.Run("RG-101 one delivery arriving twice at once is stored once", func(t *testing.T) {
		t.Parallel()
		b := overPostgres(t, offline(), nil)
		for n := range 10 {
			var wg sync.WaitGroup
			var mu sync.Mutex
			fresh := 0
			for range 3 {
				wg.Go(func() {
					r := b.redeliver(fmt.Sprintf("d%d", n), "pull_request", pullRequest("opened", 7, headA, "open")).want(t, http.StatusAccepted)
					if accepted, _ := r.body(t); accepted {
						mu.Lock()
						fresh++
						mu.Unlock()
					}
				})
			}
			wg.Wait()
			if fresh != 1 {
				t.Errorf("round %d: accepted %d times, want once", n, fresh)
			}
		}
		b.wantInt(10, deliveries)
		b.wantInt(10, "SELECT generation FROM head")
	})
}

// Rows of the map that are not opened pull requests, against the real store.
func TestMappedRows(t *testing.T) {
	t.Parallel()
	t.Run("RG-051 RG-033 a closed pull request is recorded at its exact head", func(t *testing.T) {
		t.Parallel()
		b := overPostgres(t, offline(), nil)
		b.deliver("pull_request", with(pullRequest("closed", 7, headA, "closed"), "pull_request.merged", true)).wantBody(t, true, true)
		b.wantInt(1, "SELECT count(*) FROM pull WHERE state = 'closed' AND merged")
		b.wantInt(1, "SELECT count(*) FROM head WHERE head_sha = $1 AND invalidated_generation < generation", headA)
		b.wantInt(1, "SELECT count(*) FROM evaluation WHERE reason = 'pull_request.closed'")
	})
	t.Run("RG-052 a review of a closed pull request is 202 and leaves nothing", func(t *testing.T) {
		t.Parallel()
		b := overPostgres(t, offline(), nil)
		b.deliver("pull_request_review", review("submitted", 7, headA, "closed")).wantBody(t, true, false)
		b.wantNoRows()
	})
	t.Run("RG-053 RG-054 a rerequest leaves what an opened pull request leaves, at the run's head", func(t *testing.T) {
		t.Parallel()
		b := overPostgres(t, offline(), nil)
		b.deliver("check_run", checkRun("rerequested", appID, 7)).wantBody(t, true, true)
		b.deliver("check_run", with(checkRun("requested_action", appID, 7), "requested_action", obj{"identifier": "re-evaluate"})).wantBody(t, true, true)
		b.wantInt(1, "SELECT count(*) FROM evaluation WHERE number = 7 AND head_sha = $1 AND generation = 2 AND reason = 'check_run.requested_action'", headA)
	})
	t.Run("RG-053 a rerequest does not move a pull request back", func(t *testing.T) {
		t.Parallel()
		b := overPostgres(t, offline(), nil)
		b.deliver("pull_request", pullRequest("closed", 7, headB, "closed")).wantBody(t, true, true)
		b.deliver("check_run", checkRun("rerequested", appID, 7)).wantBody(t, true, true)
		b.wantInt(1, "SELECT count(*) FROM pull WHERE head_sha = $1 AND state = 'closed' AND base_ref = 'main'", headB)
		b.wantInt(2, countHeads)
	})
	t.Run("RG-054 the button of a shared or a fork's head is the commit's, and repeats change nothing", func(t *testing.T) {
		t.Parallel()
		b := overPostgres(t, offline(), nil)
		b.deliver("pull_request", pullRequest("opened", 7, headA, "open")).wantBody(t, true, true)
		press := func(numbers ...int) obj {
			return with(checkRun("requested_action", appID, numbers...), "requested_action", obj{"identifier": "re-evaluate"})
		}
		b.deliver("check_run", press()).wantBody(t, true, true)
		b.deliver("check_run", press(7, 8)).wantBody(t, true, true)
		b.wantInt(1, "SELECT count(*) FROM evaluation WHERE number = 7 AND head_sha = $1 AND generation = 3 AND reason = 'check_run.requested_action'", headA)
		b.wantInt(3, "SELECT generation FROM head WHERE head_sha = $1", headA)
	})
	t.Run("RG-054 the button of a merge group's check evaluates the group again, until the group has ended", func(t *testing.T) {
		t.Parallel()
		b := overPostgres(t, offline(), nil)
		b.deliver("merge_group", mergeGroup("checks_requested", headA)).wantBody(t, true, true)
		b.deliver("check_run", checkRun("rerequested", appID)).wantBody(t, true, true)
		b.wantInt(2, "SELECT generation FROM merge_group WHERE head_sha = $1 AND waiting AND reason = 'check_run.rerequested'", headA)
		b.wantInt(2, "SELECT generation FROM head WHERE head_sha = $1", headA)
		b.deliver("merge_group", with(mergeGroup("destroyed", headA), "reason", "dequeued")).wantBody(t, true, true)
		b.deliver("check_run", checkRun("rerequested", appID)).wantBody(t, true, false)
	})
	t.Run("RG-055 RG-037 RG-038 RG-039 what asks for nothing is 202 and leaves nothing", func(t *testing.T) {
		t.Parallel()
		b := overPostgres(t, offline(), nil)
		b.deliver("pull_request", with(pullRequest("opened", 7, headA, "open"), "repository", orgPolicy())).wantBody(t, true, false)
		b.deliver("pull_request_review", with(review("submitted", 7, headA, "open"), "repository", orgPolicy())).wantBody(t, true, false)
		b.deliver("check_run", with(checkRun("rerequested", appID, 7), "repository", orgPolicy())).wantBody(t, true, false)
		b.deliver("check_run", checkRun("created", appID, 7)).wantBody(t, true, false)
		b.deliver("check_run", checkRun("completed", appID, 7)).wantBody(t, true, false)
		b.deliver("check_run", checkRun("rerequested", appID+1, 7)).wantBody(t, true, false)
		b.deliver("check_run", checkRun("rerequested", appID)).wantBody(t, true, false)
		b.deliver("check_run", checkRun("rerequested", appID, 7, 8)).wantBody(t, true, false)
		b.wantNoRows()
	})
	t.Run("RG-033 a direct trigger with a malformed head leaves no partial row", func(t *testing.T) {
		t.Parallel()
		b := overPostgres(t, offline(), nil)
		b.deliver("pull_request", pullRequest("opened", 7, strings.ToUpper(headA), "open")).want(t, http.StatusBadRequest)
		b.deliver("check_run", with(checkRun("rerequested", appID, 7), "check_run.head_sha", headA[1:])).want(t, http.StatusBadRequest)
		b.wantNoRows()
	})
	t.Run("wrong signature, oversized body, no JSON, unknown event, malformed id: no row", func(t *testing.T) {
		t.Parallel()
		b := overPostgres(t, offline(), nil)
		whole := encode(t, pullRequest("opened", 7, headA, "open"))
		b.post("d1", "pull_request", whole, func(r *http.Request) { r.Header.Set("X-Hub-Signature-256", sign("x", whole)) }).want(t, http.StatusUnauthorized)
		b.post("d2", "pull_request", make([]byte, MaxBody+1), nil).want(t, http.StatusRequestEntityTooLarge)
		b.post("d3", "pull_request", []byte("no"), nil).want(t, http.StatusBadRequest)
		b.post("d4", "unheard_of", whole, nil).want(t, http.StatusAccepted)
		b.post("no id", "pull_request", whole, nil).want(t, http.StatusBadRequest)
		b.deliver("pull_request", with(pullRequest("opened", 7, headA, "open"), "installation.id", "77")).want(t, http.StatusBadRequest)
		b.wantNoRows()
		if n := len(b.log.lines(t)); n != 6 {
			t.Errorf("%d log lines for 6 requests", n)
		}
	})
}

func TestAuthorityRows(t *testing.T) {
	t.Parallel()
	authority := "SELECT count(*) FROM authority WHERE scope = $1 AND repository_id = $2 AND base_ref = $3 AND reason = $4 AND generation = $5"
	for _, row := range []struct {
		name, event string
		payload     obj
		scope, base string
		repo        int64
		reason      string
		epoch       int64
	}{
		{name: "RG-070 a push", event: "push", payload: push(target(), "refs/heads/main"), scope: "base", base: "main", repo: repoID, reason: "push", epoch: 1},
		{name: "RG-072 a push of the organization's policy", event: "push", scope: "installation", reason: "push", epoch: 2,
			payload: with(push(orgPolicy(), "refs/heads/main"), "commits", []obj{{"added": []string{}, "modified": []string{".github/countersign.toml"}, "removed": []string{}}})},
		{name: "RG-076 a label", event: "label", payload: base("deleted", target()), scope: "repository", repo: repoID, reason: "label.deleted", epoch: 1},
		{name: "RG-076 a member", event: "member", payload: base("removed", target()), scope: "repository", repo: repoID, reason: "member.removed", epoch: 1},
		{name: "RG-077 a membership", event: "membership", payload: base("removed", nil), scope: "installation", reason: "membership.removed", epoch: 2},
		{name: "RG-079 a rename", event: "repository", scope: "installation", reason: "repository.renamed", epoch: 2,
			payload: with(base("renamed", target()), "changes", obj{"repository": obj{"name": obj{"from": "gadgets"}}})},
		{name: "RG-081 an installation", event: "installation", payload: base("created", nil), scope: "installation", reason: "installation.created", epoch: 2},
		{name: "RG-082 repositories added", event: "installation_repositories", payload: base("added", nil), scope: "installation", reason: "installation_repositories.added", epoch: 2},
		{name: "RG-083 the policy repository removed", event: "installation_repositories", scope: "installation", reason: "installation_repositories.removed", epoch: 2,
			payload: removed([]any{obj{"id": orgRepoID, "full_name": "acme/.github"}})},
		{name: "RG-084 an unreadable removal", event: "installation_repositories", payload: removed([]any{nil}), scope: "installation", reason: "installation_repositories.removed", epoch: 2},
		{name: "RG-086 the owner renamed", event: "installation_target", payload: base("renamed", nil), scope: "installation", reason: "installation_target.renamed", epoch: 2},
	} {
		t.Run(row.name+" leaves one authority row, and an epoch only when it is installation-wide", func(t *testing.T) {
			t.Parallel()
			b := overPostgres(t, offline(), nil)
			b.exec(fmt.Sprintf("INSERT INTO installation (installation_id) VALUES (%d)", installedAs))
			b.redeliver("d1", row.event, row.payload).wantBody(t, true, true)
			b.wantInt(1, "SELECT count(*) FROM authority")
			b.wantInt(1, authority, row.scope, row.repo, row.base, row.reason, 1)
			b.wantInt(row.epoch, "SELECT authority_epoch FROM installation WHERE installation_id = $1", installedAs)
			b.wantInt(row.epoch, "SELECT epoch FROM authority")
			b.wantInt(1, "SELECT count(*) FROM delivery WHERE delivery_id = 'd1' AND scope = $1 AND head_sha = ''", row.scope)
			b.wantInt(0, "SELECT (SELECT count(*) FROM pull) + (SELECT count(*) FROM head) + (SELECT count(*) FROM evaluation)")
			// A second delivery coalesces; a redelivery of the first changes nothing.
			b.redeliver("d2", row.event, row.payload).wantBody(t, true, true)
			b.redeliver("d1", row.event, row.payload).wantBody(t, false, false)
			b.wantInt(1, authority, row.scope, row.repo, row.base, row.reason, 2)
			b.wantInt(2*row.epoch-1, "SELECT authority_epoch FROM installation WHERE installation_id = $1", installedAs)
		})
	}
	t.Run("RG-071 RG-073 RG-075 RG-080 RG-085 what asks for nothing is 202 and leaves nothing", func(t *testing.T) {
		t.Parallel()
		b := overPostgres(t, offline(), nil)
		for event, payloads := range map[string][]obj{
			"push":                      {push(target(), "refs/tags/v1"), with(push(target(), "refs/heads/main"), "deleted", true), push(orgPolicy(), "refs/heads/main"), push(orgPolicy(), "refs/heads/x")},
			"repository":                {base("archived", target()), base("publicized", target()), base("deleted", target())},
			"installation":              {base("deleted", nil), base("suspend", nil)},
			"installation_repositories": {removed([]any{obj{"id": repoID, "full_name": "acme/widgets"}})},
			"installation_target":       {base("other", nil)},
		} {
			for _, p := range payloads {
				b.deliver(event, p).wantBody(t, true, false)
			}
		}
		b.wantNoRows()
	})
	t.Run("RG-166 a repository's and a branch's events leave the epoch alone", func(t *testing.T) {
		t.Parallel()
		b := overPostgres(t, offline(), nil)
		b.deliver("label", base("created", target())).wantBody(t, true, true)
		b.deliver("push", push(target(), "refs/heads/main")).wantBody(t, true, true)
		b.wantInt(1, "SELECT authority_epoch FROM installation")
		b.deliver("team", base("edited", nil)).wantBody(t, true, true)
		b.wantInt(2, "SELECT authority_epoch FROM installation")
	})
}
