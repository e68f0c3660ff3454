package localpg

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// clusterMajor returns the major version that a cluster was made by, 0 when there is none yet.
func clusterMajor(data string) (int, error) {
	body, err := os.ReadFile(filepath.Join(data, "PG_VERSION"))
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read the version of the cluster in %s: %w", data, err)
	}
	major, err := strconv.Atoi(strings.TrimSpace(string(body)))
	if err != nil {
		return 0, fmt.Errorf("read the version of the cluster in %s: PG_VERSION holds %q; remove the directory to begin anew", data, body)
	}
	return major, nil
}

// prepareCluster creates the cluster when there is none (major 0) and reads the password it was made with.
func (s *Server) prepareCluster(ctx context.Context, major int) error {
	if major == 0 {
		if err := s.initCluster(ctx); err != nil {
			return err
		}
	}
	password, err := os.ReadFile(filepath.Join(s.home, "password"))
	if err != nil {
		return fmt.Errorf("read the password of the cluster in %s: %w; remove the directory to begin anew", s.home, err)
	}
	s.password = strings.TrimSpace(string(password))
	return nil
}

// initCluster runs initdb in data.new and renames the result. Connections over
// the socket are trusted, since only the server's user reaches it; those over TCP need the password.
func (s *Server) initCluster(ctx context.Context) error {
	begin := time.Now()
	s.opts.Log("postgres: creating a database cluster in %s", s.data())
	fresh := filepath.Join(s.home, "data.new")
	if err := os.RemoveAll(fresh); err != nil {
		return fmt.Errorf("remove the unfinished cluster %s: %w", fresh, err)
	}
	if err := s.account.own(fresh); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(s.home, "password"), []byte(rand.Text()+"\n"), 0o600); err != nil {
		return fmt.Errorf("write the cluster's password: %w", err)
	}
	pwfile, err := s.passwordFor()
	if err != nil {
		return err
	}
	defer os.Remove(pwfile)
	args := []string{
		"-D", fresh, "-U", superuser, "--auth-local=trust", "--auth-host=scram-sha-256", "--pwfile=" + pwfile,
		"-E", "UTF8", "--no-locale", "--no-instructions",
	}
	if !s.opts.Sync {
		args = append(args, "--no-sync")
	}
	cmd := exec.CommandContext(ctx, filepath.Join(s.bin.Dir, "initdb"), args...)
	cmd.Dir = fresh
	cmd.Env = serverEnv()
	cmd.SysProcAttr = s.account.attr()
	// As in spawn: the death signal follows the thread that forked.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	dieWithParent(cmd.SysProcAttr)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("create a database cluster in %s: %w:\n%s", fresh, err, strings.TrimSpace(string(out)))
	}
	if err := os.Rename(fresh, s.data()); err != nil {
		return fmt.Errorf("put the new cluster in place: %w", err)
	}
	s.opts.Log("postgres: cluster created in %.1f s", time.Since(begin).Seconds())
	return nil
}

// passwordFor copies the password to a file that the server's user can read,
// inside the socket directory, which nobody else can.
func (s *Server) passwordFor() (string, error) {
	body, err := os.ReadFile(filepath.Join(s.home, "password"))
	if err != nil {
		return "", fmt.Errorf("read the cluster's password: %w", err)
	}
	path := filepath.Join(s.sockets, "pwfile")
	if err := os.WriteFile(path, body, 0o600); err != nil {
		return "", fmt.Errorf("write the cluster's password: %w", err)
	}
	if s.account != nil {
		if err := os.Chown(path, int(s.account.uid), int(s.account.gid)); err != nil {
			return "", fmt.Errorf("give the cluster's password to %s: %w", s.account.name, err)
		}
	}
	return path, nil
}
