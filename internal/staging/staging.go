package staging

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/countersign/countersign/pkg/nudge"
)

// Options say where secrets come from and go to.
type Options struct {
	Given string // the operator's own files; may be empty or absent
	Kept  string // what was made, for the next run
	Out   string // one directory a container
	// StandIn makes an App's key, a webhook secret and a certificate for the GitHub stand-in where none is given. Without it
	// the App's key and the webhook secret have to be given.
	StandIn bool
	// Owner is the user and group id of the containers that are ours; 0 leaves the files to whoever runs this.
	Owner int
}

// The files an operator may give; `countersign setup --out` writes the first two under these names.
const (
	GivenKey      = "private-key.pem"
	GivenSecret   = "webhook-secret"
	GivenPrevious = "webhook-secret-previous"
	GivenCA       = "github-ca.pem"
)

// Services are the processes with a database role and a NATS user.
var Services = []string{"ingress", "invalidator", "fanout", "evaluator", "reconciler"}

// Holders are the directories below Out: one a container.
func Holders() []string {
	return append([]string{"postgres", "nats", "migrate", "grafana", "github"}, Services...)
}

// file is one secret in one container's directory.
type file struct {
	holder, name string
	text         []byte
	// open files are read by another project's image under a user of its own. Each is alone in its volume.
	open bool
}

// Make makes what is missing and hands everything out. It may run again at any time, not beside itself.
func Make(o Options) error {
	for _, dir := range []string{o.Kept, o.Out} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("make secrets: %w", err)
		}
	}
	files, err := o.plan()
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := o.handOut(f); err != nil {
			return fmt.Errorf("hand %s its %s: %w", f.holder, f.name, err)
		}
	}
	return nil
}

func (o Options) plan() ([]file, error) {
	given, err := o.given()
	if err != nil {
		return nil, err
	}
	plans := []func(map[string][]byte) ([]file, error){o.database, o.nats, o.github}
	var all []file
	for _, plan := range plans {
		files, err := plan(given)
		if err != nil {
			return nil, err
		}
		all = append(all, files...)
	}
	grafana, err := o.keep("grafana-password", randomHex)
	if err != nil {
		return nil, err
	}
	return append(all, file{"grafana", "password", grafana, true}), nil
}

// given reads the operator's files, and says which are missing when they are needed.
func (o Options) given() (map[string][]byte, error) {
	given := map[string][]byte{}
	for _, name := range []string{GivenKey, GivenSecret, GivenPrevious, GivenCA} {
		text, err := os.ReadFile(filepath.Join(o.Given, name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, fmt.Errorf("read what was given: %w", err)
		case len(bytes.TrimSpace(text)) == 0:
			return nil, fmt.Errorf("%s in %s is empty: write the secret into it, or remove it", name, o.Given)
		default:
			given[name] = text
		}
	}
	if o.StandIn {
		return given, nil
	}
	for name, what := range map[string]string{GivenKey: "the private key that GitHub offered for download", GivenSecret: "the App's webhook secret, at least 32 random bytes"} {
		if given[name] == nil {
			return nil, fmt.Errorf("%s is not in %s: put %s there; or leave COUNTERSIGN_GITHUB_API_URL unset and use the profile demo, which needs no App", name, o.Given, what)
		}
	}
	return given, nil
}

func (o Options) database(map[string][]byte) ([]file, error) {
	owner, err := o.keep("postgres-password", randomHex)
	if err != nil {
		return nil, err
	}
	files := []file{{"postgres", "password", owner, true}, {"migrate", "database-url", databaseURL("countersign", owner), false}}
	readers := []string{"reader", "console"} // their containers are not part of the compose file; the roles have passwords
	for _, who := range append(readers, Services...) {
		role := "countersign_" + who
		password, err := o.keep("role-"+role, randomHex)
		if err != nil {
			return nil, err
		}
		files = append(files, file{"migrate", "roles/" + role, password, false})
		if !slices.Contains(readers, who) {
			files = append(files, file{who, "database-url", databaseURL(role, password), false})
		}
	}
	return files, nil
}

// databaseURL has no TLS: Postgres is on a network of containers of one host that leads nowhere else.
func databaseURL(role string, password []byte) []byte {
	return fmt.Appendf(nil, "postgres://%s:%s@postgres:5432/countersign?sslmode=disable", role, password)
}

// natsServer is the server's part of its configuration; the users follow from the table of permissions.
const natsServer = `# Made by countersign secrets; changed here, it is made anew.
host: 0.0.0.0
port: 4222
http: 0.0.0.0:8222
jetstream {
  max_memory_store: 64MiB
  max_file_store: 256MiB
  store_dir: "/data"
}
`

func (o Options) nats(map[string][]byte) ([]file, error) {
	var files []file
	public := map[string]string{}
	for _, service := range nudge.Services() {
		seed, err := o.keep("nats-"+service, nudge.NewUserSeed)
		if err != nil {
			return nil, err
		}
		if public[service], err = nudge.UserKey(seed); err != nil {
			return nil, fmt.Errorf("the kept NATS seed of %s: %w", service, err)
		}
		if service != "operator" {
			files = append(files, file{service, "nats-seed", seed, false})
		}
	}
	users, err := nudge.ServerConfig(func(service string) string { return public[service] })
	if err != nil {
		return nil, err
	}
	return append(files, file{"nats", "nats.conf", []byte(natsServer + users), true}), nil
}

func (o Options) github(given map[string][]byte) ([]file, error) {
	key, secret, previous, authority := given[GivenKey], given[GivenSecret], given[GivenPrevious], given[GivenCA]
	var files []file
	var err error
	if o.StandIn {
		if key, err = o.orKept(key, "stand-in-"+GivenKey, newRSAKey); err != nil {
			return nil, err
		}
		if secret, err = o.orKept(secret, "stand-in-"+GivenSecret, randomHex); err != nil {
			return nil, err
		}
		var tls []file
		if tls, authority, err = o.standInTLS(); err != nil {
			return nil, err
		}
		files = append(tls, file{"github", GivenKey, key, false}, file{"github", GivenSecret, secret, false})
	}
	// A second secret is always there, so that a rotation needs no other setting: nobody knows the one that is made here.
	if previous, err = o.orKept(previous, GivenPrevious, randomHex); err != nil {
		return nil, err
	}
	files = append(files, file{"ingress", GivenSecret, secret, false}, file{"ingress", GivenPrevious, previous, false})
	for _, service := range Services {
		if service == "ingress" {
			continue // it faces the internet, and holds nothing that could write to GitHub
		}
		files = append(files, file{service, GivenKey, key, false})
		if authority != nil {
			files = append(files, file{service, GivenCA, authority, false})
		}
	}
	return files, nil
}

func (o Options) orKept(given []byte, name string, generate func() ([]byte, error)) ([]byte, error) {
	if given != nil {
		return given, nil
	}
	return o.keep(name, generate)
}

// keep returns the kept secret of this name, and makes it when there is none.
func (o Options) keep(name string, generate func() ([]byte, error)) ([]byte, error) {
	path := filepath.Join(o.Kept, name)
	text, err := os.ReadFile(path)
	if err == nil && len(text) > 0 {
		return text, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read what was kept: %w", err)
	}
	if text, err = generate(); err != nil {
		return nil, fmt.Errorf("make %s: %w", name, err)
	}
	if err := replace(path, text, 0o600, 0); err != nil {
		return nil, fmt.Errorf("keep %s: %w", name, err)
	}
	return text, nil
}

func (o Options) handOut(f file) error {
	path := filepath.Join(o.Out, f.holder, filepath.FromSlash(f.name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	mode, owner := fs.FileMode(0o400), o.Owner
	if f.open {
		mode, owner = 0o444, 0
	}
	return replace(path, f.text, mode, owner)
}

// replace writes a file beside its place and renames it: whoever reads sees the old one or the new one, whole.
func replace(path string, text []byte, mode fs.FileMode, owner int) error {
	temporary, err := os.CreateTemp(filepath.Dir(path), "."+strings.TrimPrefix(filepath.Base(path), ".")+"-")
	if err != nil {
		return err
	}
	_, err = temporary.Write(text)
	err = errors.Join(err, temporary.Chmod(mode))
	if owner != 0 {
		err = errors.Join(err, temporary.Chown(owner, owner))
	}
	if err = errors.Join(err, temporary.Sync(), temporary.Close()); err == nil {
		err = os.Rename(temporary.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temporary.Name()))
	}
	return nil
}
