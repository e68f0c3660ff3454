package githubsim

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// budgetKey names one hourly budget: of an installation, a user or an App, and
// of one resource.
type budgetKey struct {
	kind     string
	id       int64
	resource string // core or graphql
}

type budget struct {
	limit, used int
	reset       time.Time
}

func (b *budget) remaining() int { return max(0, b.limit-b.used) }

func (c *call) budgetKey() budgetKey {
	resource := "core"
	if c.route != nil && c.route.resource != "" {
		resource = c.route.resource
	}
	switch {
	case c.who.user != nil:
		return budgetKey{"user", c.who.user.id, resource}
	case c.who.token != nil:
		return budgetKey{"installation", c.who.token.installID, resource}
	case c.who.app != nil:
		return budgetKey{"app", c.who.app.id, resource}
	}
	return budgetKey{"nobody", 0, resource}
}

// budget returns the current hour's budget, beginning a new hour if need be.
func (s *Sim) budget(k budgetKey) *budget {
	b := s.budgets[k]
	if b == nil || !s.now().Before(b.reset) {
		b = &budget{limit: s.limitOf(k), reset: s.tick().Add(time.Hour)}
		s.budgets[k] = b
	}
	return b
}

// limitOf is 5,000 an hour, for an installation 50 more for each repository
// above 20 and at most 12,500.
func (s *Sim) limitOf(k budgetKey) int {
	switch {
	case k.kind == "nobody":
		return 60
	case s.switches.RateLimit > 0:
		return s.switches.RateLimit
	case k.kind != "installation" || k.resource != "core":
		return 5000
	}
	covered := 0
	if i := s.world.installs[k.id]; i != nil {
		for _, r := range s.world.repos {
			if i.has(r) {
				covered++
			}
		}
	}
	return min(12500, 5000+50*max(0, covered-20))
}

// charge takes a request from its budget; over is true when there is none left.
func (c *call) charge() (a answer, over bool) {
	if c.route.free || c.s.unlimited() {
		return answer{}, false
	}
	b := c.s.budget(c.budgetKey())
	if b.remaining() <= 0 {
		return c.primaryLimit(c.s.switches.RateLimitStatus), true
	}
	b.used++
	c.entry.Cost = 1
	return answer{}, false
}

// creates counts a writing request of an installation; true when it is one too
// many within a minute.
func (c *call) creates() bool {
	limit := c.s.switches.MaxContentPerMinute
	if limit == 0 || c.who.token == nil || c.who.token.installID == 0 || c.r.Method == http.MethodGet || c.route.read {
		return false
	}
	now, id := c.s.now(), c.who.token.installID
	recent := slices.DeleteFunc(c.s.content[id], func(t time.Time) bool { return now.Sub(t) >= time.Minute })
	c.s.content[id] = recent
	if len(recent) >= limit {
		return true
	}
	c.s.content[id] = append(recent, now)
	return false
}

// refund gives back what a 304 cost.
func (s *Sim) refund(c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.budget(c.budgetKey()).used -= c.entry.Cost
	c.entry.Cost = 0
}

// unlimited: Enterprise Server has no rate limits by default.
func (s *Sim) unlimited() bool { return s.opts.Enterprise != "" && s.switches.RateLimit == 0 }

// limitHeaders writes the budget into every answer.
func (s *Sim) limitHeaders(c *call, h http.Header) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unlimited() && !c.entry.Exhausted {
		return
	}
	k := c.budgetKey()
	b := s.budget(k)
	remaining := b.remaining()
	if c.entry.Exhausted {
		remaining = 0
	}
	h.Set("X-RateLimit-Limit", strconv.Itoa(b.limit))
	h.Set("X-RateLimit-Remaining", strconv.Itoa(remaining))
	h.Set("X-RateLimit-Used", strconv.Itoa(b.limit-remaining))
	h.Set("X-RateLimit-Reset", strconv.FormatInt(b.reset.Unix(), 10))
	h.Set("X-RateLimit-Resource", k.resource)
}

// primaryLimit is the answer of an exceeded budget. GraphQL says it with 200.
func (c *call) primaryLimit(status int) answer {
	c.entry.Exhausted = true
	k := c.budgetKey()
	message := fmt.Sprintf("API rate limit exceeded for %s ID %d.", k.kind, k.id)
	if c.route != nil && c.route.resource == "graphql" {
		return answer{status: 200, body: obj{"errors": []obj{{"type": "RATE_LIMITED", "code": "graphql_rate_limit", "message": message}}}}
	}
	if status == 0 {
		status = 403
	}
	e := refuse(status, message)
	e.docs = docsRoot + "/overview/rate-limits-for-the-rest-api"
	return refused(e)
}

func (c *call) secondaryLimit(status int) answer {
	message := "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."
	if status == 0 {
		status = 403
		if c.route != nil && c.route.resource == "graphql" {
			status = 200
		}
	}
	if status == 200 {
		return answer{status: 200, body: obj{"errors": []obj{{"type": "RATE_LIMITED", "message": message}}}}
	}
	e := refuse(status, message)
	e.docs = "https://docs.github.com/rest/overview/rate-limits-for-the-rest-api#about-secondary-rate-limits"
	e.bare = true
	return refused(e)
}

// faulty is the answer of a fault that hides the truth.
func (c *call) faulty(f *Fault) answer {
	if f.RetryAfter != "" {
		c.header.Set("Retry-After", f.RetryAfter)
	}
	status := f.Status
	switch f.Answer {
	case AnswerPrimary:
		return c.primaryLimit(status)
	case AnswerSecondary:
		return c.secondaryLimit(status)
	}
	if status == 0 {
		status = http.StatusBadGateway
	}
	if f.Answer == AnswerHTML {
		return answer{status: status, raw: []byte("<html><head><title>" + http.StatusText(status) + "</title></head><body>Please try again.</body></html>\n"), media: "text/html; charset=utf-8"}
	}
	return refused(refuse(status, http.StatusText(status)))
}

// Request is one line of the request log.
type Request struct {
	At           time.Time
	Method       string
	Route        string // as GitHub's documentation writes it; "" when unknown
	Path, Query  string
	App          int64
	Installation int64
	Status       int // 0: the connection was closed
	Cost         int // what it took from the budget: 0 for a 304
	Exhausted    bool
}

func (s *Sim) record(c *call, status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.entry.Status = status
	s.requests = append(s.requests, c.entry)
}

// Requests returns the request log, oldest first.
func (s *Sim) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

// ResetRequests empties the request log.
func (s *Sim) ResetRequests() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = nil
}

// CountRequests counts the log by "METHOD route".
func (s *Sim) CountRequests() map[string]int {
	count := map[string]int{}
	for _, r := range s.Requests() {
		count[r.Method+" "+r.Route]++
	}
	return count
}
