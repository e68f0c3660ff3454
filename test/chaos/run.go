package chaos

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/countersign/countersign/internal/system"
	"github.com/countersign/countersign/pkg/githubsim"
	"github.com/countersign/countersign/pkg/nudge"
	"github.com/countersign/countersign/pkg/nudge/localnats"
)

// Options are how schedules are run; every zero value is usable but Cluster.
type Options struct {
	Cluster *Cluster
	// Events is how many events a schedule has; 0 is 200.
	Events int
	// Replicas of every service; 0 is 2.
	Replicas int
	// Patience is how long nothing may move before a schedule counts as never settled; 0 is 10 s.
	Patience time.Duration
	// Services adds what the services log to the event log.
	Services bool
	// Binaries is a directory with the services' binaries: processes are started, and get signals. Empty: goroutines.
	Binaries string
	// Slow stretches leases and waits, for a machine or a build that is slow.
	Slow int
}

// Result is what one schedule came to.
type Result struct {
	Plan       Plan
	Events     int
	Faults     map[string]int
	Writes     int
	Settled    int // checks that say the truth at the end
	Decisions  int
	Violations []Violation
	Windows    Windows
	Took       time.Duration
	Settling   time.Duration
	Log        *Log
}

// stage is everything of one schedule.
type stage struct {
	opts     Options
	plan     Plan
	log      *Log
	services io.Writer
	db       *database
	nats     *localnats.Server
	bus      *natsSwitch
	front    *front
	world    *world
	observer *observer
	fleet    fleet
	environ  map[string]string
	faults   map[string]int
	stray    *nudge.Bus
	timers   sync.WaitGroup
}

// Run plays one plan. An error is a failure of the bench itself.
func Run(ctx context.Context, plan Plan, opts Options) (res Result, err error) {
	if opts.Events == 0 {
		opts.Events = 200
	}
	if opts.Replicas == 0 {
		opts.Replicas = 2
	}
	if opts.Patience == 0 {
		opts.Patience = 10 * time.Second
	}
	opts.Slow = max(opts.Slow, 1)
	began := time.Now()
	s := &stage{opts: opts, plan: plan, log: NewLog(), services: io.Discard, faults: map[string]int{}}
	if opts.Services {
		s.services = s.log
	}
	res = Result{Plan: plan, Log: s.log}
	defer func() {
		res.Took = time.Since(began)
		if err != nil {
			err = fmt.Errorf("seed %d: %w", plan.Seed, err)
		}
	}()
	s.log.Printf("%s", plan)
	defer s.close()
	if err := s.open(ctx); err != nil {
		return res, err
	}
	res.Events = s.play(ctx)
	settling := time.Now()
	s.heal()
	s.settle(ctx)
	res.Settling = time.Since(settling)
	s.verify(ctx, &res)
	res.Faults = s.faults
	return res, nil
}

func (s *stage) open(ctx context.Context) (err error) {
	if s.db, err = s.opts.Cluster.create(ctx); err != nil {
		return err
	}
	if s.nats, err = localnats.Start(ctx, localnats.Options{}); err != nil {
		return err
	}
	s.bus = &natsSwitch{server: s.nats}
	if s.front, err = newFront(); err != nil {
		return err
	}
	s.world = newWorld(s.plan, s.front.url())
	s.observer = newObserver(s.world.app.ID, s.log)
	s.environ = s.variables()
	if s.opts.Binaries != "" {
		s.fleet = newProcesses(s)
	} else {
		s.fleet = newInProcess(s)
	}
	s.front.targets = s.fleet.ingress
	for _, service := range system.Services {
		for range s.opts.Replicas {
			if service == "reconciler" && !s.plan.Scanning {
				continue
			}
			if err := s.fleet.start(service, nil); err != nil {
				return err
			}
		}
	}
	if s.stray, err = nudge.Connect(ctx, nudge.Config{URL: s.nats.URL()}, nudge.Options{Name: "stray"}); err != nil {
		return err
	}
	s.world.sim.Observe(s.observer)
	s.world.sim.Look(func(v githubsim.View) { s.observer.Changed(v, nil) })
	s.world.sim.ReleaseWebhooks(0)
	return nil
}

// variables are the services' settings: production's own, with short waits.
func (s *stage) variables() map[string]string {
	ms := func(n int) string { return (time.Duration(n*s.opts.Slow) * time.Millisecond).String() }
	return map[string]string{
		"COUNTERSIGN_NATS_URL": s.nats.URL(), "COUNTERSIGN_GITHUB_API_URL": s.world.sim.URL(),
		"COUNTERSIGN_GITHUB_APP_ID": strconv.FormatInt(s.world.app.ID, 10), "COUNTERSIGN_GITHUB_PRIVATE_KEY": string(s.world.app.PEM),
		"COUNTERSIGN_WEBHOOK_SECRET": secret, "COUNTERSIGN_INGRESS_REQUEST_RATE": "0", "COUNTERSIGN_SHUTDOWN_GRACE": "10s",
		"COUNTERSIGN_DATABASE_MAX_CONNS": "3", "COUNTERSIGN_DATABASE_GUARD_CONNS": "3",
		"COUNTERSIGN_WORKER_CONCURRENCY": "2", "COUNTERSIGN_WORKER_POLL": ms(200), "COUNTERSIGN_WORKER_LEASE": ms(3000), "COUNTERSIGN_WORKER_RETRY_MAX": ms(300),
		"COUNTERSIGN_AUTHORITY_INACCESSIBLE_RETRY_MAX": ms(4000),
		"COUNTERSIGN_FAST_PATH_TIMEOUT":                ms(2600), "COUNTERSIGN_GUARD_WAIT": ms(3000), "COUNTERSIGN_CHECK_WRITE_TIMEOUT": ms(1400), "COUNTERSIGN_CHECK_UNDO_TIMEOUT": ms(700),
		"COUNTERSIGN_DELIVERY_LOG_INTERVAL":  ms(500),
		"COUNTERSIGN_GITHUB_REQUEST_TIMEOUT": ms(2000), "COUNTERSIGN_RECHECK_AFTER": ms(300),
		"COUNTERSIGN_RECONCILE_INTERVAL": ms(900), "COUNTERSIGN_RECONCILE_RECHECK": ms(700), "COUNTERSIGN_LOG_LEVEL": s.logLevel(),
		"COUNTERSIGN_FAST_PATH_CONCURRENCY": "2", "COUNTERSIGN_NATS_WAKE_TIMEOUT": ms(100),
	}
}

func (s *stage) logLevel() string {
	if s.opts.Services {
		return "info"
	}
	return "error"
}

// play plays every step and returns how many events there were.
func (s *stage) play(ctx context.Context) (events int) {
	redelivering, stop := context.WithCancel(ctx)
	defer stop()
	go s.redeliver(redelivering)
	for _, step := range s.plan.Steps {
		if !sleep(ctx, step.After*time.Duration(s.opts.Slow)) {
			return events
		}
		if step.Kind == "rest" {
			s.rest(ctx)
			continue
		}
		if _, isEvent := actions[step.Kind]; isEvent {
			events++
			if what := s.world.act(step); what != "" {
				s.log.Printf("event  %s", what)
			}
			continue
		}
		s.fault(ctx, step)
	}
	return events
}

// rest waits until every check says the truth, and not for long.
func (s *stage) rest(ctx context.Context) {
	for until := time.Now().Add(2 * time.Second * time.Duration(s.opts.Slow)); time.Now().Before(until); {
		var left []string
		s.world.sim.Look(func(v githubsim.View) { left = s.observer.unsettled(v) })
		if len(left) == 0 || !sleep(ctx, 20*time.Millisecond) {
			return
		}
	}
}

// redeliver sends again what was not answered 2xx, as whoever reads the App's delivery log does.
func (s *stage) redeliver(ctx context.Context) {
	for sleep(ctx, 300*time.Millisecond*time.Duration(s.opts.Slow)) {
		s.redeliverFailed()
	}
}

func (s *stage) redeliverFailed() (failed int) {
	s.observer.mu.Lock()
	bad := map[string]bool{}
	for guid := range s.observer.failed {
		bad[guid] = true
	}
	s.observer.mu.Unlock()
	if len(bad) == 0 {
		return 0
	}
	again := map[string]int64{}
	for _, d := range s.world.sim.Deliveries(s.world.app.ID) {
		if bad[d.GUID] {
			again[d.GUID] = d.ID
		}
	}
	for guid, id := range again {
		s.log.Printf("redeliver %s", guid[:8])
		s.observer.mu.Lock()
		delete(s.observer.failed, guid)
		s.observer.mu.Unlock()
		s.world.sim.Redeliver(s.world.app.ID, id)
	}
	return len(again)
}

// fault plays one fault; each ends by itself, and heal ends all.
func (s *stage) fault(ctx context.Context, step Step) {
	f, ok := faultActions[step.Kind]
	if !ok {
		panic("no fault " + step.Kind) //nolint:forbidigo // the plan draws from the same list
	}
	s.faults[step.Kind]++
	s.log.Printf("fault  %s", f(ctx, s, step))
}

// heal ends every fault, and brings back who is missing.
func (s *stage) heal() {
	s.timers.Wait()
	s.world.sim.ClearFaults()
	w := s.plan.Switches
	w.ReadLag = 0
	s.world.sim.Set(w)
	s.fleet.resume()
	_ = s.bus.on()
	s.log.Printf("healed")
	for _, service := range system.Services {
		for s.fleet.running(service) < s.opts.Replicas && (service != "reconciler" || s.plan.Scanning) {
			if err := s.fleet.start(service, nil); err != nil {
				s.observer.mu.Lock()
				s.observer.flag(FlagCrash, "start %s: %v", service, err)
				s.observer.mu.Unlock()
				return
			}
		}
	}
}

// settle waits until every check says the truth and nothing is left to do: first without a scan where no webhook was lost,
// then, in schedules that lose some, after one whole scan.
func (s *stage) settle(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 10*s.opts.Patience*time.Duration(s.opts.Slow))
	defer cancel()
	_ = s.world.sim.Settle(ctx)
	for s.redeliverFailed() > 0 && sleep(ctx, 100*time.Millisecond) {
		_ = s.world.sim.Settle(ctx)
	}
	if s.plan.Scanning {
		_ = s.fleet.stop(ctx, "reconciler")
		// Every pull request is looked at once more, whenever it was last; GitHub's own listing is where lost events are found.
		if err := s.fleet.start("reconciler", map[string]string{"COUNTERSIGN_RECONCILE_INTERVAL": "24h", "COUNTERSIGN_RECONCILE_RECHECK": "0s"}); err != nil {
			s.log.Printf("start the last reconciler: %v", err)
		}
		s.awaitScan(ctx)
	}
	var left []string
	// The deadline is one without progress: a slow machine may take its time.
	last, moved := "", time.Now()
	for time.Since(moved) < s.opts.Patience*time.Duration(s.opts.Slow) {
		if left = s.left(ctx); len(left) == 0 {
			s.log.Printf("settled")
			return
		}
		s.observer.mu.Lock()
		now := fmt.Sprint(len(s.observer.writes), left)
		s.observer.mu.Unlock()
		if now != last {
			last, moved = now, time.Now()
		}
		if !sleep(ctx, 20*time.Millisecond) {
			break
		}
	}
	queues := s.queues(ctx)
	s.observer.mu.Lock()
	defer s.observer.mu.Unlock()
	slices.Sort(left)
	for _, l := range left {
		s.observer.flag(FlagUnsettled, "%s; %s", l, queues)
	}
}

// queues is every row that waits for somebody, and until when.
func (s *stage) queues(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	var rows string
	err := s.db.read(ctx, `SELECT coalesce(string_agg(line, '; ' ORDER BY line), 'no row waits') FROM (
		SELECT format('evaluation of %s#%s at %s generation %s recheck %s due in %s after %s attempts because of %s: %s; its head: generation %s invalidated %s run %s of %s posted %s intent %s published %s of %s held until %s',
			e.repository_id, e.number, left(e.head_sha, 8), e.head_generation, e.recheck, e.available_at - now(), e.attempts, e.reason, e.last_error,
			h.generation, h.invalidated_generation, h.run_id, h.run_generation, h.posted_generation, h.intent_decision_id, h.published_decision_id, h.published_generation, h.evaluation_expires_at)
			FROM evaluation e JOIN head h USING (installation_id, repository_id, head_sha)
		UNION ALL SELECT format('head %s@%s: generation %s invalidated %s due in %s after %s attempts: %s', repository_id, left(head_sha, 8), generation, invalidated_generation,
			invalidation_available_at - now(), invalidation_attempts, invalidation_error) FROM head WHERE invalidated_generation < generation
		UNION ALL SELECT format('authority %s %s %s of %s due in %s after %s attempts: %s', scope, repository_id, base_ref, installation_id, available_at - now(), attempts, last_error) FROM authority
		) q (line)`, nil, &rows)
	if err != nil {
		return err.Error()
	}
	return rows
}

func (s *stage) awaitScan(ctx context.Context) {
	var began time.Time
	done := false
	for {
		err := s.db.read(ctx, "SELECT coalesce(nullif($1::timestamptz, '0001-01-01'), now()), EXISTS (SELECT FROM lease WHERE name = 'reconciler' AND last_success_at >= nullif($1::timestamptz, '0001-01-01'))", []any{began}, &began, &done)
		if done || !sleep(ctx, 20*time.Millisecond) {
			return
		}
		if err != nil {
			s.log.Printf("await the scan: %v", err)
		}
	}
}

// left is what is still to be done.
func (s *stage) left(ctx context.Context) (list []string) {
	s.world.sim.Look(func(v githubsim.View) { list = s.observer.unsettled(v) })
	if len(list) > 0 {
		return list
	}
	var evaluations, rechecks, authority, heads, intents int
	err := s.db.read(ctx, `SELECT (SELECT count(*) FROM evaluation WHERE NOT recheck), (SELECT count(*) FROM evaluation WHERE recheck),
		(SELECT count(*) FROM authority), (SELECT count(*) FROM head WHERE invalidated_generation < generation),
		(SELECT count(*) FROM head h WHERE intent_decision_id IS NOT NULL AND EXISTS (SELECT FROM pull p
			WHERE (p.installation_id, p.repository_id, p.head_sha) = (h.installation_id, h.repository_id, h.head_sha) AND p.state = 'open'))`,
		nil, &evaluations, &rechecks, &authority, &heads, &intents)
	if err != nil || evaluations+rechecks+authority+heads+intents > 0 {
		list = append(list, fmt.Sprintf("waiting: %d evaluations, %d rechecks, %d authority changes, %d heads, %d intents (%v)", evaluations, rechecks, authority, heads, intents, err))
	}
	return list
}

func (s *stage) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	s.timers.Wait()
	if s.fleet != nil {
		if err := s.fleet.stop(ctx, ""); err != nil {
			s.log.Printf("stop: %v", err)
		}
	}
	if s.stray != nil {
		s.stray.Close()
	}
	if s.world != nil {
		s.world.sim.Close()
	}
	if s.front != nil {
		s.front.close()
	}
	if s.nats != nil {
		s.nats.Close()
	}
	if s.db != nil {
		if err := s.db.drop(ctx); err != nil {
			s.log.Printf("drop: %v", err)
		}
	}
}

// Seeds are n seeds from the first.
func Seeds(first uint64, n int) []uint64 {
	list := make([]uint64, n)
	for i := range list {
		list[i] = first + uint64(i)
	}
	return list
}

// Random is a seed nobody chose.
func Random() uint64 { return rand.Uint64N(1_000_000_000) }
