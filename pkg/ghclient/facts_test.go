package ghclient

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/countersign/countersign/pkg/githubsim"
)

func TestLastPush(t *testing.T) {
	t.Parallel()
	entry := func(actor, after, at string) string {
		return fmt.Sprintf(`{"id":1,"ref":"refs/heads/topic","before":%q,"after":%q,"timestamp":%q,"activity_type":"push","actor":%s}`, shaB, after, at, actor)
	}
	const alice, bob = `{"id":5,"login":"alice","type":"User"}`, `{"id":6,"login":"bob","type":"User"}`
	for _, tt := range []struct {
		name  string
		items []string
		want  string
		err   error
	}{
		{"the newest push of this head", []string{entry(alice, shaA, "2026-01-02T03:00:00Z"), entry(bob, shaA, "2026-01-01T03:00:00Z")}, "alice", nil},
		{"whatever the order", []string{entry(bob, shaA, "2026-01-01T03:00:00Z"), entry(alice, shaA, "2026-01-02T03:00:00Z")}, "alice", nil},
		{"not a push of another head", []string{entry(bob, shaB, "2026-01-03T03:00:00Z"), entry(alice, shaA, "2026-01-02T03:00:00Z")}, "alice", nil},
		{"a deleted account", []string{entry("null", shaA, "2026-01-02T03:00:00Z")}, "", nil},
		{"no such push", []string{entry(bob, shaB, "2026-01-03T03:00:00Z")}, "", ErrNotFound},
		{"a malformed entry", []string{entry(alice, shaA, "yesterday")}, "", ErrMalformed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newScript(t)
			s.answers("GET /repos/acme/shop/activity", 200, "["+strings.Join(tt.items, ",")+"]")
			got, err := s.client().LastPush(t.Context(), Pull{HeadSHA: shaA, HeadRef: "topic", HeadRepo: acme})
			if !errors.Is(err, tt.err) || got.Actor.Login != tt.want {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
	t.Run("a deleted fork", func(t *testing.T) {
		t.Parallel()
		if _, err := newScript(t).client().LastPush(t.Context(), Pull{HeadSHA: shaA, HeadRef: "topic"}); !errors.Is(err, ErrNotFound) {
			t.Errorf("got %v", err)
		}
	})
}

func TestBaseChange(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, nodes string
		changed     bool
		err         error
	}{
		{"never", `[]`, false, nil},
		{"once", `[{"__typename":"BaseRefChangedEvent","createdAt":"2026-01-02T03:04:05Z"}]`, true, nil},
		{"without a time", `[{"__typename":"BaseRefChangedEvent"}]`, false, ErrMalformed},
		{"no list", `null`, false, ErrMalformed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newScript(t)
			s.answers("POST /graphql", 200, fmt.Sprintf(`{"data":{"repository":{"databaseId":101,"pullRequest":{"number":3,"timelineItems":{"nodes":%s}}}}}`, tt.nodes))
			at, changed, err := s.client().BaseChange(t.Context(), acme, 3)
			if !errors.Is(err, tt.err) || changed != tt.changed || changed == at.IsZero() {
				t.Errorf("got %v, %v, %v", at, changed, err)
			}
		})
	}
}

func TestComments(t *testing.T) {
	t.Parallel()
	s := newScript(t)
	s.answers("GET /repos/acme/shop/issues/3/comments", 200, `[{"id":1,"user":{"id":5,"login":"alice","type":"User"},"body":"/countersign release","created_at":"2026-01-02T03:04:05Z","updated_at":"2026-01-02T03:04:06Z"},
		{"id":2,"user":null,"body":"","created_at":"2026-01-02T03:04:07Z","updated_at":"2026-01-02T03:04:07Z"}]`)
	got, err := s.client().Comments(t.Context(), acme, 3)
	if err != nil || len(got) != 2 || got[0].Author.Login != "alice" || !got[0].UpdatedAt.After(got[0].CreatedAt) || got[1].Author != (Actor{}) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestChangedContent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	n := w.pull(githubsim.Pull{Files: map[string]string{"src/main.go": "package main\n", "README.md": githubsim.Deleted, "run": githubsim.Executable("x")}})
	first, err := w.client.PullState(t.Context(), w.repo, n)
	w.do(err)
	_, err = w.sim.Push(w.ex.Repository, n, "dave", map[string]string{"docs/index.md": "# New\n"})
	w.do(err)
	second, err := w.client.PullState(t.Context(), w.repo, n)
	w.do(err)
	describe := func(head string) (lines []string) {
		changes, err := w.client.ChangedContent(t.Context(), w.repo, second.BaseTip, head)
		w.do(err)
		for _, c := range changes {
			side := func(b *Blob) string {
				if b == nil {
					return "-"
				}
				return b.Mode
			}
			lines = append(lines, c.Path+" "+side(c.Before)+" "+side(c.After))
		}
		return lines
	}
	old := []string{"README.md 100644 -", "run - 100755", "src/main.go 100644 100644"}
	if diff := cmp.Diff(old, describe(first.HeadSHA)); diff != "" {
		t.Errorf("the head that was left: %s", diff)
	}
	if diff := cmp.Diff([]string{"README.md 100644 -", "docs/index.md 100644 100644", "run - 100755", "src/main.go 100644 100644"}, describe(second.HeadSHA)); diff != "" {
		t.Errorf("the present head: %s", diff)
	}
	if _, err := w.client.ChangedContent(t.Context(), w.repo, second.BaseTip, shaA); !errors.Is(err, ErrNotFound) {
		t.Errorf("no such commit: %v", err)
	}
}
