package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/store/storetest"
)

// Not parallel: the commands read the process's environment.
func TestDatabaseCommands(t *testing.T) {
	call := func(args ...string) (int, string, string) {
		var out, errOut bytes.Buffer
		code := run(t.Context(), args, strings.NewReader(""), &out, &errOut)
		return code, out.String(), errOut.String()
	}
	db := storetest.New(t)
	t.Setenv("COUNTERSIGN_DATABASE_URL", db.URL(storetest.Owner))
	t.Run("RG-445 database migrate, check and queue", func(t *testing.T) {
		if code, out, errOut := call("database", "migrate", "--lock-timeout-seconds", "5"); code != exitFine || !strings.Contains(out, "schema version") {
			t.Errorf("migrate: %d %q %q", code, out, errOut)
		}
		if code, out, errOut := call("database", "check"); code != exitFine || !strings.Contains(out, "unchanged") {
			t.Errorf("check: %d %q %q", code, out, errOut)
		}
		if code, out, errOut := call("queue"); code != exitFine || strings.TrimSpace(out) != "pending=0" {
			t.Errorf("queue: %d %q %q", code, out, errOut)
		}
		_, err := db.Store(storetest.Ingress).AcceptDirect(t.Context(), store.Delivery{ID: "d1", Event: "pull_request", Action: "opened"}, store.DirectWork{
			Installation: 1, Repository: 2, FullName: "acme/api", Number: 3, Head: store.SHA(strings.Repeat("a", 40)), State: "open", Reason: "pull_request.opened",
		})
		if err != nil {
			t.Fatal(err)
		}
		code, out, errOut := call("queue", "--json")
		var rows []queueReport
		if err := json.Unmarshal([]byte(out), &rows); code != exitFine || err != nil || len(rows) != 2 || rows[0].Due != 1 {
			t.Errorf("queue --json: %d %q %q %v", code, out, errOut, err)
		}
	})
	t.Run("RG-447 RG-445 there is no way down, and bounds hold", func(t *testing.T) {
		if code, _, _ := call("database", "downgrade"); code == exitFine {
			t.Error("a downgrade was accepted")
		}
		for _, wait := range []string{"0.05", "301"} {
			if code, _, errOut := call("database", "migrate", "--lock-timeout-seconds", wait); code != exitUsage || !strings.Contains(errOut, "0.1 to 300") {
				t.Errorf("wait %s: %d %q", wait, code, errOut)
			}
		}
	})
	t.Run("RG-442 a changed schema is a finding", func(t *testing.T) {
		db.Exec("ALTER TABLE delivery ADD COLUMN extra text")
		if code, _, errOut := call("database", "check"); code != exitFindings || !strings.Contains(errOut, "changed by hand") {
			t.Errorf("check: %d %q", code, errOut)
		}
	})
}
