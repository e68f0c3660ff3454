//go:build containers

package containers

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestContainers is one system through everything: bringing it up takes longer than any part.
func TestContainers(t *testing.T) {
	two := map[string]int{}
	for _, service := range services {
		two[service] = 2
	}
	s := start(t, two)
	t.Run("scaled to two: every container is healthy and the story complete", func(t *testing.T) { s.play(t, nil) })
	for _, service := range append(slices.Clone(services), "postgres", "nats", "github") {
		t.Run("the story is complete though "+service+" is killed", func(t *testing.T) {
			s.play(t, func() { kill(t, s.containers(t, service)[0]) })
			s.awaitHealthy(t)
		})
	}
	t.Run("the story is complete though NATS is stopped for a minute", func(t *testing.T) {
		nats := s.containers(t, "nats")[0].ID
		var back time.Time
		s.play(t, func() {
			docker(t, "stop", "--time", "5", nats)
			back = time.Now().Add(time.Minute)
		})
		time.Sleep(time.Until(back)) // the minute itself
		docker(t, "start", nats)
		s.awaitHealthy(t)
	})
	t.Run("three evaluators share the evaluations", func(t *testing.T) {
		s.scale(t, map[string]int{"evaluator": 3})
		s.play(t, nil)
		s.spread(t)
	})
	t.Run("every service is restarted under 20 webhooks a second, and none is lost", func(t *testing.T) {
		s.scale(t, two)
		s.rollUnderLoad(t)
	})
	t.Run("figures at rest", func(t *testing.T) {
		s.scale(t, nil)
		s.figures(t)
	})
}

// spread opens pull requests and counts who evaluated them.
func (s *stack) spread(t *testing.T) {
	t.Helper()
	const pulls = 60
	before := s.evaluations(t)
	people := s.people(t)
	for i := range pulls {
		people.openPull(t, i)
	}
	var total int
	var counts map[string]int
	await(t, 5*time.Minute, "every pull request was evaluated", func() error {
		total, counts = 0, s.evaluations(t)
		for name := range counts {
			counts[name] -= before[name]
			total += counts[name]
		}
		if total < pulls {
			return fmt.Errorf("%d of %d", total, pulls)
		}
		return nil
	})
	t.Logf("%d pull requests, %d publications: %v", pulls, total, counts)
	if len(counts) != 3 {
		t.Fatalf("%d evaluators", len(counts))
	}
	for name, n := range counts {
		if n < total/10 {
			t.Errorf("%s made %d of %d: the work is not shared", name, n, total)
		}
	}
}

// evaluations counts what each evaluator published, from its log.
func (s *stack) evaluations(t *testing.T) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for _, c := range s.containers(t, "evaluator") {
		// The log's own stream is standard error.
		out := dockerBoth(t, "logs", c.ID)
		counts[c.Name] = strings.Count(out, `"msg":"evaluation ended"`) - strings.Count(out, `"outcome":"unfinished"`)
	}
	return counts
}

// figures prints a table of sizes, times to ready and memory, as docs/operations.md shows it.
func (s *stack) figures(t *testing.T) {
	t.Helper()
	var table strings.Builder
	fmt.Fprintf(&table, "\n| service | image | ready after start | memory at rest |\n|---|---|---|---|\n")
	for _, service := range services {
		c := s.containers(t, service)[0]
		ready := s.timeToReady(t, c)
		time.Sleep(5 * time.Second) // at rest: what a start allocated is used and freed
		size := strings.TrimSpace(docker(t, "inspect", "--format", "{{.Size}}", "countersign/"+service+":devel"))
		used, _, _ := strings.Cut(docker(t, "stats", "--no-stream", "--format", "{{.MemUsage}}", c.ID), " ")
		fmt.Fprintf(&table, "| %s | %s bytes | %s | %s |\n", service, size, ready.Round(10*time.Millisecond), used)
	}
	t.Log(table.String())
}

// timeToReady restarts a container and asks its operator address, on the engine's network, until it is ready. It counts from
// the moment the engine says the process began.
func (s *stack) timeToReady(t *testing.T, c container) time.Duration {
	t.Helper()
	docker(t, "restart", "--time", "35", c.ID)
	began, err := time.Parse(time.RFC3339Nano, strings.TrimSpace(docker(t, "inspect", "--format", "{{.State.StartedAt}}", c.ID)))
	if err != nil {
		t.Fatal(err)
	}
	var address string
	for _, now := range s.containers(t, c.service()) {
		if now.ID == c.ID {
			address = now.address()
		}
	}
	client := http.Client{Timeout: time.Second}
	var took time.Duration
	await(t, time.Minute, c.Name+" is ready", func() error {
		response, err := client.Get("http://" + address + ":9090/health/ready")
		if err != nil {
			return err
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("status %d", response.StatusCode)
		}
		took = time.Since(began)
		return nil
	})
	return took
}
