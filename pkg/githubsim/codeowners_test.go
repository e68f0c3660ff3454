package githubsim_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/countersign/countersign/pkg/githubsim"
)

func TestCodeownersErrors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text string
		want []string // "line:column kind suggestion"
	}{
		"none for a good file":             {"# comment\n\n* @acme/core # tail\n/docs/ @acme/docs carol@acme.example\n/none/\n", nil},
		"a negated pattern":                {"!x @acme/core\n", []string{"1:1 Invalid pattern "}},
		"unescaped brackets":               {"\n a[b] @acme/core\n", []string{"2:2 Invalid pattern both `[` and `]` must be escaped with a `\\`"}},
		"escaped brackets are fine":        {`a\[b\] @acme/core`, nil},
		"three stars":                      {"***/x @acme/core\n", []string{"1:1 Invalid pattern Did you mean `**/x`?"}},
		"a malformed owner ends the line":  {"*.md docs@ @nobody\n", []string{"1:6 Invalid owner "}},
		"an unknown user":                  {"* @nobody\n", []string{"1:3 Unknown owner make sure @nobody exists and has write access to the repository"}},
		"a user who may only read":         {"* @reader @acme/core\n", []string{"1:3 Unknown owner make sure @reader exists and has write access to the repository"}},
		"a team that is not there":         {"* @acme/none\n", []string{"1:3 Unknown owner make sure the team @acme/none exists, is publicly visible, and has write access to the repository"}},
		"a secret team":                    {"* @acme/shadow\n", []string{"1:3 Unknown owner make sure the team @acme/shadow exists, is publicly visible, and has write access to the repository"}},
		"a team of another organisation":   {"* @octo-org/core\n", []string{"1:3 Unknown owner make sure the team @octo-org/core exists, is publicly visible, and has write access to the repository"}},
		"columns count characters":         {"ä/ö  @nobody\n", []string{"1:6 Unknown owner make sure @nobody exists and has write access to the repository"}},
		"an escaped blank belongs to path": {`a\ b @nobody`, []string{"1:6 Unknown owner make sure @nobody exists and has write access to the repository"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.sim.AddOrg("octo-org")
			w.sim.AddTeam(githubsim.Team{Org: "octo-org", Slug: "core"})
			w.sim.AddTeam(githubsim.Team{Org: "acme", Slug: "shadow", Privacy: "secret", Repos: map[string]string{"widgets": "push"}})
			w.do(w.sim.SetCollaborator(repoName, "reader", "pull"))
			_, err := w.sim.PushBase(repoName, "main", "alice", map[string]string{".github/CODEOWNERS": c.text})
			w.do(err)
			r := w.get("/repos/acme/widgets/codeowners/errors?ref=main", w.token()).want(200)
			var got []string
			for i := range len(r.at("errors").([]any)) { //nolint:forcetypeassert // a test
				suggestion := ""
				if s := r.at("errors", i, "suggestion"); s != nil {
					suggestion = fmt.Sprint(s)
				}
				got = append(got, fmt.Sprintf("%s:%s %s %s", r.str("errors", i, "line"), r.str("errors", i, "column"), r.str("errors", i, "kind"), suggestion))
				if r.str("errors", i, "path") != ".github/CODEOWNERS" || !strings.Contains(r.str("errors", i, "message"), "^") {
					t.Errorf("error %v", r.at("errors", i))
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhichCodeownersFileCounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	token := w.token()
	bad := "!x @acme/core\n"
	path := func() string {
		r := w.get("/repos/acme/widgets/codeowners/errors", token)
		if r.status != 200 || len(r.at("errors").([]any)) == 0 { //nolint:forcetypeassert // a test
			return fmt.Sprint(r.status)
		}
		return r.str("errors", 0, "path")
	}
	for _, step := range []struct {
		change map[string]string
		want   string
	}{
		{map[string]string{".github/CODEOWNERS": bad, "CODEOWNERS": bad, "docs/CODEOWNERS": bad}, ".github/CODEOWNERS"},
		{map[string]string{".github/CODEOWNERS": githubsim.Deleted}, "CODEOWNERS"},
		{map[string]string{"CODEOWNERS": githubsim.Deleted}, "docs/CODEOWNERS"},
		{map[string]string{"docs/CODEOWNERS": githubsim.Deleted}, "404"},
		{map[string]string{"CODEOWNERS": bad + strings.Repeat("#\n", 3<<19)}, "404"}, // above 3 MB it is not loaded at all
	} {
		_, err := w.sim.PushBase(repoName, "main", "alice", step.change)
		w.do(err)
		if got := path(); got != step.want {
			t.Errorf("after %v keys: %s, want %s", len(step.change), got, step.want)
		}
	}
}
