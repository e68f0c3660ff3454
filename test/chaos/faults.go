package chaos

import (
	"context"
	"fmt"
	"time"

	"github.com/countersign/countersign/internal/system"
	"github.com/countersign/countersign/pkg/githubsim"
	"github.com/countersign/countersign/pkg/nudge"
)

// routes are what GitHub faults hit: writes of check runs most, because what is lost there is hardest to know.
var routes = []githubsim.Fault{
	{Method: "PATCH", Route: "/repos/{owner}/{repo}/check-runs/{check_run_id}"},
	{Method: "PATCH", Route: "/repos/{owner}/{repo}/check-runs/{check_run_id}", Contain: `"completed"`},
	{Method: "POST", Route: "/repos/{owner}/{repo}/check-runs"},
	{Method: "GET", Route: "/repos/{owner}/{repo}/check-runs/{check_run_id}"},
	{Method: "GET", Route: "/repos/{owner}/{repo}/pulls/{number}"},
	{Method: "GET", Route: "/repos/{owner}/{repo}/commits/{commit_sha}/pulls"},
	{Method: "POST", Route: "/graphql"},
	{},
}

// faultActions say in words what they did.
var faultActions = map[string]func(ctx context.Context, s *stage, step Step) string{
	"kill": func(_ context.Context, s *stage, step Step) string {
		service := system.Services[step.Draw[0]%uint64(len(system.Services))]
		if !s.fleet.kill(service, step.Draw[1]) {
			return "kill " + service + ": none runs"
		}
		after := time.Duration(step.Draw[2]%200) * time.Millisecond
		s.later(after, func() {
			if err := s.fleet.start(service, nil); err != nil {
				s.log.Printf("restart %s: %v", service, err)
			}
		})
		return fmt.Sprintf("kill a %s, back in %s", service, after)
	},
	"pause": func(_ context.Context, s *stage, step Step) string {
		service := system.Services[step.Draw[0]%uint64(len(system.Services))]
		d := time.Duration(20+step.Draw[2]%700) * time.Millisecond
		if step.Draw[3]%6 == 0 {
			d += 3200 * time.Millisecond // longer than a lease
		}
		s.fleet.pause(service, step.Draw[1], d*time.Duration(s.opts.Slow))
		return fmt.Sprintf("stop a %s for %s", service, d)
	},
	"nats_off": func(_ context.Context, s *stage, step Step) string {
		d := time.Duration(20+step.Draw[0]%400) * time.Millisecond
		s.bus.off()
		s.later(d, func() { _ = s.bus.on() })
		return fmt.Sprintf("nats off for %s", d)
	},
	"nats_restart": func(_ context.Context, s *stage, _ Step) string {
		return fmt.Sprintf("nats restarted, its wakes lost: %v", s.bus.on())
	},
	"disconnect": func(ctx context.Context, s *stage, _ Step) string {
		return fmt.Sprintf("every database session ended: %v", s.db.disconnect(ctx))
	},
	"postgres_restart": func(ctx context.Context, s *stage, step Step) string {
		return fmt.Sprintf("postgres restarted: %v", s.opts.Cluster.restart(ctx, step.Draw[0]%2 == 0))
	},
	"stray_wakes": func(ctx context.Context, s *stage, step Step) string {
		for i, subject := range []nudge.Subject{nudge.Invalidate, nudge.Fanout, nudge.Evaluate, nudge.Reconcile} {
			for range 1 + (step.Draw[0]>>i)%4 {
				_ = s.stray.Wake(ctx, nudge.Wake{Subject: subject, InstallationID: int64(step.Draw[1] % 5000), RepositoryID: int64(step.Draw[2] % 5000), PullNumber: 1, AtLeastGeneration: 1})
			}
		}
		return "wakes that nobody sent, doubled"
	},
	"github_5xx": github(func(f *githubsim.Fault, step Step) string {
		f.Status, f.Times = []int{500, 502, 503, 504}[step.Draw[2]%4], int(1+step.Draw[3]%4)
		return fmt.Sprintf("answers %d, %d times", f.Status, f.Times)
	}),
	"github_lost_answer": github(func(f *githubsim.Fault, step Step) string {
		f.Applied, f.Times = true, int(1+step.Draw[3]%2)
		if step.Draw[2]%2 == 0 {
			f.Answer = githubsim.AnswerHangUp
		}
		return "applied, its answer lost"
	}),
	"github_hang_up": github(func(f *githubsim.Fault, step Step) string {
		f.Answer, f.Times = githubsim.AnswerHangUp, int(1+step.Draw[3]%3)
		return "connection closed before it was applied"
	}),
	"github_slow": github(func(f *githubsim.Fault, step Step) string {
		f.Answer, f.Delay = githubsim.AnswerTruth, time.Duration(20+step.Draw[3]%300)*time.Millisecond
		return fmt.Sprintf("takes %s", f.Delay)
	}),
	"github_timeout": github(func(f *githubsim.Fault, step Step) string {
		f.Answer, f.Delay = githubsim.AnswerTruth, time.Duration(2000+step.Draw[3]%400)*time.Millisecond
		return fmt.Sprintf("is applied after %s, when nobody waits", f.Delay)
	}),
	"github_primary": github(func(f *githubsim.Fault, step Step) string {
		f.Answer, f.RetryAfter, f.Status = githubsim.AnswerSecondary, fmt.Sprint(1+step.Draw[3]%20), 429
		return "429 with Retry-After " + f.RetryAfter
	}),
	"github_secondary": github(func(f *githubsim.Fault, step Step) string {
		f.Answer, f.RetryAfter = githubsim.AnswerSecondary, fmt.Sprint(1+step.Draw[3]%10)
		return "secondary limit, Retry-After " + f.RetryAfter
	}),
	"github_garbage": github(func(f *githubsim.Fault, step Step) string {
		f.Answer = []githubsim.Answer{githubsim.AnswerTruncated, githubsim.AnswerNotJSON, githubsim.AnswerHTML}[step.Draw[3]%3]
		return "applied, its answer is garbage"
	}),
	"webhook_doubled": webhook(githubsim.WebhookFault{Fate: githubsim.WebhookDoubled}),
	"webhook_delayed": webhook(githubsim.WebhookFault{Fate: githubsim.WebhookDelayed}),
	"webhook_failed":  webhook(githubsim.WebhookFault{Fate: githubsim.WebhookUnreachable}),
	"webhook_dropped": webhook(githubsim.WebhookFault{Fate: githubsim.WebhookDropped}),
}

func github(shape func(f *githubsim.Fault, step Step) string) func(context.Context, *stage, Step) string {
	return func(_ context.Context, s *stage, step Step) string {
		f := routes[step.Draw[0]%uint64(len(routes))]
		f.Skip = int(step.Draw[1] % 3)
		what := shape(&f, step)
		s.world.sim.Inject(f)
		return fmt.Sprintf("github %s %s %s: %s", f.Method, f.Route, f.Contain, what)
	}
}

func webhook(f githubsim.WebhookFault) func(context.Context, *stage, Step) string {
	return func(_ context.Context, s *stage, step Step) string {
		f := f
		f.Times = int(1 + step.Draw[0]%3)
		if f.Fate == githubsim.WebhookDelayed {
			f.Delay = time.Duration(5+step.Draw[1]%150) * time.Millisecond
		}
		s.world.sim.InjectWebhook(f)
		return fmt.Sprintf("the next %d webhooks: fate %d %s", f.Times, f.Fate, f.Delay)
	}
}

// later runs f after d; heal waits for it.
func (s *stage) later(d time.Duration, f func()) {
	s.timers.Add(1)
	time.AfterFunc(d, func() {
		defer s.timers.Done()
		f()
	})
}

// restart stops Postgres at once or in order, and starts it again.
func (c *Cluster) restart(ctx context.Context, crash bool) error {
	if crash {
		c.server.Kill()
	}
	return c.server.Restart(ctx)
}
