package daemon

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"sync"
	"time"
)

// checkTimeout bounds one readiness check, so that a hung database makes an
// answer that says so instead of a hung answer.
const checkTimeout = 2 * time.Second

// Check says what is missing, or nil. Its error is shown on the operator
// address: name the thing and the mend, never a secret.
type Check func(ctx context.Context) error

// Status of a check, a task or a whole process.
type Status string

// The statuses. Degraded works, slower or with less; Failed does not work.
const (
	StatusOK       Status = "ok"
	StatusDegraded Status = "degraded"
	StatusFailed   Status = "failed"
)

// Finding is the answer of one check or task.
type Finding struct {
	Name    string `json:"name"`
	Status  Status `json:"status"`
	Missing string `json:"missing,omitempty"`
}

// Health is what one service knows about itself. Liveness depends on its own
// tasks only (RG-471); readiness on its named checks (RG-472). Safe for concurrent use.
type Health struct {
	redact *Redactor

	mu       sync.Mutex
	required map[string]Check
	optional map[string]Check
	tasks    map[string]*task
	stopping bool
}

type task struct {
	dead bool
	err  error
}

// NewHealth returns a service that is live and, until its first required check
// is registered, not ready.
func NewHealth(redact *Redactor) *Health {
	return &Health{redact: redact, required: map[string]Check{}, optional: map[string]Check{}, tasks: map[string]*task{}}
}

// Require registers a check without which the service is not ready. A second
// registration of a name replaces the first.
func (h *Health) Require(name string, check Check) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.required[name] = check
}

// Prefer registers a check whose failure is shown as degraded and leaves the
// service ready: NATS, whose loss only makes it slower (I7).
func (h *Health) Prefer(name string, check Check) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.optional[name] = check
}

// Task registers a local task as alive. Call ended once when it returns; live
// stays true only if it was told to stop, which expected says.
func (h *Health) Task(name string) (ended func(expected bool, err error)) {
	t := &task{}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tasks[name] = t
	return func(expected bool, err error) {
		h.mu.Lock()
		defer h.mu.Unlock()
		if expected {
			if h.tasks[name] == t {
				delete(h.tasks, name)
			}
			return
		}
		t.dead = true
		t.err = err
	}
}

// Stopping makes the service not ready, so that nothing new is sent to it while it drains.
func (h *Health) Stopping() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopping = true
}

// Live reports every task; ok is false only when one died (RG-471). It asks
// neither the database nor GitHub.
func (h *Health) Live() (findings []Finding, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	ok = true
	for name, t := range h.tasks {
		f := Finding{Name: name, Status: StatusOK}
		if t.dead {
			ok = false
			f.Status = StatusFailed
			f.Missing = "the task ended while the process was meant to run"
			if t.err != nil {
				f.Missing += ": " + h.redact.String(t.err.Error())
			}
		}
		findings = append(findings, f)
	}
	sortFindings(findings)
	return findings, ok
}

// Ready runs every check, at once and each within two seconds, and reports what
// is missing. The worst finding is the status; only failed means not ready.
func (h *Health) Ready(ctx context.Context) (findings []Finding, worst Status) {
	findings = h.ask(ctx)
	tasks, live := h.Live()
	if !live {
		for _, t := range tasks {
			if t.Status == StatusFailed {
				findings = append(findings, t)
			}
		}
	}
	sortFindings(findings)
	return findings, worstOf(findings)
}

// checks says which named checks pass.
func (h *Health) checks(ctx context.Context) map[string]bool {
	passed := map[string]bool{}
	for _, f := range h.ask(ctx) {
		passed[f.Name] = f.Status == StatusOK
	}
	return passed
}

// ask runs every check at once.
func (h *Health) ask(ctx context.Context) []Finding {
	h.mu.Lock()
	stopping := h.stopping
	var asked []func() Finding
	for name, c := range h.required {
		asked = append(asked, func() Finding { return h.askOne(ctx, name, c, StatusFailed) })
	}
	for name, c := range h.optional {
		asked = append(asked, func() Finding { return h.askOne(ctx, name, c, StatusDegraded) })
	}
	if len(h.required) == 0 {
		asked = append(asked, func() Finding {
			return Finding{Name: "start", Status: StatusFailed, Missing: "the service has not finished starting"}
		})
	}
	if stopping {
		asked = append(asked, func() Finding {
			return Finding{Name: "stop", Status: StatusFailed, Missing: "the service was told to stop and is finishing what it began"}
		})
	}
	h.mu.Unlock()

	findings := make([]Finding, len(asked))
	var wg sync.WaitGroup
	for i, ask := range asked {
		wg.Go(func() { findings[i] = ask() })
	}
	wg.Wait()
	return findings
}

func (h *Health) askOne(ctx context.Context, name string, check Check, bad Status) Finding {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	err := check(ctx)
	if err == nil {
		return Finding{Name: name, Status: StatusOK}
	}
	text := h.redact.String(err.Error())
	if errors.Is(err, context.DeadlineExceeded) {
		text = fmt.Sprintf("no answer within %s: %s", checkTimeout, text)
	}
	return Finding{Name: name, Status: bad, Missing: text}
}

func worstOf(findings []Finding) Status {
	worst := StatusOK
	for _, f := range findings {
		switch {
		case f.Status == StatusFailed:
			return StatusFailed
		case f.Status == StatusDegraded:
			worst = StatusDegraded
		}
	}
	return worst
}

func sortFindings(f []Finding) {
	sort.Slice(f, func(i, j int) bool { return f[i].Name < f[j].Name })
}
