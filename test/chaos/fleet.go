package chaos

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/countersign/countersign/internal/system"
	"github.com/countersign/countersign/pkg/nudge/localnats"
)

// fleet is the services under test: goroutines of this process, or processes.
type fleet interface {
	// start adds a replica; vars are its own.
	start(service string, vars map[string]string) error
	// kill ends the n-th replica of a service as a crash does.
	kill(service string, n uint64) bool
	// pause stops the n-th replica for a while, in the middle of what it does.
	pause(service string, n uint64, d time.Duration) bool
	// stop tells every replica of a service ("": of all) to stop, and waits.
	stop(ctx context.Context, service string) error
	// resume ends every pause.
	resume()
	running(service string) int
	// ingress lists the webhook addresses.
	ingress() []string
	// crashed lists replicas that ended by themselves.
	crashed() []string
}

// member is one replica in this process.
type member struct {
	service string
	replica *system.Replica
	valve   *valve
	dir     string
}

// inProcess runs the services as goroutines behind valves.
type inProcess struct {
	stage *stage
	sys   *system.System

	mu       sync.Mutex
	members  []*member
	dead     []*member
	broken   []string
	restarts int
	closed   bool
}

func newInProcess(s *stage) *inProcess {
	f := &inProcess{stage: s}
	f.sys = system.New(context.Background(), system.Options{RoleURL: func(role string) string { return s.db.url(role, "") }, Environ: s.environ, Log: s.services})
	return f
}

func (f *inProcess) start(service string, vars map[string]string) error {
	m := &member{service: service, valve: &valve{}}
	own, err := f.reach(m, vars)
	if err != nil {
		return err
	}
	if m.replica, err = f.sys.StartReplicaWith(service, own); err != nil {
		m.valve.cut()
		return err
	}
	f.sys.Forget(m.replica)
	f.mu.Lock()
	if f.closed {
		f.dead = append(f.dead, m)
		f.mu.Unlock()
		m.replica.Tell()
		return nil
	}
	f.members = append(f.members, m)
	f.mu.Unlock()
	go f.supervise(m, vars)
	return nil
}

// supervise starts a replica again that ended by itself: one that finds no database when it starts gives up, as it should.
func (f *inProcess) supervise(m *member, vars map[string]string) {
	<-m.replica.Done()
	if !f.remove(m) {
		return // it was told to
	}
	m.valve.cut()
	f.stage.log.Printf("%s ended by itself: %v", m.service, m.replica.Err())
	f.mu.Lock()
	f.restarts++
	if f.restarts > 200 {
		f.broken = append(f.broken, fmt.Sprintf("%s ends again and again: %v", m.service, m.replica.Err()))
		f.mu.Unlock()
		return
	}
	f.mu.Unlock()
	time.Sleep(100 * time.Millisecond)
	if err := f.start(m.service, vars); err != nil {
		f.stage.log.Printf("restart %s: %v", m.service, err)
	}
}

// remove takes a member out; false: somebody else did.
func (f *inProcess) remove(m *member) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, x := range f.members {
		if x == m {
			f.members = append(f.members[:i:i], f.members[i+1:]...)
			return !f.closed
		}
	}
	return false
}

// reach opens the replica's own ways to Postgres, NATS and GitHub.
func (f *inProcess) reach(m *member, vars map[string]string) (map[string]string, error) {
	own := map[string]string{}
	for k, v := range vars {
		own[k] = v
	}
	var err error
	if m.dir, err = socketDirectory(); err != nil {
		return nil, err
	}
	path, name := f.stage.db.socket()
	pg, err := net.Listen("unix", filepath.Join(m.dir, name))
	if err != nil {
		return nil, err
	}
	go m.valve.relay(pg, "unix", path)
	m.valve.onCut(func() { _ = os.RemoveAll(m.dir) })
	own["COUNTERSIGN_DATABASE_URL"] = f.stage.db.url("countersign_"+m.service, m.dir)
	bus, err := url.Parse(f.stage.nats.URL())
	if err != nil {
		return nil, err
	}
	nats, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	go m.valve.relay(nats, "tcp", bus.Host)
	bus.Host = nats.Addr().String()
	own["COUNTERSIGN_NATS_URL"] = bus.String()
	if m.service != "ingress" {
		if own["COUNTERSIGN_GITHUB_API_URL"], err = m.valve.github(f.stage.world.sim); err != nil {
			return nil, err
		}
	}
	return own, nil
}

func (f *inProcess) nth(service string, n uint64) *member {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []*member
	for _, m := range f.members {
		if m.service == service {
			list = append(list, m)
		}
	}
	m, _ := pick(list, n)
	return m
}

func (f *inProcess) kill(service string, n uint64) bool {
	m := f.nth(service, n)
	if m == nil || !f.remove(m) {
		return false
	}
	m.valve.cut()
	m.replica.Tell()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dead = append(f.dead, m)
	return true
}

func (f *inProcess) pause(service string, n uint64, d time.Duration) bool {
	m := f.nth(service, n)
	if m == nil {
		return false
	}
	m.valve.hold()
	time.AfterFunc(d, m.valve.release)
	return true
}

func (f *inProcess) resume() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.members {
		m.valve.release()
	}
}

func (f *inProcess) running(service string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, m := range f.members {
		if m.service == service {
			n++
		}
	}
	return n
}

func (f *inProcess) ingress() (list []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.members {
		if m.service == "ingress" {
			list = append(list, m.replica.URL())
		}
	}
	return list
}

func (f *inProcess) crashed() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.broken...)
}

func (f *inProcess) stop(ctx context.Context, service string) error {
	f.mu.Lock()
	var stopping, staying []*member
	for _, m := range f.members {
		if service == "" || m.service == service {
			stopping = append(stopping, m)
		} else {
			staying = append(staying, m)
		}
	}
	f.members = staying
	waiting := append([]*member(nil), stopping...)
	if service == "" {
		f.closed = true
		waiting = append(waiting, f.dead...)
	}
	f.mu.Unlock()
	for _, m := range stopping {
		m.replica.Tell()
	}
	for _, m := range waiting {
		select {
		case <-m.replica.Done():
			m.valve.cut()
		case <-ctx.Done():
			return fmt.Errorf("%s did not stop: %w", m.service, ctx.Err())
		}
	}
	return nil
}

// front is where GitHub sends webhooks: it passes each to some ingress that lives, as a load balancer does.
type front struct {
	listener net.Listener
	server   *http.Server
	client   *http.Client
	targets  func() []string
	next     uint64
	mu       sync.Mutex
}

func newFront() (*front, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	f := &front{listener: l, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8}}}
	f.server = &http.Server{ReadHeaderTimeout: 5 * time.Second, Handler: f}
	go func() { _ = f.server.Serve(l) }()
	return f, nil
}

func (f *front) url() string { return "http://" + f.listener.Addr().String() + "/webhooks/github" }

func (f *front) close() {
	_ = f.server.Close()
	f.client.CloseIdleConnections()
}

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	f.mu.Lock()
	f.next++
	n := f.next
	f.mu.Unlock()
	targets := f.targets()
	for i := range targets {
		to := targets[(n+uint64(i))%uint64(len(targets))]
		req, err := http.NewRequestWithContext(r.Context(), r.Method, to+r.URL.Path, bytes.NewReader(body))
		if err != nil {
			break
		}
		req.Header = r.Header.Clone()
		resp, err := f.client.Do(req)
		if err != nil {
			continue
		}
		answer, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		w.WriteHeader(resp.StatusCode)
		_, _ = w.Write(answer)
		return
	}
	http.Error(w, "no ingress", http.StatusBadGateway)
}

// natsSwitch is the bus that schedules take away.
type natsSwitch struct {
	server *localnats.Server
	mu     sync.Mutex
}

func (n *natsSwitch) off() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.server.Stop()
}

func (n *natsSwitch) on() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.server.Restart(context.Background())
}
