package store_test

import (
	"strings"
	"testing"
	"time"

	"github.com/countersign/countersign/pkg/store"
	"github.com/countersign/countersign/pkg/store/storetest"
)

func TestSetRolePasswords(t *testing.T) {
	t.Parallel()
	db := storetest.New(t)
	// Roles belong to the whole server: two of this test's own.
	role := "p_" + db.QueryText("SELECT current_database()")
	db.Exec(`CREATE ROLE "` + role + `" LOGIN; CREATE ROLE "` + role + `_2" LOGIN`)
	t.Cleanup(func() { db.Exec(`DROP ROLE "` + role + `"; DROP ROLE "` + role + `_2"`) })
	const secret = "0123456789abcdef0123456789abcdef"
	kept := func(role string) string {
		return db.QueryText("SELECT coalesce(rolpassword, '') FROM pg_authid WHERE rolname = $1", role)
	}

	if err := store.SetRolePasswords(t.Context(), db.URL(storetest.Owner), map[string]string{role: secret}, time.Minute); err != nil {
		t.Fatal(err)
	}
	first := kept(role)
	if !strings.HasPrefix(first, "SCRAM-SHA-256$4096:") || strings.Contains(first, secret) {
		t.Errorf("the server keeps %q", first)
	}
	if got := kept(role + "_2"); got != "" {
		t.Errorf("a role that was not named got %q", got)
	}
	t.Run("again", func(t *testing.T) {
		if err := store.SetRolePasswords(t.Context(), db.URL(storetest.Owner), map[string]string{role: secret}, time.Minute); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("all or none: an unknown role changes nobody", func(t *testing.T) {
		before := kept(role)
		err := store.SetRolePasswords(t.Context(), db.URL(storetest.Owner), map[string]string{role: secret, role + "_absent": secret}, time.Minute)
		if err == nil || !strings.Contains(err.Error(), role+"_absent") || strings.Contains(err.Error(), secret) {
			t.Errorf("the error is %v", err)
		}
		if kept(role) != before {
			t.Error("another role was changed")
		}
	})
	t.Run("a placeholder is refused before anything is asked", func(t *testing.T) {
		err := store.SetRolePasswords(t.Context(), db.URL(storetest.Owner), map[string]string{role: "changeme"}, time.Minute)
		if err == nil || !strings.Contains(err.Error(), role) || strings.Contains(err.Error(), "changeme") {
			t.Errorf("the error is %v", err)
		}
	})
}
