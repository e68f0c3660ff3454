package chaos

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/countersign/countersign/pkg/githubsim"
)

// Plan is one schedule: everything that is not the machine's own timing. It is a function of the seed alone.
type Plan struct {
	Seed     uint64
	Switches githubsim.Switches
	// ClockSpeed is how much faster the stand-in's clock runs: GitHub's times have whole seconds.
	ClockSpeed int
	// Scanning schedules run reconcilers throughout and may lose webhooks; the others have none until they have settled
	// without one, so that nothing but the accepted events can have brought their effect about.
	Scanning bool
	// Restarts is whether Postgres itself is restarted.
	Restarts bool
	Steps    []Step
}

// Step is one event or fault. Draw decides what exactly, from what there is when its turn comes.
type Step struct {
	After time.Duration
	Kind  string
	Draw  [4]uint64
}

// weighted is a kind and how often it comes, against the others.
type weighted struct {
	kind   string
	weight int
}

var eventKinds = []weighted{
	{"open", 9}, {"open_shared", 3}, {"push", 14}, {"force_back", 6}, {"approve_all", 22}, {"approve", 12}, {"approve_stale", 3},
	{"request_changes", 6}, {"dismiss", 9}, {"comment", 3}, {"delegate", 4}, {"close", 5}, {"reopen", 5}, {"merge", 4}, {"retitle", 3},
	{"label", 2}, {"draft", 2}, {"retarget", 4}, {"member", 8}, {"team_permission", 3}, {"team_privacy", 2}, {"collaborator", 4},
	{"codeowners", 5}, {"policy", 3}, {"organization_policy", 2}, {"base_push", 4}, {"rename", 2}, {"rerequest", 3},
}

var faultKinds = []weighted{
	{"kill", 10}, {"pause", 5}, {"nats_off", 3}, {"nats_restart", 2}, {"disconnect", 4}, {"stray_wakes", 3},
	{"github_5xx", 8}, {"github_lost_answer", 10}, {"github_hang_up", 5}, {"github_slow", 6}, {"github_timeout", 4}, {"github_primary", 2},
	{"github_secondary", 3}, {"github_garbage", 3}, {"webhook_doubled", 5}, {"webhook_delayed", 6}, {"webhook_failed", 4},
}

// Draw makes the plan of a seed.
func Draw(seed uint64, events int) Plan {
	r := rand.New(rand.NewPCG(seed, 0x636f756e74657273)) //nolint:gosec // a reproducible schedule
	p := Plan{Seed: seed, ClockSpeed: 1, Scanning: r.IntN(5) < 2, Restarts: r.IntN(20) == 0}
	if r.IntN(3) > 0 {
		p.ClockSpeed = 20
	}
	p.Switches = githubsim.Switches{
		ReopenRun: githubsim.ReopenRun(r.IntN(3)), FrozenBaseSHA: r.IntN(2) == 0, SecretTeamsHidden: r.IntN(2) == 0, ShortTokens: r.IntN(2) == 0,
		Latency: time.Duration(r.IntN(4)) * 500 * time.Microsecond,
	}
	if r.IntN(4) == 0 {
		p.Switches.LatestBy = githubsim.LatestByCompletedAt
	}
	if r.IntN(5) == 0 {
		p.Switches.ReadLag = 1 + r.IntN(12)
	}
	faults := faultKinds
	if p.Scanning {
		faults = append(faults[:len(faults):len(faults)], weighted{"webhook_dropped", 6})
	}
	if p.Restarts {
		faults = append(faults[:len(faults):len(faults)], weighted{"postgres_restart", 12})
	}
	faultEvery := []int{0, 4, 6, 10}[r.IntN(4)] // 0: a schedule without faults but for its switches
	for n := 0; n < events; {
		if len(p.Steps)%25 == 24 {
			p.Steps = append(p.Steps, Step{Kind: "rest"}) // let checks say the truth: there must be successes to lose
		}
		step := Step{Draw: [4]uint64{r.Uint64(), r.Uint64(), r.Uint64(), r.Uint64()}, After: gap(r)}
		if faultEvery > 0 && r.IntN(faultEvery) == 0 {
			step.Kind = draw(r, faults)
		} else {
			step.Kind = draw(r, eventKinds)
			n++
		}
		p.Steps = append(p.Steps, step)
	}
	return p
}

// gap is a burst, a breath or a rest.
func gap(r *rand.Rand) time.Duration {
	switch r.IntN(10) {
	case 0, 1, 2, 3:
		return 0
	case 9:
		return time.Duration(20+r.IntN(40)) * time.Millisecond
	}
	return time.Duration(r.IntN(8_000)) * time.Microsecond
}

func draw(r *rand.Rand, kinds []weighted) string {
	total := 0
	for _, k := range kinds {
		total += k.weight
	}
	at := r.IntN(total)
	for _, k := range kinds {
		if at -= k.weight; at < 0 {
			return k.kind
		}
	}
	panic("weights") //nolint:forbidigo // cannot happen: at is below their sum
}

// String says in one line what kind of schedule it is.
func (p Plan) String() string {
	return fmt.Sprintf("seed %d: reopen=%d latest_by=%d lag=%d frozen_base=%t latency=%s clock=%dx scanning=%t restarts=%t steps=%d",
		p.Seed, p.Switches.ReopenRun, p.Switches.LatestBy, p.Switches.ReadLag, p.Switches.FrozenBaseSHA, p.Switches.Latency, p.ClockSpeed,
		p.Scanning, p.Restarts, len(p.Steps))
}

// pick chooses one of a list by a draw; ok is false when there is none.
func pick[T any](list []T, draw uint64) (one T, ok bool) {
	if len(list) == 0 {
		return one, false
	}
	return list[draw%uint64(len(list))], true
}
