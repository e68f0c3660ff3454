package policy

import (
	_ "embed"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

//go:embed testdata/codeowners/cases.json
var codeownersCasesJSON []byte

// codeownersCase is one row of testdata/codeowners/cases.json. The other keys of
// a row say where it comes from and who disagrees.
type codeownersCase struct {
	ID         string   `json:"id"`
	Category   string   `json:"category"`
	Confidence string   `json:"confidence"`
	Codeowners string   `json:"codeowners"`
	Path       string   `json:"path"`
	Owners     []string `json:"owners"`
	Note       string   `json:"note"`
}

func loadCodeownersCases(t testing.TB) []codeownersCase {
	t.Helper()
	var cases []codeownersCase
	if err := json.Unmarshal(codeownersCasesJSON, &cases); err != nil {
		t.Fatalf("read testdata/codeowners/cases.json: %v", err)
	}
	return cases
}

// TestCodeownersCases holds the parser and the matcher to the shared table. Rows
// that nobody could settle are reported, not required.
func TestCodeownersCases(t *testing.T) {
	t.Parallel()
	unsettled, agreed := 0, 0
	for _, c := range loadCodeownersCases(t) {
		got := []string{}
		for _, owner := range ParseCodeowners("CODEOWNERS", []byte(c.Codeowners)).Match(c.Path).Owners {
			got = append(got, owner.String())
		}
		diff := cmp.Diff(c.Owners, got)
		if c.Confidence == "uncertain" {
			unsettled++
			if diff == "" {
				agreed++
			} else {
				t.Logf("uncertain case %s (%s) differs (-table +ours):\n%s", c.ID, c.Note, diff)
			}
			continue
		}
		t.Run(c.ID+" "+c.Category, func(t *testing.T) {
			if diff != "" {
				t.Errorf("owners of %q in\n%s\n%s\n(-want +got):\n%s", c.Path, c.Codeowners, c.Note, diff)
			}
		})
	}
	t.Logf("%d of %d uncertain cases agree", agreed, unsettled)
}
