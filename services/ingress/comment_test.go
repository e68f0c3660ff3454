package ingress

import (
	"testing"

	"github.com/countersign/countersign/pkg/store"
)

// comment is an issue_comment payload on pull request 7.
func comment(action, body string) obj {
	return obj{
		"action": action, "installation": obj{"id": installedAs}, "repository": target(),
		"issue":   obj{"number": 7, "state": "open", "pull_request": obj{}},
		"comment": obj{"id": 9, "body": body, "user": obj{"id": 5, "login": "alice", "type": "User"}, "updated_at": "2026-01-02T03:04:06Z"},
	}
}

func TestBreakGlassComments(t *testing.T) {
	t.Parallel()
	b := overPostgres(t, offline(), nil)
	const command = "/countersign break-glass head=x until=y reason=the login page is down"
	b.deliver("issue_comment", comment("created", command)).wantBody(t, true, false) // never seen: nothing to revoke
	if n := b.db.QueryInt("SELECT count(*) FROM delivery"); n != 0 {
		t.Fatalf("%d deliveries about a pull request never seen", n)
	}
	_, err := b.db.Store("countersign_ingress").AcceptDirect(t.Context(), store.Delivery{ID: "seen", Event: "pull_request", Action: "opened"}, store.DirectWork{
		Installation: installedAs, Repository: repoID, FullName: "acme/api", Number: 7, Head: headA, State: "open", Reason: "pull_request.opened",
	})
	if err != nil {
		t.Fatal(err)
	}
	generation := func() int64 { return b.db.QueryInt("SELECT generation FROM head WHERE head_sha = $1", headA) }
	for i, action := range []string{"created", "edited", "deleted"} {
		b.deliver("issue_comment", comment(action, command)).wantBody(t, true, true)
		if got := generation(); got != int64(i+2) {
			t.Errorf("%s: head generation %d, want the success revoked", action, got)
		}
	}
	b.deliver("issue_comment", comment("created", "looks good to me")).wantBody(t, true, false)
	if got := generation(); got != 4 {
		t.Errorf("an ordinary comment revoked: generation %d", got)
	}
}
