package localpg

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	tempPrefix = "countersign-pg-"
	lockName   = "owner.lock"
	// maxSocketDir keeps "<dir>/.s.PGSQL.<port>" below the 104 bytes a socket's
	// path may have on macOS (108 on Linux).
	maxSocketDir = 85
)

// DefaultDir returns the directory in which a named private server keeps its
// cluster: below /var/lib/countersign for root, whose home the server's user
// cannot enter, otherwise below $XDG_STATE_HOME or ~/.local/state. It creates nothing.
func DefaultDir(name string) (string, error) {
	if os.Geteuid() == 0 {
		return filepath.Join("/var/lib/countersign", name), nil
	}
	state := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("choose a directory for the private PostgreSQL: %w; set HOME or XDG_STATE_HOME", err)
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(state, "countersign", name), nil
}

// acquireHome creates the server's directory when needed, takes its owner lock
// and chooses a directory for the socket.
func (s *Server) acquireHome() error {
	if err := s.makeHome(); err != nil {
		return err
	}
	if err := s.account.reach(s.home); err != nil {
		return fmt.Errorf("%w; choose another directory (%s for root), or make this one traversable", err, "/var/lib/countersign")
	}
	lock, err := takeLock(filepath.Join(s.home, lockName))
	if err != nil {
		return fmt.Errorf("start private PostgreSQL in %s: %w", s.home, err)
	}
	s.lock = lock
	s.sockets = filepath.Join(s.home, "run")
	if len(s.sockets) > maxSocketDir {
		if s.sockets, err = os.MkdirTemp(tempBase(s.account), tempPrefix+"run-"); err != nil {
			return fmt.Errorf("create a socket directory: %w", err)
		}
		s.scratch = append(s.scratch, s.sockets)
	}
	// 0700: whoever reaches the socket is the superuser.
	return s.account.own(s.sockets)
}

// makeHome settles s.home: the caller's directory, or a new temporary one.
func (s *Server) makeHome() error {
	if s.opts.Dir == "" {
		sweep(tempBase(s.account))
		dir, err := os.MkdirTemp(tempBase(s.account), tempPrefix)
		if err != nil {
			return fmt.Errorf("create a directory for the private PostgreSQL: %w", err)
		}
		s.home = dir
		s.scratch = append(s.scratch, dir)
		return s.openUp(dir)
	}
	dir, err := filepath.Abs(s.opts.Dir)
	if err != nil {
		return fmt.Errorf("resolve %s: %w", s.opts.Dir, err)
	}
	s.home = dir
	if _, err := os.Stat(dir); err == nil {
		return nil // the caller's: its mode is the caller's too
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return fmt.Errorf("create a directory for the private PostgreSQL: %w", err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("create a directory for the private PostgreSQL: %w", err)
	}
	return s.openUp(dir)
}

// openUp lets the server's user walk through a directory that we created. What
// must stay private inside it (data, run) is 0700.
func (s *Server) openUp(dir string) error {
	if s.account == nil {
		return nil
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return fmt.Errorf("open %s to the user %s: %w", dir, s.account.name, err)
	}
	return nil
}

// takeLock takes the lock that says who owns a directory. The kernel releases it
// with its holder, whatever kills that one, and it holds across containers that share the file system.
func takeLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, ErrInUse
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return f, nil
}

// tempBase returns the directory for temporary clusters: the system's, unless
// the server's user cannot reach it.
func tempBase(a *account) string {
	base := os.TempDir()
	if a.reach(base) == nil {
		return base
	}
	for _, other := range []string{"/tmp", "/var/tmp"} {
		if a.reach(other) == nil {
			return other
		}
	}
	return base // let the caller's error name it
}

// sweep removes temporary directories whose owner is dead. It is best effort: a
// directory that cannot be judged stays.
func sweep(base string) {
	entries, err := os.ReadDir(base)
	if err != nil {
		return
	}
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), tempPrefix) {
			continue
		}
		dir := filepath.Join(base, e.Name())
		if _, err := os.Stat(filepath.Join(dir, lockName)); err != nil {
			// No lock yet: its owner may be between two steps of acquireHome, or this is a
			// socket directory. An hour later it is litter, unless a server still has its socket there.
			info, statErr := e.Info()
			sockets, _ := filepath.Glob(filepath.Join(dir, ".s.PGSQL.*"))
			if statErr == nil && len(sockets) == 0 && time.Since(info.ModTime()) > time.Hour {
				_ = os.RemoveAll(dir)
			}
			continue
		}
		lock, err := takeLock(filepath.Join(dir, lockName))
		if err != nil {
			continue
		}
		_ = os.RemoveAll(dir)
		_ = lock.Close()
	}
}
