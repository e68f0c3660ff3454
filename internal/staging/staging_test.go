package staging_test

import (
	"crypto/tls"
	"crypto/x509"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/countersign/countersign/internal/staging"
	"github.com/countersign/countersign/pkg/nudge"
	"github.com/countersign/countersign/pkg/nudge/localnats"
)

// made runs Make with temporary directories and the given files.
func made(t *testing.T, standIn bool, given map[string]string) staging.Options {
	t.Helper()
	o := staging.Options{Given: t.TempDir(), Kept: filepath.Join(t.TempDir(), "kept"), Out: filepath.Join(t.TempDir(), "of"), StandIn: standIn}
	for name, text := range given {
		if err := os.WriteFile(filepath.Join(o.Given, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := staging.Make(o); err != nil {
		t.Fatal(err)
	}
	return o
}

// tree is every file below dir with its text.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		files[filepath.ToSlash(name)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func names(files map[string]string) []string {
	var all []string
	for name := range files {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

func TestEachHolderGetsItsOwnAndNothingElse(t *testing.T) {
	t.Parallel()
	o := made(t, true, nil)
	want := map[string][]string{
		"postgres": {"password"}, "nats": {"nats.conf"}, "grafana": {"password"},
		"migrate": {"database-url", "roles/countersign_console", "roles/countersign_evaluator", "roles/countersign_fanout", "roles/countersign_ingress",
			"roles/countersign_invalidator", "roles/countersign_reader", "roles/countersign_reconciler"},
		"github":  {"private-key.pem", "tls.crt", "tls.key", "webhook-secret"},
		"ingress": {"database-url", "nats-seed", "webhook-secret", "webhook-secret-previous"},
	}
	for _, service := range []string{"invalidator", "fanout", "evaluator", "reconciler"} {
		want[service] = []string{"database-url", "github-ca.pem", "nats-seed", "private-key.pem"}
	}
	all := map[string]string{}
	for _, holder := range staging.Holders() {
		files := tree(t, filepath.Join(o.Out, holder))
		if diff := cmp.Diff(want[holder], names(files)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", holder, diff)
		}
		for name, text := range files {
			all[holder+"/"+name] = text
		}
	}
	t.Run("a service reads its own role's password and no other's", func(t *testing.T) {
		for _, service := range staging.Services {
			password := all["migrate/roles/countersign_"+service]
			for path, text := range all {
				mine := strings.HasPrefix(path, service+"/") || strings.HasPrefix(path, "migrate/")
				if strings.Contains(text, password) && !mine {
					t.Errorf("%s holds the password of %s", path, service)
				}
			}
			if want := "postgres://countersign_" + service + ":" + password + "@postgres:5432/countersign?sslmode=disable"; all[service+"/database-url"] != want {
				t.Errorf("%s connects with another URL than its role's", service)
			}
		}
	})
	t.Run("ours are read by their owner alone", func(t *testing.T) {
		info, err := os.Stat(filepath.Join(o.Out, "ingress", "database-url"))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o400 {
			t.Errorf("mode %v", info.Mode())
		}
	})
	t.Run("the server takes the configuration, and a service's seed", func(t *testing.T) {
		_, users, found := strings.Cut(all["nats/nats.conf"], `store_dir: "/data"`+"\n}\n")
		if !found {
			t.Fatalf("the configuration begins otherwise:\n%s", all["nats/nats.conf"])
		}
		local, err := localnats.Start(t.Context(), localnats.Options{Dir: t.TempDir(), Config: users})
		if err != nil {
			t.Fatal(err)
		}
		defer local.Close()
		for _, service := range staging.Services {
			bus, err := nudge.Connect(t.Context(), nudge.Config{URL: local.URL(), NKeySeed: all[service+"/nats-seed"]}, nudge.Options{Name: service})
			if err != nil {
				t.Fatal(err)
			}
			for deadline := time.Now().Add(time.Minute); bus.Check(t.Context()) != nil; time.Sleep(5 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("with the seed of %s: %v", service, bus.Check(t.Context()))
				}
			}
			bus.Close()
		}
	})
	t.Run("the stand-in's certificate is good for its name, by the authority that the services are given", func(t *testing.T) {
		pair, err := tls.X509KeyPair([]byte(all["github/tls.crt"]), []byte(all["github/tls.key"]))
		if err != nil {
			t.Fatal(err)
		}
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM([]byte(all["evaluator/github-ca.pem"])) {
			t.Fatal("the authority is no certificate")
		}
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: staging.StandInHost}); err != nil {
			t.Error(err)
		}
	})
}

func TestMakeAgain(t *testing.T) {
	t.Parallel()
	o := made(t, true, nil)
	before := tree(t, o.Out)
	again := func(t *testing.T) map[string]string {
		t.Helper()
		if err := staging.Make(o); err != nil {
			t.Fatal(err)
		}
		return tree(t, o.Out)
	}
	t.Run("changes nothing", func(t *testing.T) {
		if diff := cmp.Diff(before, again(t)); diff != "" {
			t.Errorf("(-first +second):\n%s", diff)
		}
	})
	t.Run("hands out anew what a crash kept back", func(t *testing.T) {
		if err := os.Remove(filepath.Join(o.Out, "evaluator", "database-url")); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before, again(t)); diff != "" {
			t.Errorf("(-first +second):\n%s", diff)
		}
	})
	t.Run("hands out a given secret beside the previous one", func(t *testing.T) {
		for name, text := range map[string]string{staging.GivenSecret: "new-secret-of-at-least-32-bytes-0", staging.GivenPrevious: before["ingress/webhook-secret"]} {
			if err := os.WriteFile(filepath.Join(o.Given, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		after := again(t)
		if after["ingress/webhook-secret"] != "new-secret-of-at-least-32-bytes-0" || after["ingress/webhook-secret-previous"] != before["ingress/webhook-secret"] {
			t.Errorf("ingress has %q and %q", after["ingress/webhook-secret"], after["ingress/webhook-secret-previous"])
		}
		if after["github/webhook-secret"] != after["ingress/webhook-secret"] {
			t.Error("the stand-in signs with another secret")
		}
	})
}

func TestAnAppOfYourOwn(t *testing.T) {
	t.Parallel()
	t.Run("needs its key and secret, and says which is missing", func(t *testing.T) {
		t.Parallel()
		o := staging.Options{Given: t.TempDir(), Kept: t.TempDir(), Out: t.TempDir()}
		for _, name := range []string{staging.GivenKey, staging.GivenSecret} {
			err := staging.Make(o)
			if err == nil {
				t.Fatal("nothing is missing")
			}
			if err := os.WriteFile(filepath.Join(o.Given, name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := staging.Make(o); err == nil || !strings.Contains(err.Error(), "is empty") {
			t.Errorf("empty files: %v", err)
		}
	})
	t.Run("is handed out as given, and nothing of the stand-in's is made", func(t *testing.T) {
		t.Parallel()
		o := made(t, false, map[string]string{staging.GivenKey: "a key", staging.GivenSecret: "a secret"})
		files := tree(t, o.Out)
		if files["evaluator/private-key.pem"] != "a key" || files["ingress/webhook-secret"] != "a secret" {
			t.Errorf("handed out: %v", names(files))
		}
		for name := range files {
			if strings.HasPrefix(name, "github/") || strings.HasSuffix(name, staging.GivenCA) {
				t.Errorf("%s was made", name)
			}
		}
	})
}
