package e2e

import (
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/countersign/countersign/pkg/githubsim"
)

// spans is an OpenTelemetry collector that keeps, for each trace, the names of its spans with their service.
type spans struct {
	mu     sync.Mutex
	traces map[string][]string
	raw    strings.Builder // every export as it was sent: names, attributes and error texts are readable in it
	server *httptest.Server
}

func collectSpans(t *testing.T) *spans {
	t.Helper()
	s := &spans{traces: map[string][]string{}}
	s.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var batch collector.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &batch)
		}
		if err != nil {
			t.Errorf("unreadable export: %v", err)
		}
		s.keep(&batch)
		s.mu.Lock()
		s.raw.Write(body)
		s.mu.Unlock()
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(s.server.Close)
	return s
}

func (s *spans) keep(batch *collector.ExportTraceServiceRequest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, resource := range batch.GetResourceSpans() {
		service := ""
		for _, a := range resource.GetResource().GetAttributes() {
			if a.GetKey() == "service.name" {
				service = strings.TrimPrefix(a.GetValue().GetStringValue(), "countersign-")
			}
		}
		for _, scope := range resource.GetScopeSpans() {
			for _, span := range scope.GetSpans() {
				id := hex.EncodeToString(span.GetTraceId())
				s.traces[id] = append(s.traces[id], service+": "+span.GetName())
			}
		}
	}
}

// clean holds everything that was exported to contain none of the secrets, and to be enough to say so.
func (s *spans) clean(t *testing.T, secrets []string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	sent := s.raw.String()
	if len(sent) < 10_000 || !strings.Contains(sent, "github") {
		t.Errorf("only %d bytes were exported", len(sent))
	}
	for _, secret := range secrets {
		if strings.Contains(sent, secret) {
			t.Errorf("%.12q… is in a trace", secret)
		}
	}
}

// pathOfAWebhook is what the trace of one webhook holds, when nothing else queued its pull request meanwhile.
var pathOfAWebhook = []string{
	"ingress: webhook", "ingress: commit", "invalidator: nudge receive", "invalidator: invalidate", "invalidator: reset",
	"evaluator: evaluate", "evaluator: snapshot", "evaluator: publish", "evaluator: HTTP PATCH",
}

// whole reports whether one trace holds the whole path; otherwise what the traces of publications lack.
func (s *spans) whole() (found bool, lacks [][]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, names := range s.traces {
		if !slices.Contains(names, "evaluator: publish") {
			continue
		}
		missing := slices.DeleteFunc(slices.Clone(pathOfAWebhook), func(name string) bool { return slices.Contains(names, name) })
		if len(missing) == 0 {
			return true, nil
		}
		lacks = append(lacks, missing)
	}
	return false, lacks
}

// TestTrace: one webhook is one trace, from its receipt to the published check, across services and their requests to GitHub.
// A pull request that the reconciler finds in the same instant is published in the reconciler's trace, hence the second try.
func TestTrace(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := collectSpans(t)
	b.otlp = s.server.URL
	b.start(t, 1)
	// One request fails on the way, so that an error is among what the traces carry.
	b.sim.Inject(githubsim.Fault{Method: "POST", Route: "/graphql", Answer: githubsim.AnswerStatus})
	var lacks [][]string
	for range 3 {
		repo := b.stage.World.Repository
		number, err := b.sim.OpenPull(repo, githubsim.Pull{Author: "dave", Files: map[string]string{"go.sum": "example.com/x v1\n"}})
		if err != nil {
			t.Fatal(err)
		}
		head := b.sim.Head(repo, number)
		await(t, 2*time.Minute, func() bool {
			check, ok := b.sim.LatestCheck(repo, head, checkName)
			return ok && check.Conclusion != ""
		})
		found := false
		for deadline := time.Now().Add(20 * time.Second); !found && time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
			found, lacks = s.whole() // spans leave every five seconds
		}
		if found {
			t.Run("RG-444 I10 key, secret and tokens are in no trace", func(t *testing.T) { s.clean(t, b.secrets()) })
			return
		}
	}
	t.Errorf("no trace goes from a webhook to its check; those of publications lack %q", lacks)
}

func await(t *testing.T, most time.Duration, reached func() bool) {
	t.Helper()
	for deadline := time.Now().Add(most); !reached(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not reached in time")
		}
	}
}
