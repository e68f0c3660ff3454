package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/countersign/countersign/internal/system"
	"github.com/countersign/countersign/pkg/store/storetest"
)

// processes runs each service as its own process.
type processes struct {
	*bench
	bin     string
	ports   map[string]int // operator ports
	running map[string]*exec.Cmd
}

// TestProcesses plays the story over real processes: each is killed once in mid-story and started again, and at the end each is
// told to stop.
func TestProcesses(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := &processes{bench: b, bin: t.TempDir(), ports: map[string]int{}, running: map[string]*exec.Cmd{}}
	p.build(t)
	address := b.ingress.Addr().String()
	if err := b.ingress.Close(); err != nil { // the process listens there from now on
		t.Fatal(err)
	}
	t.Cleanup(p.killAll)
	for _, s := range system.Services {
		p.ports[s] = freePort(t)
		p.start(t, s, address)
	}
	for _, s := range system.Services {
		p.ready(t, s)
	}
	// The service killed at each step, right after what the step did: its work is on its way.
	victims := map[int]string{2: "evaluator", 3: "invalidator", 5: "reconciler", 7: "fanout"}
	b.stage.Hook = func(step int, done bool) {
		victim := victims[step]
		if step == 6 && !done { // nothing is sent to it while it is down: a lost delivery is another story
			victim = "ingress"
		} else if !done {
			return
		}
		if victim != "" {
			p.kill(t, victim)
			p.start(t, victim, address)
			p.ready(t, victim)
		}
	}
	t.Run("each service killed by SIGKILL and restarted: the story completes", func(t *testing.T) { p.play(t) })
	t.Run("SIGTERM: every service exits 0 within its grace and no lease is left behind", func(t *testing.T) {
		for _, s := range system.Services {
			if err := p.running[s].Process.Signal(syscall.SIGTERM); err != nil {
				t.Errorf("%s: %v", s, err)
			}
		}
		for _, s := range system.Services {
			p.exited(t, s, 30*time.Second)
		}
		p.noLeaseLeft(t)
	})
}

func (p *processes) build(t *testing.T) {
	t.Helper()
	_, file, _, _ := runtime.Caller(0)
	args := []string{"build", "-o", p.bin + "/"}
	for _, s := range system.Services {
		args = append(args, "./cmd/"+s)
	}
	cmd := exec.Command("go", args...)
	cmd.Dir = filepath.Join(filepath.Dir(file), "..", "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the services: %v\n%s", err, out)
	}
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func (p *processes) start(t *testing.T, service, ingress string) {
	t.Helper()
	vars := p.environ()
	vars["COUNTERSIGN_DATABASE_URL"] = p.db.URL(storetest.Role("countersign_" + service))
	vars["COUNTERSIGN_OPERATOR_LISTEN"] = fmt.Sprintf("127.0.0.1:%d", p.ports[service])
	if service == "ingress" {
		vars["COUNTERSIGN_INGRESS_LISTEN"] = ingress
		delete(vars, "COUNTERSIGN_GITHUB_PRIVATE_KEY") // it holds no key, and has no setting for one
		delete(vars, "COUNTERSIGN_GITHUB_API_URL")
	} else {
		delete(vars, "COUNTERSIGN_WEBHOOK_SECRET")
	}
	if service == "invalidator" || service == "evaluator" {
		vars["COUNTERSIGN_WORKER_LEASE"] = "30s" // a killed holder's work comes back after this
	}
	cmd := exec.Command(filepath.Join(p.bin, service))
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	for _, k := range slices.Sorted(maps.Keys(vars)) {
		cmd.Env = append(cmd.Env, k+"="+vars[k])
	}
	cmd.Stdout, cmd.Stderr = p.log, p.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", service, err)
	}
	p.running[service] = cmd
}

// ready waits for the service's readiness, which names what is missing.
func (p *processes) ready(t *testing.T, service string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/health/ready", p.ports[service]), nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return
			}
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s did not become ready\n%s", service, p.log)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (p *processes) kill(t *testing.T, service string) {
	t.Helper()
	if err := p.running[service].Process.Kill(); err != nil {
		t.Errorf("kill %s: %v", service, err)
	}
	_ = p.running[service].Wait()
}

func (p *processes) exited(t *testing.T, service string, within time.Duration) {
	t.Helper()
	done := make(chan error, 1)
	cmd := p.running[service]
	go func() { done <- cmd.Wait() }()
	select {
	case err := <-done:
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Errorf("%s exited with %d", service, exit.ExitCode())
		}
		delete(p.running, service)
	case <-time.After(within):
		t.Errorf("%s did not exit within %s", service, within)
	}
}

func (p *processes) killAll() {
	for _, cmd := range p.running {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	if strings.Contains(p.log.String(), "panic:") {
		p.tb.Error("a service panicked")
	}
}
