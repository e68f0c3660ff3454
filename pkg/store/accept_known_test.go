package store_test

import (
	"testing"

	"github.com/countersign/countersign/pkg/store"
)

func TestAcceptKnownPull(t *testing.T) {
	t.Parallel()
	b := setup(t)
	comment := store.DirectWork{Installation: 1, Repository: 10, FullName: "acme/api", Number: 7, Reason: "issue_comment.created"}
	d := store.Delivery{ID: "c1", Event: "issue_comment", Action: "created"}
	if _, known, err := b.ingress.AcceptKnownPull(t.Context(), d, comment); known || err != nil {
		t.Fatalf("a pull request never seen: known %v, %v", known, err)
	}
	if n := b.db.QueryInt("SELECT count(*) FROM delivery"); n != 0 {
		t.Fatal("a delivery about nothing was retained")
	}
	b.accept(t, "d1", direct(7, headA))
	a, known, err := b.ingress.AcceptKnownPull(t.Context(), d, comment)
	if err != nil || !known || !a.New || a.Head.SHA != headA || a.HeadGeneration != 2 {
		t.Fatalf("acceptance %+v, %v", a, err)
	}
	b.accept(t, "d2", direct(7, headB)) // the pull request moves on
	again, _, err := b.ingress.AcceptKnownPull(t.Context(), d, comment)
	if err != nil || again.New || again.HeadGeneration != 2 || again.Head.SHA != headA {
		t.Errorf("redelivery %+v, %v", again, err)
	}
	comment.Number = 8
	_, _, err = b.ingress.AcceptKnownPull(t.Context(), d, comment)
	wantErr(t, err, store.ErrDeliveryConflict)
}
