package rig

import (
	"time"

	"github.com/countersign/countersign/pkg/ghclient"
	"github.com/countersign/countersign/pkg/githubsim"
)

// Outcome is one way in which a request to GitHub goes wrong.
type Outcome struct {
	Name  string
	Fault githubsim.Fault
}

// Outcomes are the ways in which a request goes wrong: it fails, it fails but happened, it is slow, it is answered with a lie.
// slow must be longer than the client waits: the request takes effect when nobody listens any more.
func Outcomes(method, route string, slow time.Duration) []Outcome {
	out := []Outcome{
		{"failed", githubsim.Fault{}},
		{"slow", githubsim.Fault{Delay: slow, Late: true, Answer: githubsim.AnswerTruth}},
		{"lied", githubsim.Fault{Answer: githubsim.AnswerTruncated}},
	}
	if method != "GET" && route != RouteGraphQL {
		out = append(out,
			Outcome{"failed but happened", githubsim.Fault{Applied: true}},
			Outcome{"happened without an answer", githubsim.Fault{Applied: true, Answer: githubsim.AnswerHangUp}},
			Outcome{"lied, nothing happened", githubsim.Fault{Lie: true, Answer: githubsim.AnswerTruth}},
		)
	}
	for i := range out {
		out[i].Fault.Method, out[i].Fault.Route = method, route
	}
	return out
}

// Step is one request of a piece of work: the nth of its route.
type Step struct {
	Method, Route string
	Nth           int
}

// Steps are the requests made since the last ResetRequests, token exchanges left out.
func (r *Rig) Steps() []Step {
	var steps []Step
	seen := map[Step]int{}
	for _, q := range r.Sim.Requests() {
		if q.Route == RouteToken {
			continue
		}
		s := Step{Method: q.Method, Route: q.Route}
		s.Nth, seen[s] = seen[s], seen[s]+1
		steps = append(steps, s)
	}
	return steps
}

// Impatient makes clients that wait only so long for an answer, as new processes would be: nothing is remembered.
func (r *Rig) Impatient(timeout time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.timeout, r.app = timeout, nil
}

// Refresh makes the next client a new process's.
func (r *Rig) Refresh() { r.Impatient(r.timeout) }

// Permit sets what the installation has granted, and ends the tokens that say otherwise.
func (r *Rig) Permit(p ghclient.Permissions) {
	r.TB.Helper()
	if err := r.Sim.GrantPermissions(r.World.Installation, p); err != nil {
		r.TB.Fatalf("grant permissions: %v", err)
	}
	r.Refresh()
}
