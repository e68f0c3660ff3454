package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReference(t *testing.T) {
	t.Parallel()
	type own struct {
		Database database
		Pipe     string `env:"COUNTERSIGN_PIPE" envDefault:"a|b" desc:"One | or\nanother."`
	}
	sections := []Section{{"ingress", own{}}, {"evaluator", example{}}}
	var b strings.Builder
	if err := WriteReference(&b, sections); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, want := range []string{
		"## Shared\n", "| `COUNTERSIGN_DATABASE_URL` | `--database-url` | **secret** | required | ingress, evaluator | Where Postgres is. |",
		"## ingress\n", "| `COUNTERSIGN_PIPE` | `--pipe` | text | `a\\|b` | One \\| or another. |",
		"## evaluator\n", "| `COUNTERSIGN_POLL` | `--poll` | duration | `500ms` | How often. |",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is not in the page:\n%s", want, page)
		}
	}
	if strings.Count(page, "`COUNTERSIGN_DATABASE_URL`") != 1 {
		t.Error("a shared variable is listed twice")
	}

	path := filepath.Join(t.TempDir(), "configuration.md")
	if err := CheckReference(path, sections, false); err == nil {
		t.Error("no page, no error")
	}
	if err := CheckReference(path, sections, true); err != nil {
		t.Fatal(err)
	}
	if err := CheckReference(path, sections, false); err != nil {
		t.Errorf("fresh: %v", err)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(page, "How often.", "How seldom.", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := CheckReference(path, sections, false); err == nil || !strings.Contains(err.Error(), "How often.") || !strings.Contains(err.Error(), "-update") {
		t.Errorf("stale: %v", err)
	}
}

func TestReferenceRefusesTwoMeanings(t *testing.T) {
	t.Parallel()
	type one struct {
		A int `env:"COUNTERSIGN_A" envDefault:"1" desc:"a"`
	}
	type two struct {
		A int `env:"COUNTERSIGN_A" envDefault:"2" desc:"a"`
	}
	err := WriteReference(&strings.Builder{}, []Section{{"ingress", one{}}, {"fanout", two{}}})
	if err == nil || !strings.Contains(err.Error(), "COUNTERSIGN_A") || !strings.Contains(err.Error(), "fanout") {
		t.Errorf("error %v", err)
	}
}
