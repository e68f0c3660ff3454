package githubsim

import (
	"encoding/json"
	"net/http"
	"slices"
	"time"
)

// PullState is a pull request as it is, whatever reads show.
type PullState struct {
	Number                 int
	Open, Merged, Draft    bool
	Head, BaseRef, BaseSHA string
	Labels                 []string
	ID                     int64
}

// PullState looks at a pull request; ok is false when there is none.
func (s *Sim) PullState(fullName string, number int) (state PullState, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, _ := s.world.repoNamed(fullName)
	if r == nil || r.pulls[number] == nil {
		return PullState{}, false
	}
	p := r.pulls[number]
	return PullState{
		Number: p.number, Open: p.open, Merged: p.merged, Draft: p.draft, Head: p.headSHA, BaseRef: p.baseRef, BaseSHA: s.baseSHA(r, p),
		Labels: slices.Clone(p.labels), ID: p.id,
	}, true
}

// Head is the head commit of a pull request, "" when there is none.
func (s *Sim) Head(fullName string, number int) string {
	state, _ := s.PullState(fullName, number)
	return state.Head
}

// Check is a check run as it is, whatever reads show.
type Check struct {
	ID, AppID                      int64
	Name, HeadSHA                  string
	Status, Conclusion, ExternalID string
	Title, Summary, Text           string
	Actions                        []string // identifiers
	CompletedAt                    *time.Time
}

// Checks lists every check run of a commit, oldest first.
func (s *Sim) Checks(fullName, sha string) []Check {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, _ := s.world.repoNamed(fullName)
	if r == nil {
		return nil
	}
	var list []Check
	for _, id := range r.runsOf[sha] {
		list = append(list, r.runs[id].look())
	}
	return list
}

func (c *checkRun) look() Check {
	n := Check{
		ID: c.id, AppID: c.appID, Name: c.name, HeadSHA: c.sha, Status: c.status, Conclusion: c.conclusion, ExternalID: c.externalID,
		Title: c.title, Summary: c.summary, Text: c.text, CompletedAt: c.completedAt,
	}
	for _, a := range c.actions {
		n.Actions = append(n.Actions, a.Identifier)
	}
	return n
}

// LatestCheck is what a merge box would show for a name on a commit: the latest
// run of that name by Switches.LatestBy; ok is false when there is none.
func (s *Sim) LatestCheck(fullName, sha, name string) (check Check, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, _ := s.world.repoNamed(fullName)
	if r == nil {
		return Check{}, false
	}
	return r.latest(sha, name, s.switches.LatestBy)
}

// Delivery is one webhook that was sent, or that could not be.
type Delivery struct {
	ID, AppID, Installation int64
	GUID, Event, Action     string
	Redelivery              bool
	Status                  string
	Code                    int
	Body                    json.RawMessage
	Header                  http.Header
	Response                string
	Duration                time.Duration
}

// Deliveries lists an App's deliveries, oldest first.
func (s *Sim) Deliveries(appID int64) []Delivery {
	var list []Delivery
	for _, v := range slices.Backward(s.hooks.sent(appID)) {
		h := http.Header{}
		for k, one := range v.requestHeaders {
			h.Set(k, one)
		}
		list = append(list, Delivery{
			ID: v.id, AppID: v.appID, Installation: v.installID, GUID: v.guid, Event: v.event, Action: v.action, Redelivery: v.redelivery,
			Status: v.status, Code: v.code, Body: slices.Clone(v.body), Header: h, Response: v.responseBody, Duration: v.duration,
		})
	}
	return list
}

// Redeliver sends a delivery again under its GUID.
func (s *Sim) Redeliver(appID, deliveryID int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hooks.redeliver(appID, deliveryID)
}

// Heads lists every head that a pull request ever had, oldest first.
func (s *Sim) Heads(fullName string, number int) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, _ := s.world.repoNamed(fullName)
	if r == nil || r.pulls[number] == nil {
		return nil
	}
	return slices.Clone(r.pulls[number].heads)
}
