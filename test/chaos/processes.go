package chaos

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/countersign/countersign/internal/reference"
)

// processes runs every replica as a process of its own; kill is SIGKILL, pause SIGSTOP and SIGCONT, stop SIGTERM.
type processes struct {
	stage *stage

	mu       sync.Mutex
	members  []*process
	broken   []string
	restarts int
	started  int
	closed   bool
}

type process struct {
	service string
	url     string
	cmd     *exec.Cmd
	done    chan struct{}
	err     error
}

func newProcesses(s *stage) *processes { return &processes{stage: s} }

func (f *processes) start(service string, vars map[string]string) error {
	all := maps.Clone(f.stage.environ)
	maps.Copy(all, vars)
	all["COUNTERSIGN_DATABASE_URL"] = f.stage.db.url("countersign_"+service, "")
	all["COUNTERSIGN_OPERATOR_LISTEN"] = "127.0.0.1:0"
	p := &process{service: service, done: make(chan struct{})}
	if service == "ingress" {
		port, err := freePort()
		if err != nil {
			return err
		}
		p.url = "http://" + port
		all["COUNTERSIGN_INGRESS_LISTEN"] = port
	}
	known, err := settingsOf(service)
	if err != nil {
		return err
	}
	p.cmd = exec.Command(filepath.Join(f.stage.opts.Binaries, service)) //nolint:gosec // built by whoever runs this
	p.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "CHAOS_PACE=100", "CHAOS_REMOVE=" + os.Getenv("CHAOS_REMOVE"), "GORACE=halt_on_error=1 exitcode=66"}
	for _, k := range slices.Sorted(maps.Keys(all)) {
		if known[k] {
			p.cmd.Env = append(p.cmd.Env, k+"="+all[k])
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.started++
	// A clock that is wrong by some seconds, either way: every third process has one.
	if skew := f.stage.plan.Seed + uint64(f.started); skew%3 == 0 {
		p.cmd.Env = append(p.cmd.Env, fmt.Sprintf("CHAOS_SKEW=%ds", int64(skew%61)-30))
	}
	p.cmd.Stdout, p.cmd.Stderr = f.stage.log, f.stage.log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if f.closed {
		return nil
	}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	f.members = append(f.members, p)
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
		f.ended(p, vars)
	}()
	return nil
}

// ended starts a process again that ended by itself, as an orchestrator does; a panic or a race is what must not be.
func (f *processes) ended(p *process, vars map[string]string) {
	if !f.remove(p) {
		return
	}
	f.stage.log.Printf("%s ended by itself: %v", p.service, p.err)
	var exit *exec.ExitError
	f.mu.Lock()
	f.restarts++
	if errors.As(p.err, &exit) && (exit.ExitCode() == 2 || exit.ExitCode() == 66) {
		f.broken = append(f.broken, fmt.Sprintf("%s exited with %d", p.service, exit.ExitCode()))
	}
	again := f.restarts < 200
	f.mu.Unlock()
	time.Sleep(100 * time.Millisecond)
	if again {
		if err := f.start(p.service, vars); err != nil {
			f.stage.log.Printf("restart %s: %v", p.service, err)
		}
	}
}

func (f *processes) remove(p *process) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.Index(f.members, p)
	if i < 0 {
		return false
	}
	f.members = slices.Delete(slices.Clone(f.members), i, i+1)
	return !f.closed
}

func (f *processes) nth(service string, n uint64) *process {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []*process
	for _, p := range f.members {
		if p.service == service {
			list = append(list, p)
		}
	}
	p, _ := pick(list, n)
	return p
}

func (f *processes) kill(service string, n uint64) bool {
	p := f.nth(service, n)
	if p == nil || !f.remove(p) {
		return false
	}
	_ = p.cmd.Process.Kill()
	return true
}

func (f *processes) pause(service string, n uint64, d time.Duration) bool {
	p := f.nth(service, n)
	if p == nil {
		return false
	}
	_ = p.cmd.Process.Signal(syscall.SIGSTOP)
	time.AfterFunc(d, func() { _ = p.cmd.Process.Signal(syscall.SIGCONT) })
	return true
}

func (f *processes) resume() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.members {
		_ = p.cmd.Process.Signal(syscall.SIGCONT)
	}
}

func (f *processes) running(service string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.members {
		if p.service == service {
			n++
		}
	}
	return n
}

func (f *processes) ingress() (list []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.members {
		if p.service == "ingress" {
			list = append(list, p.url)
		}
	}
	return list
}

func (f *processes) crashed() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.broken)
}

func (f *processes) stop(ctx context.Context, service string) error {
	f.mu.Lock()
	var stopping, staying []*process
	for _, p := range f.members {
		if service == "" || p.service == service {
			stopping = append(stopping, p)
		} else {
			staying = append(staying, p)
		}
	}
	f.members = staying
	f.closed = f.closed || service == ""
	f.mu.Unlock()
	for _, p := range stopping {
		_ = p.cmd.Process.Signal(syscall.SIGCONT)
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
	}
	var errs []error
	for _, p := range stopping {
		select {
		case <-p.done:
			var exit *exec.ExitError
			if errors.As(p.err, &exit) {
				errs = append(errs, fmt.Errorf("%s, told to stop, exited with %d", p.service, exit.ExitCode()))
			}
		case <-ctx.Done():
			_ = p.cmd.Process.Kill()
			errs = append(errs, fmt.Errorf("%s did not stop: %w", p.service, ctx.Err()))
		}
	}
	return errors.Join(errs...)
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String(), nil
}

// settingsOf lists the variables that a service's process knows: it refuses to start with one it does not.
func settingsOf(service string) (map[string]bool, error) {
	known := map[string]bool{}
	for _, s := range reference.Sections() {
		if s.Name == service {
			collectSettings(reflect.TypeOf(s.Config), known)
		}
	}
	if len(known) == 0 {
		return nil, fmt.Errorf("no settings of a service %q", service)
	}
	return known, nil
}

func collectSettings(t reflect.Type, into map[string]bool) {
	if t.Kind() != reflect.Struct {
		return
	}
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("env"), ",")
		if name != "" {
			into[name] = true
			continue
		}
		collectSettings(t.Field(i).Type, into)
	}
}
