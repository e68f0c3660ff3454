package localpg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is one run of the postmaster. done is closed when it was waited for.
type process struct {
	pid  int
	done chan struct{}
	cmd  *exec.Cmd
}

func (p *process) exited() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

func (p *process) signal(sig syscall.Signal) {
	if !p.exited() {
		_ = p.cmd.Process.Signal(sig) // it may have exited meanwhile
	}
}

// spawn starts the command on an OS thread of its own and keeps that thread
// until the command ended: the parent-death signal fires when the *thread* that
// forked dies, which for an ordinary goroutine is whenever the runtime likes.
func spawn(cmd *exec.Cmd) (*process, error) {
	started := make(chan error, 1)
	p := &process{done: make(chan struct{}), cmd: cmd}
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		p.pid = cmd.Process.Pid
		started <- nil
		_ = cmd.Wait() // how it ended is in its log
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// launch starts the postmaster and waits until it accepts connections. A
// predecessor that is still dying (its parent was killed a moment ago) is waited for.
// The caller holds mu, or owns s alone.
func (s *Server) launch(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for {
		from := logSize(s.logPath())
		proc, err := s.spawnPostmaster()
		if err != nil {
			return fmt.Errorf("start private PostgreSQL in %s: %w", s.home, err)
		}
		ready, err := s.awaitReady(ctx, proc)
		if ready {
			s.proc = proc
			return nil
		}
		said := logSince(s.logPath(), from)
		if err == nil && predecessorLives(said) {
			err = pause(ctx, 50*time.Millisecond)
			if err == nil {
				continue
			}
		}
		if err == nil {
			err = errors.New("the server exited")
		}
		return fmt.Errorf("start private PostgreSQL in %s: %w; its log (%s) says:\n%s", s.home, err, s.logPath(), said)
	}
}

func (s *Server) spawnPostmaster() (*process, error) {
	logFile, err := os.OpenFile(s.logPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer logFile.Close() // the child has its own descriptor
	cmd := exec.Command(filepath.Join(s.bin.Dir, "postgres"), s.postmasterArgs()...)
	cmd.Dir = s.data() // our own working directory may be closed to the server's user
	cmd.Env = serverEnv()
	cmd.Stdout, cmd.Stderr = logFile, logFile
	cmd.SysProcAttr = s.account.attr()
	dieWithParent(cmd.SysProcAttr)
	return spawn(cmd)
}

func (s *Server) postmasterArgs() []string {
	connections := s.opts.MaxConnections
	if connections == 0 {
		connections = 100
	}
	settings := []string{
		"listen_addresses=",
		"unix_socket_permissions=0700",
		"port=" + strconv.Itoa(s.port()),
		"max_connections=" + strconv.Itoa(connections),
		"timezone=UTC",
		"log_timezone=UTC",
	}
	if s.opts.Port != 0 {
		settings[0] = "listen_addresses=127.0.0.1"
	}
	if !s.opts.Sync {
		settings = append(settings, "fsync=off", "synchronous_commit=off", "full_page_writes=off")
	}
	args := []string{"-D", s.data(), "-k", s.sockets}
	for _, setting := range settings {
		args = append(args, "-c", setting)
	}
	return args
}

// awaitReady polls postmaster.pid, whose eighth line turns to "ready" when
// connections are accepted (what pg_ctl -w reads). It returns false and nil when the process
// exited by itself. On an error the process has been killed.
func (s *Server) awaitReady(ctx context.Context, proc *process) (bool, error) {
	for {
		if proc.exited() {
			return false, nil
		}
		if postmasterReady(filepath.Join(s.data(), "postmaster.pid"), proc.pid) {
			return true, nil
		}
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			proc.signal(syscall.SIGKILL)
			<-proc.done
			return false, err
		}
	}
}

func postmasterReady(path string, pid int) bool {
	body, err := os.ReadFile(path)
	if err != nil {
		return false
	}
	lines := strings.Split(string(body), "\n")
	return len(lines) >= 8 &&
		strings.TrimSpace(lines[0]) == strconv.Itoa(pid) &&
		strings.TrimSpace(lines[7]) == "ready"
}

// predecessorLives recognises PostgreSQL's refusal to start beside processes of
// an earlier run that have not ended yet. LC_ALL=C keeps the text English.
func predecessorLives(said string) bool {
	return strings.Contains(said, "pre-existing shared memory block") ||
		strings.Contains(said, `lock file "postmaster.pid" already exists`)
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func logSize(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// logSince returns what the server wrote after offset, at most its last 2,000 bytes.
func logSince(path string, offset int64) string {
	body, err := os.ReadFile(path)
	if err != nil {
		return "(no log: " + err.Error() + ")"
	}
	said := string(body[min(offset, int64(len(body))):])
	if len(said) > 2000 {
		said = "…" + said[len(said)-2000:]
	}
	return strings.TrimSpace(said)
}
