package setup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/countersign/countersign/pkg/ghclient"
)

// The files that credentials are stored in.
const (
	KeyFile          = "private-key.pem"
	WebhookFile      = "webhook-secret"
	ClientSecretFile = "client-secret"
	// EnvFile names the others, in the form that a service's environment takes.
	EnvFile = "countersign.env"
)

// Folder is where credentials go. Reserve, then Fill or Release.
type Folder struct {
	dir   string
	files map[string]*os.File
}

// Reserve creates the folder (0700) and in it every file, empty, with mode 0600. A file that exists is never touched: then nothing is
// created, and the error names it.
func Reserve(dir string) (*Folder, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder for the credentials: %w", err)
	}
	f := &Folder{dir: dir, files: map[string]*os.File{}}
	for _, name := range []string{KeyFile, WebhookFile, ClientSecretFile, EnvFile} {
		file, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrExist) {
			err = fmt.Errorf("%s exists and is not overwritten: move it away, or give another folder", filepath.Join(dir, name))
		}
		if err != nil {
			f.Release()
			return nil, err
		}
		f.files[name] = file
	}
	return f, nil
}

// Release removes what was reserved and not filled. It may run twice.
func (f *Folder) Release() {
	for name, file := range f.files {
		_ = file.Close()
		_ = os.Remove(filepath.Join(f.dir, name))
	}
	f.files = map[string]*os.File{}
}

// Fill writes the credentials. apiURL is written out where it is not github.com's.
func (f *Folder) Fill(c ghclient.AppCredentials, apiURL string) error {
	abs, err := filepath.Abs(f.dir)
	if err != nil {
		return err
	}
	for name, text := range map[string]string{
		KeyFile: c.PEM, WebhookFile: c.WebhookSecret + "\n", ClientSecretFile: c.ClientSecret + "\n", EnvFile: strings.Join(environ(c, abs, apiURL), "\n") + "\n",
	} {
		file := f.files[name]
		if _, err := file.WriteString(text); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
		if err := errors.Join(file.Chmod(0o600), file.Sync(), file.Close()); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	f.files = map[string]*os.File{}
	return nil
}

// environ are the settings of the App that was stored in dir, as a service's environment takes them.
func environ(c ghclient.AppCredentials, dir, apiURL string) []string {
	lines := []string{
		"# The App and its key: evaluator, invalidator, fanout and reconciler.",
		fmt.Sprintf("COUNTERSIGN_GITHUB_APP_ID=%d", c.ID),
		"COUNTERSIGN_GITHUB_PRIVATE_KEY_FILE=" + filepath.Join(dir, KeyFile),
		"# ingress, which has no key.",
		"COUNTERSIGN_WEBHOOK_SECRET_FILE=" + filepath.Join(dir, WebhookFile),
		"# The console's sign-in, which has no key either.",
		"COUNTERSIGN_GITHUB_CLIENT_ID=" + c.ClientID,
		"COUNTERSIGN_GITHUB_CLIENT_SECRET_FILE=" + filepath.Join(dir, ClientSecretFile),
	}
	if apiURL != "" && apiURL != "https://api.github.com/" {
		lines = append(lines, "# Every one but ingress.", "COUNTERSIGN_GITHUB_API_URL="+apiURL)
	}
	return lines
}

// Settings reads back what Fill wrote to EnvFile.
func Settings(dir string) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(dir, EnvFile))
	if err != nil {
		return nil, fmt.Errorf("read the stored settings: %w", err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return slices.DeleteFunc(lines, func(l string) bool { return strings.HasPrefix(l, "#") }), nil
}
