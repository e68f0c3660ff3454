package githubsim

import (
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"
)

// ReopenRun says what a PATCH does that moves a completed check run back to an
// unfinished status. Nobody has confirmed which of them github.com does.
type ReopenRun int

// The positions of Switches.ReopenRun.
const (
	ReopenTakesEffect ReopenRun = iota // conclusion and completed_at become null
	ReopenIgnored                      // 200, and the run stays completed
	ReopenRefused                      // 422
)

// LatestBy says which of several check runs of one name filter=latest shows.
type LatestBy int

// The positions of Switches.LatestBy.
const (
	LatestByID          LatestBy = iota // the one made last
	LatestByCompletedAt                 // the one completed last; an unfinished one only where none is completed
)

// Switches are the behaviours of GitHub that are not settled or that change
// with load. The zero value is a healthy GitHub.
type Switches struct {
	ReopenRun ReopenRun
	LatestBy  LatestBy
	// ReadLag is the number of reads, of any client, that do not yet show a write:
	// eventual consistency. 0 shows every write at once.
	ReadLag int
	// Latency delays every answer.
	Latency time.Duration
	// FrozenBaseSHA makes a pull request's base.sha and baseRefOid the tip of the
	// base branch when the pull request was opened, last pushed to or retargeted,
	// instead of its tip now. Reports from github.com describe both.
	FrozenBaseSHA bool
	// ShortTokens issues the old form of installation tokens, ghs_ and 36
	// characters, instead of the long one that holds a signed statement.
	ShortTokens bool
	// RateLimit is an installation's hourly budget; 0 is GitHub's 5,000 and more
	// for many repositories. It is read when an hour begins.
	RateLimit int
	// RateLimitStatus is the status of an exceeded budget on REST: 403 or 429; 0 is 403.
	RateLimitStatus int
	// MaxConcurrent is the number of requests of one installation in flight above
	// which a secondary limit is answered: GitHub's is 100. 0 is no limit.
	MaxConcurrent int
	// MaxContentPerMinute is the number of POST and PATCH requests of one
	// installation in a minute above which a secondary limit is answered: GitHub's
	// is 80. 0 is no limit.
	MaxContentPerMinute int
	// PullFilesLimit is the number of files of a pull request that can be listed; 0 is 3,000.
	PullFilesLimit int
	// SecretTeamsHidden answers 404 for a secret team to every App, instead of the
	// team with its privacy.
	SecretTeamsHidden bool
	// TreeLimit is the number of entries after which a recursive tree is truncated; 0 is 100,000.
	TreeLimit int
}

// Set replaces all switches. It takes effect on the next request.
func (s *Sim) Set(w Switches) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.switches = w
	if w.ReadLag == 0 {
		s.past = nil
	}
}

// Switches returns the switches as they are.
func (s *Sim) Switches() Switches {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.switches
}

// Answer is what a Fault answers instead of the truth.
type Answer int

// The answers of a fault.
const (
	AnswerStatus    Answer = iota // Status (0: 502) with a JSON message
	AnswerHTML                    // Status (0: 502) with an HTML page
	AnswerHangUp                  // the connection is closed without an answer
	AnswerPrimary                 // the hourly budget is used up: Status 403 or 429; GraphQL 200
	AnswerSecondary               // a secondary rate limit: Status 403 or 429; GraphQL 200
	AnswerTruth                   // the true answer: for a Fault that only delays, or that lies
	AnswerTruncated               // the true status and half of the true body
	AnswerNotJSON                 // the true status, Content-Type text/html and a page
)

// Fault makes requests that match fail. The zero value fails the next request of
// any kind with 502 before it is applied.
type Fault struct {
	Method string // "": any
	// Route is a route as GitHub's documentation writes it, such as
	// "/repos/{owner}/{repo}/check-runs/{check_run_id}", or "/graphql"; "": any.
	Route   string
	Contain string // text that the request's body must hold; "": any
	Skip    int    // matching requests to let pass first
	Times   int    // matching requests to fail; 0 means 1, negative for ever
	// Applied: the request takes effect, and only its answer is lost.
	Applied bool
	// Lie: the request is answered as if it took effect, and it did not.
	Lie        bool
	Answer     Answer
	Status     int
	RetryAfter string        // header Retry-After; "": none
	Delay      time.Duration // before anything else
	Late       bool          // what was delayed takes effect even when the client has stopped waiting
	// Until blocks the request until the channel is closed or the client is gone.
	Until <-chan struct{}
	// Seen, if set, is closed when the fault first matches.
	Seen chan<- struct{}

	passed, failed int
}

// Inject adds a fault. Faults are tried in the order they were added; the first
// that matches decides.
func (s *Sim) Inject(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, &f)
}

// ClearFaults removes all faults, of requests and of webhooks.
func (s *Sim) ClearFaults() {
	s.mu.Lock()
	s.faults = nil
	s.mu.Unlock()
	s.hooks.mu.Lock()
	s.hooks.faults = nil
	s.hooks.mu.Unlock()
}

// faultFor finds and counts the fault of a request. The lock is held.
func (s *Sim) faultFor(r *http.Request, route string, body []byte) *Fault {
	for _, f := range s.faults {
		if f.Method != "" && f.Method != r.Method || f.Route != "" && f.Route != route || !strings.Contains(string(body), f.Contain) {
			continue
		}
		if f.passed < f.Skip {
			f.passed++
			continue
		}
		if f.Times >= 0 && f.failed >= max(1, f.Times) {
			continue
		}
		f.failed++
		if f.Seen != nil && f.failed == 1 {
			close(f.Seen)
		}
		return f
	}
	return nil
}

// WebhookFate is what happens to a webhook instead of one prompt delivery.
type WebhookFate int

// The fates of a webhook.
const (
	WebhookDropped     WebhookFate = iota // never sent, and absent from the delivery log
	WebhookUnreachable                    // in the delivery log as "failed to connect", never sent
	WebhookDoubled                        // sent twice under one GUID
	WebhookDelayed                        // sent Delay later
)

// WebhookFault changes the fate of the next webhooks that match.
type WebhookFault struct {
	Event, Action string // "": any
	Times         int    // 0 means 1, negative for ever
	Fate          WebhookFate
	Delay         time.Duration

	used int
}

// InjectWebhook adds a webhook fault; the first that matches decides.
func (s *Sim) InjectWebhook(f WebhookFault) {
	s.hooks.mu.Lock()
	defer s.hooks.mu.Unlock()
	s.hooks.faults = append(s.hooks.faults, &f)
}

func (d *dispatcher) fate(v *delivery) []*delivery {
	for _, f := range d.faults {
		if f.Event != "" && f.Event != v.event || f.Action != "" && f.Action != v.action || f.Times >= 0 && f.used >= max(1, f.Times) {
			continue
		}
		f.used++
		switch f.Fate {
		case WebhookDropped:
			return nil
		case WebhookUnreachable:
			v.unreachable = true
		case WebhookDoubled:
			twin := *v
			return []*delivery{v, &twin}
		case WebhookDelayed:
			v.wait = f.Delay
		}
		return []*delivery{v}
	}
	return []*delivery{v}
}

// HoldWebhooks keeps webhooks back until ReleaseWebhooks.
func (s *Sim) HoldWebhooks() {
	s.hooks.mu.Lock()
	defer s.hooks.mu.Unlock()
	s.hooks.holding = true
}

// ReleaseWebhooks sends what was held back in an order drawn from seed; 0 keeps
// the order of the changes, -1 turns it round.
func (s *Sim) ReleaseWebhooks(seed int64) {
	d := s.hooks
	d.mu.Lock()
	defer d.mu.Unlock()
	d.holding = false
	switch {
	case seed == -1:
		slices.Reverse(d.held)
	case seed != 0:
		r := rand.New(rand.NewPCG(uint64(seed), 1)) //nolint:gosec // a reproducible shuffle
		r.Shuffle(len(d.held), func(i, j int) { d.held[i], d.held[j] = d.held[j], d.held[i] })
	}
	d.queue, d.held = append(d.queue, d.held...), nil
	d.wake.Broadcast()
}
