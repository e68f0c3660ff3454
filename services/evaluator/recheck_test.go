package evaluator

import "testing"

func TestRecheckAcrossABasePush(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, path, text string
		generation       int64
	}{
		{"P15 P5 a base branch that only moved is no difference to a recheck: nothing is published again", "notes.txt", "moved\n", 1},
		{"P15 P5 a base branch with other rules is one", "notes.txt", "moved\n", 2},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			n := b.approved()
			key := b.ready(n)
			b.step(t)
			if _, err := b.Sim.PushBase(b.World.Repository, "main", "alice", map[string]string{row.path: row.text}); err != nil {
				t.Fatal(err)
			}
			if row.generation == 2 {
				if _, err := b.Sim.PushBase(b.World.Repository, "main", "alice", map[string]string{".github/CODEOWNERS": "# changed\n* @acme/core\n"}); err != nil {
					t.Fatal(err)
				}
			}
			b.Sim.ResetRequests()
			b.Now()
			b.step(t)
			if got := int64(b.Head(key).Generation); got != row.generation {
				t.Errorf("the head is at generation %d, want %d", got, row.generation)
			}
			if row.generation == 1 && (b.Writes() != 0 || b.DB.QueryInt("SELECT count(*) FROM evaluation") != 0) {
				t.Errorf("%d writes, and work is left", b.Writes())
			}
		})
	}
}
