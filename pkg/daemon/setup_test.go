package daemon

import (
	"bytes"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// output is a log that a test reads while others write.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// records decodes the JSON lines written so far.
func (o *output) records(t *testing.T) []map[string]any {
	t.Helper()
	var all []map[string]any
	for line := range strings.Lines(o.String()) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("log line %q is not JSON: %v", line, err)
		}
		all = append(all, m)
	}
	return all
}

// testConfig is a Config as its defaults make it, without an operator address.
func testConfig(t *testing.T) Config {
	t.Helper()
	c, err := Load[Config](nil, []string{"COUNTERSIGN_REPLICA=r-1"})
	if err != nil {
		t.Fatal(err)
	}
	c.OperatorListen = ""
	return c
}

// newRuntime is a Runtime of service that logs to the returned output.
func newRuntime(t *testing.T, service string, secrets ...string) (*Runtime, *output) {
	t.Helper()
	out := &output{}
	rt, err := NewRuntime(t.Context(), RuntimeOptions{Service: service, Config: testConfig(t), Secrets: secrets, Output: out})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rt.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
	return rt, out
}

// eventually polls until is holds.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}
