// Package localnats runs a NATS server with JetStream inside this process, on
// loopback, for `countersign dev` and for tests.
//
// It guarantees that a server it started is ready, listens on 127.0.0.1 only and
// has gone when Stop returns. Without a Config it admits only who knows the
// random password in URL: other users of the machine do not. It is not for
// production: its stream has one copy and its clients share a process's fate.
package localnats

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// readyWithin bounds a start. An idle machine needs a few milliseconds.
const readyWithin = 20 * time.Second

// user is the one user of a server without a Config.
const user = "countersign"

// Options is what Start needs. The zero value is a server in a temporary folder.
type Options struct {
	// Dir keeps JetStream's files between runs. Empty: a temporary folder, removed by Close.
	Dir string
	// Port to listen on; zero takes a free one, kept across restarts.
	Port int
	// Config is nats-server configuration text, for its authorization. Empty: one random password.
	Config string
	// Log receives the server's warnings and errors; nil discards them.
	Log *slog.Logger
}

// Server is an embedded NATS server.
type Server struct {
	opts     Options
	password string
	temp     bool

	mu   sync.Mutex
	ns   *server.Server
	port int
}

// Start runs a server and returns when it accepts connections.
func Start(ctx context.Context, o Options) (*Server, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{opts: o, port: o.Port, password: rand.Text()}
	if o.Dir == "" {
		dir, err := os.MkdirTemp("", "countersign-nats-")
		if err != nil {
			return nil, fmt.Errorf("start nats: %w", err)
		}
		s.opts.Dir, s.temp = dir, true
	}
	if err := s.Restart(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// URL is where clients connect, with the password when there is one.
func (s *Server) URL() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := url.URL{Scheme: "nats", Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port))}
	if s.opts.Config == "" {
		u.User = url.UserPassword(user, s.password)
	}
	return u.String()
}

// Restart stops the server if it runs and starts it on the same port with the
// same files. What a memory stream held is gone.
func (s *Server) Restart(ctx context.Context) error {
	s.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	deadline := time.Now().Add(readyWithin)
	for {
		// A port that was ours a moment ago may be held by a connection that is closing.
		ns, err := s.start()
		if err == nil {
			s.ns = ns
			s.port = ns.Addr().(*net.TCPAddr).Port
			return nil
		}
		if s.port == 0 || ctx.Err() != nil || time.Now().After(deadline) {
			return fmt.Errorf("start nats on 127.0.0.1:%d: %w", s.port, errors.Join(err, ctx.Err()))
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (s *Server) start() (*server.Server, error) {
	o, err := s.options()
	if err != nil {
		return nil, err
	}
	ns, err := server.NewServer(o)
	if err != nil {
		return nil, err
	}
	complaints := &logger{log: s.opts.Log}
	ns.SetLoggerV2(complaints, false, false, false)
	ns.Start()
	deadline := time.Now().Add(readyWithin)
	for !ns.ReadyForConnections(100 * time.Millisecond) {
		// What is wrong is reported through the logger only: the server then never becomes ready.
		if fatal := complaints.fatal.Load(); fatal != nil || time.Now().After(deadline) {
			ns.Shutdown()
			ns.WaitForShutdown()
			return nil, fmt.Errorf("not ready: %s", complaints)
		}
	}
	return ns, nil
}

func (s *Server) options() (*server.Options, error) {
	o := &server.Options{}
	if s.opts.Config != "" {
		if err := o.ProcessConfigString(s.opts.Config); err != nil {
			return nil, fmt.Errorf("read the nats configuration: %w", err)
		}
	} else {
		o.Username, o.Password = user, s.password
	}
	o.ServerName = "countersign-local"
	o.Host = "127.0.0.1"
	o.Port = s.port
	if o.Port == 0 {
		o.Port = server.RANDOM_PORT
	}
	o.JetStream = true
	o.StoreDir = s.opts.Dir
	o.JetStreamMaxMemory = 64 << 20
	o.JetStreamMaxStore = 256 << 20
	o.NoSigs = true
	return o, nil
}

// Stop ends the server and returns when it has gone. Restart brings it back. Idempotent.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ns == nil {
		return
	}
	s.ns.Shutdown()
	s.ns.WaitForShutdown()
	s.ns = nil
}

// Close stops the server for good and removes its folder when it was a temporary one. Idempotent.
func (s *Server) Close() {
	s.Stop()
	if s.temp {
		if err := os.RemoveAll(s.opts.Dir); err != nil {
			s.opts.Log.Warn("remove the nats folder", "err", err)
		}
	}
}

// logger passes on what the server complains about. Its notices are its own story.
type logger struct {
	log *slog.Logger
	// fatal is why the server will never be ready.
	fatal atomic.Pointer[string]
}

func (l *logger) Noticef(string, ...any) {}
func (l *logger) Debugf(string, ...any)  {}
func (l *logger) Tracef(string, ...any)  {}

func (l *logger) Warnf(format string, v ...any) {
	l.log.Warn("nats server", "text", fmt.Sprintf(format, v...))
}

func (l *logger) Errorf(format string, v ...any) {
	l.log.Error("nats server", "text", fmt.Sprintf(format, v...))
}

// Fatalf does not end the process: Start reports it.
func (l *logger) Fatalf(format string, v ...any) {
	text := fmt.Sprintf(format, v...)
	l.fatal.Store(&text)
	l.log.Error("nats server", "text", text)
}

// String is why the server is not ready.
func (l *logger) String() string {
	if text := l.fatal.Load(); text != nil {
		return *text
	}
	return fmt.Sprintf("no answer within %s", readyWithin)
}
