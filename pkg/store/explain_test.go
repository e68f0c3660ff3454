package store_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/store/storetest"
)

func (b *bundle) decided(t *testing.T, number int, head store.SHA, state store.State, owners ...string) store.DecisionID {
	t.Helper()
	d := decision(int64(500 + number))
	d.Number, d.Conclusion = number, "failure"
	if state == store.StateApproved {
		d.Conclusion = "success"
	}
	st := store.Standing{Number: number, State: state, NextStep: "step of " + fmt.Sprint(number)}
	for _, o := range owners {
		st.Waiting = append(st.Waiting, store.WaitingOwner{Owner: o, Files: 1})
	}
	d.Standings = []store.Standing{st}
	b.accept(t, store.DeliveryID(fmt.Sprintf("d%d-%s-%d", number, head[:4], time.Now().UnixNano())), direct(number, head))
	return b.publishDecision(t, d)
}

func numbersOf(lines []store.PullLine) []int {
	var n []int
	for _, l := range lines {
		n = append(n, l.Key.Number)
	}
	return n
}

func TestListOpen(t *testing.T) {
	t.Parallel()
	b := setup(t)
	reader := b.db.Store(storetest.Reader)
	b.decided(t, 1, sha(1), store.StateMissing, "@acme/core", "@acme/web")
	b.decided(t, 2, sha(2), store.StateApproved)
	b.decided(t, 3, sha(3), store.StateBlocked)
	b.accept(t, "undecided", direct(4, sha(4)))
	for n := range 4 {
		b.db.Exec("UPDATE pull SET updated_at = now() - make_interval(hours => $1) WHERE number = $2", n, n+1)
		b.db.Exec("UPDATE standing SET since = now() - make_interval(days => $1) WHERE number = $2", n+1, n+1)
	}
	list := func(t *testing.T, f store.PullFilter) []store.PullLine {
		t.Helper()
		lines, err := reader.ListOpen(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		return lines
	}
	rows := map[string]struct {
		filter store.PullFilter
		want   []int
	}{
		"everything, the newest first":  {store.PullFilter{}, []int{1, 2, 3, 4}},
		"the oldest standing first":     {store.PullFilter{Order: store.OrderOldest}, []int{3, 2, 1, 4}},
		"by owner, whatever its case":   {store.PullFilter{Owner: "@Acme/Core"}, []int{1}},
		"by an owner nobody waits for":  {store.PullFilter{Owner: "@acme/ops"}, nil},
		"by state":                      {store.PullFilter{States: []store.State{store.StateApproved, store.StateEvaluating}}, []int{2, 4}},
		"by age":                        {store.PullFilter{OlderThan: 36 * time.Hour}, []int{2, 3}},
		"by repository":                 {store.PullFilter{FullName: "Acme/API"}, []int{1, 2, 3, 4}},
		"by account":                    {store.PullFilter{FullName: "acme/"}, []int{1, 2, 3, 4}},
		"by another repository":         {store.PullFilter{FullName: "acme/ap"}, nil},
		"by installation":               {store.PullFilter{Installation: 2}, nil},
		"only what the reader may see":  {store.PullFilter{Only: []store.RepositoryID{10}}, []int{1, 2, 3, 4}},
		"nothing that it may not see":   {store.PullFilter{Only: []store.RepositoryID{}}, nil},
		"nothing of other repositories": {store.PullFilter{Only: []store.RepositoryID{11}}, nil},
	}
	for name, r := range rows {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(r.want, numbersOf(list(t, r.filter))); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("a line says how it stands and whom it waits for", func(t *testing.T) {
		l := list(t, store.PullFilter{})[0]
		if l.State != store.StateMissing || l.NextStep != "step of 1" || l.Conclusion != "failure" || !cmp.Equal(l.Waiting, []string{"@acme/core", "@acme/web"}) {
			t.Errorf("%+v", l)
		}
	})
	for _, order := range []store.PullOrder{store.OrderRecent, store.OrderOldest} {
		t.Run("pages in order "+string(order)+" hold every line once", func(t *testing.T) {
			want := numbersOf(list(t, store.PullFilter{Order: order}))
			var got []int
			var after *store.PullLine
			for range want {
				page := list(t, store.PullFilter{Order: order, After: after, Limit: 1})
				if len(page) != 1 {
					t.Fatalf("%d lines", len(page))
				}
				got, after = append(got, page[0].Key.Number), &page[0]
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			if page := list(t, store.PullFilter{Order: order, After: after}); len(page) != 0 {
				t.Errorf("%d lines behind the last", len(page))
			}
		})
	}
	t.Run("a closed pull request is not listed", func(t *testing.T) {
		w := direct(2, sha(2))
		w.State = "closed"
		b.accept(t, "closed", w)
		if got := numbersOf(list(t, store.PullFilter{FullName: "acme/api", States: []store.State{store.StateApproved, store.StateRevoking}})); len(got) != 0 {
			t.Errorf("%v", got)
		}
	})
}

func TestStandings(t *testing.T) {
	t.Parallel()
	t.Run("a decision that is revoked counts no more", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		reader := b.db.Store(storetest.Reader)
		b.decided(t, 7, headA, store.StateApproved)
		key := store.PullKey{Installation: 1, Repository: 10, Number: 7}
		if d, err := reader.CurrentDecision(t.Context(), key); err != nil || d.Number != 7 {
			t.Fatalf("%+v, %v", d, err)
		}
		b.accept(t, "again", direct(7, headA))
		p, err := reader.ReadPull(t.Context(), key)
		if err != nil || p.State != store.StateRevoking || p.Decision != 0 || p.NextStep != "" {
			t.Errorf("%+v, %v", p.PullLine, err)
		}
		if _, err := reader.CurrentDecision(t.Context(), key); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%v", err)
		}
	})
	t.Run("since stays while the state and the owner do", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		b.decided(t, 7, headA, store.StateMissing, "@acme/core", "@acme/web")
		b.db.Exec("UPDATE standing SET since = now() - interval '2 days'")
		b.db.Exec("UPDATE waiting SET since = now() - interval '2 days'")
		b.decided(t, 7, headA, store.StateMissing, "@acme/core", "@acme/ops")
		if n := b.db.QueryInt("SELECT count(*) FROM standing WHERE since < now() - interval '1 day'"); n != 1 {
			t.Errorf("the state's beginning was lost: %d", n)
		}
		if got := b.db.QueryText("SELECT string_agg(owner || (since < now() - interval '1 day')::text, ' ' ORDER BY owner) FROM waiting"); got != "@acme/coretrue @acme/opsfalse" {
			t.Errorf("%s", got)
		}
		b.decided(t, 7, headA, store.StateApproved)
		if n := b.db.QueryInt("SELECT (SELECT count(*) FROM waiting) + (SELECT count(*) FROM standing WHERE since < now() - interval '1 day')"); n != 0 {
			t.Errorf("%d rows of what is over", n)
		}
	})
	t.Run("owners are bounded, doubled and empty ones left out", func(t *testing.T) {
		t.Parallel()
		b := setup(t)
		owners := []string{"", "@a", "@a", strings.Repeat("x", 60_000)}
		for n := range 400 {
			owners = append(owners, fmt.Sprintf("@acme/team-%d", n))
		}
		b.decided(t, 7, headA, store.StateMissing, owners...)
		if n := b.db.QueryInt("SELECT count(*) FROM waiting"); n != 200 {
			t.Errorf("%d owners", n)
		}
	})
}

func TestListOwners(t *testing.T) {
	t.Parallel()
	b := setup(t)
	reader := b.db.Store(storetest.Reader)
	b.decided(t, 1, sha(1), store.StateMissing, "@acme/core", "@acme/web")
	b.decided(t, 2, sha(2), store.StateMissing, "@acme/core")
	b.db.Exec("UPDATE waiting SET since = now() - interval '3 days', problem = 'team_empty' WHERE number = 2")
	b.db.Exec("UPDATE waiting SET since = now() - interval '1 day' WHERE owner = '@acme/web'")
	list, err := reader.ListOwners(t.Context(), nil, nil, 0)
	if err != nil || len(list) != 2 || list[0].Owner != "@acme/core" || list[0].Pulls != 2 || !cmp.Equal(list[0].Problems, []string{"team_empty"}) {
		t.Fatalf("%+v, %v", list, err)
	}
	if rest, err := reader.ListOwners(t.Context(), nil, &list[0], 0); err != nil || len(rest) != 1 || rest[0].Owner != "@acme/web" {
		t.Errorf("%+v, %v", rest, err)
	}
	if none, err := reader.ListOwners(t.Context(), []store.RepositoryID{11}, nil, 0); err != nil || len(none) != 0 {
		t.Errorf("%+v, %v", none, err)
	}
}

func TestReadPull(t *testing.T) {
	t.Parallel()
	b := setup(t)
	reader := b.db.Store(storetest.Reader)
	first := b.decided(t, 7, headA, store.StateMissing, "@acme/core")
	key, err := reader.FindPull(t.Context(), "Acme/API", 7)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := reader.FindPull(t.Context(), "acme/api", 8); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("%v", err)
	}
	if r, err := reader.FindRepository(t.Context(), "ACME/api"); err != nil || r.Repository != 10 || r.Gone {
		t.Errorf("%+v, %v", r, err)
	}
	b.accept(t, "again", direct(7, headA))
	b.db.Exec("UPDATE installation SET paused_until = now() + interval '1 hour', pause_reason = 'primary', held_at = now(), held_by = 'octo', held_reason = 'release'")
	b.db.Exec("UPDATE head SET invalidation_available_at = 'infinity'")
	b.db.Exec("INSERT INTO authority (installation_id, scope, repository_id, base_ref, epoch, reason) VALUES (1, 'base', 10, 'main', 1, 'push'), (1, 'base', 10, 'other', 1, 'push')")
	p, err := reader.ReadPull(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	var queues []string
	for _, i := range p.Work.Items {
		queues = append(queues, i.Queue)
	}
	if diff := cmp.Diff([]string{"revocation", "authority", "evaluation"}, queues); diff != "" {
		t.Error(diff)
	}
	if i := p.Work.Items[0]; !i.Parked || !i.AvailableAt.IsZero() {
		t.Errorf("%+v", i)
	}
	pause := p.Work.Pause
	if !p.Open || !pause.Any() || pause.Until.Before(p.Work.Now) || pause.HeldBy != "octo" || pause.Account != "acme" || p.Work.Fence.Generation != p.Work.Fence.Invalidated+1 {
		t.Errorf("%+v", p.Work)
	}
	history, err := reader.ListPullDecisions(t.Context(), key, headA, 0, 0)
	if err != nil || len(history) != 1 || history[0].ID != first {
		t.Errorf("%+v, %v", history, err)
	}
	leases, err := reader.ListLeases(t.Context(), 0)
	if err != nil || len(leases) != 0 {
		t.Errorf("%+v, %v", leases, err)
	}
	installations, err := reader.ListInstallations(t.Context(), 0)
	if err != nil || len(installations) != 1 || installations[0].HeldReason != "release" || installations[0].Open != 1 {
		t.Errorf("%+v, %v", installations, err)
	}
	lines, err := reader.ListDecisionLines(t.Context(), store.DecisionFilter{Installation: 1, Repository: 10, Number: 7, Outcome: "confirmed", Since: time.Unix(0, 0)})
	if err != nil || len(lines) != 1 {
		t.Errorf("%+v, %v", lines, err)
	}
	b.db.Exec("DELETE FROM authority")
	b.db.Exec("UPDATE head SET invalidation_available_at = now()")
}
