//go:build containers

package containers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

var services = []string{"ingress", "invalidator", "fanout", "evaluator", "reconciler"}

// reached publishes, on ports of the engine's choice, what the tests look at.
const reached = `services:
  github:
    ports: ["127.0.0.1::8790", "127.0.0.1::9090"]
  prometheus:
    ports: ["127.0.0.1::9090"]
`

// stack is one running compose project.
type stack struct {
	project string
	compose []string // the command with its files
}

// container is what the engine says of one.
type container struct {
	ID      string `json:"Id"`
	Name    string
	Created time.Time
	State   struct {
		Status   string
		Pid      int
		ExitCode int
		Health   *struct{ Status string }
	}
	Config struct{ Labels map[string]string }
	// Ports: container port → host addresses.
	NetworkSettings struct {
		Ports    map[string][]struct{ HostIP, HostPort string }
		Networks map[string]struct{ IPAddress string }
	}
}

func (c container) service() string { return c.Config.Labels["com.docker.compose.service"] }

// start brings the system up, scaled as given, and removes it when the test ends.
func start(t *testing.T, scale map[string]int) *stack {
	t.Helper()
	override := filepath.Join(t.TempDir(), "reached.yaml")
	if err := os.WriteFile(override, []byte(reached), 0o600); err != nil {
		t.Fatal(err)
	}
	command := []string{"docker-compose"}
	if exec.Command("docker", "compose", "version").Run() == nil {
		command = []string{"docker", "compose"}
	}
	s := &stack{project: "countersign-test-" + strconv.Itoa(os.Getpid())}
	s.compose = append(command, "-p", s.project, "-f", "../../deploy/compose.yaml", "-f", "../../deploy/compose.offline.yaml", "-f", override, "--profile", "demo")
	t.Cleanup(func() {
		if t.Failed() {
			s.saveLogs(t)
		}
		if out, err := s.run(context.Background(), "down", "--volumes", "--timeout", "10"); err != nil {
			t.Errorf("take it down: %v\n%s", err, out)
		}
	})
	s.scale(t, scale)
	return s
}

// scale brings up so many of each service, one where none is named, and waits until all are healthy.
func (s *stack) scale(t *testing.T, scale map[string]int) {
	t.Helper()
	args := []string{"up", "-d", "--no-build"}
	for service, n := range scale {
		args = append(args, "--scale", fmt.Sprintf("%s=%d", service, n))
	}
	if out, err := s.run(t.Context(), args...); err != nil {
		t.Fatalf("up: %v\n%s", err, out)
	}
	s.awaitHealthy(t)
}

func (s *stack) run(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, s.compose[0], append(slices.Clone(s.compose[1:]), args...)...)
	cmd.Env = append(os.Environ(), "COUNTERSIGN_INGRESS_PORTS=127.0.0.1:28081-28099")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// docker runs the engine's command and returns what it printed.
func docker(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command("docker", args...)
	var out, problem bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problem
	if err := cmd.Run(); err != nil {
		t.Fatalf("docker %s: %v\n%s", strings.Join(args, " "), err, problem.String())
	}
	return out.String()
}

// containers are those of the project, or of one service of it, by name.
func (s *stack) containers(t *testing.T, service string) []container {
	t.Helper()
	filter := []string{"ps", "-aq", "--filter", "label=com.docker.compose.project=" + s.project}
	if service != "" {
		filter = append(filter, "--filter", "label=com.docker.compose.service="+service)
	}
	ids := strings.Fields(docker(t, filter...))
	if len(ids) == 0 {
		t.Fatalf("%s has no container", service)
	}
	var all []container
	if err := json.Unmarshal([]byte(docker(t, append([]string{"inspect"}, ids...)...)), &all); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(all, func(a, b container) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// awaitHealthy waits until every container is healthy, and the one-shots have ended well.
func (s *stack) awaitHealthy(t *testing.T) {
	t.Helper()
	await(t, 5*time.Minute, "every container is healthy", func() error {
		for _, c := range s.containers(t, "") {
			switch c.service() {
			case "secrets", "migrate":
				if c.State.Status != "exited" || c.State.ExitCode != 0 {
					return fmt.Errorf("%s: %s %d", c.Name, c.State.Status, c.State.ExitCode)
				}
			default:
				if c.State.Health == nil || c.State.Health.Status != "healthy" {
					return fmt.Errorf("%s: %s, %+v", c.Name, c.State.Status, c.State.Health)
				}
			}
		}
		return nil
	})
}

// hostAddress is where a container's port is published.
func (c container) hostAddress(port string) string {
	for _, at := range c.NetworkSettings.Ports[port+"/tcp"] {
		return at.HostIP + ":" + at.HostPort
	}
	return ""
}

// address is where this machine reaches a container that runs, on a network that is not closed to it.
func (c container) address() string {
	for name, n := range c.NetworkSettings.Networks {
		if strings.HasSuffix(name, "_observe") {
			return n.IPAddress
		}
	}
	return ""
}

// kill ends a container's process as a crash does; the restart rule brings it back. An engine whose processes are not this
// user's is asked to kill it, and to start it again.
func kill(t *testing.T, c container) {
	t.Helper()
	if err := syscall.Kill(c.State.Pid, syscall.SIGKILL); err == nil {
		return
	}
	docker(t, "kill", c.ID)
	docker(t, "start", c.ID)
}

// story is what the stand-in tells of the story.
type story struct {
	State string            `json:"state"`
	Steps int               `json:"steps"`
	Done  []json.RawMessage `json:"done"`
	Error string            `json:"error"`
}

// story asks how far it is; a stand-in that does not answer tells nothing.
func (s *stack) story(t *testing.T) story {
	t.Helper()
	address := s.containers(t, "github")[0].hostAddress("9090")
	var told story
	client := http.Client{Timeout: 5 * time.Second}
	response, err := client.Get("http://" + address + "/story")
	if err != nil {
		return told
	}
	defer response.Body.Close()
	_ = json.NewDecoder(response.Body).Decode(&told) // cut off by a kill: asked again
	return told
}

// play begins the story anew, lets disturb act when two steps are done, and waits for its end.
func (s *stack) play(t *testing.T, disturb func()) {
	t.Helper()
	docker(t, "restart", "--time", "1", s.containers(t, "github")[0].ID)
	began := time.Now()
	if disturb != nil {
		await(t, 5*time.Minute, "two steps are done", func() error {
			if told := s.story(t); len(told.Done) < 2 {
				return fmt.Errorf("%s, %d steps %s", told.State, len(told.Done), told.Error)
			}
			return nil
		})
		disturb()
	}
	await(t, 10*time.Minute, "the story is complete", func() error {
		told := s.story(t)
		if told.State == "failed" {
			t.Fatalf("the story failed: %s", told.Error)
		}
		if told.State != "complete" || len(told.Done) != told.Steps || told.Steps == 0 {
			return fmt.Errorf("%s, %d of %d steps", told.State, len(told.Done), told.Steps)
		}
		return nil
	})
	t.Logf("the story is complete, %s after the stand-in's start", time.Since(began).Round(100*time.Millisecond))
}

// await polls until is returns nil.
func await(t *testing.T, within time.Duration, what string, is func() error) {
	t.Helper()
	for deadline := time.Now().Add(within); ; time.Sleep(50 * time.Millisecond) {
		err := is()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited %s until %s: %v", within, what, err)
		}
	}
}

// saveLogs keeps what every container wrote.
func (s *stack) saveLogs(t *testing.T) {
	out, err := s.run(context.Background(), "logs", "--no-color", "--timestamps")
	name := filepath.Join(os.TempDir(), s.project+".log")
	if err = errors.Join(err, os.WriteFile(name, []byte(out), 0o600)); err != nil {
		t.Logf("keep the logs: %v", err)
		return
	}
	t.Logf("the logs are in %s", name)
}
