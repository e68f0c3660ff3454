package main

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/countersign/countersign/pkg/store/localpg"
)

func TestTheCommandGetsAServerAndItsStatusComesBack(t *testing.T) { // t.Setenv: not parallel
	t.Setenv(localpg.EnvTestURL, "")
	out := filepath.Join(t.TempDir(), "dsn")
	code, err := run([]string{"sh", "-c", `printf %s "$` + localpg.EnvTestURL + `" > ` + out + `; exit 7`})
	if err != nil {
		t.Fatal(err)
	}
	if code != 7 {
		t.Errorf("run = %d, want the command's 7", code)
	}
	dsn, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(string(dsn))
	if err != nil || u.Scheme != "postgres" || u.Query().Get("host") == "" {
		t.Fatalf("the command got %q as its DSN", dsn)
	}
	if _, err := os.Stat(u.Query().Get("host")); !os.IsNotExist(err) {
		t.Errorf("the server's directory is still there (%v)", err)
	}
}

func TestAServerThatIsNamedAlreadyIsUsed(t *testing.T) { // t.Setenv: not parallel
	t.Setenv(localpg.EnvTestURL, "postgres://named@localhost/x")
	t.Setenv(localpg.EnvBin, t.TempDir()) // to start one would fail
	code, err := run([]string{"sh", "-c", `test "$` + localpg.EnvTestURL + `" = postgres://named@localhost/x`})
	if err != nil || code != 0 {
		t.Errorf("run = %d, %v", code, err)
	}
}

func TestNoServerIsAnError(t *testing.T) { // t.Setenv: not parallel
	t.Setenv(localpg.EnvTestURL, "")
	t.Setenv(localpg.EnvBin, t.TempDir())
	code, err := run([]string{"true"})
	if code == 0 || err == nil || !strings.Contains(err.Error(), "no usable PostgreSQL") {
		t.Errorf("run without a server = %d, %v; the tests would be skipped", code, err)
	}
}
