package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/policy"
)

// fakePeople is an organisation: web has bob, who may write; everything else is not there.
type fakePeople struct{ asked []string }

var errGone = ghclient.ErrNotFound

func (f *fakePeople) TeamsFor(_ context.Context, org string, slugs []string, _ ghclient.Repo) (map[string]ghclient.TeamFacts, error) {
	f.asked = append(f.asked, org+"/"+slugs[0])
	if slugs[0] != "web" {
		return map[string]ghclient.TeamFacts{}, nil
	}
	return map[string]ghclient.TeamFacts{"web": {Team: ghclient.Team{ID: 3, Slug: "web", Privacy: "closed"}, Found: true, Permission: "push"}}, nil
}

func (f *fakePeople) TeamMembership(_ context.Context, _, slug, login string) (string, string, error) {
	if slug == "web" && login == "bob" {
		return ghclient.MembershipActive, "member", nil
	}
	return "", "", errGone
}

func (f *fakePeople) TeamMembers(context.Context, string, string) ([]ghclient.Actor, error) {
	return nil, errGone
}

func (f *fakePeople) User(_ context.Context, login string) (ghclient.Actor, error) {
	if login == "bob" {
		return ghclient.Actor{ID: 8, Login: "bob", Type: "User"}, nil
	}
	return ghclient.Actor{}, errGone
}

func (f *fakePeople) UserPermission(context.Context, ghclient.Repo, string) (string, error) {
	return "write", nil
}

func TestFillFacts(t *testing.T) {
	t.Parallel()
	approved := func(codeowners string) policy.Snapshot {
		s := testSnapshot(codeowners, "a.go")
		s.Pulls[0].Reviews.Items = []policy.Review{{ID: 1, State: "APPROVED", Author: &policy.Actor{ID: 8, Login: "bob", Type: "User"}, CommitID: testHead, SubmittedAt: s.Now.Add(-time.Minute)}}
		return s
	}
	for name, row := range map[string]struct {
		codeowners string
		approved   bool
	}{
		"a team that the evidence did not know":       {"* @acme/web\n", true},
		"a person that the evidence did not know":     {"* @bob\n", true},
		"a team that is not there grants nothing":     {"* @acme/other\n", false},
		"a person who did not approve grants nothing": {"* @carol\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := approved(row.codeowners)
			if policy.Evaluate(s).Conclusion.Approved() {
				t.Fatal("approved without the facts")
			}
			filled, err := fillFacts(t.Context(), &fakePeople{}, s)
			if err != nil {
				t.Fatal(err)
			}
			if got := policy.Evaluate(filled).Conclusion.Approved(); got != row.approved || !policy.Needs(filled).Empty() {
				t.Errorf("approved %v, still asks for %+v", got, policy.Needs(filled))
			}
			if len(s.Teams)+len(s.Users)+len(s.Memberships) != 0 {
				t.Error("the recorded evidence was changed")
			}
		})
	}
	t.Run("a refusal of GitHub's is an error, never an answer", func(t *testing.T) {
		t.Parallel()
		if _, err := fillFacts(t.Context(), refusing{}, approved("* @acme/web\n")); !errors.Is(err, errRefused) {
			t.Errorf("%v", err)
		}
	})
}

var errRefused = errors.New("refused")

// refusing answers nothing.
type refusing struct{ fakePeople }

func (refusing) TeamsFor(context.Context, string, []string, ghclient.Repo) (map[string]ghclient.TeamFacts, error) {
	return nil, errRefused
}
func (refusing) TeamMembership(context.Context, string, string, string) (string, string, error) {
	return "", "", errRefused
}
func (refusing) TeamMembers(context.Context, string, string) ([]ghclient.Actor, error) {
	return nil, errRefused
}
func (refusing) User(context.Context, string) (ghclient.Actor, error) {
	return ghclient.Actor{}, errRefused
}
func (refusing) UserPermission(context.Context, ghclient.Repo, string) (string, error) {
	return "", errRefused
}
