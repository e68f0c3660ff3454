package daemon

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

type database struct {
	URL string `env:"COUNTERSIGN_DATABASE_URL,required" secret:"true" desc:"Where Postgres is."`
}

type app struct {
	ID      int64    `env:"COUNTERSIGN_GITHUB_APP_ID" desc:"The App's id."`
	Key     string   `env:"COUNTERSIGN_GITHUB_PRIVATE_KEY" secret:"true" newlines:"true" desc:"The App's key."`
	Secrets []string `env:"COUNTERSIGN_WEBHOOK_SECRETS" secret:"true" desc:"Webhook secrets."`
}

func (a app) Validate() error {
	if a.ID < 0 {
		return fmt.Errorf("COUNTERSIGN_GITHUB_APP_ID: %d is below zero", a.ID)
	}
	return nil
}

type exampleConfig struct {
	Database database
	app
	App   app
	Poll  time.Duration `env:"COUNTERSIGN_POLL" envDefault:"500ms" desc:"How often."`
	Loud  bool          `env:"COUNTERSIGN_LOUD" desc:"Whether."`
	Count int           `env:"COUNTERSIGN_COUNT" envDefault:"3" desc:"How many."`
}

// The embedded unexported struct above must be refused; this one is used.
type example struct {
	Database database
	App      app
	Poll     time.Duration `env:"COUNTERSIGN_POLL" envDefault:"500ms" desc:"How often."`
	Loud     bool          `env:"COUNTERSIGN_LOUD" desc:"Whether."`
	Count    int           `env:"COUNTERSIGN_COUNT" envDefault:"3" desc:"How many."`
}

const dbURL = "COUNTERSIGN_DATABASE_URL=postgres://u:hunter2hunter2@127.0.0.1/c"

func TestLoad(t *testing.T) {
	t.Parallel()
	file := write(t, "key.pem", "-----BEGIN KEY-----\nabc\n-----END KEY-----\n\n")
	for _, test := range []struct {
		name    string
		args    []string
		environ []string
		want    example
	}{
		{
			"defaults", nil, []string{dbURL},
			example{Database: database{"postgres://u:hunter2hunter2@127.0.0.1/c"}, Poll: 500 * time.Millisecond, Count: 3},
		},
		{
			"a flag wins over the environment", []string{"--poll=2s", "--loud", "-count", "9"}, []string{dbURL, "COUNTERSIGN_POLL=1s"},
			example{Database: database{"postgres://u:hunter2hunter2@127.0.0.1/c"}, Poll: 2 * time.Second, Loud: true, Count: 9},
		},
		{
			"an empty variable counts as unset", nil, []string{dbURL, "COUNTERSIGN_POLL=", "COUNTERSIGN_GITHUB_PRIVATE_KEY=", "COUNTERSIGN_GITHUB_PRIVATE_KEY_FILE=" + file},
			example{Database: database{"postgres://u:hunter2hunter2@127.0.0.1/c"}, App: app{Key: "-----BEGIN KEY-----\nabc\n-----END KEY-----\n"}, Poll: 500 * time.Millisecond, Count: 3},
		},
		{
			"everything by flag", []string{"--database-url", "postgres://127.0.0.1/c", "--github-app-id=7", "--github-private-key-file=" + file, "--webhook-secrets=one,two"}, nil,
			example{Database: database{"postgres://127.0.0.1/c"}, App: app{ID: 7, Key: "-----BEGIN KEY-----\nabc\n-----END KEY-----\n", Secrets: []string{"one", "two"}}, Poll: 500 * time.Millisecond, Count: 3},
		},
		{
			"RG-449 backslash n is a newline in the key and nowhere else", nil, []string{`COUNTERSIGN_DATABASE_URL=postgres://127.0.0.1/\n`, `COUNTERSIGN_GITHUB_PRIVATE_KEY=a\nb`},
			example{Database: database{`postgres://127.0.0.1/\n`}, App: app{Key: "a\nb"}, Poll: 500 * time.Millisecond, Count: 3},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := Load[example](test.args, test.environ)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Each error names the variable, the place its value came from and the mend,
// and never a secret's value.
func TestLoadRefusals(t *testing.T) {
	t.Parallel()
	const secret = "Sup3rS3cretValue"
	secretFile := write(t, "secret", secret)
	for _, test := range []struct {
		name    string
		args    []string
		environ []string
		want    []string
	}{
		{"a required secret", nil, nil, []string{"COUNTERSIGN_DATABASE_URL", "COUNTERSIGN_DATABASE_URL_FILE", "required"}},
		{"a duration", nil, []string{dbURL, "COUNTERSIGN_POLL=5"}, []string{"COUNTERSIGN_POLL", "environment", `"5"`, "30s"}},
		{"a flag's value", []string{"--count=many"}, []string{dbURL}, []string{"COUNTERSIGN_COUNT", "flag --count", `"many"`, "whole number"}},
		{"all at once", nil, []string{"COUNTERSIGN_POLL=5", "COUNTERSIGN_COUNT=x", "COUNTERSIGN_NOPE=1"}, []string{"COUNTERSIGN_DATABASE_URL: required", "COUNTERSIGN_NOPE"}},
		{"two that do not parse", nil, []string{dbURL, "COUNTERSIGN_POLL=5", "COUNTERSIGN_LOUD=maybe"}, []string{"COUNTERSIGN_POLL", "COUNTERSIGN_LOUD", "true or false"}},
		{"Validate of a nested struct", nil, []string{dbURL, "COUNTERSIGN_GITHUB_APP_ID=-4"}, []string{"COUNTERSIGN_GITHUB_APP_ID: -4 is below zero"}},
		{"RG-449 a secret given twice", nil, []string{dbURL, "COUNTERSIGN_GITHUB_PRIVATE_KEY=" + secret, "COUNTERSIGN_GITHUB_PRIVATE_KEY_FILE=" + secretFile}, []string{"COUNTERSIGN_GITHUB_PRIVATE_KEY", "keep one"}},
		{"RG-449 a secret given twice from two places", []string{"--github-private-key=" + secret}, []string{dbURL, "COUNTERSIGN_GITHUB_PRIVATE_KEY_FILE=" + secretFile}, []string{"COUNTERSIGN_GITHUB_PRIVATE_KEY", "flag --github-private-key", "environment"}},
		{"RG-452 an unknown variable with its likely name", nil, []string{dbURL, "COUNTERSIGN_POL=1s"}, []string{"COUNTERSIGN_POL ", "did you mean COUNTERSIGN_POLL?"}},
		{"RG-452 an unknown secret is not echoed", nil, []string{dbURL, "COUNTERSIGN_GITHUB_PRIVATEKEY=" + secret}, []string{"did you mean COUNTERSIGN_GITHUB_PRIVATE_KEY?"}},
		{"RG-452 a file form of what is no secret", nil, []string{dbURL, "COUNTERSIGN_POLL_FILE=/x"}, []string{"COUNTERSIGN_POLL_FILE"}},
		{"RG-452 an unknown flag", []string{"--pol=1s"}, []string{dbURL}, []string{"pol", "did you mean --poll?"}},
		{"RG-452 a stray argument is not echoed", []string{"--loud", secret}, []string{dbURL}, []string{"argument 2"}},
		{"a Kubernetes service link", nil, []string{dbURL, "COUNTERSIGN_INGRESS_PORT_8080_TCP_ADDR=10.0.0.1"}, []string{"enableServiceLinks"}},
		{"RG-450 a libpq variable", nil, []string{dbURL, "PGHOST=db"}, []string{"PGHOST", "COUNTERSIGN_DATABASE_URL", "unset"}},
		{"RG-450 a libpq variable even when empty", nil, []string{dbURL, "PGSSLMODE="}, []string{"PGSSLMODE"}},
		{"RG-450 a libpq password is not echoed", nil, []string{dbURL, "PGPASSWORD=" + secret}, []string{"PGPASSWORD"}},
		{"a secret's own parse error", nil, []string{dbURL, "COUNTERSIGN_GITHUB_PRIVATE_KEY=" + secret, "COUNTERSIGN_POLL=" + secret}, []string{"COUNTERSIGN_POLL"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := Load[example](test.args, test.environ)
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is not in the error:\n%s", want, err)
				}
			}
			for _, never := range []string{secret, "hunter2"} {
				if strings.Contains(err.Error(), never) {
					t.Errorf("the error echoes a secret:\n%s", err)
				}
			}
			if diff := cmp.Diff(example{}, got); diff != "" {
				t.Errorf("a refused configuration was returned: %s", diff)
			}
		})
	}
}

func TestEveryLibpqVariableIsRefused(t *testing.T) {
	t.Parallel()
	t.Run("RG-450 each of them, empty or not", func(t *testing.T) {
		t.Parallel()
		for _, name := range libpq {
			for _, value := range []string{"", "x"} {
				if _, err := Load[example](nil, []string{dbURL, name + "=" + value}); err == nil || !strings.Contains(err.Error(), name) {
					t.Errorf("%s=%q: %v", name, value, err)
				}
			}
		}
		// A server's variable, which no client reads.
		if _, err := Load[example](nil, []string{dbURL, "PGDATA=/var/lib/postgresql"}); err != nil {
			t.Error(err)
		}
	})
}

func TestLoadKnowsOtherServices(t *testing.T) {
	t.Parallel()
	type other struct {
		Port   int    `env:"COUNTERSIGN_OTHER_PORT" desc:"Another service's."`
		Secret string `env:"COUNTERSIGN_OTHER_SECRET" secret:"true" desc:"Another service's."`
	}
	environ := []string{dbURL, "COUNTERSIGN_OTHER_PORT=1", "COUNTERSIGN_OTHER_SECRET_FILE=/x", "COUNTERSIGN_OPERATOR_LISTEN=127.0.0.1:1"}
	if _, err := LoadWith[example](LoadOptions{Known: []any{other{}}}, nil, environ); err != nil {
		t.Errorf("in one process: %v", err)
	}
	if _, err := Load[example](nil, environ); err == nil {
		t.Error("alone: no error")
	}
}

// thorough also validates what Load validates by itself.
type thorough struct {
	App   app
	Poll  time.Duration     `env:"COUNTERSIGN_POLL" desc:"How often."`
	Inner struct{ App app } // the same variables again: both fields are filled
}

func (c thorough) Validate() error {
	return errors.Join(c.App.Validate(), errors.New("COUNTERSIGN_POLL: never right"))
}

func TestValidationReportsEachProblemOnce(t *testing.T) {
	t.Parallel()
	_, err := Load[thorough](nil, []string{"COUNTERSIGN_GITHUB_APP_ID=-1"})
	want := "COUNTERSIGN_GITHUB_APP_ID: -1 is below zero\nCOUNTERSIGN_POLL: never right"
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

func TestLoadReportsSources(t *testing.T) {
	t.Parallel()
	sources := map[string]string{}
	if _, err := LoadWith[example](LoadOptions{Sources: sources}, []string{"--count=1"}, []string{dbURL}); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"COUNTERSIGN_DATABASE_URL": "environment", "COUNTERSIGN_COUNT": "flag --count"}
	if diff := cmp.Diff(want, sources); diff != "" {
		t.Error(diff)
	}
}

func TestLoadHelp(t *testing.T) {
	t.Parallel()
	if _, err := Load[example]([]string{"--help"}, nil); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("error %v", err)
	}
}

func TestConfigStructsAreChecked(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		config any
		want   string
	}{
		{"no struct", 3, "not a struct"},
		{"an embedded struct nobody can fill", exampleConfig{}, "exported"},
		{"no description", struct {
			A string `env:"COUNTERSIGN_A"`
		}{}, "desc"},
		{"another prefix", struct {
			A string `env:"OTHER_A" desc:"a"`
		}{}, "COUNTERSIGN_"},
		{"an option", struct {
			A string `env:"COUNTERSIGN_A,file" desc:"a"`
		}{}, `"file"`},
		{"a secret with a default", struct {
			A string `env:"COUNTERSIGN_A" envDefault:"x" secret:"true" desc:"a"`
		}{}, "default"},
		{"one variable, two defaults", struct {
			A int `env:"COUNTERSIGN_A" envDefault:"1" desc:"a"`
			B int `env:"COUNTERSIGN_A" envDefault:"2" desc:"a"`
		}{}, "COUNTERSIGN_A twice"},
		{"a prefix", struct {
			A struct{} `envPrefix:"X_"`
		}{}, "envPrefix"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if _, err := Describe(test.config); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %s", err, test.want)
			}
		})
	}
}

func TestSecretFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	link := func(n int, target string) string {
		for i := range n {
			path := filepath.Join(dir, fmt.Sprintf("%s-%d-%d", filepath.Base(target), n, i))
			if err := os.Symlink(target, path); err != nil {
				t.Fatal(err)
			}
			target = path
		}
		return target
	}
	plain := write(t, "plain", "s3cret")
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	// As Kubernetes mounts one: file → ..data/file, ..data → a dated folder.
	mounted := filepath.Join(dir, "mount")
	if err := os.MkdirAll(filepath.Join(mounted, "..2026"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(mounted, "..2026", "key"), []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Symlink("..2026", filepath.Join(mounted, "..data")), os.Symlink("..data/key", filepath.Join(mounted, "key"))); err != nil {
		t.Fatal(err)
	}
	loop := filepath.Join(dir, "loop")
	if err := os.Symlink(loop, loop); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ name, path, want, refused string }{
		{"RG-449 as it is", plain, "s3cret", ""},
		{"RG-449 one trailing newline is stripped", write(t, "nl", "s3cret\n"), "s3cret", ""},
		{"RG-449 only one trailing newline is stripped", write(t, "nlnl", "s3cret\n\n"), "s3cret\n", ""},
		{"RG-449 a Windows line end is one newline", write(t, "crlf", "s3cret\r\n"), "s3cret", ""},
		{"RG-449 64 KiB", write(t, "big", strings.Repeat("x", 64<<10)), strings.Repeat("x", 64<<10), ""},
		{"RG-449 a byte more than 64 KiB", write(t, "bigger", strings.Repeat("x", 64<<10+1)), "", "larger"},
		{"RG-449 not UTF-8", write(t, "binary", "\xff\xfe"), "", "UTF-8"},
		{"RG-449 16 links", link(16, plain), "s3cret", ""},
		{"RG-449 17 links", link(17, plain), "", "symbolic links"},
		{"RG-449 a loop of links", loop, "", "symbolic links"},
		{"RG-449 a mounted secret", filepath.Join(mounted, "key"), "s3cret", ""},
		{"RG-449 a folder", dir, "", "regular file"},
		{"RG-449 a fifo is refused without waiting", fifo, "", "regular file"},
		{"RG-449 a device", "/dev/zero", "", "regular file"},
		{"an empty file", write(t, "empty", "\n"), "", "empty"},
		{"no file", filepath.Join(dir, "none"), "", "no such file"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := Load[database](nil, []string{"COUNTERSIGN_DATABASE_URL_FILE=" + test.path})
			if test.refused == "" {
				if err != nil || got.URL != test.want {
					t.Errorf("read %q, %v", got.URL, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.refused) || !strings.Contains(err.Error(), "COUNTERSIGN_DATABASE_URL_FILE") || !strings.Contains(err.Error(), test.path) {
				t.Errorf("error %v does not name the variable, %s and %q", err, test.path, test.refused)
			}
			if err != nil && strings.Contains(err.Error(), "s3cret") {
				t.Errorf("the error echoes the secret: %v", err)
			}
		})
	}
}

func TestEditDistance(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"", "ab", 2}, {"kitten", "sitting", 3}, {"flaw", "lawn", 2}, {"same", "same", 0}} {
		if got := editDistance(test.a, test.b); got != test.want {
			t.Errorf("%q to %q: %d, want %d", test.a, test.b, got, test.want)
		}
	}
}

// write makes a file that the test's end removes.
func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
