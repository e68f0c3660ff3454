package reference

import (
	"bytes"
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write docs/configuration.md")

const page = "../../docs/configuration.md"

func TestTheConfigurationPageIsCurrent(t *testing.T) {
	t.Parallel()
	var want bytes.Buffer
	if err := Write(&want); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(page, want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.String(), string(got)); diff != "" {
		t.Errorf("docs/configuration.md is not what the services read (-read +page); run make generate:\n%s", diff)
	}
}
