package chaos

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Summary adds results up.
type Summary struct {
	Schedules, Events, Writes, Decisions, Settled int
	Faults, Violations                            map[string]int
	Windows                                       Windows
	Slowest                                       time.Duration
	busy                                          time.Duration
	Failed                                        []uint64
}

// NewSummary is empty.
func NewSummary() *Summary {
	return &Summary{Faults: map[string]int{}, Violations: map[string]int{}, Windows: Windows{}}
}

// Add counts one schedule.
func (s *Summary) Add(r Result) {
	s.Schedules++
	s.Events += r.Events
	s.Writes += r.Writes
	s.Decisions += r.Decisions
	s.Settled += r.Settled
	s.busy += r.Took
	s.Slowest = max(s.Slowest, r.Took)
	for k, n := range r.Faults {
		s.Faults[k] += n
	}
	for k, d := range r.Windows {
		s.Windows[k] = append(s.Windows[k], d...)
	}
	for _, v := range r.Violations {
		s.Violations[v.Flag]++
	}
	if len(r.Violations) > 0 {
		s.Failed = append(s.Failed, r.Plan.Seed)
	}
}

// Total is the number of violations.
func (s *Summary) Total() (n int) {
	for _, v := range s.Violations {
		n += v
	}
	return n
}

// String is the one line that a run ends with.
func (s *Summary) String() string {
	var b strings.Builder
	faults := 0
	for _, n := range s.Faults {
		faults += n
	}
	fmt.Fprintf(&b, "chaos: schedules=%d events=%d faults=%d (%s) check_writes=%d decisions=%d commits_settled=%d",
		s.Schedules, s.Events, faults, counts(s.Faults), s.Writes, s.Decisions, s.Settled)
	for _, k := range slices.Sorted(maps.Keys(s.Windows)) {
		d := slices.Clone(s.Windows[k])
		slices.Sort(d)
		fmt.Fprintf(&b, " %s=n:%d,p50:%s,p99:%s,max:%s", k, len(d), at(d, 50), at(d, 99), at(d, 100))
	}
	mean := time.Duration(0)
	if s.Schedules > 0 {
		mean = s.busy / time.Duration(s.Schedules)
	}
	fmt.Fprintf(&b, " schedule_mean=%s schedule_max=%s violations=%d", mean.Round(time.Millisecond), s.Slowest.Round(time.Millisecond), s.Total())
	if s.Total() > 0 {
		fmt.Fprintf(&b, " (%s) failing_seeds=%v", counts(s.Violations), s.Failed)
	}
	return b.String()
}

func counts(m map[string]int) string {
	var list []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		list = append(list, fmt.Sprintf("%s:%d", k, m[k]))
	}
	return strings.Join(list, " ")
}

func at(sorted []time.Duration, percent int) time.Duration {
	i := len(sorted)*percent/100 - 1
	return sorted[max(0, min(i, len(sorted)-1))].Round(100 * time.Microsecond)
}
