package daemon

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unicode/utf8"
)

const (
	// maxSecret bounds a secret file (RG-449): a key is a few KiB, a device never ends.
	maxSecret = 64 << 10
	// maxLinks bounds the symbolic links followed to it, those of its folders
	// included: an orchestrator's secret mounts use two or three.
	maxLinks = 16
)

// readSecret returns the contents of a secret file without its one trailing
// newline. Its errors name the path and never the contents.
func readSecret(path string) (string, error) {
	real, err := followLinks(path)
	if err != nil {
		return "", err
	}
	// Without O_NONBLOCK opening a FIFO would wait for a writer before it could be refused.
	f, err := os.OpenFile(real, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", fmt.Errorf("%w; the service's user must be able to read it", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is not a regular file; give the path of a file that holds the secret", path)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("read %s: %w", path, err)
	case len(text) > maxSecret:
		return "", fmt.Errorf("%s is larger than %d bytes; a secret is not", path, maxSecret)
	case !utf8.Valid(text):
		return "", fmt.Errorf("%s is not UTF-8 text; keys are given in their text form (PEM, not DER)", path)
	}
	secret := stripNewline(string(text))
	if secret == "" {
		return "", fmt.Errorf("%s is empty; write the secret into it", path)
	}
	return secret, nil
}

// stripNewline removes one trailing line end, as editors and echo leave it.
func stripNewline(s string) string {
	if cut, ok := strings.CutSuffix(s, "\n"); ok {
		return strings.TrimSuffix(cut, "\r")
	}
	return s
}

// followLinks resolves path, counting every link in it. The standard library's
// own resolution allows many more.
func followLinks(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	root := filepath.VolumeName(abs) + string(filepath.Separator)
	at, links := root, 0
	rest := components(strings.TrimPrefix(abs, root))
	for len(rest) > 0 {
		next := rest[0]
		rest = rest[1:]
		if next == ".." {
			at = filepath.Dir(at)
			continue
		}
		step := filepath.Join(at, next)
		info, err := os.Lstat(step)
		if err != nil {
			return "", fmt.Errorf("%s: %w", path, notFound(err))
		}
		if info.Mode()&os.ModeSymlink == 0 {
			at = step
			continue
		}
		if links++; links > maxLinks {
			return "", fmt.Errorf("%s: more than %d symbolic links lead to it; give a shorter path", path, maxLinks)
		}
		target, err := os.Readlink(step)
		if err != nil {
			return "", fmt.Errorf("%s: %w", path, err)
		}
		if filepath.IsAbs(target) {
			at = root
		}
		rest = append(components(strings.TrimPrefix(target, root)), rest...)
	}
	return at, nil
}

func notFound(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return errors.New("no such file; create it or correct the path")
	}
	return err
}

func components(path string) []string {
	var all []string
	for c := range strings.SplitSeq(filepath.ToSlash(path), "/") {
		if c != "" && c != "." {
			all = append(all, c)
		}
	}
	return all
}
